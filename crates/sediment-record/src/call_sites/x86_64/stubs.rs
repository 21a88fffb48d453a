// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the stubs of a file, and the changed bytes of its code that lead to them.
//!
//! A stub counts down from 0: the first call borrows, and then takes a number from the recording's sequence of first
//! uses.
//!
//! The stub of a direct call, of an indirect one (the instructions before the call run first), and of the notice of new libraries:
//!
//! ```text
//!       sub  $1, gs:count            push r11                       gs:waits = 1; lock inc notices
//!       jc   first                   mov  target, r11               repeat: pause
//! go:   jmp  callee                  cmp  r11, gs:key0              until gs:waits != 1, or for a while
//! first: call number                 jne  other                     map copies of code if told; jmp callee
//!       jmp  go                      inc  gs:count0
//!                              out:  pop  r11
//!                                    jmp  *target
//! ```
//!
//! If calls are traced, each of these stubs also compares the number of calls that its thread must still note with 0,
//! and calls the code that notes the call if it is not 0.

use super::notice;
use super::writer::{
    CodeWriter, Hole, JUMP_CARRY, JUMP_EQUAL, JUMP_NOT_EQUAL, JUMP_SHORT, RCX, distance, load_shared, offset,
};
use crate::call_sites::changes::SiteChange;
use crate::call_sites::counters::{
    EVENT_BYTES, EVENTS, MOST_EVENTS, PROBES, RECORD_BYTES, TARGET_BITS, TARGET_BYTES, TARGETS, TO_NOTE,
};
use crate::call_sites::placement::{FileSites, MadeStubs, StubPlacement, TooFar};
use crate::call_sites::sites::{DirectForm, DirectSite, IndirectSite, JUMP, RED_ZONE};
use std::ops::Range;

/// Bytes of a stub for a direct call, and for another direct site; then the same if calls are traced.
const DIRECT_BYTES: [u64; 2] = [24, 40];
const TRACED_BYTES: [u64; 2] = [48, 72];

/// Bytes of the stub of a direct call, and of that of another direct site, if calls are traced.
pub(in crate::call_sites) fn traced_bytes() -> [u64; 2] {
    TRACED_BYTES
}

const PUSH_RAX_RCX_RDX: [u8; 3] = [0x50, 0x51, 0x52];
const POP_RDX_RCX_RAX: [u8; 3] = [0x5a, 0x59, 0x58];
/// `lea -128(%rsp),%rsp` and `lea 128(%rsp),%rsp`: they skip the red zone, and keep the flags.
const BELOW_RED_ZONE: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
const ABOVE_RED_ZONE: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, RED_ZONE as u8, 0, 0, 0];

/// Largest number of bytes of stubs for these sites.
pub(in crate::call_sites) fn size(sites: &FileSites<'_>) -> u64 {
    let calls = sites.calls as u64;
    let others = sites.direct.len() as u64 - calls;
    let indirect: u64 = sites.indirect.iter().map(longest).sum();
    let [call_bytes, other_bytes] = TRACED_BYTES;
    COMMON_BYTES + calls * call_bytes + others * other_bytes + indirect
}

/// Largest number of bytes of the code that all stubs of a file share.
const COMMON_BYTES: u64 = 1664;

/// Largest number of bytes of the stub of an indirect site.
fn longest(site: &IndirectSite) -> u64 {
    let program = site.before.bytes.len() + site.load.bytes.len() + site.go.bytes.len();
    program as u64 + 152
}

/// Makes the stubs of a file, in at most `size` bytes.
pub(in crate::call_sites) fn emit(sites: &FileSites<'_>, size: u64, placement: &StubPlacement) -> MadeStubs {
    let mut emitter = Emitter { made: MadeStubs::default() };
    emitter.emit(sites, size, placement);
    emitter.made
}

/// Returns the same stubs for this further distance from their file; `None` if they would be too far.
pub(in crate::call_sites) fn moved(made: &MadeStubs, by: i64) -> Option<MadeStubs> {
    let mut moved = made.clone();
    for place in &moved.outside {
        shift_distance(moved.code.get_mut(*place as usize..)?, by.checked_neg()?)?;
    }
    moved.changes = made.changes.moved(by, shift_distance)?;
    Some(moved)
}

/// Adds to the distance at the beginning of these bytes; None if the sum does not fit.
fn shift_distance(bytes: &mut [u8], by: i64) -> Option<()> {
    let bytes = bytes.first_chunk_mut::<4>()?;
    let distance = i64::from(i32::from_le_bytes(*bytes)).checked_add(by)?;
    *bytes = i32::try_from(distance).ok()?.to_le_bytes();
    Some(())
}

