// SPDX-License-Identifier: MIT OR Apache-2.0
//! Power: the smallest p-value that a number of runs can reach, and the number of runs that a level needs.

use super::distribution;

/// The smallest two-sided p-value of the signed-rank test with this many pairs: 2 · 2⁻ⁿ, if all differences have the
/// same sign.
#[must_use]
pub fn least_signed_rank_p(pairs: usize) -> f64 {
    (2.0 * 0.5_f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX))).min(1.0)
}

/// The smallest two-sided p-value of the Mann–Whitney test: 2 / C(m + n, m), if one group is entirely above the other.
#[must_use]
pub fn least_mann_whitney_p(first: usize, second: usize) -> f64 {
    let smaller = first.min(second);
    let ways = (1..=smaller).fold(1.0, |ways, k| ways * (first.max(second) + k) as f64 / k as f64);
    (2.0 / ways).min(1.0)
}

/// Number of pairs with which a signed-rank test can reach p < `level`.
#[must_use]
pub fn pairs_needed(level: f64) -> usize {
    (1..1075).find(|pairs| least_signed_rank_p(*pairs) < level).unwrap_or(1075)
}

/// Number of runs of each build with which a Mann–Whitney test can reach p < `level`.
#[must_use]
pub fn runs_needed(level: f64) -> usize {
    (1..1000).find(|runs| least_mann_whitney_p(*runs, *runs) < level).unwrap_or(1000)
}

/// Number of values of this deviation with which the t interval of their mean has at most this half-width; None if a
/// million are too few.
#[must_use]
pub fn count_for_half_width(deviation: f64, half_width: f64, confidence: f64) -> Option<u32> {
    let reaches = |count: u32| {
        let n = f64::from(count);
        distribution::student_quantile(confidence, n - 1.0) * deviation / n.sqrt() <= half_width
    };
    let (mut low, mut high) = (1_u32, 2_u32);
    while !reaches(high) {
        if high >= 1 << 20 {
            return None;
        }
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if reaches(middle) { high = middle } else { low = middle }
    }
    Some(high)
}
