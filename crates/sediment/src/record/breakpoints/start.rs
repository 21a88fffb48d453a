// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a program under the recorder, or takes on one that runs; says why where that is not allowed.

use super::join::join;
use super::mappings::mappings_with_code;
use super::modules::Modules;
use super::refusal;
use super::system::{self, Spawning};
use super::tracer::{Ending, Tracer, has_other_rights};
use crate::binary::{Files, NoFiles};
use crate::error::{Error, ErrorKind, Result};
use crate::measure::command::Outcome;
use crate::record::{Job, Kept, Progress, Recorded, Settings, Target};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Records in a thread of its own, as all that traces a program must be one thread.
pub(super) fn record(job: &mut Job<'_>) -> Result<Recorded> {
    let Job { target, settings, files, watch, .. } = job;
    suits(target, settings)?;
    std::thread::scope(|scope| {
        scope
            .spawn(|| record_here(target, settings, *files, *watch))
            .join()
            .map_err(|_| Error::failed("the thread that traces the program broke down"))?
    })
}

pub(super) fn suits(target: &Target, _: &Settings) -> Result<()> {
    match target {
        Target::System => Err(Error::new(
            ErrorKind::Usage,
            "breakpoints record programs and processes, not all that the machine runs",
        )),
        _ => Ok(()),
    }
}

/// Traces a program that does nothing.
pub(super) fn available() -> Result<()> {
    let target = Target::Program(vec!["true".into()]);
    let settings = Settings::default();
    let mut job = Job {
        target: &target,
        settings: &settings,
        folder: Path::new("/"),
        files: &NoFiles,
        watch: &mut |_| {},
    };
    record(&mut job).map(drop)
}

/// For a running process: all that it makes is traced too.
pub(super) const FOLLOW: Options = Options::PTRACE_O_TRACECLONE
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACEEXEC)
    .union(Options::PTRACE_O_TRACESYSGOOD);

/// For a program that was started: it ends should we be killed.
const FOLLOW_AND_END: Options = FOLLOW.union(Options::PTRACE_O_EXITKILL);

fn record_here(
    target: &Target,
    settings: &Settings,
    files: &(dyn Files + Sync),
    watch: &mut (dyn FnMut(Progress) + Send),
) -> Result<Recorded> {
    let excluded: BTreeSet<String> = settings.exclude.clone();
    let mut watch = |progress| watch(progress);
    let mut tracer = Tracer::new(settings, Modules::new(files, &excluded), &mut watch)?;
    let started = match target {
        Target::Program(words) => Some(start(words, &mut tracer)?),
        Target::Processes(ids) => {
            join(ids, &mut tracer)?;
            None
        }
        Target::System => None,
    };
    let followed = tracer.run();
    let outcome = match started {
        Some((process, spawning)) => {
            spawning.finish().map_err(|error| not_started(target, &error))?;
            Some(wait_for(process, tracer.ending)?)
        }
        None => None,
    };
    followed?;
    let source = match settings.rates {
        Some(_) => "breakpoints (call rates) without own cost",
        None => "breakpoints (first uses) without call counts or own cost",
    };
    let (mut recording, steps) = tracer.log.recording(&tracer.modules, source);
    let traps: usize = tracer.modules.all().iter().map(|module| module.entries.len()).sum();
    recording.seen += &format!(", {traps} traps set in {} ms", tracer.arming.as_millis());
    Ok(Recorded { kept: Kept::Here(Box::new(recording), steps), outcome })
}

fn start(words: &[OsString], tracer: &mut Tracer<'_>) -> Result<(Pid, Spawning)> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::new(ErrorKind::Usage, "no program was given to record"));
    };
    let target = Target::Program(words.to_vec());
    refuse_other_rights(program)?;
    read_beforehand(words, &mut tracer.modules);
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    let started = system::start(command).map_err(|error| not_started(&target, &error))?;
    let process = started.process;
    ptrace::seize(process, FOLLOW_AND_END).map_err(|error| refusal::not_allowed(process, true, error))?;
    tracer
        .expect(process)
        .map_err(|error| Error::failed(format!("the program cannot be traced: {error}")))?;
    let spawning = started.go().map_err(|error| not_started(&target, &error))?;
    Ok((process, spawning))
}

fn not_started(target: &Target, error: &std::io::Error) -> Error {
    let name = match target {
        Target::Program(words) => {
            words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
        }
        Target::Processes(_) | Target::System => String::new(),
    };
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::failed(format!("{name}: there is no such program")),
        _ => Error::failed(format!("{name} cannot be started: {error}")),
    }
}

/// The program's end, where it has not come yet.
fn wait_for(process: Pid, ending: Ending) -> Result<Outcome> {
    match ending {
        Ending::Exited(code) => return Ok(Outcome::Exited(code)),
        Ending::Killed(signal) => return Ok(Outcome::Signalled(signal)),
        Ending::Running => {}
    }
    loop {
        match waitpid(process, None) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(Outcome::Exited(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Outcome::Signalled(signal as i32)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(Error::failed(format!("the program cannot be waited for: {error}"))),
        }
    }
}

/// A traced program gets no rights of another user from its file, so one that needs them would not do what it does.
fn refuse_other_rights(program: &OsString) -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let Some(path) = found_on_search_path(program) else { return Ok(()) };
    if !std::fs::metadata(&path).is_ok_and(|found| has_other_rights(&found)) {
        return Ok(());
    }
    Err(refusal::other_rights(&path))
}

/// Reads what will run, so that the program need not stand still for it: the program itself, the programs among its arguments, which
/// it may start (as `nice` and `env` do), and what this program has loaded, as nearly all programs load it.
fn read_beforehand(words: &[OsString], modules: &mut Modules<'_>) {
    let program = words.first().and_then(found_on_search_path);
    let arguments = words.iter().skip(1).map(PathBuf::from).filter(|path| path.components().count() > 1);
    let own = std::env::current_exe().unwrap_or_default();
    let loaded = mappings_with_code(Pid::this()).unwrap_or_default();
    let loaded = loaded.into_iter().map(|mapping| PathBuf::from(mapping.path)).filter(|path| *path != own);
    for path in program.into_iter().chain(arguments).chain(loaded) {
        if let Ok(path) = path.canonicalize() {
            modules.read_beforehand(&path);
        }
    }
}

fn found_on_search_path(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_path_buf());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}
