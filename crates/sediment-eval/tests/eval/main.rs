// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments without processes: plans, statistics, verdicts, reports, and comparisons that others published.

mod errors;
mod experiment;
mod perf_stat;
mod plan;
mod published;
mod report;
mod seeds;
mod simulated;
mod statistics;
