// SPDX-License-Identifier: MIT OR Apache-2.0
//! Killed runs, and trees that changed before a run continues.

use super::project::{OptimizedProject, code, err};
use crate::projects::ProjectKind;
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let make = [Need::Program("gcc"), Need::Program("make")];
    let valgrind = [&make[..], &[Need::Program("valgrind")]].concat();
    vec![
        case("a_killed_simulation_continues", &valgrind, a_killed_simulation_continues),
        case("a_killed_simulation_is_undone", &valgrind, a_killed_simulation_is_undone),
        case("another_run_after_a_killed_simulation", &valgrind, another_run_after_a_killed_simulation),
        case("originals_survive_a_kill_at_each_step", &make, originals_survive_a_kill_at_each_step),
        case("processes_of_a_killed_run_are_named", &make, processes_of_a_killed_run_are_named),
        case("an_edited_source_begins_again", &make, an_edited_source_begins_again),
        case("a_training_command_may_write", &make, a_training_command_may_write),
    ]
}

/// A project with a program from an earlier build, and the bytes of that program.
fn built() -> (OptimizedProject, Vec<u8>) {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CC=gcc CFLAGS=-O1 && rm program.o && touch program.c");
    let toy = std::fs::read(project.path("toy")).unwrap();
    (project, toy)
}

fn start(project: &OptimizedProject, options: &[&str], build: &[&str]) -> Child {
    project.command(options, build).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_secs(120), "no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a run and the processes that it started in the project.
fn kill(project: &OptimizedProject, mut run: Child) {
    run.kill().unwrap();
    run.wait().unwrap();
    for process in project.processes() {
        let _ = Command::new("kill").args(["-KILL", &process]).status();
    }
    wait_for("end of processes", || project.processes().is_empty());
}

/// Command that sleeps while a script replaces the program.
const SLEEPS: &str = "test ! -e .sediment-run-toy || test -e ../go-on || sleep 1000; ./toy";
const IN_PLACE: [&str; 6] = ["--in-place", "--train", "./toy", "--measure", SLEEPS, "--json"];

fn killed_in_simulation() -> (OptimizedProject, Vec<u8>) {
    let (project, toy) = built();
    let project = project.with_valgrind();
    let run = start(&project, &IN_PLACE, &["make"]);
    wait_for("script", || {
        project.path(".sediment-run-toy").exists()
            && std::fs::read(project.path("toy")).is_ok_and(|text| text.starts_with(b"#!"))
    });
    std::thread::sleep(Duration::from_millis(300));
    kill(&project, run);
    std::fs::write(project.path("../go-on"), "").unwrap();
    (project, toy)
}

/// Checks that nothing of ours is left in the tree, and that its program runs.
fn is_clean(project: &OptimizedProject) {
    let names: Vec<String> = project.files().into_keys().collect();
    assert!(!names.iter().any(|name| name.starts_with(".sediment-")), "{names:?}");
    assert!(std::fs::read(project.path("toy")).unwrap().starts_with(b"\x7fELF"));
    project.shell("./toy");
}

fn undo(project: &OptimizedProject, toy: &[u8]) {
    let undone = project.run(&["--undo"], &[]);
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    is_clean(project);
    assert_eq!(std::fs::read(project.path("toy")).unwrap(), toy);
    assert!(!project.path(".sediment").exists());
}

fn succeeds(output: &Output) {
    assert_eq!(code(output), 0, "{}", err(output));
}

fn a_killed_simulation_continues() {
    let (project, toy) = killed_in_simulation();
    let again = project.run(&IN_PLACE, &["make"]);
    succeeds(&again);
    assert!(err(&again).contains(" 1 program ") && err(&again).contains("after: order\n"), "{}", err(&again));
    is_clean(&project);
    undo(&project, &toy);
}

fn a_killed_simulation_is_undone() {
    let (project, toy) = killed_in_simulation();
    undo(&project, &toy);
    // Also without the working folder.
    let (project, _) = killed_in_simulation();
    std::fs::remove_dir_all(project.path(".sediment")).unwrap();
    let ordered = std::fs::read(project.path(".sediment-run-toy")).unwrap();
    assert_eq!(code(&project.run(&["--in-place", "--train", "./toy"], &["false"])), 1);
    undo(&project, &ordered);
}

fn another_run_after_a_killed_simulation() {
    let (project, toy) = killed_in_simulation();
    let other = project.run(&["--in-place", "--train", "./toy 1", "--json"], &["make clean && make"]);
    succeeds(&other);
    assert!(
        err(&other).contains(" 1 program ") && err(&other).contains(", --train, --measure\n"),
        "{}",
        err(&other)
    );
    is_clean(&project);
    undo(&project, &toy);
}

/// If a run is killed at any step, `--undo` restores the first program.
fn originals_survive_a_kill_at_each_step() {
    let (project, toy) = built();
    let modified = std::fs::metadata(project.path("toy")).unwrap().modified().unwrap();
    let steps = ["building.log", "training-1.log", "linking-in-order.log", "scratch"];
    for step in steps {
        let slow = "sleep 0.3; make clean; sleep 0.3; make";
        let run = start(&project, &["--in-place", "--train", "sleep 0.3; ./toy"], &[slow]);
        wait_for(step, || project.path(".sediment").join(step).exists());
        std::thread::sleep(Duration::from_millis(200));
        kill(&project, run);
        undo(&project, &toy);
        assert_eq!(std::fs::metadata(project.path("toy")).unwrap().modified().unwrap(), modified, "{step}");
    }
}

/// Such a process may still write to the tree.
fn processes_of_a_killed_run_are_named() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let build = "test -e ../../../go-on || sleep 1000; make";
    let mut run = start(&project, &["--train", "./toy"], &[build]);
    wait_for("build", || project.path(".sediment/building.log").exists());
    std::thread::sleep(Duration::from_millis(300));
    run.kill().unwrap();
    run.wait().unwrap();
    std::fs::write(project.path("../go-on"), "").unwrap();
    let same = [build];
    for (options, build) in [(&["--train", "./toy"][..], &same[..]), (&["--undo"], &[])] {
        let refused = project.run(options, build);
        assert_eq!(code(&refused), 2, "{}", err(&refused));
        assert!(err(&refused).contains("sleep "), "{}", err(&refused));
    }
    for process in project.processes() {
        let _ = Command::new("kill").args(["-KILL", &process]).status();
    }
    wait_for("end of processes", || project.processes().is_empty());
    succeeds(&project.run(&["--train", "./toy"], &[build]));
}

