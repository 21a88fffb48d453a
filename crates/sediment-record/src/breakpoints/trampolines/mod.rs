// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trampolines, with which a program notes first uses by itself, without a stop.
//!
//! A jump replaces a function's first instructions. It leads to code in memory that the recorder mapped. That code
//! notes the function and its caller, executes the replaced instructions and jumps back. The recorder reads the notes.
//!
//! ```text
//! exec, one thread ─► the program maps memory shared with us; jumps are set when code is mapped
//! at intervals ─► notes are read; functions that have run get a breakpoint in their trampoline
//! such a breakpoint ─► the thread is stopped: the original code replaces the jumps of these functions
//! fork, vfork, clone, the end ─► the thread is stopped: the original code replaces all jumps, with
//!                                 breakpoints if the recording continues
//! ```
//!
//! Jumps are set and removed only while the process's only thread is stopped, so nobody executes half a jump.
//! [`super::detours`] decides which instructions a trampoline may replace; [`stub`] has its code. The memory stays
//! mapped: a thread may be executing it, and its notes outlive the process.

mod stub;

use super::calls::CallRequest;
use super::changes::{CodeChange, LONGEST_CHANGE};
use super::detours::JumpPlace;
use super::kernel::Kernel;
use super::modules::Site;
use super::modules::{Module, Modules};
use crate::tracing::machine::{ISA, TRAP};
use crate::tracing::mappings::{is_limited, status_field};
use nix::libc;
use nix::unistd::Pid;
use sediment_core::isa::JUMP;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use stub::{DisplacedCode, RECORD, StubTargets};

/// Page size; mappings begin at multiples of it.
const PAGE: u64 = super::budget::PAGE;
/// Largest number of bytes of a trampoline.
const LONGEST: u64 = 112;
/// Distance between the program's first mapping and the memory mapped before it.
const GAP: u64 = 16 * PAGE;
/// End of the addresses of programs that are linked to fixed addresses.
const LOW: u64 = 1 << 32;
/// Records in addition to one for each function: a signal may arrive while a record is written.
const SPARE: u64 = 1024;
/// Name of the memory in /proc/ID/maps.
const NAME: &[u8] = b"sediment\0";
pub(super) const SHOWN: &str = "/memfd:sediment (deleted)";
/// Offset of the bytes that show whether a function has run; the number of records is before them.
const SEEN: u64 = 64;

/// The trampolines of a process, and the jumps to them.
#[derive(Debug, Clone)]
pub(super) struct Trampolines {
    file: Arc<File>,
    areas: [TrampolineArea; 2],
    most: u64,
    log: u64,
    /// By trampoline id, beginning with 1.
    pub(super) stubs: Vec<Stub>,
    /// Number of records that were read.
    read: u64,
    /// True if some functions have run but have no breakpoint in their trampolines yet.
    has_news: bool,
    /// Places in the dynamic linker that map files.
    pub(super) mappers: Vec<Mapper>,
}

/// A place in the dynamic linker that maps files, with a jump to our code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapper {
    /// Address at which a thread stops after it has mapped code, and the address of this place in the file.
    stops_at: u64,
    offset: u64,
    /// Address of the jump, the jump, and the bytes that it replaces.
    at: u64,
    jump: [u8; JUMP],
    original: [u8; JUMP],
}

/// Memory for trampolines near one part of the program, and the notes, which all areas share.
#[derive(Debug, Clone, Copy)]
struct TrampolineArea {
    notes: u64,
    /// Address of the code, which begins with the writer.
    code: u64,
    /// Offset of its code in the file.
    offset: u64,
    size: u64,
    used: u64,
}

/// A function with a trampoline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stub {
    pub(super) site: Site,
    /// Address of the trampoline, and its offset in the file.
    pub(super) address: u64,
    offset: u64,
    /// Address of the function, and of the jump.
    pub(super) entry: u64,
    pub(super) jump_at: u64,
    /// Length of the replaced instructions in bytes.
    pub(super) length: u8,
    /// The jump.
    pub(super) jump: [u8; JUMP],
    /// Original bytes, from the function's first byte to the end of the jump.
    pub(super) original: [u8; LONGEST_CHANGE],
    pub(super) state: TrampolineState,
    /// True while there is a breakpoint in the trampoline.
    is_closed: bool,
}

/// State of a trampoline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrampolineState {
    /// The function has not run.
    Waits,
    /// The function has run; the jump is still there.
    Seen,
    /// The function has run, the jump is still there, and the trampoline has a breakpoint.
    Gated,
    /// Nothing jumps here any more.
    Idle,
}

