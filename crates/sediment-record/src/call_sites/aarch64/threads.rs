// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a thread finds its counters.
//!
//! No register is free for their address. A table before each room of stubs has the address of a block for each hash
//! of tpidr_el0, the address of the thread's own data. It is memory of the process alone, and the recorder writes it:
//! when a thread begins, its entry; when a process forks, all entries. Threads with the same hash share a block, so
//! blocks are changed by atomic instructions, and no count is lost.

use super::TABLE;
use super::writer::{A64Writer, Register, SVC, THREAD};
use crate::call_sites::placement::TooFar;
use crate::tracing::machine::Registers;
use crate::tracing::mappings::status_field;
use crate::tracing::system;
use nix::libc;
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Number of entries of the table, as a power of 2.
const BITS: u32 = 8;
/// Bits of tpidr_el0 that are mixed: C libraries put a thread's data at the end of its stack, at a distance of whole
/// pages from that of the next one, mostly of a power of 2 and a page.
const LOWEST: u32 = 12;
const MIXED: u32 = 9;

/// Set of registers of vectors (elf.h).
const NT_ARM_SVE: libc::c_long = 0x405;

/// Loads the address of the thread's block.
pub(super) fn find_block(
    code: &mut A64Writer,
    room: u64,
    block: Register,
    other: Register,
) -> Result<(), TooFar> {
    code.put(THREAD | other);
    code.page(block, room - TABLE)?;
    code.add_shifted_right(other, other, (other, MIXED));
    code.bits(other, other, LOWEST, BITS);
    code.load_entry(block, block, other);
    Ok(())
}

/// Entry of a thread.
fn entry(thread_data: u64) -> u64 {
    thread_data.wrapping_add(thread_data >> MIXED) >> LOWEST & ((1 << BITS) - 1)
}

/// Content of the table if all threads have the same block.
pub(in crate::call_sites) fn table(block: u64) -> Vec<u8> {
    block.to_le_bytes().repeat(1 << BITS)
}

/// Sets the counters of a stopped thread, or those of all threads of a process that begins with the tables of another
/// one.
pub(in crate::call_sites) fn set_counters(
    thread: Pid,
    (memory, tables, begins_process): (&File, &[u64], bool),
    address: u64,
) -> io::Result<()> {
    if begins_process {
        let all = table(address);
        return tables.iter().try_for_each(|at| memory.write_all_at(&all, *at));
    }
    let entry = 8 * entry(system::thread_data(thread)?);
    tables.iter().try_for_each(|at| memory.write_all_at(&address.to_le_bytes(), at + entry))
}

/// A stopped thread has no counters any longer; its table is unmapped.
pub(in crate::call_sites) fn take_counters(_: Pid) -> io::Result<()> {
    Ok(())
}

/// Gives vectors in use back to a stopped thread: system calls have changed them.
pub(in crate::call_sites) fn give_back_vectors(thread: Pid, vectors: &mut [u8]) -> io::Result<()> {
    if vectors.is_empty() {
        return Ok(());
    }
    Ok(system::write_registers(thread, NT_ARM_SVE, vectors)?)
}

/// False: stubs need no register.
pub(in crate::call_sites) fn is_occupied(_: Pid) -> io::Result<bool> {
    Ok(false)
}

/// Makes the frame from which a stopped thread that runs other code gets these registers back; an error is the reason why
/// the thread cannot run other code.
#[cfg(target_arch = "aarch64")]
pub(in crate::call_sites) fn way_back(
    thread: Pid,
    registers: Registers,
    mapped: &[crate::tracing::mappings::ProcessMapping],
) -> Result<Option<crate::call_sites::entrance::WayBack>, &'static str> {
    use super::signal_frame::{self, FLOATING, ThreadRegisters};
    // From elf.h.
    const NT_PRFPREG: libc::c_long = 2;
    const NT_ARM_SSVE: libc::c_long = 0x40b;
    const NT_ARM_GCS: libc::c_long = 0x410;
    const UNREADABLE: &str = "the registers of the process cannot be read";
    /// As many bytes as the longest vectors have.
    const MOST_VECTORS: usize = 560 * 16;
    let vectors_of = |kind| {
        let mut vectors = vec![0; MOST_VECTORS];
        let length = system::read_registers(thread, kind, &mut vectors).unwrap_or_default();
        vectors.truncate(length);
        vectors
    };
    if signal_frame::are_in_use(&vectors_of(NT_ARM_SSVE)) {
        return Err("its threads are in the streaming mode of SME");
    }
    let mut vectors = vectors_of(NT_ARM_SVE);
    if !signal_frame::are_in_use(&vectors) {
        vectors.clear();
    }
    // The first word has the features in use.
    let mut shadow = [0; 24];
    if system::read_registers(thread, NT_ARM_GCS, &mut shadow).is_ok() && shadow[0] & 1 == 1 {
        return Err("it has a shadow stack (GCS)");
    }
    let (general, stack, program_counter, pstate) = registers.all();
    let data = system::thread_data(thread).map_err(|_| UNREADABLE)?;
    let mut floating = [0; FLOATING];
    let length = system::read_registers(thread, NT_PRFPREG, &mut floating).map_err(|_| UNREADABLE)?;
    if length < floating.len() {
        return Err(UNREADABLE);
    }
    let blocked = system::signal_mask(thread).map_err(|_| UNREADABLE)?;
    let state = ThreadRegisters { general, stack, program_counter, pstate, blocked, floating, vectors };
    let bytes = signal_frame::frame(&state).ok_or("its threads use long vectors of SVE")?;
    let address = signal_frame::place((stack, bytes.len()), data, mapped)
        .ok_or("no thread has room on its own stack for its registers")?;
    Ok(Some(crate::call_sites::entrance::WayBack { address, bytes, vectors: state.vectors }))
}

