// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads branch records aggregated by address, as read by `perf2bolt -pa`: the format in which tools other than perf
//! pass data to BOLT.
//!
//! A line is a letter, addresses and counts: `B FROM TO COUNT MISPREDICTED` is a branch, `T FROM TO END COUNT` a branch
//! and the code executed after it, `R` the same if the branch is a return, `F`, `f` and `r` (`START END COUNT`) code
//! executed without a branch, `S AT COUNT` a sample, `E NAME` the event of the samples after it. An address is
//! `[BUILD-ID:]ADDRESS`, a hexadecimal address in the program's file; the build-id `X` denotes another program.
//!
//! Source: BOLT's documentation of perf2bolt, of LLVM 19 and later (docs/formats/bolt-aggregated.md).

use super::input::InputLines;
use super::locations::word_of_source;
use super::numbers::{decimal, hexadecimal};
use super::{
    AddressId, DsoId, Input, ReadSettings, Reader, RecordedAddress, RecordedDso, Recording, Spot,
    TransferKind,
};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{Callers, OwnCost, TimeOrder},
};
use sediment_core::skipped::{NoCall, Reason};

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "bolt-aggregated",
    summary: "branch records aggregated by address, for perf2bolt -pa",
    recognises,
    read,
    replay: None,
};

/// Header of the form that newer perf2bolt writes for itself: output of perf script, several times.
const PERF_TEXT: &[u8] = b"PERFTEXT;";
const LONGEST_BUILD_ID: usize = 128;

fn recognises(head: &[u8]) -> bool {
    const LINES: usize = 16;
    if head.starts_with(PERF_TEXT) {
        return true;
    }
    let whole = head.iter().rposition(|b| *b == b'\n').map_or(head, |end| &head[..end]);
    let lines = whole.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let rows: Vec<Option<AggregatedRow<'_>>> =
        lines.filter(|line| !line.is_empty()).take(LINES).map(row).collect();
    // A line with an event alone is not enough; if one of the first lines is damaged, the reader reports it.
    let told = rows.iter().flatten().any(|row| !matches!(row, AggregatedRow::Event(_)));
    told && rows[0].is_some() && 2 * rows.iter().flatten().count() >= rows.len()
}

/// An address in the file's notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BuildIdAddress<'a> {
    build_id: Option<&'a [u8]>,
    address: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AggregatedRow<'a> {
    Event(&'a [u8]),
    Sample { at: BuildIdAddress<'a>, count: u64 },
    Branch { from: BuildIdAddress<'a>, to: BuildIdAddress<'a>, count: u64, is_return: bool },
    Range { start: BuildIdAddress<'a>, count: u64 },
}

fn row(line: &[u8]) -> Option<AggregatedRow<'_>> {
    let mut words = line.split(|b| *b == b' ').filter(|word| !word.is_empty());
    let mut word = || words.next();
    let row = match word()? {
        b"E" => AggregatedRow::Event(word()?),
        b"S" => AggregatedRow::Sample { at: location(word()?)?, count: decimal(word()?)? },
        kind @ (b"B" | b"T" | b"R") => {
            let (from, to) = (location(word()?)?, location(word()?)?);
            let third = word()?;
            let last = decimal(word()?)?;
            let count = if kind == b"B" {
                decimal(third)?
            } else {
                location(third)?;
                last
            };
            AggregatedRow::Branch { from, to, count, is_return: kind == b"R" }
        }
        b"F" | b"f" | b"r" => {
            let start = location(word()?)?;
            location(word()?)?;
            AggregatedRow::Range { start, count: decimal(word()?)? }
        }
        _ => return None,
    };
    word().is_none().then_some(row)
}

fn location(word: &[u8]) -> Option<BuildIdAddress<'_>> {
    let (build_id, digits) = match word.iter().position(|b| *b == b':') {
        None => (None, word),
        Some(at) => (Some(&word[..at]), &word[at + 1..]),
    };
    let is_id = |id: &[u8]| {
        id == b"X" || !id.is_empty() && id.len() <= LONGEST_BUILD_ID && id.iter().all(u8::is_ascii_hexdigit)
    };
    build_id.is_none_or(is_id).then_some(BuildIdAddress { build_id, address: hexadecimal(digits)? })
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    if super::input::head(input, PERF_TEXT.len())?.starts_with(PERF_TEXT) {
        return Err(Error::new(ErrorCode::UnsupportedVariant, "perf2bolt's own copy of perf script output")
            .with_hint(
                "import its perf.data, or write it as fdata: perf2bolt -p FILE -o profile.fdata PROGRAM",
            ));
    }
    let mut recording = Recording::default();
    let mut reading = AggregatedConversion {
        program: settings.program_dso().map(|program| recording.dso(program)),
        event: None,
        first_event: None,
    };
    let mut lines = InputLines::of(input);
    let (mut branches, mut samples, mut ranges) = (0u64, 0u64, 0u64);
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        let Some(row) = row(line) else {
            let found = line.to_vec();
            return Err(Error::at_line(
                lines.number(),
                "not a branch (B, T, R), a range (F, f, r), a sample (S) or an event (E)",
            )
            .with_found(&found)
            .with_hint("is the file cut off? copy it again"));
        };
        match row {
            AggregatedRow::Branch { .. } => branches += 1,
            AggregatedRow::Sample { .. } => samples += 1,
            AggregatedRow::Range { .. } => ranges += 1,
            AggregatedRow::Event(_) => {}
        }
        reading.row(row, &mut recording);
    }
    if branches + samples + ranges == 0 {
        return Err(Error::new(ErrorCode::EmptyRecording, "no branch and no sample")
            .with_hint("did the program run while the tool recorded?"));
    }
    let event = reading.first_event.unwrap_or_default();
    recording.source = match (branches, samples) {
        (0, _) => ProfileSource::new("BOLT samples by address", &event, &[Callers, TimeOrder]),
        (_, 0) => ProfileSource::new("BOLT branches by address", &event, &[TimeOrder, OwnCost]),
        _ => ProfileSource::new("BOLT branches by address", &event, &[TimeOrder]),
    };
    recording.seen = format!("{}, {}", counted(branches, "branch"), counted(samples, "sampled address"));
    Ok(recording)
}

