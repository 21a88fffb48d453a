// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and processes of the user, which must never be changed, ended or lost.

use super::project::{OptimizedProject, code, err};
use crate::projects::ProjectKind;
use libtest_mimic::Trial;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let make = [Need::Program("gcc"), Need::Program("make")];
    vec![
        case("working_folders_of_others_stay", &make, working_folders_of_others_stay),
        case("the_first_originals_come_back", &make, the_first_originals_come_back),
        case("saved_files_go_nowhere_else", &make, saved_files_go_nowhere_else),
        case("a_damaged_list_is_an_error", &make, a_damaged_list_is_an_error),
        case("links_into_the_tree_lead_into_the_copy", &make, links_into_the_tree_lead_into_the_copy),
        case("links_by_absolute_paths_are_an_error", &make, links_by_absolute_paths_are_an_error),
        case("expected_results_stay", &make, expected_results_stay),
        case("folders_that_a_build_removes_come_back", &make, folders_that_a_build_removes_come_back),
        case("hard_links_are_not_written_through", &make, hard_links_are_not_written_through),
        case(
            "undone_in_a_member_of_a_workspace",
            &[Need::Program("cargo")],
            undone_in_a_member_of_a_workspace,
        ),
        case("symbolic_links_to_programs_come_back", &make, symbolic_links_to_programs_come_back),
        case("pipes_in_the_tree_are_not_opened", &make, pipes_in_the_tree_are_not_opened),
        case("older_processes_go_on", &make, older_processes_go_on),
        case("read_only_folders_are_removed", &make, read_only_folders_are_removed),
    ]
}

fn refused(project: &OptimizedProject, options: &[&str], data: &[&str]) {
    let before = project.files();
    let output = project.run(&[options, &["--train", "./toy"]].concat(), &["make"]);
    assert!(code(&output) == 2 && data.iter().all(|word| err(&output).contains(word)), "{}", err(&output));
    assert_eq!(project.files(), before);
}

fn working_folders_of_others_stay() {
    let project = OptimizedProject::of(ProjectKind::Make);
    std::fs::create_dir_all(project.path("data/keep")).unwrap();
    for state in ["{\"mine\":1}", "", "{\"sediment-optimize\":999}"] {
        std::fs::write(project.path("data/state.json"), state).unwrap();
        refused(&project, &["--work", "data"], &["/data: ", "--work DIR"]);
        assert!(project.path("data/keep").is_dir());
    }
    refused(&project, &["--work", ".."], &["--work DIR"]);
    refused(&project, &["--work", "."], &["--work DIR"]);
    refused(&project, &["--work", "a:b"], &["PATH", "/a:b", "--work DIR"]);
    std::fs::write(project.path("CMakeCache.txt"), "").unwrap();
    refused(&project, &[], &["CMakeCache.txt", "--in-place"]);
}

/// A later run in a copy does not forget them.
fn the_first_originals_come_back() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CC=gcc CFLAGS=-O1 && chmod 2755 toy");
    let before = std::fs::read(project.path("toy")).unwrap();
    project.shell("cp toy kept && make clean && cp -p kept toy && chmod 2755 toy");
    project.optimize(&["--in-place", "--train", "./toy", "--json"], &["make clean && make CFLAGS=-O2"]);
    assert_ne!(std::fs::read(project.path("toy")).unwrap(), before);
    project.optimize(&["--train", "./toy", "--json"], &["make clean && make"]);
    let undone = project.run(&["--undo"], &[]);
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert_eq!(std::fs::read(project.path("toy")).unwrap(), before);
    assert_eq!(std::fs::metadata(project.path("toy")).unwrap().permissions().mode() & 0o7777, 0o2755);
}

