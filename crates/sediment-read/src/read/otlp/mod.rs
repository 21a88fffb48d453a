// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads profiles of OpenTelemetry (OTLP) as its collectors receive, forward and store them: protocol buffers,
//! optionally gzipped, or JSON, which is the default of the file exporter.
//!
//! A message has profiles of several processes, each with one type of measurement, and one dictionary for all of them.
//! A host has a profile of each type for each process: all profiles of the chosen type are added up.
//!
//! The input is read twice ([`message`]): first to choose the type, then for its samples. Samples are added up by stack
//! before the stacks are resolved, because many may share a long stack. Messages do not contain their version;
//! [`layout`] distinguishes the two layouts of samples. Fields that no supported version has are errors.

mod dictionary;
mod document;
mod layout;
mod message;

use super::locations::{self, MeasurementType, MemoryBudget};
use super::protobuf::json;
use super::protobuf::stream::{self, GZIP};
use super::stacks::add_stack;
use super::{Input, ReadSettings, Reader, Recording, input};
use dictionary::Dictionary;
use document::Document;
use layout::MessageLayout;
use message::{FieldValue, MessageNode, each_number};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, TimeOrder},
};
use sediment_core::skipped::Reason;
use sediment_core::unpack::STREAMS;

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "otlp",
    summary: "profiles of OpenTelemetry (OTLP, protocol buffers or JSON)",
    recognises,
    read,
    replay: None,
};

fn recognises(head: &[u8]) -> bool {
    let unpacked;
    let head = if head.starts_with(GZIP) {
        unpacked = stream::unpacked_head(head);
        &unpacked
    } else {
        head
    };
    json::first_key(head).is_some_and(|key| message::DATA.field_named(key).is_some()) || message::begins(head)
}

/// A type and its unit.
type Type = (Vec<u8>, Vec<u8>);

fn read(input: &dyn Input, _: &ReadSettings) -> Result<Recording> {
    let mut budget = MemoryBudget::of(input.length());
    let bytes = stream::unpacked(input, STREAMS.bytes(input.length()).min(budget.0 / 4))?;
    let packed = input::head(input, GZIP.len())?.as_ref() == GZIP;
    if packed {
        budget.take(bytes.len() * 2)?;
    }
    let from_json = bytes.trim_ascii_start().starts_with(b"{");
    let document = Document { bytes: &bytes, packed, from_json };
    let encoded = if from_json { of_json(&bytes)? } else { Vec::new() };
    budget.take(encoded.iter().map(|message| message.len() * 2).sum())?;
    let messages: Vec<&[u8]> =
        if from_json { encoded.iter().map(Vec::as_slice).collect() } else { message::messages(document)? };
    let messages = || messages.iter().map(|&bytes| MessageNode { shape: &message::DATA, bytes });
    let mut counted_type: Option<Type> = None;
    for data in messages() {
        let tables = Dictionary::read(data, document, &mut MemoryBudget(budget.0))?;
        profiles(data, document, &mut |profile| {
            let (kind, samples) = outline(profile, document, &tables)?;
            if samples > 0 {
                let before = counted_type.as_ref().map(|(kind, unit)| (&kind[..], &unit[..]));
                let both: Vec<_> = before.into_iter().chain([kind]).collect();
                let (kind, unit) = both[locations::counted_type(&both, b"").unwrap_or_default()];
                counted_type = Some((kind.to_vec(), unit.to_vec()));
            }
            Ok(())
        })?;
    }
    let Some(counted_type) = counted_type else { return Err(locations::no_sample()) };
    let event = locations::event((&counted_type.0, &counted_type.1));
    let mut reading = OtlpConversion {
        document,
        counted_type,
        recording: Recording {
            source: ProfileSource::new("OTLP call stacks", &event, &[CallCounts, TimeOrder]),
            ..Recording::default()
        },
        budget,
        profiles: 0,
        samples: 0,
        sum: 0,
    };
    for data in messages() {
        reading.add(data)?;
    }
    let OtlpConversion { mut recording, profiles, samples, sum, .. } = reading;
    if recording.addresses().is_empty() {
        return Err(locations::nothing_named(
            &recording,
            "make the exporter keep mappings: they are needed to find the names of functions",
        ));
    }
    recording.seen =
        format!("{}, {}, {sum} {event}", counted(profiles, "profile"), counted(samples, "stack"));
    Ok(recording)
}

/// Converts messages in JSON to protocol buffers.
fn of_json(text: &[u8]) -> Result<Vec<Vec<u8>>> {
    json::messages(text, &message::DATA).map_err(|error| {
        let line = error.line() as u64;
        if error.is_data() {
            let unknown = Error::at_line(line, error.to_string());
            return unknown.with_code(ErrorCode::UnsupportedVariant).with_hint(document::VERSIONS);
        }
        Error::at_line(line, format!("damaged JSON: {error}")).with_hint("is the file cut off? copy it again")
    })
}

/// Calls `visit` with every profile of a message.
fn profiles<'a>(
    node: MessageNode<'a>,
    document: Document<'a>,
    visit: &mut dyn FnMut(MessageNode<'a>) -> Result<()>,
) -> Result<()> {
    node.each(document, &mut |name, item| match (name, item) {
        ("resource_profiles" | "scope_profiles", FieldValue::Message(inner)) => {
            profiles(inner, document, visit)
        }
        ("profiles", FieldValue::Message(profile)) => visit(profile),
        _ => Ok(()),
    })
}

