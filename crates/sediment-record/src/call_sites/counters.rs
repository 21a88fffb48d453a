// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the counters in the memory of a program.
//!
//! Each thread has a block of counters. On x86-64 it is at the base of the segment register gs, so a stub counts by a
//! single instruction, in memory that no other thread uses. On AArch64 a table leads to it, and threads may share it.
//! A block has these parts:
//!
//! ```text
//! 0      header: whether the thread waits for the recorder, the address of the page that all share, and copies of code to map
//! 4096   targets of indirect calls that have more than two, by a hash
//! ...    calls in their order, while these are traced
//! ...    for each file: counts of direct sites, their first uses, and records of indirect sites
//! ```

use std::collections::BTreeMap;

/// 1 if the thread waits for the recorder; in the header of its block.
pub(super) const WAITS: u64 = 8;
/// Address of the page that the recording shares, in the header of each block.
pub(super) const SHARED: u64 = 16;
/// Answers to a waiting thread: it continues, or maps copies of code first.
pub(super) const SEEN: u32 = 2;
pub(super) const MAP_COPIES: u32 = 3;
/// Not 0 if the thread must stop itself by a signal at its next notice.
pub(super) const STOPS_ITSELF: u64 = 40;
/// In the header of a block: its own address, the number of copies that its thread has mapped, the path of their file, and the list of copies: address,
/// length and offset of each, up to an address of 0.
pub(super) const OWN_ADDRESS: u64 = 24;
pub(super) const MAPPED_COPIES: u64 = 32;
pub(super) const COPIES_PATH: u64 = 64;
pub(super) const COPIES: u64 = 256;
/// Largest number of copies in the list.
pub(super) const MOST_COPIES: usize = ((TARGETS - COPIES) / 24 - 1) as usize;
/// Number of notices of new libraries, on the page that the whole recording shares.
pub(super) const NOTICES: u64 = 64;
/// Not 0 after a thread has waited in vain, because the recorder is slow or was killed: then no thread waits, until the recorder looks again. On the
/// same page.
pub(super) const UNANSWERED: u64 = 72;
/// Offset of the table of further targets in a block.
pub(super) const TARGETS: u64 = 4096;
/// Bytes of an entry of that table: target, record of the site, first use, count.
pub(super) const TARGET_BYTES: u64 = 32;
pub(super) const TARGET_BITS: u32 = 13;
/// Number of entries that are examined.
pub(super) const PROBES: u32 = 16;
/// Bytes of the table, with additional room so that a search can continue after its last entry.
pub(super) const TARGETS_BYTES: u64 = ((1 << TARGET_BITS) + PROBES as u64) * TARGET_BYTES;
/// Number of calls that the thread must still note, in the header of a block; and offset of the noted calls, the last one
/// first. Each has the low half of the address in its stub, of its target if it is indirect, and of the stack pointer, 4
/// bytes each.
pub(super) const TO_NOTE: u64 = 48;
pub(super) const EVENTS: u64 = (TARGETS + TARGETS_BYTES).next_multiple_of(4096);
pub(super) const MOST_EVENTS: u64 = 1 << 15;
pub(super) const EVENT_BYTES: u64 = 16;
/// Offset of the counters of files in a block.
pub(super) const FILES: u64 = EVENTS + MOST_EVENTS * EVENT_BYTES;

/// Bytes of the record of an indirect site: two targets, each with a count; their first uses; and the number of calls
/// that found no room.
pub(super) const RECORD_BYTES: u64 = 48;

/// Position of a file's counters in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileCounters {
    /// Offset of the first counter.
    pub(super) at: u64,
    direct: u64,
    indirect: u64,
}

impl FileCounters {
    /// Counters of this many direct and indirect sites.
    pub(super) fn of((direct, indirect): (usize, usize), at: u64) -> Self {
        Self { at, direct: direct as u64, indirect: indirect as u64 }
    }

    /// Offset of the first use of the first direct site.
    pub(super) fn firsts(&self) -> u64 {
        self.at + 8 * self.direct
    }

    /// Offset of the record of the first indirect site.
    pub(super) fn records(&self) -> u64 {
        (self.firsts() + 4 * self.direct).next_multiple_of(64)
    }

    pub(super) fn end(&self) -> u64 {
        (self.records() + RECORD_BYTES * self.indirect).next_multiple_of(64)
    }
}

/// An entry of the table of further targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FurtherTarget {
    target: u64,
    record: u64,
    calls: u64,
    first: u32,
}

impl FurtherTarget {
    /// Returns all entries of a table.
    pub(super) fn all(table: &[u8]) -> impl Iterator<Item = Self> + '_ {
        let entries = table.chunks_exact(TARGET_BYTES as usize).filter(|entry| word(entry, 0) != 0);
        entries.map(|entry| Self {
            target: word(entry, 0),
            record: number_of_4(entry, 8).into(),
            calls: word(entry, 16),
            first: number_of_4(entry, 12),
        })
    }
}

/// Counts of one file in a block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SiteCounts {
    /// By index of a direct site: calls, and first use.
    pub(super) direct: BTreeMap<usize, (u64, u32)>,
    /// By index of an indirect site and target: calls, and first use.
    pub(super) indirect: BTreeMap<(usize, u64), (u64, u32)>,
    /// By index of an indirect site: number of calls whose targets found no room.
    pub(super) without_target: BTreeMap<usize, u64>,
}

