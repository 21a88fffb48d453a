// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads from DWARF the source lines of an address, for each function inlined there.
//!
//! In addition to the lines of [`super::source_lines`], compilers need the first line of each function, and the
//! discriminators that divide the code of a line.

use super::Files;
use super::debug_data::in_file_or_debug_file;
use super::source_lines::{DwarfBytes, dwarf_of};
use crate::error::{Error, ErrorCode, Result};
use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, Reader as _, Unit, UnitOffset,
};
use std::collections::HashMap;

/// Entries of a function that are followed to its name; a damaged file may have circles.
const LONGEST_CHAIN: usize = 8;

/// A function whose code is at an address: its own, or inlined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InlineFrame<'a> {
    /// Linkage name.
    pub name: &'a str,
    /// First line of the function; 0 where unknown.
    pub first_line: u32,
    /// Line of the code, or of the call of the function before it; 0 where unknown.
    pub line: u32,
    /// Number by which the compiler parts the code of the line; 0 for none.
    pub discriminator: u32,
    /// True where an LLVM-based compiler made the code.
    pub is_of_llvm: bool,
}

/// A row of the line table, which reaches to the next.
#[derive(Debug, Clone, Copy)]
struct LineRow {
    address: u64,
    line: u32,
    discriminator: u32,
    /// True for the end of a sequence.
    is_end: bool,
}

/// An inlined call.
#[derive(Debug)]
struct Inlined {
    ranges: Vec<(u64, u64)>,
    /// Levels below the function.
    depth: usize,
    function: usize,
    line: u32,
    discriminator: u32,
}

#[derive(Debug)]
struct InliningFunction {
    id: usize,
    /// True where an LLVM-based compiler made it, whose discriminators are packed.
    is_of_llvm: bool,
    /// In the order of their entries: a call comes after the call that it is inlined into.
    inlined: Vec<Inlined>,
}

#[derive(Debug)]
struct Subprogram {
    name: String,
    first_line: u32,
}

/// Functions and lines of a binary.
#[derive(Debug, Default)]
pub struct InlineFrames {
    rows: Vec<LineRow>,
    functions: Vec<InliningFunction>,
    /// Ranges of the functions, by address: first byte, byte after the last, function.
    ranges: Vec<(u64, u64, usize)>,
    sources: Vec<Subprogram>,
}

impl InlineFrames {
    /// Reads the debug information of an ELF file, or of its separate debug file; `None` if there is none.
    ///
    /// # Errors
    /// If it is damaged, or compressed in an unsupported way.
    pub fn read(bytes: &[u8], files: &dyn Files) -> Result<Option<Self>> {
        let Some(dwarf) = in_file_or_debug_file(bytes, files, dwarf_of)? else { return Ok(None) };
        let damaged = |error: gimli::Error| {
            Error::new(ErrorCode::Damaged, format!("the debug information is damaged: {error}"))
        };
        InlineReader::new(&dwarf).and_then(InlineReader::read).map(Some).map_err(damaged)
    }

