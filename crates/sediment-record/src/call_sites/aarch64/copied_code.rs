// SPDX-License-Identifier: MIT OR Apache-2.0
//! Branches in copied code that lead to no code.

use crate::tracing::machine::Registers;
use nix::unistd::Pid;
use std::fs::File;
use std::io;

/// Where the changed `b` or `bl` of a call site leads, relative to itself.
pub(in crate::call_sites) fn leads_to(changed: &[u8]) -> u64 {
    let instruction = changed.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    // The low 26 bits are the distance in words.
    (i64::from((instruction << 6) as i32 >> 6) * 4) as u64
}

/// Sets a stopped thread back to the branch at this address.
pub(in crate::call_sites) fn call_again(thread: Pid, _: &File, start: u64, _: u64) -> io::Result<bool> {
    Registers::of(thread)?.going_to(start).put(thread)?;
    Ok(true)
}
