// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a recording, from the choice of the method to the profile.

use crate::exit::{self, ExitCode};
use crate::files::{SystemFiles, Workshop};
use crate::inputs::{self, recordings};
use crate::ui::Ui;
use crate::values;
use clap::Args;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::command::Outcome;
use sediment_read::read::{self, Recording};
use sediment_read::resolve::{self, Resolved};
use sediment_read::trace::StepCounter;
use sediment_record::breakpoints::Rates;
use sediment_record::tracing::apart;
use sediment_record::{
    self, BlockCoverage, FileFilter, RECORDERS, RecordSettings, RecordedData, Recorder, RecordingJob,
    RecordingProgress, RecordingTarget, Until,
};
use serde::Serialize;
use signal_hook::consts::signal;
use signal_hook::low_level::signal_name;
use std::time::{Duration, Instant};

mod front;

/// Options of a recording.
#[derive(Debug, Args)]
pub(crate) struct RecordingOptions {
    /// End the recording after this time, above 0; accepts 90, 90s and 2m. With breakpoints, the program continues
    /// [default: none]
    #[arg(long, value_name = "SECONDS", conflicts_with = "until", value_parser = values::duration)]
    seconds: Option<Duration>,
    /// End of the recording: exit of the program, its first output, or a time; accepts 90, 90s and 2m [default: exit]
    #[arg(long, value_name = "EXIT|OUTPUT|SECONDS", value_parser = until)]
    until: Option<Until>,
    /// Recording method [default: the best that works here, see `sediment doctor`]
    #[arg(long, value_name = "METHOD", value_parser = methods())]
    method: Option<String>,
    /// Largest share of the program's time for the recording, in per cent, above 0 and up to 90: calls are counted in
    /// bursts; breakpoints estimate call rates [default: all calls of the first ten seconds, then 5]
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
    /// With call sites: also record in short windows which functions run close in time (affinity); breakpoints always do
    #[arg(long)]
    affinity: bool,
    /// Memory limit, with K, M or G, for changed pages of code (a copy for each process), and for the code,
    /// counters and plans of call sites [default: none; with breakpoints 32M]
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    max_memory: Option<u64>,
    /// With breakpoints: run a started program on the recorder's processor while it hits many breakpoints,
    /// because that is cheaper; the program can see it in /proc/PID/status
    #[arg(long)]
    share_processor: bool,
    /// With --startup: record the first uses of a started program by jumps in its code until it creates a
    /// thread or process, because that is cheaper than breakpoints
    #[arg(long)]
    trampolines: bool,
    /// Set no breakpoints in this DSO (for code that checksums itself); repeatable [default: none]
    #[arg(long, value_name = "DSO")]
    exclude: Vec<String>,
    /// With breakpoints: also find executed blocks of programs with a block map (docs/beyond-functions.md):
    /// auto (within a fifth of the program's processor time), always or never [default: auto; never with
    /// --startup]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "always", "never"])]
    blocks: Option<String>,
    /// Seed for choosing which functions to sample, from 0
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

/// Time after which a warning reports that none of the selected files has been executed.
const AWAITED: Duration = Duration::from_secs(10);

/// Time in which breakpoints sample the rates of most functions: rare ones are armed one after the other.
pub(crate) const FEW_SECONDS: Duration = Duration::from_secs(3);

/// Default share of a program's time for breakpoints.
const USUAL_OVERHEAD: f64 = 0.05;

/// Method that records the order of first uses.
const OF_STARTS: &str = "breakpoints";

/// Method that counts every call, and does not affect programs that it cannot record.
const CALL_SITES: &str = "call-sites";

/// Purpose of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordingUse {
    /// Only first uses, by breakpoints.
    FirstUses,
    /// A profile of functions, and of blocks if there is a compiler's map of them.
    Profile,
    /// As `Profile`, with executions by source line.
    Lines,
}

/// The selected files of a recording.
pub(crate) struct Only<'a> {
    /// Files that breakpoints record.
    pub(crate) files: FileFilter,
    /// Makes the error for a recording with none of these files.
    pub(crate) none: &'a dyn Fn(&Recording, &SystemFiles) -> Error,
}

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

