// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits functions without a compiler's map of blocks into pieces that are entered only at their first byte.
//!
//! A piece begins at the function's first byte, at a row of the compiler's line table, after a conditional jump, and at
//! the target of a jump in the function. Decoding begins at rows and targets and never continues past a jump or a
//! return, because tables may follow these. Decoded code must end exactly at the next row. Only the line table shows
//! the targets of jumps through registers. Functions without a row in the table have no pieces.

use super::detours::CodeAt;
use sediment_core::binary::gcc_block_map::Stretch;
use sediment_core::binary::names::split_from;
use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::isa::{Flow, Isa};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rows of the compiler's table: returns the starts of code between two addresses.
type RowsIn<'b> = &'b dyn Fn(u64, u64) -> Vec<u64>;

/// Pieces of each function with rows in the table, beginning with its own first byte. A cold part belongs to the
/// function whose name it has, or to one that jumps to it.
pub(super) fn code_by_function<'a>(
    isa: &Isa,
    binary: &Binary,
    code_at: CodeAt<'a, '_>,
    rows_in: RowsIn<'_>,
) -> Vec<Vec<Stretch>> {
    let mut functions: Vec<&BinaryFunction> =
        binary.functions.iter().filter(|function| !function.untyped && function.size > 0).collect();
    functions.sort_by_key(|function| (function.address, std::cmp::Reverse(function.size)));
    functions.dedup_by_key(|function| function.address);
    let mut parts: BTreeMap<u64, SymbolCode> = BTreeMap::new();
    for (index, function) in functions.iter().enumerate() {
        // If a symbol's size overlaps the next symbol, the shared bytes belong to the next one.
        let next = functions.get(index + 1).map_or(u64::MAX, |next| next.address);
        let end = function.end().min(next);
        if let Some(part) = SymbolCode::of(isa, function, end, code_at, rows_in) {
            parts.insert(function.address, part);
        }
    }
    let starts: Vec<u64> = parts.keys().copied().collect();
    let part_at = |address: u64| {
        let behind = starts.partition_point(|start| *start <= address);
        starts[..behind].last().copied().filter(|start| address < parts[start].end)
    };
    let mut owners = owners_by_name(&functions);
    let mut entered: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (start, part) in &parts {
        for target in &part.outside {
            let Some(other) = part_at(*target).filter(|other| other != start) else { continue };
            if parts[&other].is_cold && !part.is_cold {
                owners.entry(other).or_insert(*start);
            }
            entered.entry(other).or_default().insert(*target);
        }
    }
    let mut code: BTreeMap<u64, Vec<Stretch>> = BTreeMap::new();
    for (start, part) in &parts {
        let entered = entered.get(start).into_iter().flatten();
        let known = entered.filter(|target| part.instructions.contains(target));
        let begins: BTreeSet<u64> = part.begins.iter().chain(known).copied().collect();
        let owner = owners.get(start).filter(|owner| parts.contains_key(owner)).unwrap_or(start);
        code.entry(*owner).or_default().extend(part.stretches(&begins));
    }
    let own_first = |(start, mut code): (u64, Vec<Stretch>)| {
        code.sort_by_key(|stretch| (stretch.address != start, stretch.address));
        code
    };
    code.into_iter().map(own_first).collect()
}

/// Maps the first byte of a cold part to the function with its name in its file, if there is one.
fn owners_by_name(functions: &[&BinaryFunction]) -> BTreeMap<u64, u64> {
    let mut named: HashMap<(&str, Option<&str>), Option<u64>> = HashMap::new();
    for function in functions {
        let place = named.entry((&function.name, function.file.as_deref()));
        place.and_modify(|address| *address = None).or_insert(Some(function.address));
    }
    let owner = |part: &&BinaryFunction| {
        let whole = split_from(&part.name)?;
        // The cold part of a global function is a local symbol.
        let found = named.get(&(whole, part.file.as_deref())).or_else(|| named.get(&(whole, None)));
        Some((part.address, found.copied()??))
    };
    functions.iter().filter_map(owner).collect()
}

