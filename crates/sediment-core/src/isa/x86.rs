// SPDX-License-Identifier: MIT OR Apache-2.0
//! x86-64 and i386.
//!
//! Instructions have no fixed length. The start of an instruction is found by decoding only the lengths of the
//! instructions before it, from the opcode maps in Intel's manual (volume 2, appendix A). Instructions that no compiler
//! puts at a function's beginning (privileged ones, `int3`, zeros) count as data.

use super::{Beginning, Believed, CodeReference, Flow, Isa, LONGEST_CALL, StubTarget, word};

/// x86-64.
pub const X86_64: Isa = Isa {
    archs: &["x86_64"],
    landing_pad: &[0xf3, 0x0f, 0x1e, 0xfa], // endbr64
    flow: |code| flow(code, true),
    stub_step: 16,
    stub: |code, address, _| stub(code, address, None),
    each_reference: Some(each_reference),
    call_before: Some(call_before),
    begins_with_code,
    instruction: |code| instruction(code).map(|(length, _)| length),
    ends,
    straight,
    prologue: Some(prologue),
};

/// i386 and its 32-bit successors.
pub(crate) const I386: Isa = Isa {
    archs: &["i686", "i386"],
    landing_pad: &[0xf3, 0x0f, 0x1e, 0xfb], // endbr32
    flow: |code| flow(code, false),
    stub_step: 16,
    stub: |code, address, got| stub(code, address, Some(got)),
    // The two have no different prefixes for calls.
    call_before: Some(call_before),
    ..Isa::UNKNOWN
};

/// Length of the longest instruction in bytes.
const LONGEST: usize = 15;
/// Number of instructions that are checked at the beginning of a function.
const LOOKED_AT: usize = 4;

fn begins_with_code(function: &[u8]) -> bool {
    let mut rest = function;
    if rest.is_empty() || rest.starts_with(&[0, 0]) {
        return false;
    }
    for _ in 0..LOOKED_AT {
        let Some((length, ends)) = instruction(rest) else { return false };
        if length == rest.len() || ends {
            break;
        }
        rest = &rest[length..];
    }
    true
}

/// Address after an instruction of `length` bytes that ends in a 4-byte distance, and that distance.
fn relative(code: &[u8], address: u64, length: usize) -> Option<u64> {
    let distance = word(code.get(length - 4..)?)? as i32;
    Some(address.wrapping_add(length as u64).wrapping_add_signed(distance.into()))
}

fn each_reference(code: &[u8], start: u64, believed: &mut Believed) {
    let mut at = 0;
    while let Some(rest) = code.get(at..).filter(|rest| rest.len() >= 5) {
        let address = start.wrapping_add(at as u64);
        let (reference, length) = match rest {
            [0xe8, ..] => (relative(rest, address, 5).map(CodeReference::Call), 5),
            [0xe9, ..] => (relative(rest, address, 5).map(CodeReference::Jump), 5),
            // lea register, [rip + distance]
            [0x48 | 0x4c, 0x8d, modrm, ..] if modrm & 0xc7 == 0x05 => {
                (relative(rest, address, 7).map(CodeReference::Taken), 7)
            }
            _ => (None, 1),
        };
        at += if reference.is_some_and(|reference| believed(address, reference)) { length } else { 1 };
    }
}

fn call_before(before: &[u8], return_address: u64) -> Option<CodeReference> {
    if let Some(call @ [0xe8, ..]) = before.last_chunk::<5>() {
        return relative(call, return_address.wrapping_sub(5), 5).map(CodeReference::Call);
    }
    let ends_in = |length: &usize| {
        let code = &before[before.len() - length..];
        let calls = code[0] == 0xff && operation(code[1]) == 2;
        calls && instruction(code).is_some_and(|(whole, _)| whole == *length)
    };
    (2..=before.len().min(LONGEST_CALL as usize)).find(ends_in).map(|_| CodeReference::IndirectCall)
}

/// The operation that a ModRM byte selects.
fn operation(modrm: u8) -> u8 {
    modrm >> 3 & 7
}

/// Operands after an opcode.
#[derive(Clone, Copy)]
enum OperandForm {
    Invalid,
    /// This many bytes.
    Plain(usize),
    /// An operand of 4 bytes, or 2 with the operand-size prefix, after this number of bytes.
    Word,
    /// ModRM with its operands, then this number of bytes.
    ModRm(usize),
    /// ModRM, then an operand as in `Word`.
    ModRmWord,
}

/// Prefixes of an instruction, including REX.
#[derive(Debug, Default)]
struct Prefixes {
    length: usize,
    short_operand: bool,
    short_address: bool,
    wide: bool,
}

