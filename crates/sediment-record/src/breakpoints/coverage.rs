// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limit on the cost of finding executed blocks, and the queue of functions whose blocks get breakpoints later.

use super::modules::Site;
use crate::BlockCoverage;
use std::collections::VecDeque;
use std::time::Duration;

/// Functions whose blocks are to have breakpoints, and the cost of those breakpoints so far.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    pub(super) wanted: BlockCoverage,
    spent: Duration,
    /// Functions that wait for their turn, with their spaces.
    waiting: VecDeque<(u32, Site)>,
}

/// Cost of breakpoints at blocks that is allowed before a program has used much processor time.
const AT_FIRST: Duration = Duration::from_secs(1);
/// Divisor: the share of the program's processor time that they may cost.
const SHARE: u32 = 5;

impl Coverage {
    pub(super) fn new(wanted: BlockCoverage) -> Self {
        Self { wanted, ..Self::default() }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted != BlockCoverage::Never
    }

    /// Adds to the cost.
    pub(super) fn spend(&mut self, cost: Duration) {
        self.spent += cost;
    }

    /// True if more breakpoints may be set, after the program has used this much processor time.
    pub(super) fn has_room(&self, worked: Duration) -> bool {
        match self.wanted {
            BlockCoverage::Never => false,
            BlockCoverage::WithinBudget => self.spent < AT_FIRST.max(worked / SHARE),
            BlockCoverage::Always => true,
        }
    }

    /// Queues a function of a space.
    pub(super) fn put_off(&mut self, space: u32, site: Site) {
        self.waiting.push_back((space, site));
    }

    /// Takes the next function from the queue.
    pub(super) fn next(&mut self) -> Option<(u32, Site)> {
        self.waiting.pop_front()
    }

    /// True if functions are queued.
    pub(super) fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_with_the_work() {
        let mut coverage = Coverage::new(BlockCoverage::WithinBudget);
        assert!(coverage.has_room(Duration::ZERO));
        coverage.spend(Duration::from_millis(1500));
        assert!(!coverage.has_room(Duration::from_secs(5)));
        assert!(coverage.has_room(Duration::from_secs(8)));
        let mut always = Coverage::new(BlockCoverage::Always);
        always.spend(Duration::from_secs(9));
        assert!(always.has_room(Duration::ZERO));
        assert!(!Coverage::new(BlockCoverage::Never).is_wanted());
    }
}
