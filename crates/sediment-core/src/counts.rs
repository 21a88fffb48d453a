// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting hash tables for u64 keys and u32 pairs, fast enough for hundreds of millions of additions.
//!
//! An open-addressing table with linear probing, 16 bytes per entry, at most five eighths full. Keys are hashed with a
//! random factor, because they may come from an untrusted file. The order of the table is never visible.

use std::hash::{BuildHasher, RandomState};

/// Counting hash table for u64 keys.
#[derive(Debug, Clone)]
pub struct Counts {
    /// Key and count; a count of 0 marks an empty entry.
    entries: Vec<(u64, u64)>,
    used: usize,
    /// Number of bits by which a hash is shifted right to give an index.
    shift: u32,
    key: u64,
    factor: u64,
    /// Keys that wait to be counted, and their number.
    waiting: [(u64, u64); AT_ONCE],
    waits: usize,
}

const SMALLEST: usize = 128;

/// Makes a table of `length` equal entries and writes to each of its pages.
///
/// The system maps new zeroed memory to one shared page. The first write after a read then causes another page fault,
/// at which all cores flush their TLB entries.
pub fn written_table<T: Clone>(entry: T, length: usize) -> Vec<T> {
    // The compiler must not merge allocation and initialization into one.
    let mut table = std::hint::black_box(Vec::with_capacity(length));
    table.resize(length, entry);
    table
}

/// Number of keys that are looked up together.
const AT_ONCE: usize = 64;

impl Default for Counts {
    fn default() -> Self {
        let random = RandomState::new();
        Self {
            entries: vec![(0, 0); SMALLEST],
            used: 0,
            shift: u64::BITS - SMALLEST.trailing_zeros(),
            key: random.hash_one(0u8),
            factor: random.hash_one(1u8) | 1,
            waiting: [(0, 0); AT_ONCE],
            waits: 0,
        }
    }
}

impl Counts {
    /// Packs two numbers into one key.
    pub fn pair(first: u32, second: u32) -> u64 {
        u64::from(first) << 32 | u64::from(second)
    }

    /// Splits a key made by [`Self::pair`].
    pub fn of_pair(pair: u64) -> (u32, u32) {
        ((pair >> 32) as u32, pair as u32)
    }

    /// Adds to the count of a key. The count saturates at 64 bits.
    ///
    /// A large table waits for memory at nearly every key. Keys are therefore collected first, so that many of these
    /// waits overlap.
    #[inline]
    pub fn add(&mut self, number: u64, count: u64) {
        self.waiting[self.waits] = (number, count);
        self.waits += 1;
        if self.waits == AT_ONCE {
            self.settle();
        }
    }

    /// Counts the collected keys.
    fn settle(&mut self) {
        while self.used + AT_ONCE > self.entries.len() / 8 * 5 {
            self.grow();
        }
        let waiting = self.waiting;
        let mut homes = [0; AT_ONCE];
        let mut met = 0;
        for (home, (number, _)) in homes.iter_mut().zip(&waiting[..self.waits]) {
            *home = self.home(*number);
            met |= self.entries[*home].0;
        }
        std::hint::black_box(met);
        for (home, (number, count)) in homes.into_iter().zip(&waiting[..self.waits]) {
            self.put(home, *number, *count);
        }
        self.waits = 0;
    }

    /// There is an empty entry.
    #[inline]
    fn put(&mut self, home: usize, number: u64, count: u64) {
        if count == 0 {
            return;
        }
        let mut at = home;
        loop {
            let entry = &mut self.entries[at];
            if entry.1 == 0 {
                *entry = (number, count);
                self.used += 1;
                return;
            }
            if entry.0 == number {
                entry.1 = entry.1.saturating_add(count);
                return;
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    /// Returns all keys with their counts, sorted by key.
    pub fn into_sorted(mut self) -> Vec<(u64, u64)> {
        self.settle();
        let mut all = self.entries;
        all.retain(|(_, count)| *count > 0);
        all.shrink_to_fit();
        all.sort_unstable();
        all
    }

    /// Adds several tables and returns the sums, sorted by key. Each table is sorted by a thread of its own.
    pub fn sum_sorted(tables: Vec<Self>) -> Vec<(u64, u64)> {
        let sorted: Vec<Vec<(u64, u64)>> = std::thread::scope(|scope| {
            let sorting: Vec<_> =
                tables.into_iter().map(|table| scope.spawn(|| table.into_sorted())).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            sorting.into_iter().map(join).collect()
        });
        sorted.into_iter().fold(Vec::new(), merge)
    }

    /// Adds the counts of another table.
    pub fn absorb(&mut self, mut other: Self) {
        other.settle();
        for (number, count) in other.entries {
            self.add(number, count);
        }
    }

    #[inline]
    fn home(&self, number: u64) -> usize {
        let product = u128::from(number ^ self.key) * u128::from(self.factor);
        (((product as u64) ^ ((product >> 64) as u64)) >> self.shift) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let length = self.entries.len() * 2;
        self.shift -= 1;
        self.used = 0;
        for (number, count) in std::mem::replace(&mut self.entries, written_table((0, 0), length)) {
            self.put(self.home(number), number, count);
        }
    }
}

/// Merges two sorted lists of counts.
fn merge(one: Vec<(u64, u64)>, other: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    if one.is_empty() {
        return other;
    }
    let mut all = Vec::with_capacity(one.len() + other.len());
    let mut left = one.into_iter().peekable();
    for (number, count) in other {
        while let Some(smaller) = left.next_if(|(next, _)| *next < number) {
            all.push(smaller);
        }
        let same = left.next_if(|(next, _)| *next == number).map_or(0, |(_, count)| count);
        all.push((number, same.saturating_add(count)));
    }
    all.extend(left);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn counts_are_those_of_a_map() {
        let mut counts = Counts::default();
        let mut map = BTreeMap::new();
        let mut other = Counts::default();
        for step in 0..200_000u64 {
            let number = Counts::pair((step % 313) as u32, (step * step % 1009) as u32);
            if step % 3 == 0 { &mut other } else { &mut counts }.add(number, step % 5);
            if step % 5 > 0 {
                *map.entry(number).or_insert(0) += step % 5;
            }
        }
        let map: Vec<(u64, u64)> = map.into_iter().collect();
        assert_eq!(Counts::sum_sorted(vec![Counts::default(), counts.clone(), other.clone()]), map);
        counts.absorb(other);
        assert_eq!(counts.into_sorted(), map);
    }

    #[test]
    fn a_count_stays_at_the_largest() {
        let mut counts = Counts::default();
        counts.add(u64::MAX, u64::MAX);
        counts.add(u64::MAX, 7);
        counts.add(0, 1);
        assert_eq!(counts.into_sorted(), [(0, 1), (u64::MAX, u64::MAX)]);
        assert_eq!(Counts::of_pair(Counts::pair(7, u32::MAX)), (7, u32::MAX));
    }
}