/// Makes stubs one after the other.
struct Emitter {
    made: MadeStubs,
}

impl Emitter {
    fn emit(&mut self, sites: &FileSites<'_>, size: u64, placement: &StubPlacement) {
        let made = &mut self.made;
        let room = placement.stubs..placement.stubs + size;
        let mut code = CodeWriter::new(room.clone());
        code.bytes.reserve(size as usize);
        made.changes.reserve(sites.direct.len() + sites.indirect.len());
        let calls = sites.calls;
        let places = SharedCode::emit(&mut code, placement, calls as u64);
        code.align(64);
        let Ok(common) = places else {
            made.too_far = (sites.direct.len() + sites.indirect.len()) as u64;
            return;
        };
        let [call_bytes, other_bytes] = direct_bytes(placement);
        let (first_call, first_other) = (common.slots, common.slots + call_bytes * calls as u64);
        let end = first_other + other_bytes * (sites.direct.len() - calls) as u64;
        made.noting.first = [first_call, first_other].map(|at| (at - placement.stubs) as u32);
        // Bytes that are not written below are never executed.
        code.bytes.resize((end - placement.stubs) as usize, 0x90);
        let mut stub = CodeWriter::new(room);
        for (index, site) in sites.direct.iter().enumerate() {
            let at = if index < calls {
                first_call + call_bytes * index as u64
            } else {
                first_other + other_bytes * (index - calls) as u64
            };
            self.add_direct((&mut code, &mut stub), (index, site, at), placement, &common);
        }
        for site in sites.indirect.iter().enumerate() {
            self.add_indirect(&mut code, site, sites.direct.len(), placement, &common);
        }
        self.made.changes = self.made.changes.sorted();
        (self.made.code, self.made.outside) = (code.bytes, code.outside);
    }

    /// Adds the stub of a direct site, and the change that leads to it.
    fn add_direct(
        &mut self,
        (code, stub): (&mut CodeWriter, &mut CodeWriter),
        (index, site, at): (usize, &DirectSite, u64),
        placement: &StubPlacement,
        common: &SharedCode,
    ) {
        stub.start = at;
        stub.bytes.clear();
        stub.outside.clear();
        let change = direct(stub, site, index as u64, placement, common)
            .and_then(|()| changed_site(site, placement, at));
        let Ok((original, changed)) = change else {
            self.made.too_far += 1;
            return;
        };
        let from = (at - placement.stubs) as usize;
        code.bytes[from..from + stub.bytes.len()].copy_from_slice(&stub.bytes);
        code.outside.extend(stub.outside.iter().map(|place| from as u32 + place));
        // The opcode of a plain call or jump is kept.
        let stays = match site.form {
            DirectForm::Call | DirectForm::Jump => 1,
            DirectForm::ConditionalJump => 2,
            _ => 0,
        };
        let length = site.form.length() as usize;
        let change = SiteChange {
            at: site.at + stays as u64,
            site: index as u32,
            original: &original[stays..length],
            changed: &changed[stays..length],
        };
        // A call or jump through a slot becomes a call or jump to a stub.
        let distance = match site.form {
            DirectForm::CallThroughSlot => 2,
            DirectForm::JumpThroughSlot => 1,
            _ => 0,
        };
        self.made.changes.add(change, distance);
    }

    /// Adds the stub of an indirect site, and the change that leads to it. `first`: number of direct sites.
    fn add_indirect(
        &mut self,
        code: &mut CodeWriter,
        (index, site): (usize, &IndirectSite),
        first: usize,
        placement: &StubPlacement,
        common: &SharedCode,
    ) {
        let record = placement.counters.records() + RECORD_BYTES * index as u64;
        let (before, led_outside) = (code.bytes.len(), code.outside.len());
        let at = code.here();
        let done = indirect(code, site, record, placement, common)
            .and_then(|noting| Ok((noting, changed_window(site, placement.bias, at)?)));
        match done {
            Ok((noting, changed)) => {
                self.made.noting.indirect.extend(noting.map(|offset| (offset as u32, index as u32)));
                let change = SiteChange {
                    at: site.window.start,
                    site: (first + index) as u32,
                    original: &site.original,
                    changed: &changed,
                };
                let distance = if site.is_tail { 1 } else { changed.len() - 4 };
                self.made.changes.add(change, distance as u8);
            }
            Err(TooFar) => {
                code.bytes.truncate(before);
                code.outside.truncate(led_outside);
                self.made.too_far += 1;
            }
        }
    }
}

