// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting hash table of branches: every branch of a recording goes through it.
//!
//! Open addressing with linear probing over entries of 32 bytes. The hash is two multiplications with fixed constants,
//! so somebody could make a file whose branches collide. That does no harm: a search ends after [`FARTHEST`] entries
//! and continues in an ordered map, so a branch takes at most logarithmic time. Counts are added, so their order does
//! not matter.

use super::mappings::SpaceId;
use std::collections::BTreeMap;

/// Longest probe sequence. The table is at most three quarters full, so a good hash needs fewer probes.
const FARTHEST: usize = 96;
const SMALLEST: usize = 1 << 10;

/// Kind of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CountKind {
    /// Own cost at the address `from`.
    Own = 1,
    Call = 2,
    /// A branch of unknown type.
    Branch = 3,
    /// A branch that is not a call by its type, but leads to another function: its ends are executed addresses.
    Passed = 4,
    /// Code executed without a branch, from the target of one branch to the source of the next.
    Straight = 5,
}

/// A branch in an address space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Space and kind in one number; 0 is not a valid key.
    tag: u64,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Key {
    pub(super) fn new(space: SpaceId, kind: CountKind, from: u64, to: u64) -> Self {
        Self { tag: u64::from(space.0) << 3 | kind as u64, from, to }
    }

    pub(super) fn space(&self) -> SpaceId {
        SpaceId((self.tag >> 3) as u32)
    }

    pub(super) fn kind(&self) -> CountKind {
        match self.tag & 7 {
            1 => CountKind::Own,
            2 => CountKind::Call,
            3 => CountKind::Branch,
            4 => CountKind::Passed,
            _ => CountKind::Straight,
        }
    }

    fn hash(&self) -> u64 {
        let first = fold(self.from ^ 0x2d35_8dcc_aa6c_78a5, self.to.rotate_left(32) ^ 0x8bb8_4b93_962e_acc9);
        fold(first ^ self.tag, 0x4b33_a62e_d433_d4a3)
    }
}

/// Combines both halves of a product: each bit of the result depends on all bits of the factors.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Counts by key.
#[derive(Debug, Default)]
pub(super) struct KeyCounts {
    entries: Vec<(Key, u64)>,
    used: usize,
    /// Counts of keys for which a search was too long.
    far: BTreeMap<Key, u64>,
}

impl KeyCounts {
    pub(super) fn add(&mut self, key: Key, count: u64) {
        self.make_room(1);
        self.put(key, key.hash() as usize, count);
    }

    /// Adds one to the count of each of these keys.
    ///
    /// The table is larger than the processor's caches, so nearly every key waits for memory. All first entries are
    /// loaded before the first search: these waits overlap, but the waits during searches do not.
    pub(super) fn add_each(&mut self, keys: &[Key]) {
        const AT_ONCE: usize = 64;
        for keys in keys.chunks(AT_ONCE) {
            self.make_room(keys.len());
            let mask = self.entries.len() - 1;
            let mut hashes = [0; AT_ONCE];
            let mut met = 0;
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = key.hash() as usize;
                met |= self.entries[*hash & mask].0.tag;
            }
            std::hint::black_box(met);
            for (hash, key) in hashes.iter().zip(keys) {
                self.put(*key, *hash, 1);
            }
        }
    }

    fn make_room(&mut self, more: usize) {
        while (self.used + more) * 4 > self.entries.len() * 3 {
            self.grow();
        }
    }

    fn put(&mut self, key: Key, hash: usize, count: u64) {
        let mask = self.entries.len() - 1;
        let mut at = hash & mask;
        for _ in 0..FARTHEST {
            let entry = &mut self.entries[at];
            if entry.0 == key {
                entry.1 = entry.1.saturating_add(count);
                return;
            }
            if entry.0.tag == 0 {
                *entry = (key, count);
                self.used += 1;
                return;
            }
            at = (at + 1) & mask;
        }
        let sum = self.far.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }

    fn grow(&mut self) {
        let size = (self.entries.len() * 2).max(SMALLEST);
        let old = std::mem::replace(&mut self.entries, vec![(Key::default(), 0); size]);
        self.used = 0;
        for (key, count) in old {
            if key.tag != 0 {
                self.put(key, key.hash() as usize, count);
            }
        }
    }

    /// Adds all of another table.
    pub(super) fn append(&mut self, other: Self) {
        for (key, count) in other.entries {
            if key.tag != 0 {
                self.add(key, count);
            }
        }
        for (key, count) in other.far {
            self.add(key, count);
        }
    }

    /// All counts, sorted by key.
    pub(super) fn into_sorted(self) -> Vec<(Key, u64)> {
        let mut all = self.entries;
        all.retain(|(key, _)| key.tag != 0);
        all.extend(self.far);
        all.sort_unstable();
        // A key may be in the map from before the table grew, and in the table from afterwards.
        all.dedup_by(|later, retained| {
            let same = later.0 == retained.0;
            if same {
                retained.1 = retained.1.saturating_add(later.1);
            }
            same
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_is_kept_also_where_all_collide() {
        let mut table = KeyCounts::default();
        // The first factor of the hash is zero, so all keys have the same entry.
        let collide = |to: u64| Key::new(SpaceId(1), CountKind::Call, 0x2d35_8dcc_aa6c_78a5, to);
        let spread = |to: u64| Key::new(SpaceId(2), CountKind::Branch, to * 16, to);
        for round in 0..3 {
            for number in 0..30_000 {
                table.add(collide(number), round + 1);
                table.add(spread(number), 1);
            }
        }
        assert!(table.far.len() > 20_000);
        table.add_each(&(0..30_000).map(spread).collect::<Vec<_>>());
        let mut other = KeyCounts::default();
        other.append(table);
        let all = other.into_sorted();
        let expected = (0..30_000).map(|number| (collide(number), 6));
        let expected: Vec<_> = expected.chain((0..30_000).map(|number| (spread(number), 4))).collect();
        assert!(all == expected);
        assert_eq!((all[0].0.space(), all[0].0.kind()), (SpaceId(1), CountKind::Call));
    }
}
