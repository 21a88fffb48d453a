// SPDX-License-Identifier: MIT OR Apache-2.0
//! Import of measurements of other tools.

use super::{code, err, eval, fails, lines};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::Command;
use support::{Need, case, root, shared_data};

pub fn cases() -> Vec<Trial> {
    vec![
        case("tables_in_a_mail_are_chosen_by_label", &[], tables_in_a_mail_are_chosen_by_label),
        case(
            "output_of_the_installed_perf_is_read",
            &[Need::Program("perf")],
            output_of_the_installed_perf_is_read,
        ),
        case("tables_of_a_machine_with_counters_are_read", &[], tables_of_a_machine_with_counters_are_read),
        case("counts_on_several_kinds_of_cores_are_read", &[], counts_on_several_kinds_of_cores_are_read),
        case("parts_of_a_run_are_added_up", &[], parts_of_a_run_are_added_up),
        case("modifiers_part_events_of_intervals", &[], modifiers_part_events_of_intervals),
        case(
            "files_of_a_machine_with_counters_are_read",
            &[Need::SharedData("hardware/stat.default.txt")],
            files_of_a_machine_with_counters_are_read,
        ),
        case("unreadable_rows_are_reported", &[], unreadable_rows_are_reported),
        case("other_tools_files_are_read", &[], other_tools_files_are_read),
        case("files_without_measurements_are_refused", &[], files_without_measurements_are_refused),
    ]
}

fn golden(name: &str) -> String {
    root().join("tests/golden/compare/import").join(name).display().to_string()
}

fn import(folder: &Path, files: &[&str]) -> std::process::Output {
    let mut arguments = vec!["import", "-o", "i.jsonl", "--format", "json"];
    arguments.extend(files);
    let _ = std::fs::remove_file(folder.join("i.jsonl"));
    eval(folder, &arguments)
}

fn tables_in_a_mail_are_chosen_by_label() {
    let folder = tempfile::tempdir().unwrap();
    let mail = golden("mail.txt");
    let done =
        import(folder.path(), &[&format!("before={mail}#old build"), &format!("after={mail}#new build")]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let summaries = lines(folder.path(), "i.jsonl", "summary");
    let cycles: Vec<_> = summaries.iter().filter(|summary| summary["metric"] == "cycles").collect();
    assert_eq!(cycles.len(), 2);
    assert_eq!(cycles[0]["mean"], 8_000_000_000.0);
    assert_eq!(cycles[0]["count"], 4);
    // 0.50 % of 8e9, times the root of 4.
    assert_eq!(cycles[0]["deviation"], 80_000_000.0);
    let both = import(folder.path(), &[&format!("before={mail}"), &format!("after={mail}#new build")]);
    fails(&both, 1, &["mail.txt", "The old build", "The new build"]);
    let results = ["run", "run --fast", "run --fast --twice"].map(|command| {
        serde_json::json!({ "command": command, "mean": 1.0, "times": [command.len(), command.len()] })
    });
    let file = folder.path().join("h.json");
    std::fs::write(&file, serde_json::json!({ "results": results }).to_string()).unwrap();
    let exact = import(folder.path(), &["a=h.json#run", "b=h.json#run --fast"]);
    assert_eq!(code(&exact), 0, "{}", err(&exact));
    let several = import(folder.path(), &["a=h.json#--fast", "b=h.json#run"]);
    fails(&several, 1, &["h.json", "label --fast", "run --fast --twice"]);
}

fn output_of_the_installed_perf_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let events = "task-clock,minor-faults,cycles,duration_time";
    for (name, options) in [
        ("text", &["-r", "3"][..]),
        ("csv", &["-x,"][..]),
        ("json", &["-j"][..]),
        // In a shorter part the program may not run at all, and an interval without counts is not a run.
        ("parts", &["-x,", "-I", "1000"][..]),
    ] {
        let file = here.join(name);
        for _ in 0..if name == "text" { 1 } else { 3 } {
            let done = Command::new("perf")
                .args(["stat", "--append", "-o"])
                .arg(&file)
                .args(["-e", events])
                .args(options)
                .args(["--", "sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"])
                .output()
                .unwrap();
            if !done.status.success() {
                assert!(name == "json", "{}", String::from_utf8_lossy(&done.stderr));
                return support::skip_on_this_machine("perf before 5.19 has no -j");
            }
        }
    }
    for name in ["text", "csv", "json", "parts"] {
        let done =
            import(here, &[&format!("one={name}"), &format!("other={name}"), "--primary", "task-clock"]);
        assert_eq!(code(&done), 0, "{name}: {}", err(&done));
        let (runs, summaries) = (lines(here, "i.jsonl", "run"), lines(here, "i.jsonl", "summary"));
        let clocks: Vec<f64> = if name == "text" {
            summaries
                .iter()
                .filter(|s| s["metric"] == "task-clock")
                .filter_map(|s| s["mean"].as_f64())
                .collect()
        } else {
            assert_eq!(runs.len(), 6, "{name}");
            runs.iter().filter_map(|run| run["values"]["task-clock"].as_f64()).collect()
        };
        assert!(
            !clocks.is_empty() && clocks.iter().all(|seconds| (0.0001..10.0).contains(seconds)),
            "{name}: {clocks:?}"
        );
    }
}

