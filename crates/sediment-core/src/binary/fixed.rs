// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that no linker may move, because code relies on their place: those between two labels that mark a range
//! (`fast_begin`, `fast_end`), and those that run on into the next function, with that one.
//!
//! Compilers make neither of these. Assembler code does, as does C code with an empty function at each end of a range,
//! because its functions are in the order of the source. A linker without an order leaves both kinds as they are.

use crate::isa::Isa;
use std::collections::{HashMap, HashSet};

/// A symbol of code, with the bytes of its function if they are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeSymbol<'a> {
    pub(super) name: &'a str,
    /// Number of its section, or another area that ranges do not leave, and the offset in it.
    pub(super) place: (usize, u64),
    /// Bytes; 0 for labels.
    pub(super) size: u64,
    pub(super) code: &'a [u8],
}

/// Words that mark the beginning of a range, and those that mark its end.
const WORDS: [(&str, &[&str]); 2] = [("begin", &["end"]), ("start", &["end", "stop"])];
/// Bytes of the longest function that does nothing.
const LONGEST_EMPTY: u64 = 16;
/// Frames of such functions without optimisation: `push %rbp; mov %rsp, %rbp; nop; pop %rbp`.
const EMPTY_FRAME: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x90, 0x5d];

/// Finds the ranges that labels mark: the indices of the two labels in `symbols`. Each begin label is paired with the
/// next matching end label, or, if none follows, with the last one before it.
pub(super) fn ranges(symbols: &[CodeSymbol<'_>], isa: &Isa) -> Vec<(usize, usize)> {
    let markers: Vec<usize> = (0..symbols.len()).filter(|index| is_marker(&symbols[*index], isa)).collect();
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for &marker in &markers {
        by_name.entry(symbols[marker].name).or_default().push(marker);
    }
    let place = |index: &usize| symbols[*index].place;
    let mut ranges = Vec::new();
    for &begin in &markers {
        for ends in ends_of(symbols[begin].name).iter().filter_map(|end| by_name.get(end.as_str())) {
            let (after, before): (Vec<usize>, Vec<usize>) =
                ends.iter().partition(|end| place(end) >= place(&begin));
            let end = after.into_iter().min_by_key(place).or_else(|| before.into_iter().max_by_key(place));
            ranges.extend(end.map(|end| (begin, end)));
        }
    }
    ranges
}

/// Returns the places of the symbols in ranges that labels mark, including the labels.
pub(super) fn marked(symbols: &[CodeSymbol<'_>], isa: &Isa) -> HashSet<(usize, u64)> {
    let mut ranges: Vec<((usize, u64), (usize, u64))> = ranges(symbols, isa)
        .into_iter()
        .map(|(begin, end)| (symbols[begin].place, symbols[end].place))
        .filter(|(begin, end)| begin <= end)
        .collect();
    ranges.sort_unstable();
    // The latest end of all ranges that begin up to here.
    let mut reach = (0, 0);
    for (_, end) in &mut ranges {
        reach = reach.max(*end);
        *end = reach;
    }
    let inside = |place: &(usize, u64)| {
        let before = ranges.partition_point(|(begin, _)| begin <= place);
        before > 0 && *place <= ranges[before - 1].1
    };
    symbols.iter().map(|symbol| symbol.place).filter(inside).collect()
}

/// True for a label, or a function that does nothing.
fn is_marker(symbol: &CodeSymbol<'_>, isa: &Isa) -> bool {
    if symbol.size == 0 {
        return true;
    }
    if symbol.size > LONGEST_EMPTY || symbol.code.is_empty() {
        return false;
    }
    let code = symbol.code.strip_prefix(isa.landing_pad).unwrap_or(symbol.code);
    let code = code.strip_prefix(EMPTY_FRAME).unwrap_or(code);
    (isa.flow)(code) == crate::isa::Flow::Return
}

/// Possible names of the end label for this begin label; empty if the name does not mark a beginning.
fn ends_of(name: &str) -> Vec<String> {
    // Mangled names hold such words as names of methods; linkers define `__start_SECTION`, which encloses a whole section.
    if ["_Z", "_R", "__start_"].iter().any(|prefix| name.starts_with(prefix)) {
        return Vec::new();
    }
    let is_border = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
    let mut found = Vec::new();
    for (begin, ends) in WORDS {
        for (at, _) in name.match_indices(begin) {
            let (before, after) = (&name[..at], &name[at + begin.len()..]);
            let is_word = is_border(before.chars().next_back()) && is_border(after.chars().next());
            // A bare `start` or `_start` is where programs begin.
            let has_stem = name.chars().any(|c| c.is_ascii_alphanumeric()) && before.len() + after.len() > 2;
            if is_word && has_stem {
                found.extend(ends.iter().map(|end| format!("{before}{end}{after}")));
            }
        }
    }
    found
}

/// True if code runs over its end: its last instruction is not a jump, return, trap or call. False if the instruction
/// set is unknown.
pub(super) fn runs_on(code: &[u8], isa: &Isa) -> bool {
    // A body of zeros, such as in a synthetic test file, is data.
    if !(isa.begins_with_code)(code) || (isa.instruction)(code).is_none() || looks_ended(code, isa) {
        return false;
    }
    let mut at = 0;
    let mut runs_on = false;
    while at < code.len() {
        let Some(length) = (isa.instruction)(&code[at..]).filter(|length| at + length <= code.len()) else {
            // There is data between the code, about which nothing is known.
            return false;
        };
        let end = at + length;
        let is_padding =
            matches!(&code[at..end], [0x90] | [0x66, 0x90] | [0x0f, 0x1f, ..] | [0x66, 0x0f, 0x1f, ..]);
        if !is_padding {
            let call = isa.call_before.and_then(|call_before| call_before(&code[..end], end as u64));
            runs_on = call.is_none() && !(isa.ends)(&code[at..end]);
        }
        at = end;
    }
    runs_on
}

/// True if code ends with the bytes of a return, a trap, or a jump or call with a distance of four bytes. Nearly all
/// functions end like this, and need not be decoded.
fn looks_ended(code: &[u8], isa: &Isa) -> bool {
    if isa.landing_pad != crate::isa::X86_64.landing_pad {
        return code.len() >= 4 && (isa.ends)(&code[code.len() - 4..]);
    }
    matches!(code, [.., 0xc3 | 0xcc | 0xf4] | [.., 0x0f, 0x0b])
        || matches!(code, [.., 0xe8 | 0xe9, _, _, _, 0 | 0xff])
        || matches!(code, [.., 0xeb, _])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{AARCH64, X86_64};

    #[test]
    fn ranges_are_told_by_their_labels() {
        let symbol = |name, at, code: &'static [u8]| CodeSymbol {
            name,
            place: (1, at),
            size: code.len() as u64,
            code,
        };
        let places = |symbols: &[CodeSymbol<'_>]| {
            let mut places: Vec<u64> = marked(symbols, &X86_64).into_iter().map(|(_, at)| at).collect();
            places.sort_unstable();
            places
        };
        let work: &[u8] = &[0x8d, 0x04, 0x37, 0xc3];
        let empty: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa, 0xc3];
        let range = [
            symbol("before", 0, work),
            symbol("fast_begin", 8, &[]),
            symbol("add", 8, work),
            symbol("twice", 16, work),
            symbol("fast_end", 24, &[]),
            symbol("after", 24, work),
        ];
        assert_eq!(places(&range), [8, 16, 24]);
        let functions =
            [symbol("copy_start", 0, empty), symbol("copied", 8, work), symbol("copy_stop", 16, empty)];
        assert_eq!(places(&functions), [0, 8, 16]);
        // Functions that do something are not marks, nor are names of methods or symbols defined by linkers.
        let getters = [symbol("list_begin", 0, work), symbol("f", 8, work), symbol("list_end", 16, work)];
        assert!(places(&getters).is_empty());
        for (begin, end) in [("_ZN1A5beginEv", "_ZN1A3endEv"), ("_start", "_end"), ("__start_x", "__stop_x")]
        {
            let pair = [symbol(begin, 0, empty), symbol("f", 8, work), symbol(end, 16, empty)];
            assert!(places(&pair).is_empty(), "{begin}");
        }
    }

    #[test]
    fn code_that_runs_on_is_told_by_its_last_instruction() {
        let cases: &[(&str, &[u8], bool)] = &[
            ("add $1, %edi", &[0x83, 0xc7, 1], true),
            ("add $1, %edi; nop", &[0x83, 0xc7, 1, 0x90], true),
            ("je to the next function", &[0x74, 0], true),
            ("ret", &[0x83, 0xc7, 1, 0xc3], false),
            ("jmp *%rax", &[0xff, 0xe0], false),
            ("call abort; nop", &[0xe8, 0, 0, 0, 0x10, 0x90], false),
            ("call *%rax", &[0xff, 0xd0], false),
            ("ud2", &[0x0f, 0x0b], false),
            ("data", &[0x06, 0x06], false),
            ("zeros", &[0, 0, 0, 0], false),
            ("nothing", &[], false),
        ];
        for (name, code, expected) in cases {
            assert_eq!(runs_on(code, &X86_64), *expected, "{name}");
        }
        let arm = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
        assert!(runs_on(&arm(&[0x1100_0400]), &AARCH64), "add w0, w0, #1");
        assert!(!runs_on(&arm(&[0x1100_0400, 0xd65f_03c0]), &AARCH64), "ret");
        assert!(!runs_on(&arm(&[0x1100_0400, 0x9400_0010]), &AARCH64), "bl");
    }
}
