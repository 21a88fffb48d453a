// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes an experiment as JSON: all conclusions, and every sample that they are based on.

use crate::comparison::Comparison;
use crate::data::{Metric, Phase, Probe};
use crate::factors::FactorEffect;
use crate::findings::{LayoutNoise, MetricAnalysis, WorkloadAnalysis};
use crate::gate::{Gate, gate_reasons};
use crate::statistics::drift::Stability;
use crate::statistics::{Description, Interval};
use crate::verdict::Verdict;
use crate::{Analysis, Experiment};
use serde::Serialize;
use std::collections::BTreeMap;

/// Incremented if a reader of an older version could misread the new one.
const VERSION: u32 = 1;

/// Output of `eval … --json`: an experiment.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EvalOutput<'a> {
    #[cfg_attr(test, schemars(extend("const" = VERSION)))]
    schema: u32,
    #[cfg_attr(test, schemars(extend("const" = "sediment-eval")))]
    format: &'static str,
    /// The same as `schema`.
    #[cfg_attr(test, schemars(extend("const" = VERSION)))]
    version: u32,
    /// Names and values of facts about the machine, the builds and the plan.
    facts: &'a [(String, String)],
    /// Seed of all random choices, in decimal digits.
    #[cfg_attr(test, schemars(extend("pattern" = "^[0-9]+$")))]
    seed: String,
    /// Relative difference below which builds count as equivalent: 0.01 is 1 %.
    margin: f64,
    /// Confidence of the intervals: 0.95.
    confidence: f64,
    /// Metric that decides.
    primary: &'a str,
    /// Build that the others are compared with.
    baseline: &'a str,
    /// Metrics that could not be read, with the reason.
    absent: &'a BTreeMap<String, String>,
    /// Warnings, as text for people.
    warnings: &'a [String],
    gate: GateOutput,
    builds: Vec<BuildOutput<'a>>,
    metrics: &'a [Metric],
    workloads: Vec<WorkloadOutput<'a>>,
    /// Every run, warm-ups too.
    samples: Vec<SampleOutput<'a>>,
}

impl<'a> EvalOutput<'a> {
    pub(super) fn new(experiment: &'a Experiment, analysis: &'a Analysis) -> Self {
        let (answer, reasons) = gate_reasons(analysis);
        let builds = analysis.variants.iter().map(|build| BuildOutput {
            name: &build.name,
            replicas: build.replicas,
            probe: build.probe,
            factors: build.factors.iter().map(|factor| (&*factor.name, &*factor.level)).collect(),
        });
        let samples = experiment.observations.iter().map(|run| SampleOutput {
            workload: experiment.workloads.get(run.workload).map(|workload| &*workload.name),
            build: experiment.variants.get(run.variant).map(|build| &*build.name),
            replica: run.replica,
            block: run.block,
            slot: run.slot,
            at: run.at,
            phase: run.phase,
            work: run.work,
            values: &run.values,
        });
        Self {
            schema: VERSION,
            format: "sediment-eval",
            version: VERSION,
            facts: &experiment.facts,
            seed: experiment.seed.to_string(),
            margin: analysis.margin,
            confidence: analysis.confidence,
            primary: &experiment.primary,
            baseline: &analysis.variants[analysis.baseline].name,
            absent: &experiment.absent,
            warnings: &analysis.warnings,
            gate: GateOutput { answer, reasons },
            builds: builds.collect(),
            metrics: &analysis.metrics,
            workloads: analysis.workloads.iter().map(|found| WorkloadOutput::new(analysis, found)).collect(),
            samples: samples.collect(),
        }
    }
}

/// Answer of `eval gate`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GateOutput {
    answer: Gate,
    /// Why builds did not pass, as text for people.
    reasons: Vec<String>,
}

/// A build.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BuildOutput<'a> {
    name: &'a str,
    /// Number of links that differ only in their random layout.
    replicas: u32,
    /// Null unless the build measures the noise floor.
    probe: Option<Probe>,
    /// Levels by factor.
    factors: BTreeMap<&'a str, &'a str>,
}

/// Findings of a workload.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WorkloadOutput<'a> {
    name: &'a str,
    /// Metric that decides; null if it is missing.
    headline: Option<&'a str>,
    /// Recommendation, as text for people.
    recommendation: &'a str,
    /// Warnings, as text for people.
    warnings: &'a [String],
    verdicts: Vec<VerdictOutput<'a>>,
    /// Null without probes.
    noise_floor: Option<NoiseFloorOutput<'a>>,
    /// Null without layout replicas.
    variance_components: Option<ComponentsOutput>,
    /// How far two links of the same code differ by layout; null without layout replicas.
    layout_noise: Option<LayoutNoiseOutput>,
    steadiness: Option<Stability>,
    /// Null without factors.
    factors: Option<FactorsOutput<'a>>,
    /// Comparisons of builds with each other, without the baseline.
    pairs: Vec<ComparisonOutput<'a>>,
    /// Values by metric.
    metrics: BTreeMap<&'a str, ValuesOutput<'a>>,
}

