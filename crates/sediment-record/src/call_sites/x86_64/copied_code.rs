// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls and jumps in copied code that lead to no code.

use crate::tracing::machine::Registers;
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Where the changed bytes of a call site lead, relative to their first one. Their last four are the distance from their
/// end.
pub(in crate::call_sites) fn leads_to(changed: &[u8]) -> u64 {
    let distance = changed.last_chunk().map_or(0, |distance| i32::from_le_bytes(*distance));
    (changed.len() as u64).wrapping_add_signed(distance.into())
}

/// Sets a stopped thread back to the site whose bytes begin here; false if it did not come from there.
pub(in crate::call_sites) fn call_again(
    thread: Pid,
    memory: &File,
    start: u64,
    length: u64,
) -> io::Result<bool> {
    const CALL: u8 = 0xe8;
    const JUMP: u8 = 0xe9;
    let mut registers = Registers::of(thread)?;
    let end = start.wrapping_add(length);
    let mut opcode = [0; 2];
    memory.read_exact_at(&mut opcode, end.wrapping_sub(6))?;
    if opcode[1] == CALL {
        let mut returns = [0; 8];
        memory.read_exact_at(&mut returns, registers.stack())?;
        if u64::from_le_bytes(returns) != end {
            return Ok(false);
        }
        registers = registers.returned();
    }
    // Of a plain call or jump, only the distance is changed; a conditional jump has an opcode of two bytes.
    let site = match (length, opcode[1]) {
        (4, CALL | JUMP) => start - 1,
        (4, _) => start - 2,
        _ => start,
    };
    registers.going_to(site).put(thread)?;
    Ok(true)
}
