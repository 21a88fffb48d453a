// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only file that prints. Results go to standard output, everything else to standard error; progress is shown only
//! on a terminal. It escapes text that may come from an untrusted file.

use crate::output::{Digits, SkippedItems};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sediment_core::plural::counted;
use sediment_core::{Error, ErrorCode, Skipped, escape};
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Options of every command: how much it prints.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Verbosity {
    /// Print every warning, what was skipped, and details
    #[arg(short, long, global = true, conflicts_with = "quiet", display_order = 900)]
    verbose: bool,
    /// Print nothing but results and errors
    #[arg(short, long, global = true, display_order = 901)]
    quiet: bool,
}

/// Amount of text on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Quiet,
    Normal,
    Verbose,
}

/// Colours of standard error, as ANSI codes.
const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const CYAN: &str = "1;36";
const GREEN: &str = "1;32";

/// The two streams of a command line program.
#[derive(Debug)]
pub(crate) struct Ui {
    terminal: bool,
    colour: bool,
    state: Mutex<OutputState>,
}

/// Level of output, and counts of hidden messages.
#[derive(Debug)]
struct OutputState {
    level: Level,
    /// Number of warnings that may still be printed; further ones are counted.
    warnings_left: usize,
    hidden_warnings: usize,
    hidden_reasons: usize,
    /// Skipped items so far, by step.
    skipped: Vec<(String, Skipped)>,
    next: Option<String>,
    /// Lines held until the first line is known.
    held: Option<Vec<u8>>,
}

