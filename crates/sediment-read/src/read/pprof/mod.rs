// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads pprof profiles: call stacks as protocol buffers, usually gzipped, as written by Go programs and continuous
//! profilers.
//!
//! A profile is one message with samples and tables. Each sample has the ids of its stack's locations, the innermost
//! first, and one value for each type of measurement. The tables have locations, functions, mappings and strings, in
//! any order. Therefore a file is unpacked twice, once for the tables (`tables`) and once for the samples, and is never
//! in memory as a whole.
//!
//! The query APIs of Parca and Pyroscope return such a profile inside JSON (`answers`).
//!
//! Source: `proto/profile.proto` of github.com/google/pprof, and the output of Go 1.26 and gperftools 2.10
//! (docs/formats/pprof.md).

mod answers;
mod call_sites;
mod tables;

use super::locations::{self, DEEPEST, MemoryBudget};
use super::protobuf::stream::{self, Content, GZIP, Messages};
use super::protobuf::{self, DamagedMessage, Fields, WireValue};
use super::stacks::add_stack;
use super::{Input, ReadSettings, Reader, Recording, input};
pub use call_sites::call_sites;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, TimeOrder},
};
use sediment_core::skipped::{Reason, Skipped};
use tables::PprofTables;

/// Row of this reader in the table of readers.
pub const READER: Reader = Reader {
    name: "pprof",
    summary: "profiles of pprof (protocol buffers, as Go programs and continuous profilers write them)",
    recognises,
    read,
    replay: None,
};

/// Five words of eight bytes each.
const GPERFTOOLS_HEAD: usize = 40;

/// True for the start of a profile: known fields of the right kinds, and an empty first string.
fn recognises(head: &[u8]) -> bool {
    if is_gperftools(head) || answers::begins(head) {
        return true;
    }
    if head.starts_with(GZIP) { begins_profile(&stream::unpacked_head(head)) } else { begins_profile(head) }
}

/// True for a profile in gperftools' own format: words of 4 or 8 bytes in either byte order, with 0, 3, 0, the period
/// in microseconds, 0.
fn is_gperftools(head: &[u8]) -> bool {
    let word = |size: usize, at: usize, swap: bool| {
        let bytes = head.get(at * size..(at + 1) * size)?;
        let digit = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if swap { bytes.iter().fold(0, digit) } else { bytes.iter().rev().fold(0, digit) })
    };
    [(4, false), (4, true), (8, false), (8, true)].into_iter().any(|(size, swap)| {
        [(0, 0), (1, 3), (2, 0), (4, 0)].into_iter().all(|(at, value)| word(size, at, swap) == Some(value))
            && word(size, 3, swap).is_some_and(|period| period > 0)
    })
}

fn begins_profile(head: &[u8]) -> bool {
    // For each kind of row that contains only numbers: the range of its field numbers.
    const ROWS: [std::ops::Range<u32>; 6] = [0..0, 1..3, 0..0, 1..11, 1..6, 1..6];
    let (mut told, mut strings) = (false, false);
    for field in Fields(head) {
        // The end of the head may cut off a field.
        let Ok((number, value)) = field else { return told };
        match (number, value) {
            (number @ (1 | 3..=5), WireValue::Bytes(row)) => {
                let known = |field: &std::result::Result<(u32, WireValue<'_>), DamagedMessage>| match field {
                    Ok((4, WireValue::Bytes(_))) => number == 4,
                    Ok((field, WireValue::Varint(_))) => {
                        ROWS[number as usize].contains(field) && !(number == 4 && *field == 4)
                    }
                    _ => false,
                };
                if !Fields(row).all(|field| known(&field)) {
                    return false;
                }
                told |= !row.is_empty();
            }
            (2, WireValue::Bytes(row)) => {
                let known = |field: std::result::Result<(u32, WireValue<'_>), DamagedMessage>| {
                    matches!(
                        field,
                        Ok((1 | 2, WireValue::Bytes(_) | WireValue::Varint(_))
                            | (3 | 4, WireValue::Bytes(_)))
                    )
                };
                if !Fields(row).all(known) {
                    return false;
                }
                told |= !row.is_empty();
            }
            (6, WireValue::Bytes(text)) => {
                if !strings && !text.is_empty() {
                    return false;
                }
                strings = true;
            }
            (11 | 13 | 16, WireValue::Bytes(_)) | (7..=10 | 12..=15, WireValue::Varint(_)) => {}
            _ => return false,
        }
    }
    told
}

fn read(input: &dyn Input, _: &ReadSettings) -> Result<Recording> {
    let head = input::head(input, super::HEAD)?;
    if answers::begins(&head) {
        return read_profile(&answers::profile(&input::whole(input)?)?);
    }
    read_profile(input)
}

