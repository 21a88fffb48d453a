// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`BlockMap`]: which block of its function's control-flow graph the code at an address is of, by the line table of a program that was
//! compiled with sediment's plugin for GCC (`-fplugin-arg-sediment-blocks`).
//!
//! There the discriminator of a row is the number of a block, from 1. From 2^29 on, it is 13 bits of the number below 16 bits of
//! the block's signature. At the first block of a function it is 2^30 or more, and tells the hash of the graph.
//! gcc-plugin/blocks.cc is the writer.

use super::Files;
use super::source_lines::dwarf_of_file;
use crate::error::{Error, ErrorCode, Result};

/// Discriminators from here on are hashes of graphs.
const NAMES_GRAPH: u32 = 1 << 30;
/// Below that, discriminators from here on have a signature above the block's number.
const HAS_SIGNATURE: u32 = 1 << 29;
/// Bits of the number where there is a signature.
const NUMBER_BITS: u32 = 13;
/// Stands for the discriminator behind the end of a sequence; none is as large.
const END: u32 = u32::MAX;

/// Code from one address to the next row's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    address: u64,
    /// [`END`] behind the end of a sequence.
    discriminator: u32,
}

/// Blocks by address.
#[derive(Debug, Clone, Default)]
pub struct BlockMap(Vec<Row>);

impl BlockMap {
    /// Reads the line table of an ELF file, or of its separate debug file; None where it names no graph.
    ///
    /// # Errors
    /// When it is there and damaged, or compressed in a way that is not read here.
    pub fn read(bytes: &[u8], files: &dyn Files) -> Result<Option<Self>> {
        let Some(dwarf) = dwarf_of_file(bytes, files)? else { return Ok(None) };
        let damaged = |error: gimli::Error| {
            Error::new(ErrorCode::Damaged, format!("the line table is damaged: {error}"))
        };
        let mut rows = Vec::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next().map_err(damaged)? {
            let unit = dwarf.unit(header).map_err(damaged)?;
            let Some(program) = unit.line_program.clone() else { continue };
            let begin = rows.len();
            let mut lines = program.rows();
            while let Some((_, row)) = lines.next_row().map_err(damaged)? {
                let told = u32::try_from(row.discriminator()).map_or(END - 1, |told| told.min(END - 1));
                let discriminator = if row.end_sequence() { END } else { told };
                rows.push(Row { address: row.address(), discriminator });
            }
            // Other units' discriminators are no blocks, and a program has many rows.
            if !rows[begin..].iter().any(|row| hash(row.discriminator).is_some()) {
                rows.truncate(begin);
            }
        }
        if rows.is_empty() {
            return Ok(None);
        }
        // Of several rows of one address the last counts; the end of what lies before it is none.
        rows.sort_by_key(|row| (row.address, row.discriminator != END));
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
        self.rows(start, end).iter().find_map(|row| hash(row.discriminator))
    }

    /// The numbers of the blocks that have code between the two, as far as rows tell.
    pub fn blocks(&self, start: u64, end: u64) -> impl Iterator<Item = u32> {
        self.rows(start, end).iter().filter_map(|row| number(row.discriminator))
    }

    /// Numbers of blocks with the bytes of each of their pieces between the two.
    pub(crate) fn extents(&self, start: u64, end: u64) -> impl Iterator<Item = (u32, u64)> {
        let rows = self.rows(start, end);
        let ends = rows.iter().skip(1).map(|row| row.address).chain([end]);
        let bytes = move |(row, end): (&Row, u64)| Some((number(row.discriminator)?, end - row.address));
        rows.iter().zip(ends).filter_map(bytes)
    }

    /// Numbers of blocks with their signatures, for the code between the two; a block once for each of its pieces.
    pub fn signatures(&self, start: u64, end: u64) -> impl Iterator<Item = (u32, u16)> {
        let signed = |row: &Row| Some((number(row.discriminator)?, signature(row.discriminator)?));
        self.rows(start, end).iter().filter_map(signed)
    }

    /// Number of the block that the code at an address belongs to, in the function or part of it that begins at `start`. Code in front of a
    /// function's first numbered row is its prologue, and part of its first block.
    #[must_use]
    pub(crate) fn block_at(&self, start: u64, address: u64, is_cold_part: bool) -> Option<u32> {
        let next = self.0.partition_point(|row| row.address <= address);
        match self.0[next.checked_sub(1)?].discriminator {
            0 => {
                let is_numbered = |row: &Row| number(row.discriminator).is_some();
                let is_prologue = !is_cold_part && !self.rows(start, address).iter().any(is_numbered);
                is_prologue.then_some(1)
            }
            discriminator => number(discriminator),
        }
    }
}

/// The hash of a graph that a discriminator names.
fn hash(discriminator: u32) -> Option<u32> {
    discriminator.checked_sub(NAMES_GRAPH).filter(|hash| *hash < NAMES_GRAPH)
}

/// The block of a discriminator.
fn number(discriminator: u32) -> Option<u32> {
    match discriminator {
        0 => None,
        1..HAS_SIGNATURE => Some(discriminator),
        HAS_SIGNATURE..NAMES_GRAPH => Some(discriminator & ((1 << NUMBER_BITS) - 1)),
        _ => hash(discriminator).map(|_| 1),
    }
}

/// The signature of the block of a discriminator.
fn signature(discriminator: u32) -> Option<u16> {
    let signed = (HAS_SIGNATURE..NAMES_GRAPH).contains(&discriminator);
    signed.then(|| ((discriminator - HAS_SIGNATURE) >> NUMBER_BITS) as u16)
}
