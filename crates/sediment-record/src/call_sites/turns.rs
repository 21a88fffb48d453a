// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins and ends bursts: stops each process for a moment and switches its code.

use super::code::CodeState;
use super::image::ProgramImage;
use super::standstill::Standstill;
use super::supervisor::Supervisor;
use super::switch::{Switched, SwitchedSites};
use crate::tracing::machine::Registers;
use crate::tracing::system::{self, Resume, Status};
use nix::libc;
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Time limit for the threads of a process to stop; a thread that waits for a disk continues as before.
const STOPPING: Duration = Duration::from_millis(20);

impl Supervisor<'_> {
    /// Begins or ends a burst if it is time.
    pub(super) fn take_turn(&mut self) {
        let begun = Instant::now();
        let is_due = self.bursts.is_due();
        if is_due {
            if self.bursts.counting {
                for image in self.images.iter_mut().flatten() {
                    image.sample(&self.common.shared);
                }
            }
            let recorded = self.threads.values().filter(|thread| thread.place.is_some());
            self.bursts.unswitched = recorded.map(|thread| thread.process).collect();
            self.bursts.turn();
        } else if self.bursts.unswitched.is_empty() || begun < self.bursts.next_try {
            return;
        }
        let (mut longest, mut one_runs) = (Duration::ZERO, false);
        for process in self.bursts.unswitched.clone() {
            let stopped = Instant::now();
            let switched = self.switch_running(process);
            longest = longest.max(stopped.elapsed());
            match switched {
                Switched::InPart => continue,
                Switched::Running => {
                    one_runs = true;
                    continue;
                }
                Switched::Failed => self.count_always(process),
                Switched::Whole | Switched::ButForChanges => {}
            }
            self.bursts.unswitched.remove(&process);
        }
        // Each process stops for its own switch; all switches together take time of one processor.
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        self.bursts.has_tried(longest.max(begun.elapsed() / processors), is_due, one_runs);
    }

    /// Records that a process counts all the time, because its code cannot be switched.
    fn count_always(&mut self, process: Pid) {
        let own = self.threads.values().filter(|thread| thread.process == process);
        let places: Vec<usize> = own.filter_map(|thread| thread.place).map(|(image, _)| image).collect();
        for image in places {
            if let Some(image) = &mut self.images[image] {
                image.counts_always = true;
            }
        }
    }

    /// Stops a process for a moment, and switches its code.
    fn switch_running(&mut self, process: Pid) -> Switched {
        let to = if self.bursts.counting { CodeState::ToStubs } else { CodeState::ToOriginal };
        if self.sharing.contains(&process) {
            return Switched::Failed;
        }
        if self.is_in_vfork(process) {
            return Switched::Running;
        }
        let mut threads = self.halt(Some(process), STOPPING);
        if to == CodeState::ToStubs {
            self.step_out_of_windows(&mut threads);
        }
        let switched = self.switch(process, &threads, (to, SwitchedSites::Sampled));
        self.proceed(&threads);
        switched
    }

    /// True if a process shares the memory of its parent or child until the child has ended or become another program.
    fn is_in_vfork(&self, process: Pid) -> bool {
        let in_vfork = |thread: &Pid| self.vforks.contains_key(thread) || self.waits_in_vfork(*thread);
        let mut own = self.threads.iter().filter(|(_, thread)| thread.process == process);
        own.any(|(id, _)| in_vfork(id))
    }

    /// Steps threads out of the instructions that are about to be moved. Otherwise these call sites would be missed in
    /// this burst. They are likely to be frequent ones, because threads are mostly stopped there.
    fn step_out_of_windows(&mut self, threads: &mut Standstill) {
        let trapped = threads.stopped.iter().filter(|(_, status)| **status == Status::Trapped);
        let trapped: Vec<Pid> = trapped.map(|(id, _)| *id).collect();
        for thread in trapped {
            let place = self.threads.get(&thread).and_then(|found| found.place);
            let Some(image) = place.and_then(|(image, _)| self.images[image].as_ref()) else { continue };
            match step_out(thread, image) {
                Some(status @ Status::Signal(_)) => drop(threads.stopped.insert(thread, status)),
                Some(status) => {
                    threads.stopped.remove(&thread);
                    self.handle(thread, status);
                }
                None => {}
            }
        }
    }

    /// Switches the code of a process if all its threads are stopped.
    pub(super) fn switch(
        &self,
        process: Pid,
        threads: &Standstill,
        (to, which): (CodeState, SwitchedSites),
    ) -> Switched {
        let own: Vec<(Pid, Option<(usize, u32)>)> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.process == process && !thread.is_ending)
            .map(|(id, thread)| (*id, thread.place))
            .collect();
        let stands = |id: &Pid| threads.stopped.contains_key(id) || self.waits_in_vfork(*id);
        let Some((image, _)) = own.iter().find_map(|(_, place)| *place) else { return Switched::Whole };
        let Some(image) = &self.images[image] else { return Switched::Whole };
        // If a thread does not stop soon, the switch does not wait for it again and again.
        if !own.iter().all(|(id, _)| stands(id)) {
            return Switched::Running;
        }
        let ids: Vec<Pid> = own.iter().map(|(id, _)| *id).collect();
        let Ok(opened) = self.opened_of(ids[0], process) else { return Switched::Failed };
        let Ok(mapped) = opened.mappings() else { return Switched::Failed };
        image.switch(&ids, (&opened.memory, &mapped), (to, which)).unwrap_or(Switched::Failed)
    }
}

/// Single-steps a thread until it is outside the bytes that move. Returns the status if something else stopped the
/// thread.
fn step_out(thread: Pid, image: &ProgramImage) -> Option<Status> {
    /// Largest number of instructions in the bytes that move for one call site.
    const MOST: usize = 32;
    for _ in 0..MOST {
        if !Registers::of(thread).is_ok_and(|registers| image.has_window_at(registers.program_counter())) {
            return None;
        }
        system::resume(thread, Resume::Step, 0).ok()?;
        let status = system::wait_for(thread).ok()?;
        if status != Status::Signal(libc::SIGTRAP) || !system::is_step(thread) {
            return Some(status);
        }
    }
    None
}
