// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves a function's first instructions to another address, so that a jump can replace them.
//!
//! The rules are those of Linux for optimizing kprobes to jumps (Documentation/trace/kprobes.rst, "Implementation"):
//! the jump covers whole instructions, and no other code jumps between them. The instructions may read and write
//! memory; the caller must report a fault as if it had happened at the original address. A moved direct call pushes the
//! original return address and jumps, so callees and unwinders notice no difference. Shadow stacks do.

use super::{Prefixes, instruction, operation, word};
use crate::isa::{Detour, IndirectJumps, JUMP, Movable, Targets};

/// Rules for replacing the first instructions of an x86-64 function.
pub(super) const DETOUR: Detour = Detour { jump, movable, moved, branches, any_branch };

fn jump(from: u64, to: u64) -> Option<[u8; JUMP]> {
    let [a, b, c, d] = distance(from.wrapping_add(JUMP as u64), to)?;
    Some([0xe9, a, b, c, d])
}

/// Distance from the end of an instruction to an address; `None` if it is too large.
fn distance(end: u64, to: u64) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_sub(end) as i64).ok().map(i32::to_le_bytes)
}

/// Kind of an instruction that may be executed elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MovableKind {
    /// The same bytes at any address.
    Plain,
    /// With a 4-byte distance to data, at this offset in the instruction.
    Relative(usize),
    /// As [`Self::Relative`], and jumps to the address stored in that data.
    RelativeJump(usize),
    /// A jump: the distance from its end to the target, and its condition if it has one.
    Jump(i32, Option<u8>),
    /// A call with this distance from its end.
    Call(i32),
    /// A return.
    Return,
}

/// Length and kind of the first instruction of this code; `None` if it may not be executed elsewhere.
fn kind(code: &[u8]) -> Option<(usize, MovableKind)> {
    let (length, _) = instruction(code)?;
    let code = &code[..length];
    let plain = Some((length, MovableKind::Plain));
    if is_nop(code) || matches!(code, [0x64, 0x48 | 0x4c, 0x8b, modrm, 0x25, ..] if modrm & 0xc7 == 0x04) {
        return plain; // the last reads a variable of the thread, as the stack protector does
    }
    let vector = matches!(code[0], 0x66 | 0xf2 | 0xf3);
    let mut at = usize::from(vector);
    let rex = code.get(at).copied().filter(|byte| byte & 0xf0 == 0x40);
    at += usize::from(rex.is_some());
    let last = |bytes: usize| code.get(length - bytes..);
    match *code.get(at)? {
        0xc3 if rex.is_none() => Some((length, MovableKind::Return)),
        _ if vector && code.get(at) != Some(&0x0f) => None,
        0xeb => Some((length, MovableKind::Jump((last(1)?[0] as i8).into(), None))),
        0xe8 if rex.is_none() => Some((length, MovableKind::Call(word(last(4)?)? as i32))),
        0xe9 => Some((length, MovableKind::Jump(word(last(4)?)? as i32, None))),
        opcode @ 0x70..=0x7f => {
            Some((length, MovableKind::Jump((last(1)?[0] as i8).into(), Some(opcode & 15))))
        }
        0x50..=0x5f | 0x68 | 0x6a | 0x98 | 0x99 | 0xa8 | 0xa9 | 0xb0..=0xbf => plain,
        opcode @ 0x00..=0x3f if matches!(opcode & 7, 4 | 5) => plain,
        0x0f => {
            let (second, modrm) = (*code.get(at + 1)?, code.get(at + 2).copied());
            if matches!(second, 0x80..=0x8f) && !vector {
                return Some((length, MovableKind::Jump(word(last(4)?)? as i32, Some(second & 15))));
            }
            let moves = matches!(second, 0x10 | 0x11 | 0x14..=0x16 | 0x28 | 0x29 | 0x40..=0x4f | 0x54..=0x57)
                || matches!(
                    second,
                    0x6e | 0x6f | 0x7e | 0x7f | 0x90..=0x9f | 0xaf | 0xb6 | 0xb7 | 0xbe | 0xbf
                )
                || matches!(second, 0xd6 | 0xef);
            match modrm? & 0xc7 {
                _ if !moves => None,
                0x05 => Some((length, MovableKind::Relative(at + 2 + 1))),
                _ => plain,
            }
        }
        0x8d => match code.get(at + 1)? & 0xc7 {
            0x05 => Some((length, MovableKind::Relative(at + 2))),
            _ => plain,
        },
        // jmp [rip + distance]
        0xff if code.get(at + 1) == Some(&0x25) => Some((length, MovableKind::RelativeJump(at + 2))),
        opcode @ (0x00..=0x3f
        | 0x63
        | 0x69
        | 0x6b
        | 0x80
        | 0x81
        | 0x83..=0x85
        | 0x88..=0x8b
        | 0xc0
        | 0xc1
        | 0xc6
        | 0xc7
        | 0xd0..=0xd3
        | 0xf6
        | 0xf7
        | 0xfe
        | 0xff) => {
            let modrm = *code.get(at + 1)?;
            let other = match opcode {
                0xf6 | 0xf7 => !matches!(operation(modrm), 0 | 2 | 3),
                0xfe | 0xff => operation(modrm) > 1,
                _ => false,
            };
            match modrm & 0xc7 {
                _ if other => None,
                0x05 => Some((length, MovableKind::Relative(at + 2))),
                _ => plain,
            }
        }
        _ => None,
    }
}

