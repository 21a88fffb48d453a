// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stops of a recorded program, which its shell is to see: the shell waits for the front, not for the program.

use super::mappings::status_field;
use super::system::{fork_ourselves, wait_for};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{ForkResult, Pid, getppid};
use std::time::{Duration, Instant};

/// Interval between looks whether the program goes on.
const LOOK: Duration = Duration::from_millis(20);
/// Time for the program to go on by the signal that its whole job has.
const WITH_ITS_JOB: Duration = Duration::from_millis(200);

/// True if a child has stopped, and was not said to have before.
pub(super) fn has_stopped(child: Pid) -> bool {
    let stopped = waitid(Id::Pid(child), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG);
    matches!(stopped, Ok(WaitStatus::Stopped(..)))
}

/// Stops this process, which has one thread, until the program goes on, or somebody lets this process go on: then the program goes on, too.
pub(super) fn stop_with(program: Pid) {
    let us = Pid::this();
    match fork_ourselves() {
        Ok(ForkResult::Child) => {
            // It may be stopped a little later than it is let go on.
            while getppid() == us {
                std::thread::sleep(LOOK);
                if !stands_still(program) {
                    let _ = kill(us, Signal::SIGCONT);
                }
            }
            std::process::exit(0);
        }
        Ok(ForkResult::Parent { child }) => {
            let _ = raise(Signal::SIGSTOP);
            let _ = kill(child, Signal::SIGKILL);
            let _ = wait_for(child);
            let begun = Instant::now();
            while !has_gone_on(program) {
                if begun.elapsed() > WITH_ITS_JOB {
                    let _ = kill(program, Signal::SIGCONT);
                    break;
                }
                std::thread::sleep(LOOK);
            }
        }
        Err(_) => {}
    }
}

/// True if a child has gone on, or ended, since it was said to have stopped; it may have stopped again.
fn has_gone_on(child: Pid) -> bool {
    let changes = WaitPidFlag::WSTOPPED | WaitPidFlag::WCONTINUED | WaitPidFlag::WEXITED;
    let changed = waitid(Id::Pid(child), changes | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT);
    changed != Ok(WaitStatus::StillAlive)
}

/// True if a process is stopped, or stands at a breakpoint.
fn stands_still(process: Pid) -> bool {
    status_field(process, "State").is_some_and(|state| state.starts_with(['T', 't']))
}