/// Nothing is removed or restored partially.
fn a_damaged_list_is_an_error() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let kept = |name: &str| project.path(".sediment/saved").join(name);
    project.optimize(&["--in-place", "--train", "./toy", "--json"], &["make"]);
    for name in ["list.json", "added.json"] {
        let whole = std::fs::read(kept(name)).unwrap();
        std::fs::write(kept(name), &whole[..whole.len() - 1]).unwrap();
        let damaged = project.run(&["--undo"], &[]);
        let file = format!("/.sediment/saved/{name}: ");
        assert!(code(&damaged) == 1 && err(&damaged).contains(&file), "{}", err(&damaged));
        assert!(project.path("toy").is_file());
        std::fs::write(kept(name), whole).unwrap();
    }
    let undone = project.run(&["--undo"], &[]);
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert!(!project.path("toy").exists());
}

/// The working folder may be part of untrusted sources.
fn saved_files_go_nowhere_else() {
    let project = OptimizedProject::of(ProjectKind::Make);
    std::fs::create_dir_all(project.path(".sediment/saved")).unwrap();
    std::fs::write(project.path("../victim"), "dear").unwrap();
    std::fs::write(project.path(".sediment/saved/0"), "changed").unwrap();
    std::fs::write(
        project.path(".sediment/state.json"),
        "{\"sediment-optimize\":1,\"request\":{\"in_place\":true},\"steps\":[],\"facts\":{}}",
    )
    .unwrap();
    let outside = project.path("../victim").canonicalize().unwrap();
    let within = format!("{}/../victim", project.path("").canonicalize().unwrap().display());
    for (path, saved) in [(outside.to_str().unwrap(), "0"), (&within, "0"), (&within, "../../program.c")] {
        let list = serde_json::json!([{ "path": path.as_bytes(), "saved": saved, "owner": [0, 0] }]);
        std::fs::write(project.path(".sediment/saved/list.json"), list.to_string()).unwrap();
        let undone = project.run(&["--undo"], &[]);
        assert_eq!(code(&undone), 1, "{}", err(&undone));
        assert_eq!(std::fs::read_to_string(project.path("../victim")).unwrap(), "dear");
    }
}

fn links_into_the_tree_lead_into_the_copy() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let tree = project.path("").canonicalize().unwrap();
    std::fs::create_dir(tree.join("out")).unwrap();
    std::fs::write(tree.join("out/toy"), "mine").unwrap();
    std::os::unix::fs::symlink(tree.join("out"), tree.join("o")).unwrap();
    project.optimize(&["--train", "o/toy", "--json"], &["make && rm -f o/toy && gcc -o o/toy *.o"]);
    assert_eq!(std::fs::read_to_string(tree.join("out/toy")).unwrap(), "mine");
}

fn links_by_absolute_paths_are_an_error() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let toy = project.path("").canonicalize().unwrap().join("absolute");
    let build = format!("make && gcc -o '{}' *.o", toy.display());
    let output = project.run(&["--train", "./toy"], &[&build]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert!(err(&output).contains("--in-place"), "{}", err(&output));
}

/// A shell may have started some, and then executed this command.
fn older_processes_go_on() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let line =
        "sleep 300 >/dev/null 2>&1 & echo $! >../sleeper; exec \"$0\" optimize --train ./toy --json -- make";
    let done = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_sediment")])
        .current_dir(project.path(""))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", err(&done));
    let sleeper = std::fs::read_to_string(project.path("../sleeper")).unwrap();
    let ended = Command::new("kill").arg(sleeper.trim()).status().unwrap();
    assert!(ended.success(), "it was ended before");
}

/// Like the folders of Go's module cache.
fn read_only_folders_are_removed() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let build = "make && mkdir -p cache/module && touch cache/module/file && chmod -R a-w cache";
    project.optimize(&["--train", "./toy", "--json"], &[build]);
    project.optimize(&["--train", "./toy", "--json"], &["make"]);
    let undone = project.run(&["--undo"], &[]);
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert!(!project.path(".sediment").exists());
}

