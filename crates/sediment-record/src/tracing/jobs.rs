// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows stops of a recorded program to its shell, which waits for the front, not for the program.

use super::mappings::{status_field, threads};
use super::system::{fork_ourselves, wait_for};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{ForkResult, Pid, getppid, pipe2, read, write};
use std::time::{Duration, Instant};

/// Interval between checks whether the program continues.
const LOOK: Duration = Duration::from_millis(20);
/// Number of consecutive checks that must agree: a thread resumed by its tracer runs briefly before it stops again.
const LOOKS: u32 = 3;
/// Time for the program to be resumed by a signal to its whole job.
const WITH_ITS_JOB: Duration = Duration::from_millis(200);

/// True if a child has stopped and this stop was not reported before.
pub(crate) fn has_stopped(child: Pid) -> bool {
    let stopped = waitid(Id::Pid(child), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG);
    matches!(stopped, Ok(WaitStatus::Stopped(..)))
}

/// Stops this process, which must have a single thread, until the program continues or this process is resumed. In the
/// second case, resumes the program too. Returns true if the program continues.
pub(crate) fn stop_with(program: Pid) -> bool {
    let us = Pid::this();
    let Ok((told, tell)) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK) else { return false };
    match fork_ourselves() {
        Ok(ForkResult::Child) => {
            let mut looks = 0;
            while getppid() == us {
                std::thread::sleep(LOOK);
                looks = if stands_still(program) { 0 } else { looks + 1 };
                if looks >= LOOKS {
                    let _ = write(&tell, b"g");
                    // This process may stop slightly later than the program continues.
                    let _ = kill(us, Signal::SIGCONT);
                }
            }
            std::process::exit(0);
        }
        Ok(ForkResult::Parent { child }) => {
            let _ = raise(Signal::SIGSTOP);
            let _ = kill(child, Signal::SIGKILL);
            let _ = wait_for(child);
            if read(&told, &mut [0]) != Ok(1) {
                go_on(program);
            }
            true
        }
        Err(_) => false,
    }
}

/// Resumes a stopped program, unless the signal that resumed this process resumes the program too.
pub(crate) fn go_on(program: Pid) {
    let begun = Instant::now();
    while !has_gone_on(program) && stands_still(program) {
        if begun.elapsed() > WITH_ITS_JOB {
            let _ = kill(program, Signal::SIGCONT);
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// True if a child has continued or ended since its reported stop; it may have stopped again.
fn has_gone_on(child: Pid) -> bool {
    let changes = WaitPidFlag::WSTOPPED | WaitPidFlag::WCONTINUED | WaitPidFlag::WEXITED;
    let changed = waitid(Id::Pid(child), changes | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT);
    changed != Ok(WaitStatus::StillAlive)
}

/// True if all threads of a process that have not ended are stopped by a signal or at breakpoints.
fn stands_still(process: Pid) -> bool {
    let states =
        threads(process).unwrap_or_default().into_iter().filter_map(|thread| status_field(thread, "State"));
    let mut states = states.filter(|state| !state.starts_with(['Z', 'X'])).peekable();
    states.peek().is_some() && states.all(|state| state.starts_with(['T', 't']))
}
