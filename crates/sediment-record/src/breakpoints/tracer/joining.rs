// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that existed before they were traced.

use super::{TaskState, Tracer};
use crate::tracing::join::Joining;
use nix::errno::Errno;
use nix::unistd::Pid;
use sediment_core::error::{Error, ErrorCode};
use sediment_core::skipped::Skipped;
use std::collections::BTreeSet;
use std::io;
use std::time::Instant;

/// Address space of threads whose space is unknown.
const NO_SPACE: u32 = u32::MAX;

impl Joining for Tracer<'_> {
    /// Attaches the threads of a process. Breakpoints are set once every thread has stopped.
    fn join(&mut self, process: Pid, threads: &BTreeSet<Pid>) -> io::Result<()> {
        let gone = Err(Errno::ESRCH.into());
        let opened = threads.iter().map(|thread| self.new_space(process, *thread));
        let space = opened.fold(gone, |found, next| found.or(next))?;
        let space = self.add_space(space);
        self.unarmed.insert(space);
        self.join_threads(process, space, threads);
        Ok(())
    }

    fn leave(&mut self, process: Pid, threads: &BTreeSet<Pid>) {
        for thread in threads {
            self.tasks.add(*thread, process, NO_SPACE, TaskState::Leaving);
            let _ = self.kernel.interrupt(*thread);
        }
    }

    fn skipped(&mut self) -> &mut Skipped {
        &mut self.modules.skipped
    }
}

impl Tracer<'_> {
    pub(super) fn join_threads(&mut self, process: Pid, space: u32, threads: &BTreeSet<Pid>) {
        for thread in threads {
            self.tasks.add(*thread, process, space, TaskState::Joining);
            // If the thread has ended, this is reported later.
            let _ = self.kernel.interrupt(*thread);
        }
    }

    /// Arms the processes that were running, now that all of their threads have stopped since they were attached.
    pub(super) fn arm_those_that_joined(&mut self) {
        // A thread may have made others before it stopped.
        for id in self.unarmed.clone() {
            let threads = self.tasks.of_space(id);
            let Some(process) =
                threads.first().and_then(|thread| self.tasks.get(*thread)).map(|task| task.process)
            else {
                self.unarmed.remove(&id);
                continue;
            };
            let others = self.kernel.threads(process);
            let others = others.into_iter().filter(|thread| !threads.contains(thread));
            let (seized, left): (BTreeSet<Pid>, BTreeSet<Pid>) =
                others.partition(|thread| self.kernel.seize(*thread).is_ok());
            self.join_threads(process, id, &seized);
            // The first breakpoint that an untraced thread hits would kill it.
            if left.iter().any(|thread| !self.kernel.is_ours(*thread) && !self.kernel.has_ended(*thread)) {
                self.give_up(
                    id,
                    &Error::new(
                        ErrorCode::TracingFailed,
                        format!("cannot trace a thread of process {process}"),
                    ),
                );
            }
        }
        if self.tasks.anyone_joins() {
            return;
        }
        self.begun = Instant::now();
        // Processes that have worked most come first, in case the memory for breakpoints is used up.
        let mut joined: Vec<u32> = std::mem::take(&mut self.unarmed).into_iter().collect();
        joined.sort_by_key(|id| {
            let time = self.spaces.get(id).and_then(|space| self.kernel.processor_time(space.process));
            (std::cmp::Reverse(time), *id)
        });
        self.to_arm.extend(joined);
    }
}
