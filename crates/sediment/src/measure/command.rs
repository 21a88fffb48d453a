// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Command`], what is run; [`run`], the one place where programs are started and waited for, with a time limit and bounded
//! output; [`Ended`], how it went.
//!
//! Rusage by child: the kernel gives it only through `wait4`, which no safe interface offers. `getrusage(RUSAGE_CHILDREN)` is the
//! sum over all children that were ever reaped, so its growth over the reaping of one child is exactly that child's (with the
//! descendants that it waited for itself). [`run`] first waits without reaping, then reads, reaps and reads again under a lock.
//! The peak memory in the same structure is a maximum, not a sum, and has no such growth: see [`super::peak_memory`].

use crate::error::{Error, ErrorKind, Result};
use nix::libc::c_long;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind as IoKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the pipes of a program that has ended may stay open, held by a process it left behind, before they are given up.
const PATIENCE_WITH_PIPES: Duration = Duration::from_secs(1);

/// Bytes of standard error that are kept for [`Ended::last_words`].
const KEPT_OF_STANDARD_ERROR: usize = 64 * 1024;

/// A program to run, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program: an absolute path, or a name that is looked up on the search path.
    pub program: OsString,
    /// Its arguments, without its own name.
    pub arguments: Vec<OsString>,
    /// Variables that are set beside those that this process has.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads from its standard input.
    pub input: Input,
    /// Where it runs.
    pub folder: PathBuf,
    /// It is ended, with its descendants, after this time.
    pub time_limit: Duration,
}

/// What a program reads from its standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// This file from its beginning.
    File(PathBuf),
}

impl Command {
    /// A program without arguments and input, in this folder, with this time limit.
    #[must_use]
    pub fn new(program: impl Into<OsString>, folder: impl Into<PathBuf>, time_limit: Duration) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            input: Input::Empty,
            folder: folder.into(),
            time_limit,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn with_arguments<S: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Runs the program under another one, which is given these arguments and then the program with its own.
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

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

/// What a program cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// From start to end by the clock on the wall.
    pub wall: Duration,
    /// Time on a processor in the program itself, its waited-for descendants included, like the following ones.
    pub user: Duration,
    /// Time on a processor in the kernel.
    pub system: Duration,
    /// Page faults that needed no reading.
    pub minor_faults: u64,
    /// Page faults that had to read from a file or swap.
    pub major_faults: u64,
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Id of the process that was started; free for others by now.
    pub process: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// What it cost.
    pub usage: Usage,
    /// The first bytes of its standard output, up to the bound given to [`run`].
    pub output: Vec<u8>,
    /// How many bytes of standard output were beyond the bound.
    pub output_dropped: u64,
    errors: Vec<u8>,
}

impl Ended {
    /// A run of which only the end is known.
    pub(super) fn of(process: u32, outcome: Outcome, errors: Vec<u8>) -> Self {
        Self { process, outcome, usage: Usage::default(), output: Vec::new(), output_dropped: 0, errors }
    }

    /// The last line that is not blank of its standard error, cut to a readable length; raw.
    #[must_use]
    pub fn last_words(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.errors);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(300).collect())
    }

    /// The last bytes of its standard error, at most 64 KiB; raw.
    #[must_use]
    pub fn errors(&self) -> &[u8] {
        &self.errors
    }

    /// This, if the program ended by itself with exit code 0.
    ///
    /// # Errors
    /// Otherwise, with the exit code or signal and the program's last words.
    pub fn successful(self, command: &Command) -> Result<Self> {
        let name = command.name();
        let error = match self.outcome {
            Outcome::Exited(0) => return Ok(self),
            Outcome::Exited(code) => Error::failed(format!("{name} failed with exit code {code}")),
            Outcome::Signalled(signal) => {
                let spelled = Signal::try_from(signal).map_or("unknown", Signal::as_str);
                Error::failed(format!("{name} was ended by signal {signal} ({spelled})"))
            }
        };
        Err(match self.last_words() {
            Some(words) => error.with_hint(format!("its last words: {words}")),
            None => error,
        })
    }
}

/// Starts a program, waits for it, and says how it went. Of its standard output the first `keep` bytes are kept; with `keep` 0 it
/// goes nowhere and costs nothing.
///
/// # Errors
/// When the program cannot be started, its input cannot be opened, or it had to be ended because its time was over.
pub fn run(command: &Command, keep: usize) -> Result<Ended> {
    let started = Instant::now();
    let mut child = start(command, if keep == 0 { Stdio::null() } else { Stdio::piped() })?;
    let id = child.id();
    feed(&mut child, &command.input);
    let output = child.stdout.take().map(|pipe| Collector::start(pipe, Keep::First(keep)));
    let errors = child.stderr.take().map(|pipe| Collector::start(pipe, Keep::Last(KEPT_OF_STANDARD_ERROR)));
    let watchdog = Watchdog::start(id, command.time_limit);
    let waited = wait_without_reaping(id);
    let wall = started.elapsed();
    let timed_out = watchdog.stop();
    waited.map_err(|error| Error::failed(format!("{} cannot be waited for: {error}", command.name())))?;
    let (status, usage) = reap(&mut child, wall)
        .map_err(|error| Error::failed(format!("{} cannot be waited for: {error}", command.name())))?;
    let outcome = outcome(status);
    if timed_out {
        return Err(out_of_time(command));
    }
    let (output, output_dropped) = output.map(Collector::finish).unwrap_or_default();
    let (errors, _) = errors.map(Collector::finish).unwrap_or_default();
    Ok(Ended { process: id, outcome, usage, output, output_dropped, errors })
}

