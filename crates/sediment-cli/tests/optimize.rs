// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment optimize`: projects of several build systems from their sources to an ordered and measured program, and what goes wrong.

mod projects;
#[path = "../../sediment/tests/support/said.rs"]
mod said;
#[path = "../../sediment/tests/support/mod.rs"]
mod support;

#[path = "optimize/bad_input.rs"]
mod bad_input;
#[path = "optimize/harm.rs"]
mod harm;
#[path = "optimize/project.rs"]
mod project;

use libtest_mimic::{Arguments, Trial};
use project::{Project, code, err};
use projects::Kind;
use support::{Need, case};

fn main() {
    let mut cases = good_input();
    cases.extend(bad_input::cases());
    cases.extend(harm::cases());
    libtest_mimic::run(&Arguments::from_args(), cases).exit();
}

fn good_input() -> Vec<Trial> {
    let make = [Need::Program("gcc"), Need::Program("make")];
    let autotools =
        [&make[..], &[Need::Program("autoreconf"), Need::Program("automake"), Need::Program("libtoolize")]]
            .concat();
    let cmake = [&make[..], &[Need::Program("cmake"), Need::Program("g++")]].concat();
    let ninja = [&cmake[..], &[Need::Program("ninja")]].concat();
    let meson = [Need::Program("gcc"), Need::Program("meson"), Need::Program("ninja")];
    vec![
        case("make_in_a_folder_with_a_blank", &make, make_in_a_folder_with_a_blank),
        case("autotools_with_a_library", &autotools, autotools_with_a_library),
        case("cmake_with_a_library", &cmake, cmake_with_a_library),
        case("cmake_with_ninja", &ninja, cmake_with_ninja),
        case("meson_with_a_library", &meson, meson_with_a_library),
        case("cargo_project", &[Need::Program("gcc"), Need::Program("cargo")], cargo_project),
        case("start_and_training_together", &make, start_and_training_together),
        case("built_in_place_and_undone", &make, built_in_place_and_undone),
        case("earlier_objects_are_not_taken", &make, earlier_objects_are_not_taken),
    ]
}

fn make_in_a_folder_with_a_blank() {
    let project = Project::of(Kind::Make);
    let before = project.files();
    let report = project.optimize(&["--train", "./toy", "--keep-profile", "../kept.gv", "--json"], &["make"]);
    project.is_ordered(&report, &["toy"]);
    assert_eq!(project.files(), before, "the tree itself is unchanged");
    assert!(project.path("../kept.gv").is_file());
    assert!(project.path(".sediment/report-toy.html").is_file());
    let again = project.run(&["--train", "./toy"], &["make"]);
    assert_eq!(code(&again), 0, "{}", err(&again));
}

fn autotools_with_a_library() {
    let project = Project::of(Kind::Autotools);
    let build = "autoreconf -fi && ./configure && make";
    let report = project.optimize(&["--train", "./toy", "--json"], &[build]);
    project.is_ordered(&report, &["libtoy.so.1.0.0", "toy"]);
}

fn cmake_with_a_library() {
    let project = Project::of(Kind::CMake);
    let build = "cmake -S . -B build && cmake --build build";
    let report = project.optimize(&["--train", "build/toy", "--json"], &[build]);
    project.is_ordered(&report, &["libtoy.so.1.0", "toy"]);
}

fn cmake_with_ninja() {
    let project = Project::of(Kind::CMake);
    let build = "cmake -G Ninja -S . -B build && ninja -C build";
    let report = project.optimize(&["--train", "build/toy", "--json"], &[build]);
    project.is_ordered(&report, &["libtoy.so.1.0", "toy"]);
}

fn meson_with_a_library() {
    let project = Project::of(Kind::Meson);
    let build = "test -d build || meson setup build; ninja -C build";
    let report = project.optimize(&["--train", "build/toy", "--json"], &[build]);
    project.is_ordered(&report, &["libtoy.so.1", "toy"]);
}

fn cargo_project() {
    let manifest = "[package]\nname = \"toy\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n[profile.release]\nstrip = true\n\n[workspace]\n";
    let project = Project::new(&[
        ("Cargo.toml".to_owned(), manifest.to_owned()),
        ("src/main.rs".to_owned(), project::RUST.to_owned()),
    ]);
    let report = project.optimize(
        &["--train", "target/release/toy", "--json"],
        &["cargo", "build", "--release", "--offline"],
    );
    let [output] = report["outputs"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(output["name"], "toy");
    assert!(output["weight_placed_percent"].as_f64().unwrap() > 95.0, "{report}");
}

fn start_and_training_together() {
    let project = Project::of(Kind::Make);
    let report = project.optimize(&["--train", "./toy", "--startup", "./toy", "--json"], &["make"]);
    project.is_ordered(&report, &["toy"]);
    let settings = std::fs::read_to_string(project.path(".sediment/profiles/sediment.conf")).unwrap();
    assert_eq!(settings, "sediment = 1\noptimize-for = both\n");
}

fn built_in_place_and_undone() {
    let project = Project::of(Kind::Make);
    project.shell("make CC=gcc CFLAGS=-O1");
    let before = std::fs::read(project.path("toy")).unwrap();
    project.shell("make clean && make CC=gcc CFLAGS=-O1 && rm program.o");
    let report = project.optimize(&["--in-place", "--train", "./toy", "--json"], &["make", "CFLAGS=-O2"]);
    project.is_ordered(&report, &["toy"]);
    assert_ne!(std::fs::read(project.path("toy")).unwrap(), before);
    let undone = project.run(&["--undo"], &[]);
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert_eq!(std::fs::read(project.path("toy")).unwrap(), before);
    assert!(!project.path(".sediment").exists());
}

fn earlier_objects_are_not_taken() {
    let project = Project::of(Kind::Make);
    project.shell("make CC=gcc CFLAGS=-O1");
    let report = project.optimize(&["--train", "./toy", "--json"], &["make"]);
    project.is_ordered(&report, &["toy"]);
}
