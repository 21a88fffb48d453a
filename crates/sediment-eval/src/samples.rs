// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measured runs of an experiment, by workload, metric and build; and checks of an experiment.

use super::data::{Experiment, LEAST_LINKS, Phase, SampleSummary};
use super::statistics::{Description, Moments};
use sediment_core::error::{Error, ErrorCode, Result};

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MetricValue {
    pub(super) replica: u32,
    pub(super) block: Option<u32>,
    pub(super) slot: u32,
    pub(super) at: f64,
    pub(super) value: f64,
}

/// Values of one build on one metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum MetricValues {
    Nothing,
    Samples(Vec<MetricValue>),
    Summary(SampleSummary),
}

impl MetricValues {
    pub(super) fn values(&self) -> Vec<f64> {
        match self {
            MetricValues::Samples(samples) => samples.iter().map(|sample| sample.value).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn moments(&self) -> Option<Moments> {
        match self {
            MetricValues::Nothing => None,
            MetricValues::Samples(_) => Moments::of(&self.values()),
            MetricValues::Summary(summary) => Some(moments_of(summary)),
        }
    }

    pub(super) fn description(&self) -> Option<Description> {
        match self {
            MetricValues::Samples(_) => Description::of(&self.values()),
            _ => self.moments().map(|moments| Description { moments, order: None }),
        }
    }

    pub(super) fn all_positive(&self) -> bool {
        match self {
            MetricValues::Nothing => true,
            MetricValues::Samples(samples) => samples.iter().all(|sample| sample.value > 0.0),
            MetricValues::Summary(summary) => summary.mean > 0.0,
        }
    }
}

/// Values of every build on a metric in a workload.
pub(super) fn groups(experiment: &Experiment, workload: usize, metric: &str) -> Vec<MetricValues> {
    let mut groups = vec![MetricValues::Nothing; experiment.variants.len()];
    for group in experiment.summaries.iter().filter(|g| g.workload == workload && g.metric == metric) {
        groups[group.variant] = MetricValues::Summary(group.summary);
    }
    for run in &experiment.observations {
        if run.workload != workload || run.phase != Phase::Measured {
            continue;
        }
        let Some(value) = run.values.get(metric) else { continue };
        let sample =
            MetricValue { replica: run.replica, block: run.block, slot: run.slot, at: run.at, value: *value };
        match &mut groups[run.variant] {
            MetricValues::Samples(samples) => samples.push(sample),
            group => *group = MetricValues::Samples(vec![sample]),
        }
    }
    groups
}

/// For each build, the number of measured runs that have the metric, and of all measured runs.
pub(super) fn coverage(experiment: &Experiment, workload: usize, metric: &str) -> Vec<(usize, usize)> {
    let mut counts = vec![(0, 0); experiment.variants.len()];
    let measured =
        experiment.observations.iter().filter(|run| run.workload == workload && run.phase == Phase::Measured);
    for run in measured {
        counts[run.variant].0 += usize::from(run.values.contains_key(metric));
        counts[run.variant].1 += 1;
    }
    counts
}

/// Refuses data that no statistics can use.
pub(super) fn check(experiment: &Experiment) -> Result<()> {
    let wrong = |what: String| Err(Error::new(ErrorCode::NotMeasured, what));
    let usage = |what: String| Err(Error::new(ErrorCode::Usage, what));
    let links: u32 = experiment.variants.iter().map(|variant| variant.replicas).sum();
    if experiment.variants.len() < 2 && links < LEAST_LINKS {
        return usage(format!("a comparison needs at least two builds, or {LEAST_LINKS} links of one"));
    }
    if experiment.baseline >= experiment.variants.len() {
        return wrong(format!(
            "the baseline is build {}, and there are {}",
            experiment.baseline,
            experiment.variants.len()
        ));
    }
    if experiment.variants[experiment.baseline].probe.is_some() {
        return wrong("the baseline is marked as a probe of the noise floor".to_owned());
    }
    if !(0.5..1.0).contains(&experiment.confidence) {
        return usage(format!("a confidence of {} is not between 0.5 and 1", experiment.confidence));
    }
    if !(experiment.margin > 0.0 && experiment.margin < 1.0) {
        return usage(format!("a margin of {} is not between 0 and 1", experiment.margin));
    }
    for (number, run) in experiment.observations.iter().enumerate() {
        let place = format!("run {}", number + 1);
        if run.variant >= experiment.variants.len() || run.workload >= experiment.workloads.len() {
            return wrong(format!("{place} has an unknown build or workload"));
        }
        let bad = run.values.iter().find(|(_, value)| !value.is_finite());
        if let Some((name, value)) = bad {
            return wrong(format!(
                "{place} of {} has {value} for {name}",
                experiment.variants[run.variant].name
            ));
        }
        if run.work.is_some_and(|work| !work.is_finite() || work < 0.0) || !run.at.is_finite() {
            return wrong(format!("{place} has no usable count of work or time"));
        }
    }
    let twice = first_repeated(experiment);
    if let Some(number) = twice {
        return wrong(format!(
            "run {} repeats the build, link and workload of another run in its block",
            number + 1
        ));
    }
    for group in &experiment.summaries {
        if group.variant >= experiment.variants.len() || group.workload >= experiment.workloads.len() {
            return wrong(format!("a summary of {} has an unknown build or workload", group.metric));
        }
        let spread = group.summary.deviation.unwrap_or(0.0);
        if !group.summary.mean.is_finite() || !spread.is_finite() || spread < 0.0 || group.summary.count == 0
        {
            return wrong(format!("the summary of {} has no usable mean, deviation or count", group.metric));
        }
    }
    Ok(())
}

/// Returns the first measured run whose block already has one of the same build, link and workload.
fn first_repeated(experiment: &Experiment) -> Option<usize> {
    let mut seen = std::collections::BTreeSet::new();
    experiment.observations.iter().position(|run| {
        run.phase == Phase::Measured
            && run.block.is_some_and(|block| !seen.insert((run.workload, run.variant, run.replica, block)))
    })
}

fn moments_of(summary: &SampleSummary) -> Moments {
    let deviation = summary.deviation.filter(|_| summary.count > 1);
    Moments {
        count: summary.count as f64,
        mean: summary.mean,
        variance: deviation.map(|deviation| deviation * deviation),
    }
}