/// Code that all stubs of a file share.
struct SharedCode {
    /// Takes a number of first use for a direct call, or for another direct site.
    number_call: u64,
    number_other: u64,
    /// Counts a target of an indirect site.
    count_target: u64,
    /// Waits for the recorder.
    wait: Option<u64>,
    /// Called instead of the function for notices of libraries.
    notice: Option<u64>,
    /// Beginning of the stubs of direct sites.
    slots: u64,
    trace: Option<NotingCode>,
}

/// Code that notes a direct or an indirect call.
struct NotingCode {
    direct: u64,
    indirect: u64,
}

fn direct_bytes(placement: &StubPlacement) -> [u64; 2] {
    if placement.is_traced { TRACED_BYTES } else { DIRECT_BYTES }
}

impl SharedCode {
    fn emit(code: &mut CodeWriter, placement: &StubPlacement, calls: u64) -> Result<Self, TooFar> {
        let slots = (code.here() + COMMON_BYTES).next_multiple_of(64) - 64;
        let firsts = placement.counters.firsts();
        let number_call = code.here();
        // The third instruction in the second part of a stub is a call of this routine.
        let [call_bytes, other_bytes] = direct_bytes(placement);
        let behind_first = if placement.is_traced { 22 + MUST_NOTE_BYTES } else { 22 };
        number(code, slots + behind_first, call_bytes, firsts)?;
        code.align(16);
        let number_other = code.here();
        let others = slots + call_bytes * calls;
        // The distance of the instruction after this call depends on the form of the jump before it, but the quotient
        // does not.
        number(code, others, other_bytes, firsts + 4 * calls)?;
        code.align(16);
        let sequence = code.here();
        take_number(code);
        code.align(16);
        let count_target = code.here();
        target(code, sequence)?;
        code.align(16);
        let notice = placement.notice.map(|notice| notice.wrapping_add(placement.bias));
        let wait = notice.map(|notice| {
            let state = placement.state.map(|state| state.wrapping_add(placement.bias));
            notice::emit(code, notice, state)
        });
        let wait = wait.transpose()?;
        let trace = placement.is_traced.then(|| {
            let mut noting = |is_indirect| {
                code.align(16);
                let at = code.here();
                note_call(code, is_indirect);
                at
            };
            NotingCode { direct: noting(false), indirect: noting(true) }
        });
        assert!(code.here() <= slots, "the shared code is too long");
        code.bytes.resize((slots - code.start) as usize, 0x90);
        Ok(Self { number_call, number_other, count_target, wait, notice, slots, trace })
    }
}

/// Takes the next number in the sequence of first uses, in edx.
fn take_number(code: &mut CodeWriter) {
    code.put(&[0x51]); // push rcx
    load_shared(code, RCX);
    code.put(&[0xba, 1, 0, 0, 0]); // mov edx, 1
    code.put(&[0xf0, 0x0f, 0xc1, 0x11]); // lock xadd [rcx], edx
    code.put(&[0xff, 0xc2]); // inc edx
    code.put(&[0x59, 0xc3]); // pop rcx; ret
}

/// Stores the number of first use of the direct site whose stub calls this.
fn number(code: &mut CodeWriter, behind_first: u64, step: u64, firsts: u64) -> Result<(), TooFar> {
    code.put(&PUSH_RAX_RCX_RDX);
    code.put(&[0x48, 0x8b, 0x44, 0x24, 24]); // mov rax, [rsp+24]
    code.relative(&[0x48, 0x8d, 0x0d], behind_first)?; // lea rcx, [behind_first]
    code.put(&[0x48, 0x29, 0xc8]); // sub rax, rcx
    code.put(&[0x31, 0xd2]); // xor edx, edx
    code.put(&[0xb9]); // mov ecx, step
    code.put(&offset(step));
    code.put(&[0x48, 0xf7, 0xf1]); // div rcx
    load_shared(code, RCX);
    code.put(&[0xba, 1, 0, 0, 0]);
    code.put(&[0xf0, 0x0f, 0xc1, 0x11]);
    code.put(&[0xff, 0xc2]);
    code.put(&[0x65, 0x89, 0x14, 0x85]); // mov gs:[rax*4 + firsts], edx
    code.put(&offset(firsts));
    code.put(&POP_RDX_RCX_RAX);
    code.put(&[0xc3]);
    Ok(())
}

