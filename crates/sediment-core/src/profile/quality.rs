// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quality of a recording, as its recorder measured it.

use super::Millionths;

/// Shares that show how completely a recording has the calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordingQuality {
    /// Share of the call sites in the recorded files that were counted.
    pub covered: Option<Millionths>,
    /// Estimated error of the counts as a share of all calls, if calls were counted for a part of the time.
    pub uncertain: Option<Millionths>,
}

impl RecordingQuality {
    /// Converts a share of a recorder.
    #[must_use]
    pub fn share(share: f64) -> Option<Millionths> {
        share.is_finite().then(|| Millionths((share.clamp(0.0, 1.0) * 1e6).round() as u128))
    }

    /// Combines it with the quality of another recording: keeps the lower coverage and the higher uncertainty.
    pub fn append(&mut self, other: &Self) {
        self.covered = [self.covered, other.covered].into_iter().flatten().min();
        self.uncertain = self.uncertain.max(other.uncertain);
    }

    /// Reasons why an order from such a recording is inaccurate, each with advice.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        /// From this value on, the overlap of the counts with exact counts is below 0.9, and the order has more misses.
        const UNCERTAIN: Millionths = Millionths(200_000);
        const COVERED: Millionths = Millionths(500_000);
        let percent = |Millionths(share): Millionths| share.div_ceil(10_000);
        let uncertain = self.uncertain.filter(|share| *share > UNCERTAIN).map(|share| {
            format!(
                "the counts of this recording may be wrong by {} % of the calls, which is too much for an order: record for longer, or with --exact",
                percent(share)
            )
        });
        let covered = self.covered.filter(|share| *share < COVERED).map(|share| {
            format!(
                "only {} % of the call sites were counted, which is too few for an order: record with --method valgrind, unless that is too slow",
                percent(share)
            )
        });
        uncertain.into_iter().chain(covered).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_quality_stays() {
        let quality = |covered, uncertain| RecordingQuality {
            covered: RecordingQuality::share(covered),
            uncertain: RecordingQuality::share(uncertain),
        };
        let mut all = RecordingQuality::default();
        all.append(&quality(0.98, 0.1));
        all.append(&quality(0.9, 0.05));
        all.append(&RecordingQuality::default());
        assert_eq!(all, quality(0.9, 0.1));
        assert_eq!(all.doubts(), [""; 0]);
        all.append(&quality(0.4, 0.3));
        assert_eq!(all.doubts().len(), 2);
        assert_eq!(RecordingQuality::share(f64::NAN), None);
        assert_eq!(RecordingQuality::share(2.0), Some(Millionths(1_000_000)));
    }
}
