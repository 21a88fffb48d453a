// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls that a traced thread makes for the recorder. Signals are blocked meanwhile.

use super::waiting::StopWait;
use crate::tracing::machine::Registers;
use crate::tracing::system::{self, Resume, Status};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::io;
use std::time::Duration;

/// Longest wait until a thread enters or leaves a call: its control group may be frozen.
const LONGEST_CALL: Duration = Duration::from_millis(200);

/// A system call that a thread is to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallRequest {
    /// Number of the system call.
    pub(super) number: u64,
    pub(super) arguments: [u64; 6],
}

/// Yields the next system call for a thread, given the result of the previous one.
pub(super) type Requests<'a> = dyn FnMut(Option<i64>) -> Option<CallRequest> + 'a;

/// A thread that makes system calls.
pub(super) struct SystemCaller<'a> {
    thread: Pid,
    waiting: &'a mut StopWait,
    /// Longest wait until it enters or leaves a call; `None` if the call must be made.
    limit: Option<Duration>,
    /// True if its process was stopped by a signal and may still be stopped.
    was_stopped: bool,
    /// Exit status of the thread, if it has ended.
    pub(super) end: Option<Status>,
}

impl<'a> SystemCaller<'a> {
    pub(super) fn new(thread: Pid, waiting: &'a mut StopWait) -> Self {
        Self { thread, waiting, limit: Some(LONGEST_CALL), was_stopped: false, end: None }
    }

    /// Makes the process of a new, stopped thread readable to its tracer, or unreadable.
    pub(super) fn set_dumpable(mut self, dumpable: bool) -> io::Result<()> {
        // Its breakpoints must be removed, however long that takes.
        self.limit = None;
        let call = [libc::PR_SET_DUMPABLE as u64, u64::from(dumpable)];
        let result = self.with_signals_waiting(|caller, before| {
            before.about_to_call(libc::SYS_prctl as u64, call).ok_or(Errno::ENOSYS)?.put(caller.thread)?;
            caller.finish_call()
        })?;
        if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-result as i32)) }
    }

    /// Makes a thread that has just called exec perform system calls, with the syscall instruction at this address,
    /// until `next` returns none.
    pub(super) fn make(&mut self, at: u64, next: &mut Requests<'_>) -> io::Result<()> {
        // Runs to the end of exec.
        self.run_to_call()?;
        self.with_signals_waiting(|caller, before| {
            let mut result = None;
            while let Some(CallRequest { number, arguments }) = next(result) {
                before.calling(at, number, arguments).ok_or(Errno::ENOSYS)?.put(caller.thread)?;
                result = Some(caller.finish_call()?);
            }
            Ok(())
        })
    }

    /// Runs `work` with all signals blocked, and then restores the registers.
    fn with_signals_waiting<T>(
        &mut self,
        calls: impl FnOnce(&mut Self, &Registers) -> io::Result<T>,
    ) -> io::Result<T> {
        let (before, mask) = (Registers::of(self.thread)?, system::signal_mask(self.thread)?);
        system::set_signal_mask(self.thread, u64::MAX)?;
        let made = calls(self, &before);
        let restored = before.put(self.thread).and_then(|()| system::set_signal_mask(self.thread, mask));
        if self.was_stopped {
            // The thread stops again, unless its process was continued meanwhile.
            let _ = ptrace::interrupt(self.thread);
        }
        let made = made?;
        restored?;
        Ok(made)
    }

    /// Runs to the beginning of the call and to its end, or to the end of the process. Returns the result of the call.
    fn finish_call(&mut self) -> io::Result<i64> {
        self.run_to_call()?;
        self.run_to_call()?;
        Ok(Registers::of(self.thread)?.result())
    }

    /// Runs to the beginning or end of a system call.
    fn run_to_call(&mut self) -> io::Result<()> {
        let mut signal = 0;
        loop {
            system::resume(self.thread, Resume::ToSystemCall, signal)?;
            signal = 0;
            let (status, is_late) = self.next_status()?;
            match status {
                Status::SystemCall => return Ok(()),
                // The other threads see the process stop. This one runs on until it has made the call.
                Status::Signal(libc::SIGSTOP) => (signal, self.was_stopped) = (libc::SIGSTOP, true),
                Status::GroupStop => self.was_stopped = true,
                Status::Trapped => {}
                Status::Exited(_) | Status::Killed(_) => {
                    self.end = Some(status);
                    return Err(io::Error::other("the process has ended"));
                }
                other => {
                    return Err(io::Error::other(format!(
                        "the process did not make the system call: {other:?}"
                    )));
                }
            }
            if is_late && signal == 0 {
                return Err(io::Error::other("the process did not make the system call in time"));
            }
        }
    }

    /// Returns the next status of the thread, and whether the thread was interrupted because no status arrived in time.
    fn next_status(&mut self) -> Result<(Status, bool), Errno> {
        let in_time = match self.limit {
            Some(limit) => self.waiting.status_of(self.thread, limit)?,
            None => Some(system::wait_for(self.thread)?),
        };
        if let Some(status) = in_time {
            return Ok((status, false));
        }
        ptrace::interrupt(self.thread)?;
        Ok((system::wait_for(self.thread)?, true))
    }
}
