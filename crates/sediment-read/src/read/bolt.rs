// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads fdata, the profile of BOLT, as written by perf2bolt and by programs instrumented with `llvm-bolt -instrument`.
//!
//! A line is a branch and its count: `TYPE SYMBOL OFFSET TYPE SYMBOL OFFSET MISPREDICTED COUNT`, offsets in hexadecimal
//! from the symbol. Type 1 is a symbol and type 0 an address outside the program, called `[unknown]`. If the first line
//! is `no_lbr EVENT`, the other lines are samples, `TYPE SYMBOL OFFSET COUNT`. Lines of type 3 to 5 are about memory.
//! In names, blanks and backslashes are escaped by a backslash. Local functions are called `name/file/NUMBER` or
//! `name/NUMBER`.
//!
//! A branch from one function to the first byte of another is a call or a tail call; both count as calls. A branch
//! within a function is not a call. A branch into the middle of another function is a return.
//!
//! Source: BOLT's documentation, and the output of perf2bolt and llvm-bolt 19 (docs/formats/bolt.md).

use super::input::InputLines;
use super::numbers::{decimal, hexadecimal};
use super::{AddressId, DsoId, Input, ReadSettings, Reader, RecordedAddress, Recording, Spot, TransferKind};
use sediment_core::binary::names::split_from;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{Callers, OwnCost, SharedLibraries, TimeOrder},
};
use sediment_core::skipped::{NoCall, Reason};
use std::collections::HashMap;

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "bolt",
    summary: "BOLT profiles in fdata form (perf2bolt, llvm-bolt -instrument)",
    recognises,
    read,
    replay: None,
};

const CUT_OFF: &str = "is the file cut off? copy it again, or write it again with perf2bolt";
const BOLTED: &[u8] = b"boltedcollection";
const NO_BRANCHES: &[u8] = b"no_lbr";
const YAML: &[u8] = b"---\nheader:\n  profile-version:";

fn recognises(head: &[u8]) -> bool {
    const LINES: usize = 8;
    if head.starts_with(YAML) {
        return true;
    }
    // The last line may be cut off, unless it is the only one.
    let whole = head.iter().rposition(|b| *b == b'\n').map_or(head, |end| &head[..end]);
    let mut lines =
        whole.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).peekable();
    let mut samples = false;
    while let Some(line) = lines.next_if(|line| is_header(line)) {
        samples |= line.starts_with(NO_BRANCHES);
        if lines.peek().is_none() {
            return true;
        }
    }
    let rows: Vec<bool> =
        lines.filter(|line| !line.is_empty()).take(LINES).map(|line| row(line, samples).is_some()).collect();
    // If one of the first lines is damaged, the reader reports it.
    rows.first() == Some(&true) && 2 * rows.iter().filter(|fits| **fits).count() >= rows.len()
}

fn is_header(line: &[u8]) -> bool {
    line == BOLTED || line.strip_prefix(NO_BRANCHES).is_some_and(|rest| rest.is_empty() || rest[0] == b' ')
}

/// One end of a branch, or the address of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SymbolLocation<'a> {
    /// Name with its escapes; `None` outside the program.
    symbol: Option<&'a [u8]>,
    offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FdataRow<'a> {
    Branch { from: SymbolLocation<'a>, to: SymbolLocation<'a>, count: u64 },
    Sample { at: SymbolLocation<'a>, count: u64 },
    Memory { count: u64 },
}

fn row(line: &[u8], samples: bool) -> Option<FdataRow<'_>> {
    let mut words = EscapedWords(line);
    let first = words.next()?;
    let memory = matches!(first, b"3" | b"4" | b"5");
    let from = location(first, &mut words, if memory { 3 } else { 0 })?;
    let row = if memory {
        let kind = words.next()?;
        location(kind, &mut words, 3)?;
        FdataRow::Memory { count: decimal(words.next()?)? }
    } else if samples {
        FdataRow::Sample { at: from, count: decimal(words.next()?)? }
    } else {
        let kind = words.next()?;
        let to = location(kind, &mut words, 0)?;
        decimal(words.next()?)?;
        FdataRow::Branch { from, to, count: decimal(words.next()?)? }
    };
    words.next().is_none().then_some(row)
}

/// Reads `SYMBOL OFFSET` after its type; type 0 is the first of three types.
fn location<'a>(kind: &[u8], words: &mut EscapedWords<'a>, first: u8) -> Option<SymbolLocation<'a>> {
    let &[digit] = kind else { return None };
    let kind = digit.checked_sub(b'0' + first).filter(|kind| *kind < 3)?;
    let name = words.next()?;
    let offset = hexadecimal(words.next()?)?;
    let known = kind != 0 && name != b"[unknown]";
    Some(SymbolLocation { symbol: known.then_some(name), offset })
}