/// Runs a tool for its own sake and says what it printed first, to see whether it is there.
///
/// # Errors
/// Of kind [`ErrorKind::Unsupported`] when it is not there or does not work, with `hint` on how to get it.
pub fn probe(tool: impl Into<OsString>, arguments: &[&str], hint: &str) -> Result<String> {
    let command =
        Command::new(tool, "/", Duration::from_secs(20)).with_arguments(arguments.iter().map(OsString::from));
    let unsupported =
        |message: String| Error::new(ErrorKind::Unsupported, message).with_hint(hint.to_owned());
    match run(&command, 4096).and_then(|ended| ended.successful(&command)) {
        Ok(ended) => Ok(String::from_utf8_lossy(&ended.output).lines().next().unwrap_or_default().to_owned()),
        Err(error) => Err(unsupported(error.to_string())),
    }
}

/// What is said of a program whose time was over.
pub(super) fn out_of_time(command: &Command) -> Error {
    let seconds = command.time_limit.as_secs_f64();
    Error::failed(format!("{} was ended because it ran for longer than {seconds} s", command.name()))
        .with_hint("give it less to do, or a larger time limit")
}

/// Starts a program; standard error is a pipe, standard input as the command says.
pub(super) fn start(command: &Command, output: Stdio) -> Result<Child> {
    let input = match &command.input {
        Input::Empty => Stdio::null(),
        Input::Bytes(_) => Stdio::piped(),
        Input::File(path) => Stdio::from(std::fs::File::open(path).map_err(|error| {
            Error::failed(format!("the input of {} cannot be read: {error}", command.name()))
                .with_input(path.display().to_string())
        })?),
    };
    std::process::Command::new(&command.program)
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
                IoKind::NotFound if !command.folder.is_dir() => Error::failed(format!(
                    "{name} cannot run in {}: no such folder",
                    command.folder.display()
                )),
                IoKind::NotFound => Error::failed(format!("{name}: there is no such program")),
                _ => Error::failed(format!("{name} cannot be started: {error}")),
            }
        })
}

/// Hands a program its input, in a thread of its own; a program that does not read it all is left in peace.
pub(super) fn feed(child: &mut Child, input: &Input) {
    if let (Some(mut pipe), Input::Bytes(bytes)) = (child.stdin.take(), input) {
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

/// Held while a child is reaped between two looks at the usage of all children.
static REAPING: Mutex<()> = Mutex::new(());

fn reap(child: &mut Child, wall: Duration) -> std::io::Result<(ExitStatus, Usage)> {
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
    };
    Ok((status, usage))
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, signal) => Outcome::Signalled(signal.unwrap_or_default()),
    }
}

/// Ends a process and its descendants when its time is over.
pub(super) struct Watchdog {
    finished: mpsc::Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    pub(super) fn start(process: u32, limit: Duration) -> Self {
        let (finished, expired) = mpsc::channel();
        let thread = thread::spawn(move || match expired.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => {
                kill_tree(process);
                true
            }
            _ => false,
        });
        Self { finished, thread }
    }

    /// Calls it off, before the process is reaped and its id free for others; whether it had struck.
    pub(super) fn stop(self) -> bool {
        drop(self.finished);
        self.thread.join().unwrap_or(false)
    }
}

/// Ends a process and all that descend from it. They stay in the caller's process group, so that the terminal's interrupt key
/// reaches them; hence the walk through /proc. It is repeated, as a process may have started another meanwhile.
fn kill_tree(root: u32) {
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

fn descendants(root: u32) -> Vec<u32> {
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

/// The parent's id in a line of /proc/ID/stat: `ID (name) state parent …`, where the name may hold blanks and brackets.
fn parent_in_stat(stat: &str) -> Option<u32> {
    let behind_name = &stat[stat.rfind(')')? + 1..];
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

/// Which part of a stream is kept, in bytes.
#[derive(Clone, Copy)]
pub(super) enum Keep {
    First(usize),
    Last(usize),
}

/// Reads a pipe to its end in a thread of its own, so that the program at the other end never waits; keeps a bounded part.
pub(super) struct Collector {
    kept: Arc<Mutex<(VecDeque<u8>, u64)>>,
    closed: mpsc::Receiver<()>,
}

impl Collector {
    pub(super) fn start(mut pipe: impl Read + Send + 'static, keep: Keep) -> Self {
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

    /// What was kept, and how many bytes were not.
    pub(super) fn finish(self) -> (Vec<u8>, u64) {
        let _ = self.closed.recv_timeout(PATIENCE_WITH_PIPES);
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

/// Joins a prefix and a path to one argument, such as `--file=` and a path that is no UTF-8.
pub(crate) fn argument(prefix: &str, path: &OsStr) -> OsString {
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
