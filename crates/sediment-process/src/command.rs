// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Command`] describes a program to start. [`run`] starts a program and waits for it, with a time limit and bounded
//! output. [`EndedProcess`] is the result. [`Stop`] lets another thread or a signal end a program.
//!
//! Resources of a single child: the kernel returns them only from `wait4`, which has no safe interface.
//! `getrusage(RUSAGE_CHILDREN)` is the sum over all reaped children, so its growth while one child is reaped is exactly
//! the usage of that child and of the descendants that it waited for. [`run`] therefore waits without reaping, then
//! reads, reaps and reads again under a lock. The peak memory in the same structure is a maximum and not a sum, so it
//! must be read in another way.

use crate::failed;
use nix::libc::c_long;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind as IoKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time for which pipes may stay open after their program has ended, because a process that it left running holds them.
const PIPE_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of bytes of standard error that are kept for [`EndedProcess::last_words`].
const KEPT_OF_STANDARD_ERROR: usize = 64 * 1024;

/// Interval at which a watchdog checks whether it should end its program.
const LOOK_FOR_STOP: Duration = Duration::from_millis(50);

/// Flag that ends running programs: set by another thread, or by a signal handler through [`Stop::flag`].
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Makes a flag that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag.
    pub fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// True if the flag is set.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns the flag itself, for a signal handler that sets it.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Fails with [`ErrorCode::Interrupted`] once the flag is set.
    ///
    /// # Errors
    /// This error.
    pub fn check(&self) -> Result<()> {
        if self.asked() { Err(interrupted()) } else { Ok(()) }
    }
}

impl PartialEq for Stop {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Stop {}

fn interrupted() -> Error {
    Error::new(ErrorCode::Interrupted, "interrupted")
}

/// A program to run, with its arguments and conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program: an absolute path, or a name on the search path.
    pub program: OsString,
    /// Its arguments, without its own name.
    pub arguments: Vec<OsString>,
    /// Variables that are set in addition to the environment of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Standard input of the program.
    pub input: StandardInput,
    /// Its working directory.
    pub folder: PathBuf,
    /// Time after which it is ended together with its descendants.
    pub time_limit: Duration,
    /// If given, the program runs in a process group of its own, which a terminal's interrupt key does not reach. The
    /// whole group is ended when this is set, and the rest of the group when the program has ended.
    pub stop: Option<Stop>,
    /// True if exit codes other than 0 are not failures.
    pub may_fail: bool,
}

/// Source of a program's standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StandardInput {
    /// No input.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// This file from its beginning.
    File(PathBuf),
}

impl Command {
    /// Makes a command without arguments and input, for this folder and time limit.
    #[must_use]
    pub fn new(program: impl Into<OsString>, folder: impl Into<PathBuf>, time_limit: Duration) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            input: StandardInput::Empty,
            folder: folder.into(),
            time_limit,
            stop: None,
            may_fail: false,
        }
    }

    /// Runs the program in a process group of its own, which is ended when `stop` is set.
    #[must_use]
    pub fn stopped_by(mut self, stop: &Stop) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn with_arguments<S: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Runs the program under a tool: its arguments are `arguments`, then the program and the program's arguments.
    #[must_use]
    pub fn under<S: Into<OsString>>(&self, tool: &str, arguments: impl IntoIterator<Item = S>) -> Self {
        let mut all: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        all.push(self.program.clone());
        all.extend(self.arguments.iter().cloned());
        Self { program: tool.into(), arguments: all, ..self.clone() }
    }

    /// The program's base name, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        let name = std::path::Path::new(&self.program).file_name().unwrap_or(&self.program);
        name.to_string_lossy().into_owned()
    }
}

/// Outcome of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It was ended at its time limit.
    OutOfTime,
    /// It was ended because [`Command::stop`] was set.
    Stopped,
}