/// Words between blanks; a backslash makes the next character a part of the word.
struct EscapedWords<'a>(&'a [u8]);

impl<'a> Iterator for EscapedWords<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|b| *b != b' ')?;
        let text = &self.0[start..];
        let mut end = 0;
        while end < text.len() && text[end] != b' ' {
            end += if text[end] == b'\\' { 2 } else { 1 };
        }
        let (word, rest) = text.split_at(end.min(text.len()));
        self.0 = rest;
        Some(word)
    }
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    if super::input::head(input, YAML.len())?.starts_with(YAML) {
        return Err(Error::new(
            ErrorCode::UnsupportedVariant,
            "a YAML profile of BOLT, which has no callers",
        )
        .with_hint(
            "write it as fdata: perf2bolt --profile-format=fdata -p perf.data -o profile.fdata PROGRAM",
        ));
    }
    let mut recording = Recording::default();
    let mut reading = FdataConversion {
        program: settings.program_dso().map(|program| recording.dso(program)),
        ..FdataConversion::default()
    };
    let mut lines = InputLines::of(input);
    let (mut events, mut rows, mut began) = (None, 0u64, false);
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        if !began && is_header(line) {
            if let Some(named) = line.strip_prefix(NO_BRANCHES) {
                events = Some(event_names(named));
            }
            continue;
        }
        began = true;
        let Some(row) = row(line, events.is_some()) else {
            let what = if events.is_some() {
                "not a sample line: type, symbol, offset, count"
            } else {
                "not a branch line: type, symbol and offset of both ends, mispredictions, count"
            };
            let found = line.to_vec();
            return Err(Error::at_line(lines.number(), what).with_found(&found).with_hint(CUT_OFF));
        };
        rows += 1;
        reading.row(row, &mut recording);
    }
    if rows == 0 {
        return Err(Error::new(ErrorCode::EmptyRecording, "no profile line").with_hint(
            "perf2bolt writes such a file if no sample is in the program; did perf record this program?",
        ));
    }
    if recording.addresses().is_empty() {
        return Err(
            Error::new(ErrorCode::Unresolved, "no line names a function of the program").with_hint(CUT_OFF)
        );
    }
    match events {
        Some(events) => {
            recording.source =
                ProfileSource::new("BOLT samples", &events, &[Callers, TimeOrder, SharedLibraries]);
            recording.seen = counted(rows, "sampled address");
        }
        None => {
            recording.source =
                ProfileSource::new("BOLT branches", "", &[TimeOrder, OwnCost, SharedLibraries]);
            recording.seen = counted(rows, "branch");
        }
    }
    Ok(recording)
}

/// Returns event names like ` cycles:u: cache-misses:` as words of the source, which are separated by commas.
fn event_names(named: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(&named[..named.len().min(LONGEST)]).into_owned();
    let names =
        text.split_ascii_whitespace().map(|name| name.trim_end_matches(':')).filter(|name| !name.is_empty());
    let joined = names.collect::<Vec<_>>().join(" and ");
    let joined =
        joined.replace(|c: char| !c.is_ascii_graphic() && c != ' ' || matches!(c, ',' | '"' | '\\'), "_");
    if joined.is_empty() { "unnamed event".to_owned() } else { joined }
}

#[derive(Debug, Default)]
struct FdataConversion {
    program: Option<DsoId>,
    name: Vec<u8>,
    /// First number of each function with a numbered name.
    numbers: HashMap<AddressId, u64>,
}

impl FdataConversion {
    fn row(&mut self, row: FdataRow<'_>, recording: &mut Recording) {
        match row {
            FdataRow::Memory { count } => recording.skipped.add(Reason::MemoryAccess, count.into(), ""),
            FdataRow::Sample { at: SymbolLocation { symbol: Some(name), .. }, count } => {
                let place = self.place(name, recording);
                recording.add_samples(place, count.into());
            }
            FdataRow::Sample { count, .. } => {
                recording.skipped.add(Reason::BoltSampleOutside, count.into(), "")
            }
            FdataRow::Branch { from, to, count } => self.branch(from, to, count.into(), recording),
        }
    }

