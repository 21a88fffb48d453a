// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stubs of the procedure linkage table on x86-64, and the functions they lead to.
//!
//! A stub either jumps through a slot of the global offset table, which a relocation fills with the address of a symbol, or
//! (the lazy half of a table split for indirect branch tracking) pushes the number of its relocation and goes on to the
//! dynamic loader. Encodings: the x86-64 psABI, "Procedure Linkage Table".

use super::{BinaryFunction, PltStub, names};
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
#[derive(Debug, Default)]
pub(super) struct Relocations {
    /// By the address of the slot that is filled.
    by_slot: BTreeMap<u64, Target>,
    /// Those of `.rela.plt`, in its order.
    lazy: Vec<Option<Target>>,
}

/// Whether a section of this name consists of stubs.
pub(super) fn is_stub_section(name: &[u8]) -> bool {
    matches!(name, b".plt" | b".plt.sec" | b".plt.got" | b".plt.bnd" | b".iplt")
}

impl Relocations {
    /// Takes up one entry of a relocation table with addends.
    pub(super) fn add(&mut self, is_plt: bool, kind: u32, slot: u64, symbol: Option<&[u8]>, addend: i64) {
        const GLOB_DAT: u32 = 6;
        const JUMP_SLOT: u32 = 7;
        const IRELATIVE: u32 = 37;
        let target = match (kind, symbol) {
            (GLOB_DAT | JUMP_SLOT, Some(name)) => {
                std::str::from_utf8(names::symbol(name).name).ok().map(|name| Target::Symbol(name.to_owned()))
            }
            (IRELATIVE, _) => Some(Target::Resolver(addend as u64)),
            _ => None,
        };
        if is_plt {
            self.lazy.push(target.clone());
        }
        if let Some(target) = target {
            self.by_slot.insert(slot, target);
        }
    }

    /// Reads the stubs of one section, of 16 bytes each unless the section header says 8.
    pub(super) fn read_stubs(&self, address: u64, code: &[u8], entry_size: u64, stubs: &mut Vec<RawStub>) {
        let size: u64 = if entry_size == 8 { 8 } else { 16 };
        for (index, entry) in code.chunks(size as usize).enumerate() {
            let here = address.wrapping_add(index as u64 * size);
            if let Some(target) = self.decode(here, entry) {
                stubs.push(RawStub { address: here, size, target });
            }
        }
    }

    /// The target of the stub of these bytes.
    fn decode(&self, address: u64, code: &[u8]) -> Option<Target> {
        const ENDBR64: &[u8] = b"\xf3\x0f\x1e\xfa";
        let mut at = if code.starts_with(ENDBR64) { ENDBR64.len() } else { 0 };
        if code.get(at) == Some(&0x68) {
            let index = u32::from_le_bytes(*code.get(at + 1..)?.first_chunk::<4>()?);
            return self.lazy.get(index as usize)?.clone();
        }
        if code.get(at) == Some(&0xf2) {
            at += 1;
        }
        if code.get(at..at + 2)? != [0xff, 0x25] {
            return None;
        }
        let distance = i32::from_le_bytes(*code.get(at + 2..)?.first_chunk::<4>()?);
        let next = address.wrapping_add(at as u64 + 6);
        let slot = next.wrapping_add_signed(i64::from(distance));
        self.by_slot.get(&slot).cloned()
    }
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
    stubs
}
