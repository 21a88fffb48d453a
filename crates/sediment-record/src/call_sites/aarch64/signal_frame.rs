// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a signal handler finds on its stack on AArch64 (`struct rt_sigframe` of Linux), made for a thread that runs code
//! between two of its instructions. `rt_sigreturn` sets all registers from it at once, so the code may be anywhere.

use crate::tracing::mappings::ProcessMapping;

/// All registers of a thread, and the signals that it blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThreadRegisters {
    /// x0 to x30.
    pub(super) general: [u64; 31],
    pub(super) stack: u64,
    pub(super) program_counter: u64,
    /// Flags, and whether a branch has just been taken that must end at a landing pad.
    pub(super) pstate: u64,
    pub(super) blocked: u64,
    /// As ptrace has them (`struct user_fpsimd_state`): v0 to v31, then fpsr and fpcr.
    pub(super) floating: [u8; FLOATING],
    /// The vectors of SVE, if they are in use, as ptrace has them (`struct user_sve_header`, then z0 to z31, p0 to p15 and
    /// ffr); else empty.
    pub(super) vectors: Vec<u8>,
}

/// Bytes of the floating-point registers.
pub(super) const FLOATING: usize = 528;
/// Bytes of the frame without vectors. The kernel's own frames are longer, but it reads no further than the end of the
/// records.
pub(super) const LENGTH: usize = CONTEXT + RECORDS + RECORD + END;
/// The stack pointer is a multiple of this.
const ALIGNED: u64 = 16;

/// Offset of `struct sigcontext`: after `siginfo_t`, and in `struct ucontext` after flags, link, the alternate stack and
/// the blocked signals, which have room for 1,024 signals.
const CONTEXT: usize = USER_CONTEXT + 176;
const USER_CONTEXT: usize = 128;
/// Offset of `ss_flags` of the alternate stack.
const ALTERNATE: usize = USER_CONTEXT + 24;
const BLOCKED: usize = USER_CONTEXT + 40;
/// Offsets in `struct sigcontext`.
const GENERAL: usize = CONTEXT + 8;
const RECORDS: usize = 288;
/// Record of the floating-point registers (`struct fpsimd_context`), and the one that ends the records.
const RECORD: usize = 16 + 512;
const END: usize = 16;
const FPSIMD_MAGIC: u32 = 0x4650_8001;
/// Record of vectors (`struct sve_context`): its length with a given length of a vector, after a header. The records have
/// 4,096 bytes at most.
const SVE_MAGIC: u32 = 0x5356_4501;
const HEADER: usize = 16;
const MOST: usize = 4096;
/// Offset of the length of a vector, and of flags, in `struct user_sve_header`.
const VECTOR_LENGTH: usize = 8;
const VECTOR_FLAGS: usize = 12;

/// No flag of an alternate stack. The kernel ignores the error, and the thread keeps its alternate stack.
const KEPT: u32 = 4;

/// Address for the frame below the stack pointer. It must be the stack of the process or, as in C libraries, have the
/// thread's own data at its end: below other stacks may be other data.
pub(super) fn place(
    (stack, length): (u64, usize),
    thread_data: u64,
    mapped: &[ProcessMapping],
) -> Option<u64> {
    /// Left for the frame of a signal.
    const SIGNAL: u64 = 8192;
    let mapping = mapped.iter().find(|mapping| mapping.range.contains(&stack))?;
    let of_thread = mapping.inode == 0 && (stack..mapping.range.end).contains(&thread_data);
    // The kernel extends the stack of the process.
    let (is_own, left) = match mapping.path.as_str() {
        "[stack]" => (true, 0),
        _ => (of_thread, SIGNAL),
    };
    let address = stack.checked_sub(length as u64)? & !(ALIGNED - 1);
    let fits = mapping.writable && address >= mapping.range.start + left;
    (is_own && fits).then_some(address)
}

/// True if a set of vectors that ptrace has read is in use.
pub(super) fn are_in_use(vectors: &[u8]) -> bool {
    vectors.get(VECTOR_FLAGS).is_some_and(|flags| flags & 1 == 1)
}

/// Makes the record of vectors that are in use; `None` if they are too long for a frame.
fn record_of(vectors: &[u8]) -> Option<Vec<u8>> {
    if vectors.is_empty() {
        return Some(Vec::new());
    }
    let length = u16::from_le_bytes(*vectors.get(VECTOR_LENGTH..)?.first_chunk()?);
    let registers = usize::from(length) * 32 + usize::from(length) / 8 * 17;
    let size = (HEADER + registers).next_multiple_of(ALIGNED as usize);
    let mut record = [SVE_MAGIC.to_le_bytes(), (size as u32).to_le_bytes()].concat();
    record.extend(length.to_le_bytes());
    record.resize(HEADER, 0);
    record.extend(vectors.get(HEADER..HEADER + registers)?);
    record.resize(size, 0);
    (RECORD + size + END <= MOST).then_some(record)
}

