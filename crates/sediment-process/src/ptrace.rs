// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for what happens to traced threads, and lets them go on, for all who trace programs.
//!
//! nix's `waitpid` and `cont` know no real-time signals, which the C library uses among threads: a status that carries one would
//! be lost, and with it the program. So both are called by hand here.

#![allow(unsafe_code)]

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

/// Why a traced thread stopped, or that it is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Ended by itself, with this exit code.
    Exited(i32),
    /// Ended by this signal.
    Killed(i32),
    /// This signal is about to be delivered.
    Signal(i32),
    /// A system call begins or ends.
    SystemCall,
    /// One of the kernel's `PTRACE_EVENT_*`, but for stops.
    Event(i32),
    /// Stopped because it begins, or because we asked.
    Trapped,
    /// Stopped with its whole process by this signal.
    GroupStop,
}

/// Waits for the next status of any thread that this thread traces, or of a child of it; None when a signal arrived
/// first.
pub fn wait() -> Result<Option<(Pid, Status)>, Errno> {
    next_status(0)
}

/// As [`wait`], but None at once where there is no status yet.
pub fn look() -> Result<Option<(Pid, Status)>, Errno> {
    next_status(libc::WNOHANG)
}

fn next_status(flags: libc::c_int) -> Result<Option<(Pid, Status)>, Errno> {
    let mut raw = 0;
    // SAFETY: the kernel writes one int, which is there.
    let found = unsafe { libc::waitpid(-1, &mut raw, libc::__WALL | libc::__WNOTHREAD | flags) };
    match Errno::result(found) {
        Err(Errno::EINTR) | Ok(0) => Ok(None),
        Err(error) => Err(error),
        Ok(id) => Ok(Some((Pid::from_raw(id), decode(raw)))),
    }
}

/// Next status of this thread; None where there is none yet.
pub fn look_for(thread: Pid) -> Result<Option<Status>, Errno> {
    let mut raw = 0;
    // SAFETY: the kernel writes one int, which is there.
    let found = unsafe { libc::waitpid(thread.as_raw(), &mut raw, libc::__WALL | libc::WNOHANG) };
    Errno::result(found).map(|id| (id != 0).then(|| decode(raw)))
}

/// Waits for the next status of this thread.
pub fn wait_for(thread: Pid) -> Result<Status, Errno> {
    loop {
        let mut raw = 0;
        // SAFETY: the kernel writes one int, which is there.
        let found = unsafe { libc::waitpid(thread.as_raw(), &mut raw, libc::__WALL) };
        match Errno::result(found) {
            Err(Errno::EINTR) => {}
            other => return other.map(|_| decode(raw)),
        }
    }
}

/// The status that the kernel packs into this number, as waitpid(2) has it.
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
    /// To the next signal or event.
    Run,
    /// To the next system call, signal or event.
    ToSystemCall,
    /// One instruction on, or to the signal or event before.
    Step,
    /// Stays stopped with its process, but hears of its going on.
    Listen,
    /// Is traced no longer.
    Detach,
}

/// Lets a stopped thread go on, with a signal (0 for none).
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
