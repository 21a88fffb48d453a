// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends a recording before its programs end: all threads stop, the code of their programs is restored, and they
//! continue without the recorder.

use super::code::CodeState;
use super::standstill::Standstill;
use super::supervisor::Supervisor;
use super::switch::SwitchedSites;
use crate::tracing::system::{self, Resume, Status};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time limit for all threads to stop.
const STOPPING: Duration = Duration::from_secs(2);

impl Supervisor<'_> {
    /// Lets all threads continue without the recorder.
    pub(super) fn let_go(&mut self) {
        let mut threads = self.halt(None, STOPPING);
        let processes: BTreeSet<Pid> = self.threads.values().map(|thread| thread.process).collect();
        for process in processes {
            self.switch(process, &threads, (CodeState::ToOriginal, SwitchedSites::All));
        }
        self.unmap(&mut threads);
        self.detach(threads);
    }

    /// Handles a thread that is about to end. The last thread of a process is detached first, so that its parent is
    /// notified as soon as it can wait for the process. A pidfd of a traced process is notified while the parent cannot
    /// wait for it yet.
    pub(super) fn ends(&mut self, thread: Pid) {
        self.look_at_slots(thread);
        let is_last = self.threads.get_mut(&thread).is_some_and(|found| {
            found.is_ending = true;
            found.process == thread
        }) && self.threads.values().filter(|found| found.process == thread).count() == 1;
        if !is_last {
            self.go_on(thread, 0);
        } else if system::resume(thread, Resume::Detach, 0).is_ok() {
            self.watched.remove(&thread);
            self.sharing.remove(&thread);
            self.forget(thread);
        }
    }

    fn detach(&mut self, threads: Standstill) {
        let mut processes = BTreeSet::new();
        for (thread, status) in threads.stopped {
            let process = self.threads.get(&thread).map(|found| found.process);
            if process.is_some_and(|process| processes.insert(process)) {
                self.read_slots(thread);
            }
            let signal = if let Status::Signal(signal) = status { signal } else { 0 };
            let _ = system::resume(thread, Resume::Detach, signal);
        }
        for thread in std::mem::take(&mut self.early) {
            let _ = system::resume(thread, Resume::Detach, 0);
        }
    }
}
