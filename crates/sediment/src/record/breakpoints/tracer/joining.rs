// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that existed before they were traced.

use super::{State, Tracer};
use nix::errno::Errno;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io;

/// The address space of threads of which none is known.
const NO_SPACE: u32 = u32::MAX;

impl Tracer<'_> {
    /// Takes on a running process, whose threads were seized. Breakpoints are set once each has stopped.
    pub(in super::super) fn join(&mut self, process: Pid, threads: &BTreeSet<Pid>) -> io::Result<()> {
        let gone = Err(Errno::ESRCH.into());
        let opened = threads.iter().map(|thread| self.new_space(process, *thread));
        let space = opened.fold(gone, |found, next| found.or(next))?;
        let space = self.add_space(space);
        self.unarmed.insert(space);
        self.join_threads(process, space, threads);
        Ok(())
    }

    pub(super) fn join_threads(&mut self, process: Pid, space: u32, threads: &BTreeSet<Pid>) {
        for thread in threads {
            self.tasks.add(*thread, process, space, State::Joining);
            // One that has ended is reported so.
            let _ = self.kernel.interrupt(*thread);
        }
    }

    /// Lets threads go that were seized of a process which cannot be taken on.
    pub(in super::super) fn leave(&mut self, process: Pid, threads: &BTreeSet<Pid>) {
        for thread in threads {
            self.tasks.add(*thread, process, NO_SPACE, State::Leaving);
            let _ = self.kernel.interrupt(*thread);
        }
    }
}