/// Bytes of the instructions of [`must_note`].
const MUST_NOTE_BYTES: u64 = 11;

/// Jumps ahead if the thread must note calls.
fn must_note(code: &mut CodeWriter) -> Hole {
    code.put(&[0x65, 0x83, 0x3c, 0x25]); // cmp dword gs:[TO_NOTE], 0
    code.put(&offset(TO_NOTE));
    code.put(&[0]);
    code.ahead(JUMP_NOT_EQUAL)
}

/// Notes the call whose stub calls this, with its target in r11 if it is indirect.
fn note_call(code: &mut CodeWriter, is_indirect: bool) {
    code.put(&[0x50, 0x51]); // push rax; push rcx
    code.put(&[0x65, 0x8b, 0x0c, 0x25]); // mov ecx, gs:[TO_NOTE]
    code.put(&offset(TO_NOTE));
    code.put(&[0x83, 0xe9, 1]); // sub ecx, 1
    let out = code.ahead(JUMP_CARRY);
    // Threads that share a block may disagree about the number; none of them leaves the table.
    code.put(&[0x81, 0xe1]); // and ecx, MOST_EVENTS - 1
    code.put(&offset(MOST_EVENTS - 1));
    let scale = EVENT_BYTES.trailing_zeros() as u8;
    code.put(&[0xc1, 0xe1, scale]); // shl ecx
    code.put(&[0x8b, 0x44, 0x24, 16]); // mov eax, [rsp+16]
    code.put(&[0x65, 0x89, 0x81]); // mov gs:[rcx + EVENTS], eax
    code.put(&offset(EVENTS));
    if is_indirect {
        code.put(&[0x65, 0x44, 0x89, 0x99]); // mov gs:[rcx + EVENTS + 4], r11d
        code.put(&offset(EVENTS + 4));
    }
    code.put(&[0x8d, 0x44, 0x24, 24]); // lea eax, [rsp+24]
    code.put(&[0x65, 0x89, 0x81]); // mov gs:[rcx + EVENTS + 8], eax
    code.put(&offset(EVENTS + 8));
    code.put(&[0xc1, 0xe9, scale]); // shr ecx
    // The call is complete before it counts.
    code.put(&[0x65, 0x89, 0x0c, 0x25]); // mov gs:[TO_NOTE], ecx
    code.put(&offset(TO_NOTE));
    code.land(&out);
    code.put(&[0x59, 0x58, 0xc3]); // pop rcx; pop rax; ret
}

/// Counts the target in r11 for the site whose record is on the stack after the return address, and removes the record.
fn target(code: &mut CodeWriter, sequence: u64) -> Result<(), TooFar> {
    code.put(&PUSH_RAX_RCX_RDX);
    code.put(&[0x8b, 0x44, 0x24, 32]); // mov eax, [rsp+32]
    let mut outs = Vec::new();
    for (key, count, first) in [(0, 8, 32), (16, 24, 36)] {
        code.put(&[0x65, 0x48, 0x83, 0x78, key, 0]); // cmp qword gs:[rax+key], 0
        let other = code.ahead(JUMP_NOT_EQUAL);
        code.put(&[0x65, 0x4c, 0x89, 0x58, key]); // mov gs:[rax+key], r11
        code.put(&[0x65, 0x48, 0xff, 0x40, count]); // inc qword gs:[rax+count]
        code.call(sequence)?;
        code.put(&[0x65, 0x89, 0x50, first]); // mov gs:[rax+first], edx
        outs.push(code.ahead(JUMP_SHORT));
        code.land(&other);
    }
    code.put(&[0x44, 0x89, 0xd9]); // mov ecx, r11d
    code.put(&[0xc1, 0xe9, 4]); // shr ecx, 4
    code.put(&[0x69, 0xd0]); // imul edx, eax, odd
    code.put(&0x9e37_79b1u32.to_le_bytes());
    code.put(&[0x01, 0xd1]); // add ecx, edx
    code.put(&[0x69, 0xc9]); // imul ecx, ecx, odd
    code.put(&0x85eb_ca6bu32.to_le_bytes());
    code.put(&[0xc1, 0xe9, (u32::BITS - TARGET_BITS) as u8]); // shr ecx
    code.put(&[0xc1, 0xe1, TARGET_BYTES.trailing_zeros() as u8]); // shl ecx
    code.put(&[0x81, 0xc1]); // add ecx, TARGETS
    code.put(&offset(TARGETS));
    code.put(&[0xba]); // mov edx, PROBES
    code.put(&PROBES.to_le_bytes());
    let again = code.bytes.len();
    code.put(&[0x65, 0x4c, 0x39, 0x19]); // cmp gs:[rcx], r11
    let differs = code.ahead(JUMP_NOT_EQUAL);
    code.put(&[0x65, 0x39, 0x41, 8]); // cmp gs:[rcx+8], eax
    let hit = code.ahead(JUMP_EQUAL);
    code.land(&differs);
    code.put(&[0x65, 0x48, 0x83, 0x39, 0]); // cmp qword gs:[rcx], 0
    let empty = code.ahead(JUMP_EQUAL);
    code.put(&[0x83, 0xc1, TARGET_BYTES as u8]); // add ecx, TARGET_BYTES
    code.put(&[0xff, 0xca]); // dec edx
    code.back(JUMP_NOT_EQUAL, again);
    code.put(&[0x65, 0x48, 0xff, 0x40, 40]); // inc qword gs:[rax+40]
    outs.push(code.ahead(JUMP_SHORT));
    code.land(&empty);
    code.put(&[0x65, 0x4c, 0x89, 0x19]); // mov gs:[rcx], r11
    code.put(&[0x65, 0x89, 0x41, 8]); // mov gs:[rcx+8], eax
    code.call(sequence)?;
    code.put(&[0x65, 0x89, 0x51, 12]); // mov gs:[rcx+12], edx
    code.land(&hit);
    code.put(&[0x65, 0x48, 0xff, 0x41, 16]); // inc qword gs:[rcx+16]
    outs.iter().for_each(|out| code.land(out));
    code.put(&POP_RDX_RCX_RAX);
    code.put(&[0xc2, 8, 0]); // ret 8
    Ok(())
}

