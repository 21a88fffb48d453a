// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two processes of a recording. Whatever happens to the process at the terminal, the other one detaches from
//! everything that it traces.
//!
//! ```text
//!   front, where the user started it ──── forks, is the parent of ──► the program
//!      │  the terminal, its signals, the exit code                       ▲
//!      │ forks                                                           │ traces
//!      ▼                                                                 │
//!   recorder, in a process group of its own ───────────────────────────┘
//!         reads files, changes code, writes the profile
//! ```
//!
//! They share a socket. The recorder reports when the program may begin; the front reports that the recording should
//! end, or how the program ended. When the front dies, the socket closes, which also ends the recording. The data
//! recorded so far is kept.

use super::jobs;
use super::system::{self, Status, WaitingProgram};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, dup2_stdin, dup2_stdout, setpgid};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::Stop;
use sediment_process::command::Outcome;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};

/// Role of this process after [`part`].
#[derive(Debug)]
pub enum ForkedSide {
    /// The process that the user started.
    Front(Front),
    /// The process that records.
    Recorder(FrontLink),
}

/// Forks the program to record, which waits, and then the process that records. For running processes, `program` is
/// `None`. Must be called while this process has only one thread.
///
/// # Errors
/// If a process cannot be created.
pub fn part(program: Option<&[OsString]>) -> Result<ForkedSide> {
    let failed = |error: io::Error| Error::new(ErrorCode::Io, format!("cannot start the recording: {error}"));
    let program = program.map(system::fork_program).transpose().map_err(failed)?;
    // Created after the fork, because the socket reports its end only once no process has its other side.
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let process = program.as_ref().map(|program| program.process);
    match system::fork_ourselves().map_err(failed)? {
        ForkResult::Parent { child } => {
            drop(theirs);
            silence(true).map_err(failed)?;
            system::close_inherited();
            Ok(ForkedSide::Front(Front {
                recorder: child,
                recorded: None,
                program,
                process,
                socket: ours,
                ended_before: None,
                ended: None,
                stopped_with_it: false,
            }))
        }
        ForkResult::Child => {
            drop((ours, program));
            stay_in_background().map_err(|error| failed(error.into()))?;
            silence(false).map_err(failed)?;
            system::close_inherited();
            system::keep_below_limit();
            Ok(ForkedSide::Recorder(FrontLink { process, socket: theirs, reports: None }))
        }
    }
}

/// Joins a process group of its own, which gets no signals of the terminal's keys, and may write to the terminal. In another
/// session, Linux 6.18 would give it no processor time on a busy machine while a program waits for it in a loop
/// (sched_autogroup in sched(7)).
fn stay_in_background() -> nix::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    system::ignore(Signal::SIGTTOU)
}

/// Closes our standard input, and our standard output if `output` is true. They belong to the program: the process at
/// their other end must notice when the program closes them.
fn silence(output: bool) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    if output {
        dup2_stdout(&null)?;
    }
    Ok(())
}

/// Message of the front to the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrontReport {
    /// The recording should end.
    Stop,
    /// The program could not be started, for this reason (an errno).
    NotStarted(i32),
    /// The program ended with this outcome.
    Ended(Outcome),
}

impl FrontReport {
    const LENGTH: usize = 5;

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let (tag, number) = match self {
            Self::Stop => (b's', 0),
            Self::NotStarted(errno) => (b'n', errno),
            Self::Ended(Outcome::Exited(code)) => (b'e', code),
            Self::Ended(Outcome::Signalled(signal)) => (b'k', signal),
            Self::Ended(Outcome::OutOfTime | Outcome::Stopped) => (b'e', 1),
        };
        let [a, b, c, d] = number.to_ne_bytes();
        [tag, a, b, c, d]
    }

    fn from_bytes([tag, a, b, c, d]: [u8; Self::LENGTH]) -> Self {
        let number = i32::from_ne_bytes([a, b, c, d]);
        match tag {
            b'n' => Self::NotStarted(number),
            b'e' => Self::Ended(Outcome::Exited(number)),
            b'k' => Self::Ended(Outcome::Signalled(number)),
            _ => Self::Stop,
        }
    }
}

/// The process that the user started. It is the parent of the recorded program.
#[derive(Debug)]
pub struct Front {
    recorder: Pid,
    recorded: Option<Outcome>,
    /// The waiting program, until it may begin.
    program: Option<WaitingProgram>,
    /// The program's process, until it has ended.
    process: Option<Pid>,
    socket: UnixStream,
    /// Outcome of a program that could not begin, because a signal reached all processes of the terminal.
    ended_before: Option<Outcome>,
    /// Outcome of the program that was started.
    ended: Option<Outcome>,
    /// True if this process stopped together with the program and was then resumed: a signal has reported that.
    stopped_with_it: bool,
}

