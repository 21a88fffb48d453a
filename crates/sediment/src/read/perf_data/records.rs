// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a perf.data file: samples with their branch stacks, and what happened to address spaces.

use super::cursor::Cursor;
use super::file::{Attribute, PerfFile, branch_sample_type, build_id, sample_type};
use super::mappings::Mapping;
use crate::error::{Error, Result};

/// PERF_RECORD_*: those of the kernel below 64, those of perf itself from 64 on.
mod kind {
    pub(crate) const MMAP: u32 = 1;
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const FORK: u32 = 7;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MMAP2: u32 = 10;
    pub(crate) const LOST_SAMPLES: u32 = 13;
    pub(crate) const FIRST_OF_PERF: u32 = 64;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const COMPRESSED: u32 = 81;
    pub(crate) const COMPRESSED2: u32 = 83;
}

/// Where a record stands in the file, and what kind it says it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    /// Offset of its head, from the first record.
    start: usize,
    size: usize,
}

/// What a record says.
#[derive(Debug)]
pub(super) enum Record<'a> {
    Mapping {
        process: u32,
        mapping: Mapping<'a>,
    },
    /// The process now runs another program.
    Exec {
        process: u32,
    },
    Fork {
        parent: u32,
        child: u32,
    },
    /// The kernel dropped this many records.
    Lost(u64),
    Sample(Sample<'a>),
    Other,
}

/// A sample with branch records.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    pub(super) attribute: &'a Attribute,
    pub(super) process: u32,
    /// Address of the instruction that was sampled, where recorded.
    pub(super) address: Option<u64>,
    /// How many events it stands for.
    pub(super) period: u64,
    /// Taken in a guest of this machine, whose processes are not known.
    pub(super) guest: bool,
    pub(super) branches: Branches<'a>,
}

/// A branch stack.
#[derive(Debug)]
pub(super) struct Branches<'a>(Cursor<'a>);

/// One entry of it.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) aborted: bool,
    pub(super) kind: BranchType,
}

/// What the processor, or the kernel after it, said of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BranchType {
    Untyped,
    Call,
    /// No call, but this.
    Other(&'static str),
}

/// The head of a record: kind, flags, and what follows.
struct Head<'a> {
    kind: u32,
    misc: u16,
    body: Cursor<'a>,
}

/// The records in the order in which they happened. perf writes them processor by processor; those without a time (and all
/// records of a file without times) stay where they are relative to their neighbours of the same time.
pub(super) fn in_time_order(file: &PerfFile) -> Result<Vec<Position>> {
    let mut timed: Vec<(u64, Position)> = Vec::new();
    let mut left = file.data;
    while left.len() > 0 {
        let start = file.data.len() - left.len();
        let offset = left.offset();
        let size = head(left)?.body.len() + HEAD_SIZE as usize;
        let mut record = Cursor::new(left.bytes(size as u64, "a record")?, offset, left.big_endian());
        let position = Position { start, size };
        let Head { kind, body, .. } = head(record)?;
        match kind {
            kind::COMPRESSED | kind::COMPRESSED2 => {
                return Err(Error::at_offset(
                    offset,
                    "the records of this perf.data are compressed (perf record -z)",
                )
                .with_hint("record without -z, or unpack it: perf inject -i perf.data -o plain.data"));
            }
            kind::AUXTRACE => {
                // The trace itself follows the record and is not part of its size.
                record.bytes(HEAD_SIZE, "a record")?;
                let size = record.u64("the size of a trace")?;
                left.bytes(size, "a processor trace")?;
            }
            kind::FIRST_OF_PERF.. => {}
            _ => timed.push((time(file, kind, body)?, position)),
        }
    }
    timed.sort_by_key(|(time, _)| *time);
    Ok(timed.into_iter().map(|(_, position)| position).collect())
}

const HEAD_SIZE: u64 = 8;

fn head(mut cursor: Cursor) -> Result<Head> {
    let offset = cursor.offset();
    let kind = cursor.u32("the kind of a record")?;
    let misc = cursor.u16("the flags of a record")?;
    let size = cursor.u16("the size of a record")?;
    let Some(rest) = u64::from(size).checked_sub(HEAD_SIZE) else {
        return Err(Error::at_offset(
            offset,
            format!("a record of {size} bytes is shorter than its own head"),
        )
        .with_hint("is the file unchanged since perf wrote it?"));
    };
    let big_endian = cursor.big_endian();
    Ok(Head {
        kind,
        misc,
        body: Cursor::new(cursor.bytes(rest, "a record")?, offset + HEAD_SIZE, big_endian),
    })
}

