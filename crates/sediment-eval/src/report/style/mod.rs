// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes experiments in the forms of published comparisons, and adds below what these lack: tests, work done, pairs.

mod mailing_list;
mod perf_stat;
mod side_by_side;
mod welch;

use super::figures::NONE;
use crate::comparison::Design;
use crate::findings::{MetricAnalysis, WorkloadAnalysis};
use crate::statistics::Moments;
use crate::{Analysis, Experiment};
use sediment_core::error::{Error, ErrorCode, Result};

/// The form of a published comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Baseline, reordered and change in per cent, with instructions per cycle and per iTLB miss.
    BaselineReordered,
    /// Four builds side by side.
    GuestHost,
    /// The pair of blocks that `perf stat` prints.
    PerfStat,
    /// Mean, sigma and improvement, build by build.
    MailingList,
    /// Welch's test with coefficients of variation.
    Welch,
}

/// Every style by the name it has on the command line.
pub const STYLES: &[(&str, Style)] = &[
    ("baseline-reordered", Style::BaselineReordered),
    ("guest-host", Style::GuestHost),
    ("perf-stat", Style::PerfStat),
    ("mailing-list", Style::MailingList),
    ("welch", Style::Welch),
];

/// Writes an experiment in a published form, as plain text for a terminal.
///
/// # Errors
/// If the experiment lacks the builds or the metrics that the form shows.
pub(super) fn style(style: Style, experiment: &Experiment, analysis: &Analysis) -> Result<String> {
    let mut text = String::new();
    for workload in &analysis.workloads {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&match style {
            Style::BaselineReordered => side_by_side::baseline_reordered(analysis, workload)?,
            Style::GuestHost => side_by_side::guest_host(analysis, workload)?,
            Style::PerfStat => perf_stat::perf_stat(experiment, analysis, workload)?,
            Style::MailingList => mailing_list::mailing_list(analysis, workload)?,
            Style::Welch => welch::welch(analysis, workload)?,
        });
    }
    Ok(text)
}

/// The compared builds without probes, the baseline first.
fn builds(analysis: &Analysis) -> Vec<usize> {
    let others = (0..analysis.variants.len())
        .filter(|variant| *variant != analysis.baseline && analysis.variants[*variant].probe.is_none());
    std::iter::once(analysis.baseline).chain(others).collect()
}

fn name(analysis: &Analysis, variant: usize) -> &str {
    &analysis.variants[variant].name
}

/// Finds a metric by name, also in the form of `perf stat` if only user space may be counted.
fn find(analysis: &Analysis, name: &str) -> Option<usize> {
    let place =
        |wanted: &dyn Fn(&str) -> bool| analysis.metrics.iter().position(|metric| wanted(&metric.name));
    place(&|other| other == name)
        .or_else(|| place(&|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))))
}

fn moments(found: &MetricAnalysis, variant: usize) -> Option<Moments> {
    found.groups[variant].map(|group| group.moments)
}

/// Returns the ratio of two means minus one, in per cent.
fn change(found: &MetricAnalysis, variant: usize, baseline: usize) -> Option<f64> {
    let (new, old) = (moments(found, variant)?.mean, moments(found, baseline)?.mean);
    (old != 0.0).then(|| (new / old - 1.0) * 100.0)
}

fn nothing(what: &str) -> Error {
    Error::new(ErrorCode::Usage, format!("this style needs {what}, and the experiment has none"))
}

/// A p-value with two significant digits, as in older reports.
fn printed_p(p: f64) -> String {
    if p > 0.0 && p < 0.01 { format!("{p:.1e}") } else { format!("{p:.2}") }
}

/// One line on every build's verdict.
fn verdict_lines(analysis: &Analysis, workload: &WorkloadAnalysis) -> String {
    let mut text = String::new();
    for build in &workload.verdicts {
        let line = format!("{}: {}: {}", name(analysis, build.variant), build.verdict.word(), build.reason);
        text.push_str(&sediment_core::escape::terminal(&line));
        text.push('\n');
    }
    text
}

/// A change in per cent with a sign; without one if all its digits are zero.
fn per_cent(change: Option<f64>, decimals: usize) -> String {
    let Some(change) = change else { return NONE.to_owned() };
    let text = format!("{change:+.decimals$}%");
    if text.contains(|c: char| c.is_ascii_digit() && c != '0') { text } else { text[1..].to_owned() }
}

/// Note on unpaired tests for data with blocks or links.
fn unpaired_note(workload: &WorkloadAnalysis) -> &'static str {
    let joined = workload
        .metrics
        .iter()
        .flat_map(|metric| metric.comparisons.iter().flatten())
        .any(|found| matches!(found.design, Design::Paired { .. } | Design::Replicated { .. }));
    if joined {
        "These tests assume that all runs are independent; the verdicts below use blocks and links.\n"
    } else {
        ""
    }
}
