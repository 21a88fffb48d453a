// SPDX-License-Identifier: MIT OR Apache-2.0
//! When an experiment has run long enough: on precision or on budget, never on a p-value, as whoever stops at the first p below
//! a level finds differences where there are none (P. Armitage, C. McPherson, B. Rowe, "Repeated significance tests on
//! accumulating data", 1969).
//!
//! A pilot of a few blocks tells the spread; from it follows how many blocks bring the interval to the wanted half-width. Where
//! layout replicas differ among themselves, more blocks help only as far as runs do: then more links are advised, as T. Kalibera
//! and R. Jones spend repetitions where the variance arises ("Rigorous benchmarking in reasonable time", ISMM 2013).

use super::analysis::{Analysis, WorkloadAnalysis, analyse};
use super::comparison::{Comparison, Design, Scale};
use super::data::{Experiment, Phase};
use super::statistics::{distribution, power};
use crate::error::{Error, ErrorKind, Result};

/// No experiment ends on precision before this many blocks, if its budget allows them.
///
/// Whoever stops as soon as an interval looks narrow stops more often when chance has made it too narrow, and then it holds the
/// truth less often than it says (Y. Chow, H. Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals
/// for the mean", 1965). docs/proofs/eval-errors.md has the coverage with this rule.
pub const LEAST_BLOCKS: u32 = 20;

/// What an experiment may cost and how sharp it must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Blocks of the pilot, from which the spread is learnt; 7 unless told otherwise.
    pub pilot: u32,
    /// Most blocks to run.
    pub most_blocks: u32,
    /// Half-width of the headline's interval to reach, relative: 0.005 is half a per cent.
    pub precision: f64,
}

impl Default for Budget {
    /// Seven blocks of pilot, 40 at most, half a per cent. On runs that vary by 1 % this finds a difference of 1 % in more than
    /// nine of ten experiments (docs/proofs/eval-errors.md).
    fn default() -> Self {
        Self { pilot: 7, most_blocks: 40, precision: 0.005 }
    }
}

/// What the runner does next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Run so many more blocks, then ask again.
    MoreBlocks {
        /// How many.
        blocks: u32,
        /// Half-width so far, the widest of all builds and workloads; None during the pilot.
        half_width: Option<f64>,
    },
    /// Sharp enough.
    Precise {
        /// Half-width reached.
        half_width: f64,
    },
    /// The budget is used up, or more blocks could not help.
    Spent {
        /// Half-width reached, where there is one.
        half_width: Option<f64>,
        /// What would help, in words.
        advice: String,
    },
}

/// What one comparison asks for.
struct Wish {
    half_width: f64,
    /// Blocks in all that would do; None where no number does.
    blocks: Option<u32>,
    /// Links of each build that would do.
    links: Option<u32>,
}

/// What the runner does after the blocks recorded so far.
///
/// # Errors
/// When the budget makes no sense, and as [`analyse`] once the pilot is done.
pub fn plan_next(experiment: &Experiment, budget: &Budget) -> Result<NextStep> {
    if !(budget.precision > 0.0 && budget.precision < 1.0) || budget.most_blocks == 0 {
        return Err(Error::new(
            ErrorKind::Usage,
            "a budget needs a block and a precision above 0 and below 1",
        ));
    }
    let done = blocks_done(experiment);
    let builds = experiment.variants.iter().filter(|variant| variant.probe.is_none()).count();
    // Fewer could not show anything: a verdict would be refused.
    let needed = power::pairs_needed((1.0 - experiment.confidence) / builds.saturating_sub(1).max(1) as f64);
    let pilot = budget.pilot.max(u32::try_from(needed).unwrap_or(u32::MAX)).min(budget.most_blocks);
    if done < pilot {
        return Ok(NextStep::MoreBlocks { blocks: pilot - done, half_width: None });
    }
    let analysis = analyse(experiment)?;
    let wishes: Vec<Wish> =
        analysis.workloads.iter().flat_map(|workload| wishes(&analysis, workload, budget)).collect();
    let Some(widest) = wishes.iter().map(|wish| wish.half_width).reduce(f64::max) else {
        let advice =
            "the headline metric has no ratio here, so that no number of blocks can be planned".to_owned();
        return Ok(NextStep::Spent { half_width: None, advice });
    };
    let open = || wishes.iter().filter(|wish| wish.half_width > budget.precision);
    let half_width = Some(widest);
    let least = LEAST_BLOCKS.min(budget.most_blocks);
    if open().next().is_none() {
        return Ok(match least.saturating_sub(done) {
            0 => NextStep::Precise { half_width: widest },
            blocks => NextStep::MoreBlocks { blocks, half_width },
        });
    }
    // A comparison that blocks cannot help does not keep those waiting that they can.
    let wanted = open().filter_map(|wish| wish.blocks).max();
    match wanted {
        Some(wanted) if done < budget.most_blocks => {
            let blocks = wanted.max(least).clamp(done + 1, budget.most_blocks) - done;
            Ok(NextStep::MoreBlocks { blocks, half_width })
        }
        Some(wanted) => {
            let advice = format!("about {wanted} blocks in all would be needed");
            Ok(NextStep::Spent { half_width, advice })
        }
        None => {
            let links = open().filter_map(|wish| wish.links).max();
            let count = links.map_or_else(String::new, |links| format!(", about {links} of each build"));
            Ok(NextStep::Spent {
                half_width,
                advice: format!("more layout replicas{count}, not more blocks"),
            })
        }
    }
}

/// Blocks that some build has a measured run of.
fn blocks_done(experiment: &Experiment) -> u32 {
    let measured = experiment.observations.iter().filter(|run| run.phase == Phase::Measured);
    let last = measured.filter_map(|run| run.block).max();
    last.map_or(0, |last| last.saturating_add(1))
}

fn wishes(analysis: &Analysis, workload: &WorkloadAnalysis, budget: &Budget) -> Vec<Wish> {
    workload
        .judgements
        .iter()
        .filter_map(|judgement| workload.headline_comparison(judgement.variant))
        .filter_map(|comparison| wish(analysis, workload, comparison, budget))
        .collect()
}

fn wish(
    analysis: &Analysis,
    workload: &WorkloadAnalysis,
    comparison: &Comparison,
    budget: &Budget,
) -> Option<Wish> {
    if comparison.scale != Scale::Logarithm {
        return None;
    }
    let effect = comparison.effect?;
    let half_width = effect.interval.half_width();
    let (confidence, precision) = (analysis.confidence, budget.precision);
    match comparison.design {
        Design::Paired { blocks } => {
            let deviation = effect.standard_error * (blocks as f64).sqrt();
            let blocks = power::count_for_half_width(deviation, precision, confidence);
            Some(Wish { half_width, blocks, links: None })
        }
        Design::Replicated { blocks, links: (one, other) } => {
            let split = workload.components?;
            let share = 1.0 / one as f64 + 1.0 / other as f64;
            let t = distribution::student_quantile(confidence, effect.freedom);
            // Half-width² = t² · share · (links² + runs² / blocks).
            let room = (precision / t).powi(2) / share - split.between_links.powi(2);
            let wanted = split.within_links.powi(2) / room;
            let reachable = room > 0.0 && wanted <= f64::from(budget.most_blocks) * 10.0;
            let per_link = (split.between_links.powi(2) + split.within_links.powi(2) / blocks as f64).sqrt();
            let links = power::count_for_half_width(per_link * 2.0_f64.sqrt(), precision, confidence);
            Some(Wish { half_width, blocks: reachable.then(|| wanted.ceil() as u32), links })
        }
        Design::Unpaired { .. } | Design::Summarised { .. } => None,
    }
}
