// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs after a finished one, and training commands that are short.

use super::project::{OptimizedProject, code, err};
use crate::projects::ProjectKind;
use libtest_mimic::Trial;
use std::process::Command;
use support::{Need, case, long};

pub fn cases() -> Vec<Trial> {
    let make = [Need::Program("gcc"), Need::Program("make")];
    vec![
        case("a_finished_run_begins_again", &make, a_finished_run_begins_again),
        case("a_run_without_sections_begins_again", &make, a_run_without_sections_begins_again),
        long("a_finished_run_in_place_begins_again", &make, a_finished_run_in_place_begins_again),
        case("start_files_lack_no_sections", &make, start_files_lack_no_sections),
        case(
            "other_commands_take_the_build_that_is_there",
            &make,
            other_commands_take_the_build_that_is_there,
        ),
    ]
}

/// make would consider its programs up to date. A run in a copy then leaves the tree unchanged, and a tree that was
/// moved can be restored.
fn a_finished_run_in_place_begins_again() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("make CFLAGS=-O1 && cp -p toy kept");
    let in_place = ["--in-place", "--train", "./toy", "--json"];
    project.shell("rm toy program.o 2>/dev/null; cp -p kept toy; touch program.c");
    for _ in 0..2 {
        assert!(project.optimize(&in_place, &["make"])["outputs"].is_array());
    }
    let ordered = std::fs::read(project.path("toy")).unwrap();
    project.optimize(&["--train", "./toy", "--json"], &["make -B"]);
    assert_eq!(std::fs::read(project.path("toy")).unwrap(), ordered);
    project.shell("cp -a . ../moved");
    let moved = project.path("../moved");
    let mut undo = Command::new(env!("CARGO_BIN_EXE_sediment"));
    let undone = undo.args(["optimize", "--undo"]).current_dir(&moved).output().unwrap();
    assert_eq!(code(&undone), 0, "{}", err(&undone));
    assert_eq!(std::fs::read(moved.join("toy")).unwrap(), std::fs::read(moved.join("kept")).unwrap());
    assert_eq!(std::fs::read(project.path("toy")).unwrap(), ordered);
}

/// Without a copy, the next run finds the same obstacle, and no obstacle once the compiler is called by its name.
fn a_run_without_sections_begins_again() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let gcc = support::program("gcc").unwrap();
    let options = ["--in-place", "--train", "./toy; ./toy", "--json"];
    let compiler = format!("CC={}", gcc.display());
    for _ in 0..2 {
        let failed = project.run(&options, &["make", &compiler]);
        let hints = ["toy: ", "-ffunction-sections", "make clean && make"];
        assert!(
            code(&failed) == 1 && hints.iter().all(|hint| err(&failed).contains(hint)),
            "{}",
            err(&failed)
        );
    }
    project.is_ordered(&project.optimize(&options, &["make clean && make"]), &["toy"]);
}

/// A second run reports that it begins again, and a run with another folder does not copy the first one's.
fn a_finished_run_begins_again() {
    let project = OptimizedProject::of(ProjectKind::Make);
    let run = |options: &[&str]| {
        let output = project.run(options, &["make"]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        // However short the training command is, its calls are counted.
        assert!(!err(&output).contains("sediment: warning: "), "{}", err(&output));
        err(&output)
    };
    let train = ["--train", "./toy", "--measure", "./toy", "--json"];
    // A line for each of five steps.
    let said = |text: &str| (text.matches("step ").count(), text.matches("step 5 of 5, ").count());
    assert_eq!(said(&run(&train)), (5, 1));
    let again = run(&train);
    assert!(again.contains("--work DIR"), "{again}");
    let elsewhere = ["--train", "./toy; ./toy", "--work", "other", "--json"];
    assert_eq!(said(&run(&elsewhere)), (5, 1));
    assert!(project.path("other/tree/program.c").is_file());
    assert!(!project.path("other/tree/.sediment").exists());
    // The other folder does not count as a changed source, either.
    project.shell("rm other/tree/toy");
    let state = std::fs::read_to_string(project.path(".sediment/state.json")).unwrap();
    std::fs::write(project.path(".sediment/state.json"), state.replace("\"summary\"", "\"none\"")).unwrap();
    let again = run(&train);
    assert!(again.contains("after: none\n"), "{again}");
    let state = std::fs::read_to_string(project.path(".sediment/state.json")).unwrap();
    std::fs::write(project.path(".sediment/state.json"), state.replace("\"summary\"", "\"none\"")).unwrap();
    let again = run(&elsewhere[..2]);
    assert!(again.contains(": --train, --measure\n"), "{again}");
}

/// A training command, or a command to measure, can be corrected without another build.
fn other_commands_take_the_build_that_is_there() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("echo 9 >../input");
    let builds = || std::fs::read_to_string(project.path("../builds")).unwrap().lines().count();
    let log = project.path("../builds");
    let build = format!("echo built >>'{}'; make", log.display());
    let fails = |options: &[&str], data: &[&str]| {
        let failed = project.run(options, &[&build]);
        assert!(
            code(&failed) == 1 && data.iter().all(|word| err(&failed).contains(word)),
            "{}",
            err(&failed)
        );
    };
    // The copy is in another folder.
    let outside = ["training 2 (`./toy <../input`)", ".sediment/tree", "--in-place", "training-2.log"];
    fails(&["--train", "./toy", "--train", "./toy <../input", "--measure", "./toy"], &outside);
    let input = format!("./toy <'{}'", project.path("../input").display());
    let outside =
        ["after: training 1; changed: --train, --measure", "`./toy <../input` (before): ", "--in-place"];
    fails(&["--train", "./toy", "--train", &input, "--measure", "./toy <../input"], &outside);
    assert_eq!(builds(), 2, "the first build, and the one in order");
    let done =
        project.run(&["--train", "./toy", "--train", &input, "--measure", "./toy", "--json"], &[&build]);
    assert!(code(&done) == 0 && err(&done).contains("after: order; changed: --measure\n"), "{}", err(&done));
    let other = ["--train", "./toy", "--train", &input, "--measure", "./toy; ./toy", "--json"];
    let done = project.optimize(&other, &[&build]);
    assert_eq!(done["measured"].as_array().map(Vec::len), Some(1), "{done}");
    assert_eq!(builds(), 2);
    // The advice for an inconclusive verdict: the same command, measured for longer.
    project.optimize(&[&other[..], &["--measure-for", "2s"]].concat(), &[&build]);
    assert_eq!(builds(), 2);
}

/// A small program has more functions of the compiler's start files than its own. That is not an error of the build.
fn start_files_lack_no_sections() {
    let project = OptimizedProject::of(ProjectKind::Make);
    project.shell("echo 'int main(void) { return 0; }' >program.c");
    let run = project.run(&["--train", "./toy", "--json"], &["make"]);
    assert_eq!(code(&run), 0, "{}", err(&run));
    assert!(!err(&run).contains("-ffunction-sections"), "{}", err(&run));
    let log = std::fs::read_to_string(project.path(".sediment/links-after/links.jsonl")).unwrap();
    assert!(log.contains("\"start-file\"") && !log.contains("\"no-own-section\""), "{log}");
}