/// Resources that a program used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Clock time from start to end.
    pub wall: Duration,
    /// Processor time in user mode, including descendants that were waited for, as in the following fields.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Page faults without a read from disk.
    pub minor_faults: u64,
    /// Page faults with a read from a file or swap.
    pub major_faults: u64,
    /// Context switches, voluntary and involuntary.
    pub context_switches: u64,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedProcess {
    /// Id of the process; other processes may use it by now.
    pub process: u32,
    /// Exit status or signal.
    pub outcome: Outcome,
    /// Resources used.
    pub usage: Usage,
    /// First bytes of its standard output, up to the limit given to [`run`].
    pub output: Vec<u8>,
    /// Number of bytes of standard output beyond the limit.
    pub output_dropped: u64,
    errors: Vec<u8>,
}

impl EndedProcess {
    /// Makes the result of a run of which only the end is known.
    pub fn of(process: u32, outcome: Outcome, errors: Vec<u8>) -> Self {
        Self { process, outcome, usage: Usage::default(), output: Vec::new(), output_dropped: 0, errors }
    }

    /// Last non-blank line of its standard error, cut to a readable length, not escaped.
    #[must_use]
    pub fn last_words(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.errors);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(300).collect())
    }

    /// Last lines of its standard error, or of its standard output if standard error is empty; not escaped.
    #[must_use]
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        let said =
            if self.errors.iter().any(|b| !b.is_ascii_whitespace()) { &self.errors } else { &self.output };
        last_lines(said, count)
    }

    /// Last bytes of its standard error, at most 64 KiB, not escaped.
    #[must_use]
    pub fn errors(&self) -> &[u8] {
        &self.errors
    }

    /// Returns itself if the program exited with code 0, or with any code if it [may fail](Command::may_fail).
    ///
    /// # Errors
    /// Otherwise. The error has the exit code or signal and the last line of standard error.
    pub fn successful(self, command: &Command) -> Result<Self> {
        let name = command.name();
        let error = match self.outcome {
            Outcome::Exited(0) => return Ok(self),
            Outcome::Exited(_) if command.may_fail => return Ok(self),
            Outcome::Exited(code) => failed(format!("{name} failed with exit code {code}")),
            Outcome::Signalled(signal) => {
                let spelled = Signal::try_from(signal).map_or("unknown", Signal::as_str);
                failed(format!("{name} was killed by signal {signal} ({spelled})"))
            }
            Outcome::OutOfTime => out_of_time(command),
            Outcome::Stopped => return Err(interrupted()),
        };
        Err(match self.last_words() {
            Some(words) => error.with_hint(format!("its last output: {words}")),
            None => error,
        })
    }
}

/// Starts a program, waits for it, and returns the result with the first `keep` bytes of its standard output. With
/// `keep` 0, standard output is discarded at no cost.
///
/// # Errors
/// If the program cannot be started, if its input cannot be opened, or if it was ended at its time limit or because
/// [`Command::stop`] was set.
pub fn run(command: &Command, keep: usize) -> Result<EndedProcess> {
    let ended = observe(command, keep)?;
    match ended.outcome {
        Outcome::OutOfTime => Err(out_of_time(command)),
        Outcome::Stopped => Err(interrupted()),
        _ => Ok(ended),
    }
}

/// As [`run`], but a program that had to be ended is not an error: the result has its output so far.
///
/// # Errors
/// If the program cannot be started or its input cannot be opened.
pub fn observe(command: &Command, keep: usize) -> Result<EndedProcess> {
    let started = Instant::now();
    let mut child = start(command, if keep == 0 { Stdio::null() } else { Stdio::piped() })?;
    let id = child.id();
    feed(&mut child, &command.input);
    let output = child.stdout.take().map(|pipe| Collector::start(pipe, Keep::First(keep)));
    let errors = child.stderr.take().map(|pipe| Collector::start(pipe, Keep::Last(KEPT_OF_STANDARD_ERROR)));
    let watchdog = Watchdog::start(id, command);
    let waited = wait_without_reaping(id);
    let wall = started.elapsed();
    let strike = watchdog.stop();
    if command.stop.is_some() {
        end_group(id);
    }
    waited.map_err(|error| failed(format!("cannot wait for {}: {error}", command.name())))?;
    let (status, usage) = reap(&mut child, wall)
        .map_err(|error| failed(format!("cannot wait for {}: {error}", command.name())))?;
    let outcome = strike.unwrap_or_else(|| outcome(status));
    let (output, output_dropped) = output.map(Collector::finish).unwrap_or_default();
    let (errors, _) = errors.map(Collector::finish).unwrap_or_default();
    Ok(EndedProcess { process: id, outcome, usage, output, output_dropped, errors })
}

