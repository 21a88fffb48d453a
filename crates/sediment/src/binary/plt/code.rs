// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the code of a stub says through which slot it jumps, by architecture.
//!
//! Each stub computes the address of its slot from its own (x86-64, AArch64, Arm, RISC-V, z/Architecture) or from the global
//! offset table's (i386), loads from there and jumps. What GNU ld, gold, lld and mold put around these instructions (landing pads,
//! pointer authentication, the address for the lazy loader) differs and is passed over. The head of a table loads from a slot
//! that no symbol fills, and is told apart by that. Encodings: the processors' manuals and the psABIs, "Procedure Linkage Table".

use object::elf;

/// A stub, and how it says where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) way: Way,
}

/// How a stub says where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the slot at this address.
    Slot(u64),
    /// By the number of its relocation.
    Lazy(usize),
}

/// An architecture whose stubs are known.
#[derive(Debug, Clone, Copy)]
pub(in crate::binary) struct Machine {
    machine: elf::Machine,
    /// Address of the global offset table.
    got: u64,
    /// Relocation types: those that put a symbol's address into a slot, and the one that asks a resolver.
    pub(super) kinds: (&'static [u32], u32),
}

impl Machine {
    pub(super) fn new(machine: elf::Machine, got: u64, kinds: (&'static [u32], u32)) -> Option<Self> {
        matches!(
            machine,
            elf::EM_X86_64 | elf::EM_386 | elf::EM_AARCH64 | elf::EM_ARM | elf::EM_RISCV | elf::EM_S390
        )
        .then_some(Self { machine, got, kinds })
    }

    /// Finds the stubs of a section.
    pub(super) fn each_stub(self, address: u64, code: &[u8], entry_size: u64, found: &mut dyn FnMut(Found)) {
        if matches!(self.machine, elf::EM_X86_64 | elf::EM_386) {
            // Of 16 bytes each, unless the section header says 8.
            let size: u64 = if entry_size == 8 { 8 } else { 16 };
            for (index, entry) in code.chunks(size as usize).enumerate() {
                let here = address.wrapping_add(index as u64 * size);
                if let Some(way) = self.x86(here, entry) {
                    found(Found { address: here, size, way });
                }
            }
            return;
        }
        let step = if self.machine == elf::EM_S390 { 2 } else { 4 };
        let mut at = 0;
        while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
            let here = address.wrapping_add(at as u64);
            let stub = match self.machine {
                elf::EM_AARCH64 => aarch64(here, rest),
                elf::EM_ARM => arm(here, rest),
                elf::EM_RISCV => risc_v(here, rest),
                _ => z_architecture(here, rest),
            };
            match stub {
                Some((slot, size)) => {
                    found(Found { address: here, size: size as u64, way: Way::Slot(slot) });
                    at += size;
                }
                None => at += step,
            }
        }
    }

