// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the frame of a perf.data file: header, events with their attributes, and the relevant feature sections. A file
//! written to a pipe has these as records instead.

use super::attribute::Attribute;
use super::cursor::PerfDataCursor;
use super::records::{Events, PerfRecord, build_id, kind};
use super::stream::{Batch, Stream};
use crate::read::{Input, input};
use sediment_core::error::{Error, Result};
use std::collections::HashMap;

const MAGIC_LITTLE_ENDIAN: &[u8] = b"PERFILE2";
const MAGIC_BIG_ENDIAN: &[u8] = b"2ELIFREP";
/// Size of a file's header in bytes, and of the header in a pipe.
const HEADER: u64 = 104;
const HEADER_OF_PIPE: u64 = 16;

/// perf 6.12 records successfully even if it does not find the events.
pub(super) const NO_EVENTS: &str = "perf finds its events in /sys: is that mounted here?";

/// Features by their bits (HEADER_*).
mod feature {
    pub(crate) const BUILD_ID: u64 = 2;
    pub(crate) const HOST: u64 = 3;
    pub(crate) const ARCH: u64 = 6;
    pub(crate) const EVENT_DESCRIPTION: u64 = 12;
    pub(crate) const FOLDER: u64 = 24;
}

/// True for a perf.data file of either byte order.
pub(super) fn recognises(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC_LITTLE_ENDIAN) || bytes.starts_with(MAGIC_BIG_ENDIAN)
}

/// A perf.data file whose records are not read yet.
pub(super) struct PerfFile<'a> {
    input: &'a dyn Input,
    pub(super) big_endian: bool,
    data: FileSection,
    pub(super) events: Events,
    /// Machine architecture as `uname -m` spells it.
    pub(super) arch: Option<String>,
    /// Name of the machine.
    pub(super) host: Option<String>,
    /// Build-ids in lower-case hex, by the mapped path.
    pub(super) build_ids: HashMap<Vec<u8>, String>,
    /// Number of bytes after the last record of a pipe.
    pub(super) junk: u64,
    /// True if the samples may be in files next to it.
    pub(super) in_folder: bool,
}

/// A part of the file, by offset and size.
#[derive(Debug, Clone, Copy)]
struct FileSection {
    offset: u64,
    size: u64,
}

impl<'a> PerfFile<'a> {
    pub(super) fn open(input: &'a dyn Input) -> Result<Self> {
        let head = input::head(input, HEADER as usize)?;
        let big_endian = head.starts_with(MAGIC_BIG_ENDIAN);
        let mut header = PerfDataCursor::new(&head, 0, big_endian);
        header.bytes(8, "the magic number")?;
        let header_size = header.u64("the size of the header")?;
        let mut file = Self {
            input,
            big_endian,
            data: FileSection { offset: HEADER_OF_PIPE, size: input.length().saturating_sub(HEADER_OF_PIPE) },
            events: Events::default(),
            arch: None,
            host: None,
            build_ids: HashMap::new(),
            junk: 0,
            in_folder: false,
        };
        if header_size == HEADER_OF_PIPE {
            file.read_records_of_pipe()?;
            return Ok(file);
        }
        let attribute_size = header.u64("the size of an event")?;
        let attributes = section(&mut header, "events")?;
        file.data = section(&mut header, "records")?;
        section(&mut header, "event types")?;
        let mut features = [0u64; 4];
        for word in &mut features {
            *word = header.u64("the list of features")?;
        }
        if file.data.size == 0 {
            return Err(Error::at_offset(
                48,
                "perf did not finish this perf.data: its header has no records",
            )
            .with_hint("end the recording with Ctrl-C or SIGINT, and wait until perf exits"));
        }
        file.check(file.data, "the records")?;
        file.in_folder = features[0] >> feature::FOLDER & 1 == 1;
        file.read_attributes(attributes, attribute_size)?;
        file.read_features(&features)?;
        Ok(file)
    }

