// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases that run real compilers, linkers and profilers.

#[path = "toolchain/readers.rs"]
mod readers;
mod support;

use libtest_mimic::Arguments;

fn main() {
    let mut cases = Vec::new();
    cases.extend(readers::cases());
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}
