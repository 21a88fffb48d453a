// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a program under the recorder, or takes on one that runs; says why where that is not allowed.

use super::machine;
use super::mappings::{status_field, threads};
use super::modules::Modules;
use super::system::{self, Spawning};
use super::tracer::{Ending, Tracer};
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
use std::os::unix::fs::PermissionsExt;
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
const FOLLOW: Options = Options::PTRACE_O_TRACECLONE
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
            for id in ids {
                join(Pid::from_raw(*id), &mut tracer)?;
            }
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
    let latency = tracer.windows.as_ref().map_or(0, |windows| windows.cost_of_meeting().0);
    let (mut recording, steps) = tracer.log.recording(&tracer.modules, source, latency);
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
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    let started = system::start(command).map_err(|error| not_started(&target, &error))?;
    let process = started.process;
    ptrace::seize(process, FOLLOW_AND_END).map_err(|error| not_allowed(process, error))?;
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
    let other = std::fs::metadata(&path).is_ok_and(|found| found.permissions().mode() & 0o6000 != 0);
    if !other {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("{} runs with the rights of another user (setuid), which the kernel takes from it while it is traced", path.display()),
    )
    .with_hint("record it as root, or record the program behind it"))
}

fn found_on_search_path(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_path_buf());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}

fn join(process: Pid, tracer: &mut Tracer<'_>) -> Result<()> {
    let gone = || Error::failed(format!("there is no process {process}"));
    if let Some(by) =
        status_field(process, "TracerPid").ok_or_else(gone)?.parse::<i32>().ok().filter(|by| *by != 0)
    {
        let name = std::fs::read_to_string(format!("/proc/{by}/comm")).unwrap_or_default();
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("process {process} is traced already, by {} (process {by})", name.trim()),
        )
        .with_hint("end that first, or record with perf: --method perf"));
    }
    let mut seized: BTreeSet<Pid> = BTreeSet::new();
    // Threads may be made meanwhile; those of a seized thread are seized by the kernel.
    loop {
        let new: Vec<Pid> = threads(process)
            .map_err(|_| gone())?
            .into_iter()
            .filter(|thread| !seized.contains(thread))
            .collect();
        if new.is_empty() {
            break;
        }
        for thread in new {
            match ptrace::seize(thread, FOLLOW) {
                Ok(()) | Err(Errno::ESRCH) => drop(seized.insert(thread)),
                Err(_) if traced_by_us(thread) => drop(seized.insert(thread)),
                Err(error) => return Err(not_allowed(process, error)),
            }
        }
    }
    let threads: Vec<Pid> = seized.into_iter().collect();
    tracer
        .join(process, &threads)
        .map_err(|error| Error::failed(format!("process {process} cannot be read: {error}")))
}

fn traced_by_us(thread: Pid) -> bool {
    status_field(thread, "TracerPid").is_some_and(|by| by == nix::unistd::gettid().to_string())
}

/// Why the kernel does not let this process be traced, and the way out.
fn not_allowed(process: Pid, error: Errno) -> Error {
    let unsupported = |message: String| Error::new(ErrorKind::Unsupported, message);
    if error == Errno::ESRCH {
        return Error::failed(format!("there is no process {process}"));
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let owner =
        status_field(process, "Uid").and_then(|ids| ids.split_whitespace().next()?.parse::<u32>().ok());
    let ours = nix::unistd::getuid();
    let root = nix::unistd::geteuid().is_root();
    if owner.is_some_and(|owner| owner != ours.as_raw()) && !root {
        return unsupported(format!("process {process} belongs to another user"))
            .with_hint("record it as root (sudo)");
    }
    match scope.trim() {
        "3" => unsupported("this machine lets no program be traced (kernel.yama.ptrace_scope = 3)".to_owned())
            .with_hint("that setting lasts until the machine is started anew; record with perf or valgrind: --method"),
        "2" if !root => {
            unsupported("this machine lets root alone trace programs (kernel.yama.ptrace_scope = 2)".to_owned())
                .with_hint("record as root, or allow it: sudo sysctl kernel.yama.ptrace_scope=1")
        }
        "1" if !root => unsupported(format!(
            "this machine lets programs be traced only by what started them (kernel.yama.ptrace_scope = 1), and process {process} \
             was started elsewhere"
        ))
        .with_hint(
            "start it by `sediment record -- PROGRAM`, record as root, or allow it: sudo sysctl kernel.yama.ptrace_scope=0",
        ),
        _ => unsupported(format!("the kernel does not let process {process} be traced: {error}")).with_hint(format!(
            "in a container allow it by --cap-add=SYS_PTRACE; on {} no other means is left where seccomp forbids it: record \
             with valgrind (--method valgrind)",
            machine::ARCH
        )),
    }
}