/// When a record happened; 0 where it does not say.
fn time(file: &PerfFile, kind: u32, body: Cursor) -> Result<u64> {
    let attribute = attribute_of(file, kind, body);
    if attribute.sample_type & sample_type::TIME == 0 {
        return Ok(0);
    }
    if kind == kind::SAMPLE {
        let mut cursor = body;
        let before = [sample_type::IDENTIFIER, sample_type::IP, sample_type::TID];
        cursor.bytes(words(attribute, &before) * 8, "a sample")?;
        return cursor.u64("the time of a sample");
    }
    if !attribute.sample_id_all {
        return Ok(0);
    }
    let behind = [
        sample_type::TIME,
        sample_type::ID,
        sample_type::STREAM_ID,
        sample_type::CPU,
        sample_type::IDENTIFIER,
    ];
    Ok(word_before_end(body, words(attribute, &behind)).unwrap_or(0))
}

fn words(attribute: &Attribute, fields: &[u64]) -> u64 {
    fields.iter().filter(|field| attribute.sample_type & **field != 0).count() as u64
}

/// The word that begins this many words before the end.
fn word_before_end(body: Cursor, words: u64) -> Option<u64> {
    let mut cursor = body;
    cursor.bytes((body.len() as u64).checked_sub(words * 8)?, "").ok()?;
    cursor.u64("").ok()
}

/// The event that a record belongs to, by the id in it. perf gives all events an id at the same place when there are several.
fn attribute_of<'f>(file: &'f PerfFile, kind: u32, body: Cursor) -> &'f Attribute {
    let first = &file.attributes[0];
    if file.attributes.len() == 1 {
        return first;
    }
    let sample = kind == kind::SAMPLE;
    let id = if first.sample_type & sample_type::IDENTIFIER != 0 {
        if sample { body.clone().u64("").ok() } else { word_before_end(body, 1) }
    } else if first.sample_type & sample_type::ID != 0 {
        use sample_type::{ADDR, CPU, ID, IP, STREAM_ID, TID, TIME};
        if sample {
            let mut cursor = body;
            cursor.bytes(words(first, &[IP, TID, TIME, ADDR]) * 8, "").and_then(|_| cursor.u64("")).ok()
        } else {
            word_before_end(body, words(first, &[ID, STREAM_ID, CPU]))
        }
    } else {
        None
    };
    id.and_then(|id| file.by_id.get(&id)).and_then(|index| file.attributes.get(*index)).unwrap_or(first)
}

/// Reads one record.
pub(super) fn parse<'a>(file: &'a PerfFile<'a>, position: Position) -> Result<Record<'a>> {
    const MISC_EXEC: u16 = 1 << 13;
    let mut record = file.data;
    record.bytes(position.start as u64, "a record")?;
    let offset = record.offset();
    let record = Cursor::new(record.bytes(position.size as u64, "a record")?, offset, file.data.big_endian());
    let Head { kind, misc, mut body } = head(record)?;
    match kind {
        kind::MMAP | kind::MMAP2 => mapping(kind, misc, body),
        kind::COMM => {
            let process = body.u32("the process of a name")?;
            Ok(if misc & MISC_EXEC != 0 { Record::Exec { process } } else { Record::Other })
        }
        kind::FORK => {
            let child = body.u32("a fork")?;
            let parent = body.u32("a fork")?;
            Ok(Record::Fork { parent, child })
        }
        kind::LOST => {
            body.u64("a count of lost records")?;
            Ok(Record::Lost(body.u64("a count of lost records")?))
        }
        kind::LOST_SAMPLES => Ok(Record::Lost(body.u64("a count of lost samples")?)),
        kind::SAMPLE => sample(attribute_of(file, kind, body), misc, body),
        _ => Ok(Record::Other),
    }
}

fn mapping(kind: u32, misc: u16, mut body: Cursor) -> Result<Record> {
    const MISC_DATA: u16 = 1 << 13;
    const MISC_BUILD_ID: u16 = 1 << 14;
    const PROTECTION_EXECUTE: u32 = 4;
    const KERNEL: u32 = u32::MAX;
    let process = body.u32("the process of a mapping")?;
    body.u32("the thread of a mapping")?;
    let start = body.u64("the address of a mapping")?;
    let length = body.u64("the length of a mapping")?;
    let file_offset = body.u64("the offset of a mapping")?;
    let mut recorded_id = None;
    let mut executable = misc & MISC_DATA == 0;
    if kind == kind::MMAP2 {
        // Either device and inode, or the build-id with its size before it.
        let identity = body.bytes(24, "the file of a mapping")?;
        if misc & MISC_BUILD_ID != 0 {
            recorded_id = build_id(&identity[4..], Some(identity[0]));
        }
        executable = body.u32("the protection of a mapping")? & PROTECTION_EXECUTE != 0;
        body.u32("the flags of a mapping")?;
    }
    let kernel = process == KERNEL || matches!(misc & CPU_MODE, MODE_KERNEL | MODE_GUEST_KERNEL);
    let path = body.rest_as_string();
    let mapping = Mapping { start, length, file_offset, path, build_id: recorded_id, kernel, executable };
    Ok(Record::Mapping { process, mapping })
}

