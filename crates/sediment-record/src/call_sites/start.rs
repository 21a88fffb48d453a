// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a program under the recorder, or reports why this is impossible.

use super::filtered;
use super::machine;
use super::plan::SitePlan;
use super::shared::SharedMemory;
use super::supervisor::Supervisor;
use crate::tracing::apart::FrontLink;
use crate::tracing::mappings::{has_little_memory, is_filtered, is_limited, running_thread, user_of};
use crate::tracing::{join, refusal, starting, system};
use crate::{RecordSettings, Recorded, RecordedData, RecordingJob, RecordingProgress, RecordingTarget};
use nix::sys::ptrace;
use nix::unistd::{Pid, geteuid};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, OwnCost},
};
use sediment_read::read::{Recording, Step};
use std::ffi::OsString;

/// Name of the recorder.
pub(super) const NAME: &str = "call-sites";

pub(super) fn suits(target: &RecordingTarget, settings: &RecordSettings) -> Result<()> {
    let usage =
        |message: &str, hint: &str| Err(Error::new(ErrorCode::Usage, message).with_hint(hint.to_owned()));
    match target {
        RecordingTarget::System => usage(
            "call-sites records programs and processes, not the whole machine",
            "use --method perf-branches or perf-stacks",
        ),
        RecordingTarget::Program(_) | RecordingTarget::Processes(_) if settings.addresses => {
            usage("call-sites records no executed blocks or lines", "use --method valgrind or perf-stacks")
        }
        RecordingTarget::Processes(ids) => may_attach(ids),
        RecordingTarget::Program(_) => Ok(()),
    }
}

/// Checks if another recorder would be better, because call sites cannot record this program. A program inherits this
/// process's filters and limits.
pub(super) fn serves_best(target: &RecordingTarget, _: &RecordSettings) -> Result<()> {
    let no = |why: &str| Err(Error::new(ErrorCode::Unsupported, why));
    let us = Pid::this();
    let RecordingTarget::Program(words) = target else { return Ok(()) };
    if filtered::is_forbidden_to_us() {
        return no("a seccomp filter forbids to map the recorder's memory in programs");
    }
    if is_limited(us) || has_little_memory(us) {
        return no("call-sites records no programs under a limit of memory or file size");
    }
    // An interpreter runs a script, and a path that is not a file cannot be run.
    let path = words.first().and_then(starting::found_on_search_path).filter(|path| path.is_file());
    let bytes = path.and_then(|path| std::fs::read(path).ok()).filter(|bytes| bytes.starts_with(b"\x7fELF"));
    let Some(bytes) = bytes else { return Ok(()) };
    match SitePlan::reason_to_leave(&bytes) {
        Some(why) => no(&format!("call-sites does not record this program: {why}")),
        None => Ok(()),
    }
}

/// Traces a program that does nothing, up to its first instruction.
pub(super) fn available() -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorCode::TracingFailed, format!("cannot count call sites: {error}"))
    };
    if let Some(why) = machine::lacks() {
        return Err(Error::new(ErrorCode::Unsupported, format!("cannot count call sites: {why}")));
    }
    SharedMemory::new().map_err(failed)?;
    let waiting = system::fork_program(&["true".into()]).map_err(failed)?;
    let process = waiting.process;
    let seized = ptrace::seize(process, ptrace::Options::empty())
        .map_err(|error| refusal::not_allowed(process, true, error));
    // Dropping `waiting` ends the program, because it was never released.
    drop(waiting);
    starting::wait_for_end(process);
    seized
}

/// Records in a thread of its own, because a single thread must trace a program. The thread ends with the recording:
/// until then the parents of released processes do not learn of their exits.
pub(super) fn record(job: &mut RecordingJob<'_>) -> Result<Recorded> {
    let RecordingJob { target, settings, watch, link, .. } = job;
    suits(target, settings)?;
    let traced = std::thread::scope(|scope| {
        scope
            .spawn(|| match target {
                RecordingTarget::Program(words) => trace(words, settings, *watch, link.as_deref_mut()),
                RecordingTarget::Processes(ids) => trace_running(ids, settings, *watch),
                RecordingTarget::System => Err(Error::new(ErrorCode::Internal, "no program to record")),
            })
            .join()
            .map_err(|_| Error::new(ErrorCode::Internal, "the tracing thread panicked"))?
    })?;
    let RecordingTarget::Program(words) = target else {
        let (recording, steps) = traced.recording?;
        let kept = RecordedData::Here(Box::new(recording), steps);
        return Ok(Recorded { kept, outcome: None });
    };
    let outcome = match (traced.own, link) {
        (Some(process), _) => starting::wait_for_end(process),
        (None, Some(link)) => link.outcome().map_err(|error| starting::not_started(words, &error))?,
        (None, None) => None,
    };
    let (recording, steps) = traced.recording?;
    Ok(Recorded { kept: RecordedData::Here(Box::new(recording), steps), outcome })
}

/// A recording, and the program's process if the recorder started it.
struct Traced {
    recording: Result<(Recording, Vec<Step>)>,
    own: Option<Pid>,
}