/// Metrics without counts of their own are between the counts; some counts were scaled, some are missing.
fn tables_of_a_machine_with_counters_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for file in ["perf-stat-counters.csv", "perf-stat-counters.json", "perf-stat-counters.txt"] {
        let path = golden(file);
        let done = import(here, &[&format!("a={path}"), &format!("b={path}"), "--primary", "cycles"]);
        assert_eq!(code(&done), 0, "{file}: {}", err(&done));
        assert_eq!(err(&done), "", "{file}");
        let runs = lines(here, "i.jsonl", "run");
        assert_eq!(runs.len(), 2, "{file}");
        let mut values = runs[0]["values"].as_object().unwrap().clone();
        values.retain(|metric, _| !["elapsed", "user", "sys"].contains(&metric.as_str()));
        let expected = serde_json::json!({
            "task-clock": 0.02, "page-faults": 60.0, "cycles": 70_000_000.0, "instructions": 112_000_000.0,
            "stalled-cycles-frontend": 24_640_000.0, "branch-misses": 1_500_000.0,
        });
        assert_eq!(serde_json::Value::from(values), expected, "{file}");
        assert_eq!(runs[0]["scaled"], serde_json::json!(["branch-misses", "cycles"]), "{file}");
        let absent = lines(here, "i.jsonl", "absent").pop().unwrap();
        let said = serde_json::json!({ "LLC-loads": "perf reported <not supported>", "iTLB-loads": "perf reported <not counted>" });
        assert_eq!(absent, said, "{file}");
    }
}

/// The first of two runs by `perf stat -I` has two parts. cycles were not counted in its second part.
fn parts_of_a_run_are_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for file in ["perf-stat-intervals.csv", "perf-stat-intervals.json", "perf-stat-intervals.txt"] {
        let path = golden(file);
        let done = import(here, &[&format!("a={path}"), &format!("b={path}"), "--primary", "instructions"]);
        assert_eq!(code(&done), 0, "{file}: {}", err(&done));
        let runs = lines(here, "i.jsonl", "run");
        assert_eq!(runs.len(), 4, "{file}");
        let first = serde_json::json!({
            "elapsed": 0.15, "task-clock": 0.12, "instructions": 700_000_000.0, "cycles": 400_000_000.0,
        });
        let second = serde_json::json!({ "elapsed": 0.25, "task-clock": 0.04, "instructions": 200_000_000.0, "cycles": 90_000_000.0 });
        assert_eq!((&runs[0]["values"], &runs[1]["values"]), (&first, &second), "{file}");
        assert_eq!(runs[0]["scaled"], serde_json::json!(["cycles"]), "{file}");
        assert_eq!(
            lines(here, "i.jsonl", "absent").pop().unwrap(),
            serde_json::json!({ "LLC-loads": "perf reported <not supported>" }),
            "{file}"
        );
    }
}

/// An event in user space and the same event in the kernel are two events.
fn modifiers_part_events_of_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let part = |end: &str| {
        let row = |value: u64, name: &str| format!("     {end},{value},,{name},80000000,100.00,,\n");
        row(100, "instructions:u") + &row(30, "instructions:k")
    };
    std::fs::write(here.join("i.csv"), part("0.100000000") + &part("0.200000000")).unwrap();
    let done = import(here, &["a=i.csv", "b=i.csv", "--primary", "instructions"]);
    fails(&done, 1, &["i.csv:2:", "\"u\"", "\"k\""]);
    // Each of them is added up by itself.
    let user: String = (part("0.100000000") + &part("0.200000000"))
        .lines()
        .filter(|line| line.contains(":u"))
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(here.join("i.csv"), user).unwrap();
    let done = import(here, &["a=i.csv", "b=i.csv", "--primary", "instructions"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert_eq!(lines(here, "i.jsonl", "run")[0]["values"]["instructions"], 200.0);
}

/// A newer perf prints a top-down analysis, and each event for each type of core; two such files are two runs.
fn counts_on_several_kinds_of_cores_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let path = golden("perf-stat-hybrid.txt");
    let done = import(here, &[&format!("a={path}"), &format!("b={path}"), "--primary", "cycles"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let runs = lines(here, "i.jsonl", "run");
    assert_eq!(runs.len(), 2);
    let expected = serde_json::json!({
        "task-clock": 0.02, "cycles": 70_000_000.0, "instructions": 90_000_000.0, "branches": 8_000_000.0, "elapsed": 0.04,
    });
    assert_eq!(runs[0]["values"], expected);
    assert_eq!(runs[0]["scaled"], serde_json::json!(["cycles"]));
    assert!(lines(here, "i.jsonl", "note").is_empty());
}

/// A metric has one name and unit in every format of perf.
fn files_of_a_machine_with_counters_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let mut read = 0;
    for file in std::fs::read_dir(shared_data("hardware")).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        // A mean over a number of runs that this format does not print.
        if !name.starts_with("stat.") || name == "stat.repeat5.csv" {
            continue;
        }
        let path = file.to_str().unwrap();
        let done = import(here, &[&format!("a={path}"), &format!("b={path}"), "--primary", "cycles"]);
        assert_eq!(code(&done), 0, "{name}: {}", err(&done));
        let runs = lines(here, "i.jsonl", "run");
        let of_runs = runs.iter().filter_map(|run| {
            let values = run["values"].as_object()?;
            Some([
                values.get("cycles").or(values.get("cycles:u"))?.as_f64()?,
                values.get("instructions")?.as_f64()?,
            ])
        });
        let summaries = lines(here, "i.jsonl", "summary");
        let mean = |metric: &str| summaries.iter().find(|s| s["metric"] == metric)?["mean"].as_f64();
        let all: Vec<[f64; 2]> =
            of_runs.chain(mean("cycles").zip(mean("instructions")).map(Into::into)).collect();
        assert!(!all.is_empty(), "{name}: {runs:?} {summaries:?}");
        for [cycles, instructions] in all {
            let per_cycle = instructions / cycles;
            assert!((0.2..5.0).contains(&per_cycle), "{name}: {cycles} {instructions}");
        }
        read += 1;
    }
    assert!(read > 12, "{read}");
}

