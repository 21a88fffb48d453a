// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval` with real processes: plans, runs, servers, and errors.

mod builds;
mod counters;
mod imports;
mod interruptions;
mod noise;
mod quick;
mod servers;

use crate::running::{code, command, err, out};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use support::case;

pub(crate) fn cases() -> Vec<Trial> {
    let mut cases = vec![
        case("quick_runs_blocks_and_reports", &[], quick_runs_blocks_and_reports),
        case("quick_says_how_it_is_used", &[], quick_says_how_it_is_used),
        case("the_gate_fails_on_a_regression", &[], the_gate_fails_on_a_regression),
        case("without_perf_the_kernels_accounts_remain", &[], without_perf_the_kernels_accounts_remain),
        case("work_is_counted_in_the_output", &[], work_is_counted_in_the_output),
        case("a_missing_work_counter_is_an_error", &[], a_missing_work_counter_is_an_error),
        case("a_variant_that_fails_is_named", &[], a_variant_that_fails_is_named),
        case("a_variant_that_hangs_is_ended", &[], a_variant_that_hangs_is_ended),
        case("unknown_keys_are_errors_with_their_line", &[], unknown_keys_are_errors_with_their_line),
        case(
            "meters_run_apart_and_only_in_the_first_blocks",
            &[],
            meters_run_apart_and_only_in_the_first_blocks,
        ),
    ];
    let tools = [support::Need::Program("taskset"), support::Need::Program("ldd")];
    cases.push(case("runs_may_be_cold_and_pinned", &tools, runs_may_be_cold_and_pinned));
    let tools = [support::Need::Program("fincore"), support::Need::Program("ldd")];
    cases.push(case(
        "cold_runs_find_nothing_in_the_page_cache",
        &tools,
        cold_runs_find_nothing_in_the_page_cache,
    ));
    cases.extend(builds::cases());
    cases.extend(counters::cases());
    cases.extend(imports::cases());
    cases.extend(interruptions::cases());
    cases.extend(noise::cases());
    cases.extend(quick::cases());
    cases.extend(servers::cases());
    cases
}

fn program(folder: &Path, arguments: &[&str]) -> Command {
    command(folder, &[&["eval"], arguments].concat())
}

fn eval(folder: &Path, arguments: &[&str]) -> Output {
    program(folder, arguments).output().unwrap()
}

/// Checks the exit code of a failing command, and the data in its message.
#[track_caller]
fn fails(done: &Output, expected: i32, data: &[&str]) {
    let said = err(done);
    assert_eq!(code(done), expected, "{said}");
    for word in data {
        assert!(said.contains(word), "no {word} in {said}");
    }
}

/// Objects of one kind in an experiment's file.
fn lines(folder: &Path, file: &str, kind: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|mut line| line.get_mut(kind).map(serde_json::Value::take))
        .collect()
}

