// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only file that prints. Results go to standard output, everything else to standard error; progress is drawn on a
//! terminal alone. Text that may come from a stranger's file is made safe here.

use indicatif::{ProgressBar, ProgressStyle};
use sediment::{Error, ErrorCode, Skipped, escape};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The two streams of a command line program.
#[derive(Debug)]
pub(crate) struct Ui {
    terminal: bool,
}

impl Ui {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal() }
    }

    /// Prints a result, of which every line may hold names from a file.
    pub(crate) fn result(&self, text: &str) -> sediment::Result<()> {
        let safe: String = text.split_inclusive('\n').map(safe_line).collect();
        self.raw_result(safe.as_bytes())
    }

    /// Prints a result for programs: JSON in ASCII, so that no name in it can speak to a terminal.
    pub(crate) fn json(&self, value: &serde_json::Value) -> sediment::Result<()> {
        self.raw_result(sediment::report::ascii_json(value).as_bytes())
    }

    /// Writes data to standard output as it is. A reader that went away is no failure.
    pub(crate) fn raw_result(&self, data: &[u8]) -> sediment::Result<()> {
        let mut out = std::io::stdout().lock();
        match out.write_all(data).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Error::new(ErrorCode::Io, format!("cannot write to standard output: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Forwards another program's output to standard error, unchanged.
    pub(crate) fn raw_error(&self, data: &[u8]) {
        let _ = std::io::stderr().lock().write_all(data);
    }

    /// Prints a note, one line.
    pub(crate) fn note(&self, text: &str) {
        self.say(&format!("sediment: {text}"));
    }

    /// Prints a usage error as the parser words it.
    pub(crate) fn usage(&self, text: &str) {
        for line in text.lines() {
            self.say(line);
        }
    }

    /// Prints an error, and its hint on a line of its own.
    pub(crate) fn error(&self, error: &Error) {
        self.say(&format!("sediment: {error}"));
        if let Some(hint) = error.hint() {
            for (index, line) in hint.lines().enumerate() {
                self.say(&format!("  {}{line}", if index == 0 { "hint: " } else { "      " }));
            }
        }
    }

    /// Prints what a step skipped, a line per reason.
    pub(crate) fn skipped(&self, step: &str, skipped: &Skipped) {
        for (reason, entry) in skipped.iter() {
            let weight = if entry.weight > 0 { format!(", weight {}", entry.weight) } else { String::new() };
            let example = entry.example.as_ref().map_or_else(String::new, |e| format!(", for example {e}"));
            self.note(&format!("{step}: skipped {}: {reason}{weight}{example}", entry.items));
        }
    }

    /// A progress bar of this many steps; hidden if standard error is no terminal.
    pub(crate) fn progress(&self, steps: u64) -> ProgressBar {
        if !self.terminal {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{pos}/{len}] {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    /// A spinner with the time elapsed; hidden if standard error is no terminal.
    pub(crate) fn spinner(&self, doing: &str) -> ProgressBar {
        if !self.terminal {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(escape::terminal(doing));
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    /// A progress bar over the bytes of a file; hidden where standard error is no terminal.
    pub(crate) fn progress_of_bytes(&self, bytes: u64, doing: &str) -> ProgressBar {
        if !self.terminal {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(bytes);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {bytes}/{total_bytes} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(escape::terminal(doing));
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    fn say(&self, text: &str) {
        let mut line = safe_line(text);
        line.push('\n');
        // Nobody is left to tell when standard error is gone.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

/// A line with its end, if it has one, and no other control character but tabs, which makefiles and the differences of such are
/// made of.
fn safe_line(line: &str) -> String {
    let safe = |body: &str| body.split('\t').map(escape::terminal).collect::<Vec<_>>().join("\t");
    match line.strip_suffix('\n') {
        Some(body) => safe(body) + "\n",
        None => safe(line),
    }
}
