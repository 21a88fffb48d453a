// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instruction sets, one file and a row of [`ISAS`] each: direct calls, linkage stubs, jumps and returns.
//!
//! No instruction set is decoded as a whole: what is looked for is known, and all else counts as another instruction. Sources: the
//! manuals of Intel and AMD (x86), Arm (A64, A32), RISC-V (unprivileged, with the C extension), IBM (z/Architecture Principles of
//! Operation, Power ISA), and the psABIs, "Procedure Linkage Table".

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

/// Bytes before a return address that may belong to the call.
pub const LONGEST_CALL: u64 = 7;

/// Every instruction set of which jumps or calls are known.
const ISAS: [&Isa; 8] =
    [&X86_64, &I386, &AARCH64, &ARM, &RISCV, &S390X, &power::LITTLE_ENDIAN, &power::BIG_ENDIAN];

/// An instruction set.
#[derive(Debug)]
pub struct Isa {
    /// Architectures that have it, as `uname -m` spells them.
    archs: &'static [&'static str],
    /// Instructions begin at multiples of this many bytes.
    alignment: u64,
    /// Instruction that functions and stubs may begin with, as a target of indirect jumps; it does nothing else.
    pub landing_pad: &'static [u8],
    /// Flow of the instruction that code begins with.
    pub flow: fn(code: &[u8]) -> Flow,
    /// Tells whether code does not run over the instruction that it begins with: a jump without a condition, a return, a trap.
    pub ends: fn(code: &[u8]) -> bool,
    /// Linkage stubs begin at multiples of this many bytes, from the beginning of their section.
    pub stub_step: usize,
    /// Stub of the procedure linkage table that code at an address begins with: the way to its target.
    pub stub: fn(code: &[u8], address: u64, got: u64) -> Beginning<StubTarget>,
    /// Finds the direct calls and jumps in the code at an address, and the addresses of functions that it takes, and goes on
    /// behind each that `believed` confirms. None where they are not known.
    pub each_reference: Option<fn(code: &[u8], address: u64, believed: &mut Believed)>,
    /// Call that ends at an address, of which these are the bytes before it. None where calls are not known.
    pub call_before: Option<CallBefore>,
    /// Tells whether a function of these bytes (or the first of them) begins with instructions that compilers put there.
    pub begins_with_code: fn(function: &[u8]) -> bool,
    /// Tells whether a thread that executes the instruction that code begins with stands at another then, without a system call. It may fault.
    pub steps: fn(code: &[u8]) -> bool,
    /// Bytes of the instruction that code begins with; None where that is none, or not known.
    pub instruction: fn(code: &[u8]) -> Option<usize>,
    /// Target of the direct jump, conditional or not, that the instruction at an address is.
    pub jump: fn(code: &[u8], address: u64) -> Option<u64>,
    /// Bytes up to the end of the first jump, call or return of code, or of `most` instructions; one byte where instructions are not
    /// known.
    pub straight: fn(code: &[u8], most: usize) -> usize,
    /// Instruction that code begins with, if it prepares a function's frame or moves an argument: how many instructions it and its
    /// counterpart before the return are, none for a move. None where prologues are not known.
    pub prologue: Option<Prologue>,
    /// Jumps in the place of a function's first instructions; None where they are not known.
    pub detour: Option<Detour>,
}

impl Isa {
    /// Instruction set of which nothing is known.
    const UNKNOWN: Self = Self {
        archs: &[],
        alignment: 1,
        landing_pad: &[],
        flow: |_| Flow::Other,
        ends: |_| true,
        stub_step: 4,
        stub: |_, _, _| None,
        each_reference: None,
        call_before: None,
        begins_with_code: |_| false,
        steps: |_| false,
        instruction: |_| None,
        jump: |_, _| None,
        straight: |_, _| 1,
        prologue: None,
        detour: None,
    };