const CPU_MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_GUEST_KERNEL: u16 = 4;
const MODE_GUEST_USER: u16 = 5;

/// Walks the fields of a sample in the order in which the kernel writes them, up to the branch stack.
fn sample<'a>(attribute: &'a Attribute, misc: u16, mut body: Cursor<'a>) -> Result<Record<'a>> {
    let what = "a sample";
    let has = |field: u64| attribute.sample_type & field != 0;
    if has(sample_type::IDENTIFIER) {
        body.u64(what)?;
    }
    let address = if has(sample_type::IP) { Some(body.u64(what)?) } else { None };
    let mut process = u32::MAX;
    if has(sample_type::TID) {
        process = body.u32(what)?;
        body.u32(what)?;
    }
    for field in
        [sample_type::TIME, sample_type::ADDR, sample_type::ID, sample_type::STREAM_ID, sample_type::CPU]
    {
        if has(field) {
            body.u64(what)?;
        }
    }
    let period = if has(sample_type::PERIOD) { body.u64(what)? } else { attribute.period.max(1) };
    if has(sample_type::READ) {
        skip_read_values(attribute.read_format, &mut body)?;
    }
    if has(sample_type::CALLCHAIN) {
        let count = body.u64("the length of a call chain")?;
        skip_words(&mut body, count, "a call chain")?;
    }
    if has(sample_type::RAW) {
        let size = body.u32("the size of raw data")?;
        body.bytes(u64::from(size), "raw data")?;
    }
    let branches =
        if has(sample_type::BRANCH_STACK) { branch_stack(attribute, body)? } else { Branches::none(body) };
    let mode = misc & CPU_MODE;
    Ok(Record::Sample(Sample {
        attribute,
        process,
        address,
        period,
        guest: matches!(mode, MODE_GUEST_KERNEL | MODE_GUEST_USER),
        branches,
    }))
}

/// Counter values: one with what belongs to it, or those of a group after what they share.
fn skip_read_values(format: u64, body: &mut Cursor) -> Result<()> {
    const TIMES: u64 = 1 | 1 << 1;
    const ID: u64 = 1 << 2;
    const GROUP: u64 = 1 << 3;
    const LOST: u64 = 1 << 4;
    let times = u64::from((format & TIMES).count_ones());
    let each = 1 + u64::from((format & (ID | LOST)).count_ones());
    if format & GROUP == 0 {
        return skip_words(body, times + each, "counter values");
    }
    let count = body.u64("the number of counter values")?;
    skip_words(body, times, "counter values")?;
    skip_words(body, count.saturating_mul(each), "counter values")
}

fn skip_words(body: &mut Cursor, count: u64, what: &str) -> Result<()> {
    body.bytes(count.saturating_mul(8), what).map(|_| ())
}

fn branch_stack<'a>(attribute: &Attribute, mut body: Cursor<'a>) -> Result<Branches<'a>> {
    let count = body.u64("the number of branches")?;
    if attribute.branch_sample_type & branch_sample_type::HW_INDEX != 0 {
        body.u64("the index of the newest branch")?;
    }
    let offset = body.offset();
    let entries = body.bytes(count.saturating_mul(Branches::ENTRY), "a branch stack")?;
    if attribute.branch_sample_type & branch_sample_type::COUNTERS != 0 {
        skip_words(&mut body, count, "the counters of a branch stack")?;
    }
    Ok(Branches(Cursor::new(entries, offset, body.big_endian())))
}

impl<'a> Branches<'a> {
    /// Bytes of an entry: from, to, flags.
    const ENTRY: u64 = 24;

    fn none(body: Cursor<'a>) -> Self {
        Self(Cursor::new(&[], body.offset(), body.big_endian()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len() / Self::ENTRY as usize
    }

    /// The entries, newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Branch> + use<'a> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let (from, to, flags) = (left.u64("").ok()?, left.u64("").ok()?, left.u64("").ok()?);
            let aborted = left.bit_field(flags, 3, 1) == 1;
            Some(Branch { from, to, aborted, kind: branch_type(left.bit_field(flags, 20, 4)) })
        })
    }
}

/// PERF_BR_*. What lies beyond 15 stands in a field of its own and is never a call.
fn branch_type(number: u64) -> BranchType {
    match number {
        0 => BranchType::Untyped,
        4 | 5 | 9 => BranchType::Call,
        1 => BranchType::Other("conditional jumps"),
        2 => BranchType::Other("jumps"),
        3 => BranchType::Other("indirect jumps"),
        6 | 10 => BranchType::Other("returns"),
        7 | 8 => BranchType::Other("system calls and returns from them"),
        11..=13 => BranchType::Other("interrupts, faults and returns from them"),
        _ => BranchType::Other("of another type"),
    }
}
