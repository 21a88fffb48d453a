// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stubs of the procedure linkage table, and the functions they lead to.
//!
//! A stub either jumps through a slot of the global offset table, which a relocation fills with the address of a symbol, or
//! (on x86, the lazy half of a table split for indirect branch tracking) pushes the number of its relocation and goes on to the
//! dynamic loader. [`code`] knows how a stub of each architecture says its slot. On 64-bit Power the stubs lie among the
//! functions and say their target in their names, which GNU ld and lld give them.

mod code;

use super::{BinaryFunction, PltStub, names};
use crate::isa::Way;
pub(super) use code::Machine;
use object::elf;
use std::collections::BTreeMap;

/// Where a stub leads, as the relocations say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// To the symbol of this name.
    Symbol(String),
    /// To what the indirect function with its resolver at this address chooses.
    Resolver(u64),
}

/// A stub before the functions of the file are known.
#[derive(Debug)]
pub(super) struct RawStub {
    address: u64,
    size: u64,
    target: Target,
}

/// The relocations that concern stubs.
#[derive(Debug)]
pub(super) struct Relocations {
    machine: Machine,
    /// By the address of the slot that is filled.
    by_slot: BTreeMap<u64, Target>,
    /// Those of `.rela.plt` or `.rel.plt`, in its order.
    lazy: Vec<Option<Target>>,
}

/// Whether a section of this name consists of stubs.
pub(super) fn is_stub_section(name: &[u8]) -> bool {
    matches!(name, b".plt" | b".plt.sec" | b".plt.got" | b".plt.bnd" | b".iplt")
}

/// What fills a slot: relocation types that put the address of a symbol there, and the one that asks a resolver.
fn kinds(machine: elf::Machine) -> Option<(&'static [u32], u32)> {
    Some(match machine {
        elf::EM_X86_64 => (&[6, 7], 37),
        elf::EM_386 => (&[6, 7], 42),
        elf::EM_AARCH64 => (&[1025, 1026], 1032),
        elf::EM_ARM => (&[21, 22], 160),
        // RISC-V has no GLOB_DAT: an absolute address of 32 or 64 bits stands for it.
        elf::EM_RISCV => (&[1, 2, 5], 58),
        elf::EM_S390 => (&[10, 11], 61),
        _ => return None,
    })
}

impl Relocations {
    /// None for a machine whose stubs say nothing that is known here.
    pub(super) fn new(machine: elf::Machine, got: u64) -> Option<Self> {
        let machine = Machine::new(machine, got, kinds(machine)?)?;
        Some(Self { machine, by_slot: BTreeMap::new(), lazy: Vec::new() })
    }

    /// Takes up one entry of a relocation table. `addend` is asked for where it counts.
    pub(super) fn add(
        &mut self,
        is_plt: bool,
        kind: u32,
        slot: u64,
        symbol: Option<&[u8]>,
        addend: impl FnOnce() -> Option<u64>,
    ) {
        let (addresses, by_resolver) = self.machine.kinds;
        let target = match symbol {
            Some(name) if addresses.contains(&kind) => {
                std::str::from_utf8(names::symbol(name).name).ok().map(|name| Target::Symbol(name.to_owned()))
            }
            _ if kind == by_resolver => addend().map(Target::Resolver),
            _ => None,
        };
        if is_plt {
            self.lazy.push(target.clone());
        }
        if let Some(target) = target {
            self.by_slot.insert(slot, target);
        }
    }

    /// Reads the stubs of one section, whose header says how large each is, if anything.
    pub(super) fn read_stubs(&self, address: u64, code: &[u8], entry_size: u64, stubs: &mut Vec<RawStub>) {
        self.machine.each_stub(address, code, entry_size, &mut |found| {
            let target = match found.way {
                Way::Slot(slot) => self.by_slot.get(&slot),
                Way::Lazy(index) => self.lazy.get(index).and_then(Option::as_ref),
            };
            if let Some(target) = target {
                stubs.push(RawStub { address: found.address, size: found.size, target: target.clone() });
            }
        });
    }
}

/// The stub that a symbol of 64-bit Power names, at most as large as those of GNU ld and lld are.
pub(super) fn stub_by_name(name: &[u8], address: u64) -> Option<RawStub> {
    const LARGEST: u64 = 32;
    let target = names::power_stub(name)?;
    Some(RawStub {
        address,
        size: LARGEST,
        target: Target::Symbol(std::str::from_utf8(target).ok()?.to_owned()),
    })
}

/// The stubs by address, with names: an indirect function's stub has the name of its resolver.
pub(super) fn name_stubs(raw: Vec<RawStub>, functions: &[BinaryFunction]) -> Vec<PltStub> {
    let mut stubs: Vec<PltStub> = raw
        .into_iter()
        .filter_map(|stub| {
            let target = match stub.target {
                Target::Symbol(name) => name,
                Target::Resolver(address) => {
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
