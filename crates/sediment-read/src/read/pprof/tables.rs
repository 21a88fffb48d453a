// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables that samples refer to: strings, functions, locations and mappings; and the conversion of a location.

use super::super::Recording;
use super::super::locations::{self, MemoryBudget, Texts, grown};
use super::super::protobuf::stream::{Content, Messages};
use super::super::protobuf::{DamagedMessage, Fields, WireValue};
use super::super::stacks::StackFrame;
use sediment_core::error::{Error, ErrorCode, Result};

/// Type and unit of one value of each sample.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ValueType {
    pub(super) kind: u64,
    pub(super) unit: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct PprofFunction {
    id: u64,
    name: u64,
    system_name: u64,
    file: u64,
    start_line: u64,
}

/// A line of a location: a function, and the line in its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocationLine {
    pub(super) function: u64,
    pub(super) line: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct PprofMapping {
    id: u64,
    start: u64,
    limit: u64,
    file_offset: u64,
    path: u64,
    build_id: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct PprofLocation {
    id: u64,
    mapping: u64,
    address: u64,
    /// Function of its last line, into which the functions of the earlier lines were inlined; 0 if there is none.
    function: u64,
    /// Range of its lines in the table of lines.
    lines: (usize, usize),
    frame: Option<StackFrame>,
}

/// All data of a profile except its samples.
#[derive(Debug, Default)]
pub(super) struct PprofTables {
    strings: Texts,
    pub(super) types: Vec<ValueType>,
    /// Name of the type that the writer chose as the default; 0 for none.
    pub(super) default_type: u64,
    /// Beginning of the recording, in nanoseconds since 1970; 0 if unknown.
    pub(super) began: u64,
    functions: Vec<PprofFunction>,
    mappings: Vec<PprofMapping>,
    locations: Vec<PprofLocation>,
    lines: Vec<LocationLine>,
    keeps_lines: bool,
}

impl PprofTables {
    /// Reads everything except the samples, and the lines of locations only if requested.
    pub(super) fn read(
        messages: &mut Messages<'_>,
        budget: &mut MemoryBudget,
        keeps_lines: bool,
    ) -> Result<Self> {
        let mut tables = Self { keeps_lines, ..Self::default() };
        while let Some((number, content)) = messages.next()? {
            match (number, content) {
                (9, Content::Number(began)) => tables.began = began,
                (14, Content::Number(index)) => tables.default_type = index,
                (1 | 3..=6, Content::Bytes) => {
                    let row = tables.row(number, &messages.buffer, budget)?;
                    row.map_err(|DamagedMessage| messages.damage("a damaged row of a table"))?;
                }
                (1..=6, Content::Number(_) | Content::Fixed) => {
                    return Err(messages.damage("a number in place of a table row"));
                }
                (14, _) => {
                    return Err(messages.damage("the type of the counts is not a number"));
                }
                _ => {}
            }
        }
        tables.functions.sort_unstable_by_key(|function| function.id);
        tables.mappings.sort_unstable_by_key(|mapping| mapping.id);
        tables.locations.sort_unstable_by_key(|location| location.id);
        only_once("functions", tables.functions.iter().map(|function| function.id))?;
        only_once("mappings", tables.mappings.iter().map(|mapping| mapping.id))?;
        only_once("locations", tables.locations.iter().map(|location| location.id))?;
        Ok(tables)
    }

    /// Reads a row of the table with this number.
    fn row(
        &mut self,
        number: u32,
        bytes: &[u8],
        budget: &mut MemoryBudget,
    ) -> Result<std::result::Result<(), DamagedMessage>> {
        budget.take(grown(match number {
            1 => size_of::<ValueType>(),
            3 => size_of::<PprofMapping>(),
            4 => size_of::<PprofLocation>(),
            5 => size_of::<PprofFunction>(),
            _ => return self.strings.push(bytes, budget).map(Ok),
        }))?;
        let mut row = [0u64; 8];
        Ok(match number {
            4 => {
                let lines = self.lines.len();
                let read = location(bytes, &mut self.lines).map(|location| self.locations.push(location));
                if self.keeps_lines {
                    budget.take(grown((self.lines.len() - lines) * size_of::<LocationLine>()))?;
                } else {
                    self.lines.clear();
                }
                read
            }
            _ => numbers(bytes, &mut row).map(|()| match number {
                1 => self.types.push(ValueType { kind: row[1], unit: row[2] }),
                3 => self.mappings.push(PprofMapping {
                    id: row[1],
                    start: row[2],
                    limit: row[3],
                    file_offset: row[4],
                    path: row[5],
                    build_id: row[6],
                }),
                _ => self.functions.push(PprofFunction {
                    id: row[1],
                    name: row[2],
                    system_name: row[3],
                    file: row[4],
                    start_line: row[5],
                }),
            }),
        })
    }

    /// Returns a string by its index.
    pub(super) fn string(&self, index: u64) -> Result<&[u8]> {
        let found = usize::try_from(index).ok().and_then(|index| self.strings.get(index));
        found.ok_or_else(|| {
            let what = format!("string {index} is used, but there are only {}", self.strings.count());
            Error::new(ErrorCode::Damaged, what).with_hint("is the file cut off? copy it again")
        })
    }

    /// Returns the lines of the location with this id, the innermost function first.
    pub(super) fn lines(&self, id: u64) -> Result<&[LocationLine]> {
        let (from, to) = self.locations[self.index_of(id)?].lines;
        Ok(&self.lines[from..to])
    }

    /// Returns the name of a function, and its first line; 0 if unknown.
    pub(super) fn named(&self, location: u64, id: u64) -> Result<(&str, u32)> {
        let at = self.functions.binary_search_by_key(&id, |function| function.id);
        let start_line = at.map_or(0, |at| u32::try_from(self.functions[at].start_line).unwrap_or(0));
        let name = self.function(location, id)?.name;
        Ok((std::str::from_utf8(name).unwrap_or_default(), start_line))
    }

    fn index_of(&self, id: u64) -> Result<usize> {
        self.locations.binary_search_by_key(&id, |location| location.id).map_err(|_| {
            Error::new(ErrorCode::Damaged, format!("a sample at location {id}, which is missing"))
        })
    }

    /// Returns the frame of the location with this id.
    pub(super) fn frame(
        &mut self,
        id: u64,
        recording: &mut Recording,
        budget: &mut MemoryBudget,
    ) -> Result<StackFrame> {
        let index = self.index_of(id)?;
        if let Some(frame) = self.locations[index].frame {
            return Ok(frame);
        }
        let frame = self.name(&self.locations[index], recording, budget)?;
        self.locations[index].frame = Some(frame);
        Ok(frame)
    }

    fn name(
        &self,
        location: &PprofLocation,
        recording: &mut Recording,
        budget: &mut MemoryBudget,
    ) -> Result<StackFrame> {
        let mapping = match location.mapping {
            0 => None,
            id => Some(self.mapping(location.id, id)?),
        };
        let function = match location.function {
            0 => None,
            id => Some(self.function(location.id, id)?),
        };
        locations::ResolvedLocation { address: location.address, mapping, function }.frame(recording, budget)
    }

    fn mapping(&self, location: u64, id: u64) -> Result<locations::LocationMapping<'_>> {
        let found = self.mappings.binary_search_by_key(&id, |mapping| mapping.id).map_err(|_| {
            let what = format!("location {location} is in mapping {id}, which is missing");
            Error::new(ErrorCode::Damaged, what)
        })?;
        let PprofMapping { start, limit, file_offset, path, build_id, .. } = self.mappings[found];
        let (path, build_id) = (self.string(path)?, self.string(build_id)?);
        Ok(locations::LocationMapping { start, limit, file_offset, path, build_id })
    }

    fn function(&self, location: u64, id: u64) -> Result<locations::LocationFunction<'_>> {
        let found = self.functions.binary_search_by_key(&id, |function| function.id).map_err(|_| {
            let what = format!("location {location} is in function {id}, which is missing");
            Error::new(ErrorCode::Damaged, what)
        })?;
        let PprofFunction { name, system_name, file, .. } = self.functions[found];
        let (name, system_name, file) = (self.string(name)?, self.string(system_name)?, self.string(file)?);
        Ok(locations::LocationFunction { name, system_name, file })
    }
}

