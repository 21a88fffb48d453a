// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a recording, from the choice of the method to the profile.

use crate::exit::{self, ExitCode};
use crate::files::{SystemFiles, Workshop};
use crate::inputs::{self, recordings};
use crate::ui::Ui;
use crate::values;
use clap::Args;
use clap::builder::PossibleValue;
use sediment_core::skipped::{Reason, Skipped};
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::command::Outcome;
use sediment_read::read::{self, Recording};
use sediment_read::resolve::{self, Resolved};
use sediment_read::trace::StepCounter;
use sediment_record::tracing::apart;
use sediment_record::{
    self, RECORDERS, RecordSettings, RecordedData, Recorder, RecordingJob, RecordingProgress,
    RecordingTarget, Until,
};
use serde::Serialize;
use signal_hook::consts::signal;
use signal_hook::low_level::signal_name;
use std::path::PathBuf;
use std::time::{Duration, Instant};

mod front;

/// Options of a recording.
#[derive(Debug, Args)]
pub(crate) struct RecordingOptions {
    /// End the recording after this time, above 0; accepts 90, 90s and 2m. With call sites, the program continues
    /// [default: none]
    #[arg(long, value_name = "SECONDS", conflicts_with = "until", value_parser = values::duration)]
    seconds: Option<Duration>,
    /// End the recording when the program exits, at its first output, or after a time; accepts 90, 90s and 2m [default: exit]
    #[arg(long, value_name = "EXIT|OUTPUT|SECONDS", value_parser = until)]
    until: Option<Until>,
    /// Recording method [default: the best that works here, see `sediment doctor`]
    #[arg(long, value_name = "METHOD", value_parser = values::names(methods(), FORMER_METHODS))]
    method: Option<String>,
    /// Largest share of the program's time that the recording may take, in per cent, above 0 and up to 90. Call sites
    /// then count in bursts [default: count all calls for ten seconds, then 5]
    #[arg(long, value_name = "PERCENT", value_parser = values::overhead)]
    overhead: Option<f64>,
    /// With perf: event to sample, in perf's syntax [default: branches:u, or cycles:u, or cpu-clock:u]
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// With perf: samples per second of processor time [default: as many as --overhead allows, 1000 without
    /// it]
    #[arg(short = 'F', long, value_name = "HERTZ", value_parser = clap::value_parser!(u32).range(1..))]
    freq: Option<u32>,
    /// Count all calls, however long the program runs
    #[arg(long, conflicts_with = "overhead")]
    exact: bool,
    /// With call sites: also record in short windows which functions run close in time (affinity)
    #[arg(long)]
    affinity: bool,
    /// Largest amount of memory for changed pages of code (a copy for each process), and for the code, counters
    /// and plans of call sites; accepts K, M and G [default: none]
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    max_memory: Option<u64>,
    /// Leave the code of this DSO unchanged and unrecorded (for code that checksums itself); repeatable [default: none]
    #[arg(long, value_name = "DSO")]
    exclude: Vec<String>,
    /// Also count executed blocks of programs with a block map (docs/beyond-functions.md): by branch records or valgrind,
    /// and by samples of running processes [default: never]
    // Earlier releases had the values auto and never, which ask for nothing now.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_missing_value = "always", hide_possible_values = true, value_parser = ["auto", "always", "never"])]
    blocks: Option<String>,
    /// Option of an earlier release, without effect
    #[arg(long, hide = true)]
    share_processor: bool,
    /// Option of an earlier release, without effect
    #[arg(long, hide = true)]
    trampolines: bool,
    /// Option of an earlier release, without effect [default: none]
    #[arg(long, hide = true, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// Method that counts every call, and does not affect programs that it cannot record.
const CALL_SITES: &str = "call-sites";

/// Purpose of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordingUse {
    /// Only first uses, by call sites.
    FirstUses,
    /// A profile of functions, and of blocks if that is asked for.
    Profile,
    /// As `Profile`, with executions by source line.
    Lines,
}

