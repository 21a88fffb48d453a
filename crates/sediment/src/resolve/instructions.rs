// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an instruction does with the flow of a program, as far as it takes to tell a call from a return and from a jump.
//!
//! Only the few encodings that end a function or leave it are known; all others count as what may be a call. Sources: the
//! instruction set manuals of Intel and AMD (x86), Arm (A64), RISC-V (unprivileged, with the C extension), IBM (z/Architecture
//! Principles of Operation, Power ISA).

/// What an instruction that a branch was recorded at may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Return,
    /// A jump, conditional or not, that leaves no return address: in front of another function, a tail call.
    Jump,
    /// A call, or not known here.
    Other,
}

/// What the instruction at the beginning of `code` is, on an architecture as `uname -m` spells it.
pub(super) fn flow(arch: &str, code: &[u8]) -> Flow {
    match arch {
        "x86_64" => x86(code, true),
        "i386" | "i686" => x86(code, false),
        // Instructions are little-endian also where data is not.
        "aarch64" | "aarch64_be" => word(code, false).map_or(Flow::Other, a64),
        "riscv64" | "riscv32" => risc_v(code),
        "s390x" => z_architecture(code),
        "ppc64le" => word(code, false).map_or(Flow::Other, power),
        "ppc64" => word(code, true).map_or(Flow::Other, power),
        _ => Flow::Other,
    }
}

fn word(code: &[u8], big_endian: bool) -> Option<u32> {
    let bytes = *code.first_chunk()?;
    Some(if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
}

fn x86(mut code: &[u8], long_mode: bool) -> Flow {
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

fn a64(word: u32) -> Flow {
    // ret, with any register; retaa, retab.
    if word & 0xffff_fc1f == 0xd65f_0000 || matches!(word, 0xd65f_0bff | 0xd65f_0fff) {
        return Flow::Return;
    }
    let jump = word & 0xfc00_0000 == 0x1400_0000 // b
        || word & 0xffff_fc1f == 0xd61f_0000 // br
        || word & 0xfeff_f800 == 0xd61f_0800 // braa and its kin
        || word & 0xff00_0000 == 0x5400_0000 // b.cond, bc.cond
        || word & 0x7c00_0000 == 0x3400_0000; // cbz, cbnz, tbz, tbnz
    if jump { Flow::Jump } else { Flow::Other }
}

fn risc_v(code: &[u8]) -> Flow {
    /// Registers that hold return addresses.
    const LINKS: [u32; 2] = [1, 5];
    let Some(half) = code.first_chunk::<2>().map(|half| u32::from(u16::from_le_bytes(*half))) else {
        return Flow::Other;
    };
    let through = |register: u32| if LINKS.contains(&register) { Flow::Return } else { Flow::Jump };
    if half & 3 != 3 {
        return match (half & 0xe003, half & 0xf07f) {
            (_, 0x8002) if half >> 7 & 31 != 0 => through(half >> 7 & 31), // c.jr
            (0xa001 | 0xc001 | 0xe001, _) => Flow::Jump,                   // c.j, c.beqz, c.bnez
            _ => Flow::Other,
        };
    }
    let Some(word) = word(code, false) else { return Flow::Other };
    match (word & 0x7f, word >> 7 & 31) {
        (0x67, 0) => through(word >> 15 & 31), // jalr x0
        (0x6f, 0) | (0x63, _) => Flow::Jump,   // jal x0; branches
        _ => Flow::Other,
    }
}

fn z_architecture(code: &[u8]) -> Flow {
    match code {
        [0x07, registers, ..] if registers & 15 == 14 && registers >> 4 != 0 => Flow::Return, // br %r14
        [0x07, registers, ..] if registers & 15 != 0 && registers >> 4 != 0 => Flow::Jump,
        [0xa7 | 0xc0, second, ..] if second & 15 == 4 => Flow::Jump, // brc, brcl
        _ => Flow::Other,
    }
}

fn power(word: u32) -> Flow {
    const LINK: u32 = 1;
    if word & LINK != 0 {
        return Flow::Other;
    }
    match (word >> 26, word >> 1 & 0x3ff) {
        (19, 16) => Flow::Return,               // bclr
        (19, 528) | (18 | 16, _) => Flow::Jump, // bcctr; b, bc
        _ => Flow::Other,
    }
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
