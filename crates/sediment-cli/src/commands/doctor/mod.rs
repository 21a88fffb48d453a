// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment doctor` reports what this machine can record, link and measure, with steps that would allow more; and
//! links that the wrapper missed.

mod goals;
mod machine;
mod missed;
mod output;

use crate::output::Schema;
use crate::recording;
use crate::ui::Ui;
use clap::Args;
use goals::GoalMethod;
use machine::{Fact, InstalledLinker, PageSizes};
use output::{DoctorOutput, GoalOutput, RecorderOutput};
use sediment_core::plural::counted;
use sediment_core::{Error, ErrorCode, Result};
use sediment_record::{RECORDERS, counts_cycles};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Report what this machine can record, link and measure, or which links of a build the wrapper missed
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Build log to check for links that the wrapper did not handle [default: none]
    #[arg(long, value_name = "FILE")]
    build_log: Option<PathBuf>,
    /// Log folder of the wrapper during that build [default: $SEDIMENT_LOG]
    #[arg(long, value_name = "DIR", requires = "build_log")]
    log: Option<PathBuf>,
    /// Remove the cache that makes recording by call sites start faster (at most 64 MiB, in
    /// $XDG_CACHE_HOME/sediment or ~/.cache/sediment)
    #[arg(long, conflicts_with_all = ["build_log", "json"])]
    clear_cache: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Hint for a machine without a linker.
const NO_LINKER: &str = "install GNU ld (package binutils) or lld";
/// Name of the method that takes samples.
const STACKS: &str = "perf-stacks";
/// Width of the report in columns.
const COLUMNS: usize = 80;

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    if let Some(build_log) = &arguments.build_log {
        let log = arguments.log.clone().or_else(|| std::env::var_os("SEDIMENT_LOG").map(PathBuf::from));
        let log = log.ok_or_else(|| {
            Error::new(
                ErrorCode::Usage,
                "the wrapper's log folder is unknown: give --log DIR or set SEDIMENT_LOG",
            )
        })?;
        return missed::run(build_log, &log, arguments.json, ui);
    }
    if arguments.clear_cache {
        let (plans, bytes) = sediment_record::clear_cache()?;
        return ui.result(&format!("removed {}, {} KiB\n", counted(plans, "plan"), bytes.div_ceil(1024)));
    }
    let methods = methods();
    let choices = choices(&methods);
    let (linkers, tools, memory) = (machine::linkers(ui), machine::tools(), machine::memory());
    if arguments.json {
        return ui.json(&DoctorOutput {
            schema: Schema,
            recorders: methods.iter().map(RecorderOutput::new).collect(),
            goals: choices.iter().map(GoalOutput::new).collect(),
            linkers: &linkers,
            tools: &tools,
            memory: &memory,
        });
    }
    let mut text = String::from("Recording methods, best first\n");
    for method in &methods {
        method.add(&mut text);
    }
    text += "Best method on this machine for each goal\n";
    for choice in &choices {
        add_choice(&mut text, choice);
    }
    add_linkers(&mut text, &linkers);
    text += "Tools and symbols\n";
    for tool in &tools {
        add(&mut text, &tool.name, &tool.state, tool.fix.as_deref());
    }
    add_memory(&mut text, &memory);
    ui.result(&text)
}

/// Checks the requirements of `optimize` before the build, so that it fails early; `startup`: starts are recorded, too.
///
/// # Errors
/// If no recording method works, or no linker accepts an order; the error has the remedy.
pub(super) fn must_suit_optimize(startup: bool, ui: &Ui) -> Result<()> {
    recording::must_work(startup)?;
    if machine::linkers(ui).is_empty() {
        return Err(Error::new(ErrorCode::Unsupported, "no linker on this machine reads an ordering file")
            .with_hint(NO_LINKER));
    }
    if let Fact { name, state, fix: Some(fix) } = machine::valgrind() {
        ui.warn(&format!(
            "{name} {state}: misses will not be simulated, and the verdict may be unknown; {fix}"
        ));
    }
    Ok(())
}

