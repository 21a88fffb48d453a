// SPDX-License-Identifier: MIT OR Apache-2.0
//! The code that maps the memory of stubs and counters: a loop over a list of the regions, which follows the code.
//!
//! In a program that already runs, the code uses no stack, and ends by `rt_sigreturn`: no register is free for a jump
//! back, and a `b` reaches only 128 MiB.

use super::writer::{A64Writer, B, CBNZ, CBZ, ForwardBranch, Register, SVC};
use crate::call_sites::entrance::{DONE, LAST_SIGNAL, Moment, Region, RegionKind};
use crate::tracing::system::FilteredCall;
use nix::libc;

/// The call that opens the file.
pub(in crate::call_sites) const OPEN: FilteredCall = FilteredCall {
    number: OPENAT as i64,
    arguments: [libc::AT_FDCWD as u64, 0, (libc::O_RDWR | libc::O_CLOEXEC) as u64, 0, 0, 0],
};

// Numbers of system calls of AArch64.
pub(super) const OPENAT: u64 = 56;
pub(super) const CLOSE: u64 = 57;
pub(super) const TGKILL: u64 = 131;
pub(super) const GETPID: u64 = 172;
pub(super) const GETTID: u64 = 178;
const RT_SIGRETURN: u64 = 139;
const MUNMAP: u64 = 215;
pub(super) const MMAP: u64 = 222;
const MADVISE: u64 = 233;

/// Registers that the code uses: arguments and number of system calls, the list, an entry's kind, the file, and the mark
/// of success.
const USED: [Register; 12] = [0, 1, 2, 3, 4, 5, 8, LIST, FILE, OTHER, MARK, 16];
const FIRST: Register = 0;
const LIST: Register = 12;
const FILE: Register = 13;
const OTHER: Register = 14;
const MARK: Register = 15;

fn system_call(code: &mut A64Writer, number: u64) {
    code.number(8, number);
    code.put(SVC);
}

/// Prepares to open the file whose path is at the address in x1.
pub(super) fn open_file(code: &mut A64Writer, flags: u64) {
    code.minus_one(0);
    code.subtract_number(0, 0, (-libc::AT_FDCWD - 1) as u64);
    code.number(2, flags);
    code.number(3, 0);
}

fn begin(place: u64) -> A64Writer {
    let mut code = A64Writer::new(place, false);
    code.number(MARK, 0);
    code
}

/// Goes on at an address. Before a program's first instruction, all registers are 0; only x16 has the address. In a
/// program that runs, the address and all registers are in the frame at the stack pointer.
fn end(code: &mut A64Writer, moment: Moment, go_on: u64) {
    match moment {
        Moment::Beginning => {
            USED.iter().for_each(|register| code.number(*register, 0));
            code.number(16, go_on);
            code.jump_to(16);
        }
        Moment::Running => system_call(code, RT_SIGRETURN),
    }
}

/// Returns code that unmaps regions and continues at an address.
pub(in crate::call_sites) fn unmapping(regions: &[Region], place: u64, go_on: u64) -> Vec<u8> {
    let mut code = begin(place);
    for region in regions {
        code.number(0, region.address);
        code.number(1, region.length);
        system_call(&mut code, MUNMAP);
    }
    code.number(MARK, DONE);
    // No file.
    code.minus_one(0);
    system_call(&mut code, CLOSE);
    end(&mut code, Moment::Running, go_on);
    code.bytes
}

/// Returns code that maps regions of a file and continues at an address.
pub(in crate::call_sites) fn mapping(
    (path, regions): (&str, &[Region]),
    moment: Moment,
    place: u64,
    go_on: u64,
) -> Vec<u8> {
    // The length does not depend on the offset of the list.
    let length = map(path, regions, (moment, place, go_on), 0).1;
    map(path, regions, (moment, place, go_on), length).0
}

/// Returns the code, and the offset of the list in it.
fn map(
    path: &str,
    regions: &[Region],
    (moment, place, go_on): (Moment, u64, u64),
    list: usize,
) -> (Vec<u8>, usize) {
    const ENTRY: u64 = 40;
    let mut code = begin(place);
    code.address(LIST, list);
    code.add_number(1, LIST, ENTRY * regions.len() as u64 + 8);
    open_file(&mut code, (libc::O_RDWR | libc::O_CLOEXEC) as u64);
    system_call(&mut code, OPENAT);
    code.copy(FILE, 0);
    code.bits(OTHER, 0, 63, 1);
    let unopened = code.ahead(CBNZ | OTHER);
    let again = code.bytes.len();
    code.load(0, LIST, 0);
    let last = code.ahead(CBZ | FIRST);
    code.load(1, LIST, 8);
    code.load_of_4(2, LIST, 16);
    code.load_of_4(3, LIST, 20);
    code.copy(4, FILE);
    code.load(5, LIST, 24);
    system_call(&mut code, MMAP);
    code.load(OTHER, LIST, 0);
    code.subtract(OTHER, OTHER, 0);
    let failed = code.ahead(CBNZ | OTHER);
    code.load(2, LIST, 32);
    let stays = code.ahead(CBZ | 2);
    // Core files must not contain this memory.
    system_call(&mut code, MADVISE);
    code.land(stays);
    code.add_number(LIST, LIST, ENTRY);
    code.back(B, again);
    code.land(last);
    code.number(MARK, DONE);
    let holes: [ForwardBranch; 2] = [unopened, failed];
    holes.into_iter().for_each(|hole| code.land(hole));
    code.copy(0, FILE);
    system_call(&mut code, CLOSE);
    if moment == Moment::Beginning {
        system_call(&mut code, GETPID);
        code.copy(1, 0);
        code.number(2, LAST_SIGNAL as u64);
        system_call(&mut code, TGKILL);
    }
    end(&mut code, moment, go_on);
    code.align(8);
    let list = code.bytes.len();
    for region in regions {
        let (access, flags) = region.access();
        let advice = if region.kind == RegionKind::Data { libc::MADV_DONTDUMP as u64 } else { 0 };
        code.bytes.extend(region.address.to_le_bytes());
        code.bytes.extend(region.length.to_le_bytes());
        code.bytes.extend(access.to_le_bytes());
        code.bytes.extend(flags.to_le_bytes());
        code.bytes.extend(region.offset.to_le_bytes());
        code.bytes.extend(advice.to_le_bytes());
    }
    code.bytes.extend(0u64.to_le_bytes());
    code.bytes.extend(path.as_bytes());
    code.bytes.push(0);
    (code.bytes, list)
}
