// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the functions of a file whose first instructions a jump can replace.
//!
//! No code may jump into the bytes that the jump covers. To ensure that, all code of the file is decoded, function by
//! function. If code cannot be decoded, every byte that may begin a jump counts as a jump. The target of a jump through
//! a register, such as from the table of a switch, has the same frame as the jump. Unwind tables have these frames;
//! without them, the target may be any instruction.

use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::isa::{Detour, IndirectJumps, JUMP};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

/// Place for a jump at the beginning of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JumpPlace {
    /// Number of the function's first bytes that stay: a landing pad for indirect calls.
    pub(super) inside: u8,
    /// Length of the replaced instructions in bytes.
    pub(super) length: u8,
    /// True if the function does not go on after them.
    pub(super) ends: bool,
    /// True if the instructions have the same bytes at any address.
    pub(super) plain: bool,
}

/// Returns the code of a file from a given address.
pub(super) type CodeAt<'a, 'b> = &'b dyn Fn(u64) -> Option<&'a [u8]>;

/// Returns the frame before the instruction at an address, as in a row of an unwind table, if it is known.
pub(super) type FrameAt<'a, Frame> = &'a mut dyn FnMut(u64) -> Option<Frame>;

/// Instructions that a jump replaces.
struct ReplacedInstructions {
    address: u64,
    entry: usize,
    /// As [`sediment_core::isa::Movable::begins`].
    begins: u8,
}

/// Finds for each entry (`addresses`, ascending) the place at which a jump can be set.
pub(super) fn plan<Frame: PartialEq>(
    code_at: CodeAt<'_, '_>,
    frame: FrameAt<'_, Frame>,
    entries: &[u64],
    binary: &Binary,
    (detour, landing): (&Detour, &[u8]),
) -> Vec<Option<JumpPlace>> {
    let shadow_stacks = has_shadow_stacks();
    let mut functions: Vec<&BinaryFunction> = binary.functions.iter().collect();
    functions.sort_by_key(|function| (function.address, function.size));
    let mut found = vec![None; entries.len()];
    let mut covered: Vec<ReplacedInstructions> = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let entry = entries.binary_search(&function.address).ok();
        let Some(entry) = entry.filter(|entry| found[*entry].is_none()) else { continue };
        let Some(code) = code_at(function.address) else { continue };
        let next = functions[index..].iter().find(|next| next.address > function.address);
        let room = next.map_or(code.len() as u64, |next| next.address - function.address);
        let code = &code[..code.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let inside = if code.starts_with(landing) { landing.len() } else { 0 };
        let size = (function.size as usize).saturating_sub(inside);
        let movable =
            (detour.movable)(&code[inside..], size).filter(|movable| !(movable.calls && shadow_stacks));
        let Some(movable) = movable else { continue };
        found[entry] = Some(JumpPlace {
            inside: inside as u8,
            length: movable.length as u8,
            ends: movable.ends,
            plain: movable.plain,
        });
        let address = function.address + inside as u64;
        covered.push(ReplacedInstructions { address, entry, begins: movable.begins });
    }
    let mut marks = Marks::new(&covered);
    let mut jumping: HashMap<u64, IndirectJumps> = HashMap::new();
    let mut leaving: Vec<(u64, u64)> = Vec::new();
    for section in &binary.code_sections {
        let section = section.address..section.address.saturating_add(section.size);
        let mut end = section.start;
        for function in functions.iter().filter(|function| section.contains(&function.address)) {
            marks.scan(code_at, detour, end..function.address);
            let own = function.address..function.address.saturating_add(function.size).min(section.end);
            let code = slice(code_at, &own);
            let branches = (detour.branches)(code, own.start, &mut |target, calls| {
                marks.hit(target);
                if !calls && !own.contains(&target) {
                    leaving.push((own.start, target));
                }
            });
            if branches.unknown || !branches.indirect.is_empty() {
                jumping.insert(own.start, branches);
            }
            end = end.max(own.end);
        }
        marks.scan(code_at, detour, end..section.end);
    }
    let others = jumps_of_parts(&functions, &jumping, leaving);
    for ReplacedInstructions { address, entry, begins } in covered {
        let own = jumping.get(&entries[entry]).into_iter();
        let mut jumps = own.chain(others.get(&entries[entry]).into_iter().flatten().copied());
        let behind = || (1..JUMP as u64).filter(|inside| begins >> inside & 1 == 1).map(|at| address + at);
        let mut may_reach = |jumps: &IndirectJumps| {
            jumps.unknown && begins != 0
                || behind().any(|to| {
                    let there = frame(to);
                    jumps
                        .indirect
                        .iter()
                        .any(|from| there.is_none() || frame(*from).is_none_or(|from| Some(from) == there))
                })
        };
        if jumps.any(&mut may_reach) || (1..JUMP as u64).any(|inside| marks.is_hit(address + inside)) {
            found[entry] = None;
        }
    }
    found
}

