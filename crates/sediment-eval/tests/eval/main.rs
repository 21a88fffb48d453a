// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of experiments without processes: plans, statistics, verdicts, reports, and published comparisons.

mod errors;
mod experiment;
mod perf_stat;
mod plan;
mod published;
mod report;
mod seeds;
mod simulated;
mod statistics;
