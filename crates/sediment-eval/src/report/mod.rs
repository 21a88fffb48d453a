// SPDX-License-Identifier: MIT OR Apache-2.0
//! An analysed experiment as terminal text, Markdown, JSON, CSV, HTML, and in the forms of published comparisons.

mod csv;
mod document;
mod figures;
mod html;
mod json;
mod outline;
mod plots;
mod style;
mod text;

pub use style::{STYLES, Style};

use crate::{Analysis, Experiment};
use sediment::error::Result;

/// For a terminal, in aligned columns and without colour.
#[must_use]
pub fn terminal(experiment: &Experiment, analysis: &Analysis) -> String {
    text::terminal(&outline::outline(experiment, analysis))
}

/// The answer for a terminal: the verdicts in about ten lines, and where the rest is.
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
    sediment::report::ascii_json(&json::json(experiment, analysis))
}

/// The summary as CSV: a line for each workload, build and metric. Changes on the scale `ratio` are ratios less one.
#[must_use]
pub fn csv(_experiment: &Experiment, analysis: &Analysis) -> String {
    csv::summary(analysis)
}

/// Every sample as CSV: a line for each value of each run, warm-ups too.
#[must_use]
pub fn samples_csv(experiment: &Experiment) -> String {
    csv::samples(experiment)
}

/// As one HTML file with its pictures, which needs nothing else and runs no script.
#[must_use]
pub fn html(experiment: &Experiment, analysis: &Analysis) -> String {
    html::html(&outline::outline(experiment, analysis), analysis)
}

/// In the form of a published comparison, as plain text for a terminal.
///
/// # Errors
/// When the experiment has not the builds or the metrics that the form shows.
pub fn style(form: Style, experiment: &Experiment, analysis: &Analysis) -> Result<String> {
    style::style(form, experiment, analysis)
}