/// A plan with two shell programs, with these lines in `[run]` and in the workload.
fn plan(folder: &Path, first: &str, second: &str, run: &str, workload: &str) {
    for (name, text) in [("first.sh", first), ("second.sh", second)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let text = format!(
        "sediment-eval = 1\nnoise-floor = false\n[run]\nseed = 5\ncounters = []\n{run}\n\
         [[variant]]\nname = \"first\"\nprogram = \"first.sh\"\n[[variant]]\nname = \"second\"\nprogram = \"second.sh\"\n\
         [[workload]]\nname = \"work\"\ncommand = [\"sh\", \"{{program}}\"]\n{workload}\n"
    );
    std::fs::write(folder.join("plan.toml"), text).unwrap();
}

/// Waits until a condition holds.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// True for a process that runs; false for a zombie.
fn is_alive(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn quick_runs_blocks_and_reports() {
    let folder = tempfile::tempdir().unwrap();
    let done = eval(
        folder.path(),
        &[
            "quick",
            "--no-counters",
            "--blocks",
            "3",
            "--seed",
            "7",
            "-o",
            "q.jsonl",
            "--format",
            "json",
            "--",
            "true",
            "--",
            "sleep",
            "0.01",
        ],
    );
    assert_eq!(code(&done), 0, "{}", err(&done));
    let runs = lines(folder.path(), "q.jsonl", "run");
    assert_eq!(runs.len(), 2 + 3 * 2, "a warm-up of each, then three blocks");
    for block in 0..3 {
        let of: Vec<_> = runs.iter().filter(|run| run["block"] == block).collect();
        assert_eq!(of.len(), 2);
        assert_eq!(of[0]["padding"], of[1]["padding"], "a block shares its padding");
        assert!(of.iter().any(|run| run["variant"] == 0) && of.iter().any(|run| run["variant"] == 1));
    }
    assert!(runs.iter().all(|run| run["values"]["elapsed"].as_f64().is_some_and(|seconds| seconds > 0.0)));
    let head = &lines(folder.path(), "q.jsonl", "sediment-eval")[0];
    assert_eq!(head["seed"], 7);
    let again = eval(folder.path(), &["report", "q.jsonl", "--format", "json"]);
    let (first, second) = (out(&done), out(&again));
    let differs = first.lines().zip(second.lines()).find(|(one, other)| one != other);
    assert!(first == second, "the file alone gives the same report, and not: {differs:?}");
    // Without a format, the extension of the file decides.
    for (file, format) in [("r.html", "html"), ("r.md", "markdown"), ("r.csv", "csv"), ("r.txt", "terminal")]
    {
        let asked = eval(folder.path(), &["report", "q.jsonl", "--format", format]);
        assert!(eval(folder.path(), &["report", "q.jsonl", "-o", file]).status.success(), "{file}");
        let written = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(written.trim_end(), out(&asked).trim_end(), "{file}");
    }
    assert!(
        eval(folder.path(), &["report", "q.jsonl", "-o", "r.html", "--format", "terminal"]).status.success()
    );
    assert!(!std::fs::read_to_string(folder.path().join("r.html")).unwrap().contains("<html"));
}

fn quick_says_how_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    for (option, value) in [
        ("--margin", "100"),
        ("--precision", "0"),
        ("--precision", "100"),
        ("--pin", "99999"),
        ("--primary", "cycles"),
    ] {
        let refused = eval(
            folder.path(),
            &["quick", "--no-counters", option, value, "-o", "r.jsonl", "--", "true", "--", "true"],
        );
        fails(&refused, 2, &[value]);
        assert!(!err(&refused).contains("line "), "{option} {value}: {}", err(&refused));
        assert!(!folder.path().join("r.jsonl").exists(), "{option} {value}");
    }
}

fn the_gate_fails_on_a_regression() {
    let folder = tempfile::tempdir().unwrap();
    // Real times would depend on the load of the machine.
    for (name, first) in [("short", 20), ("long", 60)] {
        let times: Vec<String> = (0..8).map(|run| format!("0.0{}", first + run % 3)).collect();
        std::fs::write(folder.path().join(name), times.join("\n")).unwrap();
    }
    let slow = ["import", "a=short", "b=long", "-o", "s.jsonl"];
    assert_eq!(code(&eval(folder.path(), &slow)), 0);
    let gate = eval(folder.path(), &["gate", "s.jsonl"]);
    assert_eq!(code(&gate), 3, "{}{}", out(&gate), err(&gate));
    let fast = ["import", "a=long", "b=short", "-o", "f.jsonl"];
    assert_eq!(code(&eval(folder.path(), &fast)), 0);
    assert_eq!(code(&eval(folder.path(), &["gate", "--conclusive", "f.jsonl"])), 0);
    let few =
        ["quick", "--no-counters", "--blocks", "2", "-o", "n.jsonl", "--", "sleep 0.01", "--", "sleep 0.012"];
    assert_eq!(code(&eval(folder.path(), &few)), 0);
    assert_eq!(code(&eval(folder.path(), &["gate", "n.jsonl"])), 0);
    let asked = eval(folder.path(), &["gate", "--conclusive", "n.jsonl"]);
    assert_eq!(code(&asked), 4, "{}{}", out(&asked), err(&asked));
}

fn without_perf_the_kernels_accounts_remain() {
    let folder = tempfile::tempdir().unwrap();
    for tool in ["sh", "sleep"] {
        std::os::unix::fs::symlink(support::program(tool).unwrap(), folder.path().join(tool)).unwrap();
    }
    let arguments = [
        "quick",
        "-v",
        "--blocks",
        "2",
        "-o",
        "q.jsonl",
        "--",
        "sleep",
        "0.01",
        "--",
        "sh",
        "-c",
        "sleep 0.01",
    ];
    let done = program(folder.path(), &arguments).env("PATH", folder.path()).output().unwrap();
    assert_eq!(code(&done), 0, "{}", err(&done));
    let said = err(&done);
    let missing: Vec<_> = said.lines().filter(|line| line.contains(" cycles,")).collect();
    assert!(missing.len() == 1 && missing[0].contains("install perf"), "said once: {said}");
    for run in lines(folder.path(), "q.jsonl", "run") {
        for metric in
            ["elapsed", "user", "sys", "cpu-time", "minor-faults", "major-faults", "context-switches"]
        {
            assert!(run["values"][metric].is_number(), "{metric}: {run}");
        }
        assert!(run["values"].get("cycles").is_none(), "absent, not zero");
    }
    let report = out(&done);
    assert!(report.split_once("\nNot measured\n").unwrap().1.contains("cycles"), "{report}");
}

fn work_is_counted_in_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let work = "work = { name = \"request\", regex = '^served ([0-9]+)' }\n[[metric]]\nname = \"rate\"\nbetter = \"higher\"\nregex = 'rate=([0-9.]+)'";
    plan(
        folder.path(),
        "echo served 10; echo served 5; echo rate=7.5 >&2",
        "echo served 20; echo rate=8",
        "blocks = 2\npilot = 2",
        work,
    );
    let done = eval(folder.path(), &["run", "plan.toml", "--format", "json"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let runs = lines(folder.path(), "plan.jsonl", "run");
    for run in &runs {
        let (work, rate) = if run["variant"] == 0 { (15.0, 7.5) } else { (20.0, 8.0) };
        assert_eq!((run["work"].as_f64(), run["values"]["rate"].as_f64()), (Some(work), Some(rate)));
    }
}

fn a_missing_work_counter_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    plan(
        folder.path(),
        "echo served 10",
        "echo I did nothing",
        "",
        "work = { name = \"request\", regex = 'served ([0-9]+)' }",
    );
    let done = eval(folder.path(), &["run", "plan.toml"]);
    fails(&done, 1, &["second", "served ([0-9]+)", "I did nothing"]);
    assert_eq!(lines(folder.path(), "plan.jsonl", "run").len(), 1, "the warm-up of the first is kept");
}

fn a_variant_that_fails_is_named() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "true", "echo one; echo two >&2; exit 7", "", "");
    let done = eval(folder.path(), &["run", "plan.toml"]);
    fails(&done, 1, &["second", "exit code 7", "two", "plan.jsonl"]);
    // Under perf, whose own exit code hides a signal.
    plan(folder.path(), "true", "kill -SEGV $$", "", "");
    let text =
        std::fs::read_to_string(folder.path().join("plan.toml")).unwrap().replace("counters = []\n", "");
    std::fs::write(folder.path().join("plan.toml"), text).unwrap();
    let done = eval(folder.path(), &["run", "plan.toml", "-o", "signal.jsonl"]);
    let said = err(&done);
    let named = said.lines().any(|line| line.contains("second") && line.contains("Segmentation fault"));
    assert!(code(&done) == 1 && named, "{said}");
}

