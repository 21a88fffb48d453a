// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes how much of a recording came into the profile, and the main reasons for losing the rest.

use crate::read::Recording;
use sediment_core::profile::Profile;
use sediment_core::skipped::{Reason, Skipped};

/// Weight of a recording that came into the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportedShare {
    /// True for own cost: the recording has no calls.
    pub is_own_cost: bool,
    /// Weight that came into the profile.
    pub kept: u128,
    /// All recorded weight; 0 for a recording without weights.
    pub of: u128,
    /// Reasons for the loss, with their weights, the heaviest first.
    pub losses: Vec<(Reason, u128)>,
}

impl ImportedShare {
    pub(super) fn of(
        recording: &Recording,
        profile: &Profile,
        through_stubs: u128,
        resolving: &Skipped,
    ) -> Self {
        let is_own_cost = profile.total == 0;
        let (kept, of) = if is_own_cost {
            let functions = profile.functions().into_iter();
            let kept = functions
                .filter_map(|function| profile.facts(function).samples)
                .fold(0, u128::saturating_add);
            let seen = recording.samples().into_iter().fold(0u128, |sum, (_, cost)| sum.saturating_add(cost));
            (kept, seen.saturating_add(recording.skipped.weight(Reason::is_own_cost)))
        } else {
            let counts = profile.edges().into_iter().filter_map(|(.., facts)| facts.count);
            let kept = counts.fold(0, u128::saturating_add).saturating_add(through_stubs);
            (kept, profile.total)
        };
        let mut losses: Vec<(Reason, u128)> = Vec::new();
        for (reason, tally) in recording.skipped.iter().chain(resolving.iter()) {
            if reason.is_own_cost() == is_own_cost && reason.is_loss() && tally.weight > 0 {
                losses.push((reason, tally.weight));
            }
        }
        losses.sort_by_key(|(reason, weight)| (std::cmp::Reverse(*weight), *reason));
        if kept >= of {
            losses.clear();
        }
        Self { is_own_cost, kept: kept.min(of), of, losses }
    }

    /// The weight that is kept, in per cent; 100 for a recording without weights.
    #[must_use]
    pub fn percent(&self) -> f64 {
        // The quotient of two floats is exact enough, because it is only used for display and thresholds.
        if self.of == 0 { 100.0 } else { 100.0 * self.kept as f64 / self.of as f64 }
    }
}
