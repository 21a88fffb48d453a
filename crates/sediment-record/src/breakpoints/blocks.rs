// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the blocks inside functions that may have a breakpoint, from the map that a compiler left.
//!
//! A map is checked against the code: a block gets a breakpoint only if decoding the function from its symbol,
//! instruction by instruction, arrives at the block's first byte. Nothing is recorded for other blocks.

use super::modules::{CodeEntry, FunctionWithBlocks, Module};
use crate::tracing::machine::{ISA, TRAP};
use sediment_core::binary::gcc_block_map::Stretch;
use sediment_core::isa::Isa;
use std::collections::BTreeMap;

impl Module {
    /// Adds the blocks of functions to the entries, from their code by block. Returns the number of blocks that can
    /// have no breakpoint.
    pub(super) fn add_blocks(&mut self, functions: Vec<Vec<Stretch>>) -> u64 {
        let mut owners: BTreeMap<u64, u32> = BTreeMap::new();
        let mut unwatched = 0;
        for mut code in functions {
            let Some(begin) = code.first().map(|stretch| stretch.address) else { continue };
            if owners.contains_key(&begin) || self.function_at(begin).is_none() {
                continue;
            }
            let owner = self.mapped.len() as u32;
            let mut function = FunctionWithBlocks { begin, ..FunctionWithBlocks::default() };
            code.sort_unstable_by_key(|stretch| stretch.address);
            let mut walk = InstructionWalk::new(&ISA, |address| self.bytes_at(address));
            let mut certain = Vec::new();
            for stretch in &code {
                let begins = walk.begins_instruction(stretch, self.function_at(stretch.address).is_some());
                if stretch.block.is_none() || stretch.size == 0 {
                    continue;
                }
                if begins && self.may_stand_at(stretch) && !owners.contains_key(&stretch.address) {
                    certain.push(stretch.address);
                } else {
                    function.unwatched.push(stretch.address);
                }
            }
            // Compilers do not always list the block of a function's first instructions.
            if !certain.contains(&begin) {
                certain.push(begin);
            }
            owners.extend(certain.into_iter().map(|address| (address, owner)));
            unwatched += function.unwatched.len() as u64;
            self.mapped.push(function);
        }
        let mut blocks = Vec::new();
        for (&address, &owner) in &owners {
            if let Some(entry) = self.entry_at(address) {
                self.entries[entry].owner = Some(owner);
            } else if let Some(&original) = self.bytes_at(address).and_then(<[u8]>::first_chunk) {
                blocks.push(CodeEntry { address, original, is_function: false, owner: Some(owner) });
            }
        }
        self.entries.append(&mut blocks);
        self.entries.sort_unstable_by_key(|entry| entry.address);
        for (index, entry) in self.entries.iter().enumerate() {
            if let Some(owner) = entry.owner {
                self.mapped[owner as usize].blocks.push(index as u32);
            }
        }
        unwatched
    }

    /// True if a breakpoint may be set at the first byte of this code.
    fn may_stand_at(&self, stretch: &Stretch) -> bool {
        let code = self.bytes_at(stretch.address).unwrap_or_default();
        let code = &code[..code.len().min(usize::try_from(stretch.size).unwrap_or(usize::MAX))];
        code.first_chunk::<{ TRAP.len() }>().is_some_and(|original| *original != TRAP)
            && (ISA.begins_with_code)(code)
            && self.debug_state() != Some(stretch.address)
    }
}

/// Decodes the instructions of a function one after the other.
struct InstructionWalk<'a, Code> {
    isa: &'a Isa,
    /// Code from a given address.
    code: Code,
    /// End of the last stretch.
    end: u64,
    /// Address of the last instruction found; `None` after bytes that are not an instruction.
    instruction: Option<u64>,
}

