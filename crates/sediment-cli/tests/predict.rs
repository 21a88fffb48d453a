// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order` for a recorded run, why a function is where it is, and `sediment predict`.

mod running;

use running::{done, err, sediment};
use std::fmt::Write;

/// A profile and a trace of a program of four jobs, each of functions of its own.
fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut entries = String::new();
    for round in 0..60 {
        for step in 0..30 {
            writeln!(entries, "job{}_step{step}", round * 7 % 4).unwrap();
        }
    }
    std::fs::write(folder.path().join("entries"), entries).unwrap();
    let imported = ["import", "entries", "--format", "entry-trace", "-o", "p.gv", "--trace", "trace"];
    done(&sediment(folder.path(), &imported));
    folder
}

#[test]
fn an_order_for_a_run_lists_every_function_and_is_the_same_every_time() {
    let folder = recorded();
    let order = ["order", "p.gv", "--trace", "trace", "--linker", "list"];
    let first = sediment(folder.path(), &order);
    assert_eq!(done(&first).lines().count(), 120);
    assert!(err(&first).contains("engine: "), "{}", err(&first));
    assert_eq!(done(&first), done(&sediment(folder.path(), &order)));
}

#[test]
fn each_of_several_runs_is_told_how_it_fares() {
    let folder = recorded();
    let both = ["order", "p.gv", "--trace", "trace", "--trace", "trace", "--linker", "list"];
    let said = err(&sediment(folder.path(), &both));
    assert_eq!(said.matches("in an order for it alone").count(), 2, "{said}");
}

#[test]
fn a_trace_is_for_the_engine_and_of_the_program() {
    let folder = recorded();
    let classic = ["order", "p.gv", "--trace", "trace", "--linker", "list", "--algorithm", "c3"];
    let refused = sediment(folder.path(), &classic);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    std::fs::write(folder.path().join("others"), "alpha\nbeta\n").unwrap();
    let imported = ["import", "others", "--format", "entry-trace", "-o", "other.gv", "--trace", "other"];
    done(&sediment(folder.path(), &imported));
    let foreign = sediment(folder.path(), &["order", "p.gv", "--trace", "other", "--linker", "list"]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(
        err(&foreign).contains("no function that is to be ordered runs in this trace"),
        "{}",
        err(&foreign)
    );
}

#[test]
fn why_a_function_is_where_it_is() {
    let folder = recorded();
    let explained = ["order", "p.gv", "--linker", "list", "--explain", "job1_step3"];
    let said = err(&sediment(folder.path(), &explained));
    assert!(said.contains("job1_step3: function ") && said.contains("called by job1_step2"), "{said}");
    let missing = sediment(folder.path(), &["order", "p.gv", "--linker", "list", "--explain", "nobody"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(err(&missing).contains("no function called nobody is ordered"));
}

#[test]
fn a_prediction_ranks_every_order_and_says_when_not_to_bother() {
    let folder = recorded();
    let counted = done(&sediment(folder.path(), &["predict", "p.gv", "--trace", "trace"]));
    for name in ["engine", "cdsort", "c3", "pettis-hansen", "original", "input", "random 1"] {
        assert!(counted.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}: {counted}");
    }
    assert!(counted.contains("counted over the run") && counted.contains("Do not bother"), "{counted}");
    assert!(counted.contains("first touches"), "{counted}");
    let estimated = done(&sediment(folder.path(), &["predict", "p.gv"]));
    assert!(estimated.contains("estimated from the calls") && !estimated.contains("engine "), "{estimated}");
    let json = done(&sediment(folder.path(), &["predict", "p.gv", "--json"]));
    assert!(json.contains("\"order\"") && json.contains("\"itlb_misses\""), "{json}");
}
