// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wording, compared with golden files: `tests/golden/said/NAME.txt` holds all that a test named NAME checked, in order, each part
//! below a line `== number`. `SEDIMENT_BLESS=1` rewrites them.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

/// The number of texts that each test has checked so far.
static CHECKED: LazyLock<Mutex<HashMap<String, usize>>> = LazyLock::new(Mutex::default);

/// Compares a text with the next part of a golden file; temporary folders and the project's own have names that do not vary.
pub fn says(name: &str, text: impl AsRef<str>) {
    compare(name, &without_folders(text.as_ref()));
}

/// The same of a text in which numbers differ from run to run: each stands as `N`, and blanks are single.
pub fn says_like(name: &str, text: impl AsRef<str>) {
    compare(name, &without_numbers(&without_folders(text.as_ref())));
}

/// The same of the lines that hold one of these words, in a log to which other programs wrote too.
pub fn says_in_log(name: &str, log: impl AsRef<str>, words: &[&str]) {
    let lines = log.as_ref().lines().filter(|line| !line.starts_with("+ ")); // a shell that shows its steps
    let lines = lines.filter(|line| words.iter().any(|word| line.contains(word)));
    says_like(name, lines.collect::<Vec<_>>().join("\n"));
}

fn file(name: &str) -> PathBuf {
    let name =
        name.replace(|character: char| !(character.is_ascii_alphanumeric() || "/_".contains(character)), "-");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/said").join(format!("{name}.txt"))
}

fn compare(name: &str, text: &str) {
    let number = {
        let mut checked = CHECKED.lock().unwrap();
        let number = checked.entry(name.to_owned()).or_default();
        *number += 1;
        *number
    };
    let (file, text) = (file(name), text.trim_end());
    let part = format!("== {number}\n{text}\n");
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    if std::env::var_os("SEDIMENT_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let before = if number == 1 { String::new() } else { before };
        return std::fs::write(&file, before + &part).unwrap();
    }
    let next = before.find(&format!("== {number}\n")).unwrap_or(before.len());
    let end = before.find(&format!("== {}\n", number + 1)).unwrap_or(before.len());
    let expected = &before[next..end.max(next)];
    assert!(
        expected == part,
        "{} differs (SEDIMENT_BLESS=1 rewrites it)\n--- expected\n{expected}\n--- actual\n{part}",
        file.display()
    );
}

/// Beginnings of lines that depend on the machine's other work.
const OF_MACHINE: &[&str] = &["sediment: the hypervisor took ", "sediment: elapsed: perf began its clock "];
/// A line with the counters that the machine has not.
fn is_of_counters(line: &str) -> bool {
    line.starts_with("sediment: not counted: ") && line.contains(": not supported: ")
}

/// Temporary folders (`/tmp/.tmpAb12Cd`), the project's folder and the program as words that do not vary.
fn without_folders(text: &str) -> String {
    let of_machine =
        |line: &&str| is_of_counters(line) || OF_MACHINE.iter().any(|beginning| line.starts_with(beginning));
    let mut text: String = text.split_inclusive('\n').filter(|line| !of_machine(line)).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();

    if let Some(program) = option_env!("CARGO_BIN_EXE_sediment") {
        text = text.replace(program, "PROGRAM");
    }
    let mut text = text.replace(&root.display().to_string(), "PROJECT");
    let temporary = std::env::temp_dir().display().to_string();
    let length_of_name = |rest: &str| rest.bytes().take(6).take_while(u8::is_ascii_alphanumeric).count();
    for (beginning, stands_for) in [("/.tmp", "FOLDER"), ("/.sediment-", "/FILE")] {
        let mut from = 0;
        while let Some(at) = text[from..].find(beginning).map(|at| at + from) {
            let is_folder = stands_for == "FOLDER" && text[..at].ends_with(&temporary);
            let begin = at - if is_folder { temporary.len() } else { 0 };
            let name = at + beginning.len();
            text.replace_range(begin..name + length_of_name(&text[name..]), stands_for);
            from = begin + stands_for.len();
        }
    }
    let kept = text.lines().filter(|line| !is_of_load(line)).map(without_digests);
    kept.collect::<Vec<_>>().join("\n")
}

/// The note of an experiment on a busy machine.
fn is_of_load(line: &str) -> bool {
    line.contains(" load ") && line.contains(" processor")
}

/// Build-ids and hashes, 12 or more hexadecimal digits, as one word.
fn without_digests(line: &str) -> String {
    let mut result = String::new();
    for word in line.split_inclusive(|character: char| !character.is_ascii_alphanumeric()) {
        let digits = word.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
        let is_digest = digits.len() >= 12
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            && digits.bytes().any(|byte| byte.is_ascii_digit());
        result += if is_digest { "DIGEST" } else { digits };
        result += &word[digits.len()..];
    }
    result
}

/// Every number (with its decimals) as N, every run of blanks as one.
fn without_numbers(text: &str) -> String {
    let mut result = String::new();
    for line in text.lines() {
        let mut word = String::new();
        for character in line.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
            let inside = word.ends_with('N');
            if character.is_ascii_digit() || inside && character == '.' {
                word += if inside { "" } else { "N" };
            } else {
                word.push(character);
            }
        }
        let _ = writeln!(result, "{word}");
    }
    result
}
