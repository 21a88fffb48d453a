// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupted experiments, and their remaining data.

use super::{code, err, eval, fails, is_alive, lines, plan, program, wait_for};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    vec![
        case("an_interrupt_ends_children_and_keeps_runs", &[], an_interrupt_ends_children_and_keeps_runs),
        case("an_interrupted_build_is_ended_too", &[], an_interrupted_build_is_ended_too),
        case("builds_before_an_interrupt_are_kept", &[], builds_before_an_interrupt_are_kept),
        case("an_interrupt_ends_a_meter_too", &[Need::Program("valgrind")], an_interrupt_ends_a_meter_too),
        case("resume_goes_on_where_it_broke_off", &[], resume_goes_on_where_it_broke_off),
        case("a_torn_last_line_is_left_out", &[], a_torn_last_line_is_left_out),
        case("an_existing_file_is_left_alone", &[], an_existing_file_is_left_alone),
        case("a_full_disk_leaves_whole_lines", &[Need::Program("bash")], a_full_disk_leaves_whole_lines),
    ]
}

/// Starts an experiment, waits until a condition holds, interrupts it, and returns its end.
pub fn interrupted(folder: &Path, arguments: &[&str], is_so: impl FnMut() -> bool) -> Output {
    let child = program(folder, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the moment to interrupt", is_so);
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

fn runs_in(folder: &Path, file: &str) -> usize {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("{\"run\"")).count()
}

fn an_interrupt_ends_children_and_keeps_runs() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    // The third run of the second variant hangs, with a child of its own.
    let second = "echo x >> count; [ $(wc -l < count) -lt 3 ] && exit 0; sleep 600 & echo $! > child; wait";
    plan(here, "true", second, "blocks = 9", "");
    let done = interrupted(here, &["run", "plan.toml"], || {
        here.join("child").is_file() && runs_in(here, "plan.jsonl") >= 4
    });
    fails(&done, 130, &[&format!(" {} runs", runs_in(here, "plan.jsonl")), "resume plan.jsonl"]);
    let child = std::fs::read_to_string(here.join("child")).unwrap();
    wait_for("the end of the child", || !is_alive(&child));
    // The rest is continued to its end.
    plan_goes_on(here);
    let resumed = eval(here, &["resume", "plan.jsonl", "--blocks", "3", "--format", "json"]);
    assert_eq!(code(&resumed), 0, "{}", err(&resumed));
    let measured: Vec<_> =
        lines(here, "plan.jsonl", "run").into_iter().filter(|run| run["phase"] == "measured").collect();
    assert_eq!(measured.len(), 3 * 2);
}

/// From now on the second variant, which is still the same file, counts no runs and does not hang.
fn plan_goes_on(here: &Path) {
    std::fs::remove_file(here.join("count")).unwrap();
    std::os::unix::fs::symlink("/dev/null", here.join("count")).unwrap();
}

fn an_interrupted_build_is_ended_too() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(
        here.join("plan.toml"),
        "sediment-eval = 1\n[build]\ncommand = \"echo $$ > building; sleep 600; true\"\n[[variant]]\nname = \"a\"\n\
         [[variant]]\nname = \"b\"\n[[workload]]\nname = \"w\"\ncommand = [\"{program}\"]\n",
    )
    .unwrap();
    let pid = || std::fs::read_to_string(here.join("building")).unwrap_or_default();
    let done = interrupted(here, &["run", "plan.toml"], || pid().ends_with('\n'));
    assert_eq!(code(&done), 130);
    assert!(!here.join("plan.jsonl").exists(), "{}", err(&done));
    wait_for("the end of the build", || !is_alive(&pid()));
}

fn an_interrupt_ends_a_meter_too() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    // Two warm-ups, the first counted run, and the same program under the meter, where it hangs.
    let script = "echo x >> count; [ $(wc -l < count) -lt 4 ] && exit 0; echo $$ > metered; sleep 600 & echo $! > child; wait";
    plan(here, script, &format!("{script} # the other"), "meters = [\"itlb\"]", "");
    let done = interrupted(here, &["run", "plan.toml"], || here.join("child").is_file());
    fails(&done, 130, &[" 2 runs"]);
    for process in ["metered", "child"] {
        let process = std::fs::read_to_string(here.join(process)).unwrap();
        wait_for("the end of what was metered", || !is_alive(&process));
    }
}

