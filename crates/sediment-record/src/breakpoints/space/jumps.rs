// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jumps of an address space to its [`Trampolines`]. They come and go while its one thread stands still.

use super::AddressSpace;
use crate::breakpoints::changes::{CodeChange, write_at_rest};
use crate::breakpoints::image::{MANY, MappedImage};
use crate::breakpoints::modules::{Module, Modules};
use crate::breakpoints::pairing::leave_pair;
use crate::breakpoints::trampolines::{Note, Stub, TrampolineState, Trampolines};
use crate::tracing::machine::TRAP;
use sediment_core::isa::JUMP;
use std::rc::Rc;

impl AddressSpace {
    /// Makes room for trampolines in a process that has just become the program with this first instruction. Where that cannot be,
    /// there are breakpoints alone.
    pub(super) fn lay_trampolines(&mut self, modules: &mut Modules<'_>, entry: u64) -> Option<()> {
        let (kernel, thread) = (Rc::clone(&self.kernel), self.process);
        let mappings = kernel.mappings(thread).ok()?;
        let (mut own, mut at, mut linker) = (None, None, None);
        for mapping in mappings.iter().filter(|mapping| mapping.executable) {
            let Some(module) = modules.of(mapping, || kernel.content(thread, mapping)) else { continue };
            let here = modules.get(module);
            let length = mapping.range.end - mapping.range.start;
            let address = here.address_of_mapping(mapping.offset, length);
            if mapping.range.contains(&entry) {
                own = Some((module, &mapping.path));
            } else if let (None, Some(address), Some(call)) = (at, address, here.system_call()) {
                let bias = mapping.range.start.wrapping_sub(address);
                at = Some(bias.wrapping_add(call));
                linker = Some((module, bias));
            }
        }
        let (own, path) = own?;
        let lowest =
            mappings.iter().filter(|mapping| mapping.path == *path).map(|mapping| mapping.range.start);
        let stack = kernel.registers(thread).ok()?.stack();
        let counts = modules.count_jumps(own);
        let laid = Trampolines::lay(&*kernel, thread, (at?, lowest.min()?, stack), counts);
        let mut laid = laid.ok()?;
        let (linker, bias) = linker?;
        let watched = laid.watch_mappings(modules.get(linker), bias);
        self.hears_of_mappings = watched.is_some() && !laid.mappers.is_empty();
        self.trampolines = Some(laid);
        self.starts_at = Some(entry);
        Some(())
    }

    /// Sets the jumps of the dynamic linker where it maps files, once its functions have theirs.
    pub(super) fn hear_of_mappings(&mut self) {
        let mappers = self.trampolines.iter().flat_map(|trampolines| &trampolines.mappers);
        let jumps: Vec<CodeChange> = mappers.map(|mapper| mapper.change(true)).collect();
        self.hears_of_mappings &= !write_at_rest(&*self.memory, &jumps, false).contains(&false);
        jumps.iter().for_each(|jump| self.pages.wrote(jump.address()));
    }

    /// True if a thread that hit a breakpoint at this address has mapped code, as the dynamic linker.
    pub(in super::super) fn has_mapped_at(&self, address: u64) -> bool {
        self.trampolines.as_ref().is_some_and(|trampolines| trampolines.has_mapped_at(address))
    }

    /// Makes trampolines for the functions of an image of a program at rest, and looks meanwhile whether its memory agrees with the file, as
    /// [`MappedImage::agrees_at_rest`] says; the entries that have one.
    pub(super) fn make_trampolines(
        &mut self,
        image: &MappedImage,
        module: &Module,
    ) -> (Option<bool>, Vec<usize>) {
        let agrees = || image.agrees_at_rest(module, &*self.memory);
        let Some(trampolines) = &mut self.trampolines else { return (agrees(), Vec::new()) };
        let (id, bias, starts_at) = (image.module, image.bias, self.starts_at);
        let mut make = || {
            let entries = (0..module.entries.len()).filter(|entry| module.entries[*entry].is_function);
            let others =
                entries.filter(|entry| Some(module.entries[*entry].address.wrapping_add(bias)) != starts_at);
            let able = others.filter_map(|entry| Some((entry, module.place(entry)?)));
            trampolines.make((id, module, bias), able).unwrap_or_default()
        };
        if module.entries.len() < MANY {
            return (agrees(), make());
        }
        std::thread::scope(|scope| {
            let making = scope.spawn(|| {
                leave_pair();
                make()
            });
            (agrees(), making.join().unwrap_or_default())
        })
    }

