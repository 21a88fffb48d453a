// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the stubs of a file, and the changed instructions of its code that lead to them.
//!
//! The stub of a direct call, and that of a call through a register (here x3):
//!
//! ```text
//!       stp   x16, x17, [sp, -16]!           stp   x16, x17, [sp, -32]!; stp x14, x15, [sp, 16]
//!       mrs   x16, tpidr_el0                 mov   x15, x3
//!       adrp  x17, table                     the block in x17, as on the left
//!       add   x16, x16, x16, lsr 9           add   x17, x17, record
//!       ubfx  x16, x16, 12, 8                ldr   x16, [x17], 8
//!       ldr   x17, [x17, x16, lsl 3]         sub   x16, x16, x15
//!       add   x17, x17, counter              cbnz  x16, other
//!       mov   x16, -1                 count: mov   x16, 1
//!       ldadd x16, x16, [x17]                stadd x16, [x17]
//!       cbz   x16, first                out: ldp   x14, x15, [sp, 16]; ldp x16, x17, [sp], 32
//!  out: ldp   x16, x17, [sp], 16             br    x3
//!       b     callee                  other: the second target, or the shared code
//!  first: the shared code, then out
//! ```
//!
//! A stub changes no register and no flag, so it makes no assumptions about the code around it. Linkers may change x16 and
//! x17 between a caller and its callee, but not within code of an assembler, nor at calls for thread-local variables.
//!
//! The last instruction is the program's own, without link. Stubs are in pages without guard (BTI): a branch from there
//! may arrive at any landing pad, whatever the register.

use super::shared_code::A64Routines;
use super::threads::find_block;
use super::writer::{A64Writer, Add, B, CBNZ, CBNZ_4, CBZ, ForwardBranch, Register, branch, target};
use crate::call_sites::changes::SiteChange;
use crate::call_sites::counters::{RECORD_BYTES, TO_NOTE};
use crate::call_sites::placement::{FileSites, MadeStubs, StubPlacement, TooFar};
use crate::call_sites::sites::{DirectForm, DirectSite};
use nix::libc;

/// Bytes of the stub of a direct site, and of that of an indirect one: with atomic instructions, and without.
const DIRECT_BYTES: [u64; 2] = [64, 96];
const INDIRECT_BYTES: [u64; 2] = [112, 144];
/// Further bytes of a stub if calls are traced.
const TRACED: u64 = 16;
/// Largest number of bytes of the code that all stubs of a file share.
const COMMON_BYTES: u64 = 1536;

/// True if the processor has atomic instructions (LSE).
fn has_atomics() -> bool {
    /// HWCAP_ATOMICS of AArch64.
    const ATOMICS: libc::c_ulong = 1 << 8;
    hardware() & ATOMICS != 0
}

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
fn hardware() -> libc::c_ulong {
    // SAFETY: the argument is a number.
    unsafe { libc::getauxval(libc::AT_HWCAP) }
}

#[cfg(not(target_arch = "aarch64"))]
fn hardware() -> libc::c_ulong {
    libc::c_ulong::MAX
}

fn direct_bytes(is_traced: bool, has_atomics: bool) -> u64 {
    DIRECT_BYTES[usize::from(!has_atomics)] + if is_traced { TRACED } else { 0 }
}

/// Bytes of the stubs of direct sites if calls are traced.
pub(in crate::call_sites) fn traced_bytes() -> [u64; 2] {
    [direct_bytes(true, has_atomics()); 2]
}

/// Largest number of bytes of stubs for these sites.
pub(in crate::call_sites) fn size(sites: &FileSites<'_>) -> u64 {
    let direct = direct_bytes(true, has_atomics()) * sites.direct.len() as u64;
    let indirect = (INDIRECT_BYTES[usize::from(!has_atomics())] + TRACED) * sites.indirect.len() as u64;
    COMMON_BYTES + direct + indirect
}

/// Bytes on the stack of a noted call between the stack pointer that it has and the caller's at the call or jump.
pub(in crate::call_sites) fn depth_of_direct(_: &DirectSite) -> u32 {
    16 * direct_saved(has_atomics()).len() as u32
}

/// The same for an indirect site.
pub(in crate::call_sites) fn depth_of_indirect(_: bool) -> u32 {
    16 * INDIRECT_SAVED.len() as u32
}

/// Pairs of registers that a stub saves.
fn direct_saved(has_atomics: bool) -> &'static [(Register, Register)] {
    if has_atomics { &[(16, 17)] } else { &[(16, 17), (14, 15)] }
}
const INDIRECT_SAVED: &[(Register, Register)] = &[(16, 17), (14, 15)];

/// `None`: stubs are made again for another place, because their distance from the table changes, too.
pub(in crate::call_sites) fn moved(_: &MadeStubs, _: i64) -> Option<MadeStubs> {
    None
}

/// Makes the stubs of a file, in at most `size` bytes.
pub(in crate::call_sites) fn emit(sites: &FileSites<'_>, size: u64, placement: &StubPlacement) -> MadeStubs {
    emit_for(sites, size, placement, has_atomics())
}