/// Calls `visit` with every sample of a profile.
fn samples<'a>(
    profile: MessageNode<'a>,
    document: Document<'a>,
    visit: &mut dyn FnMut(MessageNode<'a>) -> Result<()>,
) -> Result<()> {
    profile.each(document, &mut |name, item| match (name, item) {
        ("samples", FieldValue::Message(sample)) => visit(sample),
        _ => Ok(()),
    })
}

/// Returns the type of a profile with its unit, and the number of its samples.
fn outline<'a, 't>(
    profile: MessageNode<'a>,
    document: Document<'a>,
    tables: &'t Dictionary,
) -> Result<(MeasurementType<'t>, u64)> {
    let (mut kind, mut unit, mut samples) = (0, 0, 0);
    profile.each(document, &mut |name, item| match (name, item) {
        ("samples", _) => {
            samples += 1;
            Ok(())
        }
        ("sample_type" | "period_type", FieldValue::Message(types)) => {
            types.each(document, &mut |field, item| {
                match (name, field, item) {
                    ("sample_type", "type_strindex", FieldValue::Number(number)) => kind = number,
                    ("sample_type", "unit_strindex", FieldValue::Number(number)) => unit = number,
                    _ => {}
                }
                Ok(())
            })
        }
        _ => Ok(()),
    })?;
    Ok(((tables.name(kind)?, tables.name(unit)?), samples))
}

/// State of the conversion to a recording.
struct OtlpConversion<'a> {
    document: Document<'a>,
    counted_type: Type,
    recording: Recording,
    budget: MemoryBudget,
    profiles: u64,
    samples: u64,
    sum: u128,
}

impl<'a> OtlpConversion<'a> {
    /// Adds the profiles of a message.
    fn add(&mut self, data: MessageNode<'a>) -> Result<()> {
        let document = self.document;
        let before = self.budget.0;
        let mut tables = Dictionary::read(data, document, &mut self.budget)?;
        let mut layout = MessageLayout::default();
        let attributes = tables.attribute_count();
        profiles(data, document, &mut |profile| {
            samples(profile, document, &mut |sample| layout.add(sample.bytes, attributes, document))
        })?;
        self.budget.take(tables.stack_count() * size_of::<u128>())?;
        // The tables of one message are freed before the next message is read.
        let of_tables = before - self.budget.0;
        let mut weights = vec![0u128; tables.stack_count()];
        profiles(data, document, &mut |profile| {
            let (kind, count) = outline(profile, document, &tables)?;
            if kind != (&self.counted_type.0[..], &self.counted_type.1[..]) {
                let event = locations::event(kind);
                self.recording.skipped.add_many(Reason::UnreadEvent, count, 0, event);
                return Ok(());
            }
            self.profiles += 1;
            samples(profile, document, &mut |sample| {
                let sample = MessageNode { shape: layout.shape(), ..sample };
                self.weigh(sample, &tables, &mut weights)
            })
        })?;
        let mut frames = Vec::new();
        let mut passages = self.recording.transfer_count();
        for (stack, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0) {
            frames.clear();
            for at in (0..tables.stack(stack as u64)?.len()).rev() {
                let location = tables.stack(stack as u64)?[at];
                frames.push(tables.frame(location, &mut self.recording, &mut self.budget)?);
            }
            add_stack(&mut self.recording, &frames, weight);
            passages = self.budget.take_passages(&self.recording, passages)?;
        }
        self.budget.0 += of_tables;
        Ok(())
    }

    /// Adds the weight of a sample to the weight of its stack.
    fn weigh(&mut self, sample: MessageNode<'a>, tables: &Dictionary, weights: &mut [u128]) -> Result<()> {
        let document = self.document;
        let (mut stack, mut sum, mut values, mut times) = (0, 0i128, 0u64, 0);
        sample.each(document, &mut |name, item| match (name, item) {
            ("stack_index", FieldValue::Number(number)) => {
                stack = number;
                Ok(())
            }
            ("timestamps_unix_nano", FieldValue::Count(count)) => {
                times += count;
                Ok(())
            }
            ("values", FieldValue::Numbers(list)) => each_number(list, document, &mut |number| {
                values += 1;
                sum += i128::from(number as i64);
                Ok(())
            }),
            ("attribute_indices", FieldValue::Numbers(list)) => each_number(list, document, &mut |_| Ok(())),
            _ => Ok(()),
        })?;
        match (values, times) {
            (0, 0) => {
                return Err(document.refused(sample.bytes, "a sample with neither values nor timestamps"));
            }
            (0, _) => sum = i128::from(times),
            (_, 0) => {}
            _ if values == times => {}
            _ => {
                let (values, times) = (counted(values, "value"), counted(times, "timestamp"));
                let what = format!("a sample with {values} and {times}");
                return Err(document.refused(sample.bytes, &what));
            }
        }
        self.samples += 1;
        let weight = sum.unsigned_abs();
        if sum <= 0 {
            let reason = if sum == 0 { Reason::ZeroSample } else { Reason::NegativeSample };
            self.recording.skipped.add(reason, weight, "");
            return Ok(());
        }
        self.sum += weight;
        if stack == 0 || tables.stack(stack)?.is_empty() {
            self.recording.skipped.add(Reason::StacklessSample, weight, "");
        } else {
            weights[stack as usize] += weight;
        }
        Ok(())
    }
}
