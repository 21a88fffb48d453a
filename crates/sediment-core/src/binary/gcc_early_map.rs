// SPDX-License-Identifier: MIT OR Apache-2.0
//! The early map of sediment's plugin for GCC (`-fplugin-arg-sediment-early-ids`), the section `.debug.sediment_early`:
//! from which source statements the code at an address was compiled, and the control-flow graphs of these statements
//! before inlining. gcc-plugin/early.cc and gcc-plugin/early_graph.cc are the writers.
//!
//! The section has records. Each begins with its version, a byte, 2; its kind, a byte; and the key of its unit, 8 bytes. Numbers without a
//! stated size are ULEB128, others are in the file's order of bytes.
//!
//! - Kind 1, a unit: the number of the bytes that follow; base name of its source; checksum of its functions; number of its functions; and for each of
//!   them its name, a byte that is 1 if it is local, checksum of its line and of its graph, 4 bytes each in little-endian order, number of its blocks, and for
//!   each block but the exit its number, its statements and its edges. Statements are ranges: how many, and for each its first statement and
//!   their number. Edges: how many, and for each the number of the block it leads to times 4, plus 1 if GCC counts its executions, plus 2 if
//!   it stands for a call that does not return. Block 0 is the function's entry, block 1 its exit. Names end with a zero byte.
//! - Kind 2, the code of a function: the count of its ranges, and for each its address, the count of its pieces, and for each piece its
//!   bytes, the count of its statements, and each statement id as (difference to the previous id) × 4 + flags. Flag 1: the statement is
//!   firm there (its call, jump or store is there); flag 2: it is a `switch`. If a linker dropped a function, the address of its range is 0
//!   or -1.

use super::Files;
use super::debug_data::in_file_or_debug_file;
use super::section::{SectionNumbers, unpacked};
use crate::error::{Error, ErrorCode, Result};
use crate::unpack;
use std::collections::BTreeMap;

const SECTION: &str = ".debug.sediment_early";
const VERSION: u8 = 2;

/// An edge of a control-flow graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlyEdge {
    /// Number of the block that it leads from.
    pub from: u32,
    /// Number of the block that it leads to.
    pub to: u32,
    /// GCC's instrumentation counts its executions.
    pub is_counted: bool,
    /// Represents a call that does not return, or a jump from another function.
    pub is_fake: bool,
}

/// Graph of a function before inlining.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyGraph {
    /// Linkage name.
    pub name: Vec<u8>,
    /// Other units may have another function of this name.
    pub is_local: bool,
    /// Checksum of its place in the source file.
    pub line: u32,
    /// Checksum of the graph.
    pub graph: u32,
    /// Number of its blocks.
    pub blocks: u32,
    /// Ranges of statements: the first, their number, and their block.
    pub statements: Vec<(u32, u32, u32)>,
    /// Edges in GCC's order.
    pub edges: Vec<EarlyEdge>,
}

/// Graphs of the functions of a compilation unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyUnit {
    /// Base name of its source file.
    pub name: Vec<u8>,
    /// Checksum of its functions.
    pub functions: u32,
    /// The graphs of its functions.
    pub graphs: Vec<EarlyGraph>,
}

/// Code of one final block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyCode {
    /// Address as linked.
    pub address: u64,
    /// Bytes of code.
    pub size: u64,
    /// Key of its unit.
    pub unit: u64,
    /// Number of the function's record in the map.
    pub function: u32,
    /// The statements that it was compiled from, in the order of their numbers.
    pub statements: Vec<EarlyStatement>,
}

/// A statement of the code of a final block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlyStatement {
    /// Its number in the unit.
    pub number: u32,
    /// The code has its call, jump or store: it was not moved there from a place that is executed less often.
    pub is_firm: bool,
    /// It chooses among several ways, and may have code in several blocks for that.
    pub is_switch: bool,
}

/// The early map of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EarlyMap {
    /// Units by their key.
    pub units: BTreeMap<u64, EarlyUnit>,
    /// Code by address.
    pub code: Vec<EarlyCode>,
    /// Number of functions with code.
    functions: u32,
}

impl EarlyMap {
    /// Reads the map of an ELF file, or of its separate debug file; `None` if it has none.
    ///
    /// # Errors
    /// [`ErrorCode::Damaged`] when the map is damaged, with the offset of the record; [`ErrorCode::NewerVersion`] when it is of another
    /// version; those of a compressed section.
    pub fn read(bytes: &[u8], files: &dyn Files) -> Result<Option<Self>> {
        in_file_or_debug_file(bytes, files, Self::read_file)
    }