    /// Returns the functions at an address, innermost first; none if there is no line.
    #[must_use]
    pub fn at(&self, address: u64) -> Vec<InlineFrame<'_>> {
        let Some(function) = self.function_at(address) else { return Vec::new() };
        let Some(row) = self.row_at(address) else { return Vec::new() };
        let mut chain: Vec<&Inlined> = Vec::new();
        for inlined in &function.inlined {
            if inlined.ranges.iter().any(|(begin, end)| (*begin..*end).contains(&address)) {
                chain.truncate(inlined.depth);
                if chain.len() == inlined.depth {
                    chain.push(inlined);
                }
            }
        }
        let mut frames = Vec::with_capacity(chain.len() + 1);
        let (mut line, mut discriminator) = (row.line, row.discriminator);
        let calls = chain.iter().rev().map(|inlined| (inlined.function, inlined.line, inlined.discriminator));
        for (id, line_of_call, discriminator_of_call) in calls.chain([(function.id, 0, 0)]) {
            let source = &self.sources[id];
            let discriminator_is = if function.is_of_llvm { base(discriminator) } else { discriminator };
            let frame = InlineFrame {
                name: &source.name,
                first_line: source.first_line,
                line,
                discriminator: discriminator_is,
                is_of_llvm: function.is_of_llvm,
            };
            frames.push(frame);
            (line, discriminator) = (line_of_call, discriminator_of_call);
        }
        frames
    }

    /// Number of copies that a compiler made of the code at an address, for example of a vectorised loop: its
    /// executions have to be multiplied by this number.
    #[must_use]
    pub fn copies(&self, address: u64) -> u64 {
        let is_of_llvm = self.function_at(address).is_some_and(|function| function.is_of_llvm);
        let row = self.row_at(address).filter(|_| is_of_llvm);
        row.map_or(1, |row| u64::from(copies(row.discriminator)))
    }

    /// Returns the addresses from `begin` to before `end` at which lines or inlined functions change; the first of them
    /// is `begin`.
    #[must_use]
    pub fn changes(&self, begin: u64, end: u64) -> Vec<u64> {
        let from = self.rows.partition_point(|row| row.address <= begin);
        let behind = self.rows[from..].iter().map(|row| row.address).take_while(|address| *address < end);
        let mut changes: Vec<u64> = std::iter::once(begin).chain(behind).collect();
        changes.dedup();
        changes
    }

    /// Returns the addresses between the two at which rows of the line table begin.
    #[must_use]
    pub fn rows(&self, begin: u64, end: u64) -> Vec<u64> {
        let from = self.rows.partition_point(|row| row.address < begin);
        let inside = self.rows[from..].iter().take_while(|row| row.address < end);
        let mut rows: Vec<u64> = inside.filter(|row| !row.is_end).map(|row| row.address).collect();
        rows.dedup();
        rows
    }

    /// The first byte of the function at an address.
    #[must_use]
    pub fn start_of(&self, address: u64) -> Option<u64> {
        self.range_at(address).map(|(begin, ..)| begin)
    }

    fn range_at(&self, address: u64) -> Option<(u64, u64, usize)> {
        let behind = self.ranges.partition_point(|(begin, ..)| *begin <= address);
        let range = self.ranges[..behind].last()?;
        (address < range.1).then_some(*range)
    }

    fn function_at(&self, address: u64) -> Option<&InliningFunction> {
        self.range_at(address).map(|(.., function)| &self.functions[function])
    }

    fn row_at(&self, address: u64) -> Option<&LineRow> {
        let behind = self.rows.partition_point(|row| row.address <= address);
        self.rows[..behind].last().filter(|row| !row.is_end && row.line > 0)
    }
}

/// Decodes one of LLVM's packed numbers, whose lowest bits give its length. Source: LLVM, `DebugInfoMetadata.h`.
fn unpacked(packed: u32) -> u32 {
    if packed & 1 == 1 {
        return 0;
    }
    let rest = packed >> 1;
    if rest & 0x20 == 0 { rest & 0x1f } else { (rest >> 1) & 0xfe0 | rest & 0x1f }
}

/// Returns the part of a discriminator after the first number.
fn behind_first(packed: u32) -> u32 {
    match packed {
        one if one & 1 == 1 => one >> 1,
        two if two & 0x40 == 0 => two >> 7,
        long => long >> 14,
    }
}

/// Returns the first number of an LLVM discriminator, which distinguishes several pieces of code of a line.
fn base(discriminator: u32) -> u32 {
    unpacked(discriminator)
}

/// Returns the second number, the copies of the code.
fn copies(discriminator: u32) -> u32 {
    unpacked(behind_first(discriminator)).max(1)
}

/// Reads the units one by one, and looks up names of functions across them.
struct InlineReader<'a> {
    dwarf: &'a Dwarf<DwarfBytes>,
    units: Vec<Unit<DwarfBytes>>,
    /// Offsets of the units, for references across them.
    offsets: Vec<(usize, usize)>,
    known: HashMap<(usize, UnitOffset), usize>,
    read: InlineFrames,
}

