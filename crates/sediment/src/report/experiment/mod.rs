// SPDX-License-Identifier: MIT OR Apache-2.0
//! An analysed experiment as terminal text, Markdown, JSON, CSV, HTML, and in the forms of published comparisons.
use crate::compare::{Analysis, Experiment};
use crate::error::Result;

/// A form in which a comparison was once published.
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

/// For a terminal, without colour.
#[must_use]
pub fn terminal(_experiment: &Experiment, _analysis: &Analysis) -> String {
    String::new()
}
/// As Markdown.
#[must_use]
pub fn markdown(_experiment: &Experiment, _analysis: &Analysis) -> String {
    String::new()
}
/// As JSON, in ASCII.
#[must_use]
pub fn json(_experiment: &Experiment, _analysis: &Analysis) -> String {
    String::new()
}
/// The summary as CSV.
#[must_use]
pub fn csv(_experiment: &Experiment, _analysis: &Analysis) -> String {
    String::new()
}
/// Every sample as CSV.
#[must_use]
pub fn samples_csv(_experiment: &Experiment) -> String {
    String::new()
}
/// As one HTML file that needs nothing else.
#[must_use]
pub fn html(_experiment: &Experiment, _analysis: &Analysis) -> String {
    String::new()
}
/// In the form of a published comparison, as plain text.
///
/// # Errors
/// When the experiment lacks what the form needs.
pub fn style(_style: Style, _experiment: &Experiment, _analysis: &Analysis) -> Result<String> {
    Ok(String::new())
}
