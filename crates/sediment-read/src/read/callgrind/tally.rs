// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds up calls by caller and callee.
//!
//! A file lists a function's calls in a block, with one line for each call site. Within a block, a table by callee
//! finds the running sum in one step. Blocks are appended one after the other, and are sorted and merged whenever their
//! size has doubled.

/// Sums of the calls so far.
#[derive(Debug, Default)]
pub(super) struct PairTally {
    /// By callee: the last block that called it, and the index of its sum in that block.
    seen: Vec<(u32, u32)>,
    block_number: u32,
    block: Vec<PairCount>,
    joined: Vec<PairCount>,
    /// Length of `joined` after it was last sorted.
    sorted: usize,
}

/// Calls from one function to another. A pair occurs more than once if its sum exceeds 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PairCount {
    /// Caller in the upper half and callee in the lower half, so that one comparison sorts by both.
    pair: u64,
    /// Number of calls.
    pub(super) count: u64,
}

impl PairCount {
    fn new(caller: u32, callee: u32, count: u64) -> Self {
        Self { pair: u64::from(caller) << 32 | u64::from(callee), count }
    }

    /// Returns the calling function.
    pub(super) fn caller(self) -> u32 {
        (self.pair >> 32) as u32
    }

    /// Returns the called function.
    pub(super) fn callee(self) -> u32 {
        self.pair as u32
    }
}

const SHORTEST_TO_JOIN: usize = 1 << 18;

impl PairTally {
    /// Adds calls from the function of the current block to another.
    pub(super) fn add(&mut self, caller: u32, callee: u32, count: u64) {
        let slot = callee as usize;
        if slot >= self.seen.len() {
            // Block numbers begin at 1, so 0 means "never".
            self.seen.resize((slot + 1).next_power_of_two(), (0, 0));
        }
        let current = self.block_number + 1;
        let (block, at) = self.seen[slot];
        if block == current {
            let calls = &mut self.block[at as usize];
            if let Some(sum) = calls.count.checked_add(count) {
                calls.count = sum;
                return;
            }
        }
        self.seen[slot] = (current, self.block.len() as u32);
        self.block.push(PairCount::new(caller, callee, count));
    }

    /// Ends the current block. The same function may have another block later.
    pub(super) fn end_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        self.joined.append(&mut self.block);
        self.block_number += 1;
        if self.block_number == u32::MAX - 1 {
            self.seen.clear();
            self.block_number = 0;
        }
        if self.joined.len() > SHORTEST_TO_JOIN.max(2 * self.sorted) {
            self.join();
        }
    }

    /// Returns all calls, sorted by caller, then callee.
    pub(super) fn into_calls(mut self) -> Vec<PairCount> {
        self.end_block();
        self.join();
        self.joined
    }

    fn join(&mut self) {
        self.joined.sort_unstable();
        self.joined.dedup_by(|later, kept| {
            let sum = if later.pair == kept.pair { kept.count.checked_add(later.count) } else { None };
            kept.count = sum.unwrap_or(kept.count);
            sum.is_some()
        });
        self.sorted = self.joined.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_several_blocks_add_up() {
        let mut tally = PairTally::default();
        for round in 0..3u64 {
            for caller in (0..300u32).rev() {
                for callee in 0..300u32 {
                    tally.add(caller, callee, round + 1);
                    tally.add(caller, callee, 1);
                }
                tally.end_block();
            }
        }
        let calls = tally.into_calls();
        assert_eq!(calls.len(), 300 * 300);
        assert!(calls.iter().all(|calls| calls.count == 9), "1+1, 2+1 and 3+1");
        assert!(calls.is_sorted());
        assert_eq!((calls[301].caller(), calls[301].callee()), (1, 1));
    }

    #[test]
    fn a_sum_that_leaves_64_bits_is_kept_in_parts() {
        let mut tally = PairTally::default();
        tally.add(0, 1, u64::MAX);
        tally.add(0, 1, 5);
        tally.end_block();
        tally.add(0, 1, u64::MAX);
        let calls = tally.into_calls();
        let sum: u128 = calls.iter().map(|calls| u128::from(calls.count)).sum();
        assert_eq!(sum, 2 * u128::from(u64::MAX) + 5);
    }
}
