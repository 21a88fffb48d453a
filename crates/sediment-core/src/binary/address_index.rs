// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`AddressIndex`]: finds the function that contains an address.
//!
//! Symbols overlap: a function has aliases, an entry point may be inside another, hand-written assembly has no sizes.
//! The rules, so that every step of the tool chain names the same function for the same byte:
//!
//! 1. The function with the nearest first byte at or before the address wins, if it reaches that far (the innermost one).
//! 2. If functions begin at the same byte, a symbol with a size before one without, a global before a local, an
//!    ordinary function before the resolver of an indirect one, fewer leading underscores before more (`malloc` before
//!    `__libc_malloc`), the shorter name before the longer, and then the name and the file in the order of their bytes.
//! 3. A symbol without a size counts only where no symbol with a size does; it extends to the next function, or to the
//!    end of its section.

use super::{Binary, BinaryFunction};

/// Maps addresses to functions; made by [`Binary::address_index`].
#[derive(Debug, Clone)]
pub struct AddressIndex<'a> {
    functions: &'a [BinaryFunction],
    /// Sorted by address: each entry maps the addresses from its own to that of the next entry to an index of
    /// `functions`, or to none.
    spans: Vec<(u64, Option<u32>)>,
}

/// A function and the address after its last byte.
#[derive(Clone, Copy)]
struct FunctionEnd {
    end: u64,
    function: u32,
}

impl<'a> AddressIndex<'a> {
    pub(super) fn new(binary: &'a Binary) -> Self {
        let functions = binary.functions.as_slice();
        let mut order: Vec<u32> = (0..functions.len() as u32).collect();
        order.sort_by(|a, b| {
            let (a, b) = (&functions[*a as usize], &functions[*b as usize]);
            a.address.cmp(&b.address).then_with(|| preference(a).cmp(&preference(b)))
        });
        let mut spans = Spans::default();
        for (position, &id) in order.iter().enumerate() {
            let function = &functions[id as usize];
            let start = function.address;
            let same_start_before = position > 0 && functions[order[position - 1] as usize].address == start;
            if same_start_before {
                continue;
            }
            spans.advance(start);
            let has_same_start = |id: &&u32| functions[**id as usize].address == start;
            let length = order[position..].iter().take_while(has_same_start).count();
            let group = &order[position..position + length];
            // The preferred function must be on top.
            for &id in group.iter().rev() {
                let size = functions[id as usize].size;
                if size > 0 {
                    spans.open.push(FunctionEnd { end: start.saturating_add(size), function: id });
                }
            }
            if spans.open.is_empty() {
                let next = order.get(position + group.len()).map(|id| functions[*id as usize].address);
                let end = section_end(binary, start).unwrap_or(u64::MAX).min(next.unwrap_or(u64::MAX));
                spans.open.push(FunctionEnd { end, function: group[0] });
            }
            spans.say(start);
        }
        spans.advance(u64::MAX);
        Self { functions, spans: spans.said }
    }

    /// Finds the function that contains this address.
    #[must_use]
    pub fn function_at(&self, address: u64) -> Option<&'a BinaryFunction> {
        let after = self.spans.partition_point(|(start, _)| *start <= address);
        let (_, function) = self.spans[..after].last()?;
        function.map(|id| &self.functions[id as usize])
    }
}

/// Stack of functions that contain the current address, the innermost on top, and the intervals emitted so far.
#[derive(Default)]
struct Spans {
    open: Vec<FunctionEnd>,
    said: Vec<(u64, Option<u32>)>,
}

impl Spans {
    /// Closes the functions that end at or before `to`.
    fn advance(&mut self, to: u64) {
        while let Some(top) = self.open.last().copied() {
            if top.end > to {
                break;
            }
            while self.open.last().is_some_and(|below| below.end <= top.end) {
                self.open.pop();
            }
            self.say(top.end);
        }
    }

