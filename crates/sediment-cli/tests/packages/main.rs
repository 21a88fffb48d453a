// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian and RPM packages, of toys and of sediment itself.

#[path = "../build/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod build;
mod own_packages;
mod package_deb;
#[path = "../projects/mod.rs"]
mod projects;
mod recipes;
mod rpm;
mod rpm_flags;
#[path = "../running/mod.rs"]
mod running;

use libtest_mimic::Arguments;
use support::suite;

fn main() {
    let suites = [
        suite("own_packages", own_packages::cases),
        suite("package_deb", package_deb::cases),
        suite("recipes", recipes::cases),
        suite("rpm", rpm::cases),
        suite("rpm_flags", rpm_flags::cases),
    ];
    libtest_mimic::run(&Arguments::from_args(), suites.into_iter().flatten().collect()).exit();
}
