// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases over real recordings that are not part of the project; ignored where `../shared/data` is absent.

#[path = "support/describe.rs"]
mod describe;
#[path = "shared_data/perf_data.rs"]
mod perf_data;
#[path = "shared_data/perf_text.rs"]
mod perf_text;
#[path = "shared_data/profile.rs"]
mod profile;
#[path = "shared_data/readers.rs"]
mod readers;
mod support;

use libtest_mimic::Arguments;

fn main() {
    let mut cases = Vec::new();
    cases.extend(readers::cases());
    cases.extend(profile::cases());
    cases.extend(perf_data::cases());
    cases.extend(perf_text::cases());
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}
