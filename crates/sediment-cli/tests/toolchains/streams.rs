// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of the main commands to a pipe without a reader, and to a terminal with 40 columns.

use crate::running::{code, command, done, err, sediment};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use support::{Need, case, root};
use tempfile::TempDir;

/// Commands on the inputs of the transcripts, each with a result on standard output or a summary.
const COMMANDS: &[&str] = &[
    "--help",
    "order --help",
    "import cg.out",
    "import cg.out -o imported.gv",
    "import cg.out -o imported.gv --json",
    "merge a.gv b.gv",
    "diff a.gv b.gv",
    "show p.gv",
    "show p.gv --json",
    "show .",
    "draw p.gv",
    "split p.gv -o parts",
    "order p.gv --linker lld",
    "order p.gv --linker lld -o written.order --json",
    "predict p.gv",
    "report p.gv --binary tool -o page.html",
    "verify tool --order asked --profile p.gv",
    "verify tool --order asked --profile p.gv --json",
    "advise inline p.gv --binary tool",
    "eval quick --no-counters --blocks 3 --warm-ups 0 -- true -- true",
    "doctor",
    "doctor --json",
    "record -o recorded.gv -- ./tool",
    "show nowhere.gv",
    "order p.gv --linker none",
];

pub(crate) fn cases() -> Vec<Trial> {
    let cc = Need::Program("cc");
    vec![
        case("nobody_reads_the_output", &[cc], nobody_reads_the_output),
        case("forty_columns", &[cc, Need::Program("script"), Need::Program("stty")], forty_columns),
    ]
}

/// A folder with the inputs and further files for the commands.
fn prepared() -> TempDir {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(MADE.get_or_init(made).path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    folder
}

fn made() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for input in std::fs::read_dir(root().join("tests/golden/cli/inputs")).unwrap() {
        let input = input.unwrap().path();
        std::fs::copy(&input, folder.path().join(input.file_name().unwrap())).unwrap();
    }
    done(&sediment(folder.path(), &["import", "cg.out", "-o", "p.gv"]));
    std::fs::write(folder.path().join("asked"), "main\nwork\nleaf\n").unwrap();
    let source = "int leaf(int x){return x+1;}\nint work(int x){return leaf(x)*2;}\nint main(void){return work(3)==9;}\n";
    std::fs::write(folder.path().join("tool.c"), source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O0", "-ffunction-sections", "-fno-toplevel-reorder", "-o", "tool", "tool.c"]);
    // The order is in the file, so the linker does not matter.
    compiler.env_remove("COMPILER_PATH").env_remove("PROF_DIR").current_dir(folder.path());
    assert!(compiler.status().unwrap().success());
    folder
}

/// A pipe whose reader has ended.
fn unread() -> Stdio {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = reader.stdin.take().unwrap();
    reader.wait().unwrap();
    pipe.into()
}

/// Files of a folder with their texts, without dates and times.
fn written(folder: &Path) -> Vec<(String, usize)> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut files: Vec<(String, usize)> = entries
        .filter(|entry| entry.path().is_file())
        .map(|entry| {
            let length = std::fs::read(entry.path()).unwrap().len();
            (entry.file_name().into_string().unwrap(), length)
        })
        .collect();
    files.sort();
    files
}

/// The command ends as with a reader, and its files are complete.
fn nobody_reads_the_output() {
    for line in COMMANDS {
        let words: Vec<&str> = line.split(' ').collect();
        let [read, closed] = [prepared(), prepared()];
        let expected = sediment(read.path(), &words);
        for both in [false, true] {
            let mut command = command(closed.path(), &words);
            command.stdout(unread()).stderr(if both { unread() } else { Stdio::piped() });
            let found: Output = command.spawn().unwrap().wait_with_output().unwrap();
            assert_eq!(code(&found), code(&expected), "{line}: {}", err(&found));
            assert!(!err(&found).contains("panicked"), "{line}: {}", err(&found));
            // Recordings vary.
            if !line.starts_with("record") {
                assert_eq!(written(closed.path()), written(read.path()), "{line}");
            }
        }
    }
}

/// Returns the output in a terminal, and the exit code.
fn in_terminal(folder: &Path, line: &str) -> (String, i32) {
    let program = env!("CARGO_BIN_EXE_sediment");
    let inner = format!("stty cols 40 rows 20; exec '{program}' {line}");
    let mut script = Command::new("script");
    script.args(["-qec", &inner, "/dev/null"]).current_dir(folder).stdin(Stdio::null());
    script.env("SHELL", "/bin/sh").env("TERM", "xterm").env("NO_COLOR", "1").env_remove("COLUMNS");
    let output = script.output().unwrap();
    (crate::running::out(&output), code(&output))
}

/// Returns the final text of a terminal line: without control sequences, and without an overwritten progress bar.
fn visible(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += part.split_once(|end: char| end.is_ascii_alphabetic()).map_or("", |(_, rest)| rest);
    }
    plain.trim_end().rsplit('\r').next().unwrap_or_default().trim_end().to_owned()
}

/// Worth its time, like the test above: every command runs, and each prints in its own way.
fn forty_columns() {
    for line in COMMANDS {
        let words: Vec<&str> = line.split(' ').collect();
        let [piped, shown] = [prepared(), prepared()];
        let expected = sediment(piped.path(), &words);
        let (text, code) = in_terminal(shown.path(), line);
        assert_eq!(code, crate::running::code(&expected), "{line}: {text}");
        let shown: Vec<String> = text.lines().map(visible).collect();
        let lines = || shown.iter().map(String::as_str);
        if line.ends_with("--help") {
            // Words are never broken, and neither are synopses.
            let is_broken = |line: &&str| {
                line.chars().count() > 40 && line.trim_start().contains(' ') && !line.starts_with("Usage: ")
            };
            assert_eq!(lines().find(is_broken), None, "{line}");
        } else if !line.starts_with("eval") && !line.starts_with("record") {
            // Except for times and sizes of pages, a terminal shows the same.
            let missing = String::from_utf8(expected.stdout).unwrap();
            let missing = missing.lines().find(|wanted| !lines().any(|line| line == wanted.trim_end()));
            assert_eq!(missing, None, "{line}: {text}");
        }
    }
}
