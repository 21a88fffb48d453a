// SPDX-License-Identifier: MIT OR Apache-2.0
//! Halts of address spaces: no thread runs or writes to code while all breakpoints are set or removed.
//!
//! A halt has four steps: the threads are interrupted; each stays in its first stop; breakpoints are set or removed;
//! the threads continue or are detached. Only one address space is halted at a time, so that it waits for no other. A
//! thread that sleeps in the kernel may not stop in time; the others then do not wait for it. Processes that share
//! memory and were attached one by one count as two spaces, so one of them may run meanwhile.

use super::{HeldStop, TaskState, Tracer, told_of_less_memory, unreadable};
use crate::breakpoints::space::AddressSpace;
use crate::breakpoints::tasks::Task;
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Longest time for which threads stay stopped until the other threads of their address space have stopped.
pub(super) const TIMEOUT: Duration = Duration::from_millis(200);

/// Change to a halted address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HaltPurpose {
    Arm,
    LetGo,
    /// Its breakpoints are removed; its threads are followed further.
    StayOut,
}

/// A halt that waits for the threads of its address space to stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Halt {
    since: Instant,
    purpose: HaltPurpose,
}

impl Tracer<'_> {
    /// Halts an address space until it is armed or detached.
    pub(super) fn halt(&mut self, id: u32, purpose: HaltPurpose) {
        self.kernel.part();
        for waiting in [&mut self.unarmed, &mut self.to_let_go] {
            waiting.remove(&id);
        }
        self.to_arm.retain(|waiting| *waiting != id);
        let threads = self.tasks.of_space(id);
        let mapped = if purpose == HaltPurpose::Arm { self.with_mappings(&threads) } else { None };
        let Some(space) = self.spaces.get_mut(&id) else { return };
        match (purpose, mapped) {
            (HaltPurpose::LetGo | HaltPurpose::StayOut, _) => space.arms_no_more(),
            // Reads the files before: this program may be the one that serves them.
            (HaltPurpose::Arm, Some(thread)) => space.read_files(thread, &mut self.modules),
            (HaltPurpose::Arm, None) => {}
        }
        for thread in threads {
            if self.kernel.has_ended(thread) {
                // A first thread whose end is reported after the ends of the other threads.
                self.forget(thread);
            } else {
                // A stopped or ended thread needs no interrupt.
                let _ = self.kernel.interrupt(thread);
            }
        }
        if self.spaces.contains_key(&id) {
            self.halts.insert(id, Halt { since: self.kernel.now(), purpose });
        }
    }

    /// Returns the first of these threads that has mappings. A thread that has ended has none, even before its end is
    /// reported.
    fn with_mappings(&self, threads: &[Pid]) -> Option<Pid> {
        let has_some = |thread: &&Pid| self.kernel.mappings(**thread).is_ok_and(|there| !there.is_empty());
        threads.iter().find(has_some).copied()
    }

    /// True if an address space will soon be armed.
    pub(super) fn anyone_is_to_be_armed(&self) -> bool {
        !self.to_arm.is_empty() || self.halts.values().any(|halt| halt.purpose == HaltPurpose::Arm)
    }

    /// True if an address space is halted, or will be, in order to detach it.
    pub(super) fn halts_to_leave(&self, id: u32) -> bool {
        self.halts.get(&id).is_some_and(|halt| halt.purpose == HaltPurpose::LetGo)
    }

    /// True if the address space of a task is being detached, or will be.
    pub(super) fn is_to_leave(&self, task: Task) -> bool {
        task.state == TaskState::Leaving || self.halts_to_leave(task.space) || self.letting_go
    }

    /// True if an address space has no breakpoints yet, but will have.
    pub(super) fn is_to_be_armed(&self, id: u32) -> bool {
        self.to_arm.contains(&id) || self.halts.get(&id).is_some_and(|halt| halt.purpose == HaltPurpose::Arm)
    }

    /// Holds a stopped thread if its address space is being halted; otherwise lets it continue.
    pub(super) fn hold_or_go_on(&mut self, thread: Pid, stop: HeldStop) {
        let halts = &self.halts;
        let task = self.tasks.get_mut(thread).filter(|task| halts.contains_key(&task.space));
        match task {
            Some(task) => task.held = Some(stop),
            None => self.resume(thread, stop),
        }
    }

    /// Changes the address spaces that are halted or whose halt has timed out, and begins the next halt.
    pub(super) fn turn_halts(&mut self) {
        let Self { kernel, spaces, tasks, halts, halt_timeout, .. } = self;
        let now = kernel.now();
        let has_nothing = |id: u32| spaces.get(&id).is_none_or(AddressSpace::was_never_armed);
        let is_over = |id: u32, halt: &Halt| {
            let waited = now - halt.since >= *halt_timeout;
            waited || tasks.are_held(id) || halt.purpose != HaltPurpose::Arm && has_nothing(id)
        };
        let over = halts.iter().filter(|(id, halt)| is_over(**id, halt));
        for (id, halt) in over.map(|(id, halt)| (*id, *halt)).collect::<Vec<_>>() {
            match halt.purpose {
                HaltPurpose::Arm => self.arm_all(id),
                HaltPurpose::LetGo => {
                    self.take_out(id);
                    self.tasks.leave(id);
                    self.end_halt(id);
                }
                HaltPurpose::StayOut => {
                    self.take_out(id);
                    self.end_halt(id);
                }
            }
        }
        while self.halts.is_empty() {
            let to_arm = self.to_arm.front().map(|id| (*id, HaltPurpose::Arm));
            let to_let_go = self.to_let_go.first().map(|id| (*id, HaltPurpose::LetGo));
            let Some((id, purpose)) = to_arm.or(to_let_go) else { return };
            self.halt(id, purpose);
        }
    }

    /// Sets the breakpoints of an address space and lets its threads continue.
    fn arm_all(&mut self, id: u32) {
        if let (Some(why), Some(space)) = (self.use_of_traps(id), self.spaces.get_mut(&id)) {
            space.arms_no_more();
            let process = space.process;
            self.tell_of_traps(process, why);
        }
        let thread = self.with_mappings(&self.tasks.of_space(id));
        if let (Some(space), Some(thread)) = (self.spaces.get_mut(&id), thread) {
            if let Some(left) = self.budget.fit(self.kernel.memory_left(space.process)) {
                told_of_less_memory(&mut self.modules, left, self.budget.bytes());
            }
            space.at_rest = self.tasks.are_held(id);
            let looked = space.look_at_mappings(thread, &mut self.modules);
            space.at_rest = false;
            if let Err(error) = looked {
                return self.give_up(id, &unreadable(error));
            }
            let (process, code) =
                (space.process, space.images.iter().map(|image| image.module).collect::<Vec<_>>());
            if self.spares_search_for_leaks(process, &code) {
                return self.halt(id, HaltPurpose::LetGo);
            }
        }
        self.end_halt(id);
        if !self.anyone_is_to_be_armed() {
            self.begun = Instant::now();
        }
    }

    /// Removes the breakpoints of an address space.
    fn take_out(&mut self, id: u32) {
        let held = self.tasks.are_held(id);
        // Under the breakpoints there must be original code, not jumps.
        if let (true, Some(thread)) = (held, self.tasks.of_space(id).first()) {
            self.settle(*thread);
        }
        if let Some(space) = self.spaces.get_mut(&id) {
            space.look_at_clock();
            space.let_go(&self.modules, held);
        }
    }

    /// Lets the held threads of an address space continue.
    pub(super) fn end_halt(&mut self, id: u32) {
        self.halts.remove(&id);
        for (thread, stop) in self.tasks.release(id) {
            self.resume(thread, stop);
        }
    }
}
