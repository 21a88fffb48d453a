// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a program under the recorder, or attaches to a running one. Reports the reason if that is not allowed.

use super::kernel::Linux;
use super::modules::{KnownBlocks, Module, ModuleLimits, Modules};
use super::tracer::{Ending, Tracer};
use crate::BlockCoverage;
use crate::tracing::apart::FrontLink;
use crate::tracing::join::join;
use crate::tracing::machine::ISA;
use crate::tracing::mappings::mappings;
use crate::tracing::refusal;
use crate::tracing::starting::{found_on_search_path, not_started, refuse_other_rights};
use crate::tracing::system::{self, FOLLOW_AND_END, Status};
use crate::{RecordSettings, Recorded, RecordedData, RecordingJob, RecordingProgress, RecordingTarget};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;
use sediment_core::binary::{Files, NoFiles};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, OwnCost},
};
use sediment_process::command::Outcome;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Records in a thread of its own, because only one thread may trace a program. When that thread ends, the kernel
/// detaches all remaining threads.
pub(super) fn record(job: &mut RecordingJob<'_>) -> Result<Recorded> {
    let RecordingJob { target, settings, files, watch, link, .. } = job;
    suits(target, settings)?;
    std::thread::scope(|scope| {
        scope
            .spawn(|| record_here(target, settings, *files, *watch, link.as_deref_mut()))
            .join()
            .map_err(|_| Error::new(ErrorCode::Internal, "the tracing thread panicked"))?
    })
}

pub(super) fn suits(target: &RecordingTarget, _: &RecordSettings) -> Result<()> {
    match target {
        RecordingTarget::System => Err(Error::new(
            ErrorCode::Usage,
            "breakpoints record programs and processes, not the whole machine",
        )),
        _ => Ok(()),
    }
}

/// Traces a program that does nothing, to see whether that is allowed.
pub(super) fn available() -> Result<()> {
    let target = RecordingTarget::Program(vec!["true".into()]);
    let settings = RecordSettings::default();
    let mut job = RecordingJob {
        target: &target,
        settings: &settings,
        folder: Path::new("/"),
        files: &NoFiles,
        watch: &mut |_| {},
        link: None,
    };
    record(&mut job).map(drop)
}

fn record_here(
    target: &RecordingTarget,
    settings: &RecordSettings,
    files: &(dyn Files + Sync),
    watch: &mut (dyn FnMut(RecordingProgress) + Send),
    link: Option<&mut FrontLink>,
) -> Result<Recorded> {
    let blocks = match settings.blocks {
        BlockCoverage::Never => KnownBlocks::None,
        _ if settings.lines => KnownBlocks::Lines,
        _ => KnownBlocks::Mapped,
    };
    // If instructions cannot be moved, only breakpoints are used.
    let trampolines = settings.trampolines && settings.rates.is_none() && ISA.detour.is_some();
    let wanted =
        ModuleLimits { excluded: &settings.exclude, recorded: &settings.recorded, blocks, trampolines };
    let mut watch = |progress| watch(progress);
    let kernel = Linux::new()
        .map_err(|error| Error::new(ErrorCode::TracingFailed, format!("cannot trace programs: {error}")))?;
    let mut tracer = Tracer::new(settings, Rc::new(kernel), Modules::new(files, wanted), &mut watch);
    let outcome = match target {
        RecordingTarget::Program(words) => follow_program(words, link, &mut tracer)?,
        RecordingTarget::Processes(ids) => {
            join(ids, &mut tracer)?;
            tracer.run()?;
            None
        }
        RecordingTarget::System => None,
    };
    let source = match settings.rates {
        Some(_) => ProfileSource::new("breakpoints", ProfileSource::CALL_RATES, &[OwnCost]),
        None => ProfileSource::new("breakpoints", ProfileSource::FIRST_USES, &[CallCounts, OwnCost]),
    };
    let (mut recording, steps) = tracer.log.recording(&tracer.modules, source);
    let functions = |module: &Module| module.entries.iter().filter(|entry| entry.is_function).count();
    let breakpoints: usize = tracer.modules.all().iter().map(functions).sum();
    let (time, memory) = (tracer.arming.as_millis(), tracer.memory().div_ceil(1 << 20));
    recording.seen += &format!(" ({breakpoints} breakpoints set in {time} ms, {memory} MiB)");
    let worked = Some(Duration::from_nanos(tracer.log.retired()));
    Ok(Recorded { kept: RecordedData::Here(Box::new(recording), steps), outcome, worked })
}

