// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads LLVM's sample profiles as text, which AutoFDO and llvm-profgen make from branch records for
//! `-fprofile-sample-use`.
//!
//! A function begins with `NAME:TOTAL:HEAD`. Its source locations follow, indented by one blank and relative to its
//! first line: `OFFSET: COUNT`, then `CALLEE:COUNT` for each function that was called there; or `OFFSET: NAME:TOTAL`,
//! the body of a function that was inlined there, whose own lines are indented by one more blank. Lines with `!` are
//! metadata of the function. A context-sensitive profile (CS) has the call path in brackets,
//! `[main:3 @ f:1 @ g]:TOTAL:HEAD`; if bit 0 of `!Attributes` is set, the last function of the path was inlined into
//! the one before it.
//!
//! Only functions with code of their own are ordered. Therefore an inlined body is not a call, and calls in it count
//! for the function that contains it. Two passes are needed, because the metadata of inlined contexts follows their
//! lines.
//!
//! Source: LLVM's documentation of the format (llvm/ProfileData/SampleProfReader.h), and the behaviour of llvm-profdata
//! 19 (docs/formats/sample-profile.md).

use super::numbers::decimal;
use super::{
    AddressId, DsoId, Input, ReadSettings, Reader, RecordedAddress, Recording, Spot, TransferKind, input,
};
use memchr::memmem;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{SharedLibraries, TimeOrder},
};
use sediment_core::skipped::{Amount, Nowhere, Reason};
use std::collections::{HashMap, HashSet};

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "sample-profile",
    summary: "sample profiles of LLVM and AutoFDO as text",
    recognises,
    read,
    replay: None,
};

const CUT_OFF: &str =
    "is the file cut off? copy it again, or write it again: llvm-profdata merge --sample --text";
const AS_TEXT: &str = "write it as text: llvm-profdata merge --sample --text PROFILE -o profile.txt";
/// `SPROF42` in LEB128, after the two bytes that state its encoding.
const BINARY: [u8; 6] = [0xd0, 0xb1, 0xf4, 0xc9, 0x94, 0xa8];
/// Magic number of AutoFDO's files for GCC.
const GCOV: &[u8] = b"adcg*704";
const BETWEEN_FRAMES: &[u8] = b" @ ";

fn recognises(head: &[u8]) -> bool {
    const LINES: usize = 32;
    if is_binary(head) {
        return true;
    }
    // The last line may be cut off.
    let whole = head.iter().rposition(|b| *b == b'\n').map_or(head, |end| &head[..end]);
    let rows: Vec<Option<SampleProfileRow<'_>>> =
        lines(whole).take(LINES).map(|(_, line)| row(line)).collect();
    let is_function = |row: &SampleProfileRow<'_>| matches!(row, SampleProfileRow::Function { .. });
    // A name, a line and a column look like a function without a body.
    let is_unmistakable = |row: &Option<SampleProfileRow<'_>>| matches!(row, Some(SampleProfileRow::Function { called, total, head }) if head <= total && is_symbol(called));
    // If one of the first lines is damaged, the reader reports it.
    rows.first().is_some_and(|first| first.as_ref().is_some_and(is_function))
        && (rows.iter().flatten().any(|row| !is_function(row)) || rows.iter().all(is_unmistakable))
        && 2 * rows.iter().flatten().count() >= rows.len()
}

/// True if a name cannot be a path or a time of day.
fn is_symbol(name: &[u8]) -> bool {
    !name[0].is_ascii_digit() && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'))
}

fn is_binary(head: &[u8]) -> bool {
    head.get(2..8).is_some_and(|bytes| bytes == BINARY) || head.starts_with(GCOV)
}

