// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stub of the dynamic linker's function for notices of new libraries. It waits until the recorder has handled
//! them. At the first notice of a program, before the program itself has run, the thread stops itself by a signal, and
//! maps the copies of code that the recorder lists. Later it makes no system calls.

use super::entrance::{CLOSE, GETPID, GETTID, MMAP, OPENAT, TGKILL, open_file};
use super::threads::find_block;
use super::writer::{A64Writer, Add, B, BARRIER, CBNZ, CBNZ_4, CBZ, CBZ_4, ISB, Register, SVC};
use crate::call_sites::counters::{
    COPIES, COPIES_PATH, MAP_COPIES, MAPPED_COPIES, NOTICES, SHARED, STOPS_ITSELF, UNANSWERED, WAITS,
};
use crate::call_sites::entrance::LAST_SIGNAL;
use crate::call_sites::placement::{StubPlacement, TooFar};
use nix::libc;

/// Number of repetitions while it waits for the recorder: less than a second.
const PATIENCE: u64 = 10_000_000;

const FIRST: Register = 0;
/// Registers that the kernel gets, or that are used here.
const SAVED: [(Register, Register); 6] = [(16, 17), (14, 15), (8, 30), (4, 5), (2, 3), (0, 1)];

/// Emits the stub with its routines, and returns its address. `state`: address of the linker's state, which is 0 after
/// libraries have been loaded or unloaded.
pub(super) fn emit(
    code: &mut A64Writer,
    placement: &StubPlacement,
    notice: u64,
    state: Option<u64>,
) -> Result<u64, TooFar> {
    let stop = code.here();
    stop_itself(code);
    let map = code.here();
    map_copies(code);
    code.align(16);
    let at = code.here();
    wait(code, placement, (notice, state), (stop, map))?;
    Ok(at)
}

/// Waits until the recorder has handled the libraries, for a limited time and without the kernel, and continues with
/// the function. After a wait in vain, no thread waits until the recorder looks again.
fn wait(
    code: &mut A64Writer,
    placement: &StubPlacement,
    (notice, state): (u64, Option<u64>),
    (stop, map): (u64, u64),
) -> Result<(), TooFar> {
    code.push(&SAVED);
    let early = match state {
        Some(state) => {
            code.page(16, state)?;
            code.load_of_4(16, 16, state & 0xfff);
            Some(code.ahead(CBNZ_4 | 16))
        }
        None => None,
    };
    find_block(code, placement.room, 17, 16)?;
    code.number(16, 1);
    code.store_of_4(16, 17, WAITS);
    code.put(BARRIER);
    code.load(15, 17, SHARED);
    code.add_number(15, 15, NOTICES);
    code.fetch_add(Add { number: 1, is_of_4: true }, 15, 16, 14);
    code.load_of_4(16, 17, STOPS_ITSELF);
    let waits = code.ahead(CBZ_4 | 16);
    code.call(stop)?;
    code.land(waits);
    code.load(15, 17, SHARED);
    code.load_of_4(16, 15, UNANSWERED);
    let in_vain = code.ahead(CBNZ_4 | 16);
    code.number(14, PATIENCE);
    let again = code.bytes.len();
    // Code that has changed meanwhile is read again.
    code.put(ISB);
    code.load_of_4(16, 17, WAITS);
    code.subtract_number(16, 16, 1);
    let seen = code.ahead(CBNZ_4 | 16);
    code.subtract_number(14, 14, 1);
    code.back(CBNZ | 14, again);
    code.number(16, 1);
    code.store_of_4(16, 15, UNANSWERED);
    code.land(seen);
    code.land(in_vain);
    code.load_of_4(16, 17, WAITS);
    code.subtract_number(16, 16, MAP_COPIES.into());
    let none = code.ahead(CBNZ_4 | 16);
    code.call(map)?;
    code.land(none);
    code.store_of_4(31, 17, WAITS);
    code.put(ISB);
    if let Some(early) = early {
        code.land(early);
    }
    code.pop(&SAVED);
    code.jump(notice)
}

fn system_call(code: &mut A64Writer, number: u64) {
    code.number(8, number);
    code.put(SVC);
}

/// Sends a signal to the only thread of a program that begins. The recorder stops the thread at this signal; without a
/// recorder it has no effect.
fn stop_itself(code: &mut A64Writer) {
    code.store_of_4(31, 17, STOPS_ITSELF);
    system_call(code, GETPID);
    code.copy(15, 0);
    system_call(code, GETTID);
    code.copy(1, 0);
    code.copy(0, 15);
    code.number(2, LAST_SIGNAL as u64);
    system_call(code, TGKILL);
    code.jump_to(30);
}

/// Maps the copies of code that the block lists. Without a copy, the code stays as it is.
fn map_copies(code: &mut A64Writer) {
    code.add_number(1, 17, COPIES_PATH);
    open_file(code, (libc::O_RDONLY | libc::O_CLOEXEC) as u64);
    system_call(code, OPENAT);
    code.copy(14, 0);
    code.bits(16, 0, 63, 1);
    let unopened = code.ahead(CBNZ | 16);
    code.add_number(15, 17, COPIES);
    let again = code.bytes.len();
    code.load(0, 15, 0);
    let last = code.ahead(CBZ | FIRST);
    code.load(1, 15, 8);
    code.number(2, (libc::PROT_READ | libc::PROT_EXEC) as u64);
    code.number(3, (libc::MAP_PRIVATE | libc::MAP_FIXED) as u64);
    code.copy(4, 14);
    code.load(5, 15, 16);
    system_call(code, MMAP);
    code.load(16, 15, 0);
    code.subtract(16, 16, 0);
    let failed = code.ahead(CBNZ | 16);
    code.load_of_4(16, 17, MAPPED_COPIES);
    code.add_number(16, 16, 1);
    code.store_of_4(16, 17, MAPPED_COPIES);
    code.add_number(15, 15, 24);
    code.back(B, again);
    code.land(last);
    code.land(failed);
    code.copy(0, 14);
    system_call(code, CLOSE);
    code.land(unopened);
    code.jump_to(30);
}
