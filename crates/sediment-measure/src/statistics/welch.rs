// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two groups of unequal variance (B. Welch, "The generalization of 'Student's' problem when several different
//! population variances are involved", Biometrika, 1947; degrees of freedom after Satterthwaite, 1946).

use super::{Effect, Moments};

/// The difference `first` − `second` of two means; `None` if a group has no variance.
#[must_use]
pub fn two_groups(first: &Moments, second: &Moments, confidence: f64) -> Option<Effect> {
    contrast(&[(1.0, *first), (-1.0, *second)], confidence)
}

/// Returns a weighted sum of means of independent groups, with Satterthwaite's degrees of freedom; `None` if a group
/// with a weight has no variance.
#[must_use]
pub fn contrast(groups: &[(f64, Moments)], confidence: f64) -> Option<Effect> {
    let (mut estimate, mut square, mut quartic) = (0.0, 0.0, 0.0);
    for (weight, group) in groups.iter().filter(|(weight, _)| *weight != 0.0) {
        let part = weight * weight * group.squared_error()?;
        estimate += weight * group.mean;
        square += part;
        quartic += part * part / (group.count - 1.0);
    }
    let fewest = groups.iter().map(|(_, group)| group.count - 1.0).fold(f64::INFINITY, f64::min);
    let freedom = if quartic > 0.0 { square * square / quartic } else { fewest };
    Effect::of(estimate, square.sqrt(), freedom, confidence)
}