impl Front {
    /// Waits until the recorder is ready, then lets the program begin.
    pub fn begin(&mut self) {
        let Some(program) = self.program.take() else { return };
        system::leave_stops_to_program();
        // If the recorder has ended already, the waiting program ends too, because its pipe is closed.
        if self.socket.read_exact(&mut [0]).is_ok() {
            if let Err(error) = program.go() {
                self.tell(FrontReport::NotStarted(
                    error.raw_os_error().unwrap_or(Errno::UnknownErrno as i32),
                ));
            }
        } else if let Some(process) = self.process.take() {
            drop(program);
            let outcome = loop {
                if let Some(outcome) = ended_after(process) {
                    break outcome;
                }
            };
            self.ended_before = matches!(outcome, Outcome::Signalled(_)).then_some(outcome);
        }
    }

    /// True if the program ended before it could begin.
    #[must_use]
    pub fn began_in_vain(&self) -> bool {
        self.ended_before.is_some()
    }

    /// Returns how the started program ended.
    #[must_use]
    pub fn program_outcome(&self) -> Option<Outcome> {
        self.ended
    }

    /// Passes a signal on to the program.
    pub fn pass_on(&self, signal: i32) {
        if let (Some(process), Ok(signal)) = (self.process, Signal::try_from(signal)) {
            let _ = kill(process, signal);
        }
    }

    /// Resumes the program too, after this process stopped it and was then resumed itself.
    pub fn go_on(&mut self) {
        if std::mem::take(&mut self.stopped_with_it) {
            return;
        }
        if let Some(process) = self.process {
            jobs::has_stopped(process);
            jobs::go_on(process);
        }
    }

    /// Ends the recording.
    pub fn stop(&self) {
        self.tell(FrontReport::Stop);
    }

    /// Ends the recorder, for example at a second signal of an impatient user. The recorder still detaches from
    /// everything that it traces.
    pub fn end(&self) {
        if self.recorded.is_none() {
            let _ = kill(self.recorder, Signal::SIGTERM);
        }
    }

    /// Checks for ended processes, and stops this process while the program is stopped. Returns how the recorder ended
    /// once both have ended, or how the program ended if it could not begin.
    pub fn look(&mut self) -> Option<Outcome> {
        if let Some(process) = self.process.filter(|process| jobs::has_stopped(*process)) {
            self.stopped_with_it = jobs::stop_with(process);
        }
        if let Some(outcome) = self.process.and_then(ended) {
            self.process = None;
            self.ended = Some(outcome);
            self.tell(FrontReport::Ended(outcome));
        }
        self.recorded = self.recorded.or_else(|| ended(self.recorder));
        self.recorded.filter(|_| self.process.is_none()).map(|recorded| self.ended_before.unwrap_or(recorded))
    }

    fn tell(&self, report: FrontReport) {
        // A recorder that has ended needs no report.
        let _ = (&self.socket).write_all(&report.to_bytes());
    }
}

/// Returns the outcome of a child; `None` while it runs.
fn ended(process: Pid) -> Option<Outcome> {
    match system::look_for(process) {
        Ok(status) => status.and_then(outcome),
        // Another part of this process may have waited for it.
        Err(_) => Some(Outcome::Stopped),
    }
}

/// Waits for a child and returns its outcome; `None` if its status changed in another way.
fn ended_after(process: Pid) -> Option<Outcome> {
    system::wait_for(process).map_or(Some(Outcome::Stopped), outcome)
}

fn outcome(status: Status) -> Option<Outcome> {
    match status {
        Status::Exited(code) => Some(Outcome::Exited(code)),
        Status::Killed(signal) => Some(Outcome::Signalled(signal)),
        _ => None,
    }
}

/// The recorder's end of the socket, and the waiting program.
#[derive(Debug)]
pub struct FrontLink {
    process: Option<Pid>,
    socket: UnixStream,
    reports: Option<Receiver<FrontReport>>,
}

impl FrontLink {
    /// Starts a thread that listens to the front and ends the recording through `stop`.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn listen(&mut self, stop: &Stop) -> Result<()> {
        system::catch_sent_faults(stop);
        let failed =
            |error: io::Error| Error::new(ErrorCode::Io, format!("cannot start the recording: {error}"));
        let (mut socket, stop) = (self.socket.try_clone().map_err(failed)?, stop.clone());
        let (sender, receiver) = channel();
        let listen = move || {
            let mut bytes = [0; FrontReport::LENGTH];
            while socket.read_exact(&mut bytes).is_ok() {
                match FrontReport::from_bytes(bytes) {
                    FrontReport::Stop => stop.ask(),
                    report => drop(sender.send(report)),
                }
            }
            // The front has died.
            stop.ask();
        };
        std::thread::Builder::new().spawn(listen).map_err(failed)?;
        self.reports = Some(receiver);
        Ok(())
    }

    /// Process that will exec the program.
    pub(crate) fn process(&self) -> Option<Pid> {
        self.process
    }

    /// Lets the program begin.
    pub(crate) fn go(&self) -> io::Result<()> {
        (&self.socket).write_all(b"g")
    }

    /// Waits for the program's end; `None` if the front died first. An error is the reason why the program could not be
    /// started.
    pub(crate) fn outcome(&self) -> io::Result<Option<Outcome>> {
        match self.reports.as_ref().and_then(|reports| reports.recv().ok()) {
            Some(FrontReport::NotStarted(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(FrontReport::Ended(outcome)) => Ok(Some(outcome)),
            Some(FrontReport::Stop) | None => Ok(None),
        }
    }
}
