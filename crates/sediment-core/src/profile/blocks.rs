// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`BlockCounts`]: execution counts of a function's basic blocks, grouped by the control-flow graph in which a
//! compiler numbered them.
//!
//! One function may have several graphs from different builds. The text of the attribute `blocks` has for each graph
//! its hash in hexadecimal, a colon and its blocks: `3=120` for an executed block and `5=?` for a block whose count
//! cannot be known. Graphs are separated by `; `, the heaviest first (docs/background/profile-details.md). A block that
//! is not listed was not executed. The block's signature may follow, as in `3=120@a07f`.

use super::arithmetic::integer;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// Bit that is set in hashes of graphs numbered by clang, and clear in hashes by sediment's plugin for GCC.
pub const OF_CLANG: u32 = 1 << 31;

/// Unit of the counts of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockUnit {
    /// Executions.
    #[default]
    Executions,
    /// Samples of a profiler.
    Samples,
}

/// Block counts of one control-flow graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GraphCounts {
    /// Numbers and counts (above 0) of executed blocks, ascending.
    pub seen: Vec<(u32, u128)>,
    /// Numbers of blocks whose count cannot be known, ascending.
    pub unknown: Vec<u32>,
    /// Signatures of blocks, executed or not: with a signature, a compiler finds the block in a changed graph.
    /// Ascending.
    pub signatures: Vec<(u32, u16)>,
}

impl GraphCounts {
    /// Count of a block; 0 also if it is unknown.
    #[must_use]
    pub fn count(&self, block: u32) -> u128 {
        self.seen.binary_search_by_key(&block, |(seen, _)| *seen).map_or(0, |at| self.seen[at].1)
    }

    /// True if a block is known not to have run.
    #[must_use]
    pub fn is_zero(&self, block: u32) -> bool {
        self.count(block) == 0 && self.unknown.binary_search(&block).is_err()
    }

    /// Sum of the counts; `None` if it exceeds 128 bits.
    #[must_use]
    pub fn sum(&self) -> Option<u128> {
        self.seen.iter().try_fold(0u128, |sum, (_, count)| sum.checked_add(*count))
    }

    /// Normalizes the added data: ascending, each number once, counts added up. `None` if a count exceeds 128 bits.
    fn tidied(mut self) -> Option<Self> {
        self.seen.retain(|(_, count)| *count > 0);
        self.seen.sort_unstable();
        let mut fits = true;
        self.seen.dedup_by(|next, sum| {
            let same = next.0 == sum.0;
            if same {
                let added = sum.1.checked_add(next.1);
                fits &= added.is_some();
                sum.1 = added.unwrap_or(u128::MAX);
            }
            same
        });
        let seen = &self.seen;
        self.unknown.sort_unstable();
        self.unknown.dedup();
        self.unknown.retain(|block| seen.binary_search_by_key(block, |(seen, _)| *seen).is_err());
        // The lower of two signatures is kept, so that the order of inputs does not matter.
        self.signatures.sort_unstable();
        self.signatures.dedup_by_key(|(block, _)| *block);
        fits.then_some(self)
    }
}

/// Counts of a function's blocks, by the hash of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockCounts(BTreeMap<u32, GraphCounts>);

impl BlockCounts {
    /// Adds counts of a graph; `None`, without any change, if a count exceeds 128 bits. A block is known if either of
    /// the two knows it.
    pub fn add(&mut self, hash: u32, counts: GraphCounts) -> Option<()> {
        let mut sum = self.0.get(&hash).cloned().unwrap_or_default();
        sum.seen.extend(counts.seen);
        sum.signatures.extend(counts.signatures);
        let stays = |block: &u32| sum.unknown.binary_search(block).is_ok();
        sum.unknown = match self.0.contains_key(&hash) {
            true => counts.unknown.into_iter().filter(stays).collect(),
            false => counts.unknown,
        };
        self.0.insert(hash, sum.tidied()?);
        Some(())
    }

    /// Returns the graphs by weight, the heaviest first, then by hash.
    #[must_use]
    pub fn graphs(&self) -> Vec<(u32, &GraphCounts)> {
        let mut graphs: Vec<_> = self.0.iter().map(|(hash, counts)| (*hash, counts)).collect();
        graphs.sort_by_key(|(hash, counts)| (Reverse(counts.sum()), *hash));
        graphs
    }

    /// Keeps the heaviest graphs; true if there were more.
    pub(super) fn keep_heaviest(&mut self, most: usize) -> bool {
        let before = self.0.len();
        let kept: Vec<u32> = self.graphs().into_iter().take(most).map(|(hash, _)| hash).collect();
        self.0.retain(|hash, _| kept.contains(hash));
        self.0.len() < before
    }

