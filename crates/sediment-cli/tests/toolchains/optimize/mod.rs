// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment optimize`: projects of several build systems, from their sources to an ordered and measured program; and
//! errors.

mod again;
mod bad_input;
mod harm;
mod killed;
mod levels;
mod measured;
mod pasted;
mod project;
mod recipes;

use crate::projects::ProjectKind;
use libtest_mimic::Trial;
use project::{OptimizedProject, code, err};
use support::{Need, case, long};

pub(crate) fn cases() -> Vec<Trial> {
    let mut cases = good_input();
    cases.extend(again::cases());
    cases.extend(bad_input::cases());
    cases.extend(harm::cases());
    cases.extend(killed::cases());
    cases.extend(levels::cases());
    cases.extend(measured::cases());
    cases.extend(recipes::cases());
    cases.extend(pasted::cases());
    cases
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
        long("autotools_with_a_library", &autotools, autotools_with_a_library),
        long("cmake_with_a_library", &cmake, cmake_with_a_library),
        case("cmake_with_ninja", &ninja, cmake_with_ninja),
        case("meson_with_a_library", &meson, meson_with_a_library),
        case("cargo_project", &[Need::Program("gcc"), Need::Program("cargo")], cargo_project),
        case("start_and_training_together", &make, start_and_training_together),
        case("a_start_that_is_best_as_linked", &make, a_start_that_is_best_as_linked),
        case("built_in_place_and_undone", &make, built_in_place_and_undone),
        case("earlier_objects_are_not_taken", &make, earlier_objects_are_not_taken),
        case("ccache_in_front_of_the_compilers", &make, ccache_in_front_of_the_compilers),
        case(
            "misses_are_priced_and_time_decides",
            &[&make[..], &[Need::Program("valgrind")]].concat(),
            misses_are_priced_and_time_decides,
        ),
    ]
}

fn make_in_a_folder_with_a_blank() {
    let project = OptimizedProject::of(ProjectKind::Make).with_valgrind();
    let before = project.files();
    let options = ["--train", "./toy", "--keep-profile", "../kept.gv", "--json"];
    let report = project.optimize(&options, &["make"]);
    project.is_ordered(&report, &["toy"]);
    assert_eq!(project.files(), before, "the tree itself is unchanged");
    assert!(
        ["nothing-to-gain", "unknown"].contains(&report["verdict"]["code"].as_str().unwrap()),
        "{report}"
    );
    assert!(project.path(".sediment/report-toy.html").is_file());
    // Shipping nothing is a success, and leaves only the working folder.
    assert_eq!((&report["ship"]["level"], &report["recipe"]), (&"none".into(), &serde_json::Value::Null));
    assert!(!project.path("../kept.gv").exists() && !project.path(".sediment/result").exists());
    for file in ["before/toy", "order/toy", "order/toy.gv"] {
        assert!(project.path(".sediment/levels").join(file).is_file(), "{file}");
    }
    let again = project.run(&["--train", "./toy"], &["make"]);
    assert_eq!(code(&again), 0, "{}", err(&again));
    let lines = String::from_utf8(again.stdout).unwrap();
    assert_eq!(lines.lines().filter(|line| line.starts_with("verdict ")).count(), 1, "{lines}");
}

/// Takes long, because configure runs twice. Every run of the tests covers the wrapper with Autotools, and libraries
/// with Meson and Ninja.
fn autotools_with_a_library() {
    let project = OptimizedProject::of(ProjectKind::Autotools);
    let build = "autoreconf -fi && ./configure && make";
    let report = project.optimize(&["--train", "./toy", "--ship", "order", "--json"], &[build]);
    project.is_ordered(&report, &["libtoy.so.1.0.0", "toy"]);
    recipes::paste(&project, &report, build, 2);
}

fn cmake_with_a_library() {
    let project = OptimizedProject::of(ProjectKind::CMake);
    let build = "cmake -S . -B build && cmake --build build";
    let report = project.optimize(&["--train", "build/toy", "--json"], &[build]);
    project.is_ordered(&report, &["libtoy.so.1.0", "toy"]);
}

fn cmake_with_ninja() {
    let project = OptimizedProject::of(ProjectKind::CMake);
    let build = "cmake -G Ninja -S . -B build && ninja -C build";
    let report = project.optimize(&["--train", "build/toy", "--ship", "order", "--json"], &[build]);
    project.is_ordered(&report, &["libtoy.so.1.0", "toy"]);
    recipes::paste(&project, &report, build, 2);
}

fn meson_with_a_library() {
    let project = OptimizedProject::of(ProjectKind::Meson);
    let build = "test -d build || meson setup build; ninja -C build";
    let report = project.optimize(&["--train", "build/toy", "--ship", "order", "--json"], &[build]);
    project.is_ordered(&report, &["libtoy.so.1", "toy"]);
    recipes::paste(&project, &report, build, 2);
}

fn cargo_project() {
    let manifest = "[package]\nname = \"toy\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n[profile.release]\nstrip = true\n\n[workspace]\n";
    let project = OptimizedProject::new(&[
        ("Cargo.toml".to_owned(), manifest.to_owned()),
        ("src/main.rs".to_owned(), project::RUST.to_owned()),
    ]);
    let report = project.optimize(
        &["--train", "target/release/toy", "--ship", "order", "--json"],
        &["cargo", "build", "--release", "--offline"],
    );
    recipes::paste(&project, &report, "", 1);
    let [output] = report["outputs"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(output["name"], "toy");
    assert!(output["weight_placed_percent"].as_f64().unwrap() > 95.0, "{report}");
}

fn start_and_training_together() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let words = ["--train", "./toy", "--startup", "./toy", "--ship", "order", "--json"];
    let report = project.optimize(&words, &["make"]);
    project.is_ordered(&report, &["toy"]);
    recipes::paste(&project, &report, "make", 1);
    // Each link chooses its goal by its profile.
    assert!(!project.path(".sediment/profiles/sediment.conf").exists());
}

