// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of two files by gdb: breakpoints by name and by line and, if asked for, the callers of functions. gdb only
//! reads the files, except for callers.

use sediment_core::binary::source_lines::SourceLine;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::verify::same::Check;
use sediment_process::command::{Command, Outcome, observe, run};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Time limit for gdb to read a file, or to run a program until enough functions were called.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Limit of gdb's answer in bytes.
const LONGEST_ANSWER: usize = 16 << 20;

/// Number of functions to stop at.
const STOPS: usize = 8;

/// Number of frames to compare per function.
const FRAMES: usize = 32;

/// Begins each part of gdb's answer; no line of gdb's own begins so.
const MARK: &str = "@sediment";

/// Without the user's settings, scripts that come with files, networks, questions, or lines cut to the width of a terminal. A program
/// that runs gets no input, and its output goes nowhere.
const SETTINGS: &[&str] = &[
    "set auto-load no",
    "set debuginfod enabled off",
    "set inferior-tty /dev/null",
    "set confirm off",
    "set pagination off",
    "set width 0",
    "set style enabled off",
    "set breakpoint pending off",
    "set print frame-arguments none",
    "set print entry-values no",
];

/// A function that gdb is asked about.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) name: String,
    /// First line of the function.
    pub(super) line: Option<SourceLine>,
}

/// A breakpoint location: for people and for gdb, if gdb can spell it.
struct Location {
    shown: String,
    spelled: Option<String>,
}

/// Compares gdb's breakpoints by function name.
pub(super) fn by_name(base: &Path, other: &Path, functions: &[Asked]) -> Result<Check> {
    let location = |asked: &Asked| Location {
        shown: asked.name.clone(),
        spelled: escape::gdb(&asked.name).map(|name| format!("-qualified -function {name}")),
    };
    breaks(("gdb breaks by name", "name"), [base, other], functions.iter().map(location))
}

/// Compares gdb's breakpoints by source line.
pub(super) fn by_line(base: &Path, other: &Path, functions: &[Asked]) -> Result<Check> {
    let location = |line: &SourceLine| Location {
        shown: line.to_string(),
        spelled: escape::gdb(&line.file).map(|file| format!("-source {file} -line {}", line.line)),
    };
    let lines = functions.iter().filter_map(|asked| asked.line.as_ref());
    breaks(("gdb breaks by line", "line"), [base, other], lines.map(location))
}

