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
#[path = "support/seeds.rs"]
#[allow(dead_code)] // other tests use the rest
mod seeds;
#[path = "shared_data/seeds.rs"]
mod seeds_cases;
mod support;

use libtest_mimic::Arguments;

fn main() {
    let mut cases = Vec::new();
    cases.extend(readers::cases());
    cases.extend(profile::cases());
    cases.extend(perf_data::cases());
    cases.extend(perf_text::cases());
    cases.extend(seeds_cases::cases());
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}