    fn x86(self, address: u64, code: &[u8]) -> Option<Way> {
        let wide = self.machine == elf::EM_X86_64;
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
            ([0xff, 0xa3], false) => self.got.wrapping_add_signed(distance) & 0xffff_ffff,
            _ => return None,
        };
        Some(Way::Slot(slot))
    }
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

/// `[bti c]`, `adrp x16`, `ldr x17, [x16, …]`, and on to `br x17`, up to three instructions later.
fn aarch64(address: u64, code: &[u8]) -> Option<(u64, usize)> {
    const LANDING_PAD: u32 = 0xd503_245f;
    const JUMP: u32 = 0xd61f_0220;
    let pad = if words::<1>(code)? == [LANDING_PAD] { 4 } else { 0 };
    let [page, load] = words::<2>(code.get(pad..)?)?;
    if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = signed((page >> 5 & 0x7_ffff) << 2 | page >> 29 & 3, 21) << 12;
    let base = (address.wrapping_add(pad as u64) & !0xfff).wrapping_add_signed(pages);
    let slot = base.wrapping_add(u64::from(load >> 10 & 0xfff) * 8);
    let jump = (2..6)
        .find(|nth| code.get(pad + 4 * nth..).and_then(words::<1>).is_some_and(|word| word == [JUMP]))?;
    Some((slot, pad + 4 * (jump + 1)))
}

/// `[bx pc; nop]` for callers in Thumb code, `add ip, pc, …`, one or two `add ip, ip, …`, `ldr pc, [ip, …]!`.
fn arm(address: u64, code: &[u8]) -> Option<(u64, usize)> {
    const FROM_THUMB: &[u8] = b"\x78\x47\xc0\x46";
    let immediate = |word: u32| (word & 0xff).rotate_right((word >> 8 & 0xf) * 2);
    let start = if code.starts_with(FROM_THUMB) { 4 } else { 0 };
    let [first] = words::<1>(code.get(start..)?)?;
    if first & 0xffff_f000 != 0xe28f_c000 {
        return None;
    }
    // The program counter reads as two instructions ahead.
    let mut slot = (address as u32).wrapping_add(start as u32 + 8).wrapping_add(immediate(first));
    for nth in 1..4 {
        let [word] = words::<1>(code.get(start + 4 * nth..)?)?;
        match word & 0xffff_f000 {
            0xe28c_c000 => slot = slot.wrapping_add(immediate(word)),
            0xe5bc_f000 => return Some((u64::from(slot.wrapping_add(word & 0xfff)), start + 4 * (nth + 1))),
            _ => return None,
        }
    }
    None
}

/// `auipc t3, …`, `ld t3, …(t3)` (`lw` of 32 bits), `jalr t1, t3`, `nop`.
fn risc_v(address: u64, code: &[u8]) -> Option<(u64, usize)> {
    let [upper, load, jump] = words::<3>(code)?;
    let wide = match load & 0xf_ffff {
        0xe_3e03 => true,
        0xe_2e03 => false,
        _ => return None,
    };
    if upper & 0xfff != 0xe17 || jump != 0x000e_0367 {
        return None;
    }
    let slot = address
        .wrapping_add_signed(i64::from((upper & 0xffff_f000) as i32))
        .wrapping_add_signed(signed(load >> 20, 12));
    Some((if wide { slot } else { slot & 0xffff_ffff }, 16))
}

/// `larl %r1, …`, `lg %r1, 0(%r1)`, `br %r1`, and what the lazy loader needs, 32 bytes in all.
fn z_architecture(address: u64, code: &[u8]) -> Option<(u64, usize)> {
    let distance = i32::from_be_bytes(*code.strip_prefix(b"\xc0\x10")?.first_chunk::<4>()?);
    code.get(6..)?.starts_with(b"\xe3\x10\x10\x00\x00\x04\x07\xf1").then_some(())?;
    Some((address.wrapping_add_signed(2 * i64::from(distance)), 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as a disassembler prints them.
    fn bytes(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<u8> = hexadecimal.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    /// Instruction words, as a disassembler prints those of little-endian machines.
    fn code(words: &str) -> Vec<u8> {
        let words = words.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap());
        words.flat_map(u32::to_le_bytes).collect()
    }

    fn stubs(machine: elf::Machine, address: u64, code: &[u8]) -> Vec<(u64, u64, Way)> {
        let machine = Machine::new(machine, 0x3ff4, (&[], 0)).unwrap();
        let mut stubs = Vec::new();
        machine.each_stub(address, code, 0, &mut |found| stubs.push((found.address, found.size, found.way)));
        stubs
    }

    /// The heads and stubs of tables that GNU ld 2.40 made, at the addresses where it put them.
    #[test]
    fn stubs_of_real_tables_say_their_slots() {
        use Way::{Lazy, Slot};
        let plain = "a9bf7bf0 f00000f0 f947fe11 913fe210 d61f0220 d503201f d503201f d503201f \
                     90000110 f9400211 91000210 d61f0220 90000110 f9400611 91002210 d61f0220";
        assert_eq!(
            stubs(elf::EM_AARCH64, 0x6b0, &code(plain)),
            // The head loads from a slot as well; nothing fills it.
            [(0x6b4, 16, Slot(0x1fff8)), (0x6d0, 16, Slot(0x20000)), (0x6e0, 16, Slot(0x20008))]
        );
        let authenticated = "90000110 f9400211 91000210 d503219f d61f0220 d503201f";
        assert_eq!(stubs(elf::EM_AARCH64, 0x6d0, &code(authenticated)), [(0x6d0, 20, Slot(0x20000))]);
        let padded = "d503245f 90000110 f9400611 91002210 d61f0220 d503201f";
        assert_eq!(stubs(elf::EM_AARCH64, 0x6d0, &code(padded)), [(0x6d0, 20, Slot(0x20008))]);

        let risc_v = "00002397 41c30333 9803be03 fd430313 98038293 00135313 0082b283 000e0067 \
                      00002e17 970e3e03 000e0367 00000013 00002e17 968e3e03 000e0367 00000013";
        assert_eq!(
            stubs(elf::EM_RISCV, 0x690, &code(risc_v)),
            [(0x6b0, 16, Slot(0x2020)), (0x6c0, 16, Slot(0x2028))]
        );

        let arm = "e52de004 e59fe004 e08fe00e e5bef008 00001b90 e28fc600 e28cca01 e5bcfb90 e28fc600 e28cca01 e5bcfb88";
        assert_eq!(
            stubs(elf::EM_ARM, 0x460, &code(arm)),
            [(0x474, 12, Slot(0x200c)), (0x480, 12, Slot(0x2010))]
        );
        let from_thumb = [&bytes("7847 c046")[..], &code("e28fc600 e28cca01 e5bcfb88")].concat();
        assert_eq!(stubs(elf::EM_ARM, 0x47c, &from_thumb), [(0x47c, 16, Slot(0x2010))]);

        let s390x = "e310f0380024 c01000000cb9 d207f0301008 e31010100004 07f1 0700 0700 0700 \
                     c01000000ccc e31010000004 07f1 0d10 e310100c0014 c0f4ffffffe5 00000000 \
                     c01000000cc0 e31010000004 07f1 0d10 e310100c0014 c0f4ffffffd5 00000018";
        assert_eq!(
            stubs(elf::EM_S390, 0x648, &bytes(s390x)),
            [(0x668, 32, Slot(0x2000)), (0x688, 32, Slot(0x2008))]
        );

        let by_base = "ffb304000000 ffa308000000 00000000 ffa30c000000 6800000000 e9e0ffffff";
        assert_eq!(
            stubs(elf::EM_386, 0x1020, &bytes(by_base)),
            [(0x1030, 16, Slot(0x4000))],
            "from the global offset table at 0x3ff4"
        );
        let absolute = "ff2504c00408 6808000000 e9d0ffffff";
        assert_eq!(stubs(elf::EM_386, 0x804_9040, &bytes(absolute)), [(0x804_9040, 16, Slot(0x804_c004))]);
        let lazy = "f30f1efb 6810000000 e9d0ffffff 6690";
        assert_eq!(stubs(elf::EM_386, 0x1040, &bytes(lazy)), [(0x1040, 16, Lazy(2))]);
        let tracked = "f30f1efa f2ff25d52f0000 0f1f440000";
        assert_eq!(stubs(elf::EM_X86_64, 0x1050, &bytes(tracked)), [(0x1050, 16, Slot(0x4030))]);
    }

    #[test]
    fn code_that_ends_early_is_no_stub() {
        for machine in
            [elf::EM_X86_64, elf::EM_386, elf::EM_AARCH64, elf::EM_ARM, elf::EM_RISCV, elf::EM_S390]
        {
            for length in 0..64 {
                for byte in [0, 0xff, 0xe3, 0x90] {
                    assert_eq!(
                        stubs(machine, u64::MAX - 8, &vec![byte; length]),
                        [],
                        "{length} of {byte:#x}"
                    );
                }
            }
        }
    }
}
