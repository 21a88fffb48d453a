// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the function for a printed name, which may be demangled, have an offset, describe a clone, or be cut at the
//! width of a column.
//!
//! Tools print `B::run(int)`, `B::run`, `B::run(int) [clone .isra.0]`, `core::fmt::write::h0123456789abcdef`,
//! `main+0x1f`, `std::vector<int, std::allo...`. Names are compared without blanks. A function is found if it is the
//! only one that matches; all names of one address count as one function. In another build, a function may be another
//! clone, or not a clone at all. If nothing else matches, clones are compared by the function that they were made from.

use crate::binary::{BinaryFunction, names};
use crate::demangle;
use std::collections::HashMap;

/// Smallest length of a cut name in bytes.
const SHORTEST_CUT: usize = 12;

/// Functions of a file by the names that tools print.
#[derive(Debug)]
pub struct PrintedNames {
    /// Address of each function.
    addresses: Vec<u64>,
    /// Function by printed form without blanks; `None` if several match.
    forms: HashMap<String, Option<usize>>,
    /// All forms, sorted, for cut names.
    sorted: Vec<(String, usize)>,
    plain: HashMap<String, usize>,
    /// Function by the printed form, or the name, of a clone's original; `None` if several match.
    stems: HashMap<String, Option<usize>>,
}

impl PrintedNames {
    /// Demangles every function.
    #[must_use]
    pub fn of(functions: &[BinaryFunction]) -> Self {
        let mut forms: HashMap<String, Option<usize>> = HashMap::new();
        let mut sorted = Vec::new();
        let mut plain = HashMap::new();
        let mut stems = HashMap::new();
        for (index, function) in functions.iter().enumerate() {
            let add = |table: &mut HashMap<String, Option<usize>>, form: &str| {
                let known = table.entry(form.to_owned()).or_insert(Some(index));
                if known.is_some_and(|other| functions[other].address != function.address) {
                    *known = None;
                }
            };
            plain.entry(function.name.clone()).or_insert(index);
            // The cold part is not the function.
            let is_whole = names::split_from(&function.name).is_none();
            if is_whole {
                add(&mut stems, names::stem(&function.name));
            }
            for form in demangle::forms(&function.name) {
                let form = squeezed(&form);
                add(&mut forms, &form);
                if is_whole {
                    add(&mut stems, without_clone(&form));
                }
                sorted.push((form, index));
            }
            sorted.push((function.name.clone(), index));
        }
        sorted.sort();
        let addresses = functions.iter().map(|function| function.address).collect();
        Self { addresses, forms, sorted, plain, stems }
    }

    /// Returns the index of the only function that this name may denote; `None` if there are none or several.
    #[must_use]
    pub fn find(&self, printed: &str) -> Option<usize> {
        let printed = printed.trim();
        let plain = without_offset(printed).unwrap_or(printed);
        self.whole(printed)
            .or_else(|| self.whole(plain))
            .or_else(|| self.clone_of_same(plain))
            .or_else(|| self.cut(printed))
    }

    fn whole(&self, printed: &str) -> Option<usize> {
        if let Some(index) = self.plain.get(printed) {
            return Some(*index);
        }
        let form = squeezed(printed);
        let found = |form: &str| self.forms.get(form).copied().flatten();
        found(&form).or_else(|| found(without_hash(&form)?))
    }

    /// Returns the only function that is this one, a clone of it, or the original of it.
    fn clone_of_same(&self, printed: &str) -> Option<usize> {
        let form = squeezed(printed);
        if names::split_from(printed).is_some() || form.contains("[.cold") {
            return None;
        }
        let form = without_clone(&form);
        let form = without_hash(form).unwrap_or(form);
        self.stems.get(names::stem(form)).copied().flatten()
    }

    /// Returns the only function whose name begins with this name, if this name is visibly cut.
    fn cut(&self, printed: &str) -> Option<usize> {
        let marked = printed.strip_suffix('…').or_else(|| printed.strip_suffix(".."));
        let begin = squeezed(marked.map_or(printed, |rest| rest.trim_end_matches('.')));
        let is_cut = marked.is_some() || is_unbalanced(printed) || printed.starts_with("_Z");
        if !is_cut || begin.len() < SHORTEST_CUT {
            return None;
        }
        let from = self.sorted.partition_point(|(form, _)| form.as_str() < begin.as_str());
        let mut fitting = self.sorted[from..].iter().take_while(|(form, _)| form.starts_with(&begin));
        let (_, first) = fitting.next()?;
        let address = self.addresses[*first];
        fitting.all(|(_, other)| self.addresses[*other] == address).then_some(*first)
    }
}

