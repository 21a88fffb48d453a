// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts which block followed which.
//!
//! Most blocks have one or two successors. Each block keeps its last two with their counts, so that most executions
//! cost one comparison. When a third one comes, the count of the second goes to the table of all pairs.

use super::Unplaced;
use crate::read::AddressId;
use sediment_core::counts::Counts;
use std::hash::{BuildHasher, RandomState};

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct TracedBlock {
    address: u64,
    place: Result<AddressId, Unplaced>,
    /// Number of the set of mappings that the address belongs to.
    era: u32,
    next: [Successor; 2],
}

/// A successor of a block, and the number of times since its count was put into the table.
#[derive(Debug, Clone, Copy)]
struct Successor {
    block: u32,
    count: u32,
}

const NEVER: Successor = Successor { block: NONE, count: 0 };

/// Blocks by address, and their successors.
#[derive(Debug)]
pub(super) struct BlockSuccessors {
    blocks: Vec<TracedBlock>,
    /// Hash table of the blocks of this era by address; [`NONE`] if empty.
    by_address: Vec<u32>,
    used: usize,
    factor: u64,
    era: u32,
    pairs: Counts,
    /// First blocks of threads.
    starts: Vec<u32>,
}

const SMALLEST: usize = 256;

impl Default for BlockSuccessors {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            by_address: vec![NONE; SMALLEST],
            used: 0,
            // Random, so that nobody can choose where the addresses of a file fall.
            factor: RandomState::new().hash_one(0u8) | 1,
            era: 0,
            pairs: Counts::default(),
            starts: Vec::new(),
        }
    }
}

/// Result of [`BlockSuccessors::into_counts`]: addresses by block, counts of transfers from block to block, first
/// blocks.
type CountsOfBlocks = (Vec<Result<AddressId, Unplaced>>, Vec<(u32, u32, u64)>, Vec<u32>);

impl BlockSuccessors {
    /// Number of blocks, including those of former eras.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Number of executions without a predecessor.
    pub(super) fn starts(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Finds the block at an address, which runs after `previous`; `None` if it is new.
    #[inline]
    pub(super) fn follow(
        &mut self,
        previous: Option<u32>,
        address: u64,
    ) -> Option<(u32, Result<AddressId, Unplaced>)> {
        if let Some(previous) = previous {
            let next = self.blocks[previous as usize].next;
            for (position, next) in next.into_iter().enumerate() {
                if let Some(&block) = self.blocks.get(next.block as usize) {
                    if block.address == address && block.era == self.era && next.count < u32::MAX {
                        self.blocks[previous as usize].next[position].count += 1;
                        return Some((next.block, block.place));
                    }
                }
            }
        }
        let block = self.find(address)?;
        self.count(previous, block);
        Some((block, self.blocks[block as usize].place))
    }

    /// Adds a new block at this address, which runs after `previous`.
    pub(super) fn add(
        &mut self,
        previous: Option<u32>,
        address: u64,
        place: Result<AddressId, Unplaced>,
    ) -> u32 {
        let block = self.blocks.len() as u32;
        self.blocks.push(TracedBlock { address, place, era: self.era, next: [NEVER; 2] });
        if (self.used + 1) * 2 > self.by_address.len() {
            let length = self.by_address.len() * 2;
            let old = std::mem::replace(&mut self.by_address, vec![NONE; length]);
            for block in old.into_iter().filter(|block| *block != NONE) {
                self.insert(block);
            }
        }
        self.insert(block);
        self.used += 1;
        self.count(previous, block);
        block
    }

    /// From here on, addresses denote other code.
    pub(super) fn forget_addresses(&mut self) {
        self.by_address = vec![NONE; SMALLEST];
        self.used = 0;
        self.era += 1;
    }

    /// Returns the addresses of the blocks, the counts of successors, and the first blocks.
    pub(super) fn into_counts(mut self) -> CountsOfBlocks {
        for (number, block) in self.blocks.iter().enumerate() {
            for next in block.next {
                self.pairs.add(Counts::pair(number as u32, next.block), u64::from(next.count));
            }
        }
        let addresses = self.blocks.iter().map(|block| block.place).collect();
        let passages = self.pairs.into_sorted().into_iter().map(|(pair, count)| {
            let (from, to) = Counts::of_pair(pair);
            (from, to, count)
        });
        (addresses, passages.collect(), self.starts)
    }

    fn count(&mut self, previous: Option<u32>, block: u32) {
        let Some(previous) = previous else {
            self.starts.push(block);
            return;
        };
        let next = &mut self.blocks[previous as usize].next;
        let away = next[1];
        next[1] = next[0];
        next[0] = Successor { block, count: 1 };
        self.pairs.add(Counts::pair(previous, away.block), u64::from(away.count));
    }

    fn find(&self, address: u64) -> Option<u32> {
        let mut at = self.home(address);
        loop {
            match self.by_address[at] {
                NONE => return None,
                block if self.blocks[block as usize].address == address => return Some(block),
                _ => at = (at + 1) & (self.by_address.len() - 1),
            }
        }
    }

    fn insert(&mut self, block: u32) {
        let mut at = self.home(self.blocks[block as usize].address);
        while self.by_address[at] != NONE {
            at = (at + 1) & (self.by_address.len() - 1);
        }
        self.by_address[at] = block;
    }

    fn home(&self, address: u64) -> usize {
        let product = u128::from(address ^ self.factor) * u128::from(self.factor);
        ((product as u64) ^ ((product >> 64) as u64)) as usize & (self.by_address.len() - 1)
    }
}