impl Ui {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let state = OutputState {
            level: Level::Normal,
            warnings_left: usize::MAX,
            hidden_warnings: 0,
            hidden_reasons: 0,
            skipped: Vec::new(),
            next: None,
            held: None,
        };
        Self { terminal, colour: colour(terminal), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, OutputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn level(&self) -> Level {
        self.state().level
    }

    /// Sets the options of the command line.
    pub(crate) fn set_verbosity(&self, options: Verbosity) {
        self.state().level = match options {
            Verbosity { quiet: true, .. } => Level::Quiet,
            Verbosity { verbose: true, .. } => Level::Verbose,
            _ => Level::Normal,
        };
    }

    /// Prints everything, for programs without these options.
    pub(crate) fn tell_all(&self) {
        self.state().level = Level::Verbose;
    }

    /// True with `--verbose`.
    pub(crate) fn is_verbose(&self) -> bool {
        self.level() == Level::Verbose
    }

    /// Keeps the output short: prints only the first warnings, and counts the others.
    pub(crate) fn keep_short(&self, warnings: usize) {
        self.state().warnings_left = warnings;
    }

    /// Prints a result whose lines may contain names from a file.
    pub(crate) fn result(&self, text: &str) -> sediment_core::Result<()> {
        let safe: String = text.split_inclusive('\n').map(safe_line).collect();
        self.raw_result(safe.as_bytes())
    }

    /// Prints a result for programs: JSON in ASCII, so that no name in it can control a terminal.
    pub(crate) fn json(&self, output: &impl serde::Serialize) -> sediment_core::Result<()> {
        self.raw_result(Self::json_text(output).as_bytes())
    }

    /// Returns the JSON as text, for a file.
    pub(crate) fn json_text(output: &impl serde::Serialize) -> String {
        escape::json(&serde_json::json!(output))
    }

    /// Writes data to standard output unchanged. A reader that has gone is not an error.
    pub(crate) fn raw_result(&self, data: &[u8]) -> sediment_core::Result<()> {
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

    /// Prints a file's contents while a program runs that uses standard output.
    pub(crate) fn show(&self, text: &str) {
        for line in text.lines() {
            self.say("", None, line);
        }
    }

    /// Prints a note, one line.
    pub(crate) fn note(&self, text: &str) {
        if self.level() >= Level::Normal {
            self.say("sediment: ", None, text);
        }
    }

    /// Prints a note that counts as one of the first warnings.
    pub(crate) fn remark(&self, text: &str) {
        let mut state = self.state();
        state.warnings_left = state.warnings_left.saturating_sub(1);
        drop(state);
        self.note(text);
    }

    /// Prints a line for `--verbose`.
    pub(crate) fn detail(&self, text: &str) {
        if self.is_verbose() {
            self.note(text);
        }
    }

    /// Prints a warning, one line.
    pub(crate) fn warn(&self, text: &str) {
        let mut state = self.state();
        if state.level == Level::Quiet {
            return;
        }
        if state.level == Level::Normal {
            if state.warnings_left == 0 {
                state.hidden_warnings += 1;
                return;
            }
            state.warnings_left -= 1;
        }
        drop(state);
        self.say("sediment: ", Some(("warning: ", YELLOW)), text);
    }

    /// Prints the result line of a command as a warning, even if warnings are limited.
    pub(crate) fn warn_always(&self, text: &str) {
        if self.level() >= Level::Normal {
            self.say("sediment: ", Some(("warning: ", YELLOW)), text);
        }
    }

    /// Holds all lines until the first one is known, or until an error ends the command.
    pub(crate) fn hold(&self) {
        self.state().held.get_or_insert_with(Vec::new);
    }

    /// Prints lines before all held lines, then the held ones.
    pub(crate) fn first(&self, print: impl FnOnce()) {
        let held = self.state().held.take();
        print();
        self.write(&held.unwrap_or_default());
    }

    fn write(&self, lines: &[u8]) {
        if let Some(held) = &mut self.state().held {
            held.extend_from_slice(lines);
            return;
        }
        // If standard error is gone, nobody can read the message.
        let _ = std::io::stderr().lock().write_all(lines);
    }

    /// Stores the next command, which is printed as the last line.
    pub(crate) fn next(&self, command: Option<String>) {
        self.state().next = command;
    }

    /// Prints the remaining lines: numbers of hidden messages, and the next command.
    pub(crate) fn close(&self) {
        self.first(|| {});
        let mut state = self.state();
        let (warnings, reasons) = (state.hidden_warnings, state.hidden_reasons);
        let next = state.next.take();
        drop(state);
        let skipped = format!("skipped data for {}", counted(reasons, "reason"));
        let hidden = match (warnings, reasons) {
            (0, 0) => None,
            (0, _) => Some(skipped),
            (_, 0) => Some(counted(warnings, "more warning")),
            (_, _) => Some(format!("{}; {skipped}", counted(warnings, "more warning"))),
        };
        if let Some(hidden) = hidden {
            self.note(&format!("{hidden} (-v lists them)"));
        }
        if let Some(next) = next.filter(|_| self.level() >= Level::Normal) {
            self.say("", Some(("next: ", GREEN)), &next);
        }
    }

    /// Prints help or the version with the parser's text.
    pub(crate) fn help(&self, text: &clap::builder::StyledStr) -> sediment_core::Result<()> {
        if colour(std::io::stdout().is_terminal()) {
            return self.raw_result(text.ansi().to_string().as_bytes());
        }
        self.result(&text.to_string())
    }

    /// Prints a usage error with the parser's text.
    pub(crate) fn usage(&self, text: &str) {
        for line in text.lines() {
            match line.strip_prefix("error: ") {
                Some(rest) => self.say("", Some(("error: ", RED)), rest),
                None => self.say("", None, line),
            }
        }
    }

    /// Prints an error, and its hint on a separate line.
    pub(crate) fn error(&self, error: &Error) {
        self.first(|| {});
        self.say("", Some(("sediment: ", RED)), &error.to_string());
        if let Some(hint) = error.hint() {
            for (index, line) in hint.lines().enumerate() {
                match index {
                    0 => self.say("  ", Some(("hint: ", CYAN)), line),
                    _ => self.say("        ", None, line),
                }
            }
        }
    }

    /// Returns the skipped items so far, for JSON.
    pub(crate) fn skipped_items(&self) -> Vec<SkippedItems> {
        let mut items = Vec::new();
        for (step, skipped) in &self.state().skipped {
            items.extend(skipped.iter().map(|(reason, tally)| SkippedItems {
                step: step.clone(),
                code: reason.code(),
                items: tally.items,
                weight: Digits(tally.weight),
                example: tally.example.clone(),
            }));
        }
        items
    }

    /// Prints the skipped items of a step, one line per reason.
    pub(crate) fn skipped(&self, step: &str, skipped: &Skipped) {
        self.state().skipped.push((step.to_owned(), skipped.clone()));
        if self.level() < Level::Verbose {
            self.state().hidden_reasons += skipped.iter().count();
            return;
        }
        for (reason, entry) in skipped.iter() {
            let weight = if entry.weight > 0 { format!(", weight {}", entry.weight) } else { String::new() };
            let example = entry.example.as_ref().map_or_else(String::new, |e| format!(", for example {e}"));
            self.note(&format!("{step}: skipped {}: {reason}{weight}{example}", entry.items));
        }
    }

    /// Returns a progress bar with this many steps; hidden if standard error is not a terminal.
    pub(crate) fn progress(&self, steps: u64) -> ProgressBar {
        if !self.terminal || self.level() == Level::Quiet {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{pos}/{len}] {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    /// True if standard error is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns a spinner with the elapsed time; hidden if standard error is not a terminal.
    pub(crate) fn spinner(&self, doing: &str) -> ProgressBar {
        if !self.terminal || self.level() == Level::Quiet {
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

    /// Returns a progress bar for the bytes of a file; hidden if standard error is not a terminal.
    pub(crate) fn progress_of_bytes(&self, bytes: u64, doing: &str) -> ProgressBar {
        if !self.terminal || self.level() == Level::Quiet {
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

    /// Prints a line: its beginning, a coloured word, and a text that may contain names from a file.
    fn say(&self, begin: &str, word: Option<(&str, &str)>, text: &str) {
        let mut line = begin.to_owned();
        match word {
            Some((word, colour)) if self.colour => {
                let (word, blank) = word.split_at(word.trim_end().len());
                line += &format!("\u{1b}[{colour}m{word}\u{1b}[0m{blank}");
            }
            Some((word, _)) => line += word,
            None => {}
        }
        line += &safe_line(text);
        line.push('\n');
        self.write(line.as_bytes());
    }
}

/// True if a stream gets colours, by the conventions of <https://no-color.org> and <https://bixense.com/clicolors>.
fn colour(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if set("NO_COLOR").is_some() {
        return false;
    }
    if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
        return true;
    }
    let refused =
        set("CLICOLOR").is_some_and(|value| value == "0") || set("TERM").is_none_or(|term| term == "dumb");
    terminal && !refused
}

/// Returns a line, with its end if it has one, without control characters except tabs, which makefiles and their diffs
/// need.
fn safe_line(line: &str) -> String {
    let safe = |body: &str| body.split('\t').map(escape::terminal).collect::<Vec<_>>().join("\t");
    match line.strip_suffix('\n') {
        Some(body) => safe(body) + "\n",
        None => safe(line),
    }
}
