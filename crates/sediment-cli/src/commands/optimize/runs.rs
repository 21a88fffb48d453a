// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the user's commands (builds and training) with a log and a time limit, and ends them at the user's request.

use crate::files;
use crate::ui::Ui;
use sediment_core::{Error, ErrorCode, ErrorKind, Result, escape};
use sediment_process::command::{Outcome, Usage, last_lines, observe};
use sediment_process::{Command, Stop};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Time limit of a build, which is practically unlimited.
pub(super) const UNLIMITED: Duration = Duration::from_secs(30 * 24 * 3600);
/// Number of lines of a log that an error shows.
const SHOWN_LINES: usize = 12;

/// Folder and environment of commands.
pub(super) struct RunPlace<'a> {
    pub(super) folder: &'a Path,
    /// True for the copy of a tree, which has other folders around it.
    pub(super) is_copy: bool,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) stop: &'a Stop,
    pub(super) ui: &'a Ui,
}

/// The words that run a command line in a shell.
pub(super) fn in_shell(line: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", line].map(OsString::from).to_vec()
}

/// Returns the words of the user's build command; a single argument with blanks is run by a shell.
pub(super) fn build_words(words: &[OsString]) -> Vec<OsString> {
    match words {
        [line] if line.to_string_lossy().contains(char::is_whitespace) && !Path::new(line).exists() => {
            in_shell(&line.to_string_lossy())
        }
        words => words.to_vec(),
    }
}

impl RunPlace<'_> {
    /// Makes a command for this place, without a log.
    pub(super) fn command(&self, words: &[OsString], limit: Duration) -> Command {
        let (program, arguments) =
            words.split_first().map_or((OsString::new(), &[][..]), |(program, rest)| (program.clone(), rest));
        let mut command = Command::new(program, self.folder, limit).with_arguments(arguments.iter().cloned());
        command.environment.clone_from(&self.environment);
        command.stopped_by(self.stop)
    }

    /// Returns the error of a command. If the error or the command's output names a path above the tree, a hint
    /// explains that the copy is elsewhere.
    pub(super) fn with_hint_of_copy(&self, error: Error, texts: &[&str]) -> Error {
        if !self.is_copy
            || error.kind() == ErrorKind::Interrupted
            || !texts.iter().any(|text| text.contains("../"))
        {
            return error;
        }
        let why = format!(
            "it ran in {}, the copy of the tree: use absolute paths for files outside the tree, or build in the tree itself: --in-place",
            files::display(self.folder)
        );
        let hint = error.hint().map_or(why.clone(), |hint| format!("{why}\n{hint}"));
        error.with_hint(hint)
    }

    /// Runs a command to its end; what it prints is its log.
    ///
    /// # Errors
    /// If it cannot be started, fails, or exceeds the limit, with the last lines of its log.
    pub(super) fn run(&self, what: &str, words: &[OsString], limit: Duration, log: &Path) -> Result<Usage> {
        let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        self.ui.detail(&format!(
            "in {}: {}",
            files::display(self.folder),
            escape::terminal(&shown.join(" "))
        ));
        // A shell opens the log, and is replaced by the program.
        let mut logged: Vec<OsString> =
            ["/bin/sh", "-c", "exec >\"$0\" 2>&1; exec \"$@\""].map(OsString::from).to_vec();
        logged.push(log.into());
        logged.extend(words.iter().cloned());
        let ended = observe(&self.command(&logged, limit), 0)?;
        let left = sediment_process::left_behind::end_left_behind();
        let failed = |message: String| {
            let said = said(log);
            let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            let error = Error::new(ErrorCode::ProgramFailed, message).with_hint(&said);
            Err(self.with_hint_of_copy(error, &[&line, &said]))
        };
        match ended.outcome {
            Outcome::Exited(0) => {
                if !left.is_empty() {
                    append(
                        log,
                        &format!(
                            "sediment: stopped processes that {what} left running: {}\n",
                            left.join(", ")
                        ),
                    );
                }
                Ok(ended.usage)
            }
            Outcome::Exited(127) => failed(format!("{what}: program not found (exit code 127)")),
            Outcome::Exited(code) => failed(format!("{what} failed with exit code {code}")),
            Outcome::Signalled(signal) => failed(format!("{what} was killed by signal {signal}")),
            Outcome::OutOfTime => {
                let seconds = limit.as_secs_f64();
                let error = Error::new(
                    ErrorCode::ProgramFailed,
                    format!("{what} did not end within {seconds} s, and was stopped"),
                );
                Err(error.with_hint(
                    "a command that starts a server must stop it; for longer work: --timeout SECONDS",
                ))
            }
            Outcome::Stopped => Err(self
                .stop
                .check()
                .err()
                .map_or_else(|| Error::new(ErrorCode::Interrupted, "interrupted"), Error::from)),
        }
    }
}

fn append(log: &Path, text: &str) {
    use std::io::Write as _;
    let file = std::fs::OpenOptions::new().append(true).open(log);
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}

/// Returns the end of a log, and its path; notes of sediment's recorder only if there is nothing else.
fn said(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let is_note = |line: &&[u8]| {
        (line.starts_with(b"sediment: ") || line.starts_with(b"next: "))
            && !line.starts_with(b"sediment: error")
    };
    let own: Vec<&[u8]> =
        bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_note(line)).collect();
    let own = own.concat();
    let bytes = if own.trim_ascii().is_empty() { bytes } else { own };
    let lines = last_lines(&bytes, SHOWN_LINES);
    let path = files::display(log);
    if lines.is_empty() {
        format!("the log is empty: {path}")
    } else {
        format!("the end of {path}:\n{}", lines.join("\n"))
    }
}