/// Returns the indirect jumps of split-off parts by the first byte of their function: such jumps can lead into the
/// function. A part belongs to a function that jumps to it (`leaving`), or whose name it has.
fn jumps_of_parts<'a>(
    functions: &[&BinaryFunction],
    jumping: &'a HashMap<u64, IndirectJumps>,
    mut leaving: Vec<(u64, u64)>,
) -> HashMap<u64, Vec<&'a IndirectJumps>> {
    let mut cold: HashMap<&str, Vec<u64>> = HashMap::new();
    for part in functions.iter().filter(|function| jumping.contains_key(&function.address)) {
        if let Some((name, _)) = part.name.split_once(".cold") {
            cold.entry(name).or_default().push(part.address);
        }
    }
    for function in functions {
        let parts = cold.get(function.name.as_str()).into_iter().flatten();
        leaving.extend(parts.map(|part| (function.address, *part)));
    }
    let mut found: HashMap<u64, Vec<&IndirectJumps>> = HashMap::new();
    for (function, target) in leaving {
        let behind = functions.partition_point(|function| function.address <= target);
        let Some(part) = behind.checked_sub(1).map(|index| functions[index].address) else { continue };
        if let Some(jumps) = jumping.get(&part) {
            found.entry(function).or_default().push(jumps);
        }
    }
    found
}

/// True if the processor can check return addresses against a shadow stack, and the kernel lets programs enable it.
fn has_shadow_stacks() -> bool {
    static FOUND: LazyLock<bool> = LazyLock::new(|| {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        flags.split_whitespace().any(|flag| flag == "user_shstk")
    });
    *FOUND
}

fn slice<'a>(code_at: CodeAt<'a, '_>, range: &Range<u64>) -> &'a [u8] {
    let code = code_at(range.start).unwrap_or_default();
    let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    &code[..length.min(code.len())]
}

/// A bit for each byte of code, which is set if a branch leads to the byte.
struct Marks {
    start: u64,
    bits: Vec<u64>,
    hits: HashSet<u64>,
}

impl Marks {
    /// Marks the bytes of each place after the first.
    fn new(covered: &[ReplacedInstructions]) -> Self {
        let start = covered.iter().map(|covered| covered.address).min().unwrap_or(0);
        let end = covered.iter().map(|covered| covered.address + JUMP as u64).max().unwrap_or(0);
        let mut marks =
            Self { start, bits: vec![0; ((end - start) / 64 + 1) as usize], hits: HashSet::new() };
        for ReplacedInstructions { address, .. } in covered {
            for inside in 1..JUMP as u64 {
                let bit = address + inside - start;
                marks.bits[(bit / 64) as usize] |= 1 << (bit % 64);
            }
        }
        marks
    }

    /// Records the target of a branch.
    fn hit(&mut self, target: u64) {
        let bit = target.wrapping_sub(self.start);
        if self.bits.get((bit / 64) as usize).is_some_and(|bits| bits >> (bit % 64) & 1 == 1) {
            self.hits.insert(target);
        }
    }

    fn is_hit(&self, address: u64) -> bool {
        self.hits.contains(&address)
    }

