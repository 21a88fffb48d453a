// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds and training commands that fail, never end, leave servers behind or are interrupted.

use super::project::{OptimizedProject, code, err};
use crate::projects::ProjectKind;
use crate::sandbox::SANDBOX;
use libtest_mimic::Trial;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let make = [Need::Program("gcc"), Need::Program("make")];
    vec![
        case("a_build_that_fails", &make, a_build_that_fails),
        case("a_training_command_that_fails", &make, a_training_command_that_fails),
        case("a_training_command_that_never_ends", &make, a_training_command_that_never_ends),
        case("a_training_command_of_another_program", &make, a_training_command_of_another_program),
        case("a_training_command_of_another_build", &make, a_training_command_of_another_build),
        case("a_build_that_writes_above_its_folder", &make, a_build_that_writes_above_its_folder),
        case("a_compiler_called_by_its_path", &make, a_compiler_called_by_its_path),
        case("a_build_with_an_order_of_its_own", &make, a_build_with_an_order_of_its_own),
        case("a_build_without_symbols", &make, a_build_without_symbols),
        case("a_server_that_was_left_running", &make, a_server_that_was_left_running),
        case("an_interrupted_run_continues", &make, an_interrupted_run_continues),
        case("an_interrupted_second_build_continues", &make, an_interrupted_second_build_continues),
        case("a_folder_of_someone_else", &make, a_folder_of_someone_else),
        case("a_machine_that_cannot_record", &make, a_machine_that_cannot_record),
    ]
}

/// Checks the exit code of a failing run, and the data in its message.
#[track_caller]
fn fails(
    project: &OptimizedProject,
    options: &[&str],
    build: &[&str],
    expected: i32,
    data: &[&str],
) -> String {
    let output = project.run(options, build);
    let said = err(&output);
    assert_eq!(code(&output), expected, "{said}");
    assert!(output.stdout.is_empty());
    for word in data {
        assert!(said.contains(word), "no {word} in {said}");
    }
    assert_eq!(project.processes(), Vec::<String>::new(), "left running");
    said
}

fn a_build_that_fails() {
    let project = OptimizedProject::of(ProjectKind::Make);
    std::fs::write(project.path("program.c"), "int main(void) { return missing; }\n").unwrap();
    let data = ["building.log", "no-such-program: not found"];
    fails(&project, &["--train", "./toy"], &["no-such-program"], 1, &data);
}

fn a_training_command_that_fails() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let first = ["(`./toy; exit 3`)", "exit code 3", "training-1.log"];
    fails(&project, &["--train", "./toy; exit 3"], &["make"], 1, &first);
    let second = ["after: build; changed: --train\n", "(`./no-such-program`)", "training-1.log"];
    fails(&project, &["--train", "./no-such-program"], &["make"], 1, &second);
}

fn a_training_command_that_never_ends() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let options = ["--train", "./toy; sleep 1000", "--timeout", "3"];
    fails(&project, &options, &["make"], 1, &["sleep 1000", " 3 s", "--timeout"]);
}

fn a_training_command_of_another_program() {
    let project = OptimizedProject::of(ProjectKind::Make);
    fails(&project, &["--train", "ls"], &["make"], 1, &[": toy\n"]);
}

/// The tree's own program is not the one built in the copy.
fn a_training_command_of_another_build() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CC=gcc CFLAGS=-O1");
    let toy = format!("'{}'", project.path("toy").canonicalize().unwrap().display());
    fails(&project, &["--train", &toy], &["make"], 1, &[".sediment/tree/toy: ", &toy, "build-id"]);
    let mixed = format!("./toy; {toy}");
    let output = project.run(&["--train", "./toy", "--train", &toy, "--json"], &["make"]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    let relinks = ["--train", "touch program.c && make && ./toy"];
    fails(&project, &relinks, &["make"], 1, &["(`touch program.c && make && ./toy`) changed toy"]);
    let report = project.optimize(&["--train", &mixed, "--json"], &["make"]);
    project.is_ordered(&report, &["toy"]);
}

/// In a copy, this is the working folder.
fn a_build_that_writes_above_its_folder() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let train = ["--train", "./toy"];
    let linked = [".sediment/toy: ", "--in-place"];
    fails(&project, &train, &["make && gcc -o ../toy program.o"], 1, &linked);
    fails(&project, &train, &["make && cp toy ../bin/"], 1, &[".sediment/bin/toy: ", "--in-place"]);
    project.optimize(&["--train", "./toy", "--json"], &["make"]);
    // Into the tree itself.
    let output = project.run(&["--train", "./toy", "--json"], &["make && cp toy ../../elsewhere"]);
    let warned = |line: &str| line.starts_with("sediment: warning: ") && line.ends_with(": elsewhere");
    assert!(code(&output) == 0 && err(&output).lines().any(warned), "{}", err(&output));
}