/// A function that has run, and its return address.
pub(super) type Note = (Site, u64);

impl Mapper {
    /// Change that sets the jump, or removes it.
    pub(super) fn change(&self, jumps: bool) -> CodeChange {
        let (from, to) = if jumps { (&self.original, &self.jump) } else { (&self.jump, &self.original) };
        let mut change = CodeChange::new(self.at, to);
        change.expects(self.at, from);
        change
    }
}

impl Trampolines {
    /// Maps memory for this many trampolines, for the program and for libraries, into a process that has just called
    /// exec and whose lowest address is `lowest`. The process makes the system calls itself, with the instruction at
    /// `at`; their arguments are in memory below its stack.
    pub(super) fn lay(
        kernel: &dyn Kernel,
        thread: Pid,
        (at, lowest, stack): (u64, u64, u64),
        (own, libraries): (u64, u64),
    ) -> io::Result<Self> {
        if status_field(thread, "Seccomp").as_deref() != Some("0") || is_limited(thread) {
            return Err(io::Error::other("the process has a seccomp filter or a memory limit"));
        }
        let whole = |bytes: u64| bytes.div_ceil(PAGE) * PAGE;
        let most = own + libraries + SPARE;
        let log = whole(SEEN + own + libraries + 2);
        let notes = log + whole(most * RECORD);
        let sizes = [own, libraries].map(|number| whole((number + 8) * LONGEST));
        let name = stack.wrapping_sub(PAGE / 2) & !15;
        kernel.memory(thread)?.write(name, NAME)?;
        let call = |number: i64, arguments: [u64; 6]| Some(CallRequest { number: number as u64, arguments });
        let map = |address: u64, length: u64, protection: i32, file: i64, offset: u64| {
            let fixed = if address == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | fixed;
            call(libc::SYS_mmap, [address, length, protection as u64, flags as u64, file as u64, offset])
        };
        // A program at a fixed low address may map anything below itself. It gets no trampolines, only breakpoints.
        let below = |size: u64| lowest.checked_sub(GAP + notes + size).filter(|start| *start >= LOW);
        let (data, code) = (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ | libc::PROT_EXEC);
        let (mut results, mut opened): (Vec<i64>, Option<io::Result<File>>) = (Vec::new(), None);
        kernel.make_calls(thread, at, &mut |result| {
            results.extend(result);
            let file = results.first().copied().unwrap_or(-1);
            match results.len() {
                0 => return call(libc::SYS_memfd_create, [name, libc::MFD_CLOEXEC.into(), 0, 0, 0, 0]),
                _ if file < 0 => return None,
                1 => {
                    let path = format!("/proc/{thread}/fd/{file}");
                    let opening = OpenOptions::new().read(true).write(true).open(path);
                    let length = notes + sizes[0] + sizes[1];
                    opened = Some(opening.and_then(|file| file.set_len(length).map(|()| file)));
                }
                _ => {}
            }
            let base = below(sizes[0]).unwrap_or(0);
            let after = if base == 0 { 0 } else { base + notes };
            match results.len() {
                1 if matches!(opened, Some(Err(_))) => call(libc::SYS_close, [file as u64, 0, 0, 0, 0, 0]),
                1 => map(base, notes, data, file, 0),
                2 if matches!(opened, Some(Err(_))) => None,
                2 => map(after, sizes[0], code, file, notes),
                3 => map(0, notes, data, file, 0),
                4 => map(0, sizes[1], code, file, notes + sizes[0]),
                5 => call(libc::SYS_close, [file as u64, 0, 0, 0, 0, 0]),
                _ => None,
            }
        })?;
        // The stack gets back the content that the kernel gave it.
        kernel.memory(thread)?.write(name, &[0; NAME.len()])?;
        let file = opened
            .unwrap_or_else(|| Err(io::Error::other("the process cannot map memory for trampolines")))?;
        let area = |results: &[i64], offset, size| {
            let [notes, code] = [0, 1].map(|index| results.get(index).copied().filter(|result| *result > 0));
            // Without a mapping, no trampoline fits.
            let (notes, code) = notes.zip(code).unwrap_or((0, 0));
            let size = if code == 0 { 0 } else { size };
            TrampolineArea { notes: notes as u64, code: code as u64, offset, size, used: 0 }
        };
        let areas = [
            area(&results[1..], notes, sizes[0]),
            area(results.get(3..).unwrap_or_default(), notes + sizes[0], sizes[1]),
        ];
        let mut laid = Self {
            file: Arc::new(file),
            areas,
            most,
            log,
            stubs: Vec::with_capacity(most as usize),
            read: 0,
            has_news: false,
            mappers: Vec::new(),
        };
        laid.put_writers()?;
        Ok(laid)
    }