    fn branch(
        &mut self,
        from: SymbolLocation<'_>,
        to: SymbolLocation<'_>,
        count: u128,
        recording: &mut Recording,
    ) {
        let caller = from.symbol.map(|name| self.place(name, recording));
        let callee = to.symbol.map(|name| self.place(name, recording));
        let no_call = if from.symbol.is_some() && from.symbol == to.symbol {
            Some(if to.offset == 0 { Reason::BoltToItself } else { Reason::NoCall(NoCall::Inside) })
        } else if to.offset != 0 {
            Some(Reason::NoCall(NoCall::IntoTheMiddle))
        } else if from.symbol.zip(to.symbol).is_some_and(|(from, to)| parts_of_one(from, to)) {
            Some(Reason::NoCall(NoCall::ColdPart))
        } else {
            None
        };
        if let Some(why) = no_call {
            recording.skipped.add(why, count, "");
            return;
        }
        recording.total = recording.total.saturating_add(count);
        match caller.zip(callee) {
            Some((caller, callee)) => recording.add_transfer(caller, callee, TransferKind::Call, count),
            None => {
                let known = from.symbol.or(to.symbol).unwrap_or_default();
                recording.skipped.add(Reason::BoltOutside, count, known);
            }
        }
    }

    /// Adds the function of this name, as written in the file.
    fn place(&mut self, escaped: &[u8], recording: &mut Recording) -> AddressId {
        unescape(escaped, &mut self.name);
        let (name, file, number) = local(&self.name);
        // BOLT adds this suffix to stubs of the linkage table.
        let name = match name.strip_suffix(b"@PLT") {
            Some(stem) => [stem, b"@plt"].concat(),
            None => name.to_vec(),
        };
        let numbered = number.filter(|_| file.is_none());
        let spot = Spot::Symbol { name, file: file.map(<[u8]>::to_vec) };
        let place = recording.place(RecordedAddress { dso: self.program, spot });
        if let Some(number) = numbered {
            if *self.numbers.entry(place).or_insert(number) != number
                && recording.skipped.items(Reason::NumberedName) == 0
            {
                recording.skipped.add(Reason::NumberedName, 0, &self.name);
            }
        }
        place
    }
}

fn unescape(escaped: &[u8], name: &mut Vec<u8>) {
    name.clear();
    let mut after_backslash = false;
    for byte in escaped {
        if *byte == b'\\' && !after_backslash {
            after_backslash = true;
            continue;
        }
        after_backslash = false;
        name.push(*byte);
    }
}

/// Splits `name/file/NUMBER` and `name/NUMBER` into name, file and number; all other names denote global functions. A
/// file may be a path, but a name contains no slash.
fn local(name: &[u8]) -> (&[u8], Option<&[u8]>, Option<u64>) {
    let global = (name, None, None);
    let Some(last) = name.iter().rposition(|b| *b == b'/') else { return global };
    let Some(first) = name.iter().position(|b| *b == b'/').filter(|first| *first > 0) else { return global };
    let digits = &name[last + 1..];
    let Some(number) = decimal(digits) else { return global };
    let file = name.get(first + 1..last).filter(|file| !file.is_empty());
    (&name[..first], file, Some(number))
}

/// True if one is the split-off part of the other.
fn parts_of_one(a: &[u8], b: &[u8]) -> bool {
    let text = |name| std::str::from_utf8(local(name).0).ok();
    let (Some(a), Some(b)) = (text(a), text(b)) else { return false };
    split_from(a) == Some(b)
        || split_from(b) == Some(a)
        || (split_from(a).is_some() && split_from(a) == split_from(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_names_are_taken_apart() {
        let rows: &[(&str, &str, Option<&str>, Option<u64>)] = &[
            ("main", "main", None, None),
            ("leaf/1", "leaf", None, Some(1)),
            ("leaf/file.c/2", "leaf", Some("file.c"), Some(2)),
            ("leaf/src/file.c/2", "leaf", Some("src/file.c"), Some(2)),
            ("operator/", "operator/", None, None),
            ("operator/=", "operator/=", None, None),
            ("/1", "/1", None, None),
            ("a/b", "a/b", None, None),
            ("f/x.c/18446744073709551616", "f/x.c/18446744073709551616", None, None),
        ];
        for (name, function, file, number) in rows {
            let expected = (function.as_bytes(), file.map(str::as_bytes), *number);
            assert_eq!(local(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn blanks_and_backslashes_in_names_are_no_ends_of_words() {
        let words: Vec<&[u8]> = EscapedWords(br"1 a\ b\\ 0  \").collect();
        assert_eq!(words, [&b"1"[..], br"a\ b\\", b"0", br"\"]);
        let mut name = Vec::new();
        unescape(br"a\ b\\", &mut name);
        assert_eq!(name, br"a b\");
    }
}
