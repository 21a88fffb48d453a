// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps the memory of stubs and counters in a program that begins.
//!
//! Right after exec, a program has executed nothing, and all its registers except the stack pointer are 0. For a
//! moment, a short piece of code is written into the zero padding after the program's code. It maps the memory, sets
//! the registers back to 0 and jumps to the program's first instruction. At its end it sends itself a signal without
//! effect, at which the recorder stops it. The recorder does nothing that would have to be undone: if it is killed, the
//! code runs to its end by itself.
//!
//! In a program that already runs, one thread does this while the others are stopped; at the end it restores its
//! registers from its stack. The memory is unmapped in the same way.
//!
//! The code itself depends on the processor: [`super::machine`].

use nix::libc;
use std::ops::Range;

/// Memory to map, all of it in the file that the recorder shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) address: u64,
    pub(super) length: u64,
    /// Offset in the file of the recording.
    pub(super) offset: u64,
    pub(super) kind: RegionKind,
}

/// Use of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegionKind {
    /// Stubs.
    Code,
    /// Memory that the program writes.
    Data,
    /// A table of the process, which only the recorder writes, through the memory of the process.
    Table,
}

impl Region {
    pub(super) fn range(&self) -> Range<u64> {
        self.address..self.address + self.length
    }

    /// Access and flags of the mapping.
    pub(super) fn access(&self) -> (i32, i32) {
        let (access, shared) = match self.kind {
            RegionKind::Code => (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_SHARED),
            RegionKind::Data => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED),
            RegionKind::Table => (libc::PROT_READ, libc::MAP_PRIVATE),
        };
        (access, shared | libc::MAP_FIXED_NOREPLACE)
    }
}

/// Number in a register at the last system call if all memory is mapped.
pub(super) const DONE: u64 = 1;
/// The last system call in a program that already runs.
pub(super) const LAST_CALL: i64 = libc::SYS_close;
/// The signal that a program that begins sends to itself at the end, at which the recorder stops it. Without a recorder
/// it has no effect: a program that begins has no handlers, and without a handler the signal is ignored.
pub(super) const LAST_SIGNAL: i32 = libc::SIGURG;

/// What is written to the stack of a thread before it runs the code: by this, the code ends where the thread was. The
/// stack pointer is its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WayBack {
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
    /// Registers that system calls change, and that are set before the others; empty if there are none.
    pub(super) vectors: Vec<u8>,
}

/// Moment at which a thread runs the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the first instruction of a program.
    Beginning,
    /// Between two instructions.
    Running,
}
