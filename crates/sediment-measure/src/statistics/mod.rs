// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pure statistics, one file for each method, all checked against recorded results of scipy (`tests/golden/compare`).
//!
//! A function that lacks the values it needs returns `None`. The caller must ensure that all values are finite.

use serde::Serialize;

pub mod bootstrap;
pub mod components;
pub mod distribution;
pub mod drift;
pub mod equivalence;
pub mod factorial;
pub mod layout_noise;
pub mod mann_whitney;
pub mod moments;
pub mod multiplicity;
pub mod power;
pub mod signed_rank;
pub mod spread;
pub mod student;
pub mod welch;

pub use moments::{Description, Moments};

/// An estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

impl Interval {
    /// Half of its width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.upper - self.lower) / 2.0
    }

    /// The smallest distance of its points from zero; 0 if it contains zero.
    #[must_use]
    pub fn clearance(&self) -> f64 {
        self.lower.max(-self.upper).max(0.0)
    }
}

/// A difference with its standard error, tested by Student's t.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Effect {
    /// The difference with its interval.
    #[serde(flatten)]
    pub interval: Interval,
    /// Its standard error.
    pub standard_error: f64,
    /// Degrees of freedom of the standard error.
    pub freedom: f64,
    /// Difference divided by standard error; infinite (null in JSON) if the standard error is 0.
    #[cfg_attr(feature = "schemas", schemars(with = "Option<f64>"))]
    pub t: f64,
    /// Two-sided p-value of no difference.
    pub p: f64,
}

impl Effect {
    /// Judges an estimate; None without a degree of freedom.
    ///
    /// Values that never vary, such as those of a simulator, have a standard error of zero. Then any difference is
    /// certain (p = 0), and equal values give p = 1.
    #[must_use]
    pub fn of(estimate: f64, standard_error: f64, freedom: f64, confidence: f64) -> Option<Self> {
        if !(estimate.is_finite() && standard_error.is_finite() && standard_error >= 0.0 && freedom > 0.0) {
            return None;
        }
        let (t, p) = if standard_error > 0.0 {
            let t = estimate / standard_error;
            (t, distribution::student_two_sided(t, freedom))
        } else if estimate == 0.0 {
            (0.0, 1.0)
        } else {
            (f64::INFINITY.copysign(estimate), 0.0)
        };
        let reach = standard_error * distribution::student_quantile(confidence, freedom);
        let interval = Interval { estimate, lower: estimate - reach, upper: estimate + reach };
        Some(Self { interval, standard_error, freedom, t, p })
    }
}