/// Code of one symbol.
struct SymbolCode {
    /// End: the address after its last byte.
    end: u64,
    is_cold: bool,
    /// Addresses of certain instructions.
    instructions: BTreeSet<u64>,
    /// Starts of its pieces, as far as its own code shows them.
    begins: BTreeSet<u64>,
    /// Targets of jumps to code outside it.
    outside: BTreeSet<u64>,
}

/// Code to decode: of a part from `start` on, from an address to the next row.
struct CodeStretch {
    start: u64,
    from: u64,
    end: u64,
}

impl SymbolCode {
    /// Splits a symbol; `None` if the table has no row in it, or if it has no code.
    fn of<'a>(
        isa: &Isa,
        function: &BinaryFunction,
        end: u64,
        code_at: CodeAt<'a, '_>,
        rows_in: RowsIn<'_>,
    ) -> Option<Self> {
        let start = function.address;
        let mut rows = rows_in(start, end);
        if rows.is_empty() {
            return None;
        }
        rows.push(start);
        rows.sort_unstable();
        rows.dedup();
        let code = code_at(start)?;
        let code = &code[..code.len().min(usize::try_from(end - start).unwrap_or(usize::MAX))];
        let mut part = Self {
            end,
            is_cold: split_from(&function.name).is_some(),
            instructions: BTreeSet::new(),
            begins: rows.iter().copied().collect(),
            outside: BTreeSet::new(),
        };
        let mut left: Vec<u64> = rows.clone();
        let mut targets = BTreeSet::new();
        while let Some(from) = left.pop() {
            if part.instructions.contains(&from) {
                continue;
            }
            let behind = rows.partition_point(|row| *row <= from);
            let run = CodeStretch { start, from, end: rows.get(behind).copied().unwrap_or(end) };
            for target in part.decode(isa, code, run) {
                if (start..end).contains(&target) {
                    targets.insert(target);
                    left.push(target);
                } else {
                    part.outside.insert(target);
                }
            }
        }
        targets.retain(|target| part.instructions.contains(target));
        part.begins.append(&mut targets);
        Some(part)
    }

    /// Decodes from an address to the next row, to known code, or to an instruction that ends the flow. If an
    /// instruction crosses the row or is invalid, the bytes may be data, so nothing of this code is kept. Returns the
    /// targets of jumps.
    fn decode(&mut self, isa: &Isa, code: &[u8], CodeStretch { start, from, end }: CodeStretch) -> Vec<u64> {
        let (mut targets, mut instructions, mut begins) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = from;
        while at < end && !self.instructions.contains(&at) {
            let Some(rest) = code.get((at - start) as usize..) else { return Vec::new() };
            let is_code = (isa.begins_with_code)(rest);
            let Some(length) = (isa.instruction)(rest).filter(|_| is_code) else { return Vec::new() };
            instructions.push(at);
            targets.extend((isa.jump)(rest, at));
            at += length as u64;
            if (isa.ends)(rest) {
                break;
            }
            if (isa.flow)(rest) == Flow::Jump && at < end {
                begins.push(at);
            }
        }
        if at > end {
            return Vec::new();
        }
        self.instructions.extend(instructions);
        self.begins.extend(begins);
        targets
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
    use sediment_core::isa::{AARCH64, X86_64};

    fn function(name: &str, address: u64, size: u64) -> BinaryFunction {
        BinaryFunction { name: name.into(), address, size, ..BinaryFunction::default() }
    }

    /// Starts of the pieces of each function, in code from address 0x100 on.
    fn begins(isa: &Isa, code: &[u8], functions: Vec<BinaryFunction>, rows: &[u64]) -> Vec<Vec<u64>> {
        let binary = Binary { functions, ..Binary::default() };
        let code_at = |address: u64| code.get(usize::try_from(address.checked_sub(0x100)?).ok()?..);
        let rows = |from, to| rows.iter().copied().filter(|row| (from..to).contains(row)).collect();
        let found = code_by_function(isa, &binary, &code_at, &rows);
        found.iter().map(|code| code.iter().map(|stretch| stretch.address).collect()).collect()
    }

    #[test]
    fn jumps_and_lines_part_code() {
        // test %edi,%edi; je +6; mov $1,%eax; ret; xor %eax,%eax; nop; ret
        let code = [0x85, 0xff, 0x74, 6, 0xb8, 1, 0, 0, 0, 0xc3, 0x31, 0xc0, 0x90, 0xc3];
        let whole = || vec![function("f", 0x100, 14)];
        assert_eq!(begins(&X86_64, &code, whole(), &[0x100]), [[0x100, 0x104, 0x10a]]);
        assert_eq!(begins(&X86_64, &code, whole(), &[0x100, 0x10c]), [[0x100, 0x104, 0x10a, 0x10c]]);
        let pieces = code_by_function(
            &X86_64,
            &Binary { functions: whole(), ..Binary::default() },
            &|address| code.get((address - 0x100) as usize..),
            &|_, _| vec![0x100],
        );
        assert_eq!(pieces[0].iter().map(|stretch| stretch.size).collect::<Vec<_>>(), [4, 6, 4]);
        assert!(begins(&X86_64, &code, whole(), &[]).is_empty(), "without a row nothing is certain");
    }

    #[test]
    fn words_of_aarch64_part_code() {
        // cbz w0, +12; b.ne +12; tbz w0, 3, +8; mov w0, 1; ret
        let words = [0x3400_0060u32, 0x5400_0061, 0x3618_0040, 0x5280_0020, 0xd65f_03c0];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found = begins(&AARCH64, &code, vec![function("f", 0x100, 20)], &[0x100]);
        assert_eq!(found, [[0x100, 0x104, 0x108, 0x10c, 0x110]]);
    }

    #[test]
    fn a_cold_part_is_of_the_function_that_jumps_there() {
        // f: jmp into the part; g: je to its beginning; ret; the part: nop; nop; nop; nop
        let code = [0xeb, 5, 0x74, 1, 0xc3, 0x90, 0x90, 0x90, 0x90];
        let functions =
            |part| vec![function("f", 0x100, 2), function("g", 0x102, 3), function(part, 0x105, 4)];
        let rows = [0x100, 0x102, 0x105];
        // Entered in its middle, the part has a piece there. Its name counts more than a jump.
        let of_f = [vec![0x100, 0x105, 0x107], vec![0x102, 0x104]];
        assert_eq!(begins(&X86_64, &code, functions("f.cold"), &rows), of_f);
        assert_eq!(begins(&X86_64, &code, functions("h.cold"), &rows), of_f, "the first that jumps there");
        let of_g = [vec![0x100], vec![0x102, 0x104, 0x105, 0x107]];
        assert_eq!(begins(&X86_64, &code, functions("g.cold"), &rows), of_g);
    }

    #[test]
    fn data_is_never_code() {
        // jmp *%rax; a table, whose bytes are instructions; a row; ret
        let table = [0xff, 0xe0, 0x74, 0, 0x31, 0xc0, 0xc3];
        let function_of = |size| vec![function("f", 0x100, size)];
        assert_eq!(begins(&X86_64, &table, function_of(7), &[0x100, 0x106]), [[0x100, 0x106]]);
        // A call that does not return; data whose last byte begins an instruction that crosses the row.
        let lies_across = [0xe8, 0, 0, 0, 0, 0x74, 0, 0xb8, 0xc3, 0x90, 0x90, 0x90, 0xc3];
        assert_eq!(begins(&X86_64, &lies_across, function_of(13), &[0x100, 0x108]), [[0x100, 0x108]]);
        // 0x06 is not an instruction of x86-64; before it is a possible jump.
        let code = [0x74, 0, 0x90, 0x06, 0xc3];
        assert_eq!(begins(&X86_64, &code, function_of(5), &[0x100]), [[0x100]]);
        // br x16; a table with a word like a jump; a row; ret
        let words = [0xd61f_0200u32, 0x1400_0001, 0x3400_0020, 0xd65f_03c0];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(begins(&AARCH64, &code, function_of(16), &[0x100, 0x10c]), [[0x100, 0x10c]]);
    }

    #[test]
    fn a_symbol_ends_where_the_next_begins() {
        // f: nop; je to the beginning of g; g: nop; ret. The size of f reaches over g.
        let code = [0x90, 0x74, 0, 0x90, 0xc3];
        let functions = vec![function("f", 0x100, 5), function("g", 0x103, 2)];
        assert_eq!(begins(&X86_64, &code, functions, &[0x100, 0x103]), [[0x100], [0x103]]);
    }
}
