// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases that run real compilers, linkers and profilers.

#[path = "support/graphs.rs"]
mod graphs;
#[path = "toolchain/hostile_link.rs"]
mod hostile_link;
#[path = "support/json.rs"]
mod json;
#[path = "toolchain/layout.rs"]
mod layout;
#[path = "toolchain/link.rs"]
mod link;
#[path = "support/lld.rs"]
mod lld;
#[path = "toolchain/measure.rs"]
mod measure;
#[path = "toolchain/perf_data.rs"]
mod perf_data;
#[path = "support/perf_data_writer.rs"]
mod perf_data_writer;
#[path = "toolchain/profile.rs"]
mod profile;
#[path = "toolchain/readers.rs"]
mod readers;
#[path = "toolchain/resolve.rs"]
mod resolve;
mod support;

use libtest_mimic::Arguments;

fn main() {
    let mut cases = Vec::new();
    cases.extend(layout::cases());
    cases.extend(link::cases());
    cases.extend(measure::cases());
    cases.extend(perf_data::cases());
    cases.extend(readers::cases());
    cases.extend(profile::cases());
    cases.extend(resolve::cases());
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}
