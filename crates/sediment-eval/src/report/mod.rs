// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes an analysed experiment as terminal text, Markdown, JSON, CSV, HTML, and in the forms of published
//! comparisons.

mod csv;
mod document;
mod figures;
mod html;
mod hyperfine;
mod json;
mod outline;
mod plots;
mod style;
mod text;

pub use style::{STYLES, Style};

use crate::comparison::EffectScale;
use crate::{Analysis, Experiment, MetricKind};
use sediment_core::error::Result;
use std::collections::BTreeMap;

/// For a terminal, in aligned columns and without colour.
#[must_use]
pub fn terminal(experiment: &Experiment, analysis: &Analysis) -> String {
    text::terminal(&outline::outline(experiment, analysis))
}

/// Writes the answer for a terminal: the verdicts in about ten lines, and how to get the rest.
#[must_use]
pub fn brief(experiment: &Experiment, analysis: &Analysis) -> String {
    text::terminal(&outline::brief(experiment, analysis))
}

/// As Markdown, with tables of GitHub's dialect.
#[must_use]
pub fn markdown(experiment: &Experiment, analysis: &Analysis) -> String {
    text::markdown(&outline::outline(experiment, analysis))
}

/// As JSON in ASCII, every sample included; `format` is `sediment-eval`, `version` 1. Effects on the scale `log-ratio` are natural
/// logarithms; an infinite t is null.
#[must_use]
pub fn json(experiment: &Experiment, analysis: &Analysis) -> String {
    sediment_core::escape::json(&serde_json::json!(json::EvalOutput::new(experiment, analysis)))
}

/// Writes the runs of the first workload in hyperfine's JSON (`--export-json`), for scripts that read it. `commands`
/// has the command line of each build, and its values of parameters.
#[must_use]
pub fn hyperfine(experiment: &Experiment, commands: &[(String, BTreeMap<String, String>)]) -> String {
    hyperfine::json(experiment, commands)
}

/// Writes the summary as CSV: a line for each workload, build and metric. On the scale `ratio`, a change is the ratio
/// minus one.
#[must_use]
pub fn csv(_experiment: &Experiment, analysis: &Analysis) -> String {
    csv::summary(analysis)
}

/// Every sample as CSV: a line for each value of each run, warm-ups too.
#[must_use]
pub fn samples_csv(experiment: &Experiment) -> String {
    csv::samples(experiment)
}

/// Writes a single HTML file with its pictures, which needs no other file and runs no script.
#[must_use]
pub fn html(experiment: &Experiment, analysis: &Analysis) -> String {
    html::html(&outline::outline(experiment, analysis), analysis)
}

/// Writes the same as a section of another page, with its style rules.
#[must_use]
pub fn html_section(experiment: &Experiment, analysis: &Analysis) -> (String, &'static str) {
    (html::section(&outline::outline(experiment, analysis), analysis), html::SECTION_STYLE)
}

/// Ratio of the misses of the instruction TLB after to those before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TlbMisses {
    /// Ratio to the baseline's.
    pub ratio: f64,
    /// True if a simulator found them.
    pub is_simulated: bool,
}

/// Returns the TLB misses of the last compared build: the mean over the workloads that have them; None if they were not
/// counted. Hardware counts are preferred to simulated ones.
#[must_use]
pub fn tlb_misses(analysis: &Analysis) -> Option<TlbMisses> {
    const NAMES: [&str; 2] = ["iTLB-load-misses", "iTLB misses"];
    let variant = (0..analysis.variants.len())
        .rev()
        .find(|at| *at != analysis.baseline && analysis.variants[*at].probe.is_none())?;
    NAMES.into_iter().find_map(|name| {
        let metric = analysis.metrics.iter().position(|metric| metric.name == name)?;
        let changes: Vec<f64> = analysis
            .workloads
            .iter()
            .filter_map(|workload| workload.metrics.get(metric)?.comparisons.get(variant)?.as_ref())
            .filter(|found| found.scale == EffectScale::Logarithm)
            .map(|found| found.estimate)
            .collect();
        let ratio = (changes.iter().sum::<f64>() / changes.len() as f64).exp();
        let is_simulated = analysis.metrics[metric].kind == MetricKind::Simulated;
        (!changes.is_empty()).then_some(TlbMisses { ratio, is_simulated })
    })
}

/// Writes the form of a published comparison, as plain text for a terminal.
///
/// # Errors
/// If the experiment lacks the builds or the metrics that the form shows.
pub fn style(form: Style, experiment: &Experiment, analysis: &Analysis) -> Result<String> {
    style::style(form, experiment, analysis)
}