/// The stub of a direct site.
fn direct(
    code: &mut CodeWriter,
    site: &DirectSite,
    index: u64,
    placement: &StubPlacement,
    common: &SharedCode,
) -> Result<(), TooFar> {
    code.put(&[0x65, 0x48, 0x83, 0x2c, 0x25]); // sub qword gs:[count], 1
    code.put(&offset(placement.counters.at + 8 * index));
    code.put(&[1]);
    let first = code.ahead(JUMP_CARRY);
    let numbered = code.bytes.len();
    let noting = common.trace.as_ref().map(|trace| (must_note(code), trace.direct));
    let go = code.bytes.len();
    let target = site.target.wrapping_add(placement.bias);
    match (site.form, common.wait) {
        (DirectForm::CallThroughSlot | DirectForm::JumpThroughSlot, _) => {
            code.relative(&[0xff, 0x25], target)?
        }
        (_, Some(wait)) if common.notice == Some(target) => code.jump(wait)?,
        _ => code.jump(target)?,
    }
    code.land(&first);
    let number = if site.form == DirectForm::Call { common.number_call } else { common.number_other };
    call_aside(code, site.form, number)?;
    code.back(JUMP_SHORT, numbered);
    if let Some((must_note, note)) = noting {
        code.land(&must_note);
        call_aside(code, site.form, note)?;
        code.back(JUMP_SHORT, go);
    }
    Ok(())
}

/// Calls a routine of the shared code in the stub of a direct site.
fn call_aside(code: &mut CodeWriter, form: DirectForm, routine: u64) -> Result<(), TooFar> {
    if form == DirectForm::Call {
        return code.call(routine);
    }
    code.put(&BELOW_RED_ZONE);
    code.call(routine)?;
    code.put(&ABOVE_RED_ZONE);
    Ok(())
}

/// Bytes on the stack of a noted call between the stack pointer that it has and the caller's at the call or jump.
pub(in crate::call_sites) fn depth_of_direct(site: &DirectSite) -> u32 {
    if site.form == DirectForm::Call {
        return WORD;
    }
    RED_ZONE as u32 + if site.form.is_call() { WORD } else { 0 }
}

/// The same for an indirect site.
pub(in crate::call_sites) fn depth_of_indirect(is_tail: bool) -> u32 {
    if is_tail { RED_ZONE as u32 + WORD } else { 2 * WORD }
}

const WORD: u32 = 8;

/// Bytes of the longest instruction of a direct site.
const LONGEST: usize = 6;

