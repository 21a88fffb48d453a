// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the first uses that programs note by themselves, in trampolines.

use super::{Tracer, ignore_gone, unreadable};
use crate::breakpoints::trampolines::Note;
use nix::unistd::Pid;
use sediment_core::error::Result;
use std::time::Instant;

impl Tracer<'_> {
    /// Reads the notes of an address space. `all`: also notes after an incomplete one, because this one will never be
    /// completed.
    pub(super) fn hear(&mut self, id: u32, all: bool) {
        let notes = self.spaces.get_mut(&id).map(|space| space.hear(all)).unwrap_or_default();
        self.log_notes(id, &notes);
    }

    /// True if a program notes first uses by itself.
    pub(super) fn has_trampolines(&self) -> bool {
        self.spaces.values().any(|space| space.trampolines.is_some())
    }

    /// Reads the notes of all address spaces, and sets breakpoints in the trampolines of functions that note nothing
    /// new.
    pub(super) fn hear_all(&mut self) {
        for id in self.spaces.keys().copied().collect::<Vec<_>>() {
            self.hear(id, false);
            if let Some(space) = self.spaces.get_mut(&id) {
                space.set_gates();
            }
        }
    }

    /// Ends the use of trampolines in the address space of a stopped thread, if it has any.
    pub(super) fn settle(&mut self, thread: Pid) {
        let Some(id) = self.tasks.get(thread).map(|task| task.space) else { return };
        let notes = self.spaces.get_mut(&id).map(|space| space.settle(true)).unwrap_or_default();
        self.log_notes(id, &notes);
    }

    /// Moves a thread that is about to receive a signal for a fault in a trampoline to the same instruction in its
    /// function.
    pub(super) fn fault(&mut self, thread: Pid) -> Result<()> {
        let Some(task) = self.tasks.get(thread).copied() else { return Ok(()) };
        self.hear(task.space, false);
        let Some(space) = self.spaces.get_mut(&task.space).filter(|space| space.trampolines.is_some()) else {
            return Ok(());
        };
        let Some(registers) = ignore_gone(self.kernel.registers(thread))? else { return Ok(()) };
        if let Some(address) = space.leaves_trampoline(&self.modules, registers.program_counter()) {
            ignore_gone(self.kernel.go_to(thread, &registers, address))?;
        }
        Ok(())
    }

    /// Arms a file that a thread has just mapped, if it can be identified by this address. Sets breakpoints at once if
    /// the process is stopped.
    pub(super) fn look_at_mapped(&mut self, thread: Pid, id: u32, at: Option<u64>) -> Result<()> {
        let Some(space) = self.spaces.get_mut(&id) else { return Ok(()) };
        let stopped = Instant::now();
        // While trampolines exist, there is only one thread.
        space.at_rest |= space.trampolines.is_some();
        let armed = at.and_then(|address| space.arm_mapped(thread, address, &mut self.modules));
        let looked = armed.map_or_else(|| space.look_at_mappings(thread, &mut self.modules), Ok);
        space.at_rest = false;
        self.arming += stopped.elapsed();
        for image in std::mem::take(&mut space.gone) {
            self.log.retire_image(&image, space.processor_time);
        }
        if space.trampolines.is_some() && !space.hears_of_writable_code(&self.modules) {
            self.settle(thread);
        }
        looked.map_err(unreadable)
    }

    fn log_notes(&mut self, id: u32, notes: &[Note]) {
        let Some(space) = self.spaces.get_mut(&id).filter(|_| !notes.is_empty()) else { return };
        space.look_at_clock();
        for (site, returns_to) in notes {
            let caller = space.place(*returns_to);
            self.log.first(&self.modules, *site, caller);
            space.saw(*site);
        }
    }
}
