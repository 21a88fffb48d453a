// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment import` converts a profiler's files to one profile.

use crate::files::{self, SystemFiles};
use crate::inputs::recordings::{self, Inputs, no_order};
use crate::inputs::{self, summary};
use crate::next_steps;
use crate::ui::Ui;
use crate::values;
use crate::{llvm_profdata, unit_counters, unit_graphs};
use clap::Args;
use clap::builder::PossibleValue;
use sediment_core::plural::{counted, grouped};
use sediment_core::profile::Profile;
use sediment_core::{Error, ErrorCode, Result, profile};
use sediment_read::read::{self, ReadSettings, Recording, StackOrder};
use sediment_read::resolve::Resolved;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Convert a profiler's files to a profile
#[derive(Debug, Args)]
#[command(
    long_about = "Convert a profiler's files to a profile.\n\nDetects the format by content. Several files are parts of one recording (one per thread or dump), and their counts are added. Use `sediment merge` for several recordings.\n\nCall graphs from a compiler (sediment's GCC plugin, -fcallgraph-info) are joined for the linked file that --binary names. Folders are searched for them.\n\nRecordings in folders and their subfolders are read file by file; other files are skipped.\n\nFolders with .gcda and .gcno (gcc -fprofile-generate -ftest-coverage) give counters: docs/beyond-functions.md. So do .profraw, .profdata and their text form (clang -fprofile-generate, rustc -Cprofile-generate), by llvm-profdata.\n\nSizes and exact names come from the programs' symbols: from --binary, else from the recorded paths, below --symfs if given."
)]
pub(crate) struct Arguments {
    /// Files of a profiler, or folders of them; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    recordings: Vec<PathBuf>,
    /// Profile to write; - writes to standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
    /// Write the run, function by function, to this file, for `predict` and `order`. Private: reveals what the program
    /// did; do not share [default: none]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Recorded program or library, for its symbols; repeatable [default: the recorded paths]
    #[arg(long, value_name = "PROGRAM")]
    binary: Vec<PathBuf>,
    /// Link map of --binary, to select its units if the folders have units of several programs [default: none]
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Look for recorded programs and debug files below this folder [default: /]
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
    /// Format of the files [default: detected by content]
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    format: Option<String>,
    /// End of each call stack that the text prints first, if the text does not show it [default: detected]
    #[arg(long, value_name = "END", value_parser = ["caller-first", "callee-first"])]
    stacks: Option<String>,
    /// Also count blocks, for a program that numbers them (docs/beyond-functions.md)
    #[arg(long)]
    blocks: bool,
    /// llvm-profdata of the compiler's LLVM, for .profraw and .profdata [default: from PATH or rustc, the newest that reads them]
    #[arg(long, value_name = "PROGRAM")]
    llvm_profdata: Option<PathBuf>,
    /// Exit with 5 and write nothing if the profile contains less than this share of the recorded calls (or
    /// samples, if there are no calls), in per cent, 0 to 100 [default: never]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    min_coverage: Option<u64>,
    /// Print JSON; needs --output FILE
    #[arg(long)]
    json: bool,
    /// Use a program's symbols even if its build-id differs from the recorded one
    #[arg(long)]
    ignore_build_id: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    inputs::expect_file_for_json(arguments.json, &arguments.output)?;
    arguments.refuse_one_file_for_two()?;
    // Writing a trace prints a line of its own.
    ui.keep_short(if arguments.trace.is_some() { 1 } else { 2 });
    if let Some(files) = llvm_profdata::find(&arguments.recordings)? {
        arguments.refuse_options_of_recordings("a compiler's counters")?;
        let tool = arguments.llvm_profdata.as_deref();
        let profile = llvm_profdata::import(&files, &arguments.binary, tool, ui)?;
        return arguments.write(&profile, None, ui);
    }
    let counters = unit_counters::find(&arguments.recordings)?;
    let settings = arguments.settings();
    // A folder with compilers' files is read as such, whatever other files it contains.
    let mut recordings = Cow::Borrowed(&arguments.recordings);
    let units = match &counters {
        None => match unit_graphs::find(&arguments.recordings, ui) {
            Err(error) if error.code() == ErrorCode::NotFound => {
                let below = recordings::below_folders(&arguments.recordings, &settings, ui)?;
                recordings = Cow::Owned(below.ok_or(error)?);
                None
            }
            found => found?,
        },
        Some(files) if files.has_names() => None,
        // Counters without names may be next to call graphs; without call graphs, the error is about counters.
        Some(_) => unit_graphs::find(&arguments.recordings, ui).ok().flatten(),
    };
    if let (Some(files), None) = (&counters, &units) {
        arguments.refuse_options_of_recordings("a compiler's counters")?;
        let profile = unit_counters::import(files, &arguments.binary, ui)?;
        return arguments.write(&profile, None, ui);
    }
    if let Some(units) = units {
        let profile = arguments.of_units(&units, ui)?;
        return arguments.write(&profile, None, ui);
    }
    if arguments.map.is_some() {
        return Err(Error::new(
            ErrorCode::Usage,
            "--map selects units of a compiler's call graph, not recordings",
        ));
    }
    let inputs = Inputs::open(&recordings, ui)?;
    if arguments.trace.is_some() && !inputs.any_knows_the_order(&settings)? {
        return Err(no_order());
    }
    let files = SystemFiles::new(arguments.symfs.clone(), &arguments.binary)?;
    let trace = arguments.trace.as_deref();
    // The first line states how much was imported.
    ui.hold();
    let (recording, resolved) = inputs.resolve(&settings, &files, arguments.ignore_build_id, trace, ui)?;
    inputs::tell_gaps(&resolved.profile, ui);
    warn_of_losses(&resolved, ui);
    arguments.check_coverage(&resolved)?;
    arguments.write(&resolved.profile, Some((&recording, &resolved)), ui)
}

