// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that a program leaves running, including daemons.

use crate::command::descendants;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike as _;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Descendants of this process before it started any program.
static BEFORE: OnceLock<Vec<u32>> = OnceLock::new();

/// Makes this process the parent of descendants whose own parent ends, including daemons, so that [`end_left_behind`]
/// finds them.
pub fn adopt_orphans() {
    let _ = BEFORE.set(descendants(std::process::id()));
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Processor time of all children that this process has waited for, including adopted ones.
#[must_use]
pub fn processor_time() -> Duration {
    let micros = |time: nix::sys::time::TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
    let used = getrusage(UsageWho::RUSAGE_CHILDREN);
    used.map_or(Duration::ZERO, |used| {
        Duration::from_micros(micros(used.user_time()) + micros(used.system_time()))
    })
}

/// Ends the descendants of this process and returns their names. Call it while no program is running. Descendants from
/// before the call of [`adopt_orphans`] are left alone: a shell started them and then executed this program.
pub fn end_left_behind() -> Vec<String> {
    const ROUNDS: usize = 8;
    let mut names = Vec::new();
    for _ in 0..ROUNDS {
        let mut left = descendants(std::process::id());
        for older in BEFORE.get().into_iter().flatten() {
            let with_its_own = descendants(*older);
            left.retain(|process| process != older && !with_its_own.contains(process));
        }
        if left.is_empty() {
            break;
        }
        for process in left {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            let name = stat.split_once('(').and_then(|(_, rest)| Some(rest.rsplit_once(')')?.0.to_owned()));
            let is_zombie = stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'));
            let Ok(process) = i32::try_from(process) else { continue };
            if !is_zombie {
                names.extend(name);
                let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
            }
            // Another process's child becomes ours once its parent has ended.
            let _ = nix::sys::wait::waitpid(Pid::from_raw(process), Some(WaitPidFlag::WNOHANG));
        }
        thread::sleep(Duration::from_millis(5));
    }
    names
}
