// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases that run real compilers, linkers and profilers.

mod support;

#[path = "toolchain/measure.rs"]
mod measure;

use libtest_mimic::Arguments;

fn main() {
    let mut cases = Vec::new();
    cases.extend(measure::cases());
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}