/// System calls that end with EINTR if a thread is woken for no reason, as listed in signal(7), and newer ones. All of
/// them can be repeated.
const INTERRUPTED: [libc::c_long; 27] = [
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_io_uring_enter,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_preadv2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwritev2,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_splice,
    libc::SYS_sendfile,
    libc::SYS_fallocate,
];

/// Makes a thread that stopped at a signal, or at none (0), call the kernel again if only the stop has ended its call.
/// After most calls the kernel does this itself. After the others, the result is in the place of the first argument.
pub(in crate::call_sites) fn call_again(thread: Pid, signal: i32) {
    let Ok(registers) = Registers::of(thread) else { return };
    let number = registers.system_call().number;
    if registers.result() != -i64::from(libc::EINTR) || !INTERRUPTED.contains(&(number as libc::c_long)) {
        return;
    }
    let at = registers.program_counter().wrapping_sub(4);
    let instruction = File::open(format!("/proc/{thread}/mem")).and_then(|memory| {
        let mut bytes = [0; 4];
        memory.read_exact_at(&mut bytes, at)?;
        Ok(u32::from_le_bytes(bytes))
    });
    if !matches!(instruction, Ok(SVC)) || signal != 0 && has_handler(thread, signal) {
        return;
    }
    if let Some(argument) = first_argument(thread, number) {
        let _ = registers.repeating(argument).put(thread);
    }
}

/// First argument of the last system call of a stopped thread. The kernel shows it only during a call, so the thread is
/// in the call for a moment.
fn first_argument(thread: Pid, number: u64) -> Option<u64> {
    const NONE: i32 = -1;
    system::set_call(thread, number as i32).ok()?;
    let shown = std::fs::read_to_string(format!("/proc/{thread}/syscall"));
    system::set_call(thread, NONE).ok()?;
    let shown = shown.ok()?;
    let argument = shown.split_whitespace().nth(1)?.strip_prefix("0x")?;
    u64::from_str_radix(argument, 16).ok()
}

/// True if a handler runs for this signal.
fn has_handler(thread: Pid, signal: i32) -> bool {
    let caught = status_field(thread, "SigCgt").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    caught.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Finds the addresses at which signal handlers have interrupted a thread, in the words of its stack.
///
/// The kernel saves pc and pstate, and after an unused word the floating-point registers, which begin with a number
/// (struct sigcontext and fpsimd_context of Linux).
pub(in crate::call_sites) fn interrupted(stack: &[u64]) -> Vec<u64> {
    const REGISTERS: u64 = 0x210_4650_8001;
    stack.windows(4).filter(|saved| saved[3] == REGISTERS).map(|saved| saved[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn threads_have_entries_of_their_own() {
        for distance in [0x80_1000, 0x80_0000, 0x100_0000, 0x20_1000, 0x2_1000, 0x100_1000] {
            let entries: BTreeSet<u64> =
                (0..32).map(|number| entry(0xffff_a000_0700 - number * distance)).collect();
            assert!(entries.len() == 32, "{distance:x}: {}", entries.len());
        }
    }

    #[test]
    fn interrupted_code_is_found() {
        let stack = [1, 2, 0xaaaa_1234, 0x6000_0000, 0, 0x210_4650_8001, 7];
        assert_eq!(interrupted(&stack), [0xaaaa_1234]);
    }
}