/// Returns the non-empty lines with their numbers.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let lines = (1..).zip(bytes.split(|b| *b == b'\n'));
    lines
        .map(|(number, line)| (number, line.trim_ascii_end()))
        .filter(|(_, line)| line.trim_ascii_start().first().is_some_and(|first| *first != b'#'))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleProfileRow<'a> {
    /// `called`: a name, or the frames of a context, outermost first.
    Function { called: &'a [u8], total: u64, head: u64 },
    /// A source location with its callees: names with counts, separated by blanks.
    RecordedAddress { callees: &'a [u8] },
    /// The beginning of an inlined body.
    Inlined,
    /// Attributes of a function or an inlined body; `inlined` is true for the body of a separate inlined context.
    Attributes { inlined: bool },
    /// Other data of a function.
    Further,
}

fn row(line: &[u8]) -> Option<SampleProfileRow<'_>> {
    let body = line.trim_ascii_start();
    let depth = line.len() - body.len();
    if depth == 0 {
        let (rest, head) = count_behind_colon(line)?;
        let (called, total) = count_behind_colon(rest)?;
        let (total, head) = (decimal(total)?, decimal(head)?);
        // Names that are not linkage names may contain blanks: `f<a, b>(int)`.
        let called = match called.strip_prefix(b"[") {
            Some(context) => context.strip_suffix(b"]")?,
            None => called,
        };
        return (!called.is_empty()).then_some(SampleProfileRow::Function { called, total, head });
    }
    if let Some(further) = body.strip_prefix(b"!") {
        let Some(bits) = further.strip_prefix(b"Attributes:") else { return Some(SampleProfileRow::Further) };
        let bits = decimal(bits.trim_ascii())?;
        return Some(if depth == 1 {
            SampleProfileRow::Attributes { inlined: bits & 1 != 0 }
        } else {
            SampleProfileRow::Further
        });
    }
    let (offset, rest) = body.split_at(memchr::memchr(b':', body)?);
    let mut numbers = offset.split(|b| *b == b'.');
    decimal(numbers.next()?)?;
    if let Some(discriminator) = numbers.next() {
        decimal(discriminator)?;
    }
    if numbers.next().is_some() {
        return None;
    }
    let rest = rest[1..].trim_ascii_start();
    let first = rest.split(|b| *b == b' ').next()?;
    if first == b"vtables:" {
        return Some(SampleProfileRow::Further);
    }
    if decimal(first).is_some() {
        return callees(&rest[first.len()..])
            .all(|callee| callee.is_some())
            .then_some(SampleProfileRow::RecordedAddress { callees: &rest[first.len()..] });
    }
    let (name, total) = count_behind_colon(rest)?;
    decimal(total)?;
    (!name.is_empty()).then_some(SampleProfileRow::Inlined)
}

/// Parses callees and their counts; `None` for an invalid word.
fn callees(text: &[u8]) -> impl Iterator<Item = Option<(&[u8], u64)>> {
    let words = text.split(|b| *b == b' ').filter(|word| !word.is_empty());
    words.map(|word| {
        let (name, count) = count_behind_colon(word)?;
        (!name.is_empty()).then_some((name, decimal(count)?))
    })
}

/// Splits a text at the last colon, because names may contain colons too.
fn count_behind_colon(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(b':', text)?;
    Some((&text[..at], &text[at + 1..]))
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let bytes = &*input::whole(input)?;
    if is_binary(bytes) {
        return Err(
            Error::new(ErrorCode::UnsupportedVariant, "a sample profile in binary form").with_hint(AS_TEXT)
        );
    }
    let owners = owners(bytes);
    let mut recording = Recording::default();
    let program = settings.program_dso().map(|program| recording.dso(program));
    let mut names = ProgramNames { program, by_name: HashMap::new() };
    let mut caller = None;
    let (mut functions, mut contexts) = (0u64, false);
    for (number, line) in lines(bytes) {
        let Some(row) = row(line) else {
            return Err(Error::at_line(number, "not a function, a line of a function, or an inlined body")
                .with_found(line)
                .with_hint(CUT_OFF));
        };
        match row {
            SampleProfileRow::Function { called, total, .. } => {
                functions += 1;
                contexts |= memmem::find(called, BETWEEN_FRAMES).is_some();
                let owner = owners.get(called).copied().unwrap_or(called);
                let name = last_frame(owner);
                let place = names.place(name, &mut recording);
                match place {
                    Some(place) => recording.add_samples(place, total.into()),
                    None => recording.skipped.add(Nowhere::Hashed.of(Amount::OwnCost), total.into(), name),
                }
                caller = Some(place);
            }
            _ if caller.is_none() => {
                return Err(Error::at_line(number, "a line of a function before any function")
                    .with_found(line)
                    .with_hint(CUT_OFF));
            }
            SampleProfileRow::RecordedAddress { callees: text } => {
                for (name, count) in callees(text).flatten() {
                    let count = u128::from(count);
                    let callee = names.place(name, &mut recording);
                    recording.total = recording.total.saturating_add(count);
                    match caller.flatten().zip(callee) {
                        Some((from, to)) => recording.add_transfer(from, to, TransferKind::Call, count),
                        None => recording.skipped.add(Reason::HashedEnd, count, name),
                    }
                }
            }
            SampleProfileRow::Inlined | SampleProfileRow::Attributes { .. } | SampleProfileRow::Further => {}
        }
    }
    if functions == 0 {
        return Err(Error::new(ErrorCode::EmptyRecording, "no function in this profile").with_hint(CUT_OFF));
    }
    if recording.addresses().is_empty() {
        return Err(Error::new(ErrorCode::Unresolved, "all functions are hashes instead of names")
            .with_hint("write the profile again without --use-md5"));
    }
    recording.source = ProfileSource::new("LLVM sample profile", "", &[TimeOrder, SharedLibraries]);
    recording.seen =
        format!("{}{}", counted(functions, "function"), if contexts { " by context" } else { "" });
    Ok(recording)
}

