// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`BlockMap`]: which block of its function's control-flow graph the code at an address is of, by the line table of a program that was
//! compiled with sediment's plugin for GCC (`-fplugin-arg-sediment-blocks`), or by clang's own map ([`bb_addr_map`]).
//!
//! In the line table the discriminator of a row is the number of a block, from 1. From 2^29 on, it is 13 bits of the number below 16 bits of
//! the block's signature. At the first block of a function it is 2^30 or more, and tells the hash of the graph.
//! gcc-plugin/blocks.cc is the writer.

use super::Files;
use super::bb_addr_map::{self, MappedFunction};
use super::source_lines::{dwarf_of, in_file_or_debug_file};
use crate::error::{Error, ErrorCode, Result};
use crate::profile::blocks::OF_CLANG;

/// Discriminators from here on are hashes of graphs.
const NAMES_GRAPH: u32 = 1 << 30;
/// Below that, discriminators from here on have a signature above the block's number.
const HAS_SIGNATURE: u32 = 1 << 29;
/// Bits of the number where there is a signature.
const NUMBER_BITS: u32 = 13;

/// Code from one address to the next row's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    address: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Behind the end of a sequence.
    End,
    /// Code without a number.
    Unnumbered,
    /// Code of a block, of which a signature may be known.
    Block(u32, Option<u16>),
    /// Code of the first block, with the hash of the graph.
    First(u32),
}

/// Blocks by address.
#[derive(Debug, Clone, Default)]
pub struct BlockMap(Vec<Row>);

impl BlockMap {
    /// Reads the map of an ELF file, or of its separate debug file; None where it numbers no blocks.
    ///
    /// # Errors
    /// When it is there and damaged, of a newer version, or compressed in a way that is not read here.
    pub fn read(bytes: &[u8], files: &dyn Files) -> Result<Option<Self>> {
        in_file_or_debug_file(bytes, files, Self::read_file)
    }

    /// Reads the map of one file.
    fn read_file(bytes: &[u8]) -> Result<Option<Self>> {
        let mut rows = Vec::new();
        if let Some(dwarf) = dwarf_of(bytes)? {
            add_lines(&mut rows, &dwarf).map_err(|error| {
                Error::new(ErrorCode::Damaged, format!("the line table is damaged: {error}"))
            })?;
        }
        for function in bb_addr_map::read(bytes)?.unwrap_or_default() {
            add_function(&mut rows, &function);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        // Of several rows of one address the last counts; the end of what lies before it is none.
        rows.sort_by_key(|row| (row.address, row.kind != Kind::End));
        let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
        for row in rows {
            match kept.last_mut().filter(|last| last.address == row.address) {
                Some(last) => *last = row,
                None => kept.push(row),
            }
        }
        Ok(Some(Self(kept)))
    }

    /// The rows that begin within a stretch of code.
    fn rows(&self, start: u64, end: u64) -> &[Row] {
        let at = |address: u64| self.0.partition_point(|row| row.address < address);
        &self.0[at(start)..at(end).max(at(start))]
    }

    /// The hash of the graph of the function whose code begins at `start` and ends before `end`.
    #[must_use]
    pub fn graph(&self, start: u64, end: u64) -> Option<u32> {
        self.rows(start, end).iter().find_map(|row| match row.kind {
            Kind::First(hash) => Some(hash),
            _ => None,
        })
    }

    /// The numbers of the blocks that have code between the two, as far as rows tell.
    pub fn blocks(&self, start: u64, end: u64) -> impl Iterator<Item = u32> {
        self.rows(start, end).iter().filter_map(|row| row.kind.block())
    }

    /// Numbers of blocks with the bytes of each of their pieces between the two.
    pub(crate) fn extents(&self, start: u64, end: u64) -> impl Iterator<Item = (u32, u64)> {
        let rows = self.rows(start, end);
        let ends = rows.iter().skip(1).map(|row| row.address).chain([end]);
        let bytes = move |(row, end): (&Row, u64)| Some((row.kind.block()?, end - row.address));
        rows.iter().zip(ends).filter_map(bytes)
    }

    /// Numbers of blocks with their signatures, for the code between the two; a block once for each of its pieces.
    pub fn signatures(&self, start: u64, end: u64) -> impl Iterator<Item = (u32, u16)> {
        self.rows(start, end).iter().filter_map(|row| match row.kind {
            Kind::Block(block, Some(signature)) => Some((block, signature)),
            _ => None,
        })
    }

    /// Number of the block that the code at an address belongs to, in the function or part of it that begins at `start`. Code in front of a
    /// function's first numbered row is its prologue, and part of its first block.
    #[must_use]
    pub(crate) fn block_at(&self, start: u64, address: u64, is_cold_part: bool) -> Option<u32> {
        let next = self.0.partition_point(|row| row.address <= address);
        match self.0[next.checked_sub(1)?].kind {
            Kind::Unnumbered => {
                let is_numbered = |row: &Row| row.kind.block().is_some();
                let is_prologue = !is_cold_part && !self.rows(start, address).iter().any(is_numbered);
                is_prologue.then_some(1)
            }
            kind => kind.block(),
        }
    }
}

impl Kind {
    /// The meaning of a discriminator.
    fn of(discriminator: u64) -> Self {
        let low = |bits: u32| u32::try_from(discriminator & ((1 << bits) - 1)).unwrap_or_default();
        match discriminator {
            0 => Self::Unnumbered,
            _ if discriminator < u64::from(HAS_SIGNATURE) => Self::Block(low(29), None),
            _ if discriminator < u64::from(NAMES_GRAPH) => {
                Self::Block(low(NUMBER_BITS), u16::try_from(low(29) >> NUMBER_BITS).ok())
            }
            _ if discriminator < 2 * u64::from(NAMES_GRAPH) => Self::First(low(30)),
            _ => Self::Unnumbered,
        }
    }