/// Returns the last non-blank lines of a text, cut to a readable length.
pub fn last_lines(text: &[u8], count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(count)
        .map(|line| line.trim_end().chars().take(300).collect())
        .collect();
    lines.reverse();
    lines
}

/// Runs a tool to see whether it is installed. Returns the first line of its output.
///
/// # Errors
/// [`ErrorCode::Unsupported`] if the tool is missing or does not work, with `hint` on how to get it.
pub fn probe(tool: impl Into<OsString>, arguments: &[&str], hint: &str) -> Result<String> {
    let command =
        Command::new(tool, "/", Duration::from_secs(20)).with_arguments(arguments.iter().map(OsString::from));
    let unsupported =
        |message: String| Error::new(ErrorCode::Unsupported, message).with_hint(hint.to_owned());
    match run(&command, 4096).and_then(|ended| ended.successful(&command)) {
        Ok(ended) => Ok(String::from_utf8_lossy(&ended.output).lines().next().unwrap_or_default().to_owned()),
        Err(error) => Err(unsupported(error.to_string())),
    }
}

/// Error for a program that exceeded its time limit.
pub(crate) fn out_of_time(command: &Command) -> Error {
    let seconds = command.time_limit.as_secs_f64();
    failed(format!("{} was stopped after more than {seconds} s", command.name()))
        .with_hint("reduce its work, or raise the time limit")
}

/// Starts a program. Standard error is a pipe; standard input is as in the command.
pub fn start(command: &Command, output: Stdio) -> Result<Child> {
    let input = match &command.input {
        StandardInput::Empty => Stdio::null(),
        StandardInput::Bytes(_) => Stdio::piped(),
        StandardInput::File(path) => Stdio::from(std::fs::File::open(path).map_err(|error| {
            failed(format!("{}: cannot read the input of {}: {error}", path.display(), command.name()))
        })?),
    };
    let mut process = std::process::Command::new(&command.program);
    if command.stop.is_some() {
        process.process_group(0);
    }
    process
        .args(&command.arguments)
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&command.folder)
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            let name = command.program.to_string_lossy();
            match error.kind() {
                IoKind::NotFound if !command.folder.is_dir() => {
                    failed(format!("{name} cannot run in {}: no such folder", command.folder.display()))
                }
                IoKind::NotFound => failed(format!("{name}: program not found")),
                _ => failed(format!("{name}: cannot start: {error}")),
            }
        })
}

/// Writes a program's input in a thread of its own. A program that does not read all of it is not an error.
pub fn feed(child: &mut Child, input: &StandardInput) {
    if let (Some(mut pipe), StandardInput::Bytes(bytes)) = (child.stdin.take(), input) {
        let bytes = bytes.clone();
        thread::spawn(move || pipe.write_all(&bytes).ok());
    }
}

