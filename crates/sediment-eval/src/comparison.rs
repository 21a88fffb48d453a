// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two builds on one metric, by the design of the data.
//!
//! ```text
//! blocks, one link each       one log-ratio a block                     t interval over blocks
//! blocks, several links       one mean a link, over the same blocks     t interval over links; over blocks as well
//! no blocks                   logarithms of either build                Welch's interval
//! printed summaries           mean and coefficient of variation         Welch's interval, to first order
//! ```
//!
//! With several links the interval is valid for any link of the build, also for links that were not measured. An
//! interval over blocks would be valid only for the measured files. Ratios are computed on logarithms. A metric with a
//! zero or negative value has no ratio, so plain differences are used.

use super::data::Experiment;
use super::samples::{MetricValue, MetricValues};
use super::statistics::mann_whitney::{MannWhitney, mann_whitney};
use super::statistics::signed_rank::{SignedRank, signed_rank};
use super::statistics::spread::{self, SpreadTest};
use super::statistics::{Effect, Interval, Moments, bootstrap, equivalence, student, welch};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Scale of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum EffectScale {
    /// Natural logarithm of the ratio to the baseline.
    #[serde(rename = "log-ratio")]
    Logarithm,
    /// The metric's own unit, because a value is zero or negative.
    #[serde(rename = "difference")]
    Plain,
}

/// Converts a logarithm of a ratio to a change in per cent: ln 1.03 gives 3.
#[must_use]
pub fn percent(log_ratio: f64) -> f64 {
    log_ratio.exp_m1() * 100.0
}

/// Design that the samples allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Design {
    /// Runs of one block side by side, one link of each build.
    Paired {
        /// Blocks with a value of both.
        blocks: usize,
    },
    /// Runs of one block side by side, several links of each build.
    Replicated {
        /// Blocks with a value of every link of both.
        blocks: usize,
        /// Links of the build and of the baseline.
        links: (usize, usize),
    },
    /// Samples without blocks.
    Unpaired {
        /// Runs of the build and of the baseline.
        runs: (usize, usize),
    },
    /// Means that another tool printed, without single values.
    Summarised {
        /// Runs of the build and of the baseline.
        runs: (u64, u64),
    },
}

/// Comparison of a build with another, nearly always the baseline, on one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The build, as an index into the experiment's variants.
    #[serde(skip)]
    pub variant: usize,
    /// The build it is compared with.
    #[serde(skip)]
    pub against: usize,
    /// Design that the samples allowed.
    pub design: Design,
    /// Scale of `estimate` and the effects.
    pub scale: EffectScale,
    /// The difference: mean log-ratio, or mean difference.
    pub estimate: f64,
    /// The difference with its interval and test, which verdicts use; null if no spread is known.
    pub effect: Option<Effect>,
    /// With several links: the interval over blocks, which holds only for these files.
    pub these_links: Option<Effect>,
    /// With several links, for the headline: the bootstrap over links and blocks.
    pub bootstrap: Option<Interval>,
    /// Hodges–Lehmann estimate and signed-rank test of the paired differences.
    pub signed_rank: Option<SignedRank>,
    /// Student's test of the values, unpaired, for older reports.
    pub student: Option<Effect>,
    /// Welch's test of the values, unpaired.
    pub welch: Option<Effect>,
    /// Mann–Whitney test of the values, unpaired.
    pub mann_whitney: Option<MannWhitney>,
    /// Test for equal coefficients of variation.
    #[serde(rename = "equal_cv")]
    pub spread: Option<SpreadTest>,
    /// p-value of the equivalence test: a small one shows that the difference is within the margin.
    pub equivalence_p: Option<f64>,
    /// p-value adjusted for the number of questions: Holm over builds for the headline, Benjamini and Hochberg over the rest.
    pub adjusted_p: Option<f64>,
    /// The paired differences by block.
    pub differences: Vec<(u32, f64)>,
}

impl Comparison {
    /// The p-value of the effect.
    #[must_use]
    pub fn p(&self) -> Option<f64> {
        self.effect.map(|effect| effect.p)
    }

    /// Returns the change in per cent, if the scale has ratios.
    #[must_use]
    pub fn change(&self) -> Option<f64> {
        (self.scale == EffectScale::Logarithm).then(|| percent(self.estimate))
    }
}

