// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the code of a stub says through which slot it jumps, by architecture.
//!
//! Each stub computes the address of its slot from its own (x86-64, AArch64, Arm, RISC-V, z/Architecture) or from the global
//! offset table's (i386), loads from there and jumps. What GNU ld, gold, lld and mold put around these instructions (landing pads,
//! pointer authentication, the address for the lazy loader) differs and is passed over. The head of a table loads from a slot
//! that no symbol fills, and is told apart by that. Encodings: the processors' manuals and the psABIs, "Procedure Linkage Table".

use crate::isa::{Way, aarch64, arm, riscv, s390x, x86};
use object::elf;

/// A stub, and how it says where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) way: Way,
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
                if let Some(way) = x86::stub(self.machine == elf::EM_X86_64, self.got, here, entry) {
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
                elf::EM_AARCH64 => aarch64::stub(here, rest),
                elf::EM_ARM => arm::stub(here, rest),
                elf::EM_RISCV => riscv::stub(here, rest),
                _ => s390x::stub(here, rest),
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