fn wait_without_reaping(id: u32) -> nix::Result<()> {
    loop {
        match waitid(Id::Pid(Pid::from_raw(id as i32)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(_) => return Ok(()),
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// True if a child has ended. It is not reaped, so its id is not reused.
pub fn has_ended(id: u32) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    let waited = waitid(Id::Pid(Pid::from_raw(id as i32)), flags);
    !matches!(waited, Ok(WaitStatus::StillAlive))
}

/// Locked while a child is reaped between two reads of the usage of all children.
static REAPING: Mutex<()> = Mutex::new(());

/// Reaps a child that has ended. Returns its resources, including those of children it waited for; `wall` is its run
/// time.
///
/// # Errors
/// If it cannot be waited for.
pub(crate) fn reap(child: &mut Child, wall: Duration) -> std::io::Result<(ExitStatus, Usage)> {
    let _guard = REAPING.lock().unwrap_or_else(PoisonError::into_inner);
    let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let status = child.wait()?;
    let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |after: nix::sys::time::TimeVal, before: nix::sys::time::TimeVal| {
        Duration::from_micros((after.num_microseconds() - before.num_microseconds()).max(0).unsigned_abs())
    };
    let grown = |after: c_long, before: c_long| u64::try_from(after - before).unwrap_or(0);
    let usage = Usage {
        wall,
        user: time(after.user_time(), before.user_time()),
        system: time(after.system_time(), before.system_time()),
        minor_faults: grown(after.minor_page_faults(), before.minor_page_faults()),
        major_faults: grown(after.major_page_faults(), before.major_page_faults()),
        context_switches: grown(after.voluntary_context_switches(), before.voluntary_context_switches())
            + grown(after.involuntary_context_switches(), before.involuntary_context_switches()),
    };
    Ok((status, usage))
}

/// Returns the outcome for an exit status.
#[must_use]
pub fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, signal) => Outcome::Signalled(signal.unwrap_or_default()),
    }
}

/// Ends a process and its descendants at its time limit or when its [`Stop`] is set.
pub struct Watchdog {
    finished: mpsc::Sender<()>,
    thread: JoinHandle<Option<Outcome>>,
}

impl Watchdog {
    /// Starts a watchdog for a process that was started by this command.
    pub fn start(process: u32, command: &Command) -> Self {
        let (finished, expired) = mpsc::channel();
        let (limit, stop) = (command.time_limit, command.stop.clone());
        let begun = Instant::now();
        let thread = thread::spawn(move || {
            loop {
                let left = limit.saturating_sub(begun.elapsed());
                let pause = if stop.is_some() { left.min(LOOK_FOR_STOP) } else { left };
                if expired.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return None;
                }
                if stop.as_ref().is_some_and(Stop::asked) {
                    kill_tree(process);
                    return Some(Outcome::Stopped);
                }
                if begun.elapsed() >= limit {
                    kill_tree(process);
                    return Some(Outcome::OutOfTime);
                }
            }
        });
        Self { finished, thread }
    }

    /// Stops the watchdog, before the process is reaped and its id can be reused. Returns the outcome if the watchdog
    /// has ended the process.
    pub fn stop(self) -> Option<Outcome> {
        drop(self.finished);
        self.thread.join().unwrap_or(None)
    }
}

/// Ends the remaining processes of a group whose leader is not reaped yet, so that its id still denotes this group.
pub(crate) fn end_group(leader: u32) {
    if let Ok(leader) = i32::try_from(leader) {
        let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
    }
}

/// Ends a process and all its descendants. They may be in the caller's process group, so that the terminal's interrupt
/// key reaches them, or in several groups; therefore it searches /proc. It repeats the search, because a process may
/// have started another meanwhile.
pub(crate) fn kill_tree(root: u32) {
    const ROUNDS: usize = 8;
    let end = |process: u32| {
        if let Ok(process) = i32::try_from(process) {
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
    };
    let mut ended = BTreeSet::new();
    for _ in 0..ROUNDS {
        let fresh: Vec<u32> =
            descendants(root).into_iter().filter(|process| !ended.contains(process)).collect();
        if fresh.is_empty() {
            break;
        }
        for process in fresh {
            end(process);
            ended.insert(process);
        }
    }
    end(root);
}

/// Returns the descendants of this process in ascending order, from /proc.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent_in_stat(&stat) {
            parents.push((process, parent));
        }
    }
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        for (process, parent) in &parents {
            if found.contains(parent) {
                found.insert(*process);
            }
        }
        if found.len() == before {
            break;
        }
    }
    found.remove(&root);
    found.into_iter().collect()
}