fn only_once(what: &str, ids: impl Iterator<Item = u64>) -> Result<()> {
    let mut before = 0;
    for id in ids {
        if id == 0 {
            return Err(Error::new(ErrorCode::Damaged, format!("one of its {what} has no id")));
        }
        if id == before {
            return Err(Error::new(ErrorCode::Damaged, format!("two of its {what} have the id {id}")));
        }
        before = id;
    }
    Ok(())
}

/// Reads the integers of a message by their field numbers; the last value of each field counts, as always in protocol
/// buffers.
fn numbers(bytes: &[u8], row: &mut [u64; 8]) -> std::result::Result<(), DamagedMessage> {
    for field in Fields(bytes) {
        if let (number @ 1..=7, value) = field? {
            let WireValue::Varint(value) = value else { return Err(DamagedMessage) };
            row[number as usize] = value;
        }
    }
    Ok(())
}

fn location(
    bytes: &[u8],
    lines: &mut Vec<LocationLine>,
) -> std::result::Result<PprofLocation, DamagedMessage> {
    let mut location = PprofLocation { lines: (lines.len(), lines.len()), ..PprofLocation::default() };
    for field in Fields(bytes) {
        match field? {
            (1, WireValue::Varint(id)) => location.id = id,
            (2, WireValue::Varint(id)) => location.mapping = id,
            (3, WireValue::Varint(address)) => location.address = address,
            (4, WireValue::Bytes(line)) => {
                let mut row = [0; 8];
                numbers(line, &mut row)?;
                location.function = row[1];
                lines.push(LocationLine { function: row[1], line: u32::try_from(row[2]).unwrap_or(0) });
                location.lines.1 = lines.len();
            }
            (1..=4, _) => return Err(DamagedMessage),
            _ => {}
        }
    }
    Ok(location)
}
