// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a plain list of entered functions in time order, with one name or address per line.
//!
//! ```text
//! # a comment
//! main
//! _ZN6parser4nextEv
//! libz.so.1:inflate
//! 0x401136
//! libz.so.1:0x2a40
//! ```
//!
//! Any tracer, or a person, can write it. `DSO:` gives the DSO of a function that is not in the named program; `go:`
//! and `type:` are prefixes of names made by Go's linker. An address is an address in the ELF file, as printed by `nm`.
//! A function may have as many lines as it was entered.
//!
//! Source: a format of sediment (docs/formats/entry-trace.md).

use super::input::InputLines;
use super::numbers::hexadecimal;
use super::{
    AddressId, DsoId, Input, Listener, ReadSettings, Reader, RecordedAddress, RecordedDso, Recording, Replay,
    Spot, Step,
};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, Callers},
};
use sediment_core::skipped::Reason;
use std::collections::HashMap;

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "entry-trace",
    summary: "list of entered functions, one name or address per line",
    recognises,
    read,
    replay: Some(Replay { whole: true, steps }),
};

/// Limit of the number of functions for a small file.
const MOST_FUNCTIONS: usize = 1 << 16;
/// A single word may be anything.
const FEWEST: usize = 2;
const HOW: &str = "a line is a name, an address (0x...), or one of these after DSO:, without blanks";

fn recognises(head: &[u8]) -> bool {
    is_list(head) && entries_of(head).any(is_of_program)
}

/// True if each line is a name or an address. Lists that have nothing to do with programs also match.
pub(super) fn is_list(head: &[u8]) -> bool {
    let mut count = 0;
    entries_of(head).all(|line| {
        count += 1;
        is_unmistakable(line)
    }) && count >= FEWEST
}

/// Returns the complete lines at the beginning of a file, without comments and empty lines.
fn entries_of(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = head.len() < super::HEAD;
    let mut lines: Vec<&[u8]> = head.split(|b| *b == b'\n').collect();
    if !whole {
        lines.pop();
    }
    lines.into_iter().filter_map(content)
}

/// True if an entry can only come from a program: an address, an address in a DSO, a mangled name, or a function that
/// every program has.
fn is_of_program(line: &[u8]) -> bool {
    let mangled = [&b"_Z"[..], b"_R"].iter().any(|start| line.starts_with(start) && line.len() > 4);
    let scoped = memchr::memmem::find(line, b"::").is_some();
    let address =
        |entry: TraceEntry<'_>| entry.dso.is_some() || matches!(entry.what, EntryTarget::Address(_));
    mangled || scoped || matches!(line, b"main" | b"_start") || TraceEntry::parse(line).is_some_and(address)
}

/// Returns a line without blanks; `None` for comments and empty lines.
fn content(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    (!line.is_empty() && line[0] != b'#').then_some(line)
}

/// True if a line contains only an address, or a name with the characters of linkage names.
fn is_unmistakable(line: &[u8]) -> bool {
    let Some(entry) = TraceEntry::parse(line) else { return false };
    let path = |b: u8| b.is_ascii_alphanumeric() || b"._+-/@".contains(&b);
    let name = |b: u8| b.is_ascii_alphanumeric() || b"_.$@:~".contains(&b);
    entry.dso.is_none_or(|dso| dso.bytes().all(path))
        && match entry.what {
            EntryTarget::Address(_) => true,
            EntryTarget::Name(text) => !text[0].is_ascii_digit() && text.iter().all(|b| name(*b)),
        }
}

/// Entry of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TraceEntry<'a> {
    dso: Option<&'a str>,
    what: EntryTarget<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryTarget<'a> {
    Name(&'a [u8]),
    Address(u64),
}

impl<'a> TraceEntry<'a> {
    /// Parses a line that is neither empty nor a comment. `None` for an invalid address, or if nothing follows the DSO.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let (dso, rest) = match single_colon(line) {
            Some(at) => (Some(std::str::from_utf8(&line[..at]).ok()?.trim()), line[at + 1..].trim_ascii()),
            None => (None, line),
        };
        if rest.is_empty() || dso.is_some_and(str::is_empty) {
            return None;
        }
        let what = match rest.strip_prefix(b"0x") {
            Some(digits) => EntryTarget::Address(hexadecimal(digits)?),
            None => EntryTarget::Name(rest),
        };
        Some(Self { dso, what })
    }

    fn spot(&self) -> Spot {
        match self.what {
            EntryTarget::Name(name) => Spot::Symbol { name: name.to_vec(), file: None },
            EntryTarget::Address(address) => Spot::Address(address),
        }
    }
}

/// Finds the first single colon (C++ names contain double ones), except in names made by Go's linker, such as
/// `type:.eq.main.point`.
fn single_colon(line: &[u8]) -> Option<usize> {
    const OF_GO: [&[u8]; 2] = [b"go:", b"type:"];
    if OF_GO.iter().any(|prefix| line.starts_with(prefix)) {
        return None;
    }
    let mut colons = memchr::memchr_iter(b':', line).peekable();
    while let Some(at) = colons.next() {
        if colons.next_if_eq(&(at + 1)).is_none() {
            return Some(at);
        }
    }
    None
}

