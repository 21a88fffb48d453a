// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jumps of an address space to its [`Trampolines`]. They are set and removed while its only thread is stopped.

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
    /// Maps memory for trampolines into a process that has just become the program with this first instruction. Without
    /// such memory, it gets breakpoints only.
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

    /// Sets the jumps in the dynamic linker at the places where it maps files, after its functions have their jumps.
    pub(super) fn hear_of_mappings(&mut self) {
        let mappers = self.trampolines.iter().flat_map(|trampolines| &trampolines.mappers);
        let jumps: Vec<CodeChange> = mappers.map(|mapper| mapper.change(true)).collect();
        self.hears_of_mappings &= !write_at_rest(&*self.memory, &jumps, false).contains(&false);
        jumps.iter().for_each(|jump| self.pages.wrote(jump.address()));
    }

    /// True if a thread that hit a breakpoint at this address has mapped code as part of the dynamic linker.
    pub(in super::super) fn has_mapped_at(&self, address: u64) -> bool {
        self.trampolines.as_ref().is_some_and(|trampolines| trampolines.has_mapped_at(address))
    }

    /// Makes trampolines for the functions of an image of a stopped program, and compares its memory with the file
    /// meanwhile, as in [`MappedImage::agrees_at_rest`]. Returns the entries that got one.
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

    /// Sets a jump to a trampoline at the entries in `made`, whose trampolines are the last ones, and a breakpoint at
    /// every other function of an image. The program is stopped, and its pages are the file's. Returns how many are
    /// missing because the budget is used up.
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

    /// Marks the trampolines of these entries, which are the last ones, as idle: nothing jumps to them.
    pub(super) fn leave_trampolines(&mut self, made: &[usize]) {
        let stubs = self.trampolines.iter_mut().flat_map(|trampolines| trampolines.stubs.iter_mut().rev());
        stubs.take(made.len()).for_each(|stub| stub.state = TrampolineState::Idle);
    }

    /// Returns the functions that have noted their first use since the last call. `all`: also notes that follow an
    /// incomplete note.
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

    /// Makes functions that have run stop their thread at the next call.
    pub(in super::super) fn set_gates(&mut self) {
        if let Some(trampolines) = &mut self.trampolines {
            trampolines.set_gates();
        }
    }

    /// True if a thread that hit a breakpoint at this address is in a trampoline. Then the original code replaces the
    /// jumps of all functions that have run.
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

    /// Returns the address in its function of an instruction that a thread executes in a trampoline and that faults
    /// there. Restores the function's code, so that the program sees the fault there and can repeat the instruction.
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

    /// Ends the use of trampolines while the only thread is stopped: replaces their jumps by the original code, and by
    /// breakpoints in functions that have not run. Returns the last notes. `together`: the memory may be written in
    /// runs of pages.
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

    /// Replaces these jumps by the original code, with a breakpoint at the function's first byte if its flag is set.
    /// Returns which jumps were still there.
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

    /// Replaces the jumps in an image by the original code, in a process that was not followed before.
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
