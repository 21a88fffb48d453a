// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a perf.data file: their heads, changes of address spaces, and the fields of samples.

use super::attribute::{Attribute, branch_sample_type, sample_type};
use super::cursor::PerfDataCursor;
use super::mappings::{AddressSpaceChange, MappedFile, MappingRecord};
use crate::read::Inode;
use sediment_core::error::{Error, Result};
use sediment_core::skipped::NoCall;
use std::collections::HashMap;

/// PERF_RECORD_*: records of the kernel are below 64, records of perf itself begin at 64.
pub(super) mod kind {
    pub(crate) const MMAP: u32 = 1;
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const FORK: u32 = 7;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MMAP2: u32 = 10;
    pub(crate) const LOST_SAMPLES: u32 = 13;
    pub(crate) const HEADER_ATTR: u32 = 64;
    pub(crate) const HEADER_TRACING_DATA: u32 = 66;
    pub(crate) const HEADER_BUILD_ID: u32 = 67;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const EVENT_UPDATE: u32 = 78;
    pub(crate) const HEADER_FEATURE: u32 = 80;
    pub(crate) const COMPRESSED: u32 = 81;
    pub(crate) const COMPRESSED2: u32 = 83;

    /// True for a kind that a kernel or perf may write; allows for a few newer kinds than today's.
    pub(crate) fn is_known(kind: u32) -> bool {
        matches!(kind, 1..=31 | 64..=95)
    }
}

/// Size in bytes of the head of a record.
pub(super) const HEAD: usize = 8;

/// The head of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) kind: u32,
    pub(super) misc: u16,
    /// Size of the whole record in bytes.
    pub(super) size: usize,
}

impl Head {
    /// Reads the head of a record at this offset.
    pub(super) fn read(mut cursor: PerfDataCursor) -> Result<Self> {
        let offset = cursor.offset();
        let kind = cursor.u32("the kind of a record")?;
        let misc = cursor.u16("the flags of a record")?;
        let size = usize::from(cursor.u16("the size of a record")?);
        if size < HEAD {
            return Err(Error::at_offset(
                offset,
                format!("a record of {size} bytes is shorter than its header"),
            )
            .with_hint("is the file unchanged since perf wrote it?"));
        }
        Ok(Self { kind, misc, size })
    }
}

/// A record with its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct PerfRecord<'a> {
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) body: PerfDataCursor<'a>,
}

impl<'a> PerfRecord<'a> {
    /// Takes the next record.
    pub(super) fn next(left: &mut PerfDataCursor<'a>) -> Result<Self> {
        let Head { kind, misc, size } = Head::read(*left)?;
        left.bytes(HEAD as u64, "a record")?;
        let offset = left.offset();
        let body = left.bytes((size - HEAD) as u64, "a record")?;
        Ok(Self { kind, misc, body: PerfDataCursor::new(body, offset, left.big_endian()) })
    }

    /// Returns the change of an address space that it records, with its time; `None` for a record of another kind.
    pub(super) fn change(&self, events: &Events) -> Result<Option<(u64, AddressSpaceChange)>> {
        const MISC_EXEC: u16 = 1 << 13;
        let mut body = self.body;
        let change = match self.kind {
            kind::MMAP | kind::MMAP2 => AddressSpaceChange::Map(self.mapping()?),
            kind::COMM if self.misc & MISC_EXEC != 0 => {
                AddressSpaceChange::Exec { process: body.u32("the process of a name")? }
            }
            kind::FORK => {
                let child = body.u32("a fork")?;
                AddressSpaceChange::Fork { child, parent: body.u32("a fork")? }
            }
            _ => return Ok(None),
        };
        Ok(Some((self.time_behind(events), change)))
    }

    /// Time of a record other than a sample; 0 if it has none.
    fn time_behind(&self, events: &Events) -> u64 {
        let attribute = events.of(self.kind, self.body);
        if !attribute.has(sample_type::TIME) || !attribute.sample_id_all {
            return 0;
        }
        use sample_type::{CPU, ID, IDENTIFIER, STREAM_ID, TIME};
        word_before_end(self.body, words(attribute, &[TIME, ID, STREAM_ID, CPU, IDENTIFIER])).unwrap_or(0)
    }