/// Makes the frame; `None` if the vectors are too long for it.
pub(super) fn frame(state: &ThreadRegisters) -> Option<Vec<u8>> {
    let mut bytes = vec![0; LENGTH];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(ALTERNATE, &KEPT.to_le_bytes());
    put(BLOCKED, &state.blocked.to_le_bytes());
    let special = [state.stack, state.program_counter, state.pstate];
    for (place, register) in state.general.iter().chain(&special).enumerate() {
        put(GENERAL + 8 * place, &register.to_le_bytes());
    }
    let record = CONTEXT + RECORDS;
    let (vectors, status) = state.floating.split_at(512);
    put(record, &FPSIMD_MAGIC.to_le_bytes());
    put(record + 4, &(RECORD as u32).to_le_bytes());
    put(record + 8, &status[..8]);
    put(record + 16, vectors);
    bytes.splice(LENGTH - END..LENGTH - END, record_of(&state.vectors)?);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::output_of;
    use super::*;

    /// Bytes of a state whose registers all differ.
    fn sample() -> ThreadRegisters {
        let mut general = [0; 31];
        general.iter_mut().enumerate().for_each(|(place, register)| *register = 0x1000 + place as u64);
        let mut floating = [0; FLOATING];
        floating.iter_mut().enumerate().for_each(|(place, byte)| *byte = place as u8);
        let (stack, program_counter, pstate, blocked) = (0x2000, 0x2001, 0x6000_0000, 0x2003);
        ThreadRegisters { general, stack, program_counter, pstate, blocked, floating, vectors: Vec::new() }
    }

    /// Prints offsets that the compiler knows.
    const OFFSETS: &str = r#"
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <asm/sigcontext.h>
struct frame { siginfo_t about; struct kernel_context { unsigned long flags, *link; stack_t stack; unsigned long blocked; char more[120]; struct sigcontext context; } user; };
int main() {
    size_t context = offsetof(struct frame, user.context), records = context + offsetof(struct sigcontext, __reserved);
    printf("%zu %zu %zu %zu %zu %zu %zu %zu %zu %x", offsetof(struct frame, user.stack.ss_flags), offsetof(struct frame, user.blocked),
        context + offsetof(struct sigcontext, regs), context + offsetof(struct sigcontext, sp), context + offsetof(struct sigcontext, pstate),
        records, offsetof(struct fpsimd_context, vregs), sizeof(struct fpsimd_context), records + sizeof(struct fpsimd_context) + 16, FPSIMD_MAGIC);
}
"#;

    #[test]
    fn frames_have_the_kernels_layout() {
        let state = sample();
        let frame = frame(&state).unwrap();
        let word = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap());
        assert_eq!(frame.len(), LENGTH);
        assert_eq!((word(ALTERNATE), word(BLOCKED)), (4, 0x2003));
        assert_eq!((word(GENERAL), word(GENERAL + 8 * 30)), (0x1000, 0x101e));
        assert_eq!([31, 32, 33].map(|place| word(GENERAL + 8 * place)), [0x2000, 0x2001, 0x6000_0000]);
        let record = &frame[CONTEXT + RECORDS..];
        assert_eq!(record[..8], 0x210_4650_8001u64.to_le_bytes());
        assert_eq!(record[8..16], state.floating[512..520]);
        assert_eq!(record[16..RECORD], state.floating[..512]);
        assert_eq!(record[RECORD..], [0; END]);
        let known = [
            ALTERNATE,
            BLOCKED,
            GENERAL,
            GENERAL + 8 * 31,
            GENERAL + 8 * 33,
            CONTEXT + RECORDS,
            16,
            RECORD,
            LENGTH,
        ];
        let known = known.map(|number| number.to_string()).join(" ");
        if let Some(said) = output_of(OFFSETS, &[]) {
            assert_eq!(String::from_utf8_lossy(&said), format!("{known} {FPSIMD_MAGIC:x}"));
        }
    }

    /// Vectors of 32 bytes: 32 of them, 16 predicates of 4 bytes, and ffr.
    #[test]
    fn frames_have_vectors_in_use() {
        let mut vectors = vec![0; HEADER + 32 * 32 + 17 * 4 + 8];
        vectors[VECTOR_LENGTH] = 32;
        vectors.iter_mut().enumerate().skip(HEADER).for_each(|(place, byte)| *byte = place as u8);
        assert!(!are_in_use(&vectors) && !are_in_use(&[]));
        vectors[VECTOR_FLAGS] = 1;
        assert!(are_in_use(&vectors));
        let state = ThreadRegisters { vectors: vectors.clone(), ..sample() };
        let with = frame(&state).unwrap();
        assert_eq!(
            (with.len(), &with[..LENGTH - END]),
            (LENGTH + 1120, &frame(&sample()).unwrap()[..LENGTH - END])
        );
        let record = &with[LENGTH - END..];
        assert_eq!(record[..16], [0x01, 0x45, 0x56, 0x53, 0x60, 4, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(record[16..16 + 1092], vectors[HEADER..HEADER + 1092]);
        assert_eq!(record[16 + 1092..], [0; 12 + END]);
        vectors[VECTOR_LENGTH] = 128;
        vectors.resize(HEADER + 128 * 35, 0);
        assert_eq!(frame(&ThreadRegisters { vectors, ..sample() }), None, "longer than the kernel reads");
    }

    #[test]
    fn frames_are_put_on_own_stacks() {
        let mapping = |range, path: &str| ProcessMapping {
            range,
            executable: false,
            writable: true,
            offset: 0,
            inode: 0,
            path: path.to_owned(),
        };
        let mapped = [mapping(0x1_0000..0x3_0000, "[heap]"), mapping(0x8_0000..0x9_0000, ""), {
            mapping(0xf_0000..0x10_0000, "[stack]")
        }];
        let room = |stack, data| place((stack, LENGTH), data, &mapped);
        let length = LENGTH as u64;
        assert_eq!(room(0x8_8008, 0x8_f700), Some(0x8_8000 - length));
        assert_eq!(room(0xf_8000, 0x1_0700), Some(0xf_8000 - length));
        assert_eq!(room(0x8_8000, 0x1_0700), None, "it is the stack of no thread");
        assert_eq!(room(0x8_8000, 0x8_4000), None, "the thread's data are below");
        assert_eq!(room(0x8_2000, 0x8_f700), None, "there is no room for a signal");
        assert_eq!([room(0xf_0400, 0x1_0700), room(0x5_0000, 0x1_0700)], [None; 2]);
    }
}