    fn read_file(bytes: &[u8]) -> Result<Option<Self>> {
        let damaged =
            |why: &str| Error::new(ErrorCode::Damaged, format!("the early map {SECTION} is damaged: {why}"));
        let file = object::File::parse(bytes).map_err(|error| damaged(&error.to_string()))?;
        let mut budget = unpack::DEBUG_SECTIONS.of(bytes.len() as u64);
        let Some(data) = unpacked(&file, SECTION, &mut budget)? else { return Ok(None) };
        let mut numbers = SectionNumbers::of(&data, &file);
        let mut map = Self::default();
        while let Some(version) = numbers.byte() {
            let at = data.len() - numbers.rest.len() - 1;
            if version != VERSION {
                return Err(Error::new(
                    ErrorCode::NewerVersion,
                    format!("unsupported version {version} of the early map {SECTION} at offset {at:#x}"),
                )
                .with_hint("update sediment to the version of the plugin for GCC that compiled this file"));
            }
            map.add_record(&mut numbers)
                .ok_or_else(|| damaged(&format!("the record at offset {at:#x} is invalid")))?;
        }
        map.code.sort_by_key(|code| (code.address, code.size));
        map.code.dedup_by_key(|code| code.address);
        Ok(Some(map))
    }

    /// Reads a record after its version.
    fn add_record(&mut self, numbers: &mut SectionNumbers<'_>) -> Option<()> {
        let kind = numbers.byte()?;
        let key = numbers.number(8)?;
        match kind {
            1 => {
                numbers.uleb()?;
                self.units.insert(key, unit(numbers)?);
            }
            2 => self.add_code(key, numbers)?,
            _ => return None,
        }
        Some(())
    }

    fn add_code(&mut self, unit: u64, numbers: &mut SectionNumbers<'_>) -> Option<()> {
        let function = self.functions;
        self.functions = function.checked_add(1)?;
        for _ in 0..numbers.uleb()? {
            let mut address = numbers.address()?;
            let is_dropped = [0, u64::from(u32::MAX), u64::MAX].contains(&address);
            for _ in 0..numbers.uleb()? {
                let size = numbers.uleb()?;
                let mut statements = Vec::new();
                for _ in 0..numbers.uleb()? {
                    let before = statements.last().map_or(0, |statement: &EarlyStatement| statement.number);
                    let packed = numbers.uleb()?;
                    let number = before.checked_add(u32::try_from(packed >> 2).ok()?)?;
                    let (is_firm, is_switch) = (packed & 1 != 0, packed & 2 != 0);
                    statements.push(EarlyStatement { number, is_firm, is_switch });
                }
                if !is_dropped {
                    self.code.push(EarlyCode { address, size, unit, function, statements });
                    address = address.checked_add(size)?;
                }
            }
        }
        Some(())
    }

    /// The final block whose code is at an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<usize> {
        let place = self.code.partition_point(|code| code.address <= address).checked_sub(1)?;
        (address - self.code[place].address < self.code[place].size).then_some(place)
    }
}

fn small(numbers: &mut SectionNumbers<'_>) -> Option<u32> {
    u32::try_from(numbers.uleb()?).ok()
}

fn name(numbers: &mut SectionNumbers<'_>) -> Option<Vec<u8>> {
    let end = memchr::memchr(0, numbers.rest)?;
    let name = numbers.rest[..end].to_vec();
    numbers.rest = &numbers.rest[end + 1..];
    Some(name)
}

/// A number of 4 bytes in little-endian order.
fn word(numbers: &mut SectionNumbers<'_>) -> Option<u32> {
    let (bytes, rest) = numbers.rest.split_first_chunk::<4>()?;
    numbers.rest = rest;
    Some(u32::from_le_bytes(*bytes))
}

fn unit(numbers: &mut SectionNumbers<'_>) -> Option<EarlyUnit> {
    let mut unit = EarlyUnit { name: name(numbers)?, functions: small(numbers)?, graphs: Vec::new() };
    for _ in 0..numbers.uleb()? {
        unit.graphs.push(graph(numbers)?);
    }
    Some(unit)
}

fn graph(numbers: &mut SectionNumbers<'_>) -> Option<EarlyGraph> {
    let name = name(numbers)?;
    let is_local = numbers.byte()? == 1;
    let (line, checksum, blocks) = (word(numbers)?, word(numbers)?, small(numbers)?);
    let mut graph = EarlyGraph {
        name,
        is_local,
        line,
        graph: checksum,
        blocks,
        statements: Vec::new(),
        edges: Vec::new(),
    };
    // Each block but the exit has bytes of its own.
    if blocks < 2 || blocks as usize > numbers.rest.len() + 1 {
        return None;
    }
    for _ in 0..blocks - 1 {
        let block = small(numbers)?;
        for _ in 0..numbers.uleb()? {
            let (first, number) = (small(numbers)?, small(numbers)?);
            first.checked_add(number)?;
            graph.statements.push((first, number, block));
        }
        for _ in 0..numbers.uleb()? {
            let packed = small(numbers)?;
            let edge = EarlyEdge {
                from: block,
                to: packed >> 2,
                is_counted: packed & 1 != 0,
                is_fake: packed & 2 != 0,
            };
            graph.edges.push(edge);
            if edge.from >= blocks || edge.to >= blocks {
                return None;
            }
        }
    }
    Some(graph)
}