impl<'a, Code: Fn(u64) -> Option<&'a [u8]>> InstructionWalk<'a, Code> {
    fn new(isa: &'a Isa, code: Code) -> Self {
        Self { isa, code, end: 0, instruction: None }
    }

    /// True if an instruction begins at the start of this stretch. `is_symbol`: a function symbol is there. Stretches
    /// must ascend.
    fn begins_instruction(&mut self, stretch: &Stretch, is_symbol: bool) -> bool {
        let address = stretch.address;
        if address != self.end || is_symbol {
            // A part of the function begins at a symbol; otherwise its first instruction is unknown.
            self.instruction = is_symbol.then_some(address);
        }
        self.end = address.saturating_add(stretch.size);
        let known = self.instruction.and_then(|start| {
            let inside = usize::try_from(address.checked_sub(start)?).ok()?;
            Some(start + self.isa.whole_instructions((self.code)(start)?, inside)? as u64)
        });
        self.instruction = known;
        known == Some(address) && self.isa.may_begin_at(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_core::isa::{AARCH64, X86_64};

    /// For blocks of these sizes, decoded from a symbol at address 0x100: true if the start of the block is certain.
    fn certain(isa: &Isa, code: &[u8], sizes: &[u64]) -> Vec<bool> {
        let mut walk = InstructionWalk::new(isa, |address| {
            code.get(usize::try_from(address.checked_sub(0x100)?).ok()?..)
        });
        let mut address = 0x100;
        let begins = |size: &u64| {
            let stretch = Stretch { address, size: *size, block: Some(1) };
            address += size;
            walk.begins_instruction(&stretch, stretch.address == 0x100)
        };
        sizes.iter().map(begins).collect()
    }

    #[test]
    fn blocks_begin_where_instructions_do() {
        // test %edi,%edi; je; mov $1,%eax; ret; xor %eax,%eax; ret
        let code = [0x85, 0xff, 0x74, 6, 0xb8, 1, 0, 0, 0, 0xc3, 0x31, 0xc0, 0xc3];
        assert_eq!(certain(&X86_64, &code, &[4, 6, 3]), [true, true, true]);
        assert_eq!(
            certain(&X86_64, &code, &[5, 5, 3]),
            [true, false, true],
            "the map points into an instruction"
        );
        // Nothing is certain after bytes that are not an instruction.
        let data = [0x85, 0xff, 0x06, 0xff, 0xff, 0xff, 0xc3];
        assert_eq!(certain(&X86_64, &data, &[2, 4, 1]), [true, true, false]);
    }

    #[test]
    fn blocks_of_aarch64_begin_at_words() {
        // cbz w0, 8; mov w0, 1; ret
        let code: Vec<u8> =
            [0x3400_0040u32, 0x5280_0020, 0xd65f_03c0].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(certain(&AARCH64, &code, &[4, 4, 4]), [true, true, true]);
        assert_eq!(certain(&AARCH64, &code, &[4, 2, 6]), [true, true, false]);
    }

    #[test]
    fn parts_begin_at_symbols() {
        let code = [0xc3; 64];
        let mut walk = InstructionWalk::new(&X86_64, |address| code.get(address as usize..));
        let mut at = |address, is_symbol| {
            walk.begins_instruction(&Stretch { address, size: 4, block: Some(1) }, is_symbol)
        };
        assert!(at(0, true));
        assert!(at(4, false));
        assert!(!at(20, false), "a part without a symbol");
        assert!(!at(24, false), "nor what lies behind its begin");
        assert!(at(32, true));
    }

    #[test]
    fn a_module_has_blocks_among_its_functions() {
        let code = [0xc3; 16];
        let mut module = Module::of_code("/program", &code, &[0, 8], None);
        let stretch = |address, block| Stretch { address, size: 2, block: Some(block) };
        let unknown = Stretch { address: 4, size: 2, block: None };
        let one = vec![stretch(0, 1), stretch(2, 2), unknown, stretch(6, 3)];
        // Code that two functions share belongs to the first. The third map begins at no function and is ignored.
        let other = vec![stretch(8, 1), stretch(10, 2), stretch(6, 4)];
        let none = vec![stretch(12, 1)];
        assert_eq!(module.add_blocks(vec![one.clone(), one, other, none]), 1);
        let addresses: Vec<(u64, bool, Option<u32>)> =
            module.entries.iter().map(|entry| (entry.address, entry.is_function, entry.owner)).collect();
        let (first, second) = (Some(0), Some(1));
        let expected =
            [(0, true, first), (2, false, first), (6, false, first), (8, true, second), (10, false, second)];
        assert_eq!(addresses, expected);
        assert_eq!(module.mapped[0].blocks, [0, 1, 2]);
        assert_eq!(module.mapped[1].blocks, [3, 4]);
        assert_eq!(module.mapped[1].unwatched, [6]);
    }
}
