// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases that run real compilers, linkers and profilers.

#[path = "support/graphs.rs"]
mod graphs;
#[path = "toolchain/layout.rs"]
mod layout;
#[path = "support/lld.rs"]
mod lld;
mod support;

use libtest_mimic::Arguments;

fn main() {
    let cases = layout::cases();
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}