/// The same for processors with or without atomic instructions.
pub(super) fn emit_for(
    sites: &FileSites<'_>,
    size: u64,
    placement: &StubPlacement,
    has_atomics: bool,
) -> MadeStubs {
    let mut made = MadeStubs::default();
    let mut code = A64Writer::new(placement.stubs, has_atomics);
    code.bytes.reserve(size as usize);
    made.changes.reserve(sites.direct.len() + sites.indirect.len());
    let Ok(shared) = A64Routines::emit(&mut code, placement) else {
        made.too_far = (sites.direct.len() + sites.indirect.len()) as u64;
        return made;
    };
    code.align(64);
    let first = code.bytes.len();
    made.noting.first = [first as u32; 2];
    let bytes = direct_bytes(placement.is_traced, has_atomics) as usize;
    for (index, site) in sites.direct.iter().enumerate() {
        let at = code.here();
        let counter = placement.counters.at + 8 * index as u64;
        let word = direct(&mut code, (site, counter), placement, &shared)
            .and_then(|()| changed(site.at.wrapping_add(placement.bias), site.form, at));
        let Ok(word) = word else {
            code.bytes.truncate(first + index * bytes);
            code.bytes.resize(first + (index + 1) * bytes, 0);
            made.too_far += 1;
            continue;
        };
        code.bytes.resize(first + (index + 1) * bytes, 0);
        let target = site.target.wrapping_sub(site.at) as i64;
        // The instruction of the file depends only on distances in the file.
        let original = branch(opcode(site.form), 0, target as u64).unwrap_or_default();
        made.add(site.at, index, original, word);
    }
    for (index, site) in sites.indirect.iter().enumerate() {
        let at = code.here();
        let record = placement.counters.records() + RECORD_BYTES * index as u64;
        let original = site.original.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let form = if site.is_tail { DirectForm::Branch } else { DirectForm::BranchWithLink };
        match changed(site.at.wrapping_add(placement.bias), form, at) {
            Ok(word) => {
                let noting = indirect(&mut code, (original, record), placement, &shared);
                made.noting.indirect.extend(noting.map(|offset| (offset as u32, index as u32)));
                made.add(site.at, sites.direct.len() + index, original, word);
            }
            Err(TooFar) => made.too_far += 1,
        }
    }
    made.changes = made.changes.sorted();
    made.code = code.bytes;
    made
}

impl MadeStubs {
    fn add(&mut self, at: u64, site: usize, original: u32, changed: u32) {
        let (original, changed) = (original.to_le_bytes(), changed.to_le_bytes());
        let change = SiteChange { at, site: site as u32, original: &original, changed: &changed };
        self.changes.add(change, 0);
    }
}

fn opcode(form: DirectForm) -> u32 {
    if form.is_call() { super::writer::BL } else { B }
}

/// The instruction at an address that leads to a stub.
fn changed(at: u64, form: DirectForm, stub: u64) -> Result<u32, TooFar> {
    branch(opcode(form), at, stub).ok_or(TooFar)
}

/// Branches if the thread, whose block is in x17, must note calls.
fn must_note(code: &mut A64Writer) -> ForwardBranch {
    code.load_of_4(16, 17, TO_NOTE);
    code.ahead(CBNZ_4 | 16)
}

/// The stub of a direct site.
fn direct(
    code: &mut A64Writer,
    (site, counter): (&DirectSite, u64),
    placement: &StubPlacement,
    shared: &A64Routines,
) -> Result<(), TooFar> {
    const COUNT: Add = Add { number: -1, is_of_4: false };
    let saved = direct_saved(code.has_atomics);
    code.push(saved);
    find_block(code, placement.room, 17, 16)?;
    let noting = shared.note_direct.map(|note| (must_note(code), note));
    let noted = code.bytes.len();
    code.number_of_4(16, counter);
    code.add(17, 17, 16);
    let other = if code.has_atomics { 16 } else { 15 };
    code.fetch_add(COUNT, 17, 16, other);
    let first = code.ahead(CBZ | 16);
    let out = code.bytes.len();
    code.pop(saved);
    let target = site.target.wrapping_add(placement.bias);
    match shared.wait {
        Some(wait) if shared.notice == Some(target) => code.jump(wait)?,
        _ => code.jump(target)?,
    }
    code.land(first);
    code.address(16, out);
    code.jump(shared.number)?;
    if let Some((must_note, note)) = noting {
        code.land(must_note);
        code.address(16, noted);
        code.jump(note)?;
    }
    Ok(())
}

/// The stub of an indirect site with this instruction. Returns the offset to which the code that notes its call returns,
/// if calls are traced.
fn indirect(
    code: &mut A64Writer,
    (instruction, record): (u32, u64),
    placement: &StubPlacement,
    shared: &A64Routines,
) -> Option<usize> {
    code.push(INDIRECT_SAVED);
    code.copy(15, instruction >> 5 & 31);
    if instruction & AUTHENTICATED != 0 {
        code.put(0xdac1_43e0 | 15); // xpaci x15
    }
    // The table and the shared code are near.
    find_block(code, placement.room, 17, 16).ok()?;
    let noting = shared.note_indirect.map(|note| (must_note(code), note));
    let noted = code.bytes.len();
    code.number_of_4(16, record);
    code.add(17, 17, 16);
    code.load_then_add(16, 17, 8);
    code.subtract(16, 16, 15);
    let second = code.ahead(CBNZ | 16);
    let count = code.bytes.len();
    code.count(17, 16, 14);
    let out = code.bytes.len();
    code.pop(INDIRECT_SAVED);
    code.put(instruction & !LINK);
    code.land(second);
    code.load(16, 17, 8);
    code.subtract(16, 16, 15);
    let other = code.ahead(CBNZ | 16);
    code.add_number(17, 17, 16);
    code.back(B, count);
    code.land(other);
    code.address(14, out);
    code.jump(shared.count_target).ok()?;
    let (must_note, note) = noting?;
    code.land(must_note);
    code.address(14, noted);
    code.jump(note).ok()?;
    Some(noted)
}

/// Bit of a branch to a register that calls.
const LINK: u32 = 1 << 21;
/// Bit of a branch to a register that authenticates it first.
const AUTHENTICATED: u32 = 1 << 11;

/// Target of a direct site with this instruction.
pub(super) fn target_of(word: u32, at: u64) -> u64 {
    target(word, at)
}
