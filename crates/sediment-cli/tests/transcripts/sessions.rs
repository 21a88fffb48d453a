// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transcripts: the output of each command. `tests/golden/cli/COMMAND.txt` is a shell session, in a separate folder
//! with the files in `tests/golden/cli/inputs`:
//!
//! ```text
//! # a comment
//! $ a command line
//! | a line of standard output
//! ! a line of standard error
//! ? the exit code, where it is not 0
//! ```
//!
//! `SEDIMENT_BLESS=1` runs the command lines and writes the rest: read the difference before you commit it.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn folder_of_goldens() -> PathBuf {
    support::root().join("tests/golden/cli")
}

/// The commands of the program, as its help lists them.
fn commands() -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_sediment")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let table = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = table.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Makes a folder with the inputs, and with the program in `bin`.
fn prepared() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("transcript").tempdir().unwrap();
    for input in std::fs::read_dir(folder_of_goldens().join("inputs")).unwrap() {
        let input = input.unwrap().path();
        std::fs::copy(&input, folder.path().join(input.file_name().unwrap())).unwrap();
    }
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), folder.path().join("bin/sediment")).unwrap();
    folder
}

/// Runs a line in bash, with an environment that is independent of the machine.
fn run(folder: &Path, line: &str) -> std::process::Output {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SEDIMENT") {
            shell.env_remove(name);
        }
    }
    shell.args(["-c", line]).current_dir(folder).stdin(Stdio::null());
    shell.envs([("PATH", path.as_str()), ("LC_ALL", "C.UTF-8"), ("TERM", "dumb"), ("NO_COLOR", "1")]);
    shell
        .env("HOME", folder)
        .env("SOURCE_DATE_EPOCH", "1000000000")
        .env_remove("COLUMNS")
        .env_remove("DEBUGINFOD_URLS")
        .output()
        .unwrap()
}

/// Adds lines, each after its mark, without data that varies between machines.
fn add(text: &mut String, mark: char, bytes: &[u8], folder: &Path) {
    let version = format!("sediment {}", env!("CARGO_PKG_VERSION"));
    let said = String::from_utf8_lossy(bytes)
        .replace(&folder.display().to_string(), "FOLDER")
        .replace(&version, "sediment VERSION");
    // A busy machine is only said where it is busy.
    for line in said.lines().filter(|line| !line.contains("the load of this machine is ")) {
        text.push(mark);
        if !line.is_empty() {
            text.push(' ');
            text.push_str(line);
        }
        text.push('\n');
    }
}

/// Runs the session in a golden file again.
fn replayed(golden: &str) -> String {
    let folder = prepared();
    let mut text = String::new();
    for line in golden.lines() {
        let output = ['|', '!', '?'].iter().any(|mark| line.starts_with(*mark));
        if output {
            continue;
        }
        text.push_str(line);
        text.push('\n');
        let Some(command) = line.strip_prefix("$ ") else { continue };
        let done = run(folder.path(), command);
        add(&mut text, '|', &done.stdout, folder.path());
        add(&mut text, '!', &done.stderr, folder.path());
        let code = done.status.code().unwrap_or_else(|| 128 + done.status.signal().unwrap());
        if code != 0 {
            text.push_str(&format!("? {code}\n"));
        }
    }
    text
}

#[test]
fn sessions_go_as_their_transcripts_say() {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder_of_goldens()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let differing: Vec<String> = std::thread::scope(|scope| {
        let sessions: Vec<_> = files.iter().map(|file| scope.spawn(|| differs(file))).collect();
        sessions.into_iter().filter_map(|session| session.join().unwrap()).collect()
    });
    assert!(differing.is_empty(), "SEDIMENT_BLESS=1 rewrites them:\n{}", differing.join("\n"));
}

/// Returns the difference between a session and its transcript.
fn differs(file: &Path) -> Option<String> {
    let golden = std::fs::read_to_string(file).unwrap();
    let now = replayed(&golden);
    if std::env::var_os("SEDIMENT_BLESS").is_some() {
        std::fs::write(file, &now).unwrap();
        return None;
    }
    let difference = similar::TextDiff::from_lines(&golden, &now);
    let name = file.display().to_string();
    (golden != now).then(|| difference.unified_diff().header(&name, "now").to_string())
}

#[test]
fn every_command_has_a_transcript_with_its_help() {
    for command in commands() {
        let file = folder_of_goldens().join(format!("{command}.txt"));
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let help = format!("$ sediment {command} --help\n| ");
        assert!(text.contains(&help), "{}: add the line `$ sediment {command} --help`", file.display());
    }
}
