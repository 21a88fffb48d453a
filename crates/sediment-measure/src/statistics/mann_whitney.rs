// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mann–Whitney test: does one of two independent groups tend to have larger values (H. Mann, D. Whitney, 1947)?
//!
//! It is exact if all values are distinct and neither group has more than `LARGEST_EXACT`; otherwise it uses the normal
//! approximation, corrected for ties and continuity.

use super::{distribution, signed_rank::doubled_ranks};
use serde::Serialize;

/// Largest number of values in each group with an exact distribution.
pub(crate) const LARGEST_EXACT: usize = 25;

/// The test's result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct MannWhitney {
    /// Pairs in which the first group's value is the larger; equal ones count half.
    pub u: f64,
    /// Two-sided p-value of the same distribution for both groups.
    pub p: f64,
    /// True if `p` is exact.
    pub exact: bool,
}

/// Tests two groups; `None` if one is empty.
#[must_use]
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<MannWhitney> {
    let (m, n) = (first.len(), second.len());
    if m == 0 || n == 0 {
        return None;
    }
    let mut all: Vec<(f64, bool)> =
        first.iter().map(|x| (*x, true)).chain(second.iter().map(|x| (*x, false))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let values: Vec<f64> = all.iter().map(|(x, _)| *x).collect();
    let ranks = doubled_ranks(&values);
    let sum: usize =
        all.iter().zip(&ranks).filter(|((_, of_first), _)| *of_first).map(|(_, rank)| rank).sum();
    let u = (sum - m * (m + 1)) as f64 / 2.0;
    let tied = values.windows(2).any(|pair| pair[0] == pair[1]);
    let exact = !tied && m <= LARGEST_EXACT && n <= LARGEST_EXACT;
    let p = if exact { exact_p(m, n, u) } else { approximate_p(m, n, u, &ranks) };
    Some(MannWhitney { u, p, exact })
}

/// Counts the arrangements of m and n values by their U, as the coefficients of the Gaussian binomial
/// ∏ (1 − qⁿ⁺ⁱ) / (1 − qⁱ), i = 1 … m: whole numbers below 2⁵³ for 25 and 25.
fn exact_p(m: usize, n: usize, u: f64) -> f64 {
    let most = m * n;
    let mut counts = vec![0.0; most + 1];
    counts[0] = 1.0;
    for i in 1..=m {
        for at in (n + i..=most).rev() {
            counts[at] -= counts[at - (n + i)];
        }
        for at in i..=most {
            counts[at] += counts[at - i];
        }
    }
    let smaller = u.min(most as f64 - u) as usize;
    let tail: f64 = counts[..=smaller].iter().sum();
    let all: f64 = counts.iter().sum();
    (2.0 * tail / all).min(1.0)
}

fn approximate_p(m: usize, n: usize, u: f64, doubled: &[usize]) -> f64 {
    let (m, n) = (m as f64, n as f64);
    let total = m + n;
    let mean_rank = total + 1.0;
    // The variance of the actual ranks, including ties.
    let spread: f64 = doubled.iter().map(|rank| (*rank as f64 - mean_rank).powi(2)).sum::<f64>() / 4.0;
    let deviation = (m * n * spread / (total * (total - 1.0))).sqrt();
    if deviation == 0.0 {
        return 1.0;
    }
    let z = ((u - m * n / 2.0).abs() - 0.5) / deviation;
    (2.0 * distribution::normal_upper(z)).min(1.0)
}
