// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that a program copied while its calls led to stubs. Where the copy is, the distances lead elsewhere, usually to no
//! code: the thread gets SIGSEGV at the first such call. Then the copy gets its own bytes back, and the thread makes the
//! call again.

use super::image::{FileInMemory, ProgramImage};
use super::machine;
use super::supervisor::Supervisor;
use crate::tracing::machine::Registers;
use crate::tracing::mappings::ProcessMapping;
use crate::tracing::system;
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

impl Supervisor<'_> {
    /// Repairs copied code from which a thread stopped by SIGSEGV has called nothing. True if the thread makes the call
    /// again.
    pub(super) fn repairs_copy(&self, thread: Pid) -> bool {
        let Some(missing) = missing_code(thread) else { return false };
        let Some(found) = self.threads.get(&thread) else { return false };
        let Some(image) = found.place.and_then(|(image, _)| self.images[image].as_ref()) else {
            return false;
        };
        self.opened_of(thread, found.process)
            .and_then(|opened| repair(thread, missing, (&opened.memory, &opened.mappings()?), image))
            .unwrap_or(false)
    }
}

/// Address of the instruction that a thread could not fetch; `None` if it could not read or write.
fn missing_code(thread: Pid) -> Option<u64> {
    let address = system::fault_address(thread)?;
    (Registers::of(thread).ok()?.program_counter() == address).then_some(address)
}

/// Looks in copies of the files for the call that led a thread to this address, and gives the copy its own bytes back.
fn repair(
    thread: Pid,
    missing: u64,
    (memory, mapped): (&File, &[ProcessMapping]),
    image: &ProgramImage,
) -> io::Result<bool> {
    let is_original =
        |mapping: &ProcessMapping| image.files().any(|file| file.range.contains(&mapping.range.start));
    let copies: Vec<_> =
        mapped.iter().filter(|mapping| mapping.executable && !is_original(mapping)).collect();
    for file in image.files() {
        for change in file.changes().iter() {
            let start = missing.wrapping_sub(machine::copied_code::leads_to(change.changed));
            let Some(copy) = copies.iter().find(|copy| copy.range.contains(&start)) else { continue };
            let mut there = vec![0; change.changed.len()];
            if memory.read_exact_at(&mut there, start).is_err()
                || there != change.changed
                || !machine::copied_code::call_again(thread, memory, start, there.len() as u64)?
            {
                continue;
            }
            give_back(memory, start.wrapping_sub(change.at), &copy.range, file)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Gives a copy of a file's code its own bytes back, call by call: the program may write to other bytes of its pages meanwhile.
fn give_back(memory: &File, bias: u64, copy: &Range<u64>, file: &FileInMemory) -> io::Result<()> {
    let mut there = Vec::new();
    for change in file.changes().iter() {
        let at = change.at.wrapping_add(bias);
        there.resize(change.changed.len(), 0);
        if copy.contains(&at) && memory.read_exact_at(&mut there, at).is_ok() && there == change.changed {
            memory.write_all_at(change.original, at)?;
        }
    }
    Ok(())
}
