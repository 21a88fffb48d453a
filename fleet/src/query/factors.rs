// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Factors`]: multipliers of a submitter's weights, so that all submitters of a version count alike.
//!
//! Each kind of number is divided by the sum of its counts, never by a claimed total. The engine multiplies only integers; the sums are divided by the
//! common multiple afterwards, so they do not depend on the order of rows.

use crate::submission::Sums;
use sediment_core::profile::SHARE_TOTAL;
use sediment_core::profile::rows::RowKind;

/// Weights with factors are multiples of this, and so are their sums.
pub(crate) const ONE: u128 = 1_000_000_000_000;

/// Kinds of numbers. The numbers of each kind have a separate total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// All calls.
    Total,
    /// Calls between two functions.
    Calls,
    Near,
    Samples,
    Blocks,
    /// Numbers of recordings, which are not multiplied.
    Recordings,
}

impl Scale {
    /// All kinds, with the names of their columns in the engine.
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::Total, "of_total"),
        (Self::Calls, "of_calls"),
        (Self::Near, "of_near"),
        (Self::Samples, "of_samples"),
        (Self::Blocks, "of_blocks"),
        (Self::Recordings, "of_recordings"),
    ];

    /// The kind of number for a kind of subject.
    pub(crate) fn of(kind: RowKind) -> Self {
        match kind {
            RowKind::Total => Self::Total,
            RowKind::Call => Self::Calls,
            RowKind::Near => Self::Near,
            RowKind::Function => Self::Samples,
            RowKind::BlocksTotal | RowKind::Block => Self::Blocks,
            _ => Self::Recordings,
        }
    }
}

/// Factors of a submitter of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Factors([u128; 6]);

impl Factors {
    /// From the counts of all submissions of a submitter.
    pub(crate) fn of(total: u128, sums: &Sums) -> Self {
        let over = |sum: u128| (SHARE_TOTAL * ONE).checked_div(sum).unwrap_or(0);
        Self([over(total), over(sums.calls), over(sums.near), over(sums.samples), over(sums.blocks), ONE])
    }

    /// The factor of a kind of numbers.
    pub(crate) fn of_scale(&self, scale: Scale) -> u128 {
        self.0.get(scale as usize).copied().unwrap_or(0)
    }
}

/// Converts a sum of weights with factors to shares: rounds half to even, and keeps at least 1 for events that happened.
pub(crate) fn divided(sum: u128) -> u128 {
    let (whole, rest) = (sum / ONE, sum % ONE);
    let up = rest > ONE / 2 || rest == ONE / 2 && whole % 2 == 1;
    let rounded = whole + u128::from(up);
    if sum > 0 { rounded.max(1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_submitter_is_one_share() {
        let sums = Sums { calls: 3 * SHARE_TOTAL, near: 0, samples: 7, blocks: 1 };
        let factors = Factors::of(SHARE_TOTAL, &sums);
        // Factors are rounded down, so a total lacks at most one part in ten billions for each recording.
        let whole = divided(3 * SHARE_TOTAL * factors.of_scale(Scale::Calls));
        assert!(whole <= SHARE_TOTAL && SHARE_TOTAL - whole <= 3 * SHARE_TOTAL / ONE, "{whole}");
        assert_eq!(divided(SHARE_TOTAL * factors.of_scale(Scale::Total)), SHARE_TOTAL);
        assert_eq!(divided(7 * factors.of_scale(Scale::Samples)), SHARE_TOTAL);
        assert_eq!(factors.of_scale(Scale::Near), 0);
        assert_eq!(divided(5 * factors.of_scale(Scale::Recordings)), 5);
        assert_eq!([0, 1, ONE, ONE + ONE / 2, 2 * ONE + ONE / 2].map(divided), [0, 1, 1, 2, 2]);
        assert!(Scale::ALL.iter().enumerate().all(|(at, (scale, _))| *scale as usize == at));
    }
}