impl<'a> WorkloadOutput<'a> {
    fn new(analysis: &'a Analysis, found: &'a WorkloadAnalysis) -> Self {
        let name = |variant: usize| analysis.variants[variant].name.as_str();
        let verdicts = found.verdicts.iter().map(|build| VerdictOutput {
            build: name(build.variant),
            verdict: build.verdict,
            reason: &build.reason,
            needed: build.needed,
        });
        let noise_floor = found.noise_floor.as_ref().map(|floor| {
            let probes = floor
                .probes
                .iter()
                .map(|(variant, interval)| ProbeOutput { build: name(*variant), interval: *interval });
            NoiseFloorOutput { size: floor.size, probes: probes.collect() }
        });
        let read = analysis.metrics.iter().zip(&found.metrics);
        let read = read.filter(|(_, metric)| metric.groups.iter().any(Option::is_some));
        Self {
            name: &found.name,
            headline: found.headline.map(|at| analysis.metrics[at].name.as_str()),
            recommendation: &found.recommendation,
            warnings: &found.warnings,
            verdicts: verdicts.collect(),
            noise_floor,
            variance_components: found.components.map(|split| ComponentsOutput {
                between_links: split.between_links,
                within_links: split.within_links,
                p: split.p,
                freedom: [split.link_freedom, split.run_freedom],
            }),
            layout_noise: found
                .layout_noise
                .map(|LayoutNoise { floor, layouts, blocks }| LayoutNoiseOutput { floor, layouts, blocks }),
            steadiness: found.stability,
            factors: found.factors.as_ref().map(|factors| match factors {
                Ok(effects) => FactorsOutput::Effects(effects),
                Err(why) => FactorsOutput::Refused(why),
            }),
            pairs: found.pairs.iter().map(|pair| ComparisonOutput::new(analysis, pair)).collect(),
            metrics: read
                .map(|(metric, values)| (&*metric.name, ValuesOutput::new(analysis, values)))
                .collect(),
        }
    }
}

/// How far two links of the same code differ by layout.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LayoutNoiseOutput {
    /// Upper bound of the differences, as a share: 0.02 is 2 %. The share of differences below it is `confidence`.
    floor: Interval,
    /// Number of links.
    layouts: usize,
    /// Number of blocks.
    blocks: usize,
}

/// Verdict on a build.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct VerdictOutput<'a> {
    build: &'a str,
    verdict: Verdict,
    /// Reason, as text for people.
    reason: &'a str,
    /// Number of runs of each build that any answer needs; null if there are enough.
    needed: Option<usize>,
}

/// Differences between builds of the same code.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NoiseFloorOutput<'a> {
    /// The largest estimate, as a log-ratio.
    size: f64,
    probes: Vec<ProbeOutput<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProbeOutput<'a> {
    build: &'a str,
    interval: Interval,
}

/// Standard deviations between links of one build, and between runs of one link.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComponentsOutput {
    between_links: f64,
    within_links: f64,
    /// p-value of no difference between links.
    p: f64,
    /// Degrees of freedom between and within links.
    freedom: [f64; 2],
}

/// Effects of the factors, or the reason why there are none.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum FactorsOutput<'a> {
    Effects(&'a [FactorEffect]),
    Refused(&'a str),
}

/// Values of a metric.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ValuesOutput<'a> {
    /// Descriptions by build.
    groups: BTreeMap<&'a str, DescriptionOutput>,
    /// Comparisons with the baseline.
    comparisons: Vec<ComparisonOutput<'a>>,
}

impl<'a> ValuesOutput<'a> {
    fn new(analysis: &'a Analysis, found: &'a MetricAnalysis) -> Self {
        let groups = found.groups.iter().zip(&analysis.variants);
        let groups =
            groups.filter_map(|(group, build)| Some((&*build.name, DescriptionOutput::new(group.as_ref()?))));
        let comparisons = found.comparisons.iter().flatten();
        Self {
            groups: groups.collect(),
            comparisons: comparisons.map(|found| ComparisonOutput::new(analysis, found)).collect(),
        }
    }
}

/// Figures of values; extremes and quartiles are null for printed summaries.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DescriptionOutput {
    count: f64,
    mean: f64,
    /// Standard deviation.
    deviation: Option<f64>,
    /// Coefficient of variation.
    cv: Option<f64>,
    minimum: Option<f64>,
    lower_quartile: Option<f64>,
    median: Option<f64>,
    upper_quartile: Option<f64>,
    maximum: Option<f64>,
    /// Values more than 1.5 interquartile ranges beyond the quartiles.
    far: Option<usize>,
}

impl DescriptionOutput {
    fn new(group: &Description) -> Self {
        let Description { moments, order } = group;
        Self {
            count: moments.count,
            mean: moments.mean,
            deviation: moments.deviation(),
            cv: moments.coefficient_of_variation(),
            minimum: order.map(|order| order.minimum),
            lower_quartile: order.map(|order| order.lower_quartile),
            median: order.map(|order| order.median),
            upper_quartile: order.map(|order| order.upper_quartile),
            maximum: order.map(|order| order.maximum),
            far: order.map(|order| order.far),
        }
    }
}

/// Comparison of two builds. Effects on the scale `log-ratio` are natural logarithms.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComparisonOutput<'a> {
    build: &'a str,
    against: &'a str,
    /// Null on the scale `difference`.
    change_percent: Option<f64>,
    #[serde(flatten)]
    found: &'a Comparison,
}

impl<'a> ComparisonOutput<'a> {
    fn new(analysis: &'a Analysis, found: &'a Comparison) -> Self {
        Self {
            build: &analysis.variants[found.variant].name,
            against: &analysis.variants[found.against].name,
            change_percent: found.change(),
            found,
        }
    }
}

/// A run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SampleOutput<'a> {
    workload: Option<&'a str>,
    build: Option<&'a str>,
    /// Link of the build, from 0.
    replica: u32,
    /// Null for unpaired data.
    block: Option<u32>,
    /// Position in the block's random order, from 0.
    slot: u32,
    /// Seconds since the experiment began.
    at: f64,
    phase: Phase,
    /// Units of work, if they are counted.
    work: Option<f64>,
    /// Values by metric.
    values: &'a BTreeMap<String, f64>,
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<EvalOutput<'_>>("eval");
}
