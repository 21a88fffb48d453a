// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments that compare builds: what was planned, what was measured, what follows from it.
//!
//! It compares any two or more builds of anything and knows nothing of layouts. A plan says what to compare
//! and how; a run of it leaves [`Observation`]s; statistics over them give estimates, intervals and a verdict.

// Profiles come from strangers: a panic on data is a defect, so each that remains is argued where it stands.
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
pub mod measure;
pub mod metrics;
mod needed;
pub mod plan;
pub mod report;
pub mod run;
mod samples;
pub mod statistics;
mod stopping;
pub mod verdict;

pub use analysis::analyse;
pub use data::{
    Direction, Experiment, Factor, GroupSummary, Metric, MetricKind, Observation, Phase, Probe, Summary,
    Variant, Workload,
};
pub use findings::Analysis;
pub use stopping::{Budget, NextStep, plan_next};
