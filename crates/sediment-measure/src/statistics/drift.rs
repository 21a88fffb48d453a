// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stability of the machine: drift over time, autocorrelation of neighbouring runs, and the effect of the position in a block.
//!
//! All are computed from the residuals of runs, after subtracting the mean of the link and the mean of the slot.
//! Differences of consecutive runs would measure the slot effect instead if the first run of a block is slower.

use super::{Effect, distribution};
use serde::Serialize;
use std::collections::BTreeMap;

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedValue {
    /// Its link, of all links of all builds.
    pub link: usize,
    /// Position within its block.
    pub slot: u32,
    /// Seconds since the experiment began.
    pub at: f64,
    /// Logarithm of the value, or the value itself.
    pub value: f64,
}

/// Drift, autocorrelation and slot effect of the residuals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Stability {
    /// Change per hour, in the unit of the values; relative if they are logarithms.
    pub drift_per_hour: f64,
    /// Hours from the first run to the last.
    #[serde(skip)]
    pub hours: f64,
    /// Two-sided p-value of no drift.
    pub drift_p: f64,
    /// Correlation of neighbours in time, including effects of a block on all its runs.
    pub autocorrelation: f64,
    /// Upper 95 % bound for independent runs: 1.96 / √n.
    pub autocorrelation_bound: f64,
    /// The widest difference between the means of two slots.
    pub slot_effect: f64,
    /// p-value of no difference between slots (F test).
    pub slot_p: f64,
    /// Standard deviation of a residual.
    pub jitter: f64,
}

/// Number of sweeps that separate the means of links and slots. Blocks are in random order, so the two are nearly
/// independent, and a few sweeps would be enough.
const SWEEPS: usize = 30;

/// Tests runs in the order in which they were made; None if there are fewer than eight, or no degrees of freedom.
#[must_use]
pub fn stability(runs: &[TimedValue]) -> Option<Stability> {
    let count = runs.len();
    let links = index(runs.iter().map(|run| run.link));
    let slots = index(runs.iter().map(|run| run.slot as usize));
    let (link_count, slot_count) = (distinct(&links), distinct(&slots));
    if count < 8 || count < link_count + slot_count + 2 {
        return None;
    }
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let (mut link_means, mut slot_means) = (vec![0.0; link_count], vec![0.0; slot_count]);
    let without_slots = group_residuals(&values, &links, link_count);
    let mut rest = values;
    for _ in 0..SWEEPS {
        sweep(&mut rest, &links, &mut link_means);
        sweep(&mut rest, &slots, &mut slot_means);
    }
    let sum_of_squares = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>();
    let residual_square = sum_of_squares(&rest);
    let freedom = (count - link_count - (slot_count - 1)) as f64;

    let (slot_effect, slot_p) = if slot_count < 2 {
        (0.0, 1.0)
    } else {
        let between = (slot_count - 1) as f64;
        let gain = (sum_of_squares(&without_slots) - residual_square).max(0.0);
        let f = gain / between / (residual_square / freedom);
        let widest = slot_means.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            - slot_means.iter().copied().fold(f64::INFINITY, f64::min);
        (widest, if residual_square > 0.0 { distribution::fisher_upper(f, between, freedom) } else { 1.0 })
    };
    let (drift_per_hour, drift_p) = drift(runs, &rest, freedom - 1.0)?;
    let neighbours: f64 = rest.windows(2).map(|pair| pair[0] * pair[1]).sum();
    Some(Stability {
        drift_per_hour,
        hours: span_in_hours(runs),
        drift_p,
        autocorrelation: if residual_square > 0.0 { neighbours / residual_square } else { 0.0 },
        autocorrelation_bound: distribution::normal_quantile(0.025) / (count as f64).sqrt(),
        slot_effect,
        slot_p,
        jitter: (residual_square / freedom).sqrt(),
    })
}

/// Returns the correlation of neighbours in a series, such as the paired differences by block. If it is not zero,
/// intervals that assume independent blocks are wrong. None for fewer than eight values, or if nothing varies.
#[must_use]
pub fn neighbours(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    let product: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    (values.len() >= 8 && square > 0.0).then(|| product / square)
}

/// Returns the slope over time in hours, with its p-value.
fn drift(runs: &[TimedValue], rest: &[f64], freedom: f64) -> Option<(f64, f64)> {
    let hours: Vec<f64> = runs.iter().map(|run| run.at / 3600.0).collect();
    let middle = hours.iter().sum::<f64>() / hours.len() as f64;
    let spread: f64 = hours.iter().map(|t| (t - middle).powi(2)).sum();
    if spread == 0.0 || freedom < 1.0 {
        return Some((0.0, 1.0));
    }
    let slope = hours.iter().zip(rest).map(|(t, y)| (t - middle) * y).sum::<f64>() / spread;
    let left: f64 = hours.iter().zip(rest).map(|(t, y)| (y - slope * (t - middle)).powi(2)).sum();
    let error = (left / freedom / spread).sqrt();
    Effect::of(slope, error, freedom, 0.95).map(|effect| (slope, effect.p))
}

fn span_in_hours(runs: &[TimedValue]) -> f64 {
    let first = runs.iter().map(|run| run.at).fold(f64::INFINITY, f64::min);
    let last = runs.iter().map(|run| run.at).fold(f64::NEG_INFINITY, f64::max);
    (last - first) / 3600.0
}

fn index(keys: impl Iterator<Item = usize>) -> Vec<usize> {
    let keys: Vec<usize> = keys.collect();
    let mut positions = BTreeMap::new();
    for key in &keys {
        positions.entry(*key).or_insert(0);
    }
    for (place, slot) in positions.values_mut().enumerate() {
        *slot = place;
    }
    keys.iter().map(|key| positions[key]).collect()
}

fn distinct(positions: &[usize]) -> usize {
    positions.iter().max().map_or(0, |most| most + 1)
}

fn group_residuals(values: &[f64], groups: &[usize], count: usize) -> Vec<f64> {
    let mut rest = values.to_vec();
    sweep(&mut rest, groups, &mut vec![0.0; count]);
    rest
}

/// Subtracts the mean of every group from its values, and adds it to the group's mean.
fn sweep(values: &mut [f64], groups: &[usize], means: &mut [f64]) {
    let mut sums = vec![(0.0, 0.0); means.len()];
    for (value, group) in values.iter().zip(groups) {
        sums[*group].0 += value;
        sums[*group].1 += 1.0;
    }
    for (value, group) in values.iter_mut().zip(groups) {
        *value -= sums[*group].0 / sums[*group].1;
    }
    for (mean, (sum, count)) in means.iter_mut().zip(sums) {
        *mean += sum / count;
    }
}
