// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the entries of a branch stack as printed by `brstack`, `brstackoff` and `brstacksym`: newest first,
//! `FROM/TO/P/X/A/CYCLES[/TYPE[/…]]`, each followed by a blank.
//!
//! FROM and TO are addresses (`0x1234`) or `symbol+0xoffset`, each followed by `(object)` if the field was requested.
//! Symbols and objects may contain blanks and slashes, so an entry is found by its flags: its prediction (`M`, `P`,
//! `-`), whether it is in a transaction (`X`, `-`), and whether the transaction was aborted (`A`, `-`).

use super::frames::{ChainFrame, cut, frame, hex, object_start};
use crate::read::TransferKind;
use sediment_core::skipped::NoCall;

/// Longest text of the two ends of an entry in bytes; names of templates take a few thousand.
const LONGEST: usize = 1 << 14;
/// Number of slashes that are tried between two ends, and of parentheses before them: time must be proportional to the
/// text.
const SLASHES: usize = 64;
const PARENTHESES: usize = 16;

/// One end of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BranchEnd<'a> {
    Address {
        address: u64,
        object: Option<&'a [u8]>,
    },
    Symbol {
        name: &'a [u8],
        offset: u64,
        object: Option<&'a [u8]>,
    },
    /// perf found no symbol.
    Unknown,
    /// Printed without a separator after the previous text.
    Blurred,
}

/// Kind of a branch, from the processor or the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BranchKind {
    /// A call, or a possible call.
    Passage(TransferKind),
    /// Not a call.
    Other(NoCall),
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PrintedBranch<'a> {
    pub(super) from: BranchEnd<'a>,
    pub(super) to: BranchEnd<'a>,
    pub(super) kind: BranchKind,
}

/// Text after the fields of a sample: the sampled address, and its branches, newest first.
pub(super) struct Rest<'a> {
    pub(super) place: Option<ChainFrame<'a>>,
    entries: &'a [u8],
    /// True if nothing separates the first entry from the sampled address.
    blurred: bool,
}

impl<'a> Rest<'a> {
    pub(super) fn of(rest: &'a [u8]) -> Self {
        let text = rest.trim_ascii();
        if text.is_empty() {
            return Self { place: None, entries: &[], blurred: false };
        }
        // The most common form: an address, then entries of addresses.
        let address = text.iter().position(|b| *b == b' ').unwrap_or(text.len());
        if text.starts_with(b"0x") {
            return Self { place: None, entries: text, blurred: false };
        }
        if text[address..].starts_with(b" 0x") && hex(&text[..address]).is_some() {
            let place = frame(&text[..address]);
            return Self { place, entries: &text[address + 1..], blurred: false };
        }
        let Some(first) = find_flags(text) else {
            return Self { place: frame(text), entries: &[], blurred: false };
        };
        Self::with_names(text, first)
    }

    /// The sampled location ends somewhere before the first entry of names, usually without a blank in between.
    fn with_names(text: &'a [u8], flags: usize) -> Self {
        let ends = &text[..flags];
        let split = |at: usize, blurred| {
            let place = frame(&text[..at]);
            Self { place, entries: text[at..].trim_ascii_start(), blurred: blurred || place.is_none() }
        };
        // An address of the branch stack after a symbol or an object.
        if let Some(at) = memchr::memmem::find(ends, b" 0x") {
            return split(at, false);
        }
        // The object of the location, followed by the branch's source.
        if let Some(open) = object_start(ends) {
            for next in memchr::memchr_iter(b')', &ends[open..]).take(PARENTHESES) {
                let close = open + next + 1;
                let source = ends[close..].trim_ascii_start();
                if !source.is_empty() && two_ends(source).is_some() {
                    return split(close, false);
                }
            }
        }
        // Without a symbol the location has the width of an address: perf aligns it to the right.
        let digits = ends.iter().position(|b| !b.is_ascii_hexdigit()).unwrap_or(ends.len());
        if digits < ends.len() && ends[digits] == b' ' {
            // `401149 leafmain+0xa`
            return Self { place: None, entries: text, blurred: true };
        }
        if ends[..digits].is_empty() || digits < 8 {
            return Self { place: None, entries: text, blurred: two_ends(ends).is_none() };
        }
        Self { place: None, entries: text, blurred: true }
    }

    /// Returns the entries, newest first; `None` for one that cannot be read.
    pub(super) fn branches(&self) -> PrintedBranchStack<'a> {
        PrintedBranchStack { text: self.entries, blurred: self.blurred }
    }
}

pub(super) struct PrintedBranchStack<'a> {
    text: &'a [u8],
    blurred: bool,
}