/// Starts a program, or lets the front release the waiting one, and follows it.
fn trace(
    words: &[OsString],
    settings: &RecordSettings,
    watch: &mut (dyn FnMut(RecordingProgress) + Send),
    link: Option<&mut FrontLink>,
) -> Result<Traced> {
    let failed = |error: std::io::Error| starting::not_started(words, &error);
    let mut watch = |progress| watch(progress);
    let mut supervisor = Supervisor::new(settings, &mut watch, false)?;
    let seize = |supervisor: &mut Supervisor<'_>, process| {
        if let Some(program) = words.first() {
            starting::refuse_other_rights(program)?;
        }
        supervisor.expect(process).map_err(|error| refusal::not_allowed(process, true, error))
    };
    if let Some((process, link)) = link.and_then(|link| Some((link.process()?, link))) {
        seize(&mut supervisor, process)?;
        link.go().map_err(failed)?;
        let followed = supervisor.run();
        return Ok(Traced { recording: followed.map(|()| recording(&mut supervisor)), own: None });
    }
    let program = system::fork_program(words).map_err(failed)?;
    let process = program.process;
    seize(&mut supervisor, process)?;
    let going = std::thread::spawn(|| program.go());
    let followed = supervisor.run();
    going
        .join()
        .map_err(|_| Error::new(ErrorCode::Internal, "the starting thread panicked"))?
        .map_err(failed)?;
    Ok(Traced { recording: followed.map(|()| recording(&mut supervisor)), own: Some(process) })
}

/// Attaches to running processes, and follows them.
fn trace_running(
    ids: &[i32],
    settings: &RecordSettings,
    watch: &mut (dyn FnMut(RecordingProgress) + Send),
) -> Result<Traced> {
    let mut watch = |progress| watch(progress);
    let us = Some(geteuid().as_raw());
    let is_of_another = |id: &i32| user_of(Pid::from_raw(*id)) != us || is_elsewhere(Pid::from_raw(*id));
    let mut supervisor = Supervisor::new(settings, &mut watch, ids.iter().any(is_of_another))?;
    join::join(ids, &mut supervisor)?;
    supervisor.common.shared.hide();
    supervisor.start();
    let followed = supervisor.run();
    Ok(Traced { recording: followed.map(|()| recording(&mut supervisor)), own: None })
}

/// True if a process sees other files or process numbers than we do, as in a container.
fn is_elsewhere(process: Pid) -> bool {
    // If something cannot be read now, the attach finds the problem later.
    let differs = |what: &str| {
        let of = |id: Pid| std::fs::read_link(format!("/proc/{id}/ns/{what}")).ok();
        of(process).is_some_and(|its| Some(its) != of(Pid::this()))
    };
    differs("pid") || differs("mnt")
}

/// Checks that one of these processes can open the shared memory, and be recorded. The attach skips others.
fn may_attach(ids: &[i32]) -> Result<()> {
    let mut refused: Option<Error> = None;
    for id in ids {
        match reason_against(Pid::from_raw(*id)) {
            None => return Ok(()),
            // A process that has ended says nothing about the others.
            Some(why) if refused.as_ref().is_none_or(|first| first.code() == ErrorCode::NotFound) => {
                refused = Some(why);
            }
            Some(_) => {}
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Returns the reason why a running process cannot be recorded; `None` if it can.
fn reason_against(process: Pid) -> Option<Error> {
    let no = |why: String| Some(Error::new(ErrorCode::Unsupported, why));
    let is_root = geteuid().is_root();
    let Some(thread) = running_thread(process) else {
        return Some(Error::new(ErrorCode::NotFound, format!("no process {process}")));
    };
    if !is_root && (user_of(thread) != Some(geteuid().as_raw()) || is_elsewhere(thread)) {
        return no(format!("process {process} belongs to another user, or runs in another container"));
    }
    if is_limited(thread) || has_little_memory(thread) {
        return no(format!("process {process} has a limit of memory or file size"));
    }
    if is_filtered(thread) && (!is_root || is_filtered(Pid::this())) {
        return no(format!("process {process} has a seccomp filter, which only root can read"));
    }
    let bytes = std::fs::read(format!("/proc/{thread}/exe")).ok();
    let why = bytes.and_then(|bytes| SitePlan::reason_to_leave(&bytes))?;
    no(format!("call-sites does not record process {process}: {why}"))
}

/// Makes the recording from the counts.
fn recording(supervisor: &mut Supervisor<'_>) -> (Recording, Vec<Step>) {
    let source = if supervisor.settings.first_uses {
        supervisor.tally.forget_counts();
        ProfileSource::new(NAME, ProfileSource::FIRST_USES, &[CallCounts, OwnCost])
    } else {
        ProfileSource::new(NAME, "calls", &[OwnCost])
    };
    let (mut recording, steps) =
        supervisor.tally.recording(&supervisor.common.modules, source, &supervisor.common.skipped);
    if let Some(bursts) = supervisor.bursts.said() {
        recording.seen += &format!(", by {bursts}");
    }
    recording.seen += &format!(
        " ({} programs, changed in {} ms, of which {} ms were planning)",
        supervisor.programs,
        supervisor.changing.as_millis(),
        supervisor.common.modules.planning.as_millis()
    );
    (recording, steps)
}
