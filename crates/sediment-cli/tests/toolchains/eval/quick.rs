// SPDX-License-Identifier: MIT OR Apache-2.0
//! `eval quick` in daily use: names of builds, a short report, commands before and after the runs, failures.

use super::{code, err, eval, fails, lines, out};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::Output;
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let valgrind = [Need::Program("valgrind")];
    vec![
        case("builds_are_named_by_what_differs", &[], builds_are_named_by_what_differs),
        case("the_report_is_short_unless_all_is_asked_for", &[], the_report_is_short_unless_all_is_asked_for),
        case("commands_run_before_the_experiment_and_each_run", &[], commands_run_before_all_and_each),
        case("failures_end_an_experiment_unless_they_are_ignored", &[], failures_are_shown_or_ignored),
        case("options_of_hyperfine", &[], options_of_hyperfine),
        case("simulated_meters_follow_children", &valgrind, simulated_meters_follow_children),
    ]
}

fn quick(folder: &Path, options: &[&str], commands: &[&str]) -> Output {
    let begin = ["quick", "--no-counters", "--blocks", "3", "--warm-ups", "0", "--seed", "1"];
    eval(folder, &[&begin[..], options, commands].concat())
}

/// Names of the builds in an experiment.
fn names(done: &Output) -> Vec<String> {
    let json: serde_json::Value =
        serde_json::from_str(&out(done)).unwrap_or_else(|_| panic!("{}", err(done)));
    json["builds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|build| build["name"].as_str().unwrap().to_owned())
        .collect()
}

fn builds_are_named_by_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let shells = ["--", "sh", "-c", "true", "first", "--", "sh", "-c", "true", "second"];
    let done = quick(folder.path(), &["--json"], &shells);
    assert_eq!(names(&done), ["sh -c true first", "sh -c true second"]);
    let given = ["--json", "--name", "old", "--name", "new"];
    assert_eq!(names(&quick(folder.path(), &given, &shells)), ["old", "new"]);
}

fn the_report_is_short_unless_all_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let commands = ["--", "sleep 0.01", "--", "sleep 0.02"];
    let short = out(&quick(folder.path(), &[], &commands));
    assert!(short.lines().count() <= 14, "{short}");
    assert!(short.contains("sleep 0.02") && short.contains("--verbose"), "{short}");
    let long = out(&quick(folder.path(), &["--verbose"], &commands));
    assert!(long.lines().count() > 40, "{long}");
    // A reader that stops reading is not an error.
    let line = format!(
        "{} eval quick --no-counters --blocks 2 -v -- true -- true | true; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_sediment")
    );
    let piped =
        std::process::Command::new("bash").args(["-c", &line]).current_dir(folder.path()).output().unwrap();
    assert_eq!(out(&piped), "0\n", "{}", err(&piped));
}

fn commands_run_before_all_and_each() {
    let folder = tempfile::tempdir().unwrap();
    let count =
        |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default().lines().count();
    let options = ["--setup", "echo x >> setup", "--prepare", "echo x >> prepare"];
    let done = quick(folder.path(), &options, &["--", "echo x >> run", "--", "echo y >> run"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert_eq!((count("setup"), count("prepare"), count("run")), (1, 6, 6));
}

fn failures_are_shown_or_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let commands = ["--", "true", "--", "sh", "-c", "echo what went wrong >&2; exit 3"];
    let ended = quick(folder.path(), &[], &commands);
    fails(&ended, 1, &["variant sh", "exit code 3", "what went wrong"]);
    let ignored = quick(folder.path(), &["-i", "--json"], &commands);
    assert_eq!(code(&ignored), 0, "{}", err(&ignored));
    // A signal is not an exit code.
    let killed = quick(folder.path(), &["-i"], &["--", "true", "--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(code(&killed), 1, "{}", err(&killed));
}

/// The JSON has the data that hyperfine's own scripts read: the command, its parameters, times and their statistics.
fn options_of_hyperfine() {
    let folder = tempfile::tempdir().unwrap();
    let options = [
        "quick",
        "--no-counters",
        "--runs",
        "3",
        "--warmup",
        "0",
        "--show-output",
        "--export-json",
        "runs.json",
    ];
    let commands =
        ["-L", "word", "one,two", "--reference", "echo zero", "-n", "first", "-n", "second", "echo {word}"];
    let done = eval(folder.path(), &[&options[..], &commands].concat());
    assert_eq!(code(&done), 0, "{}", err(&done));
    // The output of runs is not in the report.
    for word in ["zero", "one", "two"] {
        assert_eq!(err(&done).matches(&format!("{word}\n")).count(), 3, "{}", err(&done));
    }
    let text = std::fs::read_to_string(folder.path().join("runs.json")).unwrap();
    let runs: serde_json::Value = serde_json::from_str(&text).unwrap();
    let results = runs["results"].as_array().unwrap();
    let commands: Vec<&str> = results.iter().map(|result| result["command"].as_str().unwrap()).collect();
    assert_eq!(commands, ["echo zero", "echo one", "echo two"]);
    assert_eq!(results[0].get("parameters"), None);
    assert_eq!(results[2]["parameters"]["word"], "two");
    assert_eq!((&results[0]["name"], &results[2]["name"]), (&"echo zero".into(), &"second".into()));
    for result in results {
        assert_eq!(result["times"].as_array().unwrap().len(), 3, "{text}");
        for key in ["mean", "stddev", "median", "min", "max", "user", "system"] {
            assert!(result[key].is_number(), "{key}: {text}");
        }
    }
}

/// If a shell starts a program, the program counts too.
fn simulated_meters_follow_children() {
    let folder = tempfile::tempdir().unwrap();
    let work = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done";
    std::fs::write(folder.path().join("work"), work).unwrap();
    let commands = ["--", "sh", "-c", "sh /dev/null; true", "--", "sh", "-c", "sh ./work; true"];
    let done = quick(folder.path(), &["--meter", "itlb", "-o", "q.jsonl"], &commands);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let instructions = |variant: u64| -> f64 {
        let runs = lines(folder.path(), "q.jsonl", "run");
        let own = runs.iter().filter(|run| run["variant"] == variant);
        let values = own.flat_map(|run| run["values"].as_object().unwrap().clone());
        let simulated = values.filter(|(name, _)| name.starts_with("instructions ("));
        simulated.filter_map(|(_, value)| value.as_f64()).sum()
    };
    let (without, with) = (instructions(0), instructions(1));
    assert!(without > 0.0 && with > 2.0 * without, "{without} and {with}");
}