fn a_variant_that_hangs_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    // The shell's child must end too.
    plan(folder.path(), "true", "sleep 600 & echo $! > hanging; echo waiting; wait", "time-limit = 0.7", "");
    let done = eval(folder.path(), &["run", "plan.toml"]);
    fails(&done, 1, &["second", "0.7 s", "waiting"]);
    let hanging = std::fs::read_to_string(folder.path().join("hanging")).unwrap();
    wait_for("the end of the variant's child", || !is_alive(&hanging));
}

fn unknown_keys_are_errors_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    for (run, wrong) in
        [("bloks = 3", "bloks"), ("blocks = \"many\"", "many"), ("meters = [\"itbl\"]", "itbl")]
    {
        plan(folder.path(), "true", "true", run, "");
        fails(&eval(folder.path(), &["run", "plan.toml"]), 1, &["plan.toml:6:", wrong]);
        assert!(!folder.path().join("plan.jsonl").exists(), "nothing is begun");
    }
}

fn meters_run_apart_and_only_in_the_first_blocks() {
    let folder = tempfile::tempdir().unwrap();
    plan(
        folder.path(),
        "true",
        "true",
        "blocks = 3\npilot = 3\nmeters = [\"peak-memory\"]\nmeter-blocks = 2",
        "",
    );
    let done = eval(folder.path(), &["run", "plan.toml", "--format", "json"]);
    if code(&done) == 6 {
        return support::skip(&format!("programs may not be traced: {}", err(&done)));
    }
    assert_eq!(code(&done), 0, "{}", err(&done));
    let runs = lines(folder.path(), "plan.jsonl", "run");
    let with: Vec<_> = runs.iter().filter(|run| run["values"].get("max-rss").is_some()).collect();
    assert_eq!(with.len(), 2 * 2);
    assert!(with.iter().all(|run| run["block"].as_u64().is_some_and(|block| block < 2)));
}