/// Facts of a recording, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RecordingOutput {
    method: &'static str,
    /// Time that was recorded.
    seconds: f64,
    /// Exit code of the recorded program, as a shell gives it; null for running processes and the whole machine.
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
    /// Records with the chosen method and resolves the recording. `only`: `None` for all files; methods other than
    /// breakpoints record all files.
    pub(crate) fn record(
        &self,
        target: &RecordingTarget,
        wanted: RecordingUse,
        only: Option<&Only<'_>>,
        ui: &Ui,
    ) -> Result<RecordingSide> {
        let startup = wanted == RecordingUse::FirstUses;
        let settings = self.settings(wanted, only)?;
        let recorder = self.recorder(target, &settings, startup, ui)?;
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
        let mut awaited = only.is_some();
        let mut watch = |progress: RecordingProgress| {
            let nothing_yet = nothing_yet(&mut awaited, &progress);
            for warning in [progress.warning, nothing_yet].into_iter().flatten() {
                bar.suspend(|| ui.warn(&warning));
            }
            if progress.waiting {
                over = over.or(Some(progress.elapsed));
                bar.set_message("recorded; waiting for the program to end");
            } else if let Some(functions) = progress.functions {
                bar.set_message(format!("recording: {functions} functions executed"));
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
        let (recording, resolved) = match recorded.kept {
            RecordedData::Here(recording, steps) => {
                let resolved = resolve_here(&recording, &files, (only, fault.as_deref()), ui);
                let is_left_alone = recorder.name == CALL_SITES && recording.addresses().is_empty();
                let mut resolved = match (resolved, recorded.outcome.filter(|_| is_left_alone)) {
                    (Err(error), Some(outcome)) => return Ok(left_alone(&error, outcome, ui)),
                    (resolved, _) => resolved?,
                };
                if !steps.is_empty() {
                    let mut sequence = StepCounter::new(&resolved.functions);
                    sequence.steps(&steps);
                    sequence.put_into(&mut resolved.profile, false);
                }
                (*recording, resolved)
            }
            RecordedData::Files(paths) => {
                // Addresses of samples and branches show blocks; other recordings have none.
                let executions = settings.blocks != BlockCoverage::Never && recorder.tells_addresses;
                let settings = read::ReadSettings { executions, ..read::ReadSettings::default() };
                recordings::Inputs::open(&paths, ui)?.resolve(&settings, &files, false, None, ui)?
            }
        };
        inputs::tell_gaps(&resolved.profile, ui);
        let rough = (!startup).then(|| rough_rates(time, recorded.worked)).flatten();
        for warning in [rough, fault].into_iter().flatten() {
            ui.warn(&warning);
        }
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

    fn settings(&self, wanted: RecordingUse, only: Option<&Only<'_>>) -> Result<RecordSettings> {
        let startup = wanted == RecordingUse::FirstUses;
        if self.trampolines && !startup {
            return Err(Error::new(ErrorCode::Usage, "--trampolines records only first uses")
                .with_hint("add --startup"));
        }
        if wanted == RecordingUse::Lines && self.blocks.as_deref() == Some("never") {
            let why = "--format with lines needs block counts, which --blocks never disables";
            return Err(Error::new(ErrorCode::Usage, why).with_hint("use --blocks auto or always"));
        }
        let rates = (!startup)
            .then_some(Rates { overhead: self.overhead.unwrap_or(USUAL_OVERHEAD), seed: self.seed });
        let blocks = match self.blocks.as_deref() {
            Some("always") => BlockCoverage::Always,
            Some("never") => BlockCoverage::Never,
            Some(_) => BlockCoverage::WithinBudget,
            None if startup => BlockCoverage::Never,
            None => BlockCoverage::WithinBudget,
        };
        let until = self.seconds.map(Until::After).or(self.until).unwrap_or_default();
        Ok(RecordSettings {
            exclude: self.exclude.iter().cloned().collect(),
            recorded: only.map_or_else(FileFilter::default, |only| only.files.clone()),
            max_memory: self.max_memory,
            share_processor: self.share_processor,
            trampolines: self.trampolines,
            rates,
            overhead: self.overhead,
            exact: self.exact,
            affinity: self.affinity,
            blocks,
            lines: wanted == RecordingUse::Lines,
            event: self.event.clone(),
            frequency: self.freq,
            until,
            stop: front::stop_on_signals()?,
        })
    }

    fn recorder(
        &self,
        target: &RecordingTarget,
        settings: &RecordSettings,
        startup: bool,
        ui: &Ui,
    ) -> Result<&'static Recorder> {
        let named = self.method.as_deref().or(startup.then_some(OF_STARTS));
        if let Some(recorder) = named.and_then(sediment_record::recorder) {
            if settings.lines && !recorder.tells_addresses && !recorder.traces {
                let why = format!("{} records no executed lines here", recorder.name);
                return Err(Error::new(ErrorCode::Usage, why).with_hint(
                    "use --method breakpoints, or run valgrind with --dump-instr=yes and export its file",
                ));
            }
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

/// A program that is not traced runs normally; its exit code becomes the exit code of this command.
fn left_alone(error: &Error, outcome: Outcome, ui: &Ui) -> RecordingSide {
    let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
    ui.warn(&format!("{error}{hint}; no profile was written"));
    RecordingSide::Front(exit::as_the_program(outcome))
}

/// Resolves a recording by breakpoints. `fault`: the warning of a program that ended because of a fault.
fn resolve_here(
    recording: &Recording,
    files: &SystemFiles,
    (only, fault): (Option<&Only<'_>>, Option<&str>),
    ui: &Ui,
) -> Result<Resolved> {
    // If a file was replaced during the recording, for example by an upgrade, only that file is lost.
    let settings = resolve::ResolveSettings { skip_other_builds: true, ..Default::default() };
    let resolved = recordings::resolve(recording, files, settings, ui);
    let Some(only) = only.filter(|_| recording.addresses().is_empty()) else { return resolved };
    resolved.map_err(|reason| {
        fault.iter().for_each(|warning| ui.warn(warning));
        let error = (only.none)(recording, files);
        let hints = [error.hint(), reason.hint()].into_iter().flatten().collect::<Vec<_>>().join("; ");
        error.with_hint(hints)
    })
}

/// Returns a warning if breakpoints had little time to measure rates; `None` if the time was enough, or with another
/// method. A program that waits, or gets no processor, provides no data however long it is recorded.
fn rough_rates(time: Duration, worked: Option<Duration>) -> Option<String> {
    let (worked, least) = (worked?, FEW_SECONDS.as_secs());
    let recorded = time.as_secs_f64();
    if time < FEW_SECONDS {
        return Some(format!(
            "recorded {recorded:.1} s: call rates are rough below {least} s; record a longer run, or several in one command"
        ));
    }
    (worked < FEW_SECONDS).then(|| {
        format!(
            "recorded {recorded:.1} s, but the program used a processor for only {:.1} s: call rates are rough below {least} s; record a longer or busier run, or wait until the machine is less busy",
            worked.as_secs_f64()
        )
    })
}

/// Returns a warning, once, if the recording may be of the wrong program. `awaited`: the warning was not printed yet.
fn nothing_yet(awaited: &mut bool, progress: &RecordingProgress) -> Option<String> {
    *awaited &= progress.functions == Some(0);
    let elapsed = progress.elapsed;
    (*awaited && elapsed > AWAITED).then(|| {
        *awaited = false;
        let seconds = elapsed.as_secs();
        format!(
            "nothing to record was executed in {seconds} s: if this is the wrong program, stop with Ctrl-C"
        )
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

/// Returns a warning if the recorded program ended by a fault, which breakpoints in its code may have caused; otherwise
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
    match sediment_record::recorder(OF_STARTS).filter(|_| startup) {
        Some(recorder) => (recorder.available)(),
        None => {
            sediment_record::best(&RecordingTarget::Program(vec!["true".into()]), &RecordSettings::default())
                .map(drop)
        }
    }
}

fn methods() -> Vec<&'static str> {
    RECORDERS.iter().map(|recorder| recorder.name).collect()
}

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

    #[test]
    fn programs_without_a_processor_have_rough_rates() {
        let [short, enough, long] = [100, 3000, 20_000].map(Duration::from_millis);
        let warned = |time, worked| rough_rates(time, worked).is_some();
        assert!(warned(short, Some(short)));
        assert!(warned(long, Some(short)), "it ran for long, and had no processor");
        assert!(!warned(long, Some(enough)));
        assert!(!warned(short, None), "of samples, their number tells");
    }
}
