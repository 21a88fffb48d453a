// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values that flow from a run, or from an imported file, to the statistics and the reports.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Direction {
    /// Less is better: time, cycles, misses.
    #[serde(rename = "lower")]
    LowerIsBetter,
    /// More is better: transactions per second, instructions per cycle.
    #[serde(rename = "higher")]
    HigherIsBetter,
}

/// Source of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// Measured on the machine: time, counters, faults.
    Measured,
    /// Counted by a simulator (cachegrind, callgrind). Every report lists it separately.
    Simulated,
    /// Computed from other metrics of the same run, such as instructions per cycle.
    Derived,
}

/// A quantity with one value for each run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Metric {
    /// Its name; the one of `perf stat` if that has the metric: `cycles`, `iTLB-load-misses`, `elapsed`.
    pub name: String,
    /// Unit of its values, as a table shows it: `s`, `count`, `bytes`, `cycles/transaction`.
    pub unit: String,
    /// Which of its values are better.
    #[serde(rename = "better")]
    pub direction: Direction,
    /// Source of its values.
    pub kind: MetricKind,
}

/// A factor of the experiment, and a variant's level of it, such as `lto` and `on`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor {
    /// The factor.
    pub name: String,
    /// The level.
    pub level: String,
}

/// Kind of a variant that repeats the baseline, and differs from it by noise alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// A/A: the same file as the baseline's first link.
    SameFile,
    /// A/A′: the baseline linked again, with another random layout.
    Relinked,
}

/// Smallest number of links if a single build is measured: two links give one difference, without a spread.
pub const LEAST_LINKS: u32 = 3;

/// One of the compared builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Its name in the plan.
    pub name: String,
    /// Its levels, sorted by factor; empty if the plan declares no factors.
    pub factors: Vec<Factor>,
    /// Number of links that differ only in their random layout; 1 without layout replicas.
    pub replicas: u32,
    /// Set if the variant measures the noise floor: it has one replica, is compared with the baseline's replica 0, and
    /// gets no verdict. None for the builds under test.
    pub probe: Option<Probe>,
}

/// Work on which the builds are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its name in the plan.
    pub name: String,
    /// Name of one unit of work (`transaction`), if the plan has a work counter.
    pub work: Option<String>,
}

/// Purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Recorded, and excluded from every estimate.
    WarmUp,
    /// Included in the estimates.
    Measured,
}

/// One run of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Index into [`Experiment::workloads`].
    pub workload: usize,
    /// Index into [`Experiment::variants`].
    pub variant: usize,
    /// Number of the variant's link, from 0.
    pub replica: u32,
    /// The block, from 0: it has one run of every variant (and replica). None for unpaired data.
    pub block: Option<u32>,
    /// Position in the block's random order, from 0.
    pub slot: u32,
    /// Seconds since the experiment began, by a monotonic clock; for the estimate of drift.
    pub at: f64,
    /// Warm-up or measured.
    pub phase: Phase,
    /// Units of work done, if counted.
    pub work: Option<f64>,
    /// Values by name of metric. A value that could not be read is absent, never 0.
    pub values: BTreeMap<String, f64>,
    /// Facts that decide whether the run may be judged.
    #[serde(default, skip_serializing_if = "Circumstances::are_unknown")]
    pub circumstances: Circumstances,
}

/// Facts besides the values that decide if runs may be compared; `None` if a fact is unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// SHA-256 of the kept part of the program's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<String>,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Seconds of a fixed loop right before the run ([`sediment_measure::pace`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<f64>,
    /// Number of other tasks per processor right before the run ([`sediment_measure::pace::ready_tasks`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_tasks: Option<f64>,
}

impl Circumstances {
    fn are_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// Summary of a group of samples, for sources that print no samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SampleSummary {
    /// Number of samples.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (divisor `count - 1`); None if the source prints only means.
    pub deviation: Option<f64>,
}

/// A [`SampleSummary`] with its workload, variant and metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// Index into [`Experiment::workloads`].
    pub workload: usize,
    /// Index into [`Experiment::variants`].
    pub variant: usize,
    /// Name of the metric.
    pub metric: String,
    /// Its figures. `perf stat -r` prints the standard error in per cent of the mean; the deviation is error × mean × √count.
    #[serde(flatten)]
    pub summary: SampleSummary,
}

/// All measurements, and the settings for their analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The builds; the first one is the baseline unless `baseline` gives another.
    pub variants: Vec<Variant>,
    /// Index of the variant with which the others are compared.
    pub baseline: usize,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The metrics.
    pub metrics: Vec<Metric>,
    /// Name of the metric that decides; the others are exploratory.
    pub primary: String,
    /// Relative difference below which two builds count as equivalent: 0.01 is 1 %.
    pub margin: f64,
    /// Confidence of intervals: 0.95.
    pub confidence: f64,
    /// Target for the half-width of the primary metric's interval, relative: 0.005 is half a per cent.
    pub precision: f64,
    /// The runs, in the order in which they were made.
    pub observations: Vec<Observation>,
    /// Groups without observations; a group has a summary or observations, never both.
    pub summaries: Vec<GroupSummary>,
    /// Metrics that could not be read, with the reason.
    pub absent: BTreeMap<String, String>,
    /// Facts of machine, builds and plan for the head of the report, in the order of the report.
    pub facts: Vec<(String, String)>,
    /// Seed of all random choices.
    pub seed: u64,
}
