// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stubs of the procedure linkage table, and the functions they lead to.
//!
//! A stub either jumps through a slot of the global offset table, which a relocation fills with the address of a
//! symbol, or (on x86, the lazy half of a table split for indirect branch tracking) pushes the number of its relocation
//! and goes on to the dynamic loader. On 64-bit Power the stubs are among the functions, and GNU ld and lld name them
//! after their target.

use super::{BinaryFunction, PltStub, names};
use crate::isa::{self, Isa, StubTarget};
use object::elf;
use std::collections::BTreeMap;

/// Target of a stub according to the relocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RelocationTarget {
    /// The symbol of this name.
    Symbol(String),
    /// The function chosen by the resolver at this address, for an indirect function.
    Resolver(u64),
}

/// A stub before the functions of the file are known.
#[derive(Debug)]
pub(super) struct RawStub {
    address: u64,
    size: u64,
    target: RelocationTarget,
}

/// The relocations for stubs.
#[derive(Debug)]
pub(super) struct Relocations {
    isa: &'static Isa,
    got: u64,
    /// Relocation types: those that put a symbol's address into a slot, and the one that calls a resolver.
    kinds: (&'static [elf::RelocationType], elf::RelocationType),
    /// By the address of the slot that is filled.
    by_slot: BTreeMap<u64, RelocationTarget>,
    /// Targets of `.rela.plt` or `.rel.plt`, in its order.
    lazy: Vec<Option<RelocationTarget>>,
}

/// True if a section of this name consists of stubs.
pub(super) fn is_stub_section(name: &[u8]) -> bool {
    matches!(name, b".plt" | b".plt.sec" | b".plt.got" | b".plt.bnd" | b".iplt")
}

impl Relocations {
    /// None for a machine whose stubs are not supported. `got` is the address of the global offset table.
    pub(super) fn new(machine: elf::Machine, got: u64) -> Option<Self> {
        let (isa, addresses, by_resolver): (_, &[_], _) = match machine {
            elf::EM_X86_64 => {
                (&isa::X86_64, &[elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT], elf::R_X86_64_IRELATIVE)
            }
            elf::EM_386 => (&isa::I386, &[elf::R_386_GLOB_DAT, elf::R_386_JMP_SLOT], elf::R_386_IRELATIVE),
            elf::EM_AARCH64 => (
                &isa::AARCH64,
                &[elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT],
                elf::R_AARCH64_IRELATIVE,
            ),
            elf::EM_ARM => (&isa::ARM, &[elf::R_ARM_GLOB_DAT, elf::R_ARM_JUMP_SLOT], elf::R_ARM_IRELATIVE),
            // RISC-V has no GLOB_DAT, and uses an absolute address of 32 or 64 bits.
            elf::EM_RISCV => (
                &isa::RISCV,
                &[elf::R_RISCV_32, elf::R_RISCV_64, elf::R_RISCV_JUMP_SLOT],
                elf::R_RISCV_IRELATIVE,
            ),
            elf::EM_S390 => (&isa::S390X, &[elf::R_390_GLOB_DAT, elf::R_390_JMP_SLOT], elf::R_390_IRELATIVE),
            _ => return None,
        };
        let kinds = (addresses, by_resolver);
        Some(Self { isa, got, kinds, by_slot: BTreeMap::new(), lazy: Vec::new() })
    }

    /// Adds one entry of a relocation table. `addend` is called only if it is needed.
    pub(super) fn add(
        &mut self,
        is_plt: bool,
        kind: elf::RelocationType,
        slot: u64,
        symbol: Option<&[u8]>,
        addend: impl FnOnce() -> Option<u64>,
    ) {
        let (addresses, by_resolver) = self.kinds;
        let target = match symbol {
            Some(name) if addresses.contains(&kind) => std::str::from_utf8(names::symbol(name).name)
                .ok()
                .map(|name| RelocationTarget::Symbol(name.to_owned())),
            _ if kind == by_resolver => addend().map(RelocationTarget::Resolver),
            _ => None,
        };
        if is_plt {
            self.lazy.push(target.clone());
        }
        if let Some(target) = target {
            self.by_slot.insert(slot, target);
        }
    }