/// A checked-in program that equals the output of the first build.
fn expected_results_stay() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CC='gcc -ffunction-sections' && mkdir golden && cp -p toy golden/ && make clean");
    let golden = std::fs::read(project.path("golden/toy")).unwrap();
    let options = ["--in-place", "--train", "./toy", "--ship", "order", "--json"];
    let build = "make && mkdir -p copies && cp toy copies/ && sleep 0.05 && ln -f toy copies/linked";
    project.optimize(&options, &[build]);
    let before = std::fs::read(project.path(".sediment/before/0/toy")).unwrap();
    assert_eq!(before, golden, "not the case that this is about");
    assert_eq!(std::fs::read(project.path("golden/toy")).unwrap(), golden);
    let ordered = std::fs::read(project.path("toy")).unwrap();
    assert_ne!(ordered, golden);
    for copy in ["copies/toy", "copies/linked"] {
        assert_eq!(std::fs::read(project.path(copy)).unwrap(), ordered, "{copy}");
    }
    // A build copies it again, which fails if both are the same file.
    project.shell("cp toy copies/toy");
    project.optimize(&options, &["make clean; make && cp toy copies/"]);
    let undone = project.run(&["--undo"], &[]);
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert_eq!(std::fs::read(project.path("golden/toy")).unwrap(), golden);
    assert_eq!(std::fs::read_dir(project.path("copies")).unwrap().count(), 0, "copies of the first run, too");
}

fn folders_that_a_build_removes_come_back() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CC=gcc CFLAGS=-O1 && mkdir -p out/bin && mv toy out/bin/older && make clean");
    let older = std::fs::read(project.path("out/bin/older")).unwrap();
    project.optimize(&["--in-place", "--train", "./toy", "--json"], &["rm -rf out; make"]);
    let undone = project.run(&["--undo"], &[]);
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert_eq!(std::fs::read(project.path("out/bin/older")).unwrap(), older);
}

/// A name of the program outside the tree, such as of an installed program.
fn hard_links_are_not_written_through() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CC=gcc CFLAGS=-O1 && ln toy ../installed && rm program.o && touch program.c");
    let installed = std::fs::read(project.path("../installed")).unwrap();
    project.optimize(&["--in-place", "--train", "./toy", "--json"], &["make"]);
    assert_eq!(std::fs::read(project.path("../installed")).unwrap(), installed);
    assert_eq!(code(&project.run(&["--undo"], &[])), 0);
    assert_eq!(std::fs::read(project.path("toy")).unwrap(), installed);
    assert_eq!(std::fs::read(project.path("../installed")).unwrap(), installed);
}

fn undone_in_a_member_of_a_workspace() {
    let member = "[package]\nname = \"member\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let state = "{\"sediment-optimize\":1,\"request\":{\"in_place\":false},\"steps\":[],\"facts\":{}}";
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"member\"]\n"),
        ("member/Cargo.toml", member),
        ("member/src/main.rs", "fn main() {}\n"),
        (".sediment/state.json", state),
    ];
    let project = OptimizedProject::new(&files.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let program = project.path("../cargo-sediment");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), &program).unwrap();
    let undone = Command::new(program)
        .args(["sediment", "--undo"])
        .current_dir(project.path("member"))
        .output()
        .unwrap();
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert!(!project.path(".sediment").exists());
}

/// A linker replaces them by its output.
fn symbolic_links_to_programs_come_back() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CC=gcc CFLAGS=-O1 && mv toy ../installed && ln -s ../installed toy && rm program.o && touch program.c");
    let installed = std::fs::read(project.path("../installed")).unwrap();
    project.optimize(&["--in-place", "--train", "./toy", "--json"], &["make -B"]);
    assert_eq!(std::fs::read(project.path("../installed")).unwrap(), installed);
    let undone = project.run(&["--undo"], &[]);
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert_eq!(std::fs::read_link(project.path("toy")).unwrap().to_str(), Some("../installed"));
}

/// Opening one would block forever.
fn pipes_in_the_tree_are_not_opened() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("mkfifo pipe pipe.o && ln -s pipe link");
    project.optimize(&["--in-place", "--train", "./toy", "--json"], &["make"]);
    assert_eq!(code(&project.run(&["--undo"], &[])), 0);
    project.optimize(&["--train", "./toy", "--json"], &["make"]);
}
