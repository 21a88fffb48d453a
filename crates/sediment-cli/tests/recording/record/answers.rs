// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of a recording on the screen and in the folder: at most five lines, the selected programs, an older profile.

use super::*;
use crate::running::out;
use libtest_mimic::Trial;

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    vec![
        case("a_recording_is_told_in_five_lines", &compiler, a_recording_is_told_in_five_lines),
        case(
            "a_terminal_shows_what_is_waited_for",
            &[Need::Program("cc"), Need::Program("script")],
            a_terminal_shows_what_is_waited_for,
        ),
        case("programs_are_kept_by_their_names", &compiler, programs_are_kept_by_their_names),
        case(
            "other_methods_keep_all_beside_the_output",
            &[Need::Program("cc"), Need::Program("valgrind")],
            other_methods_keep_all_beside_the_output,
        ),
        case("two_files_of_one_name_are_a_warning", &compiler, two_files_of_one_name_are_a_warning),
    ]
}

fn record(shop: &RecordingFolder, options: &[&str], command: &[&str]) -> Output {
    let mut record = Command::new(env!("CARGO_BIN_EXE_sediment"));
    record.args(["record", "-o", "recorded.gv", "--method", "call-sites"]).args(options).arg("--");
    let done = record.args(command).current_dir(shop.path()).stdin(Stdio::null()).output().unwrap();
    assert!(shop.path().join("recorded.gv").is_file(), "{}", err(&done));
    done
}

/// A shell runs the program and tools of the system, most of them stripped.
fn a_recording_is_told_in_five_lines() {
    let shop = RecordingFolder::new();
    shop.compile("plain", &programs::plain(), &[]);
    let command = ["sh", "-c", "ls / >/dev/null; ./plain >/dev/null; cat /dev/null"];
    let said = err(&record(&shop, &[], &command));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() <= 5, "{said}");
    let next = "next: sediment order recorded.gv --binary plain --linker auto -o recorded.order";
    assert_eq!(lines.last(), Some(&next), "{said}");
    // A shell that does most of the work itself causes one more warning.
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; cat /dev/null";
    let of_shell = err(&record(&shop, &[], &["sh", "-c", busy]));
    assert!(of_shell.lines().count() <= 5, "{of_shell}");
    // An existing file is kept.
    let older = std::fs::read(shop.path().join("recorded.gv")).unwrap();
    let again = err(&record(&shop, &[], &["./plain"]));
    assert!(again.contains("recorded.gv.old"), "{again}");
    assert_eq!(std::fs::read(shop.path().join("recorded.gv.old")).unwrap(), older);
    let detailed = err(&record(&shop, &["-v"], &command));
    assert!(detailed.lines().count() > 5, "{detailed}");
    assert_eq!(err(&record(&shop, &["--quiet"], &["./plain"])), "");
    // A recording that ends before its program prints its own duration, and on a terminal also that it waits for the
    // program.
    let begun = Instant::now();
    let early = err(&record(&shop, &["--seconds", "0.2"], &["sh", "-c", "./plain; sleep 2"]));
    let seconds =
        early.split(" s -> ").next().and_then(|start| start.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds + 1.0 < begun.elapsed().as_secs_f64()), "{early}");
}

fn a_terminal_shows_what_is_waited_for() {
    let shop = RecordingFolder::new();
    shop.compile("plain", &programs::plain(), &[]);
    let command = format!(
        "{} record -o recorded.gv --method call-sites --seconds 0.2 -- sh -c './plain; sleep 2'",
        env!("CARGO_BIN_EXE_sediment")
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm").current_dir(shop.path());
    let shown = terminal.stdin(Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let (recording, waiting) = (shown.find("recording"), shown.find("; waiting"));
    assert!(recording.is_some() && recording < waiting, "{shown:?}");
}

fn programs_are_kept_by_their_names() {
    let shop = RecordingFolder::new();
    shop.compile("plain", &programs::plain(), &[]);
    record(&shop, &["--only", "pl?in", "--only", "nothing*"], &["sh", "-c", "./plain"]);
    let labels: Vec<String> = shop.profile().dsos().keys().cloned().collect();
    assert_eq!(labels, ["plain"]);
    let older = std::fs::read(shop.path().join("recorded.gv")).unwrap();
    let none = record(&shop, &["--only", "nothing"], &["./plain"]);
    assert!(
        code(&none) == 1 && err(&none).contains("--only") && err(&none).contains(", plain;"),
        "{}",
        err(&none)
    );
    assert_eq!(std::fs::read(shop.path().join("recorded.gv")).unwrap(), older, "left as it was");
    // With a profile on standard output, no next command is printed, and no file is written next to it.
    let printed = |more: &[&str]| {
        let mut printed = Command::new(env!("CARGO_BIN_EXE_sediment"));
        printed.args(["record", "--method", "call-sites", "-o", "-"]).args(more).args(["--", "./plain"]);
        printed.stdin(Stdio::null()).current_dir(shop.path()).output().unwrap()
    };
    let none = printed(&["--only", "nothing"]);
    assert!(code(&none) == 1 && !out(&none).contains("digraph"), "{}", err(&none));
    let printed = printed(&[]);
    assert!(out(&printed).contains("digraph") && !err(&printed).contains("next:"), "{}", err(&printed));
}

/// Valgrind counts in every file, and may have taken long.
fn other_methods_keep_all_beside_the_output() {
    let shop = RecordingFolder::new();
    shop.compile("plain", &programs::plain(), &[]);
    let by_valgrind = |output: &str| {
        let mut record = Command::new(env!("CARGO_BIN_EXE_sediment"));
        record.args(["record", "--method", "valgrind", "--only", "nothing", "-o", output, "--", "./plain"]);
        record.stdin(Stdio::null()).current_dir(shop.path()).output().unwrap()
    };
    let none = by_valgrind("recorded.gv");
    assert!(code(&none) == 1 && !shop.path().join("recorded.gv").exists(), "{}", err(&none));
    let all = std::fs::read_to_string(shop.path().join("recorded.gv.all")).unwrap();
    assert!(all.contains("label=\"plain\"") && err(&none).contains("recorded.gv.all"), "{}", err(&none));
    let printed = by_valgrind("-");
    assert!(code(&printed) == 1 && !out(&printed).contains("digraph") && !shop.path().join("-.all").exists());
}

/// Like git, and git in its folder of commands.
fn two_files_of_one_name_are_a_warning() {
    let shop = RecordingFolder::new();
    let first = shop.compile("tool", &programs::plain(), &[]);
    std::fs::create_dir(shop.path().join("other")).unwrap();
    std::fs::rename(first, shop.path().join("other/tool")).unwrap();
    shop.compile("tool", &programs::plain(), &["-O2"]);
    let said = err(&record(&shop, &[], &["sh", "-c", "./tool; other/tool"]));
    assert!(said.lines().any(|line| line.contains("/tool, ") && line.contains("/other/tool;")), "{said}");
    let alone = err(&record(&shop, &[], &["sh", "-c", "./tool; ./tool"]));
    assert!(!alone.contains("/tool, "), "{alone}");
}