impl<'a> Iterator for PrintedBranchStack<'a> {
    type Item = Option<PrintedBranch<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.text = self.text.trim_ascii_start();
        if self.text.is_empty() {
            return None;
        }
        if let Some((branch, rest)) = plain(self.text) {
            self.text = rest;
            return Some(Some(branch));
        }
        let Some(at) = find_flags(self.text) else {
            self.text = &[];
            return Some(None);
        };
        let (ends, tail) = (&self.text[..at], &self.text[at + 1..]);
        let (kind, rest) = kind_and_rest(tail)?;
        self.text = rest;
        let blurred = std::mem::take(&mut self.blurred);
        Some(two_ends(ends).map(|(from, to)| {
            let from = if blurred { BranchEnd::Blurred } else { from };
            PrintedBranch { from, to, kind }
        }))
    }
}

/// Reads `0xFROM/0xTO/` without objects, as fast as possible.
#[inline]
fn plain(text: &[u8]) -> Option<(PrintedBranch<'_>, &[u8])> {
    let (from, rest) = address(text)?;
    let (to, rest) = address(rest)?;
    let (kind, rest) = kind_and_rest(rest)?;
    let end = |address| BranchEnd::Address { address, object: None };
    Some((PrintedBranch { from: end(from), to: end(to), kind }, rest))
}

#[inline]
fn address(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.strip_prefix(b"0x")?;
    let mut number: u64 = 0;
    for (at, byte) in digits.iter().enumerate().take(17) {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'/' if at > 0 => return Some((number, &digits[at + 1..])),
            _ => return None,
        };
        number = number << 4 | u64::from(digit);
    }
    None
}

/// Finds the slash before the first flags of a text.
fn find_flags(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'/', text).find(|at| flags(&text[at + 1..]).is_some())
}

/// Returns the text after the three flags (`P/-/-/`), and true if the last one marks an abort.
#[inline]
pub(super) fn flags(text: &[u8]) -> Option<(bool, &[u8])> {
    let predicted = text.iter().position(|b| !matches!(b, b'M' | b'P' | b'N' | b'-'))?;
    if !(1..=3).contains(&predicted) {
        return None;
    }
    match text[predicted..] {
        [b'/', b'X' | b'-', b'/', abort @ (b'A' | b'-'), b'/', ref rest @ ..]
            if rest.first().is_some_and(u8::is_ascii_digit) =>
        {
            Some((abort == b'A', rest))
        }
        _ => None,
    }
}

/// Returns the kind of a branch from its flags, cycles and type, and the text after the entry.
#[inline]
fn kind_and_rest(text: &[u8]) -> Option<(BranchKind, &[u8])> {
    let (aborted, rest) = flags(text)?;
    let end = rest.iter().position(|b| *b == b' ').unwrap_or(rest.len());
    let (fields, rest) = (&rest[..end], &rest[end..]);
    if aborted {
        return Some((BranchKind::Other(NoCall::Aborted), rest));
    }
    let cycles = fields.iter().position(|b| *b == b'/').unwrap_or(fields.len());
    let kind = match fields.get(cycles + 1..) {
        None | Some([]) => BranchKind::Passage(TransferKind::Branch),
        Some(typed) => kind_of(typed.split(|b| *b == b'/').next().unwrap_or_default()),
    };
    Some((kind, rest))
}

/// perf's names for types of branches.
fn kind_of(name: &[u8]) -> BranchKind {
    match name {
        b"CALL" | b"IND_CALL" | b"COND_CALL" => BranchKind::Passage(TransferKind::Call),
        b"" | b"-" | b"N/A" | b"N" | b"UNKNOWN" => BranchKind::Passage(TransferKind::Branch),
        b"RET" | b"COND_RET" => BranchKind::Other(NoCall::Return),
        b"COND" => BranchKind::Other(NoCall::ConditionalJump),
        b"UNCOND" => BranchKind::Other(NoCall::Jump),
        b"IND" => BranchKind::Other(NoCall::IndirectJump),
        b"SYSCALL" | b"SYSRET" | b"ERET" => BranchKind::Other(NoCall::PrintedSystemCall),
        b"IRQ" | b"SERROR" => BranchKind::Other(NoCall::PrintedInterrupt),
        b"NO_TX" => BranchKind::Other(NoCall::OutsideTransaction),
        _ => BranchKind::Other(NoCall::PrintedOther),
    }
}

/// Splits `FROM/TO` at the slash after an offset, an object or `[unknown]`.
fn two_ends(text: &[u8]) -> Option<(BranchEnd<'_>, BranchEnd<'_>)> {
    memchr::memchr_iter(b'/', text)
        .filter(|at| {
            text[..*at].ends_with(b")")
                || text[..*at].last().is_some_and(|b| *b == b']' || b.is_ascii_hexdigit())
        })
        .take(if text.len() > LONGEST { 0 } else { SLASHES })
        .find_map(|at| Some((end(&text[..at])?, end(&text[at + 1..])?)))
}