/// Returns the parent's id from a line of /proc/ID/stat, `ID (name) state parent …`; the name may contain blanks and
/// parentheses.
fn parent_in_stat(stat: &str) -> Option<u32> {
    let behind_name = &stat[stat.rfind(')')? + 1..];
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

/// Returns `VmHWM` of /proc/ID/status in bytes; the kernel's kB are 1,024 bytes.
pub fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Part of a stream that is kept, in bytes.
#[derive(Clone, Copy)]
pub enum Keep {
    /// The first bytes.
    First(usize),
    /// The last bytes.
    Last(usize),
}

/// Reads a pipe to its end in a thread of its own, so that the program at the other end never blocks, and keeps a
/// bounded part.
#[derive(Debug)]
pub struct Collector {
    kept: Arc<Mutex<(VecDeque<u8>, u64)>>,
    closed: mpsc::Receiver<()>,
}

impl Collector {
    /// Starts reading.
    pub fn start(mut pipe: impl Read + Send + 'static, keep: Keep) -> Self {
        let kept = Arc::new(Mutex::new((VecDeque::new(), 0)));
        let (finished, closed) = mpsc::channel();
        let store = Arc::clone(&kept);
        thread::spawn(move || {
            let mut chunk = [0u8; 16 * 1024];
            loop {
                match pipe.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(count) => {
                        let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
                        let (bytes, dropped) = &mut *store;
                        append_bounded(bytes, dropped, &chunk[..count], keep);
                    }
                    Err(error) if error.kind() == IoKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            drop(finished);
        });
        Self { kept, closed }
    }

    /// Returns the bytes kept so far.
    pub(crate) fn so_far(&self) -> Vec<u8> {
        let store = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        store.0.iter().copied().collect()
    }

    /// Returns the kept bytes, and the number of dropped bytes.
    pub fn finish(self) -> (Vec<u8>, u64) {
        let _ = self.closed.recv_timeout(PIPE_TIMEOUT);
        let mut store = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, dropped) = &mut *store;
        (std::mem::take(bytes).into(), *dropped)
    }
}

fn append_bounded(bytes: &mut VecDeque<u8>, dropped: &mut u64, chunk: &[u8], keep: Keep) {
    match keep {
        Keep::First(limit) => {
            let room = limit.saturating_sub(bytes.len()).min(chunk.len());
            bytes.extend(&chunk[..room]);
            *dropped += (chunk.len() - room) as u64;
        }
        Keep::Last(limit) => {
            bytes.extend(chunk);
            let excess = bytes.len().saturating_sub(limit);
            bytes.drain(..excess);
            *dropped += excess as u64;
        }
    }
}

/// Joins a prefix such as `--file=` and a path, which may be invalid UTF-8, to one argument.
pub fn argument(prefix: &str, path: &OsStr) -> OsString {
    let mut whole = OsString::from(prefix);
    whole.push(path);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_process_name() {
        assert_eq!(parent_in_stat("17 (sh) S 5 17 1 0"), Some(5));
        assert_eq!(parent_in_stat("17 (a) R (b c) S 6 17 1 0"), Some(6));
        assert_eq!(parent_in_stat(""), None);
    }

    #[test]
    fn a_stream_keeps_its_beginning_or_its_end_within_bounds() {
        let collect = |keep| {
            let (mut bytes, mut dropped) = (VecDeque::new(), 0);
            for chunk in [&b"abc"[..], b"defg", b"h"] {
                append_bounded(&mut bytes, &mut dropped, chunk, keep);
            }
            (String::from_utf8(bytes.into()).unwrap(), dropped)
        };
        assert_eq!(collect(Keep::First(5)), ("abcde".into(), 3));
        assert_eq!(collect(Keep::Last(5)), ("defgh".into(), 3));
        assert_eq!(collect(Keep::First(100)), ("abcdefgh".into(), 0));
        assert_eq!(collect(Keep::Last(100)), ("abcdefgh".into(), 0));
    }

    #[test]
    fn a_tool_takes_the_program_as_its_last_arguments() {
        let command = Command::new("/x/p", "/", Duration::from_secs(1)).with_arguments(["1", "2"]);
        let wrapped = command.under("valgrind", ["--tool=none"]);
        assert_eq!(wrapped.program, "valgrind");
        assert_eq!(wrapped.arguments, ["--tool=none", "/x/p", "1", "2"]);
        assert_eq!(command.name(), "p");
    }
}