impl Prefixes {
    /// Reads the prefixes; `None` if nothing follows them.
    fn of(code: &[u8], long_mode: bool) -> Option<Self> {
        let mut found = Self::default();
        loop {
            match *code.get(found.length)? {
                0x66 => found.short_operand = true,
                0x67 => found.short_address = true,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 | 0xf2 | 0xf3 => {}
                rex @ 0x40..=0x4f if long_mode => {
                    found.wide = rex & 8 != 0;
                    found.length += 1;
                    return Some(found);
                }
                _ => return Some(found),
            }
            found.length += 1;
        }
    }
}

/// Length of the first instruction of these bytes, and whether control cannot continue after it; `None` for invalid
/// instructions.
fn instruction(code: &[u8]) -> Option<(usize, bool)> {
    let code = &code[..code.len().min(LONGEST)];
    let Prefixes { length: mut at, short_operand, short_address, wide } = Prefixes::of(code, true)?;
    let opcode = *code.get(at)?;
    at += 1;
    let mut ends = matches!(opcode, 0xc3 | 0xc2 | 0xe9 | 0xeb);
    let form = match opcode {
        0x0f => {
            let second = *code.get(at)?;
            at += if matches!(second, 0x38 | 0x3a) { 2 } else { 1 };
            ends = second == 0x0b;
            two_byte(second)
        }
        // EVEX, and VEX of three and of two bytes; the shortest form has only one opcode map.
        0x62 | 0xc4 | 0xc5 => {
            let first = *code.get(at)?;
            let (bytes, map) = match opcode {
                0x62 if first & 8 != 0 || code.get(at + 1)? & 4 == 0 => return None,
                0x62 => (3, first & 7),
                0xc4 => (2, first & 0x1f),
                _ => (1, 1),
            };
            at += bytes + 1;
            vector(map, *code.get(at - 1)?)
        }
        0xb8..=0xbf if wide => OperandForm::Plain(8),
        0xa0..=0xa3 => OperandForm::Plain(if short_address { 4 } else { 8 }),
        0xe8 | 0xe9 => OperandForm::Plain(4),
        _ => one_byte(opcode),
    };
    let word = if short_operand && !wide { 2 } else { 4 };
    let mut modrm_and = |operand: usize| {
        let modrm = *code.get(at)?;
        let operand = match (opcode, operation(modrm)) {
            (0xf6, 0 | 1) => 1,
            (0xf7, 0 | 1) => word,
            (0xfe, 2..) | (0xff, 7) | (0x8f, 1..) => return None,
            _ => operand,
        };
        ends |= opcode == 0xff && operation(modrm) == 4;
        Some(at + 1 + behind_modrm(modrm, code.get(at + 1).copied())? + operand)
    };
    let length = match form {
        OperandForm::Invalid => return None,
        OperandForm::Plain(bytes) => at + bytes,
        OperandForm::Word => at + word,
        OperandForm::ModRm(bytes) => modrm_and(bytes)?,
        OperandForm::ModRmWord => modrm_and(word)?,
    };
    (length <= code.len()).then_some((length, ends))
}

/// Number of address bytes after a ModRM byte.
fn behind_modrm(modrm: u8, next: Option<u8>) -> Option<usize> {
    let (mode, base) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Some(0);
    }
    let scaled = base == 4;
    let base = if scaled { next? & 7 } else { base };
    let distance = [if base == 5 { 4 } else { 0 }, 1, 4][usize::from(mode)];
    Some(usize::from(scaled) + distance)
}

fn one_byte(opcode: u8) -> OperandForm {
    match opcode {
        0x00..=0x3f => match opcode & 7 {
            0..=3 => OperandForm::ModRm(0),
            4 => OperandForm::Plain(1),
            5 => OperandForm::Word,
            _ => OperandForm::Invalid,
        },
        0x50..=0x5f | 0x90..=0x99 | 0x9b..=0x9f | 0xa4..=0xa7 | 0xaa..=0xaf => OperandForm::Plain(0),
        0xc3 | 0xc9 | 0xcb | 0xd7 | 0xf5 | 0xf8 | 0xf9 | 0xfc | 0xfd => OperandForm::Plain(0),
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xf6 | 0xf7 | 0xfe | 0xff => OperandForm::ModRm(0),
        0x68 | 0xa9 | 0xb8..=0xbf => OperandForm::Word,
        0x69 | 0x81 | 0xc7 => OperandForm::ModRmWord,
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe3 | 0xeb => OperandForm::Plain(1),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => OperandForm::ModRm(1),
        0xc2 | 0xca => OperandForm::Plain(2),
        0xc8 => OperandForm::Plain(3),
        _ => OperandForm::Invalid,
    }
}