/// Compares gdb's breakpoints in two files.
fn breaks(
    (what, of): (&'static str, &str),
    files: [&Path; 2],
    locations: impl Iterator<Item = Location>,
) -> Result<Check> {
    let (mut shown, mut spelled, mut unspelled) = (Vec::new(), Vec::new(), 0);
    for location in locations {
        match location.spelled {
            Some(words) => {
                shown.push(location.shown);
                spelled.push(words);
            }
            None => unspelled += 1,
        }
    }
    if spelled.is_empty() {
        return Err(Error::new(
            ErrorCode::NotMeasured,
            match unspelled {
                0 => format!("the base has no {of} for the functions in both files"),
                _ => format!("gdb has no spelling for any of {unspelled} functions"),
            },
        ));
    }
    let [base, other] = [source_lines(files[0], &spelled)?, source_lines(files[1], &spelled)?];
    if base.iter().all(BTreeSet::is_empty) {
        return Err(Error::new(ErrorCode::NotMeasured, "gdb finds no location in the base"));
    }
    Ok(compared(what, &shown, &base, &other, unspelled))
}

/// gdb's locations for these breakpoints.
fn source_lines(file: &Path, locations: &[String]) -> Result<Vec<BTreeSet<String>>> {
    let mut words = Vec::new();
    for location in locations {
        words.extend([format!("echo {MARK}\\n"), format!("break {location}")]);
        words.extend(["info breakpoints", "delete"].map(str::to_owned));
    }
    let command = gdb(&words, "/").with_arguments([file.as_os_str()]);
    let ended = run(&command, LONGEST_ANSWER)?.successful(&command)?;
    Ok(parts(&ended.output).map(|part| part.lines().filter_map(source_line).collect()).collect())
}

/// The source line in a line of `info breakpoints`: the text after the address. None for other lines, such as the answer to `break`.
fn source_line(line: &str) -> Option<String> {
    line.starts_with(|first: char| first.is_ascii_digit()).then_some(())?;
    let (_, behind) = line.split_once(" 0x")?;
    let (_, line) = behind.split_once(' ')?;
    Some(line.trim().to_owned())
}

fn compared(
    what: &'static str,
    locations: &[String],
    base: &[BTreeSet<String>],
    other: &[BTreeSet<String>],
    unspelled: usize,
) -> Check {
    let nowhere = BTreeSet::new();
    let at = |found: &[BTreeSet<String>], index: usize| found.get(index).unwrap_or(&nowhere).clone();
    let first = (0..locations.len()).find(|index| at(base, *index) != at(other, *index));
    let in_words = |found: &[BTreeSet<String>]| {
        let number = found.iter().filter(|lines| !lines.is_empty()).count();
        let mut text = format!("{number} of {}", locations.len());
        if unspelled > 0 {
            text += &format!(" (gdb has no spelling for {unspelled} more)");
        }
        if let Some(first) = first {
            let there: Vec<String> = at(found, first).into_iter().collect();
            let there = if there.is_empty() { "nowhere".to_owned() } else { there.join(", ") };
            text += &format!(", for example {}: {there}", locations[first]);
        }
        text
    };
    Check { what, same: first.is_none(), base: in_words(base), other: in_words(other) }
}

/// Compares the callers of functions at their first call; runs both files.
pub(super) fn backtraces(
    base: &Path,
    other: &Path,
    functions: &[Asked],
    arguments: &[OsString],
) -> Result<Check> {
    let [stops, others] = [stops(base, functions, arguments)?, stops(other, functions, arguments)?];
    let in_words = |own: &BTreeSet<String>, than: &BTreeSet<String>| {
        let text = format!("first calls: {}", own.len());
        match own.difference(than).next() {
            Some(first) => format!("{text}, for example {first}"),
            None => text,
        }
    };
    Ok(Check {
        what: "backtraces",
        same: stops == others,
        base: in_words(&stops, &others),
        other: in_words(&others, &stops),
    })
}

/// The first calls of some functions, each with its callers.
fn stops(file: &Path, functions: &[Asked], arguments: &[OsString]) -> Result<BTreeSet<String>> {
    let mut words = ["handle all nostop noprint pass", "set print address off"].map(str::to_owned).to_vec();
    let spelled = functions.iter().filter_map(|asked| escape::gdb(&asked.name));
    words.extend(spelled.map(|name| format!("tbreak -qualified -function {name}")));
    words.push("run".to_owned());
    for stop in 0..STOPS {
        if stop > 0 {
            words.push("continue".to_owned());
        }
        words.extend([format!("echo {MARK}\\n"), format!("backtrace {FRAMES}"), format!("echo {MARK}\\n")]);
    }
    words.push("kill".to_owned());
    let here = std::env::current_dir()
        .map_err(|error| Error::new(ErrorCode::Io, format!("the current folder is unknown: {error}")))?;
    let command = gdb(&words, here)
        .with_arguments([OsString::from("--args"), file.into()])
        .with_arguments(arguments.iter().cloned());
    let ended = observe(&command, LONGEST_ANSWER).map_err(|error| {
        Error::new(ErrorCode::Unsupported, error.to_string()).with_hint("install gdb, or remove --backtrace")
    })?;
    let found: BTreeSet<String> = parts(&ended.output).filter_map(|part| backtrace(&part)).collect();
    if found.is_empty() {
        let why = match ended.outcome {
            Outcome::OutOfTime => format!("the program called none of them in {} s", TIMEOUT.as_secs()),
            _ => ended.last_words().unwrap_or_else(|| "the program called none of them".to_owned()),
        };
        return Err(Error::new(
            ErrorCode::NotMeasured,
            format!("no backtrace of the chosen functions: {why}"),
        )
        .with_input(file.display().to_string())
        .with_hint("can this program run here with these arguments, and may gdb trace it?"));
    }
    Ok(found)
}

/// The frames of a backtrace in a line, without addresses; None where the program did not stop.
fn backtrace(part: &str) -> Option<String> {
    let frames: Vec<String> = part
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let words = line.split_whitespace().skip(1);
            words.filter(|word| !word.starts_with("0x")).collect::<Vec<_>>().join(" ")
        })
        .collect();
    (!frames.is_empty()).then(|| frames.join(" < "))
}

