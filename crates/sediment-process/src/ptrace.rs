// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for events of traced threads and resumes them, for all code that traces programs.
//!
//! nix's `waitpid` and `cont` do not support real-time signals, which the C library uses between threads. A status with
//! such a signal would be lost, and the program would hang. Therefore this module makes both calls itself.

#![allow(unsafe_code)]

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

/// Reason for the stop of a traced thread, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
    /// This signal is about to be delivered.
    Signal(i32),
    /// A system call begins or ends.
    SystemCall,
    /// One of the kernel's `PTRACE_EVENT_*`, except stops.
    Event(i32),
    /// Stopped at its beginning or at our request.
    Trapped,
    /// Stopped with its whole process by this signal.
    GroupStop,
}

/// Waits for the next status of any thread that this thread traces, or of its children; `None` if a signal arrived
/// first.
pub fn wait() -> Result<Option<(Pid, Status)>, Errno> {
    next_status(0)
}

/// As [`wait`], but returns `None` at once if there is no status yet.
pub fn look() -> Result<Option<(Pid, Status)>, Errno> {
    next_status(libc::WNOHANG)
}

fn next_status(flags: libc::c_int) -> Result<Option<(Pid, Status)>, Errno> {
    let mut raw = 0;
    // SAFETY: the kernel writes one int, into a valid one.
    let found = unsafe { libc::waitpid(-1, &mut raw, libc::__WALL | libc::__WNOTHREAD | flags) };
    match Errno::result(found) {
        Err(Errno::EINTR) | Ok(0) => Ok(None),
        Err(error) => Err(error),
        Ok(id) => Ok(Some((Pid::from_raw(id), decode(raw)))),
    }
}

/// Returns the next status of this thread; `None` if there is none yet.
pub fn look_for(thread: Pid) -> Result<Option<Status>, Errno> {
    let mut raw = 0;
    // SAFETY: the kernel writes one int, into a valid one.
    let found = unsafe { libc::waitpid(thread.as_raw(), &mut raw, libc::__WALL | libc::WNOHANG) };
    Errno::result(found).map(|id| (id != 0).then(|| decode(raw)))
}

/// Waits for the next status of this thread.
pub fn wait_for(thread: Pid) -> Result<Status, Errno> {
    loop {
        let mut raw = 0;
        // SAFETY: the kernel writes one int, into a valid one.
        let found = unsafe { libc::waitpid(thread.as_raw(), &mut raw, libc::__WALL) };
        match Errno::result(found) {
            Err(Errno::EINTR) => {}
            other => return other.map(|_| decode(raw)),
        }
    }
}

/// Decodes the status that waitpid(2) returns in a number.
#[must_use]
pub fn decode(raw: libc::c_int) -> Status {
    if libc::WIFEXITED(raw) {
        return Status::Exited(libc::WEXITSTATUS(raw));
    }
    if libc::WIFSIGNALED(raw) {
        return Status::Killed(libc::WTERMSIG(raw));
    }
    let (signal, event) = (libc::WSTOPSIG(raw), raw >> 16);
    match event {
        0 if signal == libc::SIGTRAP | 0x80 => Status::SystemCall,
        0 => Status::Signal(signal),
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Status::Trapped,
        libc::PTRACE_EVENT_STOP => Status::GroupStop,
        event => Status::Event(event),
    }
}

/// Mode in which a stopped thread continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Until the next signal or event.
    Run,
    /// Until the next system call, signal or event.
    ToSystemCall,
    /// For one instruction, or until an earlier signal or event.
    Step,
    /// Stays stopped with its process, but reports when the process is resumed.
    Listen,
    /// Is no longer traced.
    Detach,
}

/// Resumes a stopped thread and delivers a signal (0 for none).
pub fn resume(thread: Pid, how: Resume, signal: i32) -> Result<(), Errno> {
    let request = match how {
        Resume::Run => libc::PTRACE_CONT,
        Resume::ToSystemCall => libc::PTRACE_SYSCALL,
        Resume::Step => libc::PTRACE_SINGLESTEP,
        Resume::Listen => libc::PTRACE_LISTEN,
        Resume::Detach => libc::PTRACE_DETACH,
    };
    // SAFETY: these requests take a number as their data and touch no memory of this process.
    let done = unsafe {
        libc::ptrace(
            request as _,
            thread.as_raw(),
            std::ptr::null_mut::<libc::c_void>(),
            libc::c_long::from(signal),
        )
    };
    Errno::result(done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        let stopped = |signal: i32, event: i32| decode(event << 16 | signal << 8 | 0x7f);
        assert_eq!(decode(3 << 8), Status::Exited(3));
        assert_eq!(decode(9), Status::Killed(9));
        assert_eq!(stopped(libc::SIGTRAP, 0), Status::Signal(libc::SIGTRAP));
        assert_eq!(stopped(34, 0), Status::Signal(34), "real-time signals are signals");
        assert_eq!(stopped(libc::SIGTRAP | 0x80, 0), Status::SystemCall);
        assert_eq!(stopped(libc::SIGTRAP, libc::PTRACE_EVENT_EXEC), Status::Event(libc::PTRACE_EVENT_EXEC));
        assert_eq!(stopped(libc::SIGTRAP, libc::PTRACE_EVENT_STOP), Status::Trapped);
        assert_eq!(stopped(libc::SIGSTOP, libc::PTRACE_EVENT_STOP), Status::GroupStop);
    }
}
