// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where functions and edges stand in their tables.
//!
//! Looking them up is much of the work of reading and merging, so eight bytes are mixed by one multiplication. Key and factor
//! are random: a profile comes from strangers, who must not choose where their names and edges fall. No order of a table is
//! ever seen.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes [`RandomHasher`]s of one table.
#[derive(Debug, Clone)]
pub(super) struct RandomHashing {
    key: u64,
    factor: u64,
}

impl Default for RandomHashing {
    fn default() -> Self {
        let random = RandomState::new();
        Self { key: random.hash_one(0u8), factor: random.hash_one(1u8) | 1 }
    }
}

impl BuildHasher for RandomHashing {
    type Hasher = RandomHasher;

    fn build_hasher(&self) -> RandomHasher {
        RandomHasher { state: self.key, factor: self.factor }
    }
}

/// Mixes numbers and texts into a number.
#[derive(Debug)]
pub(super) struct RandomHasher {
    state: u64,
    factor: u64,
}

impl RandomHasher {
    /// Multiplies to 128 bits and folds the halves, so that every bit of the number reaches both ends of the result. What is
    /// added keeps a product of 0 from forgetting what came before.
    fn mix(&mut self, number: u64) {
        let product = u128::from(self.state ^ number) * u128::from(self.factor);
        self.state = ((product as u64) ^ ((product >> 64) as u64)).wrapping_add(self.state.rotate_left(23));
    }
}

impl Hasher for RandomHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.split_at(bytes.len() - bytes.len() % 8);
        for word in words.chunks_exact(8) {
            self.mix(word.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)));
        }
        // The length tells a rest of zeros from none.
        self.mix(rest.iter().fold(bytes.len() as u64, |number, byte| (number << 8) | u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_edges_spread() {
        let hashing = RandomHashing::default();
        let names: BTreeSet<u64> = (0..20_000).map(|n| hashing.hash_one(format!("_ZN4name{n}Ev"))).collect();
        let edges: BTreeSet<u64> = (0..20_000u32).map(|n| hashing.hash_one((n % 100, n / 100))).collect();
        let zeros: BTreeSet<u64> = (0..64).map(|length| hashing.hash_one(vec![0u8; length])).collect();
        assert_eq!((names.len(), edges.len(), zeros.len()), (20_000, 20_000, 64));
        for hashes in [names, edges] {
            let (low, high): (BTreeSet<_>, BTreeSet<_>) =
                hashes.iter().map(|hash| (hash % 4096, hash >> 57)).unzip();
            assert!(low.len() > 3500 && high.len() == 128, "{} {}", low.len(), high.len());
        }
    }
}