/// A folder on a disk: the folder for temporary files may be in memory.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn runs_may_be_cold_and_pinned() {
    let folder = on_disk();
    // Prints 1 if the first processor is the only one that it may use.
    let script = "echo $(grep -c '^Cpus_allowed_list:[[:space:]]*0$' /proc/self/status) processor";
    let work = "work = { name = \"answer\", regex = '^(1) processor' }";
    plan(
        folder.path(),
        script,
        &format!("{script} # the other"),
        "blocks = 1\npilot = 1\ncold = true\npin = [0]",
        work,
    );
    let done = eval(folder.path(), &["run", "plan.toml", "--format", "json"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert_eq!(lines(folder.path(), "plan.jsonl", "run").len(), 4);
}

/// fincore uses the kernel's mincore to find how much of a file is in the page cache; here the program does so for
/// itself.
fn cold_runs_find_nothing_in_the_page_cache() {
    const SIZE: usize = 16 << 20;
    // Number of bytes of a script that a shell reads ahead.
    const READ_AHEAD: f64 = (4 << 20) as f64;
    let folder = on_disk();
    let script = |last: &str| {
        let asks = "fincore --bytes --noheadings --output RES \"$0\"; exit\n";
        format!("{asks}{}{last}", "#\n".repeat((SIZE - asks.len() - last.len()) / 2))
    };
    let metric = "[[metric]]\nname = \"resident\"\nregex = '([0-9]+)'";
    for cold in [true, false] {
        let run = format!("blocks = 3\npilot = 3\ncold = {cold}");
        plan(folder.path(), &script("#1"), &script("#2"), &run, metric);
        let file = format!("{cold}.jsonl");
        let done = eval(folder.path(), &["run", "plan.toml", "-o", &file, "--format", "json"]);
        assert_eq!(code(&done), 0, "{}", err(&done));
        let runs = lines(folder.path(), &file, "run");
        assert_eq!(runs.len(), 2 * 4);
        for run in runs {
            let resident = run["values"]["resident"].as_f64().unwrap();
            assert!(if cold { resident < READ_AHEAD } else { resident > 3.0 * READ_AHEAD }, "{cold}: {run}");
        }
    }
    // Files in memory cannot be dropped from memory, and a warm run must not count as a cold one.
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    plan(memory.path(), "true", "true", "cold = true", "");
    fails(&eval(memory.path(), &["run", "plan.toml"]), 1, &["first.sh", "tmpfs"]);
}