    /// Returns a stream of all records.
    pub(super) fn records(&self) -> Stream<'a> {
        let stream =
            Stream::new(self.input, self.data.offset, self.data.offset + self.data.size, self.big_endian);
        if self.data.offset == HEADER_OF_PIPE { stream.of_pipe() } else { stream }
    }

    /// Checks that a section lies in the file.
    fn check(&self, section: FileSection, what: &str) -> Result<()> {
        let length = self.input.length();
        if section.offset > length {
            return Err(Error::at_offset(
                length,
                format!("the file ends before {what}, at offset {:#x}", section.offset),
            )
            .with_hint("is the file complete?"));
        }
        let left = length - section.offset;
        if section.size > left {
            return Err(Error::at_offset(
                section.offset,
                format!("{what} needs {} bytes, but only {left} are left", section.size),
            )
            .with_hint("is the file complete, and unchanged since perf wrote it?"));
        }
        Ok(())
    }

    /// Returns the bytes of a section, at most as many as the file has.
    fn section(&self, section: FileSection, what: &str) -> Result<Vec<u8>> {
        self.check(section, what)?;
        let mut bytes = vec![0; section.size as usize];
        let count = input::fill(self.input, section.offset, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn read_attributes(&mut self, all: FileSection, size_of_one: u64) -> Result<()> {
        /// The first published size of perf_event_attr, plus the two numbers that follow each.
        const SMALLEST: u64 = 64 + 16;
        let bytes = self.section(all, "the events")?;
        let mut left = PerfDataCursor::new(&bytes, all.offset, self.big_endian);
        if left.len() == 0 {
            return Err(Error::at_offset(32, "perf recorded no event").with_hint(NO_EVENTS));
        }
        if size_of_one < SMALLEST {
            return Err(Error::at_offset(
                16,
                format!("unexpected size of event descriptions: {size_of_one} bytes each"),
            )
            .with_hint("is the file complete, and unchanged since perf wrote it?"));
        }
        let mut budget = self.input.length();
        while left.len() > 0 {
            let offset = left.offset();
            let one = left.bytes(size_of_one, "an event")?;
            let (attribute, ids) = one.split_at(size_of_one as usize - 16);
            let index = self.events.attributes.len();
            self.events.attributes.push(Attribute::read(PerfDataCursor::new(
                attribute,
                offset,
                self.big_endian,
            ))?);
            let mut ids = PerfDataCursor::new(ids, offset + size_of_one - 16, self.big_endian);
            let ids = section(&mut ids, "ids of an event")?;
            // Sections of ids may overlap, but in total they must not be larger than the file.
            budget = budget.checked_sub(ids.size).ok_or_else(|| {
                Error::at_offset(offset, "the ids of the events exceed the file")
                    .with_hint("is the file unchanged since perf wrote it?")
            })?;
            let bytes = self.section(ids, "the ids of an event")?;
            self.read_ids(PerfDataCursor::new(&bytes, ids.offset, self.big_endian), index)?;
        }
        Ok(())
    }

    fn read_ids(&mut self, mut left: PerfDataCursor, index: usize) -> Result<()> {
        while left.len() > 0 {
            self.events.by_id.insert(left.u64("the id of an event")?, index);
        }
        Ok(())
    }

    /// The features come after the records, in the order of their bits.
    fn read_features(&mut self, features: &[u64; 4]) -> Result<()> {
        let present: Vec<u64> =
            (0..256).filter(|bit| features[*bit as usize / 64] >> (bit % 64) & 1 == 1).collect();
        let start = self.data.offset.saturating_add(self.data.size);
        let table = FileSection { offset: start, size: present.len() as u64 * 16 };
        let bytes = self.section(table, "the table of features")?;
        let mut table = PerfDataCursor::new(&bytes, start, self.big_endian);
        for feature in present {
            let place = section(&mut table, "a feature")?;
            let what = match feature {
                feature::BUILD_ID => "the build-ids",
                feature::HOST => "the name of the machine",
                feature::ARCH => "the architecture",
                feature::EVENT_DESCRIPTION => "the names of the events",
                _ => continue,
            };
            let bytes = self.section(place, what)?;
            self.read_feature(feature, PerfDataCursor::new(&bytes, place.offset, self.big_endian))?;
        }
        Ok(())
    }

    fn read_feature(&mut self, feature: u64, mut bytes: PerfDataCursor) -> Result<()> {
        match feature {
            feature::BUILD_ID => {
                while bytes.len() > 0 {
                    let record = PerfRecord::next(&mut bytes)?;
                    self.read_build_id(&record)?;
                }
                Ok(())
            }
            feature::ARCH => {
                self.arch = text(&mut bytes)?;
                Ok(())
            }
            feature::HOST => {
                self.host = text(&mut bytes)?;
                Ok(())
            }
            feature::EVENT_DESCRIPTION => self.read_event_names(bytes),
            _ => Ok(()),
        }
    }

    /// Reads an entry of the table of build-ids, which has the same form as a record among the records.
    fn read_build_id(&mut self, record: &PerfRecord) -> Result<()> {
        /// The size of the build-id comes after it.
        const MISC_SIZE: u16 = 1 << 15;
        let mut entry = record.body;
        entry.u32("the process of a build-id")?;
        let id = entry.bytes(24, "a build-id")?;
        let size = if record.misc & MISC_SIZE != 0 { Some(id[20]) } else { None };
        if let Some(build_id) = build_id(&id[..20], size) {
            self.build_ids.insert(entry.rest_as_string().to_vec(), build_id);
        }
        Ok(())
    }

    fn read_event_names(&mut self, mut left: PerfDataCursor) -> Result<()> {
        let count = left.u32("the number of events")?;
        let attribute_size = left.u32("the size of an event")?;
        for index in 0..count as usize {
            left.bytes(u64::from(attribute_size), "the description of an event")?;
            let ids = left.u32("the number of ids of an event")?;
            let name = string(&mut left)?;
            left.bytes(u64::from(ids) * 8, "the ids of an event")?;
            let Some(attribute) = self.events.attributes.get_mut(index) else { break };
            attribute.set_name(name);
        }
        Ok(())
    }

    /// Collects the data that a pipe has among its records, and a file before or after them.
    fn read_records_of_pipe(&mut self) -> Result<()> {
        let mut records = self.records().of_perf_alone();
        let mut batch = Batch::default();
        while records.next(&mut batch)? {
            for record in batch.records() {
                let (_, record) = record?;
                self.read_record_of_perf(&record)?;
            }
        }
        self.junk = records.junk;
        if self.events.attributes.is_empty() {
            return Err(Error::at_offset(
                HEADER_OF_PIPE,
                "this perf.data from a pipe does not describe its events",
            )
            .with_hint("is its beginning missing? record with: perf record -o - ... > perf.data"));
        }
        Ok(())
    }

    /// Reads a record that perf wrote for itself.
    pub(super) fn read_record_of_perf(&mut self, record: &PerfRecord) -> Result<()> {
        let mut body = record.body;
        match record.kind {
            kind::HEADER_ATTR => {
                let index = self.events.attributes.len();
                let mut head = body;
                head.u32("the type of an event")?;
                let size = head.u32("the size of an event")?;
                // The first version did not store its size.
                let size = if size == 0 { 64 } else { size };
                let offset = body.offset();
                let attribute = body.bytes(u64::from(size), "an event")?;
                self.events.attributes.push(Attribute::read(PerfDataCursor::new(
                    attribute,
                    offset,
                    self.big_endian,
                ))?);
                self.read_ids(body, index)
            }
            kind::EVENT_UPDATE => {
                const NAME: u64 = 2;
                if body.u64("the kind of an update")? == NAME {
                    let id = body.u64("the event of an update")?;
                    let index = self.events.by_id.get(&id).copied();
                    if let Some(attribute) = index.and_then(|index| self.events.attributes.get_mut(index)) {
                        attribute.set_name(body.rest_as_string());
                    }
                }
                Ok(())
            }
            kind::HEADER_BUILD_ID => self.read_build_id(record),
            kind::HEADER_FEATURE => {
                let feature = body.u64("the number of a feature")?;
                self.read_feature(feature, body)
            }
            _ => Ok(()),
        }
    }
}

fn section(cursor: &mut PerfDataCursor, what: &str) -> Result<FileSection> {
    let what = format!("the place of the {what}");
    Ok(FileSection { offset: cursor.u64(&what)?, size: cursor.u64(&what)? })
}

/// Reads a text; `None` if it is empty.
fn text(cursor: &mut PerfDataCursor) -> Result<Option<String>> {
    let text = string(cursor)?;
    Ok(std::str::from_utf8(text).ok().filter(|text| !text.is_empty()).map(str::to_owned))
}

/// Reads a string that comes after its length and is padded with NULs.
fn string<'a>(cursor: &mut PerfDataCursor<'a>) -> Result<&'a [u8]> {
    let length = cursor.u32("the length of a string")?;
    let offset = cursor.offset();
    let bytes = cursor.bytes(u64::from(length), "a string")?;
    Ok(PerfDataCursor::new(bytes, offset, false).rest_as_string())
}