    fn mapping(&self) -> Result<MappingRecord> {
        const MISC_DATA: u16 = 1 << 13;
        const MISC_BUILD_ID: u16 = 1 << 14;
        const PROTECTION_EXECUTE: u32 = 4;
        const KERNEL: u32 = u32::MAX;
        let mut body = self.body;
        let process = body.u32("the process of a mapping")?;
        body.u32("the thread of a mapping")?;
        let start = body.u64("the address of a mapping")?;
        let length = body.u64("the length of a mapping")?;
        let file_offset = body.u64("the offset of a mapping")?;
        let (mut recorded_id, mut inode) = (None, Inode::Unknown);
        let mut executable = self.misc & MISC_DATA == 0;
        if self.kind == kind::MMAP2 {
            // Either device and inode, or the size of the build-id followed by the build-id.
            let identity = body.bytes(24, "the file of a mapping")?;
            if self.misc & MISC_BUILD_ID != 0 {
                recorded_id = build_id(&identity[4..], Some(identity[0]));
            } else {
                let mut identity = PerfDataCursor::new(identity, body.offset(), body.big_endian());
                let (major, minor) = (identity.u32("a device")?, identity.u32("a device")?);
                let number = identity.u64("an inode")?;
                if number != 0 {
                    inode = Inode::One(u64::from(major) << 32 | u64::from(minor), number);
                }
            }
            executable = body.u32("the protection of a mapping")? & PROTECTION_EXECUTE != 0;
            body.u32("the flags of a mapping")?;
        }
        let kernel = process == KERNEL || matches!(self.misc & CPU_MODE, MODE_KERNEL | MODE_GUEST_KERNEL);
        let file = MappedFile { path: body.rest_as_string().into(), build_id: recorded_id };
        Ok(MappingRecord { process, start, length, file_offset, file, kernel, executable, inode })
    }

    /// Number of records that the kernel dropped, if this record reports it.
    pub(super) fn lost(&self) -> Result<Option<u64>> {
        let mut body = self.body;
        match self.kind {
            kind::LOST => {
                body.u64("a count of lost records")?;
                Ok(Some(body.u64("a count of lost records")?))
            }
            kind::LOST_SAMPLES => Ok(Some(body.u64("a count of lost samples")?)),
            _ => Ok(None),
        }
    }
}

const CPU_MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_HYPERVISOR: u16 = 3;
const MODE_GUEST_KERNEL: u16 = 4;
const MODE_GUEST_USER: u16 = 5;

/// The events of a recording.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) attributes: Vec<Attribute>,
    /// Event by the id in a record, as an index in `attributes`.
    pub(super) by_id: HashMap<u64, usize>,
}

impl Events {
    /// Returns the index of the event of a record.
    pub(super) fn index_of(&self, kind: u32, body: PerfDataCursor) -> usize {
        if self.attributes.len() == 1 {
            return 0;
        }
        let id = id_of(&self.attributes[0], kind, body);
        id.and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0)
    }

    /// Returns the event of a record.
    pub(super) fn of(&self, kind: u32, body: PerfDataCursor) -> &Attribute {
        &self.attributes[self.index_of(kind, body)]
    }
}

/// Returns the event of a record by the id in it. If there are several events, perf gives all of them an id at the same
/// position.
fn id_of(first: &Attribute, kind: u32, body: PerfDataCursor) -> Option<u64> {
    let sample = kind == kind::SAMPLE;
    if first.has(sample_type::IDENTIFIER) {
        if sample { body.clone().u64("").ok() } else { word_before_end(body, 1) }
    } else if first.has(sample_type::ID) {
        use sample_type::{ADDR, CPU, ID, IP, STREAM_ID, TID, TIME};
        if sample {
            let mut cursor = body;
            cursor.bytes(words(first, &[IP, TID, TIME, ADDR]) * 8, "").and_then(|_| cursor.u64("")).ok()
        } else {
            word_before_end(body, words(first, &[ID, STREAM_ID, CPU]))
        }
    } else {
        None
    }
}

fn words(attribute: &Attribute, fields: &[u64]) -> u64 {
    fields.iter().filter(|field| attribute.has(**field)).count() as u64
}

/// Returns the word that begins this many words before the end.
fn word_before_end(body: PerfDataCursor, words: u64) -> Option<u64> {
    let mut cursor = body;
    cursor.bytes((body.len() as u64).checked_sub(words * 8)?, "").ok()?;
    cursor.u64("").ok()
}

/// Privilege level of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuMode {
    User,
    /// The kernel or a hypervisor.
    System,
    /// A guest of this machine, whose processes are not known.
    Guest,
}

