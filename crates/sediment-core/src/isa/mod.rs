// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instruction sets: direct calls, linkage stubs, jumps and returns. Each has a file and a row in [`ISAS`].
//!
//! No instruction set is decoded completely: the decoders know the instructions that they search for, and all others
//! count as "other". Sources: the manuals of Intel and AMD (x86), Arm (A64, A32), RISC-V (unprivileged, with the C
//! extension), IBM (z/Architecture Principles of Operation, Power ISA), and the psABIs, "Procedure Linkage Table".

mod aarch64;
mod arm;
mod power;
mod riscv;
mod s390x;
mod x86;

pub use aarch64::AARCH64;
pub(crate) use arm::ARM;
pub(crate) use riscv::RISCV;
pub(crate) use s390x::S390X;
pub(crate) use x86::I386;
pub use x86::X86_64;

/// Largest number of bytes of a call before its return address.
pub const LONGEST_CALL: u64 = 7;

/// Every instruction set with known jumps or calls.
const ISAS: [&Isa; 8] =
    [&X86_64, &I386, &AARCH64, &ARM, &RISCV, &S390X, &power::LITTLE_ENDIAN, &power::BIG_ENDIAN];

/// An instruction set.
#[derive(Debug)]
pub struct Isa {
    /// Architectures that use it, as `uname -m` spells them.
    archs: &'static [&'static str],
    /// Instruction that marks targets of indirect jumps, at the beginning of functions and stubs; it has no other
    /// effect.
    pub landing_pad: &'static [u8],
    /// Returns the flow after the first instruction of this code.
    pub flow: fn(code: &[u8]) -> Flow,
    /// True if control cannot continue after the first instruction of this code: an unconditional jump, a return or a
    /// trap.
    pub ends: fn(code: &[u8]) -> bool,
    /// Distance of linkage stubs in bytes, from the beginning of their section.
    pub stub_step: usize,
    /// Decodes the stub of the procedure linkage table at an address; returns the way to its target.
    pub stub: fn(code: &[u8], address: u64, got: u64) -> Beginning<StubTarget>,
    /// Finds direct calls, direct jumps and taken addresses of functions in the code at an address, and continues after
    /// each one that `believed` confirms. `None` if they are not known.
    pub each_reference: Option<fn(code: &[u8], address: u64, believed: &mut Believed)>,
    /// Decodes the call that ends at an address, from the bytes before the address. `None` if calls are not known.
    pub call_before: Option<CallBefore>,
    /// True if a function with these bytes (or first bytes) begins with instructions that compilers put there.
    pub begins_with_code: fn(function: &[u8]) -> bool,
    /// Length of the first instruction of this code in bytes; `None` if it is invalid or not known.
    pub instruction: fn(code: &[u8]) -> Option<usize>,
    /// Number of bytes up to the end of the first jump, call or return, or of `most` instructions; one byte if
    /// instructions are not known.
    pub straight: fn(code: &[u8], most: usize) -> usize,
    /// Decodes the first instruction if it prepares a function's frame or moves an argument. Returns 1 for an
    /// instruction without a counterpart before the return, 2 for one with a counterpart, 0 for a move. `None` if
    /// prologues are not known.
    pub prologue: Option<Prologue>,
}

impl Isa {
    /// Instruction set without any known instructions.
    const UNKNOWN: Self = Self {
        archs: &[],
        landing_pad: &[],
        flow: |_| Flow::Other,
        ends: |_| true,
        stub_step: 4,
        stub: |_, _, _| None,
        each_reference: None,
        call_before: None,
        begins_with_code: |_| false,
        instruction: |_| None,
        straight: |_, _| 1,
        prologue: None,
    };

    /// Instruction set of an architecture, as `uname -m` spells it; the unknown one for others.
    pub fn of(arch: Option<&str>) -> &'static Self {
        let named = |isa: &&Self| arch.is_some_and(|arch| isa.archs.contains(&arch));
        ISAS.into_iter().find(named).unwrap_or(&Self::UNKNOWN)
    }
}

/// Decodes the call that ends at a return address.
pub type CallBefore = fn(before: &[u8], return_address: u64) -> Option<CodeReference>;

/// A decoded beginning of code, and its length in bytes.
pub type Beginning<T> = Option<(T, usize)>;

/// Decodes the first instruction of this code, if a function may begin with it. Returns the weight of
/// [`Isa::prologue`], and the length.
pub type Prologue = fn(code: &[u8]) -> Beginning<u32>;

/// Decides whether the bytes at an address are a reference; other bytes may look like one.
pub type Believed<'a> = dyn FnMut(u64, CodeReference) -> bool + 'a;

/// Reference of an instruction to code, with the target's address in the ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeReference {
    /// A direct call.
    Call(u64),
    /// A call to an address in a register or in memory.
    IndirectCall,
    /// A direct jump.
    Jump(u64),
    /// An instruction that puts the address into a register.
    Taken(u64),
}

/// Flow of control after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// A return.
    Return,
    /// A jump, conditional or not, that leaves no return address; a jump to another function is a tail call.
    Jump,
    /// A call, or unknown.
    Other,
}

/// Target of a linkage stub.
///
/// A stub computes the address of its slot from its own address, or from the address of the global offset table (i386),
/// loads the target from the slot and jumps to it. Other instructions that GNU ld, gold, lld and mold add (landing
/// pads, pointer authentication, the address for the lazy loader) are ignored. The first entry of a table loads from a
/// slot without a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StubTarget {
    /// Through the slot at this address.
    Slot(u64),
    /// The number of its relocation.
    Lazy(usize),
}

/// First instruction word of little-endian code.
fn word(code: &[u8]) -> Option<u32> {
    code.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// The lowest `bits` of a word as a signed number.
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
            assert_eq!((Isa::of(Some(arch)).flow)(code), *expected, "{arch} {name}");
        }
    }
}