    /// Instruction set of an architecture as `uname -m` spells it; one of which nothing is known for others.
    pub fn of(arch: Option<&str>) -> &'static Self {
        let named = |isa: &&Self| arch.is_some_and(|arch| isa.archs.contains(&arch));
        ISAS.into_iter().find(named).unwrap_or(&Self::UNKNOWN)
    }

    /// Bytes of the whole instructions among the first `most` bytes of this code; None if not all are instructions.
    pub fn whole_instructions(&self, code: &[u8], most: usize) -> Option<usize> {
        let mut whole = 0;
        while whole < most {
            let length = (self.instruction)(code.get(whole..)?)?;
            if whole + length > most {
                break;
            }
            whole += length;
        }
        Some(whole)
    }

    /// Tells whether an instruction may begin at this address.
    pub fn may_begin_at(&self, address: u64) -> bool {
        address % self.alignment == 0
    }
}

/// Bytes of a jump that takes the place of instructions.
pub const JUMP: usize = 5;

/// Rules by which the first instructions of a function give way to a jump.
#[derive(Debug, Clone, Copy)]
pub struct Detour {
    /// A jump from an address to another; None where that is too far.
    pub jump: fn(from: u64, to: u64) -> Option<[u8; JUMP]>,
    /// The instructions that give way at the beginning of code, of which the function has the first `size` bytes; None where one of
    /// them may not be executed elsewhere. They may fault.
    pub movable: fn(code: &[u8], size: usize) -> Option<Movable>,
    /// Appends the same instructions for another address to `out`; None where that is too far, or where the code is cut off.
    pub moved: fn(code: &[u8], from: u64, to: u64, out: &mut Vec<u8>) -> Option<()>,
    /// Shows each direct jump and call in the code at an address; where it cannot be decoded, whatever may be one.
    pub branches: fn(code: &[u8], address: u64, target: &mut Targets<'_>) -> IndirectJumps,
    /// Shows the direct jump or call that the code at an address begins with, if it may be one.
    pub any_branch: fn(code: &[u8], address: u64, target: &mut Targets<'_>),
}

/// Callback that is shown the target of a branch, and true for a call.
pub type Targets<'a> = dyn FnMut(u64, bool) + 'a;

/// Instructions that can give way to a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Movable {
    /// Bytes of them.
    pub length: usize,
    /// True if the function does not go on behind them, or only when what they call returns.
    pub ends: bool,
    /// True if the last of them is a call.
    pub calls: bool,
    /// Bit for each byte behind the first, below [`JUMP`], at which one of them begins.
    pub begins: u8,
    /// True if their bytes are the same everywhere.
    pub plain: bool,
}

/// Branches in code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndirectJumps {
    /// Where jumps are to addresses in registers or memory.
    pub indirect: Vec<u64>,
    /// True if the code cannot be decoded: there may be others.
    pub unknown: bool,
}

/// Decodes the call that ends at a return address.
pub type CallBefore = fn(before: &[u8], return_address: u64) -> Option<CodeReference>;

/// Beginning of code that was decoded, and its length in bytes.
pub type Beginning<T> = Option<(T, usize)>;

/// Decodes the instruction that code begins with, if a function may begin with it: the bytes that it takes from the stack, and its length.
pub type Prologue = fn(code: &[u8]) -> Beginning<u32>;

/// Decides whether there is a reference at an address; other bytes may look like one.
pub type Believed<'a> = dyn FnMut(u64, CodeReference) -> bool + 'a;

/// Reference of an instruction to code, with the address that it is to, as the ELF file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeReference {
    /// A direct call.
    Call(u64),
    /// A call of an address in a register or in memory.
    IndirectCall,
    /// A direct jump.
    Jump(u64),
    /// The address is put into a register.
    Taken(u64),
}

/// Flow of control after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// A return.
    Return,
    /// A jump, conditional or not, that leaves no return address: in front of another function, a tail call.
    Jump,
    /// A call, or not known here.
    Other,
}

/// Way of a linkage stub to its target.
///
/// A stub computes the address of its slot from its own or from the global offset table's (i386), loads from there
/// and jumps. Other instructions that GNU ld, gold, lld and mold add (landing pads, pointer authentication, the
/// address for the lazy loader) are ignored. The head of a table loads from a slot that no symbol fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StubTarget {
    /// Through the slot at this address.
    Slot(u64),
    /// By the number of its relocation.
    Lazy(usize),
}

/// The first instruction word of little-endian code.
fn word(code: &[u8]) -> Option<u32> {
    code.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
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
            assert_eq!((Isa::of(Some(arch)).flow)(code), *expected, "{arch} {name}");
        }
    }
}
