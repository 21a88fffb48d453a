// SPDX-License-Identifier: MIT OR Apache-2.0
//! Switches the code of a process whose threads are stopped: to the stubs, or back to the code of the file.
//!
//! For a call through a register, the instructions before it move into the stub, so the bytes there differ between the
//! two states. If a thread is stopped among them, or continues there when a signal handler returns, it must find the
//! same bytes. If possible, the thread's instruction pointer is moved. If a signal handler interrupted it there, the
//! bytes stay until the next switch.

use super::changes::SiteChange;
use super::code::{CodeState, write_changes};
use super::image::{FileInMemory, ProgramImage};
use super::machine;
use crate::tracing::machine::Registers;
use crate::tracing::mappings::ProcessMapping;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Sites to switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SwitchedSites {
    All,
    /// Sites that are counted only in bursts.
    Sampled,
}

/// Result of switching the code of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switched {
    Whole,
    /// All sites except those whose bytes a thread was executing, or returns to from a signal handler.
    InPart,
    /// All sites except those that the program has changed or mapped over.
    ButForChanges,
    /// The threads did not stop.
    Running,
    /// The code is not writable.
    Failed,
}

/// Number of bytes of a stack that are searched.
const STACK: u64 = 8 << 20;

impl ProgramImage {
    /// Switches the code of a process whose threads are all stopped.
    pub(super) fn switch(
        &self,
        threads: &[Pid],
        (memory, mapped): (&File, &[ProcessMapping]),
        (to, which): (CodeState, SwitchedSites),
    ) -> io::Result<Switched> {
        let files: Vec<&FileInMemory> = self.files().filter(|file| file.is_mapped_among(mapped)).collect();
        let (mut kept, mut others) = (BTreeSet::new(), 0);
        // The mapping that is now at the place of a file may still be this file.
        let is_unclear = |file: &FileInMemory| {
            let is_there = |mapping: &ProcessMapping| file.range.contains(&mapping.range.start);
            file.is_mapped && !file.is_mapped_among(mapped) && mapped.iter().any(is_there)
        };
        if which == SwitchedSites::All && self.files().any(is_unclear) {
            others += 1;
        }
        for thread in threads {
            let Ok(registers) = Registers::of(*thread) else { continue };
            match window(&files, registers.program_counter()) {
                // The call has not been made yet, and nothing was done before it.
                Some(start) if to == CodeState::ToOriginal => {
                    registers.going_to(start).put(*thread)?;
                }
                Some(start) => drop(kept.insert(start)),
                None => {}
            }
            let places = interrupted(memory, registers, mapped);
            kept.extend(places.into_iter().filter_map(|place| window(&files, place)));
        }
        for file in files {
            let switches = |change: &SiteChange<'_>| {
                let is_chosen = which == SwitchedSites::All || file.is_sampled(change.site);
                is_chosen && !kept.contains(&change.at.wrapping_add(file.bias))
            };
            others += write_changes(memory, (file.bias, file.changes()), to, &switches)?;
        }
        Ok(match (others, kept.is_empty()) {
            (0, true) => Switched::Whole,
            (0, false) => Switched::InPart,
            _ => Switched::ButForChanges,
        })
    }

    /// True if a stopped thread is in stubs, or may return to them.
    pub(super) fn is_in_stubs(
        &self,
        thread: Pid,
        (memory, mapped): (&File, &[ProcessMapping]),
    ) -> io::Result<bool> {
        let registers = Registers::of(thread)?;
        let regions = self.regions();
        let is_inside = |place: u64| regions.iter().any(|region| region.range().contains(&place));
        let places = interrupted(memory, registers, mapped);
        Ok(is_inside(registers.program_counter()) || places.into_iter().any(is_inside))
    }

    /// True if an address is among changed bytes, after the first.
    pub(super) fn has_window_at(&self, address: u64) -> bool {
        let files: Vec<&FileInMemory> = self.files().filter(|file| file.is_mapped).collect();
        window(&files, address).is_some()
    }

    /// Restores the code of all files, even while threads run.
    pub(super) fn restore(&self, memory: &File) -> io::Result<()> {
        for file in self.files().filter(|file| file.is_mapped) {
            write_changes(memory, (file.bias, file.changes()), CodeState::ToOriginal, &|_| true)?;
        }
        Ok(())
    }
}

/// Finds the start of the changed bytes that contain an address after their first byte.
fn window(files: &[&FileInMemory], address: u64) -> Option<u64> {
    let file = files.iter().find(|file| file.range.contains(&address))?;
    file.changes().window_at(address.wrapping_sub(file.bias)).map(|start| start.wrapping_add(file.bias))
}

/// Finds on the stack of a stopped thread the addresses at which signal handlers have interrupted it.
fn interrupted(memory: &File, registers: Registers, mapped: &[ProcessMapping]) -> Vec<u64> {
    let top = registers.stack();
    let Some(stack) = mapped.iter().find(|mapping| mapping.range.contains(&top)) else { return Vec::new() };
    let from = top & !7;
    let mut bytes = vec![0; (stack.range.end - from).min(STACK) as usize];
    if memory.read_exact_at(&mut bytes, from).is_err() {
        return Vec::new();
    }
    let words = bytes.chunks_exact(8).filter_map(|word| word.first_chunk());
    let words: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
    machine::threads::interrupted(&words)
}