/// Makes the error for a recording that contains none of the selected files.
pub(crate) type NothingSelected<'a> = &'a dyn Fn(&Recording, &SystemFiles) -> Error;

/// Result of a recording in this process.
pub(crate) enum RecordingSide {
    /// The recording.
    Recorder(Box<ResolvedRecording>),
    /// Another process has recorded and written it, or there is nothing to write. Has the exit code.
    Front(ExitCode),
}

/// A resolved recording.
pub(crate) struct ResolvedRecording {
    pub(crate) recording: Recording,
    pub(crate) resolved: Resolved,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) time: Duration,
    /// Name of the recorder.
    pub(crate) method: &'static str,
}

/// Facts about a recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RecordingOutput {
    method: &'static str,
    /// Time that was recorded.
    seconds: f64,
    /// Exit code of the recorded program, as a shell reports it; null for running processes and the whole machine.
    exit_code: Option<i32>,
}

impl ResolvedRecording {
    pub(crate) fn output(&self) -> RecordingOutput {
        RecordingOutput {
            method: self.method,
            seconds: self.time.as_secs_f64(),
            exit_code: self.outcome.map(|outcome| exit::as_the_program(outcome).into()),
        }
    }

    /// Returns the exit code of the recorded program.
    pub(crate) fn exit_code(&self) -> ExitCode {
        self.outcome.map_or(ExitCode::SUCCESS, exit::as_the_program)
    }
}

impl RecordingOptions {
    /// Records with the chosen method and resolves the recording. `none`: the error if it is empty; `None` for the usual one.
    pub(crate) fn record(
        &self,
        target: &RecordingTarget,
        wanted: RecordingUse,
        none: Option<NothingSelected<'_>>,
        ui: &Ui,
    ) -> Result<RecordingSide> {
        let settings = self.settings(wanted)?;
        let recorder = self.recorder(target, &settings, ui)?;
        self.check_options(recorder, ui)?;
        let mut link = None;
        if recorder.traces {
            let program = match target {
                RecordingTarget::Program(words) => Some(&words[..]),
                RecordingTarget::Processes(_) | RecordingTarget::System => None,
            };
            match apart::part(program)? {
                apart::ForkedSide::Front(front) => {
                    return front::attend(front, &settings.stop, ui).map(RecordingSide::Front);
                }
                apart::ForkedSide::Recorder(recorder) => link = Some(recorder),
            }
        }
        if let Some(link) = &mut link {
            link.listen(&settings.stop)?;
        }
        let workshop = Workshop::new(None)?;
        let files = SystemFiles::new(None, &[])?;
        let bar = ui.spinner("recording");
        let mut over = None;
        let mut watch = |progress: RecordingProgress| {
            if progress.waiting {
                over = over.or(Some(progress.elapsed));
                bar.set_message("recorded; waiting for the program to end");
            }
        };
        let mut job = RecordingJob {
            target,
            settings: &settings,
            folder: workshop.path(),
            files: &files,
            watch: &mut watch,
            link: link.as_mut(),
        };
        let begun = Instant::now();
        let recorded = (recorder.record)(&mut job);
        let time = over.unwrap_or_else(|| begun.elapsed());
        bar.finish_and_clear();
        let recorded = recorded?;
        let fault = recorded.outcome.filter(|_| recorder.traces).and_then(ended_by_fault);
        let (is_empty, read) = match recorded.kept {
            RecordedData::Here(recording, steps) => {
                let is_empty = recorder.name == CALL_SITES && recording.addresses().is_empty();
                let resolved = resolve_here(&recording, &files, (none, fault.as_deref()), ui);
                let resolved = resolved.map(|mut resolved| {
                    if !steps.is_empty() {
                        let mut sequence = StepCounter::new(&resolved.functions);
                        sequence.steps(&steps);
                        sequence.put_into(&mut resolved.profile, false);
                    }
                    (*recording, resolved)
                });
                (is_empty, resolved)
            }
            RecordedData::Files(paths) => {
                let read = resolve_files(&paths, (recorder, &settings), &files, ui);
                (matches!(&read, Err(error) if error.code() == ErrorCode::EmptyRecording), read)
            }
        };
        let (recording, resolved) = match (read, recorded.outcome.filter(|_| is_empty)) {
            (Err(error), Some(outcome)) => return Ok(left_alone(&error, outcome, ui)),
            (read, _) => read?,
        };
        inputs::tell_gaps(&resolved.profile, ui);
        if let Some(warning) = fault {
            ui.warn(&warning);
        }
        warn_of_memory(&recording.skipped, ui);
        let (outcome, method) = (recorded.outcome, recorder.name);
        let made = ResolvedRecording { recording, resolved, outcome, time, method };
        Ok(RecordingSide::Recorder(Box::new(made)))
    }