    fn block(self) -> Option<u32> {
        match self {
            Self::Block(block, _) => Some(block),
            Self::First(_) => Some(1),
            Self::End | Self::Unnumbered => None,
        }
    }
}

/// Adds the rows of a line table that names graphs.
fn add_lines<R: gimli::Reader>(rows: &mut Vec<Row>, dwarf: &gimli::Dwarf<R>) -> gimli::Result<()> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let Some(program) = unit.line_program.clone() else { continue };
        let begin = rows.len();
        let mut lines = program.rows();
        while let Some((_, row)) = lines.next_row()? {
            let kind = if row.end_sequence() { Kind::End } else { Kind::of(row.discriminator()) };
            rows.push(Row { address: row.address(), kind });
        }
        // Other units' discriminators are no blocks, and a program has many rows.
        if !rows[begin..].iter().any(|row| matches!(row.kind, Kind::First(_))) {
            rows.truncate(begin);
        }
    }
    Ok(())
}

/// Adds the blocks of a function that clang mapped: its entry, id 0, is number 1. A block's signature is its place in the code, from 0.
fn add_function(rows: &mut Vec<Row>, function: &MappedFunction) {
    let graph = graph_of(function);
    for (place, block) in function.iter().enumerate() {
        let kind = match block.id {
            0 => Kind::First(graph),
            id => Kind::Block(id.saturating_add(1), u16::try_from(place).ok()),
        };
        rows.push(Row { address: block.address, kind });
        rows.push(Row { address: block.address.saturating_add(block.size), kind: Kind::End });
    }
}

/// Hash of what a map tells of a function's graph: FNV-1a over ids and properties in the order of the code.
fn graph_of(function: &MappedFunction) -> u32 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    for value in function.iter().flat_map(|block| [block.id, block.properties]) {
        for byte in value.to_le_bytes() {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let folded = sum ^ sum >> 32;
    u32::try_from(folded & u64::from(OF_CLANG - 1)).unwrap_or_default() | OF_CLANG
}