/// A sample.
#[derive(Debug)]
pub(super) struct PerfSample<'a> {
    pub(super) mode: CpuMode,
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) time: u64,
    /// The sampled instruction, if recorded.
    pub(super) address: Option<u64>,
    /// Address of the data, or branch target, of the sample, if recorded.
    pub(super) other_address: u64,
    /// Number of events that it represents.
    pub(super) period: u64,
    pub(super) chain: RecordWords<'a>,
    pub(super) branches: BranchStack<'a>,
}

impl<'a> PerfSample<'a> {
    /// Reads the fields in the kernel's order, up to the branch stack: the later ones are not needed.
    pub(super) fn read(attribute: &Attribute, record: &PerfRecord<'a>) -> Result<Self> {
        let what = "a sample";
        let has = |field: u64| attribute.sample_type & field != 0;
        let mut body = record.body;
        let mut word = |field: u64| if has(field) { body.u64(what).map(Some) } else { Ok(None) };
        word(sample_type::IDENTIFIER)?;
        let address = word(sample_type::IP)?;
        let (mut process, mut thread) = (u32::MAX, u32::MAX);
        if has(sample_type::TID) {
            process = body.u32(what)?;
            thread = body.u32(what)?;
        }
        let mut word = |field: u64| if has(field) { body.u64(what).map(Some) } else { Ok(None) };
        let time = word(sample_type::TIME)?.unwrap_or(0);
        let other_address = word(sample_type::ADDR)?.unwrap_or(0);
        word(sample_type::ID)?;
        word(sample_type::STREAM_ID)?;
        word(sample_type::CPU)?;
        let period = word(sample_type::PERIOD)?.unwrap_or(attribute.period.max(1));
        if has(sample_type::READ) {
            skip_read_values(attribute.read_format, &mut body)?;
        }
        let mut chain = RecordWords::none(body);
        if has(sample_type::CALLCHAIN) {
            let count = body.u64("the length of a call chain")?;
            chain = RecordWords::take(&mut body, count, "a call chain")?;
        }
        if has(sample_type::RAW) {
            let size = body.u32("the size of raw data")?;
            body.bytes(u64::from(size), "raw data")?;
        }
        let branches = if has(sample_type::BRANCH_STACK) {
            BranchStack::take(attribute, &mut body)?
        } else {
            BranchStack::none(body)
        };
        let mode = match record.misc & CPU_MODE {
            MODE_GUEST_KERNEL | MODE_GUEST_USER => CpuMode::Guest,
            MODE_KERNEL | MODE_HYPERVISOR => CpuMode::System,
            _ => CpuMode::User,
        };
        Ok(Self { mode, process, thread, time, address, other_address, period, chain, branches })
    }
}

/// Skips counter values: a single one with its additions, or the values of a group after their common part.
fn skip_read_values(format: u64, body: &mut PerfDataCursor) -> Result<()> {
    const TIMES: u64 = 1 | 1 << 1;
    const ID: u64 = 1 << 2;
    const GROUP: u64 = 1 << 3;
    const LOST: u64 = 1 << 4;
    let times = u64::from((format & TIMES).count_ones());
    let each = 1 + u64::from((format & (ID | LOST)).count_ones());
    let what = "counter values";
    if format & GROUP == 0 {
        return RecordWords::take(body, times + each, what).map(|_| ());
    }
    let count = body.u64("the number of counter values")?;
    RecordWords::take(body, times, what)?;
    RecordWords::take(body, count.saturating_mul(each), what).map(|_| ())
}

/// Numbers of 8 bytes each.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordWords<'a>(PerfDataCursor<'a>);

impl<'a> RecordWords<'a> {
    fn none(body: PerfDataCursor<'a>) -> Self {
        Self(PerfDataCursor::new(&[], body.offset(), body.big_endian()))
    }

    fn take(body: &mut PerfDataCursor<'a>, count: u64, what: &str) -> Result<Self> {
        let (offset, big_endian) = (body.offset(), body.big_endian());
        Ok(Self(PerfDataCursor::new(body.bytes(count.saturating_mul(8), what)?, offset, big_endian)))
    }

    pub(super) fn iter(self) -> impl DoubleEndedIterator<Item = u64> + use<'a> {
        let (words, big_endian) = (self.0.left(), self.0.big_endian());
        words.chunks_exact(8).filter_map(move |word| {
            let word = *word.first_chunk()?;
            Some(if big_endian { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) })
        })
    }
}

/// A branch stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct BranchStack<'a>(RecordWords<'a>);

/// One entry of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct BranchEntry {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) kind: BranchType,
}

/// Type of a branch, from the processor or determined by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BranchType {
    Untyped,
    Call,
    No(NoCall),
}