/// Limits of the imported share of the recorded weight, in per cent: below the first, the first line of the output is a
/// warning; above the second, it omits the cause of the loss.
const LITTLE: f64 = 50.0;
const NEARLY_ALL: f64 = 99.0;

/// One line with the functions and weight of an imported profile, the total, and the largest part of the rest.
fn imported_summary(resolved: &Resolved) -> String {
    let imported = &resolved.imported;
    if imported.kept == imported.of {
        let summary = summary(&resolved.profile);
        return match imported.is_own_cost && imported.of > 0 {
            true => format!("{summary}, {} own cost", grouped(imported.of)),
            false => summary,
        };
    }
    let functions = counted(grouped(resolved.profile.function_count()), "function");
    let unit = if imported.is_own_cost { "own cost" } else { "calls" };
    let percent = imported.percent();
    // A loss is never rounded to zero.
    let percent = match percent {
        _ if percent > 99.9 => "over 99.9".to_owned(),
        _ if percent < 1.0 => format!("{percent:.2}"),
        _ => format!("{percent:.1}"),
    };
    let cause = imported.losses.first().filter(|_| imported.percent() < NEARLY_ALL);
    let cause =
        cause.map_or_else(String::new, |(reason, weight)| format!("; lost: {} {reason}", grouped(*weight)));
    format!("{functions}, {} of {} {unit} ({percent} %){cause}", grouped(imported.kept), grouped(imported.of))
}

/// Warns of skipped items above one per cent of the weight; the first line already has the largest loss.
fn warn_of_losses(resolved: &Resolved, ui: &Ui) {
    let imported = &resolved.imported;
    for (reason, weight) in imported.losses.iter().skip(1) {
        let percent = 100.0 * *weight as f64 / imported.of as f64;
        if percent > 100.0 - NEARLY_ALL {
            ui.warn(&format!("skipped {percent:.1} %: {} {reason}", grouped(*weight)));
        }
    }
}

/// Names of formats. Formats of earlier releases are hidden; the library refuses them with advice on the replacement.
fn format_names() -> Vec<PossibleValue> {
    let names = read::READERS.iter().map(|reader| PossibleValue::new(reader.name));
    let former = read::FORMER_FORMATS.iter().map(|format| PossibleValue::new(format.name).hide(true));
    names.chain(former).collect()
}

