// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address spaces that stand still: no thread writes to code while breakpoints are set in all of it, or taken out.
//!
//! A space is let go in four steps: its threads are interrupted; each stays in the stop that comes first; breakpoints are taken out;
//! the threads are detached. Spaces are let go one after another, so that each stands still for its own sake alone. A thread that
//! sleeps in the kernel may not stop in time. Then the others do not wait for it.

use super::{Held, State, Tracer};
use crate::record::breakpoints::tasks::Task;
use nix::unistd::Pid;
use std::time::Instant;

/// Wait for the threads of an address space to stand still.
#[derive(Debug, Clone, Copy)]
pub(super) struct Halt {
    since: Instant,
    lets_go: bool,
}

impl Tracer<'_> {
    /// Has the threads of an address space stay stopped until it is armed, whose threads are being interrupted.
    pub(super) fn halt_to_arm(&mut self, id: u32) {
        self.halts.insert(id, Halt { since: Instant::now(), lets_go: false });
    }

    /// Stops the threads of an address space, to take its breakpoints out and let it go.
    pub(super) fn halt_to_let_go(&mut self, id: u32) {
        self.kernel.part();
        self.to_let_go.remove(&id);
        let Some(space) = self.spaces.get_mut(&id) else { return };
        space.arms_no_more();
        self.halts.insert(id, Halt { since: Instant::now(), lets_go: true });
        for thread in self.tasks.of_space(id) {
            // One that is stopped already, or gone, needs none.
            let _ = self.kernel.interrupt(thread);
        }
    }

    /// True if an address space stands still, or is about to, to be let go.
    pub(super) fn halts_to_let_go(&self, id: u32) -> bool {
        self.halts.get(&id).is_some_and(|halt| halt.lets_go)
    }

    /// True if the address space of a task is let go, or will be.
    pub(super) fn lets_go(&self, task: Task) -> bool {
        task.state == State::Leaving || self.halts_to_let_go(task.space) || self.letting_go
    }

    /// Holds a stopped thread whose address space is to stand still, or lets it go on.
    pub(super) fn hold_or_go_on(&mut self, thread: Pid, stop: Held) {
        let halts = &self.halts;
        let task = self.tasks.get_mut(thread).filter(|task| halts.contains_key(&task.space));
        match task {
            Some(task) => task.held = Some(stop),
            None => self.resume(thread, stop),
        }
    }

    /// Lets go what stands still for that, and next what is to be let go. No thread waits longer than it should.
    pub(super) fn end_halts(&mut self) {
        loop {
            let over = |id: u32, halt: &Halt| {
                halt.since.elapsed() >= self.halt_timeout || halt.lets_go && self.tasks.are_held(id)
            };
            let over = self.halts.iter().find(|(id, halt)| over(**id, halt)).map(|(id, halt)| (*id, *halt));
            match over {
                Some((id, halt)) if halt.lets_go => self.take_out(id),
                Some((id, _)) => self.end_halt(id),
                None if self.halts.is_empty() => match self.to_let_go.first().copied() {
                    Some(id) => self.halt_to_let_go(id),
                    None => return,
                },
                None => return,
            }
        }
    }

    /// Takes the breakpoints of an address space out, and lets its threads go, now or as they stop.
    fn take_out(&mut self, id: u32) {
        if let Some(space) = self.spaces.get_mut(&id) {
            space.look_at_clock();
            space.let_go(&self.modules, self.tasks.are_held(id));
        }
        self.tasks.leave(id);
        self.end_halt(id);
    }

    /// Lets the threads of an address space go on that were held.
    pub(super) fn end_halt(&mut self, id: u32) {
        self.halts.remove(&id);
        for (thread, stop) in self.tasks.release(id) {
            self.resume(thread, stop);
        }
    }
}
