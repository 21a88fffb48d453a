// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a stopped thread run a short piece of code with system calls. During this time, the code is in the zeros that
//! pad the code of a file.

use super::entrance::{DONE, LAST_CALL, LAST_SIGNAL, Moment, WayBack};
use super::machine;
use crate::tracing::machine::Registers;
use crate::tracing::mappings::{ProcessMapping, is_filtered};
use crate::tracing::system::{self, Resume, Status};
use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The thread is in a call that sleeps: see [`Registers::loses_by_leaving`].
const SLEEP: u8 = 2;
/// No system call.
const NO_CALL: i32 = -1;

/// Result of the injected code.
#[derive(Debug)]
pub(super) struct Injected {
    /// True if all system calls have succeeded.
    pub(super) succeeded: bool,
    /// Signals that arrived meanwhile, and must still be delivered to a program that already runs, because its handlers
    /// must not run now.
    pub(super) signals: Vec<i32>,
}

/// Runs the code, which depends on its address, then gives the thread these registers. The code reads the way back only
/// if we are killed meanwhile.
pub(super) fn run(
    (thread, memory): (Pid, &File),
    mapped: &[ProcessMapping],
    (code, moment): (&dyn Fn(u64) -> Vec<u8>, Moment),
    (mut after, way_back): (Registers, Option<WayBack>),
) -> io::Result<Injected> {
    let go_on = after.program_counter();
    let length = code(go_on).len() as u64;
    let place = padding(memory, mapped, length)
        .ok_or_else(|| io::Error::other("no room in its code for the code that maps memory"))?;
    let code = code(place);
    let mut signals = Vec::new();
    // A filter could end a thread that makes no call after all.
    let sleeps = moment == Moment::Running && after.loses_by_leaving(memory) == SLEEP && !is_filtered(thread);
    if sleeps {
        after = after.calling(next_call(thread, &mut signals)?);
    }
    memory.write_all_at(&code, place)?;
    let after = after.without_call();
    let mut begins = after.going_to(place);
    let mut vectors = Vec::new();
    if let Some(way_back) = way_back {
        memory.write_all_at(&way_back.bytes, way_back.address)?;
        begins = begins.with_stack(way_back.address);
        vectors = way_back.vectors;
    }
    begins.put(thread)?;
    if sleeps {
        system::set_call(thread, NO_CALL)?;
    }
    let is_blocked = || !system::signal_mask(thread).is_ok_and(|mask| mask >> (LAST_SIGNAL - 1) & 1 == 0);
    let last = if moment == Moment::Beginning && !is_blocked() {
        follow_to_signal(thread, &(place..place + code.len() as u64))?
    } else {
        follow(thread, moment, &mut signals)?
    };
    machine::threads::give_back_vectors(thread, &mut vectors)?;
    after.put(thread)?;
    memory.write_all_at(&vec![0; code.len()], place)?;
    Ok(Injected { succeeded: last.mark() == DONE, signals })
}

/// Follows the code to the signal at its end, and returns the registers there.
fn follow_to_signal(thread: Pid, code: &Range<u64>) -> io::Result<Registers> {
    let (mut how, mut signal) = (Resume::Run, 0);
    loop {
        system::resume(thread, how, signal)?;
        (how, signal) = (Resume::Run, 0);
        match system::wait_for(thread)? {
            Status::Signal(LAST_SIGNAL) => {
                let registers = Registers::of(thread)?;
                let call = registers.system_call().number as i64;
                if call == libc::SYS_tgkill && code.contains(&registers.program_counter()) {
                    return Ok(registers);
                }
                // Another process has sent it.
                signal = LAST_SIGNAL;
            }
            Status::Signal(number) => signal = number,
            Status::GroupStop => how = Resume::Listen,
            Status::Exited(_) | Status::Killed(_) => return Err(Errno::ESRCH.into()),
            Status::Event(_) | Status::Trapped | Status::SystemCall => {}
        }
    }
}

/// Lets a thread begin its system call again, and returns the number of the call: the kernel has made it `restart_syscall`
/// if only the rest of the time is left. The thread stops before the call.
fn next_call(thread: Pid, signals: &mut Vec<i32>) -> io::Result<u64> {
    let mut how = Resume::ToSystemCall;
    loop {
        system::resume(thread, how, 0)?;
        how = Resume::ToSystemCall;
        match system::wait_for(thread)? {
            Status::SystemCall => return Ok(Registers::of(thread)?.system_call().number),
            Status::Signal(number) => signals.push(number),
            Status::GroupStop => how = Resume::Listen,
            Status::Exited(_) | Status::Killed(_) => return Err(Errno::ESRCH.into()),
            Status::Event(_) | Status::Trapped => {}
        }
    }
}

/// Follows the code to the end of its last system call, and returns the registers there.
fn follow(thread: Pid, moment: Moment, signals: &mut Vec<i32>) -> io::Result<Registers> {
    let (mut how, mut signal) = (Resume::ToSystemCall, 0);
    loop {
        system::resume(thread, how, signal)?;
        (how, signal) = (Resume::ToSystemCall, 0);
        match system::wait_for(thread)? {
            Status::SystemCall => {
                let registers = Registers::of(thread)?;
                let call = registers.system_call();
                if call.number as i64 == LAST_CALL && call.ended {
                    return Ok(registers);
                }
            }
            Status::Signal(number) if moment == Moment::Running => signals.push(number),
            Status::Signal(number) => signal = number,
            Status::GroupStop => how = Resume::Listen,
            Status::Exited(_) | Status::Killed(_) => return Err(Errno::ESRCH.into()),
            Status::Event(_) | Status::Trapped => {}
        }
    }
}

/// True if a stopped thread may be in a restartable sequence (rseq(2)). The kernel aborts the sequence if the thread
/// continues in it, but not if the thread runs other code first and then returns.
pub(super) fn is_in_sequence(thread: Pid, memory: &File) -> bool {
    /// Offset of the address of the sequence in the thread's area.
    const SEQUENCE: u64 = 8;
    let mut bytes = [0; 8];
    match system::rseq_area(thread) {
        Ok(0) => false,
        Ok(area) => memory.read_exact_at(&mut bytes, area + SEQUENCE).is_err() || bytes != [0; 8],
        // Before Linux 5.13 this is not known.
        Err(_) => false,
    }
}

/// Finds zeros after the code of a mapping: this many bytes and a few more.
fn padding(memory: &File, mapped: &[ProcessMapping], length: u64) -> Option<u64> {
    const ALIGNED: u64 = 16;
    mapped.iter().filter(|mapping| mapping.executable && !mapping.writable).find_map(|mapping| {
        let from = mapping
            .range
            .end
            .checked_sub(length + 2 * ALIGNED)
            .filter(|from| *from >= mapping.range.start)?;
        let mut bytes = vec![1; (mapping.range.end - from) as usize];
        memory.read_exact_at(&mut bytes, from).ok()?;
        let place = (mapping.range.end - length) & !(ALIGNED - 1);
        // Zeros right after the code may belong to it.
        bytes.iter().all(|byte| *byte == 0).then_some(place)
    })
}
