// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that all stubs of a file share. It changes no register except those that the stubs have saved.

use super::notice;
use super::threads::find_block;
use super::writer::{A64Writer, Add, B, CBNZ, CBZ, CBZ_4, Register, SP};
use crate::call_sites::counters::{
    EVENT_BYTES, EVENTS, MOST_EVENTS, PROBES, SHARED, TARGET_BITS, TARGET_BYTES, TARGETS, TO_NOTE,
};
use crate::call_sites::placement::{StubPlacement, TooFar};

/// Addresses of its parts.
pub(super) struct A64Routines {
    /// Takes a number of first use for the direct site whose counter is in x17, and continues at x16.
    pub(super) number: u64,
    /// Counts the target in x15 for the record 8 bytes before x17, and continues at x14.
    pub(super) count_target: u64,
    /// Waits for the recorder.
    pub(super) wait: Option<u64>,
    /// Called instead of the function for notices of libraries.
    pub(super) notice: Option<u64>,
    /// Notes a direct call, and continues at x16; or an indirect one with its target in x15, and continues at x14. The
    /// block is in x17.
    pub(super) note_direct: Option<u64>,
    pub(super) note_indirect: Option<u64>,
}

/// Takes the next number in the sequence of first uses.
const SEQUENCE: Add = Add { number: 1, is_of_4: true };

impl A64Routines {
    pub(super) fn emit(code: &mut A64Writer, placement: &StubPlacement) -> Result<Self, TooFar> {
        let number_at = code.here();
        number(code, placement)?;
        code.align(16);
        let count_target = code.here();
        target(code, placement)?;
        code.align(16);
        let notice = placement.notice.map(|notice| notice.wrapping_add(placement.bias));
        let wait = notice.map(|notice| {
            let state = placement.state.map(|state| state.wrapping_add(placement.bias));
            notice::emit(code, placement, notice, state)
        });
        let wait = wait.transpose()?;
        let mut note = |is_indirect| {
            placement.is_traced.then(|| {
                code.align(16);
                let at = code.here();
                note_call(code, is_indirect);
                at
            })
        };
        let (note_direct, note_indirect) = (note(false), note(true));
        Ok(Self { number: number_at, count_target, wait, notice, note_direct, note_indirect })
    }
}

/// Takes the next number of first use. `of`: a register with the block.
fn take_number(code: &mut A64Writer, of: Register, to: Register, others: (Register, Register)) {
    code.load(others.0, of, SHARED);
    code.fetch_add(SEQUENCE, others.0, to, others.1);
    code.add_number(to, to, 1);
}

/// Stores the number of first use of a direct site.
fn number(code: &mut A64Writer, placement: &StubPlacement) -> Result<(), TooFar> {
    const SAVED: [(Register, Register); 2] = [(14, 15), (12, 13)];
    code.push(&SAVED);
    find_block(code, placement.room, 15, 14)?;
    take_number(code, 15, 13, (12, 14));
    // Counters have 8 bytes, numbers have 4.
    code.subtract(14, 17, 15);
    code.number_of_4(12, placement.counters.at);
    code.subtract(14, 14, 12);
    code.bits(14, 14, 1, 40);
    code.number_of_4(12, placement.counters.firsts());
    code.add(14, 14, 12);
    code.store_of_4_at(13, 15, 14);
    code.pop(&SAVED);
    code.jump_to(16);
    Ok(())
}

/// Counts a target of an indirect site.
fn target(code: &mut A64Writer, placement: &StubPlacement) -> Result<(), TooFar> {
    const SAVED: [(Register, Register); 3] = [(12, 13), (10, 11), (8, 9)];
    code.push(&SAVED);
    find_block(code, placement.room, 13, 16)?;
    code.subtract_number(17, 17, 8);
    code.subtract(12, 17, 13);
    let mut counts = Vec::new();
    for (key, count, first) in [(0, 8, 32), (16, 24, 36)] {
        code.add_number(11, 17, key);
        code.claim(15, 11, 16, 10);
        let claimed = code.ahead(CBZ | 16);
        code.subtract(16, 16, 15);
        // Another thread has claimed it for the same target.
        let same = code.ahead(CBZ | 16);
        let other = code.ahead(B);
        code.land(claimed);
        take_number(code, 13, 9, (10, 8));
        code.store_of_4(9, 17, first);
        code.land(same);
        code.add_number(11, 17, count);
        counts.push(code.ahead(B));
        code.land(other);
    }
    find_entry(code);
    counts.iter().for_each(|count| code.land(*count));
    code.count(11, 16, 10);
    code.pop(&SAVED);
    code.jump_to(14);
    Ok(())
}

/// Finds the counter of the target in x15 for the record at offset x12 of the block in x13, in the table of further
/// targets; or that of calls without a target. Its address is in x11.
fn find_entry(code: &mut A64Writer) {
    code.bits(16, 15, 2, 30);
    code.number_of_4(11, 0x9e37_79b1);
    code.multiply_of_4(11, 12, 11);
    code.add(16, 16, 11);
    code.number_of_4(11, 0x85eb_ca6b);
    code.multiply_of_4(16, 16, 11);
    code.bits(16, 16, u32::BITS - TARGET_BITS, TARGET_BITS);
    code.add_pages(11, 13, TARGETS);
    code.add_shifted(11, 11, (16, TARGET_BYTES.trailing_zeros()));
    code.number(10, PROBES.into());
    let again = code.bytes.len();
    code.load(16, 11, 0);
    let empty = code.ahead(CBZ | 16);
    code.subtract(16, 16, 15);
    let differs = code.ahead(CBNZ | 16);
    code.load_of_4(16, 11, 8);
    code.subtract_of_4(16, 16, 12);
    let found = code.ahead(CBZ_4 | 16);
    code.land(differs);
    code.add_number(11, 11, TARGET_BYTES);
    code.subtract_number(10, 10, 1);
    code.back(CBNZ | 10, again);
    code.add_number(11, 17, 40);
    let full = code.ahead(B);
    code.land(empty);
    code.claim(15, 11, 16, 9);
    // Another thread has claimed it: it is examined again.
    code.back(CBNZ | 16, again);
    code.store_of_4(12, 11, 8);
    take_number(code, 13, 9, (16, 8));
    code.store_of_4(9, 11, 12);
    code.land(found);
    code.add_number(11, 11, 16);
    code.land(full);
}

/// Notes a call.
fn note_call(code: &mut A64Writer, is_indirect: bool) {
    const SAVED: [(Register, Register); 2] = [(12, 13), (10, 11)];
    let returns = if is_indirect { 14 } else { 16 };
    code.push(&SAVED);
    code.load_of_4(12, 17, TO_NOTE);
    let out = code.ahead(CBZ_4 | 12);
    code.subtract_number(12, 12, 1);
    // Threads that share a block may disagree about the number; none of them leaves the table.
    code.lowest_of_4(12, 12, MOST_EVENTS.trailing_zeros());
    code.add_pages(13, 17, EVENTS);
    code.add_shifted(13, 13, (12, EVENT_BYTES.trailing_zeros()));
    code.store_of_4(returns, 13, 0);
    if is_indirect {
        code.store_of_4(15, 13, 4);
    }
    code.add_number(11, SP, 16 * SAVED.len() as u64);
    code.store_of_4(11, 13, 8);
    // The call is complete before it counts.
    code.store_of_4(12, 17, TO_NOTE);
    code.land(out);
    code.pop(&SAVED);
    code.jump_to(returns);
}
