// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian and RPM packages, of toys and of sediment itself.

mod own_packages;
mod package_deb;
mod rpm;
mod rpm_flags;
#[path = "../build/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod build;
#[path = "../running/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod running;
#[path = "../sandbox/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod sandbox;
#[path = "../projects/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod projects;

use libtest_mimic::Arguments;
use support::suite;

fn main() {
    let suites = [
        suite("own_packages", own_packages::cases),
        suite("package_deb", package_deb::cases),
        suite("rpm", rpm::cases),
        suite("rpm_flags", rpm_flags::cases),
    ];
    libtest_mimic::run(&Arguments::from_args(), suites.into_iter().flatten().collect()).exit();
}
