// SPDX-License-Identifier: MIT OR Apache-2.0
//! Equivalence of two builds within a margin: two one-sided t tests (D. Schuirmann, "A comparison of the two one-sided
//! tests procedure and the power approach for assessing the equivalence of average bioavailability", 1987).

use super::{Effect, distribution};

/// Returns the larger p-value of the two tests: that the effect is at or below −margin, and that it is at or above
/// +margin. Below 1 − confidence, the builds count as equivalent.
#[must_use]
pub fn equivalence_p(effect: &Effect, margin: f64) -> f64 {
    let estimate = effect.interval.estimate;
    if effect.standard_error == 0.0 {
        return if estimate.abs() < margin { 0.0 } else { 1.0 };
    }
    let above = (estimate + margin) / effect.standard_error;
    let below = (margin - estimate) / effect.standard_error;
    distribution::student_upper(above.min(below), effect.freedom)
}