/// A recording method on this machine.
struct RecordingMethod {
    name: &'static str,
    summary: &'static str,
    lacks: &'static str,
    is_default: bool,
    /// Reason why it does not work, and the remedy.
    obstacle: Option<(String, Option<String>)>,
}

/// Reason and remedy if processes cannot be inspected, whatever the methods report.
const NO_PROC: (&str, &str) = ("/proc is not mounted here", "mount it: mount -t proc proc /proc");

fn methods() -> Vec<RecordingMethod> {
    let has_proc = std::path::Path::new("/proc/self/maps").exists();
    let mut chosen = false;
    let method = |recorder: &sediment_record::Recorder| {
        let obstacle = if has_proc {
            let why = (recorder.available)().err();
            why.map(|why| (why.to_string(), why.hint().map(str::to_owned)))
        } else {
            Some((NO_PROC.0.to_owned(), Some(NO_PROC.1.to_owned())))
        };
        let is_default = obstacle.is_none() && !chosen;
        chosen |= is_default;
        RecordingMethod {
            name: recorder.name,
            summary: recorder.summary,
            lacks: recorder.lacks,
            is_default,
            obstacle,
        }
    };
    RECORDERS.iter().map(method).collect()
}

fn choices(methods: &[RecordingMethod]) -> Vec<GoalMethod> {
    let works = methods.iter().filter(|method| method.obstacle.is_none());
    let works: Vec<&str> = works.map(|method| method.name).collect();
    goals::choices(&works, works.contains(&STACKS) && counts_cycles())
}

impl RecordingMethod {
    fn add(&self, text: &mut String) {
        let mark = match &self.obstacle {
            None if self.is_default => "works, default of `sediment record`",
            None => "works",
            Some(_) => "not available",
        };
        let _ = writeln!(text, "  {}: {mark}", self.name);
        match &self.obstacle {
            None => wrap(text, &format!("{}; lacks {}", self.summary, self.lacks), 4),
            Some((why, hint)) => {
                wrap(text, &format!("reason: {why}"), 4);
                for line in hint.iter().flat_map(|hint| hint.lines()) {
                    wrap(text, &format!("to enable: {line}"), 4);
                }
            }
        }
    }
}

fn add_linkers(text: &mut String, linkers: &[InstalledLinker]) {
    let _ = writeln!(text, "{:<28} {:<14} compiler's flag", "Linkers", "--linker");
    if linkers.is_empty() {
        wrap(text, &format!("none; {NO_LINKER}"), 2);
    }
    for linker in linkers {
        let name = if linker.is_default {
            format!("{} (of {})", linker.name, linker.compiler)
        } else {
            linker.name.clone()
        };
        let shown = format!("  {name:<12} {}", linker.version);
        let _ =
            writeln!(text, "{shown:<28} {:<14} {}", linker.dialect.unwrap_or("by the wrapper"), linker.flag);
    }
}

fn add_memory(text: &mut String, memory: &PageSizes) {
    text.push_str("Memory\n");
    let _ = writeln!(text, "  {:<12} {} KiB", "pages", memory.page / 1024);
    let huge = match (&memory.transparent, memory.huge) {
        (Some(mode), Some(huge)) => format!("{} KiB, transparent: {mode}", huge / 1024),
        _ => "none: this kernel has no transparent huge pages".to_owned(),
    };
    add(text, "huge pages", &huge, memory.fix);
}

fn add_choice(text: &mut String, choice: &GoalMethod) {
    let at = text.len();
    wrap(text, &choice.in_words(), 15);
    text.replace_range(at..at + 15, &format!("  {:<13}", choice.name()));
}

/// Appends a name with its state, and the command that fixes it.
fn add(text: &mut String, name: &str, state: &str, fix: Option<&str>) {
    let _ = writeln!(text, "  {name:<12} {state}");
    if let Some(fix) = fix {
        wrap(text, fix, 15);
    }
}

/// Appends text in lines of at most 80 columns, after this many blanks.
fn wrap(text: &mut String, words: &str, indent: usize) {
    let mut line = String::new();
    for word in words.split_whitespace() {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > COLUMNS {
            let _ = writeln!(text, "{:indent$}{line}", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(text, "{:indent$}{line}", "");
}