fn read_profile(input: &dyn Input) -> Result<Recording> {
    if is_gperftools(&input::head(input, GPERFTOOLS_HEAD)?) {
        return Err(Error::new(ErrorCode::UnsupportedVariant,"a profile of gperftools in its own format").with_hint(
            "convert it with the program: go tool pprof -proto -output cpu.pb.gz PROGRAM cpu.prof. Without Go: google-pprof --collapsed PROGRAM cpu.prof | sed 's/<[0-9a-f]*>//g' > stacks.folded; then import that",
        ));
    }
    let mut budget = MemoryBudget::of(input.length());
    let longest = budget.0;
    let mut tables = PprofTables::read(&mut Messages::of(input, longest)?, &mut budget, false)?;
    let (counted, what) = counted_value(&tables)?;
    let mut recording = Recording::default();
    let mut skipped = Skipped::default();
    let (mut frames, mut sum, mut passages) = (Vec::new(), 0u128, 0);
    let values = SampleValues { number: tables.types.len(), counted };
    let samples = each_sample(input, longest, values, &mut skipped, &mut |locations, weight| {
        sum += weight;
        if locations.is_empty() {
            recording.skipped.add(Reason::StacklessSample, weight, "");
            return Ok(());
        }
        frames.clear();
        for id in locations.iter().rev() {
            frames.push(tables.frame(*id, &mut recording, &mut budget)?);
        }
        add_stack(&mut recording, &frames, weight);
        passages = budget.take_passages(&recording, passages)?;
        Ok(())
    })?;
    recording.skipped.append(&skipped);
    if recording.addresses().is_empty() {
        return Err(locations::nothing_named(
            &recording,
            "make the profiler write mappings, or add names on the machine that has the program: go tool pprof -proto -output named.pb.gz PROGRAM PROFILE",
        ));
    }
    recording.origin.began = Some(u128::from(tables.began)).filter(|began| *began > 0);
    recording.source = ProfileSource::new("pprof call stacks", &what, &[CallCounts, TimeOrder]);
    recording.seen = format!("{}, {sum} {what}", sediment_core::plural::counted(samples, "stack"));
    Ok(recording)
}

/// Number of values of each sample, and the index of the value to count.
#[derive(Debug, Clone, Copy)]
struct SampleValues {
    number: usize,
    counted: usize,
}

/// Calls `visit` with the locations of each sample, the innermost first, and its weight. Returns the number of samples.
fn each_sample(
    input: &dyn Input,
    longest: u64,
    values: SampleValues,
    skipped: &mut Skipped,
    visit: &mut dyn FnMut(&[u64], u128) -> Result<()>,
) -> Result<u64> {
    let mut messages = Messages::of(input, longest)?;
    let (mut sample, mut samples) = (PprofSample::default(), 0);
    while let Some((number, content)) = messages.next()? {
        if (number, content) != (2, Content::Bytes) {
            continue;
        }
        sample.read(&messages.buffer).map_err(|DamagedMessage| messages.damage("a damaged sample"))?;
        samples += 1;
        if sample.locations.len() > DEEPEST {
            return Err(messages.damage(&format!("a call stack of more than {DEEPEST} frames")));
        }
        if sample.values.len() != values.number {
            let (has, should) = (sample.values.len(), values.number);
            return Err(
                messages.damage(&format!("a sample with {has} values in a profile of {should} types"))
            );
        }
        let value = sample.values[values.counted] as i64;
        let weight = u128::from(value.unsigned_abs());
        if value > 0 {
            visit(&sample.locations, weight)?;
        } else {
            let reason = if value == 0 { Reason::ZeroSample } else { Reason::NegativeSample };
            skipped.add(reason, weight, "");
        }
    }
    if samples == 0 { Err(locations::no_sample()) } else { Ok(samples) }
}

/// Returns the index of the samples' value to count, and its event.
fn counted_value(tables: &PprofTables) -> Result<(usize, String)> {
    let mut names = Vec::with_capacity(tables.types.len());
    for value in &tables.types {
        names.push((tables.string(value.kind)?, tables.string(value.unit)?));
    }
    let Some(counted) = locations::counted_type(&names, tables.string(tables.default_type)?) else {
        return Err(Error::new(ErrorCode::Damaged, "the profile has no sample type")
            .with_hint("is the file cut off? copy it again"));
    };
    Ok((counted, locations::event(names[counted])))
}

/// One sample, whose memory is reused for the next.
#[derive(Default)]
struct PprofSample {
    /// Ids of the locations, the innermost first.
    locations: Vec<u64>,
    values: Vec<u64>,
}

impl PprofSample {
    fn read(&mut self, bytes: &[u8]) -> std::result::Result<(), DamagedMessage> {
        self.locations.clear();
        self.values.clear();
        for field in Fields(bytes) {
            let (list, value) = match field? {
                (1, value) => (&mut self.locations, value),
                (2, value) => (&mut self.values, value),
                _ => continue,
            };
            protobuf::repeated(value, |number| {
                if list.len() <= DEEPEST {
                    list.push(number);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
