// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages in a browser: reports and the site.

mod browser;
#[path = "../running/mod.rs"]
mod running;
mod site;

use libtest_mimic::Arguments;
use support::suite;

fn main() {
    let suites = [suite("browser", browser::cases), suite("site", site::cases)];
    libtest_mimic::run(&Arguments::from_args(), suites.into_iter().flatten().collect()).exit();
}