/// Interrupts a run without a copy during training.
fn interrupted_in_training(project: &OptimizedProject, options: &[&str]) {
    let run = start(project, options, &["make"]);
    wait_for("training", || project.path(".sediment/training-1.log").exists());
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    assert_eq!(code(&run.wait_with_output().unwrap()), 130);
    std::fs::write(project.path("../go-on"), "").unwrap();
}

fn an_edited_source_begins_again() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let options = ["--in-place", "--train", "test -e ../go-on || sleep 1000; ./toy", "--json"];
    interrupted_in_training(&project, &options);
    let source = std::fs::read_to_string(project.path("program.c")).unwrap();
    std::fs::write(project.path("program.c"), source.replace("%d", "edited %d")).unwrap();
    let again = project.run(&options, &["make"]);
    succeeds(&again);
    assert!(err(&again).contains(": program.c\n"), "{}", err(&again));
    let before = Command::new(project.path(".sediment/before/0/toy")).output().unwrap();
    assert!(before.stdout.starts_with(b"edited"), "the program of the sources before the edit was measured");
}

/// It may even write to the tree, which does not count as a change of the sources.
fn a_training_command_may_write() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let train = "echo written > result.txt; test -e ../go-on || sleep 1000; ./toy";
    let options = ["--in-place", "--train", train, "--json", "--keep-profile", "toy.gv", "--ship", "order"];
    interrupted_in_training(&project, &options);
    let again = project.run(&options, &["make"]);
    succeeds(&again);
    assert!(err(&again).contains("after: build\n"), "{}", err(&again));
    assert!(Path::new(&project.path("toy.gv")).is_file());
}
