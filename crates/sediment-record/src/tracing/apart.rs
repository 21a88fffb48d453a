// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two processes of a recording: whatever happens to the one that has the terminal, the other lets go what it traces.
//!
//! ```text
//!   front, where the user started it ──── forks, is the parent of ──► the program
//!      │  the terminal, its signals, the exit code                       ▲
//!      │ forks                                                           │ traces
//!      ▼                                                                 │
//!   recorder, in a session of its own ─────────────────────────────────┘
//!         reads files, sets breakpoints, writes the profile
//! ```
//!
//! They share a socket. The recorder says when the program may begin; the front says that the recording is to end, or how the
//! program ended. When the front is gone, the socket is closed, which ends the recording as well: what was recorded is kept.

use super::jobs;
use super::system::{self, Status, WaitingProgram};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, dup2_stdin, dup2_stdout, setsid};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::Stop;
use sediment_process::command::Outcome;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};

/// The process that this is after [`part`].
#[derive(Debug)]
pub enum ForkedSide {
    /// The one that was started by the user.
    Front(Front),
    /// The one that records.
    Recorder(FrontLink),
}

/// Forks the process that records, and before it the program to record, which waits; none where running processes are recorded. Must be
/// called while this process has one thread.
///
/// # Errors
/// When a process cannot be made.
pub fn part(program: Option<&[OsString]>) -> Result<ForkedSide> {
    let failed = |error: io::Error| Error::new(ErrorCode::Io, format!("cannot start the recording: {error}"));
    let program = program.map(system::fork_program).transpose().map_err(failed)?;
    // Made behind the fork: the end of the socket is told once nobody has its other side.
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
            setsid().map_err(|error| failed(error.into()))?;
            silence(false).map_err(failed)?;
            system::close_inherited();
            system::keep_below_limit();
            Ok(ForkedSide::Recorder(FrontLink { process, socket: theirs, reports: None }))
        }
    }
}

/// Lets go of the standard input, and if so of the standard output: they are the program's, and who is at their other end is to
/// notice when the program closes them.
fn silence(output: bool) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    if output {
        dup2_stdout(&null)?;
    }
    Ok(())
}

/// Reports of the front to the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrontReport {
    /// The recording is to end.
    Stop,
    /// The program could not be started, for this reason (an errno).
    NotStarted(i32),
    /// It ended.
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

/// The process that was started by the user. It is the parent of the program that is recorded.
#[derive(Debug)]
pub struct Front {
    recorder: Pid,
    recorded: Option<Outcome>,
    /// Until it is let go.
    program: Option<WaitingProgram>,
    /// Until it has ended.
    process: Option<Pid>,
    socket: UnixStream,
    /// Outcome of a program that could not begin: a signal to all processes of the terminal.
    ended_before: Option<Outcome>,
    /// Outcome of the program that was started.
    ended: Option<Outcome>,
    /// True if it has stopped with the program, and was let go on: a signal has told it so.
    stopped_with_it: bool,
}

impl Front {
    /// Waits until the recorder is ready, and lets the program begin.
    pub fn begin(&mut self) {
        let Some(program) = self.program.take() else { return };
        system::leave_stops_to_program();
        // Where the recorder has ended before, the program that waits does so too, as its gate is closed.
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

    /// True if the program was ended before it could begin.
    #[must_use]
    pub fn began_in_vain(&self) -> bool {
        self.ended_before.is_some()
    }

    /// How the program ended that was started.
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

    /// Has the program go on as well, where somebody has let this process go on that had stopped it.
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

    /// Ends the recorder, as a second signal of a user who does not want to wait. It still lets go what it traces.
    pub fn end(&self) {
        if self.recorded.is_none() {
            let _ = kill(self.recorder, Signal::SIGTERM);
        }
    }

    /// Looks for processes that have ended, and stops as long as the program is stopped; how the recorder ended, once both have, or the
    /// program where that could not begin.
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
        // A recorder that has ended needs not know.
        let _ = (&self.socket).write_all(&report.to_bytes());
    }
}

/// Outcome of a child; None while it runs.
fn ended(process: Pid) -> Option<Outcome> {
    match system::look_for(process) {
        Ok(status) => status.and_then(outcome),
        // Somebody else may have waited for it.
        Err(_) => Some(Outcome::Stopped),
    }
}

/// Waits for a child, and says how it ended; None when something else happened to it.
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

/// The recorder's end of the socket, and the program that waits.
#[derive(Debug)]
pub struct FrontLink {
    process: Option<Pid>,
    socket: UnixStream,
    reports: Option<Receiver<FrontReport>>,
}

impl FrontLink {
    /// Listens to the front from now on, in a thread of its own: it ends the recording by this.
    ///
    /// # Errors
    /// When there can be no thread.
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
            // The front is gone.
            stop.ask();
        };
        std::thread::Builder::new().spawn(listen).map_err(failed)?;
        self.reports = Some(receiver);
        Ok(())
    }

    /// The process that waits to become the program.
    pub(crate) fn process(&self) -> Option<Pid> {
        self.process
    }

    /// Lets the program begin.
    pub(crate) fn go(&self) -> io::Result<()> {
        (&self.socket).write_all(b"g")
    }

    /// Waits for the program's end; None where the front was ended before. An error is why it could not be started.
    pub(crate) fn outcome(&self) -> io::Result<Option<Outcome>> {
        match self.reports.as_ref().and_then(|reports| reports.recv().ok()) {
            Some(FrontReport::NotStarted(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(FrontReport::Ended(outcome)) => Ok(Some(outcome)),
            Some(FrontReport::Stop) | None => Ok(None),
        }
    }
}
