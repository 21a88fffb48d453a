// SPDX-License-Identifier: MIT OR Apache-2.0
//! Student's t: for the mean of paired differences, and for groups of equal variance ("The probable error of a mean",
//! Biometrika, 1908; several groups after R. Fisher, 1925).

use super::{Effect, Moments};

/// Returns the mean of differences, such as log-ratios of paired runs, with its t interval; None for fewer than two.
#[must_use]
pub fn paired(differences: &[f64], confidence: f64) -> Option<Effect> {
    let moments = Moments::of(differences)?;
    Effect::of(moments.mean, moments.squared_error()?.sqrt(), moments.count - 1.0, confidence)
}

/// Returns the difference `first` − `second` of two means with a common variance; see [`contrast`].
#[must_use]
pub fn two_groups(first: &Moments, second: &Moments, confidence: f64) -> Option<Effect> {
    contrast(&[(1.0, *first), (-1.0, *second)], confidence)
}

/// Returns a weighted sum of means of independent groups with a common variance. A group of one value contributes
/// neither variance nor degrees of freedom; `None` if no group has two, or a larger one has no variance.
#[must_use]
pub fn contrast(groups: &[(f64, Moments)], confidence: f64) -> Option<Effect> {
    let (mut estimate, mut share, mut squares, mut freedom) = (0.0, 0.0, 0.0, 0.0);
    for (weight, group) in groups {
        estimate += weight * group.mean;
        share += weight * weight / group.count;
        freedom += group.count - 1.0;
        squares += match group.variance {
            Some(variance) => (group.count - 1.0) * variance,
            None if group.count == 1.0 => 0.0,
            None => return None,
        };
    }
    Effect::of(estimate, (squares / freedom * share).sqrt(), freedom, confidence)
}