/// Values by block of each link.
type Links = BTreeMap<u32, BTreeMap<u32, f64>>;

/// Settings of a comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) scale: EffectScale,
    /// Only this link of the other build, which is the one a probe is compared with.
    pub(super) only_link: Option<u32>,
    /// True if the bootstrap is worth its time.
    pub(super) bootstrap: bool,
}

/// Compares two groups; `None` if one is empty or they cannot be compared.
pub(super) fn compare(
    manner: Manner,
    variant: usize,
    first: &MetricValues,
    against: usize,
    second: &MetricValues,
) -> Option<Comparison> {
    match (first, second) {
        (MetricValues::Samples(first), MetricValues::Samples(second)) => {
            let second: Vec<MetricValue> = second
                .iter()
                .filter(|s| manner.only_link.is_none_or(|link| link == s.replica))
                .copied()
                .collect();
            let found = of_samples(manner, first, &second)?;
            Some(Comparison { variant, against, ..found })
        }
        _ => {
            let found = of_summaries(manner, &first.moments()?, &second.moments()?)?;
            Some(Comparison { variant, against, ..found })
        }
    }
}

fn of_summaries(manner: Manner, first: &Moments, second: &Moments) -> Option<Comparison> {
    let confidence = manner.experiment.confidence;
    let (one, other) = match manner.scale {
        EffectScale::Logarithm => (first.of_logarithms()?, second.of_logarithms()?),
        EffectScale::Plain => (*first, *second),
    };
    let effect = welch::two_groups(&one, &other, confidence);
    let mut found =
        empty(Design::Summarised { runs: (first.count as u64, second.count as u64) }, manner.scale);
    found.estimate = one.mean - other.mean;
    found.effect = effect;
    found.student =
        first.variance.and(second.variance).and_then(|_| student::two_groups(first, second, confidence));
    found.welch = welch::two_groups(first, second, confidence);
    found.spread = spread::forkman(first, second);
    finish(manner, found)
}

fn of_samples(manner: Manner, first: &[MetricValue], second: &[MetricValue]) -> Option<Comparison> {
    let values = |samples: &[MetricValue]| samples.iter().map(|s| s.value).collect::<Vec<_>>();
    let (first_values, second_values) = (values(first), values(second));
    let (first_moments, second_moments) = (Moments::of(&first_values)?, Moments::of(&second_values)?);
    let mut found = match (links(manner.scale, first), links(manner.scale, second)) {
        (Some(first_links), Some(second_links)) => of_blocks(manner, &first_links, &second_links)?,
        _ => of_runs(manner, first, second)?,
    };
    let confidence = manner.experiment.confidence;
    found.student = student::two_groups(&first_moments, &second_moments, confidence);
    found.welch = welch::two_groups(&first_moments, &second_moments, confidence);
    found.mann_whitney = mann_whitney(&first_values, &second_values);
    if manner.scale == EffectScale::Logarithm {
        found.spread = spread::brown_forsythe(&scaled(manner.scale, first), &scaled(manner.scale, second));
    }
    finish(manner, found)
}

fn of_runs(manner: Manner, first: &[MetricValue], second: &[MetricValue]) -> Option<Comparison> {
    let confidence = manner.experiment.confidence;
    let (one, other) =
        (Moments::of(&scaled(manner.scale, first))?, Moments::of(&scaled(manner.scale, second))?);
    let mut found = empty(Design::Unpaired { runs: (first.len(), second.len()) }, manner.scale);
    found.estimate = one.mean - other.mean;
    let (one_by_link, other_by_link) = (link_means(manner.scale, first), link_means(manner.scale, second));
    found.effect = if one_by_link.len() + other_by_link.len() > 2 {
        // Runs of one link share its luck, so only links are independent.
        let effect =
            student::two_groups(&Moments::of(&one_by_link)?, &Moments::of(&other_by_link)?, confidence)?;
        found.estimate = effect.interval.estimate;
        Some(effect)
    } else {
        welch::two_groups(&one, &other, confidence)
    };
    Some(found)
}

fn link_means(scale: EffectScale, samples: &[MetricValue]) -> Vec<f64> {
    let mut links: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        links.entry(sample.replica).or_default().push(scale.of(sample.value));
    }
    links.values().map(|values| values.iter().sum::<f64>() / values.len() as f64).collect()
}