/// gdb with these commands; each runs whether or not the one before could do anything.
fn gdb(words: &[String], folder: impl Into<std::path::PathBuf>) -> Command {
    let mut command =
        Command::new("gdb", folder, TIMEOUT).with_arguments(["-nx", "-nh", "-batch"].map(OsString::from));
    for setting in SETTINGS {
        command = command.with_arguments(["-iex", setting]);
    }
    for word in words {
        command = command.with_arguments(["-ex", word]);
    }
    for (name, value) in [("LC_ALL", "C"), ("DEBUGINFOD_URLS", ""), ("SHELL", "/bin/sh")] {
        command.environment.push((name.into(), value.into()));
    }
    command
}

/// Parts of gdb's answer between the marks.
fn parts(answer: &[u8]) -> impl Iterator<Item = String> {
    let text = String::from_utf8_lossy(answer).into_owned();
    let mut parts: Vec<String> = Vec::new();
    for line in text.lines() {
        if line == MARK {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            *part += line;
            part.push('\n');
        }
    }
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_frames_are_told_without_addresses() {
        let single = "1       breakpoint     keep y   0x0000000000001184 in all_b at b.c:34";
        assert_eq!(source_line(single).as_deref(), Some("in all_b at b.c:34"));
        assert_eq!(source_line("1.2                         y   0x1184 <b07+4>").as_deref(), Some("<b07+4>"));
        assert_eq!(source_line("2       breakpoint     keep y   <MULTIPLE>         "), None);
        assert_eq!(source_line("Breakpoint 1 at 0x1184: file b.c, line 34."), None);
        assert_eq!(source_line("Num     Type           Disp Enb Address            What"), None);
        let part = "#0  b07 (x=...) at b.c:12\n#1  0x00005555 in all_b (x=...) at b.c:34\n12\t{\n";
        assert_eq!(backtrace(part).as_deref(), Some("b07 (x=...) at b.c:12 < in all_b (x=...) at b.c:34"));
        assert_eq!(backtrace("No stack.\n"), None);
    }

    #[test]
    fn differing_backtraces_are_named() {
        let set = |place: &str| BTreeSet::from([place.to_owned()]);
        let locations = ["a".to_owned(), "b".to_owned()];
        let base = [set("in a at x.c:1"), set("in b at x.c:2")];
        let same = compared("gdb", &locations, &base, &base, 0);
        assert!(same.same && same.base == "2 of 2", "{same:?}");
        let check = compared("gdb", &locations, &base, &base[..1], 3);
        assert!(!check.same);
        assert_eq!(check.other, "1 of 2 (gdb has no spelling for 3 more), for example b: nowhere");
    }

    #[test]
    fn only_what_stands_between_marks_is_an_answer() {
        let answer = format!("Reading symbols\n{MARK}\na\nb\n{MARK}\n{MARK}\nc\n");
        assert_eq!(parts(answer.as_bytes()).collect::<Vec<_>>(), ["a\nb\n", "", "c\n"]);
    }
}
