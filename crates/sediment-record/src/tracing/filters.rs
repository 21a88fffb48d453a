// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks if the seccomp filters of a process allow the system calls that the recorder makes in it. A filter may end a
//! process that makes another call.

use super::mappings::{is_filtered, is_filtered_as_we_are};
use super::system::{self, FilterInstruction, FilteredCall};
use nix::libc;
use nix::unistd::Pid;

/// True if we have a filter that ends a process which makes these calls, or refuses one of them. A child makes them, so their
/// arguments must be harmless.
pub(crate) fn end_us(calls: &[FilteredCall]) -> bool {
    is_filtered(Pid::this()) && !system::child_makes(calls)
}

/// True if a program that we have started has no filter, or only those that it has inherited from us.
pub(crate) fn are_inherited(process: Pid) -> bool {
    !is_filtered(process) || is_filtered_as_we_are(process)
}

/// True if all filters of a stopped thread allow all of these calls. Only root can read filters, and only without a
/// filter of its own (PTRACE_SECCOMP_GET_FILTER in ptrace(2)).
pub(crate) fn allow(thread: Pid, calls: &[FilteredCall]) -> bool {
    if !is_filtered(thread) {
        return true;
    }
    /// As many as the kernel permits.
    const MOST: u64 = 1 << 15;
    for index in 0..MOST {
        match system::seccomp_filter(thread, index) {
            Ok(Some(filter)) if calls.iter().all(|call| passes(&filter, call)) => {}
            Ok(None) => return index > 0,
            _ => return false,
        }
    }
    false
}

/// True if a filter allows a call without an effect that the program could notice.
fn passes(filter: &[FilterInstruction], call: &FilteredCall) -> bool {
    matches!(result(filter, call), Some(libc::SECCOMP_RET_ALLOW | libc::SECCOMP_RET_LOG))
}

/// Runs a filter, a program of classic BPF (linux/filter.h), on a call (struct seccomp_data). `None` for a program that
/// the kernel would not accept.
fn result(filter: &[FilterInstruction], call: &FilteredCall) -> Option<u32> {
    let data = words(call);
    let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; 16]);
    let mut next = 0usize;
    loop {
        let FilterInstruction { code, if_true, if_false, constant } = *filter.get(next)?;
        next += 1;
        let slot = constant as usize;
        let code = u32::from(code);
        let operand = if code & libc::BPF_X == 0 { constant } else { x };
        match code & 7 {
            libc::BPF_LD | libc::BPF_LDX => {
                let value = match code & 0xe0 {
                    libc::BPF_IMM => constant,
                    libc::BPF_ABS => *data.get(slot / 4)?,
                    libc::BPF_MEM => *memory.get(slot)?,
                    libc::BPF_LEN => size_of_val(&data) as u32,
                    _ => return None,
                };
                *(if code & 7 == libc::BPF_LD { &mut a } else { &mut x }) = value;
            }
            libc::BPF_ST => *memory.get_mut(slot)? = a,
            libc::BPF_STX => *memory.get_mut(slot)? = x,
            libc::BPF_ALU => a = computed(code & 0xf0, a, operand)?,
            libc::BPF_JMP => {
                let jumps = match code & 0xf0 {
                    libc::BPF_JA => constant as usize,
                    test => usize::from(if holds(test, a, operand)? { if_true } else { if_false }),
                };
                next = next.checked_add(jumps)?;
            }
            libc::BPF_RET => {
                let value = if code & 0x18 == libc::BPF_A { a } else { constant };
                return Some(value & libc::SECCOMP_RET_ACTION_FULL);
            }
            _ if code & 0xf8 == libc::BPF_TXA => a = x,
            _ => x = a,
        }
    }
}

/// Words of struct seccomp_data: number, architecture, address of the call, arguments.
fn words(call: &FilteredCall) -> [u32; 16] {
    /// From the kernel's linux/audit.h.
    const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
    let mut words = [0; 16];
    words[0] = call.number as u32;
    words[1] = ARCHITECTURE;
    for (place, argument) in call.arguments.iter().enumerate() {
        words[4 + 2 * place] = *argument as u32;
        words[5 + 2 * place] = (*argument >> 32) as u32;
    }
    words
}

fn computed(operation: u32, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        libc::BPF_ADD => a.wrapping_add(operand),
        libc::BPF_SUB => a.wrapping_sub(operand),
        libc::BPF_MUL => a.wrapping_mul(operand),
        libc::BPF_DIV => a.checked_div(operand)?,
        libc::BPF_AND => a & operand,
        libc::BPF_OR => a | operand,
        libc::BPF_XOR => a ^ operand,
        libc::BPF_LSH => a.checked_shl(operand)?,
        libc::BPF_RSH => a.checked_shr(operand)?,
        libc::BPF_NEG => a.wrapping_neg(),
        _ => return None,
    })
}

fn holds(test: u32, a: u32, operand: u32) -> Option<bool> {
    Some(match test {
        libc::BPF_JEQ => a == operand,
        libc::BPF_JGT => a > operand,
        libc::BPF_JGE => a >= operand,
        libc::BPF_JSET => a & operand != 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u32, if_true: u8, if_false: u8, constant: u32) -> FilterInstruction {
        FilterInstruction { code: code as u16, if_true, if_false, constant }
    }

    /// The filter of systemd's MemoryDenyWriteExecute: no mapping is writable and executable.
    #[test]
    fn filters_decide_by_number_and_arguments() {
        let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let ends = libc::BPF_RET | libc::BPF_K;
        let both = (libc::PROT_WRITE | libc::PROT_EXEC) as u32;
        let filter = [
            instruction(load, 0, 0, 4),
            instruction(equal, 0, 6, words(&FilteredCall { number: 0, arguments: [0; 6] })[1]),
            instruction(load, 0, 0, 0),
            instruction(equal, 0, 3, libc::SYS_mmap as u32),
            instruction(load, 0, 0, 16 + 2 * 8),
            instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, both),
            instruction(equal, 1, 0, both),
            instruction(ends, 0, 0, libc::SECCOMP_RET_ALLOW),
            instruction(ends, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        ];
        let map = |access: i32| FilteredCall {
            number: libc::SYS_mmap,
            arguments: [0x1000, 0x1000, access as u64, 1, 3, 0],
        };
        assert!(passes(&filter, &map(libc::PROT_READ | libc::PROT_EXEC)));
        assert!(!passes(&filter, &map(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)));
        assert!(passes(&filter, &FilteredCall { number: libc::SYS_close, arguments: [u64::MAX; 6] }));
        assert_eq!(result(&filter[..7], &map(libc::PROT_READ)), None, "it does not end in a result");
    }

    #[test]
    fn processes_without_filters_may_do_everything() {
        let us = Pid::this();
        if !is_filtered(us) {
            assert!(are_inherited(us) && allow(us, &[]) && !end_us(&[]));
        }
    }
}