fn a_start_that_is_best_as_linked() {
    let makefile = "start: start.c\n\t$(CC) -O2 -falign-functions=1 -o $@ start.c\n";
    let files = [("start.c", crate::projects::start(0)), ("Makefile", makefile.to_owned())];
    let project = OptimizedProject::new(&files.map(|(name, text)| (name.to_owned(), text))).with_valgrind();
    let report = project.optimize(&["--startup", "./start", "--ship", "order", "--json"], &["make"]);
    assert_eq!(report["verdict"]["code"], "nothing-to-gain", "{report}");
    let [output] = report["outputs"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(output["not_ordered"], "the linker's own layout starts best", "{report}");
    let [before, after] =
        ["before", "result"].map(|key| std::fs::read(output[key].as_str().unwrap()).unwrap());
    assert!(before == after, "the second link made another file");
}

fn built_in_place_and_undone() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CC=gcc CFLAGS=-O1");
    let before = std::fs::read(project.path("toy")).unwrap();
    project.shell("make clean && make CC=gcc CFLAGS=-O1 && rm program.o");
    let options = ["--in-place", "--train", "./toy", "--json"];
    let report = project.optimize(&options, &["make", "CFLAGS=-O2"]);
    project.is_ordered(&report, &["toy"]);
    let plain = std::fs::read(project.path("toy")).unwrap();
    assert!(
        plain == std::fs::read(project.path(".sediment/levels/before/toy")).unwrap(),
        "nothing is shipped"
    );
    let options = [&options[..], &["--ship", "order"]].concat();
    project.optimize(&options, &["make", "CFLAGS=-O2"]);
    let ordered = std::fs::read(project.path("toy")).unwrap();
    assert!(ordered != plain && ordered == std::fs::read(project.path(".sediment/result/toy")).unwrap());
    assert_ne!(std::fs::read(project.path("toy")).unwrap(), before);
    project.shell("cp toy mine");
    let undone = project.run(&["--undo"], &[]);
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert_eq!(std::fs::read(project.path("toy")).unwrap(), before);
    assert!(project.path("mine").is_file(), "a copy of the user's");
    assert!(!project.path(".sediment").exists());
}

fn earlier_objects_are_not_taken() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CC=gcc CFLAGS=-O1");
    let report = project.optimize(&["--train", "./toy", "--json"], &["make"]);
    project.is_ordered(&report, &["toy"]);
}

/// It is on PATH under the compilers' names, and searches the compiler in the rest of PATH.
fn ccache_in_front_of_the_compilers() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let ccache = "#!/bin/sh\nown=${0%/*}\nIFS=:\nfor folder in $PATH; do\n\
        test \"$folder\" = \"$own\" || ! test -x \"$folder/${0##*/}\" || exec \"$folder/${0##*/}\" \"$@\"\ndone\nexit 1\n";
    std::fs::create_dir(project.path("../masks")).unwrap();
    let masks = project.path("../masks").canonicalize().unwrap();
    std::fs::write(masks.join("ccache"), ccache).unwrap();
    project.shell("chmod +x ../masks/ccache && ln -s ccache ../masks/cc && ln -s ccache ../masks/gcc");
    let path = format!("{}:{}", masks.display(), std::env::var("PATH").unwrap());
    let output = project
        .command(&["--train", "./toy", "--json"], &["timeout", "60", "make"])
        .env("PATH", path)
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    project.is_ordered(&serde_json::from_slice(&output.stdout).unwrap(), &["toy"]);
}

/// Hot functions, separated by two pages of cold code.
fn misses_are_priced_and_time_decides() {
    const HOT: usize = 100;
    let mut text = String::from("#include <stdio.h>\n");
    let mut sum = String::new();
    for number in 0..HOT {
        text += &format!(
            "__attribute__((noinline)) int hot_{number}(int x) {{ return x * {} + 1; }}\n\
             __attribute__((noinline)) int cold_{number}(int x) {{ __asm__(\".skip 8192\"); return x; }}\n",
            number + 3
        );
        sum += &format!(" sum += hot_{number}(sum);");
    }
    text += &format!(
        "int main(void) {{ unsigned sum = 0; for (int i = 0; i < 20000; i++) {{{sum} }} printf(\"%u\\n\", sum); return 0; }}\n"
    );
    let makefile = "hot: hot.c\n\t$(CC) -O1 -o $@ hot.c\n";
    let files = [("hot.c", text.as_str()), ("Makefile", makefile)];
    let project =
        OptimizedProject::new(&files.map(|(name, text)| (name.to_owned(), text.to_owned()))).with_valgrind();
    let report = project.optimize(&["--train", "./hot", "--json"], &["make"]);
    let measured = &report["measured"][0];
    assert!(measured["worth_percent"]["gained"].as_f64() > Some(0.5), "{report}");
    // Misses are a reason to measure time, which decides: on a busy machine so short a time is inconclusive.
    assert_eq!(measured["cpu_time"]["layouts"], 5, "{report}");
    let code = report["verdict"]["code"].as_str().unwrap();
    assert!(["gain", "unknown"].contains(&code), "{report}");
    // The page has the same verdict, whatever the forecast.
    let page = std::fs::read_to_string(project.path(".sediment/report-hot.html")).unwrap();
    let verdict = page.split("class=\"verdict\">").nth(1).unwrap().split('<').next().unwrap();
    assert_eq!(verdict.contains(": gain: saves "), code == "gain", "{verdict}");
}
