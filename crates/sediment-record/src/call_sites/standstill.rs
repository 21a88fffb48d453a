// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stops all threads, so that their code can be changed.
//!
//! Three sorts of thread do not stop on request, and must not be waited for. A thread whose process becomes another
//! program waits for its other threads to end, so these continue. A thread that ends runs no further instruction of its
//! program. And the parent of a vfork waits in the kernel for its child.

use super::machine;
use super::supervisor::{Supervisor, TICK};
use crate::tracing::system::{self, Resume, Status};
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Threads that are being stopped.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// The process to stop; None for all.
    process: Option<Pid>,
    running: BTreeSet<Pid>,
    /// Threads that have run their last instruction. Before a process is released, the recorder must wait for them,
    /// because a dead thread is traced until then.
    ending: BTreeSet<Pid>,
    /// Stopped threads, each with the status of its stop.
    pub(super) stopped: HashMap<Pid, Status>,
}

impl Standstill {
    /// Removes and returns the threads for which `passes` is true.
    pub(super) fn part(&mut self, passes: impl Fn(Pid) -> bool) -> Self {
        let (own, others) = std::mem::take(&mut self.stopped).into_iter().partition(|(id, _)| passes(*id));
        self.stopped = others;
        Self { stopped: own, ..Self::default() }
    }

    /// Removes a thread that no longer exists.
    fn remove(&mut self, thread: Pid) {
        self.running.remove(&thread);
        self.ending.remove(&thread);
        self.stopped.remove(&thread);
    }
}

impl Supervisor<'_> {
    /// Asks the threads of a process, or all threads, to stop, and waits for this. Other threads that stop meanwhile
    /// are handled as usual.
    pub(super) fn halt(&mut self, process: Option<Pid>, limit: Duration) -> Standstill {
        let begun = Instant::now();
        let own = self.threads.iter().filter(|(_, thread)| {
            !thread.is_ending && process.is_none_or(|process| process == thread.process)
        });
        let running: BTreeSet<Pid> = own.map(|(id, _)| *id).collect();
        let mut threads = Standstill { process, running, ..Standstill::default() };
        for thread in &threads.running {
            let _ = ptrace::interrupt(*thread);
        }
        while begun.elapsed() < limit && self.moves(&threads) {
            if self.alarm.ring(TICK).is_err() {
                break;
            }
            match system::wait() {
                Ok(Some((thread, status))) => self.note_stop(&mut threads, thread, status),
                Ok(None) => {}
                Err(_) => break,
            }
        }
        threads
    }

    /// Lets stopped threads continue.
    pub(super) fn proceed(&self, threads: &Standstill) {
        for (thread, status) in &threads.stopped {
            match status {
                Status::Signal(signal) => self.go_on(*thread, *signal),
                Status::GroupStop => drop(system::resume(*thread, Resume::Listen, 0)),
                _ => self.go_on(*thread, 0),
            }
        }
    }

    /// True while a thread still has to stop or end.
    fn moves(&self, threads: &Standstill) -> bool {
        let ends = threads.process.is_none() && !threads.ending.is_empty();
        ends || threads.running.iter().any(|thread| !self.waits_in_vfork(*thread))
    }

    pub(super) fn waits_in_vfork(&self, thread: Pid) -> bool {
        self.vforks.values().any(|parent| *parent == thread)
    }

    fn note_stop(&mut self, threads: &mut Standstill, thread: Pid, status: Status) {
        let process = self.threads.get(&thread).map(|found| found.process);
        if threads.process.is_some() && threads.process != process {
            self.handle(thread, status);
            return;
        }
        let repaired = status == Status::Signal(libc::SIGSEGV) && self.repairs_copy(thread);
        let status = if repaired { Status::Trapped } else { status };
        match status {
            Status::Exited(_) | Status::Killed(_) => {
                threads.remove(thread);
                self.handle(thread, status);
                return;
            }
            Status::Event(libc::PTRACE_EVENT_EXIT) => {
                threads.running.remove(&thread);
                // The first thread of a process ends last.
                if process != Some(thread) {
                    threads.ending.insert(thread);
                }
                self.handle(thread, status);
                return;
            }
            Status::Event(libc::PTRACE_EVENT_EXEC) if threads.process.is_some() => {
                threads.running.clear();
                threads.stopped.clear();
                self.handle(thread, status);
                return;
            }
            Status::Event(libc::PTRACE_EVENT_EXEC) => {
                for gone in self.replace_threads(thread) {
                    threads.remove(gone);
                }
            }
            Status::Event(libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE) => {
                self.note_birth(threads, thread, status);
            }
            Status::Trapped if process.is_none() => {
                self.early.insert(thread);
                return;
            }
            Status::Trapped => {
                self.welcome(thread);
                self.answer(thread);
                machine::threads::call_again(thread, 0);
            }
            Status::Signal(signal) => {
                self.answer(thread);
                machine::threads::call_again(thread, signal);
            }
            _ => {}
        }
        threads.running.remove(&thread);
        threads.stopped.insert(thread, status);
    }

    /// A new thread stops with the others; a new process stops if all must stop.
    fn note_birth(&mut self, threads: &mut Standstill, parent: Pid, status: Status) {
        let child = ptrace::getevent(parent).map(|id| Pid::from_raw(id as i32));
        let stopped = self.adopt(parent, status);
        let joins = child.is_ok_and(|child| {
            let process = self.threads.get(&child).map(|found| found.process);
            threads.process.is_none() || threads.process == process
        });
        if let Some(stopped) = stopped {
            self.welcome(stopped);
        }
        match (stopped, child) {
            (Some(stopped), _) if joins => drop(threads.stopped.insert(stopped, Status::Trapped)),
            (Some(stopped), _) => self.go_on(stopped, 0),
            (None, Ok(child)) if joins => drop(threads.running.insert(child)),
            (None, _) => {}
        }
    }
}
