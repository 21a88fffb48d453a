// SPDX-License-Identifier: MIT OR Apache-2.0
//! The base of the register gs is the address of a thread's counters.

use crate::call_sites::entrance::WayBack;
use crate::tracing::machine::Registers;
use crate::tracing::mappings::{ProcessMapping, is_filtered};
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::mem::offset_of;

/// Content of the table by which threads find their counters: there is none.
pub(in crate::call_sites) fn table(_: u64) -> Vec<u8> {
    Vec::new()
}

/// Sets the counters of a stopped thread.
pub(in crate::call_sites) fn set_counters(
    thread: Pid,
    _: (&File, &[u64], bool),
    address: u64,
) -> io::Result<()> {
    set_base(thread, address)
}

fn set_base(thread: Pid, address: u64) -> io::Result<()> {
    let place = offset_of!(libc::user, regs) + offset_of!(user_regs_struct, gs_base);
    Ok(ptrace::write_user(thread, place as ptrace::AddressType, address as i64)?)
}

/// A stopped thread has no counters any longer.
pub(in crate::call_sites) fn take_counters(thread: Pid) -> io::Result<()> {
    set_base(thread, 0)
}

/// True if a stopped thread uses what a stub needs.
pub(in crate::call_sites) fn is_occupied(thread: Pid) -> io::Result<bool> {
    Ok(ptrace::getregs(thread)?.gs_base != 0)
}

/// The code itself saves all registers that it uses.
pub(in crate::call_sites) fn way_back(
    _: Pid,
    _: Registers,
    _: &[ProcessMapping],
) -> Result<Option<WayBack>, &'static str> {
    Ok(None)
}

/// System calls change no vectors.
pub(in crate::call_sites) fn give_back_vectors(_: Pid, _: &mut [u8]) -> io::Result<()> {
    Ok(())
}

/// Makes a thread that stopped at a signal, or at none (0), call the kernel again if only the stop has ended its call.
pub(in crate::call_sites) fn call_again(thread: Pid, _: i32) {
    let Ok(registers) = Registers::of(thread) else { return };
    if let Some(changed) = registers.calling_again(|| is_filtered(thread)) {
        let _ = changed.put(thread);
    }
}

/// Finds the addresses at which signal handlers have interrupted a thread, in the words of its stack.
///
/// The kernel saves rip, the flags, and the segment of code in words that follow each other (struct sigcontext_64 of Linux).
pub(in crate::call_sites) fn interrupted(stack: &[u64]) -> Vec<u64> {
    const USER_CODE: u64 = 0x33;
    const LARGEST_FLAGS: u64 = 1 << 22;
    let saved = stack.windows(3).filter(|saved| saved[1] < LARGEST_FLAGS && saved[2] & 0xffff == USER_CODE);
    saved.map(|saved| saved[0]).collect()
}