struct AggregatedConversion {
    program: Option<DsoId>,
    event: Option<String>,
    first_event: Option<String>,
}

impl AggregatedConversion {
    fn row(&mut self, row: AggregatedRow<'_>, recording: &mut Recording) {
        match row {
            AggregatedRow::Event(name) => {
                let name = word_of_source(name).trim_end_matches(':').to_owned();
                self.first_event.get_or_insert_with(|| name.clone());
                self.event = Some(name);
            }
            AggregatedRow::Sample { count, .. } if self.event != self.first_event => {
                recording.skipped.add(Reason::LaterEvent, count.into(), "");
            }
            AggregatedRow::Sample { at, count } => match self.place(at, recording) {
                Some(place) => recording.add_samples(place, count.into()),
                None => recording.skipped.add(Reason::UnknownProgramSample, count.into(), ""),
            },
            AggregatedRow::Range { start, count } => {
                let why = if self.place(start, recording).is_some() {
                    Reason::BranchlessRange
                } else {
                    Reason::UnknownProgramRange
                };
                recording.skipped.add(why, count.into(), "");
            }
            AggregatedRow::Branch { from, to, count, is_return } => {
                let (from, to) = (self.place(from, recording), self.place(to, recording));
                if is_return {
                    recording.skipped.add(Reason::NoCall(NoCall::Return), count.into(), "");
                    return;
                }
                recording.total = recording.total.saturating_add(count.into());
                match from.zip(to) {
                    Some((from, to)) => recording.add_transfer(from, to, TransferKind::Branch, count.into()),
                    None => recording.skipped.add(Reason::UnknownProgramEnd, count.into(), ""),
                }
            }
        }
    }

    /// Adds the address; `None` in an unknown program.
    fn place(&self, location: BuildIdAddress<'_>, recording: &mut Recording) -> Option<AddressId> {
        let dso = match location.build_id {
            None => self.program,
            Some(b"X") => return None,
            Some(id) => {
                let build_id = String::from_utf8_lossy(id).to_ascii_lowercase();
                Some(recording.dso(RecordedDso { path: build_id.clone(), build_id: Some(build_id) }))
            }
        };
        Some(recording.place(RecordedAddress { dso, spot: Spot::Address(location.address) }))
    }
}