fn builds_before_an_interrupt_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(
        here.join("build.sh"),
        "echo $2 >> built\n[ $2 = a ] || [ -e go ] || { echo $$ > building; sleep 600; }\necho true > $1\n",
    )
    .unwrap();
    std::fs::write(
        here.join("plan.toml"),
        "sediment-eval = 1\nnoise-floor = false\n[run]\nblocks = 2\npilot = 2\ncounters = []\n\
         [build]\ncommand = [\"sh\", \"build.sh\", \"{output}\", \"{variant}\"]\n\
         [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n[[workload]]\nname = \"w\"\ncommand = [\"sh\", \"{program}\"]\n",
    )
    .unwrap();
    let done = interrupted(here, &["run", "plan.toml"], || here.join("building").is_file());
    fails(&done, 130, &["resume plan.jsonl"]);
    std::fs::write(here.join("go"), "").unwrap();
    let resumed = eval(here, &["resume", "plan.jsonl", "--format", "json"]);
    assert_eq!(code(&resumed), 0, "{}", err(&resumed));
    assert_eq!(
        std::fs::read_to_string(here.join("built")).unwrap(),
        "a\nb\nb\n",
        "the first is not built again"
    );
    assert_eq!(runs_in(here, "plan.jsonl"), 3 * 2);
}

fn resume_goes_on_where_it_broke_off() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    plan(here, "true", "true", "pilot = 2\nblocks = 6\nwarm-ups = 0", "");
    assert_eq!(code(&eval(here, &["run", "plan.toml", "-o", "whole.jsonl", "--format", "json"])), 0);
    assert_eq!(
        code(&eval(here, &["run", "plan.toml", "-o", "part.jsonl", "--blocks", "2", "--format", "json"])),
        0
    );
    let resumed = eval(here, &["resume", "part.jsonl", "--format", "json"]);
    assert_eq!(code(&resumed), 0, "{}", err(&resumed));
    let order = |file: &str| -> Vec<String> {
        lines(here, file, "run")
            .iter()
            .map(|run| format!("{} {} {} {}", run["block"], run["slot"], run["variant"], run["padding"]))
            .collect()
    };
    assert_eq!(order("part.jsonl"), order("whole.jsonl"), "as it would have gone without the break");
    let at: Vec<f64> =
        lines(here, "part.jsonl", "run").iter().map(|run| run["at"].as_f64().unwrap()).collect();
    assert!(at.windows(2).all(|pair| pair[0] <= pair[1]), "{at:?}");
}

fn a_torn_last_line_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    plan(here, "true", "true", "pilot = 2\nblocks = 2\nwarm-ups = 0", "");
    assert_eq!(code(&eval(here, &["run", "plan.toml", "--format", "json"])), 0);
    let text = std::fs::read_to_string(here.join("plan.jsonl")).unwrap();
    let last_run = text.rfind("{\"run\"").unwrap();
    std::fs::write(here.join("plan.jsonl"), &text[..last_run + 40]).unwrap();
    let resumed = eval(here, &["resume", "plan.jsonl", "--format", "json"]);
    assert_eq!(code(&resumed), 0, "{}", err(&resumed));
    assert!(err(&resumed).starts_with("sediment: warning: plan.jsonl: "), "{}", err(&resumed));
    assert_eq!(runs_in(here, "plan.jsonl"), 4);
    // Damage in the middle is different from an incomplete end.
    std::fs::write(here.join("plan.jsonl"), text.replacen("{\"run\"", "{\"ru", 1)).unwrap();
    let damaged = eval(here, &["report", "plan.jsonl"]);
    assert_eq!(code(&damaged), 1);
    assert!(err(&damaged).contains("plan.jsonl:") && err(&damaged).contains("damaged"), "{}", err(&damaged));
}

fn an_existing_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    plan(here, "true", "true", "", "");
    std::fs::write(here.join("plan.jsonl"), "mine").unwrap();
    let done = eval(here, &["run", "plan.toml"]);
    fails(&done, 1, &["plan.jsonl"]);
    assert!(!err(&done).contains("resume"), "{}", err(&done));
    assert_eq!(std::fs::read_to_string(here.join("plan.jsonl")).unwrap(), "mine");
    for command in ["resume", "gate"] {
        fails(&eval(here, &[command, "/dev/full"]), 1, &["/dev/full"]);
    }
}

fn a_full_disk_leaves_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    plan(here, "true", "true", "blocks = 200\npilot = 200", "");
    // A limit on the size of files acts like a full disk: writing stops somewhere in a line.
    let script = "trap '' XFSZ; ulimit -f 12; exec \"$0\" eval run plan.toml";
    let done = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_sediment")])
        .current_dir(here)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    fails(&done, 1, &["os error 27", "resume plan.jsonl"]);
    let text = std::fs::read_to_string(here.join("plan.jsonl")).unwrap();
    assert!(text.ends_with('\n') && runs_in(here, "plan.jsonl") > 3);
    let resumed = eval(here, &["resume", "plan.jsonl", "--blocks", "2", "--format", "json"]);
    assert_eq!(code(&resumed), 0, "{}", err(&resumed));
}
