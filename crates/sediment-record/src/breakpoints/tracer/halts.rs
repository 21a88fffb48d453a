// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address spaces that stand still: no thread writes to code while all breakpoints are set in it, or taken out.
//!
//! Four steps: the threads are interrupted; each stays in the stop that comes first; breakpoints are set or taken out; the threads go
//! on, or are detached. One address space stands still at a time, so that it waits for no other. A thread that sleeps in the kernel
//! may not stop in time. Then the others do not wait for it. Processes
//! that share memory and were attached one by one are two spaces: one of them may run meanwhile.

use super::{HeldStop, TaskState, Tracer, told_of_less_memory, unreadable};
use crate::breakpoints::space::AddressSpace;
use crate::breakpoints::tasks::Task;
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Longest time that threads stay stopped until the others of their address space have stopped.
pub(super) const TIMEOUT: Duration = Duration::from_millis(200);

/// Change of a stopped address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HaltPurpose {
    Arm,
    LetGo,
    /// Its breakpoints are taken out, and its threads followed further.
    StayOut,
}

/// Wait for the threads of an address space to stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Halt {
    since: Instant,
    purpose: HaltPurpose,
}

impl Tracer<'_> {
    /// Stops the threads of an address space until it is armed or let go.
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
            // The program may be the one who serves its files.
            (HaltPurpose::Arm, Some(thread)) => space.read_files(thread, &mut self.modules),
            (HaltPurpose::Arm, None) => {}
        }
        for thread in threads {
            if self.kernel.has_ended(thread) {
                // A first thread, whose end is told after those of the others.
                self.forget(thread);
            } else {
                // One that is stopped already, or gone, needs none.
                let _ = self.kernel.interrupt(thread);
            }
        }
        if self.spaces.contains_key(&id) {
            self.halts.insert(id, Halt { since: self.kernel.now(), purpose });
        }
    }

    /// The first of these threads that has mappings. One that has ended has none any more, though its end was not reported yet.
    fn with_mappings(&self, threads: &[Pid]) -> Option<Pid> {
        let has_some = |thread: &&Pid| self.kernel.mappings(**thread).is_ok_and(|there| !there.is_empty());
        threads.iter().find(has_some).copied()
    }

    /// True if an address space is armed soon.
    pub(super) fn anyone_is_to_be_armed(&self) -> bool {
        !self.to_arm.is_empty() || self.halts.values().any(|halt| halt.purpose == HaltPurpose::Arm)
    }

    /// True if an address space stands still, or is about to, to be let go.
    pub(super) fn halts_to_leave(&self, id: u32) -> bool {
        self.halts.get(&id).is_some_and(|halt| halt.purpose == HaltPurpose::LetGo)
    }

    /// True if the address space of a task is let go, or will be.
    pub(super) fn is_to_leave(&self, task: Task) -> bool {
        task.state == TaskState::Leaving || self.halts_to_leave(task.space) || self.letting_go
    }

    /// True if an address space has no breakpoints yet, but will have.
    pub(super) fn is_to_be_armed(&self, id: u32) -> bool {
        self.to_arm.contains(&id) || self.halts.get(&id).is_some_and(|halt| halt.purpose == HaltPurpose::Arm)
    }

    /// Holds a stopped thread whose address space is to stand still, or lets it go on.
    pub(super) fn hold_or_go_on(&mut self, thread: Pid, stop: HeldStop) {
        let halts = &self.halts;
        let task = self.tasks.get_mut(thread).filter(|task| halts.contains_key(&task.space));
        match task {
            Some(task) => task.held = Some(stop),
            None => self.resume(thread, stop),
        }
    }

    /// Changes the address spaces that stand still, or have had their time to, and stops the next.
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

    /// Sets the breakpoints of an address space, and lets its threads go on.
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

    /// Takes the breakpoints of an address space out.
    fn take_out(&mut self, id: u32) {
        let held = self.tasks.are_held(id);
        // What stands behind breakpoints is to be code, not jumps.
        if let (true, Some(thread)) = (held, self.tasks.of_space(id).first()) {
            self.settle(*thread);
        }
        if let Some(space) = self.spaces.get_mut(&id) {
            space.look_at_clock();
            space.let_go(&self.modules, held);
        }
    }

    /// Lets the threads of an address space go on that were held.
    pub(super) fn end_halt(&mut self, id: u32) {
        self.halts.remove(&id);
        for (thread, stop) in self.tasks.release(id) {
            self.resume(thread, stop);
        }
    }
}