impl BranchType {
    /// PERF_BR_*. Types above 15 (faults, debug state) are in a separate field and are never calls.
    const OF_NUMBER: [Self; 16] = [
        Self::Untyped,
        Self::No(NoCall::ConditionalJump),
        Self::No(NoCall::Jump),
        Self::No(NoCall::IndirectJump),
        Self::Call,
        Self::Call,
        Self::No(NoCall::Return),
        Self::No(NoCall::SystemCall),
        Self::No(NoCall::SystemCall),
        Self::Call,
        Self::No(NoCall::Return),
        Self::No(NoCall::Interrupt),
        Self::No(NoCall::Interrupt),
        Self::No(NoCall::Interrupt),
        Self::No(NoCall::Other),
        Self::No(NoCall::Other),
    ];

    /// Type from the flags of an entry; flags of a big-endian file are already swapped.
    fn of_flags(flags: impl Fn(u32, u32) -> u64) -> Self {
        const WRONG_PATH: u64 = 1;
        if flags(3, 1) == 1 {
            Self::No(NoCall::Aborted)
        } else if flags(24, 2) == WRONG_PATH {
            Self::No(NoCall::WrongPath)
        } else {
            Self::OF_NUMBER[flags(20, 4) as usize]
        }
    }
}

impl<'a> BranchStack<'a> {
    /// Size of an entry in bytes: from, to, flags.
    const ENTRY: usize = 24;

    fn none(body: PerfDataCursor<'a>) -> Self {
        Self(RecordWords::none(body))
    }

    fn take(attribute: &Attribute, body: &mut PerfDataCursor<'a>) -> Result<Self> {
        let count = body.u64("the number of branches")?;
        if attribute.branch_sample_type & branch_sample_type::HW_INDEX != 0 {
            body.u64("the index of the newest branch")?;
        }
        let entries = RecordWords::take(body, count.saturating_mul(3), "a branch stack")?;
        if attribute.branch_sample_type & branch_sample_type::COUNTERS != 0 {
            RecordWords::take(body, count, "the counters of a branch stack")?;
        }
        Ok(Self(entries))
    }

    pub(super) fn len(&self) -> usize {
        self.0.0.len() / Self::ENTRY
    }

    /// Returns the entries, newest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = BranchEntry> + use<'a> {
        let (bytes, big_endian) = (self.0.0.left(), self.0.0.big_endian());
        bytes.chunks_exact(Self::ENTRY).filter_map(move |entry| {
            let (&from, rest) = entry.split_first_chunk()?;
            let (&to, rest) = rest.split_first_chunk()?;
            let &flags = rest.first_chunk()?;
            Some(if big_endian {
                let flags = u64::from_be_bytes(flags);
                let kind =
                    BranchType::of_flags(|first, width| (flags >> (64 - first - width)) & ((1 << width) - 1));
                BranchEntry { from: u64::from_be_bytes(from), to: u64::from_be_bytes(to), kind }
            } else {
                let flags = u64::from_le_bytes(flags);
                let kind = BranchType::of_flags(|first, width| (flags >> first) & ((1 << width) - 1));
                BranchEntry { from: u64::from_le_bytes(from), to: u64::from_le_bytes(to), kind }
            })
        })
    }
}

/// Formats a build-id in hex. Without a size it fills 20 bytes, and a shorter one (MD5, or 8 bytes) is padded with
/// zeros.
pub(super) fn build_id(bytes: &[u8], size: Option<u8>) -> Option<String> {
    let known = match size {
        Some(size) => bytes.get(..usize::from(size).min(bytes.len()))?,
        None => {
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let length = [8, 16].into_iter().find(|length| used <= *length).unwrap_or(bytes.len());
            bytes.get(..length)?
        }
    };
    let says_something = known.iter().any(|byte| *byte != 0);
    says_something.then(|| known.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::build_id;

    #[test]
    fn build_ids_lose_what_fills_them_up() {
        let mut bytes = [0u8; 20];
        assert_eq!(build_id(&bytes, None), None);
        bytes[..8].copy_from_slice(&[0x57, 0x2a, 0xc7, 0x24, 0x87, 0xae, 0x19, 0x66]);
        assert_eq!(build_id(&bytes, None).as_deref(), Some("572ac72487ae1966"));
        assert_eq!(build_id(&bytes, Some(8)).as_deref(), Some("572ac72487ae1966"));
        assert_eq!(build_id(&bytes, Some(255)).map(|id| id.len()), Some(40));
        bytes[19] = 1;
        assert_eq!(build_id(&bytes, None).map(|id| id.len()), Some(40));
    }
}