fn a_compiler_called_by_its_path() {
    let gcc = support::program("gcc").unwrap();
    let compiler = format!("CC={}", gcc.display());
    let project = OptimizedProject::of(ProjectKind::Make);
    fails(&project, &["--train", "./toy"], &["make", &compiler], 1, &["toy: ", "-ffunction-sections"]);
    // One object of several.
    let own = "int other(int, char **);\nint main(int count, char **words) { return other(count, words); }\n";
    std::fs::write(project.path("own.c"), own).unwrap();
    let more = "int third(int x) { return x; }\nint second(int x) { return third(x); }\nint first(int x) { return second(x); }\n\
                int work(int, char **);\nint other(int count, char **words) { return first(0) + work(count, words); }\n";
    std::fs::write(project.path("more.c"), more).unwrap();
    let gcc = gcc.display();
    let build = format!(
        "gcc -c own.c && {gcc} -O0 -c more.c && {gcc} -Dmain=work -c program.c && gcc -o toy own.o more.o program.o"
    );
    let output = project.run(&["--train", "./toy", "--json"], &[&build]);
    let warned =
        |line: &str| line.starts_with("sediment: warning: toy: ") && line.contains("-ffunction-sections");
    assert!(code(&output) == 0 && err(&output).lines().any(warned), "{}", err(&output));
}

/// In this case the compiler is not the cause.
fn a_build_with_an_order_of_its_own() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let own = "SECTIONS { .text.own : { *(.text.main) } } INSERT BEFORE .text;\n";
    std::fs::write(project.path("own.ld"), own).unwrap();
    let build = ["make", "LDFLAGS=-Wl,-T,own.ld"];
    let said = fails(&project, &["--train", "./toy"], &build, 1, &["toy: ", "(-T own.ld)"]);
    assert!(!said.contains("-ffunction-sections"), "{said}");
}

fn a_build_without_symbols() {
    let project = OptimizedProject::of(ProjectKind::Make);
    fails(&project, &["--train", "./toy"], &["make", "LDFLAGS=-s"], 1, &[" toy,", "install -s"]);
}

fn a_server_that_was_left_running() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let train = "./toy; setsid sleep 1000 > /dev/null 2>&1 &";
    let report = project.optimize(&["--train", train, "--json"], &["make"]);
    project.is_ordered(&report, &["toy"]);
    assert_eq!(project.processes(), Vec::<String>::new(), "left running");
}

/// Starts a run, interrupts it as soon as a file of its working folder exists, and continues it.
fn interrupted(file: &str, train: &str, build: &[&str], done: &str) {
    let project = OptimizedProject::of(ProjectKind::Make);
    let run = project
        .command(&["--train", train, "--json"], build)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !project.path(".sediment").join(file).exists() {
        assert!(begun.elapsed() < Duration::from_secs(120), "no {file}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    let output = run.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", err(&output));
    assert_eq!(project.processes(), Vec::<String>::new(), "left running");
    std::fs::write(project.path("../go-on"), "").unwrap();
    let output = project.run(&["--train", train, "--json"], build);
    assert!(code(&output) == 0 && err(&output).contains(&format!("after: {done}\n")), "{}", err(&output));
}

fn an_interrupted_run_continues() {
    let train = "test -e ../../../go-on || sleep 1000; ./toy";
    interrupted("training-1.log", train, &["make"], "build");
}

/// In that state the programs are removed, to be linked again.
fn an_interrupted_second_build_continues() {
    let build = "test ! -e ../linking-in-order.log || test -e ../../../go-on || sleep 1000; make";
    interrupted("linking-in-order.log", "./toy", &[build], "training 1");
}

fn a_folder_of_someone_else() {
    let project = OptimizedProject::of(ProjectKind::Make);
    std::fs::create_dir(project.path("mine")).unwrap();
    std::fs::write(project.path("mine/letter"), "dear").unwrap();
    fails(&project, &["--work", "mine", "--train", "./toy"], &["make"], 2, &["/mine: ", "--work DIR"]);
    assert_eq!(std::fs::read_to_string(project.path("mine/letter")).unwrap(), "dear");
}

/// This is reported before the build.
fn a_machine_that_cannot_record() {
    let project = OptimizedProject::of(ProjectKind::Make);
    std::fs::write(project.path("../sandbox.c"), SANDBOX).unwrap();
    project.shell("gcc -o ../sandbox ../sandbox.c");
    let command = project.command(&["--train", "./toy", "--startup", "./toy"], &["make"]);
    let mut sandbox = Command::new(project.path("../sandbox"));
    sandbox.arg(command.get_program()).args(command.get_args()).current_dir(project.path(""));
    let output = sandbox.stdin(Stdio::null()).output().unwrap();
    assert!(code(&output) == 6 && err(&output).contains("--cap-add=SYS_PTRACE"), "{}", err(&output));
    assert!(!project.path(".sediment").exists());
}