/// True for an instruction that could be executed elsewhere; false for a system call, a repeated instruction, or one
/// that reads the flags.
pub(super) fn steps(code: &[u8]) -> bool {
    kind(code).is_some_and(|(length, kind)| kind != MovableKind::Jump(-(length as i32), None))
}

/// True for an instruction that does nothing.
fn is_nop(instruction: &[u8]) -> bool {
    let prefixes = instruction.iter().take_while(|byte| matches!(byte, 0x66 | 0x2e)).count();
    matches!(&instruction[prefixes..], [0x90] | [0x0f, 0x1f, ..]) || instruction == super::X86_64.landing_pad
}

/// Length of the padding at the beginning of this code; `None` without padding.
fn padding(code: &[u8]) -> Option<usize> {
    match instruction(code) {
        Some((length, _)) if is_nop(&code[..length]) => Some(length),
        _ => (code.first()? == &0xcc).then_some(1),
    }
}

fn movable(code: &[u8], size: usize) -> Option<Movable> {
    let (mut length, mut ends, mut calls, mut begins, mut plain) = (0, false, false, 0, true);
    while length < JUMP && !ends {
        begins |= u8::from(length > 0) << length;
        let (more, kind) = kind(code.get(length..size.min(code.len()))?)?;
        calls = matches!(kind, MovableKind::Call(_));
        plain &= matches!(kind, MovableKind::Plain | MovableKind::Return);
        ends = calls
            || matches!(
                kind,
                MovableKind::Return | MovableKind::Jump(_, None) | MovableKind::RelativeJump(_)
            );
        length += more;
    }
    // After the end, the jump may cover bytes that nobody executes.
    let mut covered = length;
    while covered < JUMP {
        covered += padding(code.get(covered..)?)?;
    }
    Some(Movable { length, ends, calls, begins, plain })
}

fn moved(code: &[u8], from: u64, to: u64, out: &mut Vec<u8>) -> Option<()> {
    let (begun, mut at) = (out.len(), 0);
    while at < code.len() {
        let (length, kind) = kind(&code[at..])?;
        let end = from.wrapping_add((at + length) as u64);
        let here = to.wrapping_add((out.len() - begun) as u64);
        match kind {
            MovableKind::Plain | MovableKind::Return => out.extend_from_slice(&code[at..at + length]),
            MovableKind::Relative(place) | MovableKind::RelativeJump(place) => {
                let target = end.wrapping_add_signed((word(code.get(at + place..)?)? as i32).into());
                let distance = distance(here.wrapping_add(length as u64), target)?;
                out.extend_from_slice(&code[at..at + place]);
                out.extend_from_slice(&distance);
                out.extend_from_slice(&code[at + place + distance.len()..at + length]);
            }
            MovableKind::Call(far) => {
                let target = end.wrapping_add_signed(far.into());
                let [a, b, c, d, high @ ..] = end.to_le_bytes();
                out.extend_from_slice(&[0x68, a, b, c, d]); // push the low half, which is sign-extended
                out.extend_from_slice(&[0xc7, 0x44, 0x24, 0x04]); // mov dword [rsp + 4], the high half
                out.extend_from_slice(&high);
                out.extend_from_slice(&jump(here.wrapping_add(5 + 8), target)?);
            }
            MovableKind::Jump(far, condition) => {
                let target = end.wrapping_add_signed(far.into());
                if let Some(condition) = condition {
                    out.extend_from_slice(&[0x0f, 0x80 | condition]);
                    out.extend_from_slice(&distance(here.wrapping_add(6), target)?);
                } else {
                    out.extend_from_slice(&jump(here, target)?);
                }
            }
        }
        at += length;
    }
    Some(())
}