/// Maps every inlined context to the context whose function has its code.
fn owners(bytes: &[u8]) -> HashMap<&[u8], &[u8]> {
    let mut inlined: HashSet<&[u8]> = HashSet::new();
    let mut current: &[u8] = b"";
    for (_, line) in lines(bytes) {
        match row(line) {
            Some(SampleProfileRow::Function { called, .. }) => current = called,
            Some(SampleProfileRow::Attributes { inlined: true }) if caller_of(current).is_some() => {
                inlined.insert(current);
            }
            _ => {}
        }
    }
    // A caller's context is shorter than the contexts of its callees.
    let mut contexts: Vec<&[u8]> = inlined.into_iter().collect();
    contexts.sort_unstable_by_key(|context| context.len());
    let mut owners: HashMap<&[u8], &[u8]> = HashMap::new();
    for context in contexts {
        let Some(caller) = caller_of(context) else { continue };
        let owner = owners.get(caller).copied().unwrap_or(caller);
        owners.insert(context, owner);
    }
    owners
}

/// Returns the context without its last frame, and without the location in the frame before it.
fn caller_of(context: &[u8]) -> Option<&[u8]> {
    let frames = &context[..memmem::rfind(context, BETWEEN_FRAMES)?];
    count_behind_colon(frames).map(|(frames, _)| frames)
}

fn last_frame(context: &[u8]) -> &[u8] {
    memmem::rfind(context, BETWEEN_FRAMES).map_or(context, |at| &context[at + BETWEEN_FRAMES.len()..])
}

struct ProgramNames<'a> {
    program: Option<DsoId>,
    by_name: HashMap<&'a [u8], Option<AddressId>>,
}

impl<'a> ProgramNames<'a> {
    /// Returns the address of a function; `None` for a hash.
    fn place(&mut self, name: &'a [u8], recording: &mut Recording) -> Option<AddressId> {
        let dso = self.program;
        *self.by_name.entry(name).or_insert_with(|| {
            let hash = name.iter().all(u8::is_ascii_digit);
            let spot = Spot::Symbol { name: name.to_vec(), file: None };
            (!hash).then(|| recording.place(RecordedAddress { dso, spot }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let place = |callees| Some(SampleProfileRow::RecordedAddress { callees });
        let rows: &[(&str, Option<SampleProfileRow<'_>>)] = &[
            ("main:10:1", Some(SampleProfileRow::Function { called: b"main", total: 10, head: 1 })),
            ("_ZN1a::b:10:1", Some(SampleProfileRow::Function { called: b"_ZN1a::b", total: 10, head: 1 })),
            (
                "[main:3 @ f]:10:1",
                Some(SampleProfileRow::Function { called: b"main:3 @ f", total: 10, head: 1 }),
            ),
            ("two words:10:1", Some(SampleProfileRow::Function { called: b"two words", total: 10, head: 1 })),
            (" 1:10", place(b"")),
            (" 1:f:10", Some(SampleProfileRow::Inlined)),
            ("main:10", None),
            ("main:10:x", None),
            (":1:1", None),
            (" 1: 10", place(b"")),
            (" 1.2: 10 f:3 g::h:4", place(b" f:3 g::h:4")),
            ("   65535: 10", place(b"")),
            (" 1: 10 f", None),
            (" 1: f:10", Some(SampleProfileRow::Inlined)),
            (" 1: 123:10", Some(SampleProfileRow::Inlined)),
            (" 1: f", None),
            (" 1.2.3: 4", None),
            (" x: 4", None),
            (" !CFGChecksum: 12", Some(SampleProfileRow::Further)),
            (" !Attributes: 3", Some(SampleProfileRow::Attributes { inlined: true })),
            (" !Attributes: 2", Some(SampleProfileRow::Attributes { inlined: false })),
            ("  !Attributes: 1", Some(SampleProfileRow::Further)),
        ];
        for (line, expected) in rows {
            assert_eq!(row(line.as_bytes()), *expected, "{line}");
        }
    }

    #[test]
    fn a_context_is_shortened_by_a_frame() {
        assert_eq!(caller_of(b"main:3 @ f:1.2 @ g"), Some(&b"main:3 @ f"[..]));
        assert_eq!(caller_of(b"main:3 @ f"), Some(&b"main"[..]));
        assert_eq!(caller_of(b"main"), None);
        assert_eq!(last_frame(b"main:3 @ f"), b"f");
    }
}