/// Starts a program, or lets the front process start the waiting one, and follows it. Returns how it ended.
fn follow_program(
    words: &[OsString],
    link: Option<&mut FrontLink>,
    tracer: &mut Tracer<'_>,
) -> Result<Option<Outcome>> {
    let failed = |error: std::io::Error| not_started(words, &error);
    if let Some((process, link)) = link.and_then(|link| Some((link.process()?, link))) {
        prepare(words, process, tracer)?;
        link.go().map_err(failed)?;
        let followed = tracer.run();
        let outcome = link.outcome().map_err(failed)?;
        return followed.map(|()| outcome);
    }
    let program = system::fork_program(words).map_err(failed)?;
    let process = program.process;
    prepare(words, process, tracer)?;
    // It executes the program while it is followed, and `go` waits for that.
    let going = std::thread::spawn(|| program.go());
    let followed = tracer.run();
    let outcome = wait_for(process, tracer.ending)?;
    going
        .join()
        .map_err(|_| Error::new(ErrorCode::Internal, "the starting thread panicked"))?
        .map_err(failed)?;
    followed.map(|()| Some(outcome))
}

/// Attaches to the process that waits to exec this program.
fn prepare(words: &[OsString], process: Pid, tracer: &mut Tracer<'_>) -> Result<()> {
    if let Some(program) = words.first() {
        refuse_other_rights(program)?;
    }
    read_beforehand(words, &mut tracer.modules);
    ptrace::seize(process, FOLLOW_AND_END).map_err(|error| refusal::not_allowed(process, true, error))?;
    tracer
        .expect(process)
        .map_err(|error| Error::new(ErrorCode::TracingFailed, format!("cannot trace the program: {error}")))
}

/// Returns the end of the program, which the tracer may have seen first.
fn wait_for(process: Pid, ending: Ending) -> Result<Outcome> {
    loop {
        match (system::wait_for(process), ending) {
            (Ok(Status::Exited(code)), _) | (Err(Errno::ECHILD), Ending::Exited(code)) => {
                return Ok(Outcome::Exited(code));
            }
            (Ok(Status::Killed(signal)), _) | (Err(Errno::ECHILD), Ending::Killed(signal)) => {
                return Ok(Outcome::Signalled(signal));
            }
            (Ok(_), _) => {}
            (Err(error), _) => {
                return Err(Error::new(
                    ErrorCode::TracingFailed,
                    format!("cannot wait for the program: {error}"),
                ));
            }
        }
    }
}

/// Largest number of files that are read in advance; a file needed by several counts for each.
const MOST_FILES: usize = 4096;

/// Reads the files that will be executed, so that the program does not have to stop for them: the program itself, the
/// programs among its arguments, which it may start (as `nice` and `env` do), the libraries that this program has
/// loaded, because nearly all programs load them, and the libraries that these files need.
fn read_beforehand(words: &[OsString], modules: &mut Modules<'_>) {
    let program = words.first().and_then(found_on_search_path);
    let arguments = words.iter().skip(1).map(PathBuf::from).filter(|path| path.components().count() > 1);
    let own = std::env::current_exe().unwrap_or_default();
    let loaded = mappings(Pid::this()).unwrap_or_default();
    let loaded = loaded.into_iter().filter(|mapping| mapping.executable);
    let loaded = loaded.map(|mapping| PathBuf::from(mapping.path)).filter(|path| *path != own);
    let loaded: Vec<PathBuf> = loaded.collect();
    let folders: Vec<PathBuf> = loaded.iter().filter_map(|path| Some(path.parent()?.to_owned())).collect();
    let mut files: VecDeque<PathBuf> = program.into_iter().chain(arguments).chain(loaded).collect();
    for _ in 0..MOST_FILES {
        let Some(path) = files.pop_front() else { return };
        if let Ok(path) = path.canonicalize() {
            files.extend(modules.read_beforehand(&path, &folders));
        }
    }
}
