// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests for equal coefficients of variation of two groups.
//!
//! For samples: the test of M. Brown and A. Forsythe ("Robust tests for the equality of variances", 1974: distances
//! from the median, compared as means are) on the logarithms of the values, whose deviation is the coefficient of
//! variation to first order. Unlike an F test of variances, it needs no normal distribution.
//!
//! For printed summaries: the approximate F test of J. Forkman ("Estimator and tests for common coefficients of
//! variation in normal distributions", Communications in Statistics, 2009), which does assume normal values.

use super::moments::{Moments, median};
use super::{distribution, student};
use serde::Serialize;

/// The test's result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct SpreadTest {
    /// The F statistic.
    pub f: f64,
    /// Its degrees of freedom, above and below.
    pub freedom: (f64, f64),
    /// p-value of equal relative spread.
    pub p: f64,
}

/// Brown and Forsythe's test on the given values (logarithms, to compare coefficients of variation); `None` if a group
/// has fewer than two values, or neither varies.
#[must_use]
pub fn brown_forsythe(first: &[f64], second: &[f64]) -> Option<SpreadTest> {
    let distances = |values: &[f64]| {
        let middle = median(values)?;
        Moments::of(&values.iter().map(|x| (x - middle).abs()).collect::<Vec<_>>())
            .filter(|moments| moments.variance.is_some())
    };
    let effect = student::two_groups(&distances(first)?, &distances(second)?, 0.5)?;
    // For two groups, F is the square of t.
    (effect.standard_error > 0.0).then_some(SpreadTest {
        f: effect.t * effect.t,
        freedom: (1.0, effect.freedom),
        p: effect.p,
    })
}

/// Forkman's test of two coefficients of variation; `None` if one is unknown or zero.
#[must_use]
pub fn forkman(first: &Moments, second: &Moments) -> Option<SpreadTest> {
    let term = |group: &Moments| {
        let square = group.coefficient_of_variation()?.powi(2);
        (square > 0.0).then(|| square / (1.0 + square * (group.count - 1.0) / group.count))
    };
    let f = term(first)? / term(second)?;
    let freedom = (first.count - 1.0, second.count - 1.0);
    let above = distribution::fisher_upper(f, freedom.0, freedom.1);
    let below = distribution::fisher_upper(1.0 / f, freedom.1, freedom.0);
    Some(SpreadTest { f, freedom, p: (2.0 * above.min(below)).min(1.0) })
}