/// The instruction of a direct site, in its original form, and changed to lead to its stub. The last byte of shorter
/// ones is not used.
fn changed_site(
    site: &DirectSite,
    placement: &StubPlacement,
    stub: u64,
) -> Result<([u8; LONGEST], [u8; LONGEST]), TooFar> {
    let at = site.at.wrapping_add(placement.bias);
    let next = at + site.form.length();
    let target = site.target.wrapping_add(placement.bias);
    let short = |opcode: u8, target: u64| {
        let [a, b, c, d] = distance(target, at + JUMP)?;
        Ok([opcode, a, b, c, d, 0x90])
    };
    let long = |first: u8, second: u8, target: u64| {
        let [a, b, c, d] = distance(target, next)?;
        Ok([first, second, a, b, c, d])
    };
    match site.form {
        DirectForm::Call => Ok((short(0xe8, target)?, short(0xe8, stub)?)),
        DirectForm::Jump => Ok((short(0xe9, target)?, short(0xe9, stub)?)),
        // The condition stays, so it is not compared.
        DirectForm::ConditionalJump => Ok((long(0x0f, 0x80, target)?, long(0x0f, 0x80, stub)?)),
        // With a prefix for 4-byte addresses, which has no effect here, the call keeps its length.
        DirectForm::CallThroughSlot => Ok((long(0xff, 0x15, target)?, long(0x67, 0xe8, stub)?)),
        DirectForm::JumpThroughSlot => Ok((long(0xff, 0x25, target)?, short(0xe9, stub)?)),
        DirectForm::Branch | DirectForm::BranchWithLink => Err(TooFar),
    }
}

/// Writes the stub of an indirect site. Returns the offset to which the code that notes its call returns, if calls are
/// traced.
fn indirect(
    code: &mut CodeWriter,
    site: &IndirectSite,
    record: u64,
    placement: &StubPlacement,
    common: &SharedCode,
) -> Result<Option<usize>, TooFar> {
    let bias = placement.bias;
    code.moved(&site.before, bias)?;
    if site.is_tail {
        code.put(&BELOW_RED_ZONE);
    }
    code.put(&[0x41, 0x53]); // push r11
    code.moved(&site.load, bias)?;
    let noting = common.trace.as_ref().map(|trace| (must_note(code), trace.indirect));
    let noted = code.bytes.len();
    code.put(&[0x65, 0x4c, 0x39, 0x1c, 0x25]); // cmp gs:[key0], r11
    code.put(&offset(record));
    let second = code.ahead(JUMP_NOT_EQUAL);
    code.put(&[0x65, 0x48, 0xff, 0x04, 0x25]); // inc qword gs:[count0]
    code.put(&offset(record + 8));
    let out = code.bytes.len();
    code.put(&[0x41, 0x5b]); // pop r11
    if site.is_tail {
        code.put(&ABOVE_RED_ZONE);
    }
    code.moved(&site.go, bias)?;
    code.land(&second);
    code.put(&[0x65, 0x4c, 0x39, 0x1c, 0x25]); // cmp gs:[key1], r11
    code.put(&offset(record + 16));
    let other = code.ahead(JUMP_NOT_EQUAL);
    code.put(&[0x65, 0x48, 0xff, 0x04, 0x25]); // inc qword gs:[count1]
    code.put(&offset(record + 24));
    code.back(JUMP_SHORT, out);
    code.land(&other);
    code.put(&[0x68]); // push record
    code.put(&offset(record));
    code.call(common.count_target)?;
    code.back(JUMP_SHORT, out);
    let Some((must_note, note)) = noting else { return Ok(None) };
    code.land(&must_note);
    code.call(note)?;
    let returns = code.bytes.len();
    code.back(JUMP_SHORT, noted);
    Ok(Some(returns))
}

/// Instructions of 1 to 9 bytes without effect.
const NOTHING: [&[u8]; 10] = [
    &[],
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

/// Returns the bytes of an indirect site, changed to lead to its stub.
fn changed_window(site: &IndirectSite, bias: u64, stub: u64) -> Result<Vec<u8>, TooFar> {
    let Range { start, end } = site.window;
    let (start, end) = (start.wrapping_add(bias), end.wrapping_add(bias));
    let length = site.original.len();
    let mut changed = Vec::with_capacity(length);
    if site.is_tail {
        changed.push(0xe9);
        changed.extend(distance(stub, start + JUMP)?);
        changed.resize(length, 0x90);
        return Ok(changed);
    }
    let mut rest = length - JUMP as usize;
    while rest > 0 {
        let nothing = NOTHING[rest.min(NOTHING.len() - 1)];
        changed.extend_from_slice(nothing);
        rest -= nothing.len();
    }
    changed.push(0xe8);
    changed.extend(distance(stub, end)?);
    Ok(changed)
}