    /// Writes the writer's code to the beginning of each area.
    fn put_writers(&mut self) -> io::Result<()> {
        for area in self.areas.iter_mut().filter(|area| area.size > 0) {
            let written = StubTargets {
                seen: area.notes + SEEN,
                number: area.notes,
                log: area.notes + self.log,
                most: self.most as u32,
            };
            if let Some(code) = stub::writer(area.code, written) {
                self.file.write_all_at(&code, area.offset)?;
                area.used = code.len() as u64;
            } else {
                area.size = 0;
            }
        }
        Ok(())
    }

    /// Makes code that stops a thread of the dynamic linker, which is this module with this bias, after it has mapped
    /// code.
    pub(super) fn watch_mappings(&mut self, module: &Module, bias: u64) -> Option<()> {
        let detour = ISA.detour.as_ref()?;
        let area = &mut self.areas[1];
        for found in module.find_code(&stub::MAPS).filter(|found| module.has_no_entry_near(*found, JUMP)) {
            let (at, address) = (found.wrapping_add(bias), area.code + area.used);
            if area.used + LONGEST > area.size {
                return None;
            }
            let code = stub::mapping(address, at, detour)?;
            let jump = (detour.jump)(at, address)?;
            self.file.write_all_at(&code, area.offset + area.used).ok()?;
            let offset = area.offset + area.used + stub::MAPPED;
            area.used += code.len() as u64;
            let original = *stub::MAPS.first_chunk()?;
            self.mappers.push(Mapper { stops_at: address + stub::MAPPED, offset, at, jump, original });
        }
        Some(())
    }

    /// True if a thread that hit a breakpoint at this address has mapped code.
    pub(super) fn has_mapped_at(&self, address: u64) -> bool {
        self.mappers.iter().any(|mapper| mapper.stops_at == address)
    }

    /// Makes a trampoline for each of these entries of an image, if one fits. Returns the entries that have one. `bias`
    /// is the difference between addresses in memory and in the file.
    pub(super) fn make(
        &mut self,
        (id, module, bias): (u32, &Module, u64),
        entries: impl Iterator<Item = (usize, JumpPlace)>,
    ) -> io::Result<Vec<usize>> {
        let Some(detour) = &ISA.detour else { return Ok(Vec::new()) };
        let begun = (self.stubs.len(), self.areas.map(|area| area.used));
        let room = module.count_jumps() * LONGEST;
        let mut codes = self.areas.map(|area| Vec::with_capacity(room.min(area.size - area.used) as usize));
        let mut made = Vec::new();
        for (index, place) in entries {
            let entry = module.entries[index].address;
            let inside = entry + u64::from(place.inside);
            let Some(original) = module.bytes_at(inside) else { continue };
            let displaced = DisplacedCode {
                code: &original[..usize::from(place.length).min(original.len())],
                address: inside.wrapping_add(bias),
                ends: place.ends,
                plain: place.plain,
            };
            let covered = usize::from(place.inside) + JUMP;
            let Some(covered) = module.bytes_at(entry).and_then(|code| code.get(..covered)) else { continue };
            let mut original = [0; LONGEST_CHANGE];
            original[..covered.len()].copy_from_slice(covered);
            let number = self.stubs.len() as u64;
            for (area, code) in self.areas.iter_mut().zip(&mut codes) {
                let before = code.len();
                let address = area.code + area.used;
                if area.used + LONGEST > area.size || SEEN + number + 1 >= self.log {
                    continue;
                }
                let Some(jump) = (detour.jump)(displaced.address, address) else { continue };
                let writes = (number as u32 + 1, area.notes + SEEN, area.code);
                if stub::stub(code, address, writes, displaced, detour).is_none() {
                    code.truncate(before);
                    continue;
                }
                self.stubs.push(Stub {
                    site: Site { module: id, entry: index as u32 },
                    address,
                    offset: area.offset + area.used,
                    entry: entry.wrapping_add(bias),
                    jump_at: displaced.address,
                    length: place.length,
                    jump,
                    original,
                    state: TrampolineState::Waits,
                    is_closed: false,
                });
                area.used += (code.len() - before) as u64;
                made.push(index);
                break;
            }
        }
        for ((area, code), used) in self.areas.iter().zip(&codes).zip(begun.1) {
            if let Err(error) = self.file.write_all_at(code, area.offset + used) {
                self.stubs.truncate(begun.0);
                return Err(error);
            }
        }
        Ok(made)
    }