    /// Sets a breakpoint at every function of an image of a program at rest, whose pages are the file's, or a jump to a trampoline at those
    /// entries for which one was made just now; how many are missing because the budget is used up.
    pub(super) fn arm_at_rest(&mut self, image: &mut MappedImage, module: &Module, made: &[usize]) -> usize {
        let entries = (0..module.entries.len()).filter(|entry| module.entries[*entry].is_function);
        let (memory, pages) = (&*self.memory, &mut self.pages);
        let Some(trampolines) = self.trampolines.as_mut().filter(|_| !made.is_empty()) else {
            return image.arm_at_rest(module, memory, pages, entries, |_| None);
        };
        let begun = trampolines.stubs.len() - made.len();
        trampolines.pages(begun).for_each(|page| pages.wrote(page));
        let stubs = &mut trampolines.stubs[begun..];
        let mut of_entry: Vec<Option<u32>> = vec![None; module.entries.len()];
        for (index, entry) in made.iter().enumerate() {
            of_entry[*entry] = Some(index as u32);
        }
        let jump = |entry: usize| of_entry[entry].map(|index| &stubs[index as usize]);
        let jump = |entry: usize| jump(entry).map(|stub| (stub.jump_at, stub.jump));
        let missing = image.arm_at_rest(module, memory, pages, entries, jump);
        for (stub, entry) in stubs.iter_mut().zip(made) {
            if !image.is_armed(*entry) {
                stub.state = TrampolineState::Idle;
            }
        }
        missing
    }

    /// Leaves the trampolines alone that were made just now for these entries: nothing jumps to them.
    pub(super) fn leave_trampolines(&mut self, made: &[usize]) {
        let stubs = self.trampolines.iter_mut().flat_map(|trampolines| trampolines.stubs.iter_mut().rev());
        stubs.take(made.len()).for_each(|stub| stub.state = TrampolineState::Idle);
    }

    /// The functions that have noted themselves since this was last asked, for the first time. `all`: also what stands behind a note that
    /// is not complete.
    pub(in super::super) fn hear(&mut self, all: bool) -> Vec<Note> {
        let Some(trampolines) = &mut self.trampolines else { return Vec::new() };
        let mut notes = trampolines.notes(all);
        let images = &mut self.images;
        notes.retain(|(site, _)| {
            let mut images = images.iter_mut().chain(&mut self.gone);
            images.any(|image| image.module == site.module && image.met(site.entry as usize))
        });
        notes
    }

    /// Lets the next call of a function that has run stop its thread.
    pub(in super::super) fn set_gates(&mut self) {
        if let Some(trampolines) = &mut self.trampolines {
            trampolines.set_gates();
        }
    }

    /// True if a thread that hit a breakpoint at this address stands in a trampoline. Then the jumps of all functions that have run give way
    /// to what was there.
    pub(in super::super) fn passes_gate(&mut self, address: u64) -> bool {
        let Some(mut trampolines) = self.trampolines.take() else { return false };
        let passes = trampolines.begins_at(address);
        if passes {
            trampolines.open_gate(address);
            let run = trampolines.stubs.iter_mut();
            let run = run.filter(|stub| matches!(stub.state, TrampolineState::Seen | TrampolineState::Gated));
            let mut run: Vec<&mut Stub> = run.collect();
            self.give_way(&run.iter().map(|stub| (**stub, false)).collect::<Vec<_>>(), true);
            run.iter_mut().for_each(|stub| stub.state = TrampolineState::Idle);
        }
        self.trampolines = Some(trampolines);
        passes
    }

    /// Where an instruction stands in its function that a thread executes in a trampoline, and that faults there: what stood there is put
    /// back, so that the program sees and can repeat what it did.
    pub(in super::super) fn leaves_trampoline(&mut self, modules: &Modules<'_>, address: u64) -> Option<u64> {
        let mut trampolines = self.trampolines.take()?;
        let found = trampolines.replaced(modules, address);
        if let Some((stub, _)) = found {
            let stub = &mut trampolines.stubs[stub];
            stub.state = TrampolineState::Idle;
            self.give_way(&[(*stub, false)], false);
        }
        self.trampolines = Some(trampolines);
        found.map(|(_, address)| address)
    }

