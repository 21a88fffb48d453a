// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters in the memory of a program, and what they say.
//!
//! Each thread has a block of counters, which the register gs finds: a stub counts by one instruction that no other thread shares memory
//! with. A block has these parts:
//!
//! ```text
//! 0      header: whether the thread waits for the recorder, and the address of the page that all share
//! 4096   targets of indirect calls that have more than two, by a hash
//! ...    for each file: counts of direct sites, their first uses, and records of indirect sites
//! ```

use super::plan::SitePlan;
use std::collections::BTreeMap;
use std::ops::Range;

/// Whether a thread waits for the recorder, in the header of its block: 1 if it does.
pub(super) const WAITS: u64 = 8;
/// Address of the page that the recording shares, in the header of each block.
pub(super) const SHARED: u64 = 16;
/// Number of notices of new libraries, on the page that the whole recording shares.
pub(super) const NOTICES: u64 = 64;
/// Where the table of further targets begins in a block.
pub(super) const TARGETS: u64 = 4096;
/// Bytes of an entry of that table: target, record of the site, first use, count.
pub(super) const TARGET_BYTES: u64 = 32;
pub(super) const TARGET_BITS: u32 = 13;
/// Entries that are looked at.
pub(super) const PROBES: u32 = 16;
/// Bytes of the table, with room behind its last entry to look on.
pub(super) const TARGETS_BYTES: u64 = ((1 << TARGET_BITS) + PROBES as u64) * TARGET_BYTES;
/// Where the counters of files begin in a block.
pub(super) const FILES: u64 = (TARGETS + TARGETS_BYTES).next_multiple_of(4096);

/// Bytes of the record of an indirect site: two targets, each with a count, their first uses, and calls that found no room.
pub(super) const RECORD_BYTES: u64 = 48;

/// Where the counters of a file are in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileCounters {
    /// Offset of the first.
    pub(super) at: u64,
    direct: u64,
    indirect: u64,
}

impl FileCounters {
    pub(super) fn of(plan: &SitePlan, at: u64) -> Self {
        Self { at, direct: plan.direct.len() as u64, indirect: plan.indirect.len() as u64 }
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

/// Numbers of calls that a block has of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SiteCounts {
    /// By index of a direct site: calls, and first use.
    pub(super) direct: BTreeMap<usize, (u64, u32)>,
    /// By index of an indirect site and target: calls, and first use.
    pub(super) indirect: BTreeMap<(usize, u64), (u64, u32)>,
    /// By index of an indirect site: calls whose targets found no room.
    pub(super) without_target: BTreeMap<usize, u64>,
}

impl SiteCounts {
    /// Adds the counters of a file. `read` gives bytes of a block.
    pub(super) fn add(&mut self, counters: &FileCounters, read: &dyn Fn(Range<u64>) -> Vec<u8>) {
        let numbers = read(counters.at..counters.end());
        let number = |at: u64| word(&numbers, at - counters.at);
        for index in 0..counters.direct {
            // Counted down from 0.
            let calls = number(counters.at + 8 * index).wrapping_neg();
            if calls != 0 {
                let first = number_of_4(&numbers, counters.firsts() + 4 * index - counters.at);
                add(self.direct.entry(index as usize).or_default(), calls, first);
            }
        }
        for index in 0..counters.indirect {
            let record = counters.records() + RECORD_BYTES * index;
            for (key, count, first) in [(0, 8, 32), (16, 24, 36)] {
                let target = number(record + key);
                if target != 0 {
                    let first = number_of_4(&numbers, record + first - counters.at);
                    add(
                        self.indirect.entry((index as usize, target)).or_default(),
                        number(record + count),
                        first,
                    );
                }
            }
            let without = number(record + 40);
            if without > 0 {
                *self.without_target.entry(index as usize).or_default() += without;
            }
        }
    }

    /// Adds what the table of further targets has of a file.
    pub(super) fn add_targets(&mut self, counters: &FileCounters, table: &[u8]) {
        for entry in table.chunks_exact(TARGET_BYTES as usize) {
            let (target, record) = (word(entry, 0), u64::from(number_of_4(entry, 8)));
            let records = counters.records()..counters.records() + RECORD_BYTES * counters.indirect;
            if target != 0 && records.contains(&record) {
                let index = ((record - records.start) / RECORD_BYTES) as usize;
                let first = number_of_4(entry, 12);
                add(self.indirect.entry((index, target)).or_default(), word(entry, 16), first);
            }
        }
    }

    /// Marks all sites that have counted and are not marked yet, and keeps what they have counted.
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

    /// Multiplies what marked sites have counted since it was set aside by a weight.
    pub(super) fn weigh(&mut self, marked: &SiteMarks, before: &Self, weight: f64) {
        let weighed = |count: &mut u64, before: u64| {
            let since = count.saturating_sub(before) as f64 * weight;
            *count = before.saturating_add(since.round() as u64);
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
    }
}

/// Marks of the sites of a file.
#[derive(Debug, Clone)]
pub(super) struct SiteMarks {
    /// Number of direct sites, which come first.
    direct: usize,
    all: Vec<bool>,
}

impl SiteMarks {
    pub(super) fn none(plan: &SitePlan) -> Self {
        let direct = plan.direct.len();
        Self { direct, all: vec![false; direct + plan.indirect.len()] }
    }

    /// By the number of a site in [`super::stubs::SiteChange`].
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
