// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls added up by caller and callee.
//!
//! A file lists a function's calls together, one line for each place that calls. Within such a block a table by callee finds the
//! running sum in one step; blocks are laid one after the other, and sorted and joined whenever they have doubled.

/// Calls added up so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// By callee: the block that last called it, and where its sum stands in that block.
    seen: Vec<(u32, u32)>,
    block_number: u32,
    block: Vec<(u32, u32, u128)>,
    joined: Vec<(u32, u32, u128)>,
    /// How long `joined` was when it was last sorted.
    sorted: usize,
}

const SHORTEST_TO_JOIN: usize = 1 << 16;

impl Tally {
    /// Adds calls from the function of the current block to another.
    pub(super) fn add(&mut self, caller: u32, callee: u32, count: u64) {
        let slot = callee as usize;
        if slot >= self.seen.len() {
            // Block numbers begin at 1 for this filling to mean "never".
            self.seen.resize((slot + 1).next_power_of_two(), (0, 0));
        }
        let current = self.block_number.wrapping_add(1);
        let (block, at) = self.seen[slot];
        if block == current {
            self.block[at as usize].2 += u128::from(count);
        } else {
            self.seen[slot] = (current, self.block.len() as u32);
            self.block.push((caller, callee, u128::from(count)));
        }
    }

    /// The function of the current block has no further calls here; it may come back later.
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

    /// All calls, sorted by caller, then callee.
    pub(super) fn into_calls(mut self) -> Vec<(u32, u32, u128)> {
        self.end_block();
        self.join();
        self.joined
    }

    /// How many calls there are is bounded by the lines of a file, so a sum of 64-bit counts stays in 128 bits.
    fn join(&mut self) {
        self.joined.sort_unstable_by_key(|&(caller, callee, _)| (caller, callee));
        self.joined.dedup_by(|later, kept| {
            let same = (later.0, later.1) == (kept.0, kept.1);
            if same {
                kept.2 += later.2;
            }
            same
        });
        self.sorted = self.joined.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_several_blocks_add_up() {
        let mut tally = Tally::default();
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
        assert!(calls.iter().all(|call| call.2 == 9), "1+1, 2+1 and 3+1");
        assert!(calls.is_sorted());
    }
}
