// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frame of a perf.data file: header, events with their attributes, and the feature sections that are of use here.

use super::cursor::Cursor;
use crate::error::{Error, Result};
use std::collections::HashMap;

const MAGIC_LITTLE_ENDIAN: &[u8] = b"PERFILE2";
const MAGIC_BIG_ENDIAN: &[u8] = b"2ELIFREP";

/// Bits of `sample_type` (PERF_SAMPLE_*).
pub(super) mod sample_type {
    pub(crate) const IP: u64 = 1;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCH_STACK: u64 = 1 << 11;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `branch_sample_type` (PERF_SAMPLE_BRANCH_*).
pub(super) mod branch_sample_type {
    pub(crate) const ANY_CALL: u64 = 1 << 4;
    pub(crate) const IND_CALL: u64 = 1 << 6;
    pub(crate) const CALL_STACK: u64 = 1 << 11;
    pub(crate) const CALL: u64 = 1 << 13;
    pub(crate) const HW_INDEX: u64 = 1 << 17;
    pub(crate) const COUNTERS: u64 = 1 << 19;
    /// Those that choose kinds of branches; the others choose privilege levels and what is written of each branch.
    pub(crate) const KINDS: u64 = 0x3ff8;
}

/// Whether this is a perf.data file of either byte order.
pub(super) fn recognises(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC_LITTLE_ENDIAN) || bytes.starts_with(MAGIC_BIG_ENDIAN)
}

/// One event that was recorded (perf_event_attr), as far as it matters here.
#[derive(Debug, Clone, Default)]
pub(super) struct Attribute {
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) branch_sample_type: u64,
    /// Whether records other than samples end in a part of the sample's fields.
    pub(super) sample_id_all: bool,
    /// The fixed period; 0 where a frequency was asked for.
    pub(super) period: u64,
    name: Option<String>,
}

impl Attribute {
    pub(super) fn has_branches(&self) -> bool {
        self.sample_type & sample_type::BRANCH_STACK != 0
    }

    pub(super) fn has_call_stacks_for_branches(&self) -> bool {
        self.has_branches() && self.branch_sample_type & branch_sample_type::CALL_STACK != 0
    }

    /// Whether the processor was told to record calls and nothing else.
    pub(super) fn records_calls_only(&self) -> bool {
        use branch_sample_type::{ANY_CALL, CALL, IND_CALL, KINDS};
        let kinds = self.branch_sample_type & KINDS;
        kinds != 0 && kinds & !(ANY_CALL | IND_CALL | CALL) == 0
    }
}

/// A perf.data file, its records still to be read.
#[derive(Debug)]
pub(super) struct PerfFile<'a> {
    /// All records.
    pub(super) data: Cursor<'a>,
    pub(super) attributes: Vec<Attribute>,
    /// Which event a sample's id belongs to, as an index into `attributes`.
    pub(super) by_id: HashMap<u64, usize>,
    /// Machine architecture as `uname -m` spells it.
    pub(super) arch: Option<String>,
    /// Build-ids in lower-case hex, by the path that was mapped.
    pub(super) build_ids: HashMap<Vec<u8>, String>,
}

/// A part of the file, by offset and size.
#[derive(Clone, Copy)]
struct Section {
    offset: u64,
    size: u64,
}