fn end(text: &[u8]) -> Option<BranchEnd<'_>> {
    if text == b"[unknown]" || text.starts_with(b"[unknown](") {
        return Some(BranchEnd::Unknown);
    }
    let (place, object) = match (text.ends_with(b")"), object_start_glued(text)) {
        // A slash after a parenthesis in a path does not separate two ends.
        (true, Some(open)) if !is_balanced(&text[open..]) => return None,
        (true, Some(open)) => (&text[..open], Some(&text[open + 1..text.len() - 1])),
        _ => (text, None),
    };
    if let Some(address) = place.strip_prefix(b"0x").and_then(hex) {
        return Some(BranchEnd::Address { address, object });
    }
    let plus = memchr::memmem::rfind(place, b"+0x")?;
    let offset = hex(&place[plus + 3..])?;
    (plus > 0).then_some(BranchEnd::Symbol { name: &place[..plus], offset, object })
}

fn is_balanced(text: &[u8]) -> bool {
    let count = |byte| memchr::memchr_iter(byte, text).count();
    count(b'(') == count(b')')
}

/// Finds the start of the object of an end: the parenthesis after its offset.
fn object_start_glued(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'(', text).find(|at| {
        let place = &text[..*at];
        let digits = place.iter().rev().take_while(|b| b.is_ascii_hexdigit()).count();
        digits > 0 && place[..place.len() - digits].ends_with(b"0x")
    })
}

/// True if a text contains an entry of a branch stack.
pub(super) fn has_entry(text: &[u8]) -> bool {
    find_flags(text).is_some_and(|at| {
        let ends = &text[..at];
        let start = ends.iter().rposition(|b| *b == b' ').map_or(0, |at| at + 1);
        two_ends(&ends[start..]).is_some() || cut(ends, b"+0x").is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rest: &str) -> String {
        let rest = Rest::of(rest.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let object =
            |object: Option<&[u8]>| object.map_or(String::new(), |object| format!("@{}", text(object)));
        let end = |end: BranchEnd| match end {
            BranchEnd::Address { address, object: of } => format!("{address:x}{}", object(of)),
            BranchEnd::Symbol { name, offset, object: of } => {
                format!("{}+{offset:x}{}", text(name), object(of))
            }
            BranchEnd::Unknown => "?".to_owned(),
            BranchEnd::Blurred => "~".to_owned(),
        };
        let place = rest.place.map_or("-".to_owned(), |place| format!("{:x}", place.address));
        let branches = rest.branches().map(|branch| match branch {
            None => "unreadable".to_owned(),
            Some(branch) => {
                let kind = match branch.kind {
                    BranchKind::Passage(TransferKind::Call) => "C",
                    BranchKind::Passage(_) => "B",
                    BranchKind::Other(why) => &why.to_string(),
                };
                format!("{}>{} {kind}", end(branch.from), end(branch.to))
            }
        });
        std::iter::once(place).chain(branches).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn every_way_to_print_a_branch_stack_is_read() {
        let cases = [
            // perf 6.1
            (
                " 55515c 0x2d/0x90/P/-/-/7/  0xa4/0x59/P/-/-/7/CALL  0x1/0x2/P/-/-/7/RET ",
                "55515c, 2d>90 B, a4>59 C, 1>2 returns",
            ),
            // without types, and with more fields after them
            (" 1 0x2d/0x90/M/X/-/7 0xa4/0x59/-/-/A/0", "1, 2d>90 B, a4>59 transaction aborts"),
            (
                " 1 0x2d/0x90/P/-/-/7/COND/- 0xa4/0x59/PN/-/-/0/IND_CALL/NON_SPEC_CORRECT_PATH/AB",
                "1, 2d>90 conditional jumps, a4>59 C",
            ),
            // with objects
            (
                " 5c (/tmp/my prog) 0x2d(/tmp/my prog)/0x90([unknown])/P/-/-/7/ ",
                "5c, 2d@/tmp/my prog>90@[unknown] B",
            ),
            // names
            (
                "     55555555515cmain+0xa/hot+0x0/P/-/-/7/ hot+0x14/leaf+0x0/P/-/-/7/CALL [unknown]/main+0x4/P/-/-/7/SYSRET",
                "-, ~>hot+0 B, hot+14>leaf+0 C, ?>main+4 system calls and their returns",
            ),
            (
                " 5c leaf+0x3 (/tmp/my prog)main+0xa(/tmp/my prog)/hot+0x0(/tmp/my prog)/P/-/-/7/ ns::f<a/b> x+0x1(/x (deleted))/[unknown]([unknown])/P/-/-/7/CALL",
                "5c, main+a@/tmp/my prog>hot+0@/tmp/my prog B, ns::f<a/b> x+1@/x (deleted)>? C",
            ),
            (" 5c leafmain+0xa/hot+0x0/P/-/-/7/ a+0x1/b+0x0/P/-/-/7/", "-, ~>hot+0 B, a+1>b+0 B"),
            ("main+0xa/hot+0x0/P/-/-/7/ ", "-, main+a>hot+0 B"),
            // no entries
            ("     55555555515c", "55555555515c"),
            ("     55555555515c leaf+0x3 (/tmp/pt/my prog)", "55555555515c"),
            ("", "-"),
            (" 1 0x2d/0x90/P/-", "1, unreadable"),
        ];
        for (text, expected) in cases {
            assert_eq!(said(text), expected, "{text}");
        }
    }
}