    /// Reads the stubs of a section. Its header gives the size of each stub, or nothing.
    pub(super) fn read_stubs(&self, address: u64, code: &[u8], entry_size: u64, stubs: &mut Vec<RawStub>) {
        for (address, size, target) in self.ways(address, code, entry_size) {
            let target = match target {
                StubTarget::Slot(slot) => self.by_slot.get(&slot),
                StubTarget::Lazy(index) => self.lazy.get(index).and_then(Option::as_ref),
            };
            if let Some(target) = target {
                stubs.push(RawStub { address, size, target: target.clone() });
            }
        }
    }

    /// Finds possible stubs in a section: address, size, and way to the target.
    fn ways(&self, address: u64, code: &[u8], entry_size: u64) -> Vec<(u64, u64, StubTarget)> {
        let mut ways = Vec::new();
        // On x86 they are the entries of the section, even if its header gives another size.
        let step = if self.isa.stub_step == 16 && entry_size == 8 { 8 } else { self.isa.stub_step };
        let mut at = 0;
        while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
            let here = address.wrapping_add(at as u64);
            let stub = (self.isa.stub)(rest, here, self.got);
            let size = stub.map_or(step, |(_, size)| size.max(step));
            ways.extend(stub.map(|(target, _)| (here, size as u64, target)));
            at += size;
        }
        ways
    }
}

/// Returns the stub for a symbol of 64-bit Power, with at most the size of those of GNU ld and lld.
pub(super) fn stub_by_name(name: &[u8], address: u64) -> Option<RawStub> {
    const LARGEST: u64 = 32;
    let target = names::power_stub(name)?;
    Some(RawStub {
        address,
        size: LARGEST,
        target: RelocationTarget::Symbol(std::str::from_utf8(target).ok()?.to_owned()),
    })
}

/// Returns the stubs by address, with names. The stub of an indirect function has the name of its resolver.
pub(super) fn name_stubs(raw: Vec<RawStub>, functions: &[BinaryFunction]) -> Vec<PltStub> {
    let mut stubs: Vec<PltStub> = raw
        .into_iter()
        .filter_map(|stub| {
            let target = match stub.target {
                RelocationTarget::Symbol(name) => name,
                RelocationTarget::Resolver(address) => {
                    let first = functions.partition_point(|function| function.address < address);
                    let resolver =
                        functions[first..].iter().take_while(|function| function.address == address);
                    resolver.filter(|function| function.ifunc).map(|function| &function.name).next()?.clone()
                }
            };
            Some(PltStub { address: stub.address, size: stub.size, target })
        })
        .collect();
    stubs.sort_by(|a, b| (a.address, &a.target).cmp(&(b.address, &b.target)));
    stubs.dedup_by_key(|stub| stub.address);
    // A stub ends where the next one or a function begins.
    let starts: Vec<u64> = stubs.iter().map(|stub| stub.address).skip(1).chain([u64::MAX]).collect();
    for (stub, next) in stubs.iter_mut().zip(starts) {
        let after = functions.partition_point(|function| function.address <= stub.address);
        let function = functions.get(after).map_or(u64::MAX, |function| function.address);
        stub.size = stub.size.min(next.min(function) - stub.address);
    }
    stubs
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

    /// Instruction words, in the form that disassemblers print for little-endian machines.
    fn code(words: &str) -> Vec<u8> {
        let words = words.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap());
        words.flat_map(u32::to_le_bytes).collect()
    }

    fn stubs(machine: elf::Machine, address: u64, code: &[u8]) -> Vec<(u64, u64, StubTarget)> {
        Relocations::new(machine, 0x3ff4).unwrap().ways(address, code, 0)
    }

    /// The heads and stubs of tables made by GNU ld 2.40, at their original addresses.
    #[test]
    fn stubs_of_real_tables_say_their_slots() {
        use StubTarget::{Lazy, Slot};
        let plain = "a9bf7bf0 f00000f0 f947fe11 913fe210 d61f0220 d503201f d503201f d503201f \
                     90000110 f9400211 91000210 d61f0220 90000110 f9400611 91002210 d61f0220";
        assert_eq!(
            stubs(elf::EM_AARCH64, 0x6b0, &code(plain)),
            // The head loads from a slot, too, but no relocation fills this slot.
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