/// Operands after 0x0f and this opcode.
fn two_byte(opcode: u8) -> OperandForm {
    match opcode {
        0x05 | 0x0b | 0x31 | 0x33 | 0x77 | 0xa0..=0xa2 | 0xa8 | 0xa9 | 0xc8..=0xcf => OperandForm::Plain(0),
        0x0f | 0x3a | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => OperandForm::ModRm(1),
        0x80..=0x8f => OperandForm::Plain(4),
        0x01
        | 0x0d
        | 0x10..=0x1f
        | 0x28..=0x2f
        | 0x38
        | 0x40..=0x6f
        | 0x74..=0x76
        | 0x7c..=0x7f
        | 0x90..=0x9f
        | 0xa3
        | 0xa5
        | 0xab
        | 0xad..=0xb9
        | 0xbb..=0xc1
        | 0xc3
        | 0xc7
        | 0xd0..=0xff => OperandForm::ModRm(0),
        _ => OperandForm::Invalid,
    }
}

/// Operands after a VEX or EVEX prefix.
fn vector(map: u8, opcode: u8) -> OperandForm {
    match (map, opcode) {
        (1, 0x77) => OperandForm::Plain(0),
        (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) | (3, _) => OperandForm::ModRm(1),
        (1 | 2 | 5 | 6, _) => OperandForm::ModRm(0),
        _ => OperandForm::Invalid,
    }
}

fn straight(code: &[u8], most: usize) -> usize {
    let mut at = 0;
    for _ in 0..most {
        let here = &code[at..];
        let Some((length, ends)) = instruction(here) else { break };
        at += length;
        if ends || flow(here, true) != Flow::Other || is_call(here) {
            break;
        }
    }
    at.max(1).min(code.len())
}

/// True if code begins with a call, direct or not.
fn is_call(code: &[u8]) -> bool {
    match Prefixes::of(code, true).map_or(&[][..], |prefixes| &code[prefixes.length..]) {
        [0xe8, ..] => true,
        [0xff, modrm, ..] => matches!(operation(*modrm), 2 | 3),
        _ => false,
    }
}