    /// True if a trampoline begins at this address.
    pub(super) fn has_trampoline_at(&self, address: u64) -> bool {
        let ours =
            |trampolines: &Trampolines| trampolines.begins_at(address) || trampolines.has_mapped_at(address);
        self.trampolines.as_ref().is_some_and(ours)
    }

    /// True if every function by which the program may make its code writable has a breakpoint.
    pub(in super::super) fn hears_of_writable_code(&self, modules: &Modules<'_>) -> bool {
        self.images.iter().all(|image| {
            let mut entries = modules.get(image.module).make_writable_entries();
            entries.all(|entry| entry.is_some_and(|entry| image.is_armed(entry)))
        })
    }

    /// Ends the time of trampolines, as long as the one thread stands still: their jumps give way to what was there, and to breakpoints
    /// where functions have not run. Returns the last notes. `together`: whether the memory may be written in runs of pages.
    pub(in super::super) fn settle(&mut self, together: bool) -> Vec<Note> {
        let notes = self.hear(true);
        let Some(mut trampolines) = self.trampolines.take() else { return notes };
        trampolines.open();
        let mut jumps = Vec::new();
        for stub in trampolines.stubs.iter().filter(|stub| stub.state != TrampolineState::Idle) {
            let image = self.images.iter().find(|image| image.module == stub.site.module);
            let waits = image.is_some_and(|image| image.is_armed(stub.site.entry as usize));
            jumps.push((*stub, waits && !self.let_go));
        }
        let mappers: Vec<CodeChange> =
            trampolines.mappers.iter().map(|mapper| mapper.change(false)).collect();
        write_at_rest(&*self.memory, &mappers, false);
        self.hears_of_mappings = false;
        let given = self.give_way(&jumps, together);
        for ((stub, waits), given) in jumps.into_iter().zip(given) {
            if let Some(image) = self.images.iter_mut().find(|image| image.module == stub.site.module) {
                image.is_armed_now(stub.site.entry as usize, waits && given);
            }
        }
        notes
    }

    /// Puts back what stood where these jumps stand, with a breakpoint at the function's first byte if so. Which jumps stood there still.
    fn give_way(&mut self, jumps: &[(Stub, bool)], together: bool) -> Vec<bool> {
        let mut order: Vec<usize> = (0..jumps.len()).collect();
        order.sort_unstable_by_key(|index| jumps[*index].0.entry);
        let changes: Vec<CodeChange> = order
            .iter()
            .map(|index| {
                let (stub, armed) = &jumps[*index];
                let inside = (stub.jump_at - stub.entry) as usize;
                let mut change = CodeChange::new(stub.entry, &stub.original[..inside + JUMP]);
                let mut before = stub.original;
                before[inside..inside + JUMP].copy_from_slice(&stub.jump);
                change.expects(stub.entry, &before[..inside + JUMP]);
                if *armed {
                    change.bytes[..TRAP.len()].copy_from_slice(&TRAP);
                }
                change
            })
            .collect();
        let made = write_at_rest(&*self.memory, &changes, together);
        let mut given = vec![false; jumps.len()];
        for (index, made) in order.into_iter().zip(made) {
            given[index] = made;
            if made {
                self.pages.wrote(jumps[index].0.entry);
                self.pages.wrote(jumps[index].0.jump_at + JUMP as u64 - 1);
            }
        }
        given
    }

    /// Puts back what stood where jumps stand in an image of a process that nobody has followed so far.
    pub(super) fn restore_jumps(&self, image: &MappedImage, modules: &Modules<'_>) {
        let module = modules.get(image.module);
        for entry in 0..module.entries.len() {
            let Some(place) = module.place(entry) else { continue };
            let address = module.entries[entry].address + u64::from(place.inside);
            let original = module.bytes_at(address).and_then(<[u8]>::first_chunk::<JUMP>);
            let (Some(original), at) = (original, address.wrapping_add(image.bias)) else { continue };
            let mut now = [0; JUMP];
            let jumps = |code: &[u8]| code.starts_with(&[0xe9]);
            if self.memory.read(at, &mut now).is_ok() && jumps(&now) && !jumps(original) {
                let _ = self.memory.write(at, original);
            }
        }
    }
}
