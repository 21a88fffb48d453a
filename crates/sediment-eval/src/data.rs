// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values that flow from a run, or from an imported file, to the statistics and the reports.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// Less is better: time, cycles, misses.
    #[serde(rename = "lower")]
    LowerIsBetter,
    /// More is better: transactions per second, instructions per cycle.
    #[serde(rename = "higher")]
    HigherIsBetter,
}

/// Where the values of a metric come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Measured on the machine: time, counters, faults.
    Measured,
    /// Counted by a simulator (cachegrind, callgrind). Stands apart in every report.
    Simulated,
    /// Computed from other metrics of the same run, such as instructions per cycle.
    Derived,
}

/// Something that is read of every run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Its name, as `perf stat` spells it where it has one: `cycles`, `iTLB-load-misses`, `elapsed`.
    pub name: String,
    /// Unit of its values, as a table shows it: `s`, `count`, `bytes`, `cycles/transaction`.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Where its values come from.
    pub kind: MetricKind,
}

/// One factor and the level that a variant has of it, such as `lto` at `on`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor {
    /// The factor.
    pub name: String,
    /// The level.
    pub level: String,
}

/// Why a variant is no other build, but the baseline once more: what differs between the two is noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// A/A: the very same file as the baseline's first link.
    SameFile,
    /// A/A′: the baseline linked again, different in luck only.
    Relinked,
}

/// One of the builds that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The name it has in the plan.
    pub name: String,
    /// Its levels, sorted by factor; empty where the plan declares no factors.
    pub factors: Vec<Factor>,
    /// Number of links that differ in luck only; 1 without layout replicas.
    pub replicas: u32,
    /// Set for a pair that measures the noise floor; it has one replica, is compared with the baseline's replica 0 and
    /// gets no verdict. None for the builds under test.
    pub probe: Option<Probe>,
}

/// Work that the builds are measured on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The name it has in the plan.
    pub name: String,
    /// Name of one unit of work (`transaction`), if the plan has a work counter.
    pub work: Option<String>,
}

/// Purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Recorded, and excluded from every estimate.
    WarmUp,
    /// Counts.
    Measured,
}

/// One run of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Index into [`Experiment::workloads`].
    pub workload: usize,
    /// Index into [`Experiment::variants`].
    pub variant: usize,
    /// Which link of the variant, from 0.
    pub replica: u32,
    /// The block, from 0: it has one run of every variant (and replica). None for unpaired data.
    pub block: Option<u32>,
    /// Place in the block's random order, from 0.
    pub slot: u32,
    /// Seconds since the experiment began, for drift; by a clock that does not jump.
    pub at: f64,
    /// Warm-up or measured.
    pub phase: Phase,
    /// Units of work done, where counted.
    pub work: Option<f64>,
    /// Values by name of metric. What could not be read is absent, never 0.
    pub values: BTreeMap<String, f64>,
}

/// A group of samples of which only these figures are known, as old tables print them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (with `count - 1` below); None where the source prints means alone.
    pub deviation: Option<f64>,
}

/// A [`Summary`] and whose it is; for imported tables that kept no samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// Index into [`Experiment::workloads`].
    pub workload: usize,
    /// Index into [`Experiment::variants`].
    pub variant: usize,
    /// Name of the metric.
    pub metric: String,
    /// Its figures. `perf stat -r` prints the standard error of the mean, in per cent: times mean, times the root of the
    /// count, it is the deviation.
    #[serde(flatten)]
    pub summary: Summary,
}

/// All measurements, and what their analysis needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The builds; the first is the baseline unless `baseline` says otherwise.
    pub variants: Vec<Variant>,
    /// Index of the variant that the others are compared with.
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
    /// Half-width of the headline's interval that is wanted, relative: 0.005 is half a per cent.
    pub precision: f64,
    /// The runs, in the order in which they were made.
    pub observations: Vec<Observation>,
    /// Groups of which only summaries are known; a group has these or observations, never both.
    pub summaries: Vec<GroupSummary>,
    /// Metrics that could not be read, and why, each once.
    pub absent: BTreeMap<String, String>,
    /// Facts of machine, builds and plan for the report's head, in the order in which they are shown.
    pub facts: Vec<(String, String)>,
    /// Seed of everything that was drawn at random.
    pub seed: u64,
}
