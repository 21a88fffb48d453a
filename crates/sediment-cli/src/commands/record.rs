// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment record` records a program or running processes, and writes the profile.

use crate::exit::ExitCode;
use crate::files::{self, SystemFiles};
use crate::inputs::{ProfileOutput, recordings, summary};
use crate::next_steps;
use crate::output::{Schema, SkippedItems};
use crate::recording::{
    NothingSelected, RecordingOptions, RecordingOutput, RecordingSide, RecordingUse, ResolvedRecording,
};
use crate::ui::Ui;
use crate::values::{self, Glob};
use clap::Args;
use clap::builder::PossibleValue;
use sediment_core::plural::counted;
use sediment_core::profile::split as parts;
use sediment_core::profile::{self, Profile};
use sediment_core::{Error, ErrorCode, Result};
use sediment_read::counters::line_profile::llvm;
use sediment_read::read::Recording;
use sediment_read::resolve;
use sediment_record::RecordingTarget;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Record a program and write its profile
#[derive(Debug, Args)]
#[command(
    long_about = "Record a program and write its profile.\n\nThe program keeps its input and output. Its exit code becomes the exit code of this command. Child processes are recorded too. Ctrl-C ends the recording and keeps what was recorded."
)]
pub(crate) struct Arguments {
    /// Program to run, with its arguments
    #[arg(value_name = "COMMAND", last = true, required_unless_present_any = ["pid", "system"])]
    command: Vec<OsString>,
    /// Record this running process and its children instead; repeatable [default: run COMMAND]
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Vec<i32>,
    /// Record the whole machine with perf
    #[arg(short = 'a', long, conflicts_with_all = ["command", "pid"])]
    system: bool,
    /// Profile to write; an older one is kept as FILE.old [default: sediment.gv, or with --format
    /// sediment.prof]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Record only the order of first use, exactly, from the first instruction on
    #[arg(long)]
    startup: bool,
    /// Record only the programs and libraries of this name; * and ? are wildcards; repeatable [default: all]
    #[arg(long, value_name = "GLOB", value_parser = values::glob)]
    only: Vec<Glob>,
    /// Write a sample profile of executed source lines in this format, instead of a profile; needs debug
    /// information [default: none]
    #[arg(long, value_name = "FORMAT", conflicts_with = "startup", value_parser = values::names([llvm_sample()], values::FORMER_SAMPLES))]
    format: Option<String>,
    /// File to write JSON about the recording to; - writes to standard output, which the recorded program also
    /// uses [default: none]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    options: RecordingOptions,
}

/// Output of `record --json`: a recording, and the file written from it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RecordOutput<'a> {
    schema: Schema<1>,
    recording: RecordingOutput,
    /// Name of the kept older file; null if there was none.
    older: Option<String>,
    /// Written profile; null with `--format`.
    profile: Option<ProfileOutput<'a>>,
    /// Written sample profile; null without `--format`.
    lines: Option<LinesOutput>,
}

/// A written sample profile.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LinesOutput {
    /// The file.
    output: String,
    functions: usize,
    skipped: Vec<SkippedItems>,
}

/// The only format for executions by source line.
fn llvm_sample() -> PossibleValue {
    PossibleValue::new("llvm-sample").help("Sample profile for clang (-fprofile-sample-use=FILE) and rustc")
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    ui.keep_short(2);
    let usual = if arguments.format.is_some() { "sediment.prof" } else { "sediment.gv" };
    let output = arguments.output.as_deref().unwrap_or_else(|| Path::new(usual));
    for file in std::iter::once(output).chain(arguments.json.as_deref()) {
        files::expect_to_write(file)?;
    }
    let target = target(&arguments.command, &arguments.pid, arguments.system);
    let wanted = match (arguments.startup, &arguments.format) {
        (true, _) => RecordingUse::FirstUses,
        (false, None) => RecordingUse::Profile,
        (false, Some(_)) => RecordingUse::Lines,
    };
    let none: Option<NothingSelected<'_>> = (!arguments.only.is_empty()).then_some(&nothing_executed);
    let made = match arguments.options.record(&target, wanted, none, ui)? {
        RecordingSide::Recorder(made) => made,
        RecordingSide::Front(code) => return Ok(code),
    };
    if arguments.format.is_some() {
        return write_lines(&made, arguments, output, ui);
    }
    let whole = &made.resolved.profile;
    let kept = match kept(whole, &arguments.only) {
        Ok(kept) => kept,
        Err(recorded) => return Err(set_aside_whole(whole, &recorded, output, ui)?),
    };
    let profile = kept.as_ref().unwrap_or(whole);
    let older = files::set_aside(output)?;
    files::write(output, profile::text::print(profile).as_bytes(), ui)?;
    ui.note(&format!(
        "recorded {} in {:.1} s -> {}{older}",
        summary(profile),
        made.time.as_secs_f64(),
        files::display(output),
        older = kept_as(older.as_deref())
    ));
    if let Some(file) = &arguments.json {
        let profile = Some(ProfileOutput::new(profile, output, ui).with_imported(Some(&made.resolved)));
        write_json(file, &made, older.as_deref(), (profile, None), ui)?;
    }
    if output.is_file() {
        ui.next(next_steps::after_profile(&[], profile, output, Some(&made.recording)));
    }
    Ok(made.exit_code())
}