impl<'a> PerfFile<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        let big_endian = bytes.starts_with(MAGIC_BIG_ENDIAN);
        let whole = Whole { bytes, big_endian };
        let mut header = Cursor::new(bytes, 0, big_endian);
        header.bytes(8, "the magic number")?;
        let header_size = header.u64("the size of the header")?;
        if header_size == 16 {
            return Err(Error::at_offset(8, "this perf.data was written to a pipe (perf record -o -)")
                .with_hint("record to a file: perf record -o perf.data …"));
        }
        let attribute_size = header.u64("the size of an event")?;
        let attributes = section(&mut header, "events")?;
        let data = section(&mut header, "records")?;
        section(&mut header, "event types")?;
        let mut features = [0u64; 4];
        for word in &mut features {
            *word = header.u64("the list of features")?;
        }
        if data.size == 0 {
            return Err(Error::at_offset(
                48,
                "perf did not finish writing this perf.data: its header says that it holds no records",
            )
            .with_hint("end a recording with Ctrl-C or SIGINT, and wait until perf has ended"));
        }
        let mut file = Self {
            data: whole.section(data, "the records")?,
            attributes: Vec::new(),
            by_id: HashMap::new(),
            arch: None,
            build_ids: HashMap::new(),
        };
        file.read_attributes(&whole, attributes, attribute_size)?;
        file.read_features(&whole, data.offset.saturating_add(data.size), &features)?;
        Ok(file)
    }

    fn read_attributes(&mut self, whole: &Whole<'a>, all: Section, size_of_one: u64) -> Result<()> {
        /// The first published size of perf_event_attr, and the two numbers that follow each.
        const SMALLEST: u64 = 64 + 16;
        let mut left = whole.section(all, "the events")?;
        if size_of_one < SMALLEST || left.len() == 0 {
            return Err(Error::at_offset(
                16,
                format!(
                    "this perf.data describes its events in {size_of_one} bytes each, {} in all",
                    left.len()
                ),
            )
            .with_hint("is the file complete, and unchanged since perf wrote it?"));
        }
        while left.len() > 0 {
            let offset = left.offset();
            let one = left.bytes(size_of_one, "an event")?;
            let (attribute, ids) = one.split_at(size_of_one as usize - 16);
            let index = self.attributes.len();
            self.attributes.push(read_attribute(Cursor::new(attribute, offset, whole.big_endian))?);
            let mut ids = Cursor::new(ids, offset + size_of_one - 16, whole.big_endian);
            let mut ids = whole.section(section(&mut ids, "ids of an event")?, "the ids of an event")?;
            while ids.len() > 0 {
                self.by_id.insert(ids.u64("the id of an event")?, index);
            }
        }
        Ok(())
    }

    /// Features stand after the records, in the order of their bits.
    fn read_features(&mut self, whole: &Whole<'a>, start: u64, features: &[u64; 4]) -> Result<()> {
        const BUILD_ID: u32 = 2;
        const ARCH: u32 = 6;
        const EVENT_DESCRIPTION: u32 = 12;
        let present: Vec<u32> =
            (0..256).filter(|bit| features[*bit as usize / 64] >> (bit % 64) & 1 == 1).collect();
        let mut table = whole
            .section(Section { offset: start, size: present.len() as u64 * 16 }, "the table of features")?;
        for feature in present {
            let place = section(&mut table, "a feature")?;
            match feature {
                BUILD_ID => self.read_build_ids(whole.section(place, "the build-ids")?)?,
                ARCH => {
                    let arch = string(&mut whole.section(place, "the architecture")?)?;
                    self.arch =
                        std::str::from_utf8(arch).ok().filter(|arch| !arch.is_empty()).map(str::to_owned);
                }
                EVENT_DESCRIPTION => {
                    self.read_event_names(whole.section(place, "the names of the events")?)?
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_build_ids(&mut self, mut left: Cursor<'a>) -> Result<()> {
        /// The size of the build-id stands behind it.
        const MISC_SIZE: u16 = 1 << 15;
        while left.len() > 0 {
            let offset = left.offset();
            left.u32("the kind of a build-id")?;
            let misc = left.u16("a build-id")?;
            let size = left.u16("a build-id")?;
            let Some(rest) = u64::from(size).checked_sub(8) else {
                return Err(Error::at_offset(
                    offset,
                    format!("a build-id of {size} bytes is shorter than its own head"),
                ));
            };
            let rest = left.bytes(rest, "a build-id")?;
            let mut entry = Cursor::new(rest, offset + 8, left.big_endian());
            entry.u32("the process of a build-id")?;
            let id = entry.bytes(24, "a build-id")?;
            let size = if misc & MISC_SIZE != 0 { Some(id[20]) } else { None };
            if let Some(build_id) = build_id(&id[..20], size) {
                self.build_ids.insert(entry.rest_as_string().to_vec(), build_id);
            }
        }
        Ok(())
    }

    fn read_event_names(&mut self, mut left: Cursor<'a>) -> Result<()> {
        let count = left.u32("the number of events")?;
        let attribute_size = left.u32("the size of an event")?;
        for index in 0..count as usize {
            left.bytes(u64::from(attribute_size), "the description of an event")?;
            let ids = left.u32("the number of ids of an event")?;
            let name = string(&mut left)?;
            left.bytes(u64::from(ids) * 8, "the ids of an event")?;
            let Some(attribute) = self.attributes.get_mut(index) else { break };
            attribute.name = printable(name);
        }
        Ok(())
    }

    /// The names of the events that have branch records, joined by `+`.
    pub(super) fn event_names(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for attribute in self.attributes.iter().filter(|attribute| attribute.has_branches()) {
            let name = attribute.name.as_deref().unwrap_or("unnamed event");
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join("+")
    }
}

/// All bytes of the file.
struct Whole<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Whole<'a> {
    fn section(&self, section: Section, what: &str) -> Result<Cursor<'a>> {
        let start = usize::try_from(section.offset).ok().filter(|start| *start <= self.bytes.len());
        let Some(start) = start else {
            return Err(Error::at_offset(
                self.bytes.len() as u64,
                format!("the file ends before {what}, which should begin at {:#x}", section.offset),
            )
            .with_hint("is the file complete?"));
        };
        let bytes =
            Cursor::new(&self.bytes[start..], section.offset, self.big_endian).bytes(section.size, what)?;
        Ok(Cursor::new(bytes, section.offset, self.big_endian))
    }
}

fn section(cursor: &mut Cursor, what: &str) -> Result<Section> {
    let what = format!("the place of the {what}");
    Ok(Section { offset: cursor.u64(&what)?, size: cursor.u64(&what)? })
}

/// A string with its length before it, filled up with NULs.
fn string<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let length = cursor.u32("the length of a string")?;
    let offset = cursor.offset();
    let bytes = cursor.bytes(u64::from(length), "a string")?;
    Ok(Cursor::new(bytes, offset, false).rest_as_string())
}

fn read_attribute(mut cursor: Cursor) -> Result<Attribute> {
    const FREQUENCY: u32 = 10;
    const SAMPLE_ID_ALL: u32 = 18;
    const EXCLUDE_USER: u32 = 4;
    const EXCLUDE_KERNEL: u32 = 5;
    let kind = cursor.u32("the type of an event")?;
    cursor.u32("the size of an event")?;
    let config = cursor.u64("an event")?;
    let period = cursor.u64("the period of an event")?;
    let sample_type = cursor.u64("an event")?;
    let read_format = cursor.u64("an event")?;
    let flags = cursor.u64("an event")?;
    cursor.bytes(16, "an event")?;
    let mut branch_sample_type = 0;
    // The first version of the structure ended before this field.
    if cursor.len() >= 16 {
        cursor.u64("an event")?;
        branch_sample_type = cursor.u64("an event")?;
    }
    let flag = |bit: u32| cursor.bit_field(flags, bit, 1) == 1;
    let base = match (kind, config) {
        (0, 0) => Some("cycles"),
        (0, 1) => Some("instructions"),
        (0, 4) => Some("branches"),
        (0, 5) => Some("branch-misses"),
        _ => None,
    };
    let level = match (flag(EXCLUDE_USER), flag(EXCLUDE_KERNEL)) {
        (false, true) => ":u",
        (true, false) => ":k",
        _ => "",
    };
    Ok(Attribute {
        sample_type,
        read_format,
        branch_sample_type,
        sample_id_all: flag(SAMPLE_ID_ALL),
        period: if flag(FREQUENCY) { 0 } else { period },
        name: base.map(|base| format!("{base}{level}")),
    })
}

/// The name of an event where it is one that can stand in a profile's `source`.
fn printable(name: &[u8]) -> Option<String> {
    const LONGEST: usize = 100;
    let fits = !name.is_empty()
        && name.len() <= LONGEST
        && name.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
    fits.then(|| String::from_utf8_lossy(name).into_owned())
}

/// A build-id in hex. Without a size it fills 20 bytes, and a shorter one (MD5, or 8 bytes) is followed by zeros.
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
