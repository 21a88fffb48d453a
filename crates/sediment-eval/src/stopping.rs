// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stopping rule of an experiment: it looks at precision and budget, never at the p-value of a difference between
//! builds. Stopping at the first p below a level finds differences that do not exist (P. Armitage, C. McPherson, B.
//! Rowe, "Repeated significance tests on accumulating data", 1969).
//!
//! A pilot of a few blocks gives the spread, and the spread gives the number of blocks for the wanted half-width. If
//! layout replicas differ, more blocks only reduce the variation of runs. Then more links are advised, as T. Kalibera
//! and R. Jones spend repetitions on the level that causes the variance ("Rigorous benchmarking in reasonable time",
//! ISMM 2013). The variance between links is estimated from a few of them, so the rule gives up on more blocks only if
//! an F test shows that links differ. That test does not involve the difference between builds.

use super::analysis::analyse;
use super::comparison::{Comparison, Design, EffectScale};
use super::data::{Experiment, Phase};
use super::findings::{Analysis, WorkloadAnalysis};
use super::needed::{Needed, NeededBlocks, in_per_cent, needed};
use super::statistics::power;
use sediment_core::error::{Error, ErrorCode, Result};

/// No experiment ends before this many blocks because of its precision or because links differ too much, if its budget allows more blocks.
///
/// A rule that stops as soon as an interval looks narrow stops more often when it is too narrow by chance. The interval
/// then contains the truth less often than promised (Y. Chow, H. Robbins, "On the asymptotic theory of fixed-width
/// sequential confidence intervals for the mean", 1965). docs/proofs/eval-errors.md has the coverage with this rule.
pub(crate) const LEAST_BLOCKS: u32 = 20;

/// Limits of an experiment: blocks, and the precision to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoppingBudget {
    /// Number of blocks of the pilot, from which the spread is estimated; 7 by default.
    pub pilot: u32,
    /// Largest number of blocks.
    pub most_blocks: u32,
    /// Wanted half-width of the headline's interval, relative: 0.005 is half a per cent.
    pub precision: f64,
}

impl Default for StoppingBudget {
    /// Seven blocks of pilot, at most 40 blocks, half a per cent. With runs that vary by 1 %, this finds a difference
    /// of 1 % in over nine of ten experiments (docs/proofs/eval-errors.md).
    fn default() -> Self {
        Self { pilot: 7, most_blocks: 40, precision: 0.005 }
    }
}

/// The runner's next step.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Run this many more blocks, then ask again.
    MoreBlocks {
        /// Their number.
        blocks: u32,
        /// Half-width so far, the widest of all builds and workloads; None during the pilot.
        half_width: Option<f64>,
    },
    /// Precise enough.
    Precise {
        /// Half-width reached.
        half_width: f64,
    },
    /// The budget is used up.
    Spent {
        /// Half-width reached, if there is one.
        half_width: Option<f64>,
        /// The remedy, in words.
        advice: String,
    },
    /// The budget is not used up, and no number of blocks could reach the precision.
    Futile {
        /// Half-width reached, if there is one.
        half_width: Option<f64>,
        /// Why blocks cannot help, and what would help, in words.
        why: String,
    },
}

/// Precision of one comparison, and the runs it still needs.
struct Requirement {
    half_width: f64,
    needed: Needed,
}

