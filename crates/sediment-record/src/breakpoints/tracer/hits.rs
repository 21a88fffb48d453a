// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles breakpoint hits: first uses, callers, windows, and breakpoints at the blocks of a function.

use super::Tracer;
use crate::BlockCoverage;
use crate::breakpoints::kernel::Stepped;
use crate::breakpoints::modules::Site;
use crate::breakpoints::sequences::WindowHit;
use crate::breakpoints::tasks::Task;
use crate::tracing::machine::Registers;
use nix::unistd::Pid;
use sediment_core::skipped::Reason;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Largest number of observed calls of a function that makes memory writable or handles signals. Some programs make
/// thousands for other purposes.
const WATCHED_CALLS: u32 = 256;
/// Number of queued functions whose blocks get breakpoints at once.
const AT_ONCE: usize = 16;

impl Tracer<'_> {
    /// Handles a hit of the breakpoint at a function or block.
    pub(super) fn hit(&mut self, task: Task, thread: Pid, site: Site, registers: &Registers) {
        if self.modules.get(site.module).changes_process(site.entry) {
            self.look_at_system_calls(thread);
        }
        self.pair_or_part(task, thread, site);
        if self.heed(task, thread, site, registers) {
            return;
        }
        if !self.modules.get(site.module).is_recorded {
            return;
        }
        let Some(space) = self.spaces.get_mut(&task.space) else { return };
        if self.windows.is_some() {
            space.look_at_clock_now_and_then();
        }
        let entry = self.modules.get(site.module).entries[site.entry as usize];
        let hit = match &mut self.windows {
            Some(windows) => windows.hit(task.space, space, &self.modules, site, thread, &mut self.log),
            None => WindowHit::NotArmed,
        };
        if entry.owner.is_some() {
            self.log.block(&self.modules, site);
        }
        if hit == WindowHit::Block {
            self.log.visit(site);
            return;
        }
        if !entry.is_function {
            let cost = self.windows.as_ref().map_or(Duration::ZERO, |windows| windows.cost_of_meeting().1);
            self.coverage.spend(cost);
            return;
        }
        let caller = registers.return_address(&*space.memory).and_then(|address| space.place(address));
        match hit {
            WindowHit::Repeat | WindowHit::Again | WindowHit::Block => {}
            WindowHit::Step => self.log.add_step(&self.modules, thread.as_raw() as u64, site, caller),
            WindowHit::Rate => self.log.add_hit(&self.modules, site, caller),
            WindowHit::NotArmed => {
                self.log.first(&self.modules, site, caller);
                space.saw(site);
                if let Some(windows) = &mut self.windows {
                    windows.leave_for_repeat(task.space, space, &self.modules, site, thread);
                }
                if entry.owner.is_some() && self.coverage.is_wanted() {
                    self.cover_or_put_off(task.space, site);
                }
            }
        }
    }

    /// Handles a call of a function whose every call must be seen: removes the breakpoints from the memory that the
    /// program is about to use, and makes the next call stop, too. True if this was not the first call, and needs no
    /// further handling.
    pub(super) fn heed(&mut self, task: Task, thread: Pid, site: Site, registers: &Registers) -> bool {
        let module = self.modules.get(site.module);
        if !module.is_watched(site.entry) {
            return false;
        }
        let handles_signals = module.handles_signals(site.entry);
        if module.makes_writable(site.entry) {
            // After this call, the program may write to replaced instructions.
            self.settle(thread);
            let written = registers.system_call().makes_writable();
            if let (Some(space), Some(written)) = (self.spaces.get_mut(&task.space), written) {
                space.leave_to_program(&self.modules, &written);
            }
        }
        if handles_signals {
            self.sets_handler(task.space, registers);
        }
        let calls = self.watched_calls.entry((task.space, site)).or_default();
        *calls += 1;
        let again = *calls > 1;
        if *calls < WATCHED_CALLS {
            self.steps_off = Some((thread, task.space, site));
        }
        again && !self.windows.as_ref().is_some_and(|windows| windows.waits_for(task.space, site))
    }

    /// If a thread is at a function whose next call must be seen, makes the thread execute one instruction, and arms
    /// the function again.
    pub(super) fn step_off(&mut self, thread: Pid) -> Stepped {
        let watched = self.steps_off.take().filter(|(stepping, ..)| *stepping == thread);
        let watched = watched.map(|(_, id, site)| (id, site));
        let followed = self.windows.as_ref().and_then(|windows| windows.follows(thread));
        let Some((id, site)) = followed.or(watched) else { return Stepped::Done };
        let waits = followed.is_some() && self.waiting_functions.contains(&site);
        // The end of the thread is reported.
        let stepped = if waits { Ok(Stepped::Done) } else { self.kernel.step(thread) };
        let has_stepped = !waits && stepped == Ok(Stepped::Done);
        let space = self.spaces.get_mut(&id).filter(|_| has_stepped);
        let armed =
            space.is_some_and(|space| !space.arm_again(&self.modules, &BTreeSet::from([site])).is_empty());
        if let (Some(windows), Some(_)) = (&mut self.windows, followed) {
            windows.has_stepped(armed);
        }
        if let Ok(Stepped::Late(status)) = stepped {
            self.waiting_functions.insert(site);
            if status.is_none() {
                self.late_steps.insert(thread);
            }
        }
        stepped.unwrap_or(Stepped::Done)
    }

    /// Sets breakpoints at the blocks of a function that has run, or queues it until there is room.
    fn cover_or_put_off(&mut self, space: u32, site: Site) {
        let due = self.log.blocks_are_due(&self.modules, site);
        if !due && self.coverage.wanted == BlockCoverage::WithinBudget {
            return;
        }
        if self.coverage.has_room(self.coverage_worked()) {
            self.cover(space, site);
        } else {
            self.log.covers_late(&self.modules, site);
            self.coverage.put_off(space, site);
        }
    }

    /// Processor time of all processes.
    fn coverage_worked(&self) -> Duration {
        let running: u64 = self.spaces.values().map(|space| space.worked()).sum();
        Duration::from_nanos(running + self.log.retired())
    }

    fn cover(&mut self, id: u32, site: Site) {
        let Some(space) = self.spaces.get_mut(&id) else { return };
        let begun = Instant::now();
        let module = self.modules.get(site.module);
        let Some(function) = module.owner(site.entry as usize) else { return };
        let new = |entry: &u32| !self.log.has_block(Site { entry: *entry, ..site });
        let blocks: Vec<u32> = function.blocks.iter().copied().filter(new).collect();
        let missing = space.arm_blocks(&self.modules, site.module, &blocks);
        self.log.covers(&self.modules, site, missing == 0);
        let name = super::super::modules::base_name(&module.path).to_owned();
        self.modules.skipped.add_many(Reason::BlockBeyondBudget, missing as u64, 0, &name);
        self.coverage.spend(begun.elapsed());
    }

    /// Sets breakpoints at the blocks of queued functions.
    pub(super) fn cover_those_put_off(&mut self) {
        if !self.coverage.is_behind() {
            return;
        }
        let worked = self.coverage_worked();
        for _ in 0..AT_ONCE {
            if !self.coverage.has_room(worked) {
                return;
            }
            let Some((space, site)) = self.coverage.next() else { return };
            self.cover(space, site);
        }
    }
}
