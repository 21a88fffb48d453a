// SPDX-License-Identifier: MIT OR Apache-2.0
//! x86-64 and i386.
//!
//! On x86-64 instructions have no fixed length, so "begins with an instruction" is asked by taking the first few apart, by the
//! opcode maps of Intel's manual (volume 2, appendix A), to their lengths alone. Whatever no compiler puts at a function's
//! beginning (privileged instructions, traps, zeros) counts as data.

use super::{Before, Flow, Way};

/// How many instructions must be ones, if the function has so many.
const LOOKED_AT: usize = 4;

/// Whether a function of these bytes (or the first of them) begins with code.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) fn begins_with_code(function: &[u8]) -> bool {
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

/// Bytes of the whole instructions among the first `most` bytes of this code; None if not all are instructions.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) fn whole_instructions(code: &[u8], most: usize) -> Option<usize> {
    let mut whole = 0;
    while whole < most {
        let (length, _) = instruction(&code[whole..])?;
        if whole + length > most {
            break;
        }
        whole += length;
    }
    Some(whole)
}

/// What ends at `return_address`, of which `before` are the bytes before it.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) fn before_return_address(before: &[u8], return_address: u64) -> Before {
    if let Some([0xe8, distance @ ..]) = before.last_chunk::<5>() {
        let distance = i64::from(i32::from_le_bytes(*distance));
        return Before::CallOf(return_address.wrapping_add_signed(distance));
    }
    let indirect = (2..=7).any(|length| {
        let Some(code) = before.len().checked_sub(length).map(|start| &before[start..]) else {
            return false;
        };
        code[0] == 0xff
            && code[1] >> 3 & 7 == 2
            && instruction(code).is_some_and(|(whole, _)| whole == length)
    });
    if indirect { Before::IndirectCall } else { Before::NoCall }
}

/// What follows an opcode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Invalid,
    /// This many bytes.
    Plain(usize),
    /// An operand of 4 bytes, or 2 with the operand-size prefix, after so many.
    Word,
    /// ModRM and what it asks for, then so many bytes.
    ModRm(usize),
    /// ModRM, then an operand as in `Word`.
    ModRmWord,
}

/// Length of the instruction that these bytes begin with, and whether nothing follows it; None if there is none.
fn instruction(code: &[u8]) -> Option<(usize, bool)> {
    const LONGEST: usize = 15;
    let code = &code[..code.len().min(LONGEST)];
    let (mut at, mut short_operand, mut short_address, mut wide) = (0, false, false, false);
    loop {
        match *code.get(at)? {
            0x66 => short_operand = true,
            0x67 => short_address = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 | 0xf2 | 0xf3 => {}
            _ => break,
        }
        at += 1;
    }
    if let Some(rex @ 0x40..=0x4f) = code.get(at) {
        wide = rex & 8 != 0;
        at += 1;
    }
    let opcode = *code.get(at)?;
    at += 1;
    let mut ends = matches!(opcode, 0xc3 | 0xc2 | 0xe9 | 0xeb);
    let form = match opcode {
        0x0f => {
            let second = *code.get(at)?;
            at += 1;
            match second {
                0x38 | 0x3a => {
                    at += 1;
                    Form::ModRm(usize::from(second == 0x3a))
                }
                _ => {
                    ends = second == 0x0b;
                    two_byte(second)
                }
            }
        }
        0xc5 => {
            let opcode = *code.get(at + 1)?;
            at += 2;
            vector(1, opcode)
        }
        0xc4 => {
            let (map, opcode) = (*code.get(at)? & 0x1f, *code.get(at + 2)?);
            at += 3;
            vector(map, opcode)
        }
        0x62 => {
            let (first, second, opcode) = (*code.get(at)?, *code.get(at + 1)?, *code.get(at + 3)?);
            at += 4;
            if first & 8 != 0 || second & 4 == 0 { Form::Invalid } else { vector(first & 7, opcode) }
        }
        0xb8..=0xbf if wide => Form::Plain(8),
        0xa0..=0xa3 => Form::Plain(if short_address { 4 } else { 8 }),
        0xe8 | 0xe9 => Form::Plain(4),
        _ => one_byte(opcode),
    };
    let word = if short_operand && !wide { 2 } else { 4 };
    let length = match form {
        Form::Invalid => return None,
        Form::Plain(bytes) => at + bytes,
        Form::Word => at + word,
        Form::ModRm(_) | Form::ModRmWord => {
            let modrm = *code.get(at)?;
            let register = modrm >> 3 & 7;
            let operand = match (opcode, register) {
                (0xf6, 0 | 1) => 1,
                (0xf7, 0 | 1) => word,
                (0xfe, 2..) | (0xff, 7) | (0x8f, 1..) => return None,
                _ if form == Form::ModRmWord => word,
                _ => {
                    if let Form::ModRm(bytes) = form {
                        bytes
                    } else {
                        0
                    }
                }
            };
            ends |= opcode == 0xff && register == 4;
            at + 1 + behind_modrm(modrm, code.get(at + 1).copied())? + operand
        }
    };
    (length <= code.len()).then_some((length, ends))
}

/// Bytes of address behind a ModRM byte.
fn behind_modrm(modrm: u8, next: Option<u8>) -> Option<usize> {
    let (mode, base) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Some(0);
    }
    let scaled = base == 4;
    let base = if scaled { next? & 7 } else { base };
    let distance = match mode {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(usize::from(scaled) + distance)
}

