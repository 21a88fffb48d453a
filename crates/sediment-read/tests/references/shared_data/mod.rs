// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases over real recordings that are not part of the project; ignored where `../shared/data` is absent.

mod perf_data;
mod perf_text;
mod profile;
mod readers;

use libtest_mimic::Trial;

pub(super) fn cases() -> Vec<Trial> {
    [readers::cases(), profile::cases(), perf_data::cases(), perf_text::cases()]
        .into_iter()
        .flatten()
        .collect()
}