fn flow(code: &[u8], long_mode: bool) -> Flow {
    let code = &code[..code.len().min(LONGEST)];
    match Prefixes::of(code, long_mode).map_or(&[][..], |prefixes| &code[prefixes.length..]) {
        [0xc2 | 0xc3 | 0xca | 0xcb, ..] => Flow::Return,
        [0xe9 | 0xeb | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => Flow::Jump,
        [0xff, modrm, ..] if matches!(operation(*modrm), 4 | 5) => Flow::Jump,
        _ => Flow::Other,
    }
}

/// `instruction` reports direct jumps, returns and `ud2`; jumps through a register or memory, `hlt` and `int3` are
/// added here.
fn ends(code: &[u8]) -> bool {
    let rest = Prefixes::of(code, true).map_or(&[][..], |prefixes| &code[prefixes.length.min(code.len())..]);
    let jumps = matches!(rest, [0xff, modrm, ..] if matches!(operation(*modrm), 4 | 5));
    jumps || matches!(rest, [0xf4 | 0xcc, ..]) || instruction(code).is_none_or(|(_, ends)| ends)
}

/// Decodes an entry of the linkage table on x86-64, or on i386 with the address of its global offset table.
fn stub(code: &[u8], address: u64, got: Option<u64>) -> Beginning<StubTarget> {
    let pad = if got.is_some() { I386.landing_pad } else { X86_64.landing_pad };
    let mut at = if code.starts_with(pad) { pad.len() } else { 0 };
    if code.get(at) == Some(&0x68) {
        let number = word(code.get(at + 1..)?)? as usize;
        // On i386, the number is the offset in the table of relocations, of eight bytes each.
        return Some((StubTarget::Lazy(if got.is_some() { number / 8 } else { number }), at + 5));
    }
    if code.get(at) == Some(&0xf2) {
        at += 1;
    }
    let jump = code.get(at..)?;
    let distance = word(jump.get(2..)?)?;
    let slot = match (&jump[..2], got) {
        ([0xff, 0x25], None) => relative(jump, address.wrapping_add(at as u64), 6)?,
        ([0xff, 0x25], Some(_)) => distance.into(),
        ([0xff, 0xa3], Some(got)) => u64::from((got as u32).wrapping_add(distance)),
        _ => return None,
    };
    Some((StubTarget::Slot(slot), at + 6))
}

/// Landing pads, pushes, the frame pointer, stack allocation, and moves of arguments between them.
fn prologue(code: &[u8]) -> Beginning<u32> {
    Some(match code {
        [0xf3, 0x0f, 0x1e, 0xfa, ..] => (1, 4), // endbr64
        [0x50..=0x57, ..] => (2, 1),            // push, with its pop
        [0x41, 0x50..=0x57, ..] => (2, 2),      // the same for r8 to r15
        [0x48, 0x89, 0xe5, ..] => (1, 3),       // mov rbp, rsp
        [0x48, 0x83, 0xec, _, ..] => (2, 4),    // sub rsp, with its add
        [0x48, 0x81, 0xec, _, _, _, _, ..] => (2, 7),
        [0x41 | 0x44 | 0x45 | 0x48 | 0x49 | 0x4c | 0x4d, 0x89, 0xc0..=0xff, ..] => (0, 3),
        [0x89, 0xc0..=0xff, ..] => (0, 2),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_manual() {
        let cases: &[(&[u8], usize)] = &[
            (&[0xf3, 0x0f, 0x1e, 0xfa], 4),                       // endbr64
            (&[0x55], 1),                                         // push
            (&[0x41, 0x57], 2),                                   // push r15
            (&[0x48, 0x83, 0xec, 0x08], 4),                       // sub rsp, 8
            (&[0x48, 0x81, 0xec, 0, 1, 0, 0], 7),                 // sub rsp, 256
            (&[0x66, 0x81, 0xc3, 1, 0], 5),                       // add bx, 1
            (&[0x48, 0x8b, 0x05, 1, 2, 3, 4], 7),                 // mov rax, [rip + …]
            (&[0x8b, 0x44, 0x24, 0x08], 4),                       // mov eax, [rsp + 8]
            (&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], 10),          // movabs
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], 9),  // mov rax, fs:0x28
            (&[0xf6, 0x07, 0x01], 3),                             // test byte [rdi], 1
            (&[0xf6, 0xd8], 2),                                   // neg al
            (&[0xf7, 0xc7, 1, 0, 0, 0], 6),                       // test edi, 1
            (&[0x0f, 0xb6, 0x07], 3),                             // movzx
            (&[0x0f, 0x84, 1, 2, 3, 4], 6),                       // je
            (&[0xc5, 0xf9, 0xef, 0xc0], 4),                       // vpxor
            (&[0xc4, 0xe2, 0x79, 0x58, 0xc0], 5),                 // vpbroadcastd
            (&[0xc4, 0xe3, 0x7d, 0x39, 0xc1, 0x01], 6),           // vextracti128
            (&[0xc5, 0xf8, 0x77], 3),                             // vzeroupper
            (&[0x62, 0xf1, 0x7c, 0x48, 0x10, 0x07], 6),           // vmovups zmm
            (&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], 10), // nop
            (&[0xff, 0x14, 0xc5, 0, 0, 0, 0], 7),                 // call [rax * 8 + …]
        ];
        for (code, length) in cases {
            assert_eq!(instruction(code).map(|(length, _)| length), Some(*length), "{code:02x?}");
            assert_eq!(instruction(&code[..code.len() - 1]), None, "cut off: {code:02x?}");
        }
    }

    #[test]
    fn code_runs_straight_to_a_jump_or_call() {
        // push %rbp; mov %rsp,%rbp; je; and after it a ret.
        let code = [0x55, 0x48, 0x89, 0xe5, 0x74, 0x02, 0xc3];
        assert_eq!(straight(&code, 60), 6);
        assert_eq!(straight(&code, 1), 1);
        assert_eq!(straight(&[0x90, 0xe8, 0, 0, 0, 0, 0xc3], 60), 6, "call");
        assert_eq!(straight(&[0x41, 0xff, 0xd4, 0xc3], 60), 3, "call *%r12");
        assert_eq!(straight(&[0x90, 0x90], 60), 2, "to the end");
        assert_eq!(straight(&[0x06, 0x06], 60), 1, "no code");
    }

    #[test]
    fn data_is_no_code() {
        for data in [&[0, 0, 0, 0][..], &[0xcc; 4], &[0x06, 1, 2], &[0xf4], &[0x48, 0x89], &[]] {
            assert!(!begins_with_code(data), "{data:02x?}");
        }
        for code in [&[0xc3][..], &[0xc3, 0xcc, 0xcc], &[0x31, 0xc0, 0xc3], &[0xe9, 1, 2, 3, 4, 0x06]] {
            assert!(begins_with_code(code), "{code:02x?}");
        }
    }

    #[test]
    fn callers_are_told_by_their_calls() {
        use CodeReference::{Call, IndirectCall};
        assert_eq!(call_before(&[0x90, 0x90, 0xe8, 0xfb, 0xff, 0xff, 0xff], 0x1007), Some(Call(0x1002)));
        assert_eq!(call_before(&[0, 0, 0, 0, 0, 0xff, 0xd0], 7), Some(IndirectCall));
        assert_eq!(call_before(&[0, 0xff, 0x15, 1, 2, 3, 4], 7), Some(IndirectCall));
        assert_eq!(call_before(&[0xff, 0x94, 0xc3, 1, 2, 3, 4], 7), Some(IndirectCall));
        assert_eq!(call_before(&[0xff, 0xd0, 0x90, 0x90, 0x90, 0x90, 0x90], 7), None);
        assert_eq!(call_before(&[], 7), None);
    }
}