/// Passes on each entry with its line number.
fn entries(
    input: &dyn Input,
    mut hand_on: impl FnMut(&[u8], TraceEntry<'_>, u64) -> Result<()>,
) -> Result<()> {
    let mut lines = InputLines::of(input);
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        let Some(line) = content(line) else { continue };
        let Some(entry) = TraceEntry::parse(line) else {
            return Err(Error::at_line(number, "neither a name nor an address")
                .with_found(line)
                .with_hint(HOW));
        };
        hand_on(line, entry, number)?;
    }
    Ok(())
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let mut recording = Recording {
        source: ProfileSource::new("entry trace", "entries", &[CallCounts, Callers]),
        ..Recording::default()
    };
    let program = settings.program_dso();
    let mut known: HashMap<Vec<u8>, AddressId> = HashMap::new();
    let mut count: u64 = 0;
    let most = MOST_FUNCTIONS + usize::try_from(input.length() / 50).unwrap_or(usize::MAX / 2);
    let mut left_out: u64 = 0;
    entries(input, |line, entry, number| {
        count += 1;
        if let Some(place) = known.get(line) {
            recording.add_samples(*place, 1);
            return Ok(());
        }
        if entry.dso.is_none() && program.is_none() && matches!(entry.what, EntryTarget::Address(_)) {
            return Err(Error::at_line(number, "an address without a program")
                .with_found(line)
                .with_hint("name the program: --binary PROGRAM; or write DSO: before the address"));
        }
        if known.len() >= most {
            left_out += 1;
            return Ok(());
        }
        let dso = dso(&entry, program.as_ref()).map(|dso| recording.dso(dso));
        let place = recording.place(RecordedAddress { dso, spot: entry.spot() });
        recording.add_samples(place, 1);
        known.insert(line.to_vec(), place);
        Ok(())
    })?;
    if count == 0 {
        return Err(Error::new(ErrorCode::EmptyRecording, "no entry in this trace").with_hint(HOW));
    }
    recording.skipped.add_many(Reason::EntryBeyondMemory, left_out, 0, "");
    recording.seen = format!("{} of {}", counted(count, "entry"), counted(known.len(), "function"));
    Ok(recording)
}

fn dso(entry: &TraceEntry<'_>, program: Option<&RecordedDso>) -> Option<RecordedDso> {
    match entry.dso {
        Some(path) => Some(RecordedDso { path: path.to_owned(), build_id: None }),
        None => program.cloned(),
    }
}

fn steps(
    input: &dyn Input,
    settings: &ReadSettings,
    recording: &Recording,
    listener: &mut dyn Listener,
) -> Result<()> {
    const THREAD: u64 = 0;
    let program = settings.program_dso();
    let mut known: HashMap<Vec<u8>, Option<AddressId>> = HashMap::new();
    let mut running = None;
    entries(input, |line, entry, _| {
        let place = match known.get(line) {
            Some(place) => *place,
            None => {
                let dso: Option<Option<DsoId>> = match dso(&entry, program.as_ref()) {
                    Some(dso) => recording.find_dso(&dso).map(Some),
                    None => Some(None),
                };
                let place =
                    dso.and_then(|dso| recording.find_address(&RecordedAddress { dso, spot: entry.spot() }));
                if place.is_some() {
                    known.insert(line.to_vec(), place);
                }
                place
            }
        };
        if place.is_some() && place != running {
            running = place;
            place.into_iter().for_each(|place| listener.step(Step::Run { thread: THREAD, place }));
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dso_is_told_from_the_names_of_namespaces() {
        let name =
            |dso, name: &'static str| Some(TraceEntry { dso, what: EntryTarget::Name(name.as_bytes()) });
        assert_eq!(TraceEntry::parse(b"ns::f"), name(None, "ns::f"));
        assert_eq!(TraceEntry::parse(b"type:.eq.main.point"), name(None, "type:.eq.main.point"));
        assert_eq!(TraceEntry::parse(b"/usr/bin/go:main.main"), name(Some("/usr/bin/go"), "main.main"));
        assert_eq!(TraceEntry::parse(b"libz.so.1:inflate"), name(Some("libz.so.1"), "inflate"));
        assert_eq!(TraceEntry::parse(b"/usr/bin/a b: ns::f(int)"), name(Some("/usr/bin/a b"), "ns::f(int)"));
        assert_eq!(
            TraceEntry::parse(b"p:0x10"),
            Some(TraceEntry { dso: Some("p"), what: EntryTarget::Address(16) })
        );
        for none in [&b"p:"[..], b":f", b"0x", b"0xg", b"0x+1", b"0x10000000000000000"] {
            assert_eq!(TraceEntry::parse(none), None, "{}", String::from_utf8_lossy(none));
        }
    }

    #[test]
    fn only_lists_of_words_are_recognised() {
        for trace in ["main\nf\n", "# how\n\n0x10\n0x20\n", "p:main\r\n_ZN1a1bEv\r\n", "ns::f\nf.part.0\n"] {
            assert!(recognises(trace.as_bytes()), "{trace}");
        }
        for other in [
            "hello",
            "hello world\nf\n",
            "# only\n# comments\n",
            "{\n}\n",
            "a,b\nc,d\n",
            "1\n2\n",
            "f 3\ng 4\n",
            "line1\nline2\n",
            "target\n.cache\nCargo.lock\n",
        ] {
            assert!(!recognises(other.as_bytes()), "{other}");
        }
    }
}
