// SPDX-License-Identifier: MIT OR Apache-2.0
//! More hardware events than the processor can count at a time, simulated by a stand-in for perf, because build
//! machines have no hardware counters.

use super::{code, err, lines, out, program};
use libtest_mimic::Trial;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use support::case;

pub fn cases() -> Vec<Trial> {
    vec![
        case("more_events_than_counters_take_further_runs", &[], more_events_than_counters_take_further_runs),
        case("counts_that_were_scaled_up_are_marked", &[], counts_that_were_scaled_up_are_marked),
        case("kinds_of_cores_are_added_up", &[], kinds_of_cores_are_added_up),
        case("a_machine_without_counters_says_so", &[], a_machine_without_counters_says_so),
        case("rows_that_are_not_understood_end_nothing", &[], rows_that_are_not_understood_end_nothing),
    ]
}

/// Runs the program, then prints counts with metrics in between. COUNTERS hardware events, and any number of the
/// kernel's events, were counted all the time; if there are more, all hardware events were counted for a part of it.
const PERF: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo perf version 6.1.0; exit; }
for word; do
    shift
    case $word in
    --output=*) output=${word#*=} ;;
    -e) events=$(echo "$1" | tr , ' ') ;;
    --) break ;;
    esac
done
"$@" || exit
hardware=0
for event in $events; do
    case $event in *-clock | *_time | context-switches | cpu-migrations | *-faults) ;; *) hardware=$((hardware + 1)) ;; esac
done
share=100.00
[ $hardware -le COUNTERS ] || share=$((100 * COUNTERS / hardware)).00
for event in $events; do
    case $event in
    *-clock) echo "1.50,msec,$event,1500000,100.00,," ;;
    *_time) echo "2000000,ns,$event,2000000,100.00,," ;;
    context-switches | cpu-migrations | *-faults) echo "3,,$event,1500000,100.00,," ;;
    instructions)
        echo "2000,,$event,1500000,$share,2.00,insn per cycle"
        echo ",,,,0.21,stalled cycles per insn"
        ;;
    *) echo "1000,,$event,1500000,$share,," ;;
    esac
done >"$output"
"#;

const HARDWARE: [&str; 12] = [
    "cycles",
    "instructions",
    "iTLB-loads",
    "iTLB-load-misses",
    "L1-icache-load-misses",
    "branches",
    "branch-misses",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "cache-misses",
    "LLC-load-misses",
    "L1-dcache-load-misses",
];

fn with_counters(folder: &Path, counters: u32) -> Output {
    with_perf(folder, &PERF.replace("COUNTERS", &counters.to_string()))
}

fn with_perf(folder: &Path, script: &str) -> Output {
    let perf = folder.join("perf");
    std::fs::write(&perf, script).unwrap();
    std::fs::set_permissions(&perf, std::fs::Permissions::from_mode(0o755)).unwrap();
    let arguments =
        ["quick", "-v", "--blocks", "2", "-o", "q.jsonl", "--", "echo a >>ran", "--", "echo b >>ran"];
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    program(folder, &arguments).env("PATH", path).output().unwrap()
}

fn more_events_than_counters_take_further_runs() {
    let folder = tempfile::tempdir().unwrap();
    let done = with_counters(folder.path(), 4);
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert_eq!(lines(folder.path(), "q.jsonl", "absent"), [serde_json::json!({})]);
    // A warm-up and two blocks of two programs, each in three passes.
    let ran = std::fs::read_to_string(folder.path().join("ran")).unwrap();
    assert_eq!(ran.lines().count(), 3 * 2 * 3);
    let runs = lines(folder.path(), "q.jsonl", "run");
    assert_eq!(runs.len(), 3 * 2);
    for run in &runs {
        for metric in HARDWARE {
            assert!(run["values"][metric].is_number(), "{metric}: {run}");
        }
        assert_eq!(run["values"]["task-clock"], 0.0015);
    }
    let report = out(&done);
    assert!(report.contains(" 3 runs ") && report.contains(" instructions/cycle "), "{report}");
    assert!(!report.contains("scaled"), "{report}");
}

fn counts_that_were_scaled_up_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    // None of its counters is always free, as if a watchdog used one.
    let done = with_counters(folder.path(), 0);
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert!(out(&done).contains("scaled"), "{}", out(&done));
}

/// As on processors with two types of cores.
fn kinds_of_cores_are_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let both =
        "echo \"600,,cpu_core/$event/,1500000,100.00,,\" ; echo \"400,,cpu_atom/$event/,1500000,100.00,,\"";
    let script = PERF.replace("COUNTERS", "20").replace("echo \"1000,,$event,1500000,$share,,\"", both);
    let done = with_perf(folder.path(), &script);
    assert_eq!(code(&done), 0, "{}", err(&done));
    for run in lines(folder.path(), "q.jsonl", "run") {
        for metric in HARDWARE.iter().filter(|metric| **metric != "instructions") {
            assert_eq!(run["values"][*metric], 1000.0, "{metric}: {run}");
        }
    }
}

/// As in most virtual machines: only the kernel's events are counted.
fn a_machine_without_counters_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let none = "echo \"<not supported>,,$event,0,100.00,,\"";
    let script = PERF
        .replace("COUNTERS", "20")
        .replace("echo \"1000,,$event,1500000,$share,,\"", none)
        .replace("echo \"2000,,$event,1500000,$share,2.00,insn per cycle\"", none);
    let done = with_perf(folder.path(), &script);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let absent = lines(folder.path(), "q.jsonl", "absent").pop().unwrap();
    for metric in HARDWARE {
        assert!(
            absent[metric].as_str().is_some_and(|why| why.starts_with("not supported: ")),
            "{metric}: {absent}"
        );
    }
    for run in lines(folder.path(), "q.jsonl", "run") {
        assert_eq!(run["values"]["task-clock"], 0.0015);
        assert!(HARDWARE.iter().all(|metric| run["values"].get(*metric).is_none()), "{run}");
    }
}

fn rows_that_are_not_understood_end_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = PERF
        .replace("COUNTERS", "20")
        .replace("    instructions)\n", "    branches) echo \"many branches\" ;;\n    instructions)\n");
    let done = with_perf(folder.path(), &script);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let said = err(&done);
    assert!(said.contains(" branches: ") && said.contains("\"many branches\""), "{said}");
    for run in lines(folder.path(), "q.jsonl", "run") {
        assert_eq!(run["values"]["instructions"], 2000.0);
        assert!(run["values"].get("branches").is_none(), "{run}");
    }
    // Only in the runs, not when the available events are determined.
    let folder = tempfile::tempdir().unwrap();
    let also = "done >\"$output\"\n[ ! -e ran ] || echo \"a, b\" >>\"$output\"";
    let script = PERF.replace("COUNTERS", "20").replace("done >\"$output\"", also);
    let done = with_perf(folder.path(), &script);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let said = err(&done);
    assert_eq!(said.matches("\"a, b\"").count(), 1, "said once: {said}");
}