/// An entry with code.
struct DwarfEntry {
    /// Levels below the unit.
    depth: isize,
    is_inlined: bool,
    ranges: Vec<(u64, u64)>,
    offset: UnitOffset,
    line: u32,
    discriminator: u32,
}

type GimliResult<T> = std::result::Result<T, gimli::Error>;

impl<'a> InlineReader<'a> {
    fn new(dwarf: &'a Dwarf<DwarfBytes>) -> GimliResult<Self> {
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            units.push(dwarf.unit(header)?);
        }
        let offset = |unit: &Unit<DwarfBytes>| {
            unit.header.offset().as_debug_info_offset().map_or(usize::MAX, |at| at.0)
        };
        let mut offsets: Vec<(usize, usize)> =
            units.iter().enumerate().map(|(index, unit)| (offset(unit), index)).collect();
        offsets.sort_unstable();
        Ok(Self { dwarf, units, offsets, known: HashMap::new(), read: InlineFrames::default() })
    }

    fn read(mut self) -> GimliResult<InlineFrames> {
        for index in 0..self.units.len() {
            self.read_rows(index)?;
            self.read_functions(index)?;
        }
        // If an address has several rows, the last one applies; the end of a sequence yields to the beginning of
        // another.
        self.read.rows.sort_by_key(|row| (row.address, !row.is_end));
        let mut kept: Vec<LineRow> = Vec::with_capacity(self.read.rows.len());
        for row in self.read.rows {
            match kept.last_mut() {
                Some(last) if last.address == row.address => *last = row,
                _ => kept.push(row),
            }
        }
        self.read.rows = kept;
        self.read.ranges.sort_unstable();
        Ok(self.read)
    }

    fn read_rows(&mut self, index: usize) -> GimliResult<()> {
        let Some(program) = self.units[index].line_program.clone() else { return Ok(()) };
        let mut rows = program.rows();
        while let Some((_, row)) = rows.next_row()? {
            self.read.rows.push(LineRow {
                address: row.address(),
                line: row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
                discriminator: u32::try_from(row.discriminator()).unwrap_or(0),
                is_end: row.end_sequence(),
            });
        }
        Ok(())
    }

    fn read_functions(&mut self, index: usize) -> GimliResult<()> {
        // Entries are read before their functions are known, because the unit is borrowed meanwhile.
        let mut found: Vec<DwarfEntry> = Vec::new();
        let mut is_of_llvm = false;
        {
            let unit = &self.units[index];
            let mut entries = unit.entries();
            let mut depth = 0;
            while let Some((step, entry)) = entries.next_dfs()? {
                depth += step;
                let is_inlined = match entry.tag() {
                    gimli::DW_TAG_subprogram => false,
                    gimli::DW_TAG_inlined_subroutine => true,
                    gimli::DW_TAG_compile_unit => {
                        let producer = entry.attr_value(gimli::DW_AT_producer)?;
                        let producer = producer.and_then(|value| self.dwarf.attr_string(unit, value).ok());
                        let producer = producer
                            .and_then(|text| text.to_string_lossy().ok().map(|text| text.into_owned()));
                        is_of_llvm =
                            producer.is_some_and(|text| text.contains("clang") || text.contains("LLVM"));
                        continue;
                    }
                    _ => continue,
                };
                let mut ranges = Vec::new();
                let mut all = self.dwarf.die_ranges(unit, entry)?;
                while let Some(range) = all.next()? {
                    // Code that the linker dropped is at 0.
                    if range.begin < range.end && range.begin != 0 {
                        ranges.push((range.begin, range.end));
                    }
                }
                if ranges.is_empty() {
                    continue;
                }
                let number = |name| -> GimliResult<u32> {
                    let value = entry.attr_value(name)?.and_then(|value| value.udata_value());
                    Ok(value.and_then(|value| u32::try_from(value).ok()).unwrap_or(0))
                };
                let line = number(gimli::DW_AT_call_line)?;
                let discriminator = number(gimli::DW_AT_GNU_discriminator)?;
                found.push(DwarfEntry {
                    depth,
                    is_inlined,
                    ranges,
                    offset: entry.offset(),
                    line,
                    discriminator,
                });
            }
        }
        // Depths of the open inlined calls, below the function.
        let mut open: Vec<isize> = Vec::new();
        for DwarfEntry { depth, is_inlined, ranges, offset, line, discriminator } in found {
            let id = self.source(index, offset)?;
            if !is_inlined {
                let function = self.read.functions.len();
                self.read.ranges.extend(ranges.iter().map(|(begin, end)| (*begin, *end, function)));
                self.read.functions.push(InliningFunction { id, is_of_llvm, inlined: Vec::new() });
                open = vec![];
                continue;
            }
            open.retain(|above| *above < depth);
            let level = open.len();
            open.push(depth);
            if let Some(function) = self.read.functions.last_mut() {
                let inlined = Inlined { ranges, depth: level, function: id, line, discriminator };
                function.inlined.push(inlined);
            }
        }
        Ok(())
    }

    /// Returns the source of a function's entry: its name and first line, from this entry or the one that it refers to.
    fn source(&mut self, index: usize, offset: UnitOffset) -> GimliResult<usize> {
        if let Some(known) = self.known.get(&(index, offset)) {
            return Ok(*known);
        }
        let mut at = Some((index, offset));
        let (mut name, mut linkage, mut first_line) = (None, None, 0);
        for _ in 0..LONGEST_CHAIN {
            let Some((index, offset)) = at.take() else { break };
            let unit = &self.units[index];
            let entry = unit.entry(offset)?;
            let text = |value| -> Option<String> {
                let text = self.dwarf.attr_string(unit, value).ok()?;
                Some(text.to_string_lossy().ok()?.into_owned())
            };
            let value = |name| entry.attr_value(name);
            linkage = linkage.or(value(gimli::DW_AT_linkage_name)?.and_then(text));
            linkage = linkage.or(value(gimli::DW_AT_MIPS_linkage_name)?.and_then(text));
            name = name.or(value(gimli::DW_AT_name)?.and_then(text));
            if first_line == 0 {
                let line = value(gimli::DW_AT_decl_line)?.and_then(|line| line.udata_value());
                first_line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
            }
            at = self.referred(index, &entry)?;
        }
        let id = self.read.sources.len();
        let name = linkage.or(name).unwrap_or_default();
        self.read.sources.push(Subprogram { name, first_line });
        self.known.insert((index, offset), id);
        Ok(id)
    }

    /// The entry that describes a function further.
    fn referred(
        &self,
        index: usize,
        entry: &DebuggingInformationEntry<'_, '_, DwarfBytes>,
    ) -> GimliResult<Option<(usize, UnitOffset)>> {
        let origin = entry.attr_value(gimli::DW_AT_abstract_origin)?;
        let value = match origin {
            Some(value) => Some(value),
            None => entry.attr_value(gimli::DW_AT_specification)?,
        };
        Ok(match value {
            Some(AttributeValue::UnitRef(offset)) => Some((index, offset)),
            Some(AttributeValue::DebugInfoRef(DebugInfoOffset(offset))) => {
                let behind = self.offsets.partition_point(|(begin, _)| *begin <= offset);
                let unit = behind.checked_sub(1).map(|at| self.offsets[at].1);
                unit.and_then(|unit| {
                    let header = &self.units[unit].header;
                    Some((unit, DebugInfoOffset(offset).to_unit_offset(header)?))
                })
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3, as LLVM packs it; 3 with five copies; 40; and nothing with two copies.
    #[test]
    fn discriminators_of_llvm_have_two_numbers() {
        let short = |number: u32| number << 1;
        let rows = [
            (short(3) | 1 << 7, (3, 1)),
            (short(3) | short(5) << 7, (3, 5)),
            ((40 & 0x1f | 0x20 | (40 & 0xfe0) << 1) << 1, (40, 1)),
            (1 | short(2) << 1, (0, 2)),
            (0, (0, 1)),
        ];
        for (packed, expected) in rows {
            assert_eq!((base(packed), copies(packed)), expected, "{packed:#x}");
        }
    }
}