fn branches(code: &[u8], address: u64, target: &mut Targets<'_>) -> IndirectJumps {
    let mut found = IndirectJumps::default();
    let mut at = 0;
    while at < code.len() {
        let Some((length, _)) = instruction(&code[at..]) else {
            // Bytes that are not an instruction may be data, with code after them: any byte may begin a jump.
            (at..code.len()).for_each(|at| any_branch(&code[at..], address.wrapping_add(at as u64), target));
            return IndirectJumps { unknown: true, ..found };
        };
        let whole = &code[at..at + length];
        let prefixes = Prefixes::of(whole, true).map_or(0, |prefixes| prefixes.length);
        if matches!(whole[prefixes..], [0xff, modrm, ..] if operation(modrm) == 4) {
            found.indirect.push(address.wrapping_add(at as u64));
        }
        any_branch(&whole[prefixes..], address.wrapping_add((at + prefixes) as u64), target);
        at += length;
    }
    found
}

/// Returns the target of an instruction that is a direct jump.
pub(super) fn jump_target(code: &[u8], address: u64) -> Option<u64> {
    let (length, _) = instruction(code)?;
    let prefixes = Prefixes::of(&code[..length], true)?.length;
    let mut found = None;
    any_branch(&code[prefixes..length], address.wrapping_add(prefixes as u64), &mut |target, calls| {
        found = (!calls).then_some(target);
    });
    found
}