fn of_blocks(manner: Manner, first: &Links, second: &Links) -> Option<Comparison> {
    let confidence = manner.experiment.confidence;
    let blocks = common_blocks(first.values().chain(second.values()))?;
    let rows = |links: &Links| -> Vec<Vec<f64>> {
        links.values().map(|link| blocks.iter().map(|block| link[block]).collect()).collect()
    };
    let (first_rows, second_rows) = (rows(first), rows(second));
    let mean_at =
        |rows: &[Vec<f64>], at: usize| rows.iter().map(|row| row[at]).sum::<f64>() / rows.len() as f64;
    let differences: Vec<f64> =
        (0..blocks.len()).map(|at| mean_at(&first_rows, at) - mean_at(&second_rows, at)).collect();
    let over_blocks = student::paired(&differences, confidence);
    let counts = (first_rows.len(), second_rows.len());
    let design = if counts == (1, 1) {
        Design::Paired { blocks: blocks.len() }
    } else {
        Design::Replicated { blocks: blocks.len(), links: counts }
    };
    let mut found = empty(design, manner.scale);
    found.estimate = Moments::of(&differences)?.mean;
    found.signed_rank = signed_rank(&differences, confidence);
    if counts == (1, 1) {
        found.effect = over_blocks;
    } else {
        let link_means = |rows: &[Vec<f64>]| {
            Moments::of(
                &rows.iter().map(|row| row.iter().sum::<f64>() / row.len() as f64).collect::<Vec<_>>(),
            )
        };
        found.effect = student::two_groups(&link_means(&first_rows)?, &link_means(&second_rows)?, confidence);
        found.these_links = over_blocks;
        if manner.bootstrap {
            found.bootstrap =
                bootstrap::hierarchical(&first_rows, &second_rows, confidence, manner.experiment.seed);
        }
    }
    found.differences = blocks.iter().copied().zip(differences).collect();
    Some(found)
}

/// Blocks in which every link has a value; `None` if there is none.
pub(super) fn common_blocks<'a>(links: impl Iterator<Item = &'a BTreeMap<u32, f64>>) -> Option<Vec<u32>> {
    let common = links
        .map(|link| link.keys().copied().collect::<BTreeSet<u32>>())
        .reduce(|common, blocks| common.intersection(&blocks).copied().collect())?;
    (!common.is_empty()).then(|| common.into_iter().collect())
}

/// Values by link and block; None unless every sample belongs to a block.
pub(super) fn links(scale: EffectScale, samples: &[MetricValue]) -> Option<Links> {
    let mut found = Links::new();
    for (sample, value) in samples.iter().zip(scaled(scale, samples)) {
        found.entry(sample.replica).or_default().insert(sample.block?, value);
    }
    Some(found)
}

fn scaled(scale: EffectScale, samples: &[MetricValue]) -> Vec<f64> {
    samples.iter().map(|sample| scale.of(sample.value)).collect()
}

/// Logarithms if every value of every build has one.
pub(super) fn scale(groups: &[MetricValues]) -> EffectScale {
    if groups.iter().all(MetricValues::all_positive) { EffectScale::Logarithm } else { EffectScale::Plain }
}

impl EffectScale {
    pub(super) fn of(self, value: f64) -> f64 {
        match self {
            EffectScale::Logarithm => value.ln(),
            EffectScale::Plain => value,
        }
    }
}

fn empty(design: Design, scale: EffectScale) -> Comparison {
    Comparison {
        variant: 0,
        against: 0,
        design,
        scale,
        estimate: 0.0,
        effect: None,
        these_links: None,
        bootstrap: None,
        signed_rank: None,
        student: None,
        welch: None,
        mann_whitney: None,
        spread: None,
        equivalence_p: None,
        adjusted_p: None,
        differences: Vec::new(),
    }
}

fn finish(manner: Manner, mut found: Comparison) -> Option<Comparison> {
    if !found.estimate.is_finite() {
        return None;
    }
    if manner.scale == EffectScale::Logarithm {
        let margin = manner.experiment.margin.ln_1p();
        found.equivalence_p = found.effect.map(|effect| equivalence::equivalence_p(&effect, margin));
    }
    Some(found)
}