/// Decides the runner's next step from the blocks recorded so far.
///
/// # Errors
/// If the budget makes no sense; after the pilot, the errors of [`analyse`].
pub fn plan_next(experiment: &Experiment, budget: &StoppingBudget) -> Result<NextStep> {
    if !(budget.precision > 0.0 && budget.precision < 1.0) || budget.most_blocks == 0 {
        return Err(Error::new(
            ErrorCode::Usage,
            "a budget needs a block and a precision above 0 and below 1",
        ));
    }
    let done = blocks_done(experiment);
    let builds = experiment.variants.iter().filter(|variant| variant.probe.is_none()).count();
    // Fewer blocks could show nothing, and would get no verdict.
    let needed = power::pairs_needed((1.0 - experiment.confidence) / builds.saturating_sub(1).max(1) as f64);
    let pilot = budget.pilot.max(u32::try_from(needed).unwrap_or(u32::MAX)).min(budget.most_blocks);
    if done < pilot {
        return Ok(NextStep::MoreBlocks { blocks: pilot - done, half_width: None });
    }
    // A single build has no difference that could be precise.
    if builds < 2 {
        return Ok(match budget.most_blocks.saturating_sub(done) {
            0 => NextStep::Spent { half_width: None, advice: String::new() },
            blocks => NextStep::MoreBlocks { blocks, half_width: None },
        });
    }
    let analysis = analyse(experiment)?;
    let requirements: Vec<Requirement> =
        analysis.workloads.iter().flat_map(|workload| requirements(&analysis, workload, budget)).collect();
    let Some(widest) = requirements.iter().map(|requirement| requirement.half_width).reduce(f64::max) else {
        let advice = "the headline metric has no ratio here, so blocks cannot be planned".to_owned();
        return Ok(if done < budget.most_blocks {
            NextStep::Futile { half_width: None, why: advice }
        } else {
            NextStep::Spent { half_width: None, advice }
        });
    };
    let open = || requirements.iter().filter(|requirement| requirement.half_width > budget.precision);
    let half_width = Some(widest);
    let least = LEAST_BLOCKS.min(budget.most_blocks);
    if open().next().is_none() {
        return Ok(match least.saturating_sub(done) {
            0 => NextStep::Precise { half_width: widest },
            blocks => NextStep::MoreBlocks { blocks, half_width },
        });
    }
    // Comparisons that more blocks cannot help do not delay those that they can help.
    let next_look = open().filter_map(|requirement| requirement.needed.blocks.next_look(done)).max();
    let is_spent = done >= budget.most_blocks;
    if let (false, Some(next_look)) = (is_spent, next_look) {
        let blocks = next_look.max(least).clamp(done + 1, budget.most_blocks) - done;
        return Ok(NextStep::MoreBlocks { blocks, half_width });
    }
    // Before this, the difference between links is not well known.
    if !is_spent && done < least {
        return Ok(NextStep::MoreBlocks { blocks: least - done, half_width });
    }
    let advice = advice(&open().map(|requirement| requirement.needed).collect::<Vec<Needed>>());
    Ok(if is_spent {
        NextStep::Spent { half_width, advice: format!("needed: {advice}") }
    } else {
        let why = format!(
            "links differ too much for any number of blocks to reach ±{} %; needed: {advice}",
            in_per_cent(budget.precision)
        );
        NextStep::Futile { half_width, why }
    })
}

/// The remedy for all comparisons that are not precise enough.
fn advice(open: &[Needed]) -> String {
    let links = open.iter().filter_map(|needed| needed.links).max();
    let most = open.iter().map(|needed| needed.blocks).max_by_key(|blocks| blocks.count());
    let can_help = open.iter().all(|needed| needed.blocks.count().is_some());
    match (most.filter(|_| can_help).and_then(NeededBlocks::in_words), links) {
        (Some(blocks), None) => format!("{blocks} blocks in all"),
        (Some(blocks), Some(links)) => {
            format!("{blocks} blocks in all, or about {links} layout replicas of each build")
        }
        (None, Some(links)) => format!("more layout replicas, about {links} of each build, not more blocks"),
        (None, None) => "more layout replicas, not more blocks".to_owned(),
    }
}

/// Returns the number of blocks in which some build has a measured run.
fn blocks_done(experiment: &Experiment) -> u32 {
    let measured = experiment.observations.iter().filter(|run| run.phase == Phase::Measured);
    let last = measured.filter_map(|run| run.block).max();
    last.map_or(0, |last| last.saturating_add(1))
}

fn requirements(
    analysis: &Analysis,
    workload: &WorkloadAnalysis,
    budget: &StoppingBudget,
) -> Vec<Requirement> {
    workload
        .verdicts
        .iter()
        .filter_map(|build| workload.headline_comparison(build.variant))
        .filter_map(|comparison| requirement(analysis, workload, comparison, budget))
        .collect()
}

fn requirement(
    analysis: &Analysis,
    workload: &WorkloadAnalysis,
    comparison: &Comparison,
    budget: &StoppingBudget,
) -> Option<Requirement> {
    if comparison.scale != EffectScale::Logarithm {
        return None;
    }
    let effect = comparison.effect?;
    let split = workload.components.as_ref();
    if matches!(comparison.design, Design::Replicated { .. }) && split.is_none() {
        return None;
    }
    let needed = needed(split, comparison, budget.precision, analysis.confidence)?;
    Some(Requirement { half_width: effect.interval.half_width(), needed })
}