/// Reports the target of the direct branch at the beginning of this code, if there is one.
fn any_branch(code: &[u8], address: u64, target: &mut Targets<'_>) {
    let (length, distance) = match code {
        [0xeb | 0x70..=0x7f | 0xe0..=0xe3, distance, ..] => (2, i64::from(*distance as i8)),
        [0xe8 | 0xe9, a, b, c, d, ..] => (5, i64::from(i32::from_le_bytes([*a, *b, *c, *d]))),
        [0x0f, 0x80..=0x8f, a, b, c, d, ..] => (6, i64::from(i32::from_le_bytes([*a, *b, *c, *d]))),
        _ => return,
    };
    target(address.wrapping_add(length).wrapping_add_signed(distance), code[0] == 0xe8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_may_move() {
        let cases: &[(&[u8], Option<usize>, &str)] = &[
            (&[0x55, 0x48, 0x89, 0xe5, 0x53], Some(5), "push; mov; push"),
            (&[0x41, 0x57, 0x41, 0x56, 0x49, 0x89, 0xfe], Some(7), "push; push; mov"),
            (&[0x48, 0x83, 0xec, 0x18, 0x31, 0xc0], Some(6), "sub; xor"),
            (&[0x48, 0x8d, 0x05, 1, 0, 0, 0], Some(7), "lea of an address"),
            (&[0x85, 0xff, 0x74, 0x10, 0x53], Some(5), "test; je; push"),
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], Some(9), "stack protector"),
            (&[0x8b, 0x44, 0x24, 0x08, 0xc3], Some(5), "an argument on the stack; ret"),
            (&[0x31, 0xc0, 0xc3, 0x66, 0x90], Some(3), "xor; ret; padding"),
            (&[0xff, 0x25, 1, 2, 3, 4], Some(6), "jmp through memory"),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x53], Some(5), "endbr64; push"),
            (&[0x31, 0xc0, 0xc3, 0x53, 0x90], None, "xor; ret; other code"),
            (&[0x8b, 0x07, 0x48, 0x89, 0xc3], Some(5), "a load; mov"),
            (&[0x0f, 0xb6, 0x05, 1, 2, 3, 4], Some(7), "movzx of a variable"),
            (&[0x48, 0xf7, 0x3d, 1, 2, 3, 4], None, "a division by a variable"),
            (&[0x53, 0xe8, 1, 2, 3, 4], Some(6), "push; a call"),
            (&[0xff, 0xd0, 0x90, 0x90, 0x90], None, "a call through a register"),
            (&[0x0f, 0x05, 0xc3, 0x90, 0x90], None, "a system call"),
            (&[0x53, 0xf7, 0xf1, 0x90, 0x90], None, "a division"),
            (&[0xf0, 0xff, 0xc0, 0x90, 0x90], None, "a locked instruction"),
            (&[0x55], None, "cut off"),
        ];
        for (code, expected, name) in cases {
            assert_eq!(movable(code, code.len()).map(|found| found.length), *expected, "{name}");
        }
        assert!(
            movable(&[0x48, 0x8d, 0x05, 1, 0, 0, 0], 7)
                .is_some_and(|found| found.begins == 0 && !found.plain)
        );
        assert!(movable(&[0x55, 0x48, 0x89, 0xe5, 0x53], 5).is_some_and(|found| found.plain));
        assert!(
            movable(&[0x31, 0xc0, 0xc3, 0x66, 0x90], 3)
                .is_some_and(|found| found.ends && found.begins == 1 << 2)
        );
        assert_eq!(movable(&[0x31, 0xc0, 0x53, 0x90, 0x90], 2), None, "the function ends before");
    }

    #[test]
    fn a_step_is_one_instruction() {
        for code in [&[0x55][..], &[0xf3, 0x0f, 0x1e, 0xfa], &[0x48, 0x89, 0xf8], &[0xc3], &[0x31, 0xc0]] {
            assert!(steps(code), "{code:x?}");
        }
        // syscall, rep movsb, pushf, mov ss, and a jump to itself.
        for code in [&[0x0f, 0x05][..], &[0xf3, 0xa4], &[0x9c], &[0x8e, 0xd0], &[0xeb, 0xfe]] {
            assert!(!steps(code), "{code:x?}");
        }
    }

    #[test]
    fn moved_instructions_mean_the_same() {
        let moved = |code: &[u8], from, to| {
            let mut out = Vec::new();
            moved(code, from, to, &mut out).map(|()| out)
        };
        let (from, to) = (0x40_1000, 0x1000);
        let lea = [0x48, 0x8d, 0x05, 0x10, 0, 0, 0];
        let expected = (from + 7 + 0x10 - (to + 7)) as u32;
        assert_eq!(moved(&lea, from, to).unwrap()[3..], expected.to_le_bytes());
        // mov [rip + distance], imm32: the distance is not at the end.
        let store = [0xc7, 0x05, 0x10, 0, 0, 0, 1, 2, 3, 4];
        let expected = (from + 10 + 0x10 - (to + 10)) as u32;
        assert_eq!(
            moved(&store, from, to).unwrap(),
            [&[0xc7, 0x05][..], &expected.to_le_bytes(), &[1, 2, 3, 4]].concat()
        );
        // test; je +0x10
        let jump_over = [0x85, 0xff, 0x74, 0x10];
        let expected = (from + 4 + 0x10 - (to + 2 + 6)) as u32;
        assert_eq!(
            moved(&jump_over, from, to).unwrap(),
            [&[0x85, 0xff, 0x0f, 0x84][..], &expected.to_le_bytes()].concat()
        );
        assert_eq!(moved(&lea, 0x7fff_0000_0000, to), None, "too far");
        // call +0x10: the return address is the old one.
        let call = [0xe8, 0x10, 0, 0, 0];
        let from = 0x5555_8000_1000_u64;
        let found = moved(&call, from, from - 0x1000).unwrap();
        let [low, high] = [0x8000_1005_u32, 0x5555].map(u32::to_le_bytes);
        assert_eq!(
            (&found[..5], &found[5..13]),
            (&[&[0x68][..], &low].concat()[..], &[&[0xc7, 0x44, 0x24, 4][..], &high].concat()[..])
        );
        assert_eq!(found[13..], jump(from - 0x1000 + 13, from + 5 + 0x10).unwrap());
    }

    #[test]
    fn branches_are_found() {
        let targets = |code: &[u8]| {
            let mut targets = Vec::new();
            let found = branches(code, 0x1000, &mut |target, calls| targets.push((target, calls)));
            (targets, found.indirect, found.unknown)
        };
        // push; test; jne back to the instruction after push; ret
        assert_eq!(targets(&[0x53, 0x85, 0xff, 0x75, 0xfc, 0xc3]), (vec![(0x1001, false)], vec![], false));
        assert_eq!(targets(&[0x0f, 0x84, 0, 1, 0, 0]), (vec![(0x1106, false)], vec![], false));
        assert_eq!(targets(&[0xf2, 0xe9, 0, 0, 0, 0]), (vec![(0x1006, false)], vec![], false), "a prefix");
        assert_eq!(targets(&[0x90, 0xe8, 0, 0, 0, 0]), (vec![(0x1006, true)], vec![], false), "a call");
        assert_eq!(targets(&[0x53, 0x3e, 0xff, 0xe0]), (vec![], vec![0x1001], false), "notrack jmp");
        // Data that contains a possible jump.
        assert_eq!(targets(&[0x06, 0x75, 0x10]), (vec![(0x1013, false)], vec![], true));
    }
}
