// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of real programs.

#[path = "../compilers/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod compilers;
mod record;
#[path = "../running/mod.rs"]
mod running;
#[path = "../sandbox/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod sandbox;

use libtest_mimic::Arguments;
use support::suite;

fn main() {
    let suites = [suite("record", record::cases)];
    libtest_mimic::run(&Arguments::from_args(), suites.into_iter().flatten().collect()).exit();
}