    /// Refuses options that need another recorder, and warns of options without effect.
    fn check_options(&self, recorder: &Recorder, ui: &Ui) -> Result<()> {
        if self.affinity && !recorder.traces {
            ui.warn(&format!("{} does not record affinity", recorder.name));
        }
        if (self.event.is_none() && self.freq.is_none()) || recorder.name.starts_with("perf-") {
            return Ok(());
        }
        let why = format!("{} takes no samples: --event and --freq need perf", recorder.name);
        Err(Error::new(ErrorCode::Usage, why).with_hint("add --method perf-stacks"))
    }

    fn settings(&self, wanted: RecordingUse) -> Result<RecordSettings> {
        Ok(RecordSettings {
            exclude: self.exclude.iter().cloned().collect(),
            max_memory: self.max_memory,
            first_uses: wanted == RecordingUse::FirstUses,
            overhead: self.overhead,
            exact: self.exact,
            affinity: self.affinity,
            addresses: self.blocks.as_deref() == Some("always") || wanted == RecordingUse::Lines,
            event: self.event.clone(),
            frequency: self.freq,
            until: self.seconds.map(Until::After).or(self.until).unwrap_or_default(),
            stop: front::stop_on_signals()?,
        })
    }

    fn recorder(
        &self,
        target: &RecordingTarget,
        settings: &RecordSettings,
        ui: &Ui,
    ) -> Result<&'static Recorder> {
        let named = self.method.as_deref().or(settings.first_uses.then_some(CALL_SITES));
        if let Some(recorder) = named.and_then(sediment_record::recorder) {
            recorder.is_exact_if_asked(settings)?;
            (recorder.suits)(target, settings)?;
            (recorder.available)()?;
            return Ok(recorder);
        }
        let (recorder, passed) = sediment_record::best(target, settings)?;
        let reasons: Vec<String> =
            passed.iter().map(|(better, why)| format!("not {}: {why}", better.name)).collect();
        let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
        ui.detail(&format!("recording by {}{why}", recorder.name));
        Ok(recorder)
    }
}

/// Warns of files that are missing because of the requested limit: they may be those with most of the calls.
fn warn_of_memory(skipped: &Skipped, ui: &Ui) {
    let beyond = skipped.iter().find(|(reason, _)| *reason == Reason::FileBeyondBudget);
    if let Some((example, tally)) = beyond.and_then(|(_, tally)| Some((tally.example.as_ref()?, tally))) {
        let others = if tally.items > 1 { " and others" } else { "" };
        ui.warn(&format!("not recorded, because --max-memory is too small: {example}{others}"));
    }
}

/// A program that is not traced runs normally; its exit code becomes the exit code of this command.
fn left_alone(error: &Error, outcome: Outcome, ui: &Ui) -> RecordingSide {
    let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
    ui.warn(&format!("{error}{hint}; no profile was written"));
    RecordingSide::Front(exit::as_the_program(outcome))
}

