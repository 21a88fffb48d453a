// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a program under the recorder, and says why where that is not possible.

use super::shared::SharedMemory;
use super::supervisor::Supervisor;
use crate::tracing::apart::Link;
use crate::tracing::{refusal, starting, system};
use crate::{Job, Progress, Recorded, RecordedData, Settings, Target, Until};
use nix::sys::ptrace;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::profile::source::{Source, Unknown::OwnCost};
use sediment_process::command::Outcome;
use std::ffi::OsString;

/// Name of the recorder.
pub(super) const NAME: &str = "call-sites";

pub(super) fn suits(target: &Target, settings: &Settings) -> Result<()> {
    let usage =
        |message: &str, hint: &str| Err(Error::new(ErrorCode::Usage, message).with_hint(hint.to_owned()));
    match target {
        Target::System => usage(
            "call sites are counted in programs, not on the whole machine",
            "use --method perf-branches or perf-stacks",
        ),
        Target::Processes(_) => usage(
            "call sites are counted only in programs that sediment starts",
            "use --method breakpoints for running processes",
        ),
        Target::Program(_) if settings.until == Until::Output => usage(
            "call sites are not counted until the first output",
            "use --method breakpoints, or --seconds",
        ),
        Target::Program(_) if settings.lines => {
            usage("call sites tell no executed lines", "use --method breakpoints")
        }
        Target::Program(_) => Ok(()),
    }
}

/// Traces a program that does nothing, until its first instruction.
pub(super) fn available() -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorCode::TracingFailed, format!("cannot count call sites: {error}"))
    };
    SharedMemory::new().map_err(failed)?;
    let waiting = system::fork_program(&["true".into()]).map_err(failed)?;
    let process = waiting.process;
    let seized = ptrace::seize(process, ptrace::Options::empty())
        .map_err(|error| refusal::not_allowed(process, true, error));
    // It ends as it is not let go.
    drop(waiting);
    starting::wait_for_end(process);
    seized
}

/// Records in a thread of its own, as all that traces a program must be one thread.
pub(super) fn record(job: &mut Job<'_>) -> Result<Recorded> {
    let Job { target, settings, watch, link, .. } = job;
    suits(target, settings)?;
    std::thread::scope(|scope| {
        scope
            .spawn(|| record_here(target, settings, *watch, link.as_deref_mut()))
            .join()
            .map_err(|_| Error::new(ErrorCode::Internal, "the tracing thread panicked"))?
    })
}

fn record_here(
    target: &Target,
    settings: &Settings,
    watch: &mut (dyn FnMut(Progress) + Send),
    link: Option<&mut Link>,
) -> Result<Recorded> {
    let Target::Program(words) = target else {
        return Err(Error::new(ErrorCode::Internal, "no program to record"));
    };
    let mut watch = |progress| watch(progress);
    let mut supervisor = Supervisor::new(settings, &mut watch)?;
    let outcome = follow(words, link, &mut supervisor)?;
    let source = Source::new(NAME, "calls", &[OwnCost]);
    let mut recording = supervisor.tally.recording(&supervisor.modules, source, &supervisor.skipped);
    recording.seen += &format!(
        " ({} programs, {} ms of changes, of which {} ms of plans)",
        supervisor.programs,
        supervisor.changing.as_millis(),
        supervisor.modules.planning.as_millis()
    );
    Ok(Recorded { kept: RecordedData::Here(Box::new(recording), Vec::new()), outcome, worked: None })
}

/// Starts a program, or lets the front start the one that waits there, and follows it; how it ended.
fn follow(
    words: &[OsString],
    link: Option<&mut Link>,
    supervisor: &mut Supervisor<'_>,
) -> Result<Option<Outcome>> {
    let failed = |error: std::io::Error| starting::not_started(words, &error);
    let seize = |supervisor: &mut Supervisor<'_>, process| {
        if let Some(program) = words.first() {
            starting::refuse_other_rights(program)?;
        }
        supervisor.expect(process).map_err(|error| refusal::not_allowed(process, true, error))
    };
    if let Some((process, link)) = link.and_then(|link| Some((link.process()?, link))) {
        seize(supervisor, process)?;
        link.go().map_err(failed)?;
        let followed = supervisor.run();
        let outcome = link.outcome().map_err(failed)?;
        return followed.map(|()| outcome);
    }
    let program = system::fork_program(words).map_err(failed)?;
    let process = program.process;
    seize(supervisor, process)?;
    let going = std::thread::spawn(|| program.go());
    let followed = supervisor.run();
    let outcome = starting::wait_for_end(process);
    going
        .join()
        .map_err(|_| Error::new(ErrorCode::Internal, "the starting thread panicked"))?
        .map_err(failed)?;
    followed.map(|()| outcome)
}
