// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links with recordings of starts: every goal is compared with the program linked without an order.

use super::sediment;
use crate::build::{BuildFolder, said};
use crate::projects::{CALLED, start};
use libtest_mimic::Trial;
use std::fmt::Write as _;
use std::process::Output;
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = [Need::Program("gcc")];
    vec![
        case("a_start_that_is_best_as_linked_stays_so", &gcc, best_as_linked),
        case("a_scattered_start_is_ordered_for_the_start", &gcc, scattered),
        case("a_start_in_a_stripped_program_is_ordered_for_the_start", &gcc, stripped),
        case("a_link_by_starts_that_fails_says_what_the_linker_says", &gcc, failing),
    ]
}

/// A program of this kind, and a recording of its start.
fn program(build: &BuildFolder, between: usize) {
    std::fs::write(build.path("start.c"), start(between)).unwrap();
    let mut profile = String::from(
        "digraph Callgraph {\n  graph [sediment=2, source=\"breakpoints (first uses) without call counts or own cost\", unit=calls, total=600];\n  subgraph cluster0 {\n    graph [label=\"start\"];\n    \"main\" [first=0];\n",
    );
    for number in 0..CALLED {
        let _ = writeln!(profile, "    \"f{number}\" [first={}];", number + 1);
    }
    profile += "  }\n";
    for number in 0..CALLED {
        let _ = writeln!(profile, "  \"main\" -> \"f{number}\" [count=1];");
    }
    std::fs::write(build.path("profiles/start.prof"), profile + "}\n").unwrap();
}

/// Links without padding between functions, so that an order, whose estimate includes padding, cannot be denser.
fn link(build: &BuildFolder, through_wrapper: bool, more: &[&str]) -> Output {
    let mut compiler = build.compiler("gcc");
    if !through_wrapper {
        compiler.env_remove("PROF_DIR");
    }
    compiler.args(["-falign-functions=1", "-ffunction-sections", "start.c", "-o", "start"]).args(more);
    compiler.output().unwrap()
}

fn best_as_linked() {
    let build = BuildFolder::new();
    program(&build, 0);
    assert!(link(&build, false, &[]).status.success());
    let plain = std::fs::read(build.path("start")).unwrap();
    let linked = link(&build, true, &[]);
    assert!(linked.status.success(), "{}", said(&linked));
    assert!(std::fs::read(build.path("start")).unwrap() == plain, "another file than without the wrapper");
    assert_eq!(build.last()["outcome"], "best as linked");
    assert!(said(&linked).starts_with("sediment: start: "), "{}", said(&linked));
    // It is as its profile requests, whatever the threshold.
    let verified = sediment(&build, &["verify", "--log", "log", "--min-coverage", "95"]);
    assert!(verified.status.success(), "{}", said(&verified));
    assert!(String::from_utf8_lossy(&verified.stdout).contains("/start: "));
    // A goal set by the user is used.
    std::fs::write(build.path("profiles/sediment.conf"), "sediment = 1\noptimize-for = startup\n").unwrap();
    assert!(link(&build, true, &[]).status.success());
    assert_eq!(build.last()["outcome"], "ordered");
}

fn scattered() {
    let build = BuildFolder::new();
    program(&build, 4096);
    let linked = link(&build, true, &[]);
    assert!(linked.status.success() && linked.stderr.is_empty(), "{}", said(&linked));
    let last = build.last();
    assert_eq!(last["outcome"], "ordered", "{last}");
    let order = std::fs::read_to_string(last["order"].as_str().unwrap()).unwrap();
    let place = |name: &str| order.find(&format!("(.text.{name})")).unwrap();
    assert!(place("f1") < place("f2") && place("f2") < place("f10") && place("f10") < place("f599"));
    build.runs("start");
}

/// The linker leaves no names to compare.
fn stripped() {
    let build = BuildFolder::new();
    program(&build, 0);
    let linked = link(&build, true, &["-s"]);
    assert!(linked.status.success() && linked.stderr.is_empty(), "{}", said(&linked));
    assert_eq!(build.last()["outcome"], "ordered");
}

fn failing() {
    let build = BuildFolder::new();
    program(&build, 0);
    let plain = link(&build, false, &["-Wl,--no-such-option"]);
    let linked = link(&build, true, &["-Wl,--no-such-option"]);
    assert_eq!(linked.status.code(), plain.status.code());
    assert_eq!(said(&linked), said(&plain));
    assert!(!build.path("start").exists());
}
