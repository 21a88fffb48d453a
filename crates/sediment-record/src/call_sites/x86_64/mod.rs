// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call sites of x86-64: `find` chooses them with `sweep`, `flags` and `windows`; `stubs` has the code that counts, with
//! `notice` and `writer`; `entrance` has the code that maps memory, and `threads` tells a thread its counters.

pub(super) mod copied_code;
pub(super) mod entrance;
pub(super) mod find;
mod flags;
mod notice;
pub(super) mod stubs;
mod sweep;
pub(super) mod threads;
mod windows;
mod writer;

use super::frames::Bare;
use super::room::Reach;
use gimli::X86_64;
use object::elf;
use std::ops::Range;

/// Architecture as `uname -m` spells it.
pub(super) const NAME: &str = "x86_64";
/// Architecture of ELF files.
pub(super) const ELF: elf::Machine = elf::EM_X86_64;
/// Where the frame of a function is before its first instruction.
pub(super) const BARE: Bare = Bare { register: X86_64::RSP, offset: 8, vendor: gimli::Vendor::Default };
/// Bytes of the return address that a call puts on the stack; and least distance of the stack pointers of a function and
/// of its caller, at calls that they make.
pub(super) const RETURN_ADDRESS: u32 = 8;
pub(super) const LEAST_FRAME: u32 = 8;
/// Bytes of the table before each room of stubs, by which threads find their counters.
pub(super) const TABLE: u64 = 0;
/// Bytes of the room for stubs near the libraries.
pub(super) const LIBRARY_STUBS: u64 = 128 << 20;
/// Distance of the room below its program.
pub(super) const BELOW_PROGRAM: u64 = 64 << 20;
/// Displacements of 4 bytes must reach from one end of the code to the other end of the room.
pub(super) const REACH: Reach =
    Reach { most: (1 << 31) - (64 << 20), step: 64 << 20, highest: (1 << 47) - (1 << 30) };

/// Address near which the stubs of libraries are wanted.
pub(super) fn wanted_near_libraries(linker: &Range<u64>) -> u64 {
    /// Libraries still find space between the room and the dynamic linker.
    const BELOW_LIBRARIES: u64 = 1 << 30;
    linker.start.saturating_sub(BELOW_LIBRARIES + LIBRARY_STUBS)
}

/// Address near which the stubs of a program are wanted that is too low for a room below it: its heap grows above it.
pub(super) fn wanted_above(program: &Range<u64>) -> u64 {
    const ABOVE_PROGRAM: u64 = 1 << 30;
    program.end + ABOVE_PROGRAM
}

/// Returns why this processor or its kernel does not suit.
pub(super) fn lacks() -> Option<&'static str> {
    None
}
