// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments that compare builds of any program: plans, runs in random order, statistics, verdicts, reports.
//!
//! ```text
//! plan file ─ plan::read ─► Plan ─ run, or import ─► Experiment ─ analyse ─► Analysis ─ report, gate ─► text, exit code
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | what to compare, on which work, for how long |
//! | [`run`], [`import`] | an [`Experiment`] of runs that are made here, or of files that perf, hyperfine and others wrote |
//! | [`data`], [`metrics`] | the values between these steps: variants, [`Observation`]s, metrics with unit and direction |
//! | [`comparison`], [`factors`], [`statistics`] | differences with intervals, effects of factors, and the tests behind them |
//! | [`verdict`], [`findings`], [`gate`] | faster, slower, equivalent or inconclusive; all findings; a pass or a regression for CI |
//! | [`report`] | text, Markdown, JSON, CSV and HTML |
//!
//! Runs are made through [`sediment_measure`]. This crate does not know layouts or profiles.
//!
//! ```
//! use sediment_eval::verdict::Verdict;
//! use sediment_eval::{Circumstances, Direction, Experiment, Metric, MetricKind, Observation, Phase, Variant, Workload, analyse, import};
//!
//! # fn main() -> sediment_core::Result<()> {
//! // From `hyperfine --runs 10 --export-json`: seconds of each run, on a machine with other work.
//! let file = br#"{"results": [
//!     {"command": "gzip -9", "times": [0.715, 0.9945, 0.7412, 0.8262, 0.7811, 0.8898, 0.7554, 0.6736, 0.6161, 0.7079]},
//!     {"command": "gzip -1", "times": [0.0876, 0.0691, 0.0704, 0.0827, 0.087, 0.0795, 0.0795, 0.0805, 0.0802, 0.0809]}]}"#;
//! let variant = |name: &str| Variant { name: name.to_owned(), factors: Vec::new(), replicas: 1, probe: None };
//! let mut observations = Vec::new();
//! for (number, name) in ["gzip -9", "gzip -1"].into_iter().enumerate() {
//!     for (at, values) in import::read(file, Some(name))?.runs.into_iter().enumerate() {
//!         observations.push(Observation {
//!             workload: 0, variant: number, replica: 0, block: None, slot: 0, at: at as f64, phase: Phase::Measured, work: None, values,
//!             circumstances: Circumstances::default(),
//!         });
//!     }
//! }
//! let (name, unit) = ("elapsed".to_owned(), "s".to_owned());
//! let analysis = analyse(&Experiment {
//!     variants: vec![variant("gzip -9"), variant("gzip -1")],
//!     baseline: 0,
//!     workloads: vec![Workload { name: "all".to_owned(), work: None }],
//!     metrics: vec![Metric { name: name.clone(), unit, direction: Direction::LowerIsBetter, kind: MetricKind::Measured }],
//!     primary: name,
//!     margin: 0.01,
//!     confidence: 0.95,
//!     precision: 0.005,
//!     observations,
//!     summaries: Vec::new(),
//!     absent: Default::default(),
//!     facts: Vec::new(),
//!     seed: 1,
//! })?;
//! assert_eq!(analysis.workloads[0].verdicts[0].verdict, Verdict::Faster);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
// Profiles come from strangers: a panic caused by input data is a bug, so every remaining one is justified by a
// comment.
#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]
// Only the program prints.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

mod advice;
mod analysis;
pub mod comparison;
pub mod data;
mod derive;
pub mod factors;
pub mod findings;
pub mod gate;
pub mod import;
pub mod metrics;
mod needed;
pub mod plan;
pub mod report;
pub mod run;
mod samples;
mod stopping;
mod unjudged;
pub mod verdict;

pub use analysis::analyse;
pub use data::{
    Circumstances, Direction, Experiment, Factor, GroupSummary, LEAST_LINKS, Metric, MetricKind, Observation,
    Phase, Probe, SampleSummary, Variant, Workload,
};
pub use findings::{Analysis, LayoutNoise};
pub use sediment_measure::statistics;
pub use stopping::{NextStep, StoppingBudget, plan_next};