/// Resolves a recording by call sites. `fault`: the warning of a program that ended because of a fault.
fn resolve_here(
    recording: &Recording,
    files: &SystemFiles,
    (none, fault): (Option<NothingSelected<'_>>, Option<&str>),
    ui: &Ui,
) -> Result<Resolved> {
    // If a file was replaced during the recording, for example by an upgrade, only that file is lost.
    let settings = resolve::ResolveSettings { skip_other_builds: true, ..Default::default() };
    let resolved = recordings::resolve(recording, files, settings, ui);
    let Some(none) = none.filter(|_| recording.addresses().is_empty()) else { return resolved };
    resolved.map_err(|reason| {
        fault.iter().for_each(|warning| ui.warn(warning));
        let error = none(recording, files);
        let hints = [error.hint(), reason.hint()].into_iter().flatten().collect::<Vec<_>>().join("; ");
        error.with_hint(hints)
    })
}

/// Reads and resolves the files of a recording by another program.
fn resolve_files(
    paths: &[PathBuf],
    (recorder, settings): (&Recorder, &RecordSettings),
    files: &SystemFiles,
    ui: &Ui,
) -> Result<(Recording, Resolved)> {
    // Addresses of samples and branches show blocks; other recordings have none.
    let executions = recorder.tells_addresses && (settings.addresses || recorder.name.starts_with("perf-"));
    let settings = read::ReadSettings { executions, ..read::ReadSettings::default() };
    let read = recordings::Inputs::open(paths, ui)?.resolve(&settings, files, false, None, ui);
    read.map_err(|error| match error.code() {
        ErrorCode::EmptyRecording if recorder.name.starts_with("perf-") => {
            let why = format!("{} took no sample: the program hardly used the processor", recorder.name);
            Error::new(ErrorCode::EmptyRecording, why)
        }
        _ => error,
    })
}

/// Signals with which a program ends itself, or the processor ends it. Other processes send the other signals.
const FAULTS: &[i32] = &[
    signal::SIGILL,
    signal::SIGTRAP,
    signal::SIGABRT,
    signal::SIGBUS,
    signal::SIGFPE,
    signal::SIGSEGV,
    signal::SIGSYS,
];

/// Returns a warning if the recorded program ended by a fault, which changes of its code may have caused; otherwise
/// `None`.
fn ended_by_fault(outcome: Outcome) -> Option<String> {
    let Outcome::Signalled(number) = outcome else { return None };
    let name = signal_name(number).filter(|_| FAULTS.contains(&number))?;
    Some(format!(
        "{name} ended the program; if the program checks its own code, record it with --exclude NAME"
    ))
}

/// Checks that a program can be recorded on this machine; `startup`: that its start can.
///
/// # Errors
/// If no method works; the error has the steps that would allow one.
pub(crate) fn must_work(startup: bool) -> Result<()> {
    match sediment_record::recorder(CALL_SITES).filter(|_| startup) {
        Some(recorder) => (recorder.available)(),
        None => {
            sediment_record::best(&RecordingTarget::Program(vec!["true".into()]), &RecordSettings::default())
                .map(drop)
        }
    }
}

fn methods() -> impl Iterator<Item = PossibleValue> {
    RECORDERS.iter().map(|recorder| PossibleValue::new(recorder.name))
}

/// Methods of earlier releases, and their replacements.
const FORMER_METHODS: &[(&str, &str)] = &[("breakpoints", "call-sites; for blocks and lines, valgrind")];

fn until(text: &str) -> std::result::Result<Until, String> {
    match text {
        "exit" | "EXIT" => Ok(Until::Exit),
        "output" | "OUTPUT" => Ok(Until::Output),
        _ => values::duration(text).map(Until::After),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_alone_are_warned_of() {
        let warned = |outcome| ended_by_fault(outcome).is_some();
        assert!(warned(Outcome::Signalled(signal::SIGSEGV)) && warned(Outcome::Signalled(signal::SIGABRT)));
        assert!(!warned(Outcome::Signalled(signal::SIGTERM)) && !warned(Outcome::Signalled(signal::SIGKILL)));
        assert!(!warned(Outcome::Exited(139)));
    }
}
