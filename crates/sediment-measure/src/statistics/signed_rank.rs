// SPDX-License-Identifier: MIT OR Apache-2.0
//! The signed-rank test and the Hodges–Lehmann estimate of paired differences (F. Wilcoxon, 1945; J. Hodges, E. Lehmann,
//! "Estimates of location based on rank tests", 1963).
//!
//! Zeros are counted and dropped, as by Wilcoxon. Equal sizes share their mean rank. The p-value is exact up to
//! `LARGEST_EXACT` differences, ties included: the distribution of the sum of ranks over all sign patterns is counted
//! (ranks are doubled, so that shared ones are whole). For more differences, it comes from the normal approximation
//! with correction for ties. The estimate is the median of the means of all pairs of differences (each also with
//! itself), zeros included. The ends of its interval are two of these means, chosen by the exact or approximate
//! distribution without ties.

use super::{Interval, distribution};
use serde::Serialize;

/// Largest number of differences with an exact distribution.
pub(crate) const LARGEST_EXACT: usize = 60;

/// Result of the signed-rank test of paired differences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct SignedRank {
    /// The Hodges–Lehmann estimate and its interval. With few pairs, the interval is the widest possible, and holds the true value
    /// less often than the confidence says.
    pub interval: Interval,
    /// Sum of the ranks of positive differences.
    pub positive_ranks: f64,
    /// Two-sided p-value of differences that are symmetric about zero.
    pub p: f64,
    /// True if `p` is exact.
    pub exact: bool,
    /// Differences that were zero, and have no sign to test.
    pub zeros: usize,
}

/// Tests and estimates; None if there are no differences.
#[must_use]
pub fn signed_rank(differences: &[f64], confidence: f64) -> Option<SignedRank> {
    let interval = hodges_lehmann(differences, confidence)?;
    let mut signed: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    signed.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let zeros = differences.len() - signed.len();
    let count = signed.len();
    let ranks = doubled_ranks(&signed.iter().map(|d| d.abs()).collect::<Vec<_>>());
    let positive: usize = signed.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    let exact = count <= LARGEST_EXACT;
    let p = if exact { exact_p(&ranks, positive) } else { approximate_p(&ranks, positive) };
    Some(SignedRank { interval, positive_ranks: positive as f64 / 2.0, p, exact, zeros })
}

/// Twice the rank of each ascending value; equal values get their mean rank.
pub(super) fn doubled_ranks(ascending: &[f64]) -> Vec<usize> {
    let mut ranks = vec![0; ascending.len()];
    let mut first = 0;
    for last in 0..ascending.len() {
        if last + 1 == ascending.len() || ascending[last + 1] != ascending[first] {
            ranks[first..=last].fill(first + last + 2);
            first = last + 1;
        }
    }
    ranks
}

/// The share of sign patterns with each doubled rank sum.
fn distribution_of(ranks: &[usize]) -> Vec<f64> {
    let mut shares = vec![0.0; ranks.iter().sum::<usize>() + 1];
    shares[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        for sum in (0..=reached).rev() {
            let half = shares[sum] / 2.0;
            shares[sum] = half;
            shares[sum + rank] += half;
        }
        reached += rank;
    }
    shares
}

fn exact_p(ranks: &[usize], positive: usize) -> f64 {
    let shares = distribution_of(ranks);
    let total = shares.len() - 1;
    // The distribution is symmetric, so this is twice the smaller tail.
    let tail: f64 = shares[..=positive.min(total - positive)].iter().sum();
    (2.0 * tail).min(1.0)
}

fn approximate_p(ranks: &[usize], positive: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    let variance = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum::<f64>() / 4.0;
    let z = (positive as f64 - total as f64 / 2.0) / variance.sqrt();
    (2.0 * distribution::normal_upper(z.abs())).min(1.0)
}

/// Median of the pairwise means, with an interval.
fn hodges_lehmann(differences: &[f64], confidence: f64) -> Option<Interval> {
    let count = differences.len();
    if count == 0 {
        return None;
    }
    let mut sorted = differences.to_vec();
    sorted.sort_by(f64::total_cmp);
    let means = count * (count + 1) / 2;
    let cut = critical_sum(count, (1.0 - confidence) / 2.0).saturating_sub(1).min((means - 1) / 2);
    let middle = (walsh(&sorted, (means - 1) / 2) + walsh(&sorted, means / 2)) / 2.0;
    Some(Interval { estimate: middle, lower: walsh(&sorted, cut), upper: walsh(&sorted, means - 1 - cut) })
}

/// Returns the largest rank sum w with P(W < w) ≤ tail, for `count` differences without ties. The interval begins at
/// the mean with this position, counted from 1.
fn critical_sum(count: usize, tail: f64) -> usize {
    if count <= LARGEST_EXACT {
        let ranks: Vec<usize> = (1..=count).collect();
        let mut below = 0.0;
        for (sum, share) in distribution_of(&ranks).iter().enumerate() {
            below += share;
            if below > tail {
                return sum;
            }
        }
        return 0;
    }
    let n = count as f64;
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    let sum = n * (n + 1.0) / 4.0 - distribution::normal_quantile(tail) * deviation;
    sum.max(0.0) as usize
}

/// Returns the mean at position `place`, from 0, in the ascending order of all pairwise means. It is found by bisection
/// over the floating point numbers: counting the means at or below a number needs no list of them.
fn walsh(sorted: &[f64], place: usize) -> f64 {
    let at_or_below = |bound: f64| {
        let (mut count, mut end) = (0, sorted.len());
        for (start, low) in sorted.iter().enumerate() {
            while end > start && f64::midpoint(*low, sorted[end - 1]) > bound {
                end -= 1;
            }
            if end <= start {
                break;
            }
            count += end - start;
        }
        count
    };
    let (mut low, mut high) = (key(sorted[0]), key(sorted[sorted.len() - 1]));
    while low < high {
        let middle = low + (high - low) / 2;
        if at_or_below(number(middle)) > place { high = middle } else { low = middle + 1 }
    }
    number(low)
}

/// An integer with the same order as the numbers.
fn key(x: f64) -> i128 {
    let bits = i128::from((x + 0.0).to_bits() & !(1 << 63));
    if x < 0.0 { -bits } else { bits }
}

fn number(key: i128) -> f64 {
    let size = f64::from_bits(key.unsigned_abs() as u64);
    if key < 0 { -size } else { size }
}