    /// Emits an interval that begins at `start` and whose answer is the function on top of the stack.
    fn say(&mut self, start: u64) {
        let answer = self.open.last().map(|top| top.function);
        match self.said.last_mut() {
            Some((last, said)) if *last == start => *said = answer,
            Some((_, said)) if *said == answer => {}
            _ => self.said.push((start, answer)),
        }
    }
}

/// Ascending: the preferred function of one address first.
fn preference(function: &BinaryFunction) -> impl Ord + '_ {
    let underscores = function.name.bytes().take_while(|byte| *byte == b'_').count();
    (
        function.size == 0,
        function.local,
        function.ifunc,
        underscores,
        function.name.len(),
        function.name.as_str(),
        function.file.as_deref(),
    )
}

fn section_end(binary: &Binary, address: u64) -> Option<u64> {
    let section = binary
        .code_sections
        .iter()
        .find(|section| address.checked_sub(section.address).is_some_and(|inside| inside < section.size))?;
    section.address.checked_add(section.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::CodeSection;
    use proptest::prelude::*;

    fn function(name: &str, address: u64, size: u64, local: bool) -> BinaryFunction {
        BinaryFunction {
            name: name.to_owned(),
            address,
            size,
            section: ".text".to_owned(),
            file: None,
            local,
            ifunc: false,
            untyped: false,
        }
    }

    fn binary(functions: Vec<BinaryFunction>) -> Binary {
        let code_sections = vec![CodeSection { name: ".text".to_owned(), address: 100, size: 100 }];
        Binary { functions, code_sections, ..Binary::default() }
    }

    fn name_at(binary: &Binary, address: u64) -> Option<&str> {
        binary.address_index().function_at(address).map(|function| function.name.as_str())
    }

    #[test]
    fn nested_aliased_and_unsized_symbols_are_told_apart() {
        let b = binary(vec![
            function("outer", 100, 40, false),
            function("inner", 110, 10, true),
            function("__alias", 140, 10, false),
            function("alias", 140, 10, false),
            function("a", 140, 10, true),
            function("longer_local", 140, 20, true),
            function("assembly", 170, 0, true),
            function("label", 115, 0, false),
            function("last", 180, 0, false),
        ]);
        let expected = [
            (99, None),
            (100, Some("outer")),
            (109, Some("outer")),
            (110, Some("inner")),
            (115, Some("inner")),
            (119, Some("inner")),
            (120, Some("outer")),
            (139, Some("outer")),
            (140, Some("alias")),
            (149, Some("alias")),
            (150, Some("longer_local")),
            (159, Some("longer_local")),
            (160, None),
            (170, Some("assembly")),
            (179, Some("assembly")),
            (180, Some("last")),
            (199, Some("last")),
            (200, None),
        ];
        for (address, name) in expected {
            assert_eq!(name_at(&b, address), name, "at {address}");
        }
    }

    /// The rules at the top of this file, literally and slowly.
    fn by_the_rules(functions: &[BinaryFunction], address: u64) -> Option<String> {
        let holds = |f: &&BinaryFunction| f.size > 0 && address >= f.address && address - f.address < f.size;
        functions
            .iter()
            .filter(holds)
            .max_by(|a, b| a.address.cmp(&b.address).then_with(|| preference(b).cmp(&preference(a))))
            .map(|f| f.name.clone())
    }

    proptest! {
        #[test]
        fn agrees_with_the_rules(parts in proptest::collection::vec((100u64..160, 1u64..30, any::<bool>()), 0..20)) {
            let functions: Vec<BinaryFunction> = parts
                .iter()
                .enumerate()
                .map(|(i, (address, size, local))| function(&format!("f{i:02}"), *address, *size, *local))
                .collect();
            let b = binary(functions.clone());
            let index = b.address_index();
            for address in 95..200 {
                let found = index.function_at(address).map(|f| f.name.clone());
                prop_assert_eq!(found, by_the_rules(&functions, address));
            }
        }
    }
}
