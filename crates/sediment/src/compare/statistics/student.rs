// SPDX-License-Identifier: MIT OR Apache-2.0
//! Student's t: for the mean of paired differences, and for two groups of equal variance ("The probable error of a mean",
//! Biometrika, 1908; two groups after R. Fisher, 1925).

use super::{Effect, Moments};

/// The mean of differences, such as the log-ratios of paired runs, with its t interval; None of fewer than two.
#[must_use]
pub fn paired(differences: &[f64], confidence: f64) -> Option<Effect> {
    let moments = Moments::of(differences)?;
    Effect::of(moments.mean, moments.squared_error()?.sqrt(), moments.count - 1.0, confidence)
}

/// The difference `first` − `second` of two means under one common variance. A group of one value adds to neither variance
/// nor degrees of freedom; None where no group has two.
#[must_use]
pub fn two_groups(first: &Moments, second: &Moments, confidence: f64) -> Option<Effect> {
    let squares = |group: &Moments| match group.variance {
        Some(variance) => Some((group.count - 1.0) * variance),
        None => (group.count == 1.0).then_some(0.0),
    };
    let freedom = first.count + second.count - 2.0;
    let pooled = (squares(first)? + squares(second)?) / freedom;
    let error = (pooled * (1.0 / first.count + 1.0 / second.count)).sqrt();
    Effect::of(first.mean - second.mean, error, freedom, confidence)
}
