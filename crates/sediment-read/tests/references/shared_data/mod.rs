// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests on real recordings that are not part of the project; ignored if `../shared/data` is missing.

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
