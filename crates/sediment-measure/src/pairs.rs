// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs two commands in turn, so that drift of the machine (frequency, temperature, neighbours) affects both alike.
//!
//! ```text
//! pair      1     2     3     4
//! runs     A B   B A   A B   B A      the order turns with every pair: neither always comes first
//! ratio    B/A   B/A   B/A   B/A      one per pair, of runs that stood side by side in time
//! ```
//!
//! An uncounted run of each comes first, and fills the page cache. The result is the median and the spread of the
//! ratios, without a verdict.

use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::command::{Command, Usage};
use std::time::Duration;

/// One of the two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairSide {
    /// The one that ratios are divided by.
    Baseline,
    /// The other.
    Candidate,
}

/// One run of each command, right after each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<T> {
    /// Cost of the baseline.
    pub baseline: T,
    /// Cost of the candidate.
    pub candidate: T,
    /// The command that ran first.
    pub first: PairSide,
}

/// Runs both commands `count` times in pairs, after one uncounted run of each; `each` gets the number of finished pairs after every pair.
///
/// # Errors
/// If `count` is 0, or a run fails.
pub fn run(
    baseline: &Command,
    candidate: &Command,
    count: u32,
    mut each: impl FnMut(u32),
) -> Result<Vec<Pair<Usage>>> {
    let measure = |side| {
        let command = match side {
            PairSide::Baseline => baseline,
            PairSide::Candidate => candidate,
        };
        Ok(sediment_process::command::run(command, 0)?.successful(command)?.usage)
    };
    interleave(count, measure, &mut each)
}

/// The plan of [`run`] for any way of measuring.
fn interleave<T>(
    count: u32,
    mut measure: impl FnMut(PairSide) -> Result<T>,
    each: &mut dyn FnMut(u32),
) -> Result<Vec<Pair<T>>> {
    if count == 0 {
        return Err(Error::new(ErrorCode::Usage, "a comparison needs at least one pair of runs"));
    }
    measure(PairSide::Baseline)?;
    measure(PairSide::Candidate)?;
    let mut pairs = Vec::new();
    for index in 0..count {
        let pair = if index % 2 == 0 {
            let baseline = measure(PairSide::Baseline)?;
            Pair { baseline, candidate: measure(PairSide::Candidate)?, first: PairSide::Baseline }
        } else {
            let candidate = measure(PairSide::Candidate)?;
            Pair { baseline: measure(PairSide::Baseline)?, candidate, first: PairSide::Candidate }
        };
        pairs.push(pair);
        each(index + 1);
    }
    Ok(pairs)
}

/// Ratio of the candidate to the baseline for one cost, by pair; pairs with a zero baseline have no ratio.
#[must_use]
pub fn ratios(pairs: &[Pair<Usage>], cost: fn(&Usage) -> Duration) -> Vec<f64> {
    pairs
        .iter()
        .filter(|pair| !cost(&pair.baseline).is_zero())
        .map(|pair| cost(&pair.candidate).as_nanos() as f64 / cost(&pair.baseline).as_nanos() as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_interleaved_and_the_order_turns() {
        let mut seen = String::new();
        let mut done = Vec::new();
        let measure = |side| {
            seen.push(if side == PairSide::Baseline { 'A' } else { 'B' });
            Ok(seen.len())
        };
        let pairs = interleave(3, measure, &mut |count| done.push(count)).unwrap();
        assert_eq!(seen, "ABABBAAB");
        assert_eq!(done, [1, 2, 3]);
        assert_eq!(pairs[1], Pair { baseline: 6, candidate: 5, first: PairSide::Candidate });
    }

    #[test]
    fn a_failing_run_ends_the_comparison() {
        let failing = |side| {
            if side == PairSide::Candidate {
                Err(Error::new(ErrorCode::ProgramFailed, "broke"))
            } else {
                Ok(())
            }
        };
        assert_eq!(interleave(5, failing, &mut |_| {}).unwrap_err().to_string(), "broke");
        assert_eq!(interleave(0, |_| Ok(()), &mut |_| {}).unwrap_err().code(), ErrorCode::Usage);
    }

    #[test]
    fn ratios_are_of_one_pair_each() {
        let usage = |milliseconds| Usage { wall: Duration::from_millis(milliseconds), ..Usage::default() };
        let pair = |baseline, candidate| Pair {
            baseline: usage(baseline),
            candidate: usage(candidate),
            first: PairSide::Baseline,
        };
        assert_eq!(ratios(&[pair(100, 50), pair(200, 300), pair(0, 5)], |usage| usage.wall), [0.5, 1.5]);
    }
}