impl SiteCounts {
    /// Adds the counters of a file from a block.
    pub(super) fn add(&mut self, counters: &FileCounters, numbers: &[u8]) {
        let place = |at: u64| (at - counters.at) as usize;
        let (calls, rest) = numbers.split_at(place(counters.firsts()).min(numbers.len()));
        for (index, left) in calls.chunks_exact(8).enumerate().filter(|(_, left)| **left != [0; 8]) {
            // It counts down from 0.
            let first = number_of_4(rest, 4 * index as u64);
            add(self.direct.entry(index).or_default(), word(left, 0).wrapping_neg(), first);
        }
        let records = numbers.get(place(counters.records())..).unwrap_or_default();
        let records = records.chunks_exact(RECORD_BYTES as usize).take(counters.indirect as usize);
        for (index, record) in records.enumerate() {
            for (key, count, first) in [(0, 8, 32), (16, 24, 36)] {
                let target = word(record, key);
                if target != 0 {
                    let sum = self.indirect.entry((index, target)).or_default();
                    add(sum, word(record, count), number_of_4(record, first));
                }
            }
            let without = word(record, 40);
            if without > 0 {
                *self.without_target.entry(index).or_default() += without;
            }
        }
    }

    /// Adds the entries of the tables of further targets that belong to a file.
    pub(super) fn add_targets(&mut self, counters: &FileCounters, targets: &[FurtherTarget]) {
        let records = counters.records()..counters.records() + RECORD_BYTES * counters.indirect;
        for FurtherTarget { target, record, calls, first } in targets {
            if records.contains(record) {
                let index = ((record - records.start) / RECORD_BYTES) as usize;
                add(self.indirect.entry((index, *target)).or_default(), *calls, *first);
            }
        }
    }

    /// Marks all sites that have counted and are not yet marked, and stores their counts so far.
    pub(super) fn set_aside(&self, marked: &mut SiteMarks, kept: &mut Self) {
        let old = marked.clone();
        for (site, counted) in self.direct.iter().filter(|(site, _)| !old.has_direct(**site)) {
            marked.all[*site] = true;
            kept.direct.insert(*site, *counted);
        }
        for (key, counted) in self.indirect.iter().filter(|((site, _), _)| !old.has_indirect(*site)) {
            marked.all[marked.direct + key.0] = true;
            kept.indirect.insert(*key, *counted);
        }
        for (site, calls) in self.without_target.iter().filter(|(site, _)| !old.has_indirect(**site)) {
            kept.without_target.insert(*site, *calls);
        }
    }

    /// Multiplies the counts of marked sites since then by a weight. Returns the number of calls by which the counts
    /// may be wrong, if the calls of a burst count as a single observation.
    pub(super) fn weigh(
        &mut self,
        marked: &SiteMarks,
        before: &Self,
        BurstWeight { weight, bursts }: BurstWeight,
    ) -> f64 {
        let mut error = 0.0;
        let mut weighed = |count: &mut u64, before: u64| {
            let counted = count.saturating_sub(before);
            let since = counted as f64 * weight;
            *count = before.saturating_add(since.round() as u64);
            error += (since - counted as f64) / (counted.min(bursts).max(1) as f64).sqrt();
        };
        for (site, (count, _)) in self.direct.iter_mut().filter(|(site, _)| marked.has_direct(**site)) {
            weighed(count, before.direct.get(site).map_or(0, |(count, _)| *count));
        }
        for (key, (count, _)) in self.indirect.iter_mut().filter(|((site, _), _)| marked.has_indirect(*site))
        {
            weighed(count, before.indirect.get(key).map_or(0, |(count, _)| *count));
        }
        for (site, count) in self.without_target.iter_mut().filter(|(site, _)| marked.has_indirect(**site)) {
            weighed(count, before.without_target.get(site).copied().unwrap_or(0));
        }
        error
    }
}

/// Weight of the calls in bursts.
#[derive(Debug, Clone, Copy)]
pub(super) struct BurstWeight {
    /// Number of calls that one counted call represents.
    pub(super) weight: f64,
    /// Number of bursts.
    pub(super) bursts: u64,
}

/// Marks of the sites of a file.
#[derive(Debug, Clone)]
pub(super) struct SiteMarks {
    /// Number of direct sites, which come first.
    direct: usize,
    all: Vec<bool>,
}

impl SiteMarks {
    /// No marks of this many direct and indirect sites.
    pub(super) fn none((direct, indirect): (usize, usize)) -> Self {
        Self { direct, all: vec![false; direct + indirect] }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.all.contains(&true)
    }

    /// True if this site is marked, by its number in [`super::changes::SiteChange`].
    pub(super) fn has(&self, site: usize) -> bool {
        self.all.get(site).copied().unwrap_or(false)
    }

    fn has_direct(&self, site: usize) -> bool {
        site < self.direct && self.has(site)
    }

    fn has_indirect(&self, site: usize) -> bool {
        self.has(self.direct + site)
    }
}

fn add(sum: &mut (u64, u32), calls: u64, first: u32) {
    sum.0 = sum.0.saturating_add(calls);
    // A thread that was ended while it took its number has none.
    sum.1 = [sum.1, first].into_iter().filter(|first| *first > 0).min().unwrap_or(0);
}

fn word(bytes: &[u8], at: u64) -> u64 {
    bytes.get(at as usize..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

fn number_of_4(bytes: &[u8], at: u64) -> u32 {
    bytes.get(at as usize..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}
