// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where an edge stands in the table of edges.
//!
//! The table is most of the work of reading and merging, and its keys are two small numbers each, so one multiplication mixes
//! them. The factor is random: a profile comes from strangers, who must not choose where its edges fall. No order of the table
//! is ever seen.

use std::hash::{BuildHasher, Hasher, RandomState};

#[derive(Debug, Clone)]
pub(super) struct EdgeHashing {
    key: u64,
    factor: u64,
}

impl Default for EdgeHashing {
    fn default() -> Self {
        let random = RandomState::new();
        Self { key: random.hash_one(0u8), factor: random.hash_one(1u8) | 1 }
    }
}

impl BuildHasher for EdgeHashing {
    type Hasher = EdgeHasher;

    fn build_hasher(&self) -> EdgeHasher {
        EdgeHasher { state: self.key, factor: self.factor }
    }
}

pub(super) struct EdgeHasher {
    state: u64,
    factor: u64,
}

impl EdgeHasher {
    /// Multiplies to 128 bits and folds the halves, so that every bit of the number reaches both ends of the result.
    fn mix(&mut self, number: u64) {
        let product = u128::from(self.state ^ number) * u128::from(self.factor);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for EdgeHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.mix(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn finish(&self) -> u64 {
        self.state
    }
}
