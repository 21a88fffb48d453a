// SPDX-License-Identifier: MIT OR Apache-2.0
//! End of a recording before that of the programs: all threads stop, the code of their programs is set back, and they go on without us.
//!
//! Three sorts of thread do not stop when asked, and must not be waited for: one whose process becomes another program waits for its other
//! threads to end, so these go on; one that ends runs no more of its program; and the parent of a vfork waits in the kernel for its child,
//! which stands still.

use super::supervisor::{FollowedThread, Supervisor, TICK};
use crate::tracing::system::{self, Resume, Status};
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Time for all threads to stop.
const STOPPING: Duration = Duration::from_secs(2);

/// Threads on their way to a standstill.
#[derive(Debug, Default)]
struct Standstill {
    running: BTreeSet<Pid>,
    /// Those that have run their last, and are to be waited for: a dead thread is traced until then.
    ending: BTreeSet<Pid>,
    /// Those that stand still, each with the signal that is still to be delivered.
    stopped: HashMap<Pid, i32>,
}

impl Standstill {
    /// A thread is there no longer.
    fn remove(&mut self, thread: Pid) {
        self.running.remove(&thread);
        self.ending.remove(&thread);
        self.stopped.remove(&thread);
    }
}

impl Supervisor<'_> {
    /// Lets all threads go on without us.
    pub(super) fn let_go(&mut self) {
        let begun = Instant::now();
        let mut threads =
            Standstill { running: self.threads.keys().copied().collect(), ..Default::default() };
        for thread in &threads.running {
            let _ = ptrace::interrupt(*thread);
        }
        while begun.elapsed() < STOPPING && self.moves(&threads) {
            if self.alarm.ring(TICK).is_err() {
                break;
            }
            match system::wait() {
                Ok(Some((thread, status))) => self.note_stop(&mut threads, thread, status),
                Ok(None) => {}
                Err(_) => break,
            }
        }
        self.set_back(&threads.stopped);
        let mut processes = BTreeSet::new();
        for (thread, signal) in threads.stopped {
            let process = self.threads.get(&thread).map(|found| found.process);
            if process.is_some_and(|process| processes.insert(process)) {
                self.read_slots(thread);
            }
            let _ = system::resume(thread, Resume::Detach, signal);
        }
        for thread in std::mem::take(&mut self.early) {
            let _ = system::resume(thread, Resume::Detach, 0);
        }
    }

    /// True while a thread is on its way to a standstill or its end.
    fn moves(&self, threads: &Standstill) -> bool {
        !threads.ending.is_empty() || threads.running.iter().any(|thread| !self.waits_in_vfork(*thread))
    }

    fn waits_in_vfork(&self, thread: Pid) -> bool {
        self.vforks.values().any(|parent| *parent == thread)
    }

    fn note_stop(&mut self, threads: &mut Standstill, thread: Pid, status: Status) {
        match status {
            Status::Exited(_) | Status::Killed(_) => {
                threads.remove(thread);
                self.forget(thread);
                return;
            }
            Status::Event(libc::PTRACE_EVENT_EXIT) => {
                self.look_at_slots(thread);
                threads.running.remove(&thread);
                // The first thread of a process ends as the last.
                if self.threads.get(&thread).is_some_and(|found| found.process != thread) {
                    threads.ending.insert(thread);
                }
                self.forget(thread);
                self.go_on(thread, 0);
                return;
            }
            Status::Event(libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE) => {
                let child = ptrace::getevent(thread).map(|id| Pid::from_raw(id as i32));
                match self.adopt(thread, status) {
                    Some(stopped) => {
                        self.welcome(stopped);
                        threads.stopped.insert(stopped, 0);
                    }
                    None => threads.running.extend(child),
                }
            }
            Status::Event(libc::PTRACE_EVENT_EXEC) => {
                for gone in self.replace_threads(thread) {
                    threads.remove(gone);
                }
            }
            Status::Trapped if !self.threads.contains_key(&thread) => {
                self.early.insert(thread);
                return;
            }
            Status::Trapped => {
                self.welcome(thread);
                self.call_again(thread);
            }
            Status::Signal(_) => self.call_again(thread),
            _ => {}
        }
        threads.running.remove(&thread);
        let signal = if let Status::Signal(signal) = status { signal } else { 0 };
        threads.stopped.insert(thread, signal);
    }

    /// Sets the code of all processes back of which no thread runs.
    fn set_back(&mut self, stopped: &HashMap<Pid, i32>) {
        let processes: BTreeSet<Pid> = self.threads.values().map(|thread| thread.process).collect();
        for process in processes {
            let own: Vec<(&Pid, &FollowedThread)> =
                self.threads.iter().filter(|(_, thread)| thread.process == process).collect();
            let Some((image, _)) = own.iter().find_map(|(_, thread)| thread.place) else { continue };
            let Some(image) = &self.images[image] else { continue };
            if !own.iter().all(|(id, _)| stopped.contains_key(id) || self.waits_in_vfork(**id)) {
                continue;
            }
            for (id, _) in &own {
                let Ok(mut registers) = ptrace::getregs(**id) else { continue };
                let place = image.place_in_original(registers.rip);
                if place != registers.rip {
                    registers.rip = place;
                    let _ = ptrace::setregs(**id, registers);
                }
            }
            let _ = own.first().map(|(id, _)| image.restore(**id));
        }
    }
}
