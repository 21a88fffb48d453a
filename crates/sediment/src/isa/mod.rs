// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encodings of instructions, one file per architecture: what code calls, where a linkage stub leads, what ends a function.
//!
//! No instruction set is decoded as a whole. Sources: the instruction set manuals of Intel and AMD (x86), Arm (A64, A32), RISC-V
//! (unprivileged, with the C extension), IBM (z/Architecture Principles of Operation, Power ISA), and the psABIs, "Procedure Linkage
//! Table".

pub(crate) mod aarch64;
pub(crate) mod arm;
mod power;
pub(crate) mod riscv;
pub(crate) mod s390x;
pub(crate) mod x86;

/// What stands before the address that a function returns to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// A call of the function at this address, as the ELF file counts.
    CallOf(u64),
    /// A call of an address in a register or in memory.
    IndirectCall,
    /// No call.
    NoCall,
}

/// What an instruction that a branch was recorded at may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Return,
    /// A jump, conditional or not, that leaves no return address: in front of another function, a tail call.
    Jump,
    /// A call, or not known here.
    Other,
}

/// How a stub says where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through the slot at this address.
    Slot(u64),
    /// By the number of its relocation.
    Lazy(usize),
}

/// What the instruction at the beginning of `code` is, on an architecture as `uname -m` spells it.
pub(crate) fn flow(arch: &str, code: &[u8]) -> Flow {
    match arch {
        "x86_64" => x86::flow(code, true),
        "i386" | "i686" => x86::flow(code, false),
        // Instructions are little-endian also where data is not.
        "aarch64" | "aarch64_be" => word(code, false).map_or(Flow::Other, aarch64::flow),
        "riscv64" | "riscv32" => riscv::flow(code),
        "s390x" => s390x::flow(code),
        "ppc64le" => word(code, false).map_or(Flow::Other, power::flow),
        "ppc64" => word(code, true).map_or(Flow::Other, power::flow),
        _ => Flow::Other,
    }
}

fn word(code: &[u8], big_endian: bool) -> Option<u32> {
    let bytes = *code.first_chunk()?;
    Some(if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
}

/// The instruction words of little-endian code.
fn words<const N: usize>(code: &[u8]) -> Option<[u32; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(code.get(..4 * N)?.chunks_exact(4)) {
        *word = u32::from_le_bytes(*bytes.first_chunk::<4>()?);
    }
    Some(words)
}

/// The lowest `bits` of a word, which may be negative.
fn signed(word: u32, bits: u32) -> i64 {
    i64::from((word << (32 - bits)) as i32 >> (32 - bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_jumps_and_calls_are_told_apart() {
        use Flow::{Jump, Other, Return};
        let cases: &[(&str, &[u8], Flow, &str)] = &[
            ("x86_64", &[0xc3], Return, "ret"),
            ("x86_64", &[0xf3, 0xc3], Return, "rep ret"),
            ("x86_64", &[0xc2, 8, 0], Return, "ret 8"),
            ("x86_64", &[0xe8, 0, 0, 0, 0], Other, "call"),
            ("x86_64", &[0xff, 0xd0], Other, "call *%rax"),
            ("x86_64", &[0x41, 0xff, 0xd4], Other, "call *%r12"),
            ("x86_64", &[0xe9, 0, 0, 0, 0], Jump, "jmp"),
            ("x86_64", &[0x3e, 0xff, 0xe0], Jump, "notrack jmp *%rax"),
            ("x86_64", &[0x41, 0xff, 0xe4], Jump, "jmp *%r12"),
            ("x86_64", &[0x0f, 0x84, 0, 0, 0, 0], Jump, "je"),
            ("i686", &[0x41], Other, "inc %ecx"),
            ("aarch64", &0xd65f_03c0u32.to_le_bytes(), Return, "ret"),
            ("aarch64", &0xd65f_0280u32.to_le_bytes(), Return, "ret x20"),
            ("aarch64", &0xd65f_0bffu32.to_le_bytes(), Return, "retaa"),
            ("aarch64", &0xd65f_0fffu32.to_le_bytes(), Return, "retab"),
            ("aarch64", &0x9400_0010u32.to_le_bytes(), Other, "bl"),
            ("aarch64", &0xd63f_0200u32.to_le_bytes(), Other, "blr x16"),
            ("aarch64", &0x1400_0010u32.to_le_bytes(), Jump, "b"),
            ("aarch64", &0xd61f_0220u32.to_le_bytes(), Jump, "br x17"),
            ("aarch64", &0xd71f_0a11u32.to_le_bytes(), Jump, "braa x16, x17"),
            ("aarch64", &0xb400_0060u32.to_le_bytes(), Jump, "cbz"),
            ("aarch64", &0x3600_0060u32.to_le_bytes(), Jump, "tbz"),
            ("riscv64", &0x0000_8067u32.to_le_bytes(), Return, "ret"),
            ("riscv64", &[0x82, 0x80], Return, "c.jr ra"),
            ("riscv64", &[0x02, 0x87], Jump, "c.jr a4"),
            ("riscv64", &[0x02, 0x97], Other, "c.jalr a4"),
            ("riscv64", &0x0003_0067u32.to_le_bytes(), Jump, "jr t1: a tail call"),
            ("riscv64", &0x0000_80e7u32.to_le_bytes(), Other, "jalr ra"),
            ("riscv64", &0x0040_006fu32.to_le_bytes(), Jump, "j"),
            ("riscv64", &0x0040_00efu32.to_le_bytes(), Other, "jal"),
            ("s390x", &[0x07, 0xfe], Return, "br %r14"),
            ("s390x", &[0x07, 0xf1], Jump, "br %r1"),
            ("s390x", &[0x07, 0x00], Other, "nopr"),
            ("s390x", &[0xc0, 0xf4, 0, 0, 0, 0], Jump, "jg"),
            ("s390x", &[0xc0, 0xe5, 0, 0, 0, 0], Other, "brasl %r14"),
            ("s390x", &[0x0d, 0xe1], Other, "basr %r14, %r1"),
            ("ppc64le", &0x4e80_0020u32.to_le_bytes(), Return, "blr"),
            ("ppc64le", &0x4800_0010u32.to_le_bytes(), Jump, "b"),
            ("ppc64le", &0x4800_0011u32.to_le_bytes(), Other, "bl"),
            ("ppc64", &0x4e80_0420u32.to_be_bytes(), Jump, "bctr"),
            ("ppc64", &0x4e80_0421u32.to_be_bytes(), Other, "bctrl"),
            ("mips64", &[0xc3; 4], Other, "not known"),
            ("x86_64", &[], Other, "nothing"),
        ];
        for (arch, code, expected, name) in cases {
            assert_eq!(flow(arch, code), *expected, "{arch} {name}");
        }
    }
}