    /// Addresses of the memory used by the trampolines from this index on.
    pub(super) fn pages(&self, from: usize) -> impl Iterator<Item = u64> {
        self.stubs[from..].iter().map(|stub| stub.address)
    }

    /// Returns the functions that have run since the last call, in order. `all`: skips an incomplete record; otherwise
    /// the records after an incomplete one wait, because a signal may have arrived while it was written.
    pub(super) fn notes(&mut self, all: bool) -> Vec<Note> {
        let mut number = [0; 8];
        if self.file.read_exact_at(&mut number, 0).is_err() {
            return Vec::new();
        }
        let number = u64::from_ne_bytes(number).min(self.most);
        let mut records = vec![0; (number.saturating_sub(self.read) * RECORD) as usize];
        if records.is_empty() || self.file.read_exact_at(&mut records, self.log + self.read * RECORD).is_err()
        {
            return Vec::new();
        }
        let mut notes = Vec::new();
        for record in records.chunks_exact(RECORD as usize) {
            let (id, caller) = record.split_at(8);
            let [id, caller] = [id, caller].map(|bytes| bytes.try_into().map_or(0, u64::from_ne_bytes));
            if id == 0 && !all {
                break;
            }
            self.read += 1;
            let stub = (id as usize).checked_sub(1).and_then(|index| self.stubs.get_mut(index));
            if let Some(stub) = stub.filter(|stub| stub.state == TrampolineState::Waits) {
                stub.state = TrampolineState::Seen;
                self.has_news = true;
                notes.push((stub.site, caller));
            }
        }
        notes
    }

    /// Sets a breakpoint in each trampoline whose function has run, so that the next call stops the thread.
    pub(super) fn set_gates(&mut self) {
        if !std::mem::take(&mut self.has_news) {
            return;
        }
        for stub in self.stubs.iter_mut().filter(|stub| stub.state == TrampolineState::Seen) {
            if self.file.write_all_at(&TRAP, stub.offset).is_ok() {
                (stub.state, stub.is_closed) = (TrampolineState::Gated, true);
            }
        }
    }

    /// Removes the breakpoint in a trampoline at which a thread is stopped.
    pub(super) fn open_gate(&mut self, address: u64) {
        for stub in self.stubs.iter_mut().filter(|stub| stub.address == address) {
            stub.is_closed &= self.file.write_all_at(&stub::FIRST, stub.offset).is_err();
        }
    }

    /// Removes all breakpoints in trampolines, because a thread may execute them when it is no longer followed.
    pub(super) fn open(&mut self) {
        for stub in self.stubs.iter_mut().filter(|stub| stub.is_closed) {
            stub.is_closed &= self.file.write_all_at(&stub::FIRST, stub.offset).is_err();
        }
        for mapper in &self.mappers {
            let _ = self.file.write_all_at(&stub::NOTHING, mapper.offset);
        }
    }

    /// Returns the trampoline and the original address of an instruction that a thread executes in the trampoline;
    /// `None` for an address that holds no such instruction. The trampoline becomes idle.
    pub(super) fn replaced(&self, modules: &Modules<'_>, address: u64) -> Option<(usize, u64)> {
        let detour = ISA.detour.as_ref()?;
        self.areas.iter().find(|area| (area.code..area.code + area.used).contains(&address))?;
        // The trampolines of an area are in ascending order.
        let near = |(_, stub): &(usize, &Stub)| (stub.address..stub.address + LONGEST).contains(&address);
        let all = self.stubs.iter().enumerate().filter(near);
        let (index, stub) = all.max_by_key(|(_, stub)| stub.address)?;
        let inside = stub.jump_at - stub.entry;
        let module = modules.get(stub.site.module);
        let code = module.bytes_at(module.entries[stub.site.entry as usize].address + inside)?;
        let own = stub.address + stub::OWN;
        (0..u64::from(stub.length)).find_map(|before| {
            let mut moved = Vec::new();
            (detour.moved)(code.get(..before as usize)?, stub.jump_at, own, &mut moved)?;
            (own + moved.len() as u64 == address).then_some((index, stub.jump_at + before))
        })
    }

    /// True if a trampoline begins at this address.
    pub(super) fn begins_at(&self, address: u64) -> bool {
        let inside = |area: &TrampolineArea| (area.code..area.code + area.used).contains(&address);
        self.areas.iter().any(inside) && self.stubs.iter().any(|stub| stub.address == address)
    }
}
