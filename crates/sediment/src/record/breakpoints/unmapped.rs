// SPDX-License-Identifier: MIT OR Apache-2.0
//! The code of functions in pieces that are entered at their first byte alone, where no compiler has left a map of blocks.
//!
//! A piece begins where a function does, where a table of the compiler says that other code begins (a row of the line table), behind a jump or
//! a return, and where a jump of the function leads to. Code is decoded from the first byte of a symbol on, and no further than it is
//! instructions. What a jump through a register leads to is known from the table alone.

use crate::binary::gcc_block_map::Stretch;
use crate::binary::names::split_from;
use crate::binary::{Binary, BinaryFunction};
use crate::isa::{Flow, Isa};
use std::collections::{BTreeMap, BTreeSet};

/// The pieces of each function of a file, its own first byte first. `begins` tells where other code begins between two addresses. The cold part
/// of a function is of the one that jumps there.
pub(super) fn code_by_function<'a>(
    isa: &Isa,
    binary: &Binary,
    code_at: &dyn Fn(u64) -> Option<&'a [u8]>,
    begins: &dyn Fn(u64, u64) -> Vec<u64>,
) -> Vec<Vec<Stretch>> {
    let mut parts: BTreeMap<u64, Part> = BTreeMap::new();
    for function in binary.functions.iter().filter(|function| !function.untyped && function.size > 0) {
        let known = parts.get(&function.address).is_some_and(|known| known.end >= function.end());
        let part = if known { None } else { Part::of(isa, function, code_at, begins) };
        if let Some(part) = part {
            parts.insert(function.address, part);
        }
    }
    let starts: Vec<u64> = parts.keys().copied().collect();
    let around = |address: u64| {
        let behind = starts.partition_point(|start| *start <= address);
        starts[..behind].last().copied().filter(|start| address < parts[start].end)
    };
    let mut cold_parts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut entered: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (start, part) in &parts {
        for target in &part.leaves_for {
            let Some(other) = around(*target).filter(|other| other != start) else { continue };
            if parts[&other].is_cold && !part.is_cold {
                cold_parts.entry(other).or_insert(*start);
            }
            entered.entry(other).or_default().insert(*target);
        }
    }
    let mut functions: BTreeMap<u64, Vec<Stretch>> = BTreeMap::new();
    for (start, part) in &parts {
        let entered = entered.get(start).into_iter().flatten();
        let begins: BTreeSet<u64> = part.begins.iter().chain(entered).copied().collect();
        let owner = cold_parts.get(start).unwrap_or(start);
        functions.entry(*owner).or_default().extend(part.stretches(&begins));
    }
    let own_first = |(start, mut code): (u64, Vec<Stretch>)| {
        code.sort_by_key(|stretch| (stretch.address != start, stretch.address));
        code
    };
    functions.into_iter().map(own_first).collect()
}

/// Code of one symbol.
struct Part {
    /// Behind its last byte.
    end: u64,
    is_cold: bool,
    /// Where pieces of it begin, as far as it tells itself.
    begins: BTreeSet<u64>,
    /// Where its jumps lead to outside of it.
    leaves_for: BTreeSet<u64>,
}

