// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls of followed threads: calls that a stop has ended and that begin again, and the calls of new processes and
//! programs, which may soon execute a program with other rights.

use super::machine;
use super::supervisor::{Supervisor, program_of};
use crate::Until;
use crate::tracing::machine::Registers;
use crate::tracing::mappings::ignores;
use crate::tracing::rights::has_other_rights;
use crate::tracing::system::{self, Resume};
use nix::libc;
use nix::unistd::{Pid, geteuid};
use sediment_core::skipped::Reason;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

impl Supervisor<'_> {
    /// Looks at the beginning or end of a system call. True if the thread was detached, because it is about to execute a
    /// program whose rights it would not get while it is traced.
    pub(super) fn looks_at_system_call(&mut self, thread: Pid) -> bool {
        let Ok(call) = Registers::of(thread).map(Registers::system_call) else { return false };
        if call.ended {
            return false;
        }
        self.has_written |= self.settings.until == Until::Output && matches!(call.writes_to(), Some(1 | 2));
        if let Some(found) = self.threads.get_mut(&thread) {
            found.watched_calls = found.watched_calls.saturating_sub(1);
        }
        let Some(path) = call.becomes().filter(|_| !geteuid().is_root()) else { return false };
        let gets_rights = path_at(thread, path).is_some_and(has_other_rights);
        if gets_rights && system::resume(thread, Resume::Detach, 0).is_ok() {
            self.common.skipped.add(Reason::OtherRights, 0, program_of(thread));
            self.watched.remove(&thread);
            self.forget_running(thread);
        }
        gets_rights
    }

    /// Makes a thread call the kernel again if only the recorder's stop has ended its call. A signal that stops the process
    /// ends calls also without tracing.
    pub(super) fn call_again_or_not(&self, thread: Pid, signal: i32) {
        let stops = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        if stops && !ignores(thread, signal) {
            self.leave_call(thread);
        } else {
            machine::threads::call_again(thread, signal);
        }
    }

    /// Makes a thread not call the kernel again if its process stops.
    pub(super) fn leave_call(&self, thread: Pid) {
        if let Some(changed) = Registers::of(thread).ok().and_then(Registers::called) {
            let _ = changed.put(thread);
        }
    }
}

/// Returns the path at an address in the memory of a stopped thread, as we can open it.
fn path_at(thread: Pid, address: u64) -> Option<PathBuf> {
    const LONGEST: usize = 4096;
    let memory = File::open(format!("/proc/{thread}/mem")).ok()?;
    let mut bytes = Vec::new();
    // The path may end just before unmapped memory.
    while !bytes.contains(&0) && bytes.len() < LONGEST {
        let at = address.checked_add(bytes.len() as u64)?;
        let mut part = vec![0; 64 - (at % 64) as usize];
        memory.read_exact_at(&mut part, at).ok()?;
        bytes.extend(part);
    }
    let path = PathBuf::from(OsStr::from_bytes(bytes.split(|byte| *byte == 0).next()?));
    let folder = if path.is_absolute() { "root" } else { "cwd" };
    Some(
        Path::new("/proc")
            .join(thread.to_string())
            .join(folder)
            .join(path.strip_prefix("/").unwrap_or(&path)),
    )
}