fn one_byte(opcode: u8) -> Form {
    match opcode {
        0x00..=0x3f => match opcode & 7 {
            0..=3 => Form::ModRm(0),
            4 => Form::Plain(1),
            5 => Form::Word,
            _ => Form::Invalid,
        },
        0x50..=0x5f | 0x90..=0x99 | 0x9b..=0x9f | 0xa4..=0xa7 | 0xaa..=0xaf => Form::Plain(0),
        0xc3 | 0xc9 | 0xcb | 0xd7 | 0xf5 | 0xf8 | 0xf9 | 0xfc | 0xfd => Form::Plain(0),
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xf6 | 0xf7 | 0xfe | 0xff => Form::ModRm(0),
        0x68 | 0xa9 | 0xb8..=0xbf => Form::Word,
        0x69 | 0x81 | 0xc7 => Form::ModRmWord,
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe3 | 0xeb => Form::Plain(1),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => Form::ModRm(1),
        0xc2 | 0xca => Form::Plain(2),
        0xc8 => Form::Plain(3),
        _ => Form::Invalid,
    }
}

/// Behind 0x0f.
fn two_byte(opcode: u8) -> Form {
    match opcode {
        0x05 | 0x0b | 0x31 | 0x33 | 0x77 | 0xa0..=0xa2 | 0xa8 | 0xa9 | 0xc8..=0xcf => Form::Plain(0),
        0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => Form::ModRm(1),
        0x80..=0x8f => Form::Plain(4),
        0x01 | 0x0d | 0x10..=0x1f | 0x28..=0x2f | 0x40..=0x6f | 0x74..=0x76 | 0x7c..=0x7f => Form::ModRm(0),
        0x90..=0x9f | 0xa3 | 0xa5 | 0xab | 0xad..=0xb9 | 0xbb..=0xc1 | 0xc3 | 0xc7 | 0xd0..=0xff => {
            Form::ModRm(0)
        }
        _ => Form::Invalid,
    }
}

/// Behind a VEX or EVEX prefix.
fn vector(map: u8, opcode: u8) -> Form {
    match (map, opcode) {
        (1, 0x77) => Form::Plain(0),
        (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) | (3, _) => Form::ModRm(1),
        (1 | 2 | 5 | 6, _) => Form::ModRm(0),
        _ => Form::Invalid,
    }
}

pub(super) fn flow(mut code: &[u8], long_mode: bool) -> Flow {
    /// More prefixes than these are never written before a branch.
    const MOST_PREFIXES: usize = 4;
    for _ in 0..MOST_PREFIXES {
        match code {
            // bnd, rep, notrack, branch hints; then REX.
            [0xf2 | 0xf3 | 0x2e | 0x3e, rest @ ..] => code = rest,
            [0x40..=0x4f, rest @ ..] if long_mode => code = rest,
            _ => break,
        }
    }
    match code {
        [0xc2 | 0xc3 | 0xca | 0xcb, ..] => Flow::Return,
        [0xe9 | 0xeb | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => Flow::Jump,
        [0xff, modrm, ..] if matches!(modrm >> 3 & 7, 4 | 5) => Flow::Jump,
        _ => Flow::Other,
    }
}

/// What one entry of the linkage table says, on x86-64 or i386.
pub(crate) fn stub(wide: bool, got: u64, address: u64, code: &[u8]) -> Option<Way> {
    let pad: &[u8] = if wide { b"\xf3\x0f\x1e\xfa" } else { b"\xf3\x0f\x1e\xfb" };
    let mut at = if code.starts_with(pad) { pad.len() } else { 0 };
    let number = |at: usize| Some(u32::from_le_bytes(*code.get(at..)?.first_chunk::<4>()?));
    if code.get(at) == Some(&0x68) {
        let number = number(at + 1)? as usize;
        // i386 says where in the table the relocation stands, of eight bytes each.
        return Some(Way::Lazy(if wide { number } else { number / 8 }));
    }
    if code.get(at) == Some(&0xf2) {
        at += 1;
    }
    let distance = i64::from(number(at + 2)? as i32);
    let slot = match (code.get(at..at + 2)?, wide) {
        ([0xff, 0x25], true) => address.wrapping_add(at as u64 + 6).wrapping_add_signed(distance),
        ([0xff, 0x25], false) => distance as u64 & 0xffff_ffff,
        ([0xff, 0xa3], false) => got.wrapping_add_signed(distance) & 0xffff_ffff,
        _ => return None,
    };
    Some(Way::Slot(slot))
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
    fn a_prefix_belongs_to_its_instruction() {
        let locked = [0xf0, 0xff, 0x07, 0xc3]; // lock inc dword [rdi]; ret
        let whole: Vec<_> = (0..=4).map(|most| whole_instructions(&locked, most)).collect();
        assert_eq!(whole, [Some(0), Some(0), Some(0), Some(3), Some(4)]);
        assert_eq!(
            whole_instructions(&[0x90, 0x06, 0x90], 3),
            None,
            "no instruction of this processor's mode"
        );
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
        assert_eq!(
            before_return_address(&[0x90, 0x90, 0xe8, 0xfb, 0xff, 0xff, 0xff], 0x1007),
            Before::CallOf(0x1002)
        );
        assert_eq!(before_return_address(&[0, 0, 0, 0, 0, 0xff, 0xd0], 7), Before::IndirectCall);
        assert_eq!(before_return_address(&[0, 0xff, 0x15, 1, 2, 3, 4], 7), Before::IndirectCall);
        assert_eq!(before_return_address(&[0xff, 0x94, 0xc3, 1, 2, 3, 4], 7), Before::IndirectCall);
        assert_eq!(before_return_address(&[0xff, 0xd0, 0x90, 0x90, 0x90, 0x90, 0x90], 7), Before::NoCall);
        assert_eq!(before_return_address(&[], 7), Before::NoCall);
    }
}