/// True for a name that no symbol has, but that a tool may print.
#[must_use]
pub fn is_printed(name: &str) -> bool {
    name.starts_with("_Z")
        || name.ends_with("..")
        || name.bytes().any(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$')))
}

/// Returns a name without blanks, and with one spelling where demanglers differ.
fn squeezed(name: &str) -> String {
    let mut text: String = name.chars().filter(|c| !c.is_whitespace()).collect();
    for (other, own) in
        [("[clone", "["), ("{anonymous}", "(anonymousnamespace)"), ("<unnamed>", "(anonymousnamespace)")]
    {
        if text.contains(other) {
            text = text.replace(other, own);
        }
    }
    // GNU's demangler writes each suffix separately.
    text.replace("][.", ".")
}

/// Removes `[.isra.0]` from the end.
fn without_clone(form: &str) -> &str {
    form.find("[.").map_or(form, |at| &form[..at])
}

/// Removes Rust's hash, which differs between builds.
fn without_hash(form: &str) -> Option<&str> {
    let (path, hash) = form.rsplit_once("::h")?;
    (hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(path)
}

/// Removes `+0x1f` or `+31` from the end.
fn without_offset(name: &str) -> Option<&str> {
    let (stem, offset) = name.rsplit_once('+')?;
    let digits = offset.strip_prefix("0x").unwrap_or(offset);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_number && !stem.is_empty()).then_some(stem)
}

/// True if a bracket is open at the end.
fn is_unbalanced(name: &str) -> bool {
    // Operators contain brackets of their own.
    let of = |open: char, close: char| name.matches(open).count() > name.matches(close).count();
    !name.contains("operator") && (of('(', ')') || of('<', '>') || of('[', ']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, address: u64) -> BinaryFunction {
        BinaryFunction { name: name.to_owned(), address, size: 16, ..BinaryFunction::default() }
    }

    #[test]
    fn a_printed_name_means_the_only_function_that_fits() {
        let functions = [
            function("_ZN1B3runEi", 1),
            function("_ZN1B4stopEi", 2),
            function("_ZN1B4stopEv", 3),
            function("_ZN12_GLOBAL__N_14onceEv", 4),
            function("_Z4workPKc.isra.0", 5),
            function("_ZN4main5alpha17h0123456789abcdefE", 6),
            function("main", 7),
            function("_ZNSt6vectorIiSaIiEE9push_backERKi", 8),
            function("_ZN1B3runEi.cold", 9),
            function("_ZN1CC1Ev", 10),
            function("_ZN1CC2Ev", 10),
            function("_Z3addIiET_S0_S0_", 11),
            function("copy", 12),
            function("twice.part.0", 13),
            function("twice.part.1", 14),
        ];
        let names = PrintedNames::of(&functions);
        let cases = [
            ("B::run(int)", Some(1)),
            ("B::run", Some(1)),
            ("B::run( int )", Some(1)),
            ("B::stop", None),
            ("B::stop()", Some(3)),
            ("(anonymous namespace)::once()", Some(4)),
            ("{anonymous}::once", Some(4)),
            ("work(char const*) [clone .isra.0]", Some(5)),
            ("main::alpha", Some(6)),
            ("main::alpha::hfedcba9876543210", Some(6)),
            ("main::alpha::h0123456789abcdef", Some(6)),
            ("main+0x1f", Some(7)),
            ("B::run(int)+31", Some(1)),
            ("std::vector<int, std::allo...", Some(8)),
            ("std::vector<int, std::allocator<int", Some(8)),
            ("B::run(int) [clone .cold]", Some(9)),
            ("C::C()", Some(10)),
            ("int add<int>(int, int)", Some(11)),
            ("add<int>", Some(11)),
            ("_ZN1B3runEi", Some(1)),
            ("_ZNSt6vectorIiSaIiEE9push_b", Some(8)),
            ("B::st...", None),
            ("B::gone(int)", None),
            ("main+0x1f", Some(7)),
            // Another build has another clone, or none.
            ("work(char const*)", Some(5)),
            ("work(char const*) [clone .constprop.3]", Some(5)),
            ("(anonymous namespace)::once() [clone .isra.0]", Some(4)),
            ("B::stop(int) [clone .part.0] [clone .isra.0]+0x8", Some(2)),
            ("copy.isra.0", Some(12)),
            ("copy [clone .constprop.1]", Some(12)),
            ("copy.constprop.0+0x10", Some(12)),
            ("twice.isra.0+0x10", None),
            ("work(char const*) [clone .cold]", None),
            ("copy.cold", None),
            ("", None),
        ];
        for (printed, expected) in cases {
            assert_eq!(names.find(printed).map(|found| functions[found].address), expected, "{printed}");
        }
    }
}