    /// Records the targets of all bytes that may be a branch, in code outside of functions.
    fn scan(&mut self, code_at: CodeAt<'_, '_>, detour: &Detour, range: Range<u64>) {
        let code = slice(code_at, &range);
        for (at, address) in (0..code.len()).zip(range.start..) {
            (detour.any_branch)(&code[at..], address, &mut |target, _| self.hit(target));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_core::binary::CodeSection;
    use sediment_core::isa::X86_64;

    fn plan_all(
        code: &[u8],
        frame: FrameAt<'_, u64>,
        entries: &[u64],
        binary: &Binary,
    ) -> Vec<Option<JumpPlace>> {
        let code_at = |address: u64| code.get(address as usize..);
        plan(&code_at, frame, entries, binary, (&X86_64.detour.unwrap(), X86_64.landing_pad))
    }

    /// Plans jumps for functions of these bytes, 16 bytes apart, without unwind tables.
    fn planned(functions: &[(&str, &[u8])]) -> Vec<bool> {
        planned_with(functions, &mut |_| None)
    }

    fn planned_with(functions: &[(&str, &[u8])], frame: FrameAt<'_, u64>) -> Vec<bool> {
        let mut code = vec![0xcc; 16 * functions.len()];
        let mut binary = Binary::default();
        for (index, (name, bytes)) in functions.iter().enumerate() {
            let address = 16 * index;
            code[address..address + bytes.len()].copy_from_slice(bytes);
            binary.functions.push(BinaryFunction {
                name: (*name).to_owned(),
                address: address as u64,
                size: bytes.len() as u64,
                section: ".text".to_owned(),
                file: None,
                local: false,
                ifunc: false,
                untyped: false,
            });
        }
        binary.code_sections =
            vec![CodeSection { name: ".text".to_owned(), address: 0, size: code.len() as u64 }];
        let entries: Vec<u64> = binary.functions.iter().map(|function| function.address).collect();
        plan_all(&code, frame, &entries, &binary).iter().map(Option::is_some).collect()
    }

    const PUSHES: &[u8] = &[0x55, 0x53, 0x41, 0x54, 0x41, 0x55, 0xc3];

    #[test]
    fn nobody_jumps_between_the_instructions_that_give_way() {
        assert_eq!(planned(&[("f", PUSHES)]), [true]);
        // push; push; dec; jne to the second push
        assert_eq!(planned(&[("f", &[0x55, 0x53, 0xff, 0xc8, 0x75, 0xfb, 0xc3])]), [false], "a loop");
        assert_eq!(
            planned(&[("f", PUSHES), ("g", &[0xe9, 0xf0 - 4, 0xff, 0xff, 0xff])]),
            [false, true],
            "another function"
        );
        assert_eq!(
            planned(&[("f", PUSHES), ("g", &[0xeb, 0xee, 0x90, 0x90, 0x90])]),
            [true, true],
            "to the beginning"
        );
        // push; push; sub; jmp *%rax: it may lead anywhere.
        let table: &[u8] = &[0x55, 0x53, 0x48, 0x83, 0xec, 8, 0xff, 0xe0];
        assert_eq!(planned(&[("f", table)]), [false]);
        assert_eq!(planned(&[("f", PUSHES), ("f.cold", table)]), [false, false], "from a part of it");
        assert_eq!(planned(&[("f", PUSHES), ("g", table)]), [true, false]);
        // lea is one instruction: no jump leads into it.
        assert_eq!(planned(&[("f", &[0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xff, 0xe0])]), [true]);
    }

    #[test]
    fn a_switch_leads_to_where_the_stack_is_as_deep() {
        // push; push; sub; jmp *%rax
        let table: &[u8] = &[0x55, 0x53, 0x48, 0x83, 0xec, 8, 0xff, 0xe0];
        let depths = |at_jump| {
            move |address: u64| match address % 16 {
                6 => Some(at_jump),
                inside => Some(8 + 8 * inside.min(2)),
            }
        };
        assert_eq!(planned_with(&[("f", table)], &mut depths(32)), [true]);
        assert_eq!(planned_with(&[("f", table)], &mut depths(16)), [false], "behind the first push");
        assert_eq!(
            planned_with(&[("f", table)], &mut |address| (address == 6).then_some(32)),
            [false],
            "unknown"
        );
        // push; push; jmp to the second function, which has no symbol as a part of it
        let leaves: &[u8] = &[0x55, 0x53, 0x90, 0x90, 0x90, 0xeb, 0x09, 0x90];
        let part: &[u8] = &[0x90, 0x5b, 0x53, 0x90, 0x90, 0x90, 0xff, 0xe0];
        let both = [("f", leaves), ("0x10", part)];
        assert_eq!(planned_with(&both, &mut depths(32)), [true, true]);
        assert!(!planned_with(&both, &mut depths(16))[0]);
        let calls: &[u8] = &[0x55, 0x53, 0x90, 0xe8, 0x08, 0, 0, 0];
        assert!(planned_with(&[("f", calls), ("g", part)], &mut depths(16))[0]);
    }

    #[test]
    fn code_that_cannot_be_decoded_may_jump() {
        // 0x06 is not an instruction; after it is a possible jmp to the second byte of f.
        assert_eq!(planned(&[("f", PUSHES), ("g", &[0x06, 0xeb, 0xee, 0x90, 0x90])]), [false, false]);
    }

    #[test]
    fn a_jump_covers_no_other_function() {
        let mut code = vec![0xcc; 32];
        code[..7].copy_from_slice(PUSHES);
        let function = |name: &str, address| BinaryFunction {
            name: name.to_owned(),
            address,
            size: 7 - address,
            section: ".text".to_owned(),
            file: None,
            local: false,
            ifunc: false,
            untyped: false,
        };
        let mut binary = Binary { functions: vec![function("f", 0), function("g", 2)], ..Binary::default() };
        binary.code_sections = vec![CodeSection { name: ".text".to_owned(), address: 0, size: 32 }];
        let found = plan_all(&code, &mut |_| None, &[0, 2], &binary);
        assert_eq!(found[0], None);
        assert_eq!(found[1], Some(JumpPlace { inside: 0, length: 5, ends: true, plain: true }));
    }
}