    /// The largest count.
    pub fn largest(&self) -> u128 {
        self.0.values().flat_map(|graph| &graph.seen).map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// True if there are no graphs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the counts, each changed by `scale`; the first error ends it.
    pub fn scaled<E>(&self, scale: impl Fn(u128) -> Result<u128, E>) -> Result<Self, E> {
        let graph = |(hash, counts): (&u32, &GraphCounts)| {
            let seen = counts.seen.iter().map(|(block, count)| Ok((*block, scale(*count)?)));
            let mut seen = seen.collect::<Result<Vec<_>, E>>()?;
            seen.retain(|(_, count)| *count > 0);
            Ok((*hash, GraphCounts { seen, ..counts.clone() }))
        };
        self.0.iter().map(graph).collect::<Result<_, E>>().map(Self)
    }

    /// Adds the counts of another profile for the same function; `None` if a count exceeds 128 bits.
    pub fn absorb(&mut self, other: &Self) -> Option<()> {
        other.0.iter().try_for_each(|(hash, counts)| self.add(*hash, counts.clone()))
    }

    /// Parses the text of the attribute; the error describes its fault.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let mut blocks = Self::default();
        for graph in text.split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
            let wrong = |what: &str| format!("`blocks` {what}");
            let end = memchr::memchr(b':', graph).ok_or_else(|| wrong("has a graph without its hash"))?;
            let hash = std::str::from_utf8(&graph[..end]).ok().filter(|hash| !hash.starts_with('+'));
            let hash = hash.and_then(|hash| u32::from_str_radix(hash, 16).ok());
            let hash = hash.ok_or_else(|| wrong("has a hash that is not a 32-bit number"))?;
            let mut counts = GraphCounts::default();
            counts.seen.reserve_exact(memchr::memchr_iter(b'=', &graph[end..]).count());
            for item in graph[end + 1..].split(|byte| *byte == b' ').filter(|item| !item.is_empty()) {
                let pair = memchr::memchr(b'=', item).map(|equal| (&item[..equal], &item[equal + 1..]));
                let (block, count) = pair.ok_or_else(|| wrong("has a block without a count"))?;
                let block = integer(block).ok().and_then(|block| u32::try_from(block).ok());
                let block = block.ok_or_else(|| wrong("has a block number that is not a 32-bit number"))?;
                let (count, signature) = match memchr::memchr(b'@', count) {
                    Some(at) => (&count[..at], Some(&count[at + 1..])),
                    None => (count, None),
                };
                if let Some(signature) = signature {
                    let signature = std::str::from_utf8(signature).ok().filter(|text| !text.starts_with('+'));
                    let signature = signature.and_then(|text| u16::from_str_radix(text, 16).ok());
                    let signature =
                        signature.ok_or_else(|| wrong("has a signature that is not a 16-bit number"))?;
                    counts.signatures.push((block, signature));
                }
                match count {
                    b"?" => counts.unknown.push(block),
                    count => {
                        counts.seen.push((block, integer(count).map_err(|fault| wrong(fault.message()))?))
                    }
                }
            }
            if blocks.0.contains_key(&hash) {
                return Err(wrong("has a graph twice"));
            }
            let counts = counts.tidied().ok_or_else(|| wrong("adds up to more than 2^128"))?;
            blocks.0.insert(hash, counts);
        }
        Ok(blocks)
    }
}

impl fmt::Display for BlockCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (hash, counts)) in self.graphs().into_iter().enumerate() {
            write!(f, "{}{hash:08x}:{counts}", if place > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for GraphCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut blocks: BTreeMap<u32, Option<u128>> =
            self.signatures.iter().map(|(block, _)| (*block, Some(0))).collect();
        blocks.extend(self.seen.iter().map(|(block, count)| (*block, Some(*count))));
        blocks.extend(self.unknown.iter().map(|block| (*block, None)));
        let mut signatures = self.signatures.iter().peekable();
        for (place, (block, count)) in blocks.into_iter().enumerate() {
            let between = if place > 0 { " " } else { "" };
            match count {
                Some(count) => write!(f, "{between}{block}={count}")?,
                None => write!(f, "{between}{block}=?")?,
            }
            if let Some((_, signature)) = signatures.next_if(|(signed, _)| *signed == block) {
                write!(f, "@{signature:04x}")?;
            }
        }
        Ok(())
    }
}
