// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traced threads, and the action when one of them stops.
//!
//! ```text
//!                  attach                              kernel: clone, fork, vfork
//!                    │                                             │
//!                    ▼                                             ▼
//!   ┌────────────► Joining                                    born, held ── its parent's report never comes ──► let go
//!   │                │ first stop                                  │ its parent's report
//!   │                ▼                                             ▼
//!   │            Following ◄───────────────────────────────── Following, or Leaving as its parent
//!   │                │ the recording ends, or its process cannot be followed: breakpoints are taken out while all threads there are held
//!   │                ▼
//!   │             Leaving ── held, or next stop ──► detached
//!   │
//!   └ no breakpoint is set anywhere while a thread is Joining: what it forks just then has a copy of its memory, and is not traced
//! ```
//!
//! A thread may end in every state. Breakpoints are out before a thread becomes Leaving.

use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// State of a traced thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Attached while running; has not stopped since.
    Joining,
    /// Continues after each stop.
    Following,
    /// Is detached at its next stop.
    Leaving,
}

/// A traced thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) process: Pid,
    /// Address space.
    pub(super) space: u32,
    pub(super) state: TaskState,
    /// Number of its next system calls whose ends must be checked.
    pub(super) looked_at: u8,
    /// Stop that it stays in until all threads of its address space have stopped.
    pub(super) held: Option<HeldStop>,
}

/// Stop that a thread stays in for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldStop {
    /// Signal to deliver afterwards, 0 for none.
    pub(super) signal: i32,
    /// True if a signal has stopped its whole process.
    pub(super) by_group: bool,
}

/// Action for a thread that has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtStop {
    /// It stays stopped, because its parent is not known yet.
    Hold,
    /// It continues.
    GoOn,
    /// It is detached.
    LetGo,
}

/// All traced threads.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    known: BTreeMap<Pid, Task>,
    /// New threads that stopped before their parents reported them, and the times of these stops.
    born: BTreeMap<Pid, Instant>,
    /// New threads that no longer wait for that report.
    abandoned: BTreeSet<Pid>,
}

impl Tasks {
    pub(super) fn get(&self, thread: Pid) -> Option<&Task> {
        self.known.get(&thread)
    }

    pub(super) fn get_mut(&mut self, thread: Pid) -> Option<&mut Task> {
        self.known.get_mut(&thread)
    }

    /// True if nothing is traced.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.born.is_empty()
    }

    /// True if an attached thread has not stopped yet.
    pub(super) fn anyone_joins(&self) -> bool {
        self.known.values().any(|task| task.state == TaskState::Joining)
    }

    /// Adds a thread.
    pub(super) fn add(&mut self, thread: Pid, process: Pid, space: u32, state: TaskState) {
        self.known.insert(thread, Task { process, space, state, looked_at: 0, held: None });
    }

    /// The known threads of an address space.
    pub(super) fn of_space(&self, space: u32) -> Vec<Pid> {
        self.those(|task| task.space == space)
    }

    /// The known threads of a process.
    pub(super) fn of_process(&self, process: Pid) -> Vec<Pid> {
        self.those(|task| task.process == process)
    }

    /// All known threads.
    pub(super) fn threads(&self) -> Vec<Pid> {
        self.those(|_| true)
    }

    fn those(&self, which: impl Fn(&Task) -> bool) -> Vec<Pid> {
        self.known.iter().filter(|(_, task)| which(task)).map(|(thread, _)| *thread).collect()
    }

    /// Records that a thread stopped by itself, at a fork or a signal. The kernel then forgets the recorder's request
    /// for a stop (Linux's `ptrace_stop` clears `JOBCTL_TRAP_STOP` at any trap), so there may be no further stop.
    pub(super) fn joined(&mut self, thread: Pid) {
        if let Some(task) = self.known.get_mut(&thread).filter(|task| task.state == TaskState::Joining) {
            task.state = TaskState::Following;
        }
    }

    /// Records that a thread stopped; returns the action.
    pub(super) fn stopped(&mut self, thread: Pid) -> AtStop {
        match self.known.get_mut(&thread) {
            None => {
                self.born.entry(thread).or_insert_with(Instant::now);
                AtStop::Hold
            }
            Some(Task { state: TaskState::Leaving, .. }) => AtStop::LetGo,
            Some(task) => {
                task.state = TaskState::Following;
                AtStop::GoOn
            }
        }
    }

    /// Adds a child that a parent has reported; returns whether the child has stopped already.
    pub(super) fn announced(&mut self, child: Pid, process: Pid, space: u32, state: TaskState) -> bool {
        self.add(child, process, space, state);
        self.born.remove(&child).is_some()
    }

    /// True if all threads of an address space are held.
    pub(super) fn are_held(&self, space: u32) -> bool {
        self.known.values().filter(|task| task.space == space).all(|task| task.held.is_some())
    }

    /// Releases the held threads of an address space and returns them with their stops.
    pub(super) fn release(&mut self, space: u32) -> Vec<(Pid, HeldStop)> {
        let there = self.known.iter_mut().filter(|(_, task)| task.space == space);
        there.filter_map(|(thread, task)| Some((*thread, task.held.take()?))).collect()
    }

    /// Stops waiting for the parent's report on a thread.
    pub(super) fn abandon(&mut self, thread: Pid) {
        self.born.remove(&thread);
        self.abandoned.insert(thread);
    }

    /// True if a thread that its parent now reports was abandoned before.
    pub(super) fn was_abandoned(&mut self, thread: Pid) -> bool {
        self.abandoned.remove(&thread)
    }

    /// True if a thread waits for its parent's report.
    pub(super) fn is_born(&self, thread: Pid) -> bool {
        self.born.contains_key(&thread)
    }

    /// Returns threads that stopped before this time and that no parent has reported.
    pub(super) fn orphans(&self, before: Instant) -> Vec<Pid> {
        self.born.iter().filter(|(_, since)| **since < before).map(|(thread, _)| *thread).collect()
    }

    /// Makes the threads of an address space leave.
    pub(super) fn leave(&mut self, space: u32) {
        for task in self.known.values_mut().filter(|task| task.space == space) {
            task.state = TaskState::Leaving;
        }
    }

    /// The address spaces of threads that are not leaving.
    pub(super) fn spaces_that_stay(&self) -> impl Iterator<Item = u32> {
        self.known.values().filter(|task| task.state != TaskState::Leaving).map(|task| task.space)
    }

    /// Removes a thread that is no longer traced. Returns its address space if the thread was the last one there.
    pub(super) fn forget(&mut self, thread: Pid) -> Option<u32> {
        self.born.remove(&thread);
        let space = self.known.remove(&thread)?.space;
        (!self.known.values().any(|other| other.space == space)).then_some(space)
    }

    /// The address spaces in use.
    pub(super) fn spaces(&self) -> BTreeSet<u32> {
        self.known.values().map(|task| task.space).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Breakpoints are set when no thread is joining any more; the recorder must not wait for a thread that no longer
    /// has to stop.
    #[test]
    fn a_thread_that_stops_by_itself_has_joined() {
        let [joins, leaves] = [1, 2].map(Pid::from_raw);
        let mut tasks = Tasks::default();
        tasks.add(joins, joins, 0, TaskState::Joining);
        tasks.add(leaves, leaves, 1, TaskState::Leaving);
        assert!(tasks.anyone_joins());
        tasks.joined(joins);
        tasks.joined(leaves);
        assert!(!tasks.anyone_joins());
        assert_eq!(tasks.stopped(leaves), AtStop::LetGo);
    }
}
