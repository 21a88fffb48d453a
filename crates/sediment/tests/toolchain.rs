// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases that run real compilers, linkers and profilers.

mod support;

use libtest_mimic::Arguments;

fn main() {
    let cases = Vec::new();
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}