impl Arguments {
    fn write(&self, profile: &Profile, from: Option<(&Recording, &Resolved)>, ui: &Ui) -> Result<()> {
        files::write(&self.output, profile::text::print(profile).as_bytes(), ui)?;
        if self.json {
            let output = inputs::ProfileOutput::new(profile, &self.output, ui);
            return ui.json(&output.with_imported(from.map(|(_, resolved)| resolved)));
        }
        let what = from.map_or_else(|| summary(profile), |(_, resolved)| imported_summary(resolved));
        let is_little = from.is_some_and(|(_, resolved)| resolved.imported.percent() < LITTLE);
        let to_file = self.output != Path::new(files::STANDARD_STREAM);
        let target = if to_file { format!(" -> {}", files::display(&self.output)) } else { String::new() };
        let line = format!("imported {what}{target}");
        ui.first(|| if is_little { ui.warn_always(&line) } else { ui.note(&line) });
        if to_file {
            let recording = from.map(|(recording, _)| recording);
            let next = next_steps::after_profile(&self.binary, profile, &self.output, recording);
            ui.next(next.filter(|_| self.output.is_file()));
        }
        Ok(())
    }

    /// Refuses a profile with less of the recording than `--min-coverage`.
    fn check_coverage(&self, resolved: &Resolved) -> Result<()> {
        let percent = resolved.imported.percent();
        match self.min_coverage {
            Some(threshold) if percent < threshold as f64 / 1e4 => Err(Error::new(
                ErrorCode::BelowThreshold,
                format!(
                    "only {} imported, less than {} %",
                    imported_summary(resolved),
                    threshold as f64 / 1e4
                ),
            )
            .with_hint("-v lists what was skipped; --min-coverage sets another threshold")),
            _ => Ok(()),
        }
    }

    /// Refuses outputs that overwrite an input or each other.
    fn refuse_one_file_for_two(&self) -> Result<()> {
        let same = |one: &Path, other: &Path| {
            let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
            real(one) == real(other)
        };
        let standard = Path::new(files::STANDARD_STREAM);
        let outputs = [Some(self.output.as_path()), self.trace.as_deref()];
        for output in outputs.into_iter().flatten().filter(|output| *output != standard) {
            if self.recordings.iter().chain(&self.binary).any(|input| same(input, output)) {
                return Err(Error::new(ErrorCode::Usage, "output would overwrite an input file")
                    .with_input(files::display(output)));
            }
        }
        match &self.trace {
            Some(trace) if same(trace, &self.output) => {
                Err(Error::new(ErrorCode::Usage, "profile and trace would be written to the same file")
                    .with_input(files::display(trace)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses options for reading a recording; `what` is read instead.
    fn refuse_options_of_recordings(&self, what: &str) -> Result<()> {
        let others = [
            (self.trace.is_some(), "--trace"),
            (self.symfs.is_some(), "--symfs"),
            (self.format.is_some(), "--format"),
            (self.stacks.is_some(), "--stacks"),
            (self.blocks, "--blocks"),
            (self.ignore_build_id, "--ignore-build-id"),
        ];
        match others.iter().find(|(given, _)| *given) {
            Some((_, option)) => {
                Err(Error::new(ErrorCode::Usage, format!("{option} applies to recordings, not to {what}")))
            }
            None => Ok(()),
        }
    }

    fn of_units(&self, units: &[unit_graphs::UnitGraphFile], ui: &Ui) -> Result<Profile> {
        self.refuse_options_of_recordings("a compiler's call graphs")?;
        match &self.binary[..] {
            [binary] => unit_graphs::import(units, binary, self.map.as_deref(), ui),
            _ => Err(Error::new(
                ErrorCode::Usage,
                "call graphs from a compiler need the linked file that they belong to",
            )
            .with_hint("name it: --binary PROGRAM")),
        }
    }

    fn settings(&self) -> ReadSettings {
        ReadSettings {
            format: self.format.clone(),
            program: self.binary.first().map(|path| path.to_string_lossy().into_owned()),
            executions: self.blocks,
            stacks: self.stacks.as_deref().map(|first| match first {
                "caller-first" => StackOrder::CallerFirst,
                _ => StackOrder::CalleeFirst,
            }),
            part: false,
        }
    }
}
