// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program with compilers, linkers and build systems.

#[path = "../build/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod build;
mod clang;
#[path = "../compilers/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod compilers;
mod end_to_end;
mod eval;
mod gcc_plugin;
mod identity;
mod json;
mod languages;
mod line_profiles;
mod optimize;
mod pages;
#[path = "../projects/mod.rs"]
mod projects;
#[path = "../running/mod.rs"]
mod running;
#[path = "../sandbox/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod sandbox;
mod streams;
mod verify_reasons;
mod wrapper;

use libtest_mimic::Arguments;
use support::suite;

fn main() {
    let suites = [
        suite("clang", clang::cases),
        suite("end_to_end", end_to_end::cases),
        suite("eval", eval::cases),
        suite("gcc_plugin", gcc_plugin::cases),
        suite("identity", identity::cases),
        suite("json", json::cases),
        suite("languages", languages::cases),
        suite("line_profiles", line_profiles::cases),
        suite("optimize", optimize::cases),
        suite("pages", pages::cases),
        suite("streams", streams::cases),
        suite("verify_reasons", verify_reasons::cases),
        suite("wrapper", wrapper::cases),
    ];
    libtest_mimic::run(&Arguments::from_args(), suites.into_iter().flatten().collect()).exit();
}
