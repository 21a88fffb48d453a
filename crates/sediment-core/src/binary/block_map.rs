// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`BlockMap`]: to which block of its function's control-flow graph the code at an address belongs, by the map of sediment's plugin for
//! GCC ([`gcc_block_map`]), or by clang's own ([`bb_addr_map`]).

use super::bb_addr_map;
use super::gcc_block_map::{self, Stretch, WhyWhole};
use super::{Files, debug_data::in_file_or_debug_file};
use crate::error::Result;
use crate::profile::blocks::OF_CLANG;
use std::collections::BTreeMap;

/// Code from one address to the next row's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockRow {
    address: u64,
    /// Number of its block; None if there is no code here, or the block is unknown.
    block: Option<u32>,
}

/// The control-flow graph of a function.
#[derive(Debug, Clone, Default)]
struct ControlFlowGraph {
    hash: u32,
    why_whole: Option<WhyWhole>,
    /// Numbers of blocks with their signatures.
    signatures: Vec<(u32, u16)>,
}

/// Blocks by address.
#[derive(Debug, Clone, Default)]
pub struct BlockMap {
    /// By address, one for each.
    rows: Vec<BlockRow>,
    /// By the address of the function's beginning.
    graphs: BTreeMap<u64, ControlFlowGraph>,
}

impl BlockMap {
    /// Reads the map of an ELF file, or of its separate debug file; `None` if it numbers no blocks.
    ///
    /// # Errors
    /// If it is damaged, has a newer version, or is compressed in an unsupported way.
    pub fn read(bytes: &[u8], files: &dyn Files) -> Result<Option<Self>> {
        in_file_or_debug_file(bytes, files, Self::read_file)
    }

    /// Reads the map of one file.
    fn read_file(bytes: &[u8]) -> Result<Option<Self>> {
        let mut map = Self::default();
        for function in gcc_block_map::read(bytes)?.unwrap_or_default() {
            let signatures = (1..).zip(function.signatures).skip(1).collect();
            let graph = ControlFlowGraph { hash: function.graph, why_whole: function.why_whole, signatures };
            map.add(graph, &function.code);
        }
        for function in bb_addr_map::read(bytes)?.unwrap_or_default() {
            map.add_of_clang(&function);
        }
        if map.graphs.is_empty() {
            return Ok(None);
        }
        // If several rows have the same address, the last one is used; the end mark of the preceding code is not used.
        map.rows.sort_by_key(|row| (row.address, row.block.is_some()));
        map.rows.reverse();
        map.rows.dedup_by_key(|row| row.address);
        map.rows.reverse();
        Ok(Some(map))
    }

    /// Adds a function; its first stretch contains its entry. If functions share code, the first function counts.
    fn add(&mut self, graph: ControlFlowGraph, code: &[Stretch]) {
        let Some(first) = code.first() else { return };
        self.graphs.entry(first.address).or_insert(graph);
        for stretch in code {
            self.rows.push(BlockRow { address: stretch.address, block: stretch.block });
            self.rows.push(BlockRow { address: stretch.address.saturating_add(stretch.size), block: None });
        }
    }

    /// Adds the blocks of a function that clang mapped: its entry, id 0, is number 1. A block's signature is its place in the code, from 0.
    fn add_of_clang(&mut self, function: &bb_addr_map::BlockAddresses) {
        let number = |id: u32| id.saturating_add(1);
        let signature = |(place, block): (usize, &bb_addr_map::MappedBlock)| {
            let place = u16::try_from(place).ok().filter(|_| block.id > 0)?;
            Some((number(block.id), place))
        };
        let signatures = function.iter().enumerate().filter_map(signature).collect();
        let graph = ControlFlowGraph { hash: graph_of(function), why_whole: None, signatures };
        self.add(graph, &code_of_clang(function));
    }

    /// The rows that begin within a stretch of code.
    fn rows(&self, start: u64, end: u64) -> &[BlockRow] {
        let at = |address: u64| self.rows.partition_point(|row| row.address < address);
        &self.rows[at(start)..at(end).max(at(start))]
    }

    /// The graph of the function whose code begins at `start` and ends before `end`.
    fn graph_at(&self, start: u64, end: u64) -> Option<&ControlFlowGraph> {
        self.graphs.range(start..end.max(start)).next().map(|(_, graph)| graph)
    }

    /// The hash of the graph of the function whose code begins at `start` and ends before `end`.
    #[must_use]
    pub fn graph(&self, start: u64, end: u64) -> Option<u32> {
        self.graph_at(start, end).map(|graph| graph.hash)
    }

    /// Why the function whose code begins at `start` and ends before `end` stays whole, as far as its map says so.
    #[must_use]
    pub fn why_whole(&self, start: u64, end: u64) -> Option<WhyWhole> {
        self.graph_at(start, end)?.why_whole
    }

    /// Numbers of the blocks of the function whose code begins at `start` and ends before `end`, with their signatures.
    pub fn signatures(&self, start: u64, end: u64) -> impl Iterator<Item = (u32, u16)> {
        self.graph_at(start, end).into_iter().flat_map(|graph| &graph.signatures).copied()
    }

    /// The numbers of the blocks that have code between the two.
    pub fn blocks(&self, start: u64, end: u64) -> impl Iterator<Item = u32> {
        self.rows(start, end).iter().filter_map(|row| row.block)
    }

    /// Numbers of blocks with the bytes of each of their pieces between the two.
    pub fn extents(&self, start: u64, end: u64) -> impl Iterator<Item = (u32, u64)> {
        let rows = self.rows(start, end);
        let ends = rows.iter().skip(1).map(|row| row.address).chain([end]);
        let bytes = move |(row, end): (&BlockRow, u64)| Some((row.block?, end - row.address));
        rows.iter().zip(ends).filter_map(bytes)
    }

    /// Number of the block that the code at an address belongs to.
    #[must_use]
    pub fn block_at(&self, address: u64) -> Option<u32> {
        let next = self.rows.partition_point(|row| row.address <= address);
        self.rows[next.checked_sub(1)?].block
    }
}

/// Returns the code of a function from clang's map, entry first. In memory the entry may come after blocks of the cold
/// part.
fn code_of_clang(function: &bb_addr_map::BlockAddresses) -> Vec<Stretch> {
    let stretch = |block: &bb_addr_map::MappedBlock| Stretch {
        address: block.address,
        size: block.size,
        block: Some(block.id.saturating_add(1)),
    };
    let mut code: Vec<Stretch> = function.iter().map(stretch).collect();
    let entry = function.iter().position(|block| block.id == 0).unwrap_or(0);
    code.rotate_left(entry);
    code
}

/// Returns the hash of a function's graph from its map: FNV-1a over ids and properties in the order of the code.
fn graph_of(function: &bb_addr_map::BlockAddresses) -> u32 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    for value in function.iter().flat_map(|block| [block.id, block.properties]) {
        for byte in value.to_le_bytes() {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let folded = sum ^ sum >> 32;
    u32::try_from(folded & u64::from(OF_CLANG - 1)).unwrap_or_default() | OF_CLANG
}