fn unreadable_rows_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let row = "5,,cycles,100,100.00,,\n";
    let object = "{\"counter-value\" : \"5.0\", \"unit\" : \"\", \"event\" : \"cycles\"}\n";
    for (text, count, example) in [
        (format!("{row}broken\n"), 1, "broken"),
        (format!("broken\n,,,,x\n{row}{row}"), 2, "broken"),
        (format!("{object}a word\n{{\"event\" : 7}}\n"), 2, "a word"),
        (
            " Performance counter stats for 'x':\n\n 5 cycles\n\n 7 a b c d\n 1.5 seconds time elapsed\n"
                .to_owned(),
            1,
            "7 a b c d",
        ),
    ] {
        std::fs::write(here.join("table"), &text).unwrap();
        let done = import(here, &["a=table", "b=table", "--primary", "cycles"]);
        assert_eq!(code(&done), 0, "{text}: {}", err(&done));
        let is_told = |line: &str| line.contains(&format!("table: {count} row")) && line.contains(example);
        assert_eq!(err(&done).lines().filter(|line| is_told(line)).count(), 2, "{}", err(&done));
        let notes = lines(here, "i.jsonl", "note");
        assert!(
            notes.iter().any(|note| note.as_str().is_some_and(|text| text.contains(example))),
            "{notes:?}"
        );
    }
}

fn other_tools_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let values = |metric: &str| -> Vec<f64> {
        lines(here, "i.jsonl", "run").iter().filter_map(|run| run["values"][metric].as_f64()).collect()
    };
    let check = |one: &str, other: &str, metric: &str, expected: &[f64]| {
        let done = import(here, &[&format!("a={one}"), &format!("b={other}"), "--primary", metric]);
        assert_eq!(code(&done), 0, "{one}: {}", err(&done));
        assert_eq!(values(metric), expected, "{one}");
    };
    let hyperfine = golden("hyperfine-1.json");
    check(
        &format!("{hyperfine}#old"),
        &format!("{hyperfine}#new"),
        "elapsed",
        &[0.5, 0.52, 0.51, 0.4, 0.42, 0.41],
    );
    let second = golden("hyperfine-2.json");
    check(
        &format!("{second}#old"),
        &format!("{second}#new"),
        "instructions",
        &[1000.0, 1010.0, 900.0, 905.0],
    );
    let go = golden("go-bench.txt");
    check(
        &format!("{go}#BenchmarkEncode"),
        &format!("{go}#BenchmarkDecode"),
        "time/op",
        &[1.5e-6, 1.6e-6, 2.5e-6],
    );
    std::fs::write(here.join("n1"), "# metric: tps\n100\n101.5\n").unwrap();
    std::fs::write(here.join("n2"), "# metric: tps\n99\n98\n").unwrap();
    check("n1", "n2", "tps", &[100.0, 101.5, 99.0, 98.0]);
}

fn files_without_measurements_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (text, datum) in [
        ("", "Go benchmark"),
        (",,,,0.2,stalled cycles per insn\n", "(perf stat -x)"),
        ("#           time             counts unit events\n", "(perf stat -I text)"),
        ("{\"interval\" : \"x\", \"counter-value\" : \"5.0\", \"event\" : \"cycles\"}\n", "(perf stat -j)"),
    ] {
        std::fs::write(here.join("bad"), text).unwrap();
        fails(&import(here, &["a=bad", "b=bad"]), 1, &[datum]);
        assert!(!here.join("i.jsonl").exists());
    }
}