/// Writes JSON about the recording. The contents are a profile or lines.
fn write_json(
    file: &Path,
    made: &ResolvedRecording,
    older: Option<&Path>,
    (profile, lines): (Option<ProfileOutput<'_>>, Option<LinesOutput>),
    ui: &Ui,
) -> Result<()> {
    let older = older.map(|path| path.to_string_lossy().into_owned());
    let answer = RecordOutput { schema: Schema, recording: made.output(), older, profile, lines };
    files::write(file, Ui::json_text(&answer).as_bytes(), ui)
}

/// Writes the executions by source line.
fn write_lines(made: &ResolvedRecording, arguments: &Arguments, output: &Path, ui: &Ui) -> Result<ExitCode> {
    let only = &arguments.only[..];
    let settings = resolve::ResolveSettings { skip_other_builds: true, ..Default::default() };
    let files = SystemFiles::new(None, &[])?;
    let wanted = |label: &str| only.is_empty() || only.iter().any(|glob| glob.matches(label));
    let whole = &made.resolved.profile;
    if let Err(recorded) = kept(whole, only) {
        return Err(set_aside_whole(whole, &recorded, output, ui)?);
    }
    let resolved = resolve::lines::lines(&made.recording, &files, settings, &wanted);
    let (lines, skipped) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => {
            let mut hint = "build the program with -g, or install its debug symbols".to_owned();
            // With standard output, there is no older file to keep.
            if !files::is_standard_output(output) {
                let all = write_whole(whole, output, ui)?;
                hint = format!("{hint}; the profile of its functions is in {}", files::display(&all));
            }
            return Err(error.with_hint(hint));
        }
    };
    ui.skipped("resolving", &skipped);
    let (text, skipped) = llvm::sample_profile(&lines);
    ui.skipped("writing", &skipped);
    let older = files::set_aside(output)?;
    files::write(output, text.as_bytes(), ui)?;
    ui.note(&format!(
        "recorded executed lines of {} in {:.1} s -> {}{older}",
        counted(lines.functions.len(), "function"),
        made.time.as_secs_f64(),
        files::display(output),
        older = kept_as(older.as_deref())
    ));
    if let Some(file) = &arguments.json {
        let (output, skipped) = (output.to_string_lossy().into_owned(), ui.skipped_items());
        let lines = LinesOutput { output, functions: lines.functions.len(), skipped };
        write_json(file, made, older.as_deref(), (None, Some(lines)), ui)?;
    }
    Ok(made.exit_code())
}

/// Describes where an older output is kept.
fn kept_as(older: Option<&Path>) -> String {
    older.map_or_else(String::new, |older| format!(" (the older one is {})", files::display(older)))
}

/// Returns the part of a profile selected by `--only`; `None` for all of it. If nothing matches, the error lists the
/// recorded programs.
fn kept(profile: &Profile, only: &[Glob]) -> std::result::Result<Option<Profile>, String> {
    if only.is_empty() {
        return Ok(None);
    }
    let labels = profile.dsos().keys().map(String::as_str);
    let (kept, others): (BTreeSet<&str>, BTreeSet<&str>) =
        labels.partition(|label| only.iter().any(|glob| glob.matches(label)));
    if kept.is_empty() {
        return Err(others.into_iter().collect::<Vec<_>>().join(", "));
    }
    Ok(Some(parts::only(profile, &kept)))
}

/// Error if no program or library selected by `--only` executed a function.
fn nothing_executed(recording: &Recording, files: &SystemFiles) -> Error {
    let loaded: BTreeSet<String> =
        recording.dsos().iter().filter_map(|dso| recordings::label(dso, files)).collect();
    let loaded: Vec<String> = loaded.into_iter().collect();
    Error::new(ErrorCode::EmptyRecording, "--only matches no program or library with executed functions")
        .with_hint(format!("loaded: {}", loaded.join(", ")))
}

/// If `--only` matches nothing, keeps the whole recording next to the output, because it may have taken hours.
fn set_aside_whole(profile: &Profile, recorded: &str, output: &Path, ui: &Ui) -> Result<Error> {
    let what = "--only matches no recorded program or library";
    if files::is_standard_output(output) {
        return Ok(Error::new(ErrorCode::EmptyRecording, what)
            .with_hint(format!("recorded: {recorded}; -o FILE keeps all of them")));
    }
    let all = write_whole(profile, output, ui)?;
    Ok(Error::new(ErrorCode::EmptyRecording, format!("{what}; all of them are in {}", files::display(&all)))
        .with_hint(match next_steps::word(&all) {
            Some(all) => format!("recorded: {recorded}; to separate them: sediment split {all}"),
            None => format!("recorded: {recorded}"),
        }))
}

/// Writes a whole profile next to an output that cannot be written, as OUTPUT.all.
fn write_whole(profile: &Profile, output: &Path, ui: &Ui) -> Result<PathBuf> {
    let mut name = output.as_os_str().to_owned();
    name.push(".all");
    let all = PathBuf::from(name);
    files::set_aside(&all)?;
    files::write(&all, profile::text::print(profile).as_bytes(), ui)?;
    Ok(all)
}

/// Returns the target of a recording from the command line.
pub(super) fn target(command: &[OsString], pid: &[i32], system: bool) -> RecordingTarget {
    if system {
        RecordingTarget::System
    } else if pid.is_empty() {
        RecordingTarget::Program(command.to_vec())
    } else {
        RecordingTarget::Processes(pid.to_vec())
    }
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<RecordOutput<'_>>("record");
}