impl Part {
    fn of<'a>(
        isa: &Isa,
        function: &BinaryFunction,
        code_at: &dyn Fn(u64) -> Option<&'a [u8]>,
        begins: &dyn Fn(u64, u64) -> Vec<u64>,
    ) -> Option<Self> {
        let (start, end) = (function.address, function.end());
        let code = code_at(start)?;
        let code = &code[..code.len().min(usize::try_from(function.size).unwrap_or(usize::MAX))];
        let mut part = Self {
            end,
            is_cold: split_from(&function.name).is_some(),
            begins: begins(start, end).into_iter().chain([start]).collect(),
            leaves_for: BTreeSet::new(),
        };
        let mut at = 0;
        while at < code.len() {
            let Some(length) = (isa.instruction)(&code[at..]) else { break };
            let address = start + at as u64;
            if let Some(target) = (isa.jump)(&code[at..], address) {
                let inside = (start..end).contains(&target);
                if inside { &mut part.begins } else { &mut part.leaves_for }.insert(target);
            }
            at += length;
            if (isa.flow)(&code[at - length..]) != Flow::Other && at < code.len() {
                part.begins.insert(start + at as u64);
            }
        }
        Some(part)
    }

    fn stretches(&self, begins: &BTreeSet<u64>) -> impl Iterator<Item = Stretch> {
        let ends = begins.iter().skip(1).copied().chain([self.end]).collect::<Vec<u64>>();
        let stretch = |((number, address), end): ((u32, &u64), u64)| Stretch {
            address: *address,
            size: end.saturating_sub(*address),
            block: Some(number),
        };
        (1..).zip(begins).zip(ends).map(stretch).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{AARCH64, X86_64};

    fn function(name: &str, address: u64, size: u64) -> BinaryFunction {
        BinaryFunction { name: name.into(), address, size, ..BinaryFunction::default() }
    }

    /// Where the pieces of each function begin, in code from address 0x100 on.
    fn begins(isa: &Isa, code: &[u8], functions: Vec<BinaryFunction>, rows: &[u64]) -> Vec<Vec<u64>> {
        let binary = Binary { functions, ..Binary::default() };
        let code_at = |address: u64| code.get(usize::try_from(address.checked_sub(0x100)?).ok()?..);
        let rows = |from, to| rows.iter().copied().filter(|row| (from..to).contains(row)).collect();
        let found = code_by_function(isa, &binary, &code_at, &rows);
        found.iter().map(|code| code.iter().map(|stretch| stretch.address).collect()).collect()
    }

    #[test]
    fn jumps_lines_and_returns_part_code() {
        // test %edi,%edi; je +6; mov $1,%eax; ret; xor %eax,%eax; nop; ret
        let code = [0x85, 0xff, 0x74, 6, 0xb8, 1, 0, 0, 0, 0xc3, 0x31, 0xc0, 0x90, 0xc3];
        let whole = || vec![function("f", 0x100, 14)];
        assert_eq!(begins(&X86_64, &code, whole(), &[]), [[0x100, 0x104, 0x10a]]);
        assert_eq!(begins(&X86_64, &code, whole(), &[0x10c]), [[0x100, 0x104, 0x10a, 0x10c]]);
        let pieces = code_by_function(
            &X86_64,
            &Binary { functions: whole(), ..Binary::default() },
            &|address| code.get((address - 0x100) as usize..),
            &|_, _| Vec::new(),
        );
        assert_eq!(pieces[0].iter().map(|stretch| stretch.size).collect::<Vec<_>>(), [4, 6, 4]);
    }

    #[test]
    fn words_of_aarch64_part_code() {
        // cbz w0, +12; b.ne +12; tbz w0, 3, +8; mov w0, 1; ret
        let words = [0x3400_0060u32, 0x5400_0061, 0x3618_0040, 0x5280_0020, 0xd65f_03c0];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found = begins(&AARCH64, &code, vec![function("f", 0x100, 20)], &[]);
        assert_eq!(found, [[0x100, 0x104, 0x108, 0x10c, 0x110]]);
    }

    #[test]
    fn a_cold_part_is_of_the_function_that_jumps_there() {
        // f: jmp g.cold + 2; g: je g.cold; ret; g.cold: nop; nop; nop
        let code = [0xeb, 5, 0x74, 1, 0xc3, 0x90, 0x90, 0x90, 0x90];
        let functions = vec![function("f", 0x100, 2), function("g", 0x102, 3), function("f.cold", 0x105, 4)];
        // Entered in its middle, it has a piece there.
        let expected = [vec![0x100, 0x105, 0x107], vec![0x102, 0x104]];
        assert_eq!(begins(&X86_64, &code, functions, &[]), expected);
    }

    #[test]
    fn nothing_is_known_behind_data() {
        // 0x06 is no instruction of x86-64; behind it stands a jump.
        let code = [0x90, 0x06, 0xeb, 0, 0xc3];
        assert_eq!(begins(&X86_64, &code, vec![function("f", 0x100, 5)], &[]), [[0x100]]);
    }
}
