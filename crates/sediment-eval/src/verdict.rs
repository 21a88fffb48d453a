// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on builds, in four words.
//!
//! The rules apply in this order to the headline (the primary metric, per unit of work if work is counted), with
//! p-values adjusted after Holm over the builds of a workload:
//!
//! 1. The runs cannot be judged ([`super::unjudged`]): `inconclusive`.
//! 2. There are too few pairs for an exact test to reach the level at all: `inconclusive`, with the number needed.
//! 3. More than a tenth of a build's runs lack the headline: `inconclusive`, because values may be missing for a
//!    reason. Neither 2 nor 3 applies to a simulated headline, because its values are the same in every run.
//! 4. Both one-sided tests show that the difference is below the margin: `equivalent`, even if the difference is significantly
//!    different from zero.
//! 5. The difference is not zero, and larger than the difference between two files of one build: `faster` or `slower`.
//! 6. Otherwise `inconclusive`. A difference that is not shown is not "no difference".

use super::comparison::{Comparison, Design, EffectScale, percent};
use super::data::Direction;
use super::statistics::{Interval, power};
use serde::Serialize;

/// Answer of an experiment about a build, compared with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Better on the primary metric, beyond chance and noise floor.
    Faster,
    /// Worse on the primary metric, beyond chance and noise floor.
    Slower,
    /// The interval lies within the margin.
    Equivalent,
    /// None of the three is shown.
    Inconclusive,
}

impl Verdict {
    /// The word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equivalent => "equivalent",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// A verdict and its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildVerdict {
    /// The build, as an index into the experiment's variants.
    pub variant: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason, as a sentence without a full stop.
    pub reason: String,
    /// If there are too few runs for any answer, the least number needed for each build.
    pub needed: Option<usize>,
}

/// Largest difference between two measurements of the baseline (A/A and A/A′).
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseFloor {
    /// The largest of the estimates, as the size of a log-ratio.
    pub size: f64,
    /// Every probe, with its interval.
    pub probes: Vec<(usize, Interval)>,
}

/// Thresholds and settings of verdicts.
#[derive(Debug, Clone, Copy)]
pub(super) struct VerdictRule<'a> {
    pub(super) direction: Direction,
    pub(super) margin: f64,
    pub(super) confidence: f64,
    pub(super) noise_floor: Option<&'a NoiseFloor>,
    /// Number of builds decided together.
    pub(super) family: usize,
    /// True if the headline is simulated: such values are repeatable, and deliberately read in a few blocks only.
    pub(super) simulated: bool,
    /// Reason to give no verdict at all.
    pub(super) unjudged: Option<&'a str>,
    /// Reason to give if too many runs of the build or the baseline lack the headline.
    pub(super) gaps: Option<&'a str>,
}

/// Decides on a comparison with adjusted p-values; `equivalence_p` is adjusted too.
pub(super) fn decide(
    rule: VerdictRule,
    comparison: Option<&Comparison>,
    equivalence_p: Option<f64>,
) -> BuildVerdict {
    let inconclusive =
        |reason: String| BuildVerdict { variant: 0, verdict: Verdict::Inconclusive, reason, needed: None };
    if let Some(why) = rule.unjudged {
        return inconclusive(format!("not judged: {why}"));
    }
    let Some(comparison) = comparison else {
        return inconclusive("the headline metric is missing for one of the builds".to_owned());
    };
    if comparison.scale == EffectScale::Plain {
        return inconclusive(
            "a value of the headline metric is zero or negative, so there is no ratio".to_owned(),
        );
    }
    let level = 1.0 - rule.confidence;
    let too_few = too_few(&comparison.design, level, rule.family);
    if let Some((needed, reason)) = too_few.filter(|_| !rule.simulated) {
        return BuildVerdict { needed: Some(needed), ..inconclusive(reason) };
    }
    if let Some(gaps) = rule.gaps.filter(|_| !rule.simulated) {
        return inconclusive(format!("{gaps}: the values may not be missing at random"));
    }
    let (Some(effect), Some(p)) = (comparison.effect, comparison.adjusted_p) else {
        return inconclusive("means without a spread cannot be tested".to_owned());
    };
    let interval = effect.interval;
    let range = format!("{:+.2} % to {:+.2} %", percent(interval.lower), percent(interval.upper));
    let answer = |verdict, reason| BuildVerdict { variant: 0, verdict, reason, needed: None };
    if equivalence_p.is_some_and(|p| p < level) {
        let reason =
            format!("the difference is below the margin of {:.2} % (interval {range})", rule.margin * 100.0);
        return answer(Verdict::Equivalent, reason);
    }
    if p >= level || interval.clearance() <= 0.0 {
        let margin = rule.margin.ln_1p();
        let both = interval.lower < -margin && interval.upper > margin;
        let open = if both {
            "with changes in both directions, even beyond the margin"
        } else {
            "with a difference and with none"
        };
        return inconclusive(format!(
            "the interval, {range}, is compatible {open} (adjusted p = {})",
            short_p(p)
        ));
    }
    if let Some(noise_floor) =
        rule.noise_floor.filter(|noise_floor| interval.estimate.abs() <= noise_floor.size)
    {
        return inconclusive(format!(
            "{:+.2} % is not more than the {:.2} % by which builds of the same code differed here",
            percent(interval.estimate),
            percent(noise_floor.size)
        ));
    }
    let better = match rule.direction {
        Direction::LowerIsBetter => interval.estimate < 0.0,
        Direction::HigherIsBetter => interval.estimate > 0.0,
    };
    let verdict = if better { Verdict::Faster } else { Verdict::Slower };
    answer(
        verdict,
        format!("{:+.2} %, interval {range} (adjusted p = {})", percent(interval.estimate), short_p(p)),
    )
}

/// If there are too few runs for an exact test to reach the level, returns the number needed, and the sentence.
///
/// The first of several builds to be confirmed must pass the level divided by their number (Holm).
fn too_few(design: &Design, level: f64, family: usize) -> Option<(usize, String)> {
    let strict = level / family.max(1) as f64;
    let over = if family > 1 { format!(" over {family} builds") } else { String::new() };
    let (have, needed, kind) = match *design {
        Design::Paired { blocks } | Design::Replicated { blocks, .. } => {
            let needed = power::pairs_needed(strict);
            (blocks, needed, "blocks")
        }
        Design::Unpaired { runs: (first, second) } => {
            let needed = power::runs_needed(strict);
            let enough = power::least_mann_whitney_p(first, second) < strict;
            (if enough { needed } else { first.min(second) }, needed, "runs of each build")
        }
        Design::Summarised { runs: (first, second) } => {
            let needed = power::runs_needed(strict);
            let (first, second) = (count(first), count(second));
            let enough = power::least_mann_whitney_p(first, second) < strict;
            (if enough { needed } else { first.min(second) }, needed, "runs of each build")
        }
    };
    (have < needed).then(|| {
        let what = format!(
            "{have} {kind} cannot reach p < {level:.2}{over} with an exact test; {needed} are needed"
        );
        (needed, what)
    })
}

fn count(runs: u64) -> usize {
    usize::try_from(runs).unwrap_or(usize::MAX).min(1_000_000)
}

/// A p-value in the form of reports: three digits, small values with powers of ten.
#[must_use]
pub(crate) fn short_p(p: f64) -> String {
    if p == 0.0 {
        "0".to_owned()
    } else if p < 0.001 {
        format!("{p:.1e}")
    } else if p < 0.1 {
        format!("{p:.3}")
    } else {
        format!("{p:.2}")
    }
}
