// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages in a browser: reports and the site.

mod browser;
mod site;
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
        suite("browser", browser::cases),
        suite("site", site::cases),
    ];
    libtest_mimic::run(&Arguments::from_args(), suites.into_iter().flatten().collect()).exit();
}
