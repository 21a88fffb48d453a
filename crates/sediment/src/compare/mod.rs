// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments that compare builds: what was planned, what was measured, what follows from it.
//!
//! It compares any two or more builds of anything and knows nothing of layouts. A plan says what to compare
//! and how; a run of it leaves [`Observation`]s; statistics over them give estimates, intervals and a verdict.

pub mod data;

pub use data::{
    Direction, Experiment, Factor, Metric, MetricKind, Observation, Phase, Summary, Variant, Workload,
};
