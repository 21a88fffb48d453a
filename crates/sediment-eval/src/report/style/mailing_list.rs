// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a numbered list of builds with mean, sigma and improvement, as in measurements on mailing lists. Below it is
//! Student's t of every build compared with the baseline, and of every two others, which such lists leave to the
//! reader.

use super::super::document::ReportTable;
use super::super::figures::NONE;
use super::super::text::aligned;
use super::{builds, name, nothing, printed_p, unpaired_note, verdict_lines};
use crate::comparison::Comparison;
use crate::findings::WorkloadAnalysis;
use crate::{Analysis, Direction};
use sediment_core::error::Result;
use sediment_core::escape;
use std::fmt::Write as _;

pub(super) fn mailing_list(analysis: &Analysis, workload: &WorkloadAnalysis) -> Result<String> {
    let at = workload.headline.ok_or_else(|| nothing("the primary metric"))?;
    let (metric, found) = (&analysis.metrics[at], &workload.metrics[at]);
    let mut text =
        escape::terminal(&format!("{}: {} ({})", workload.name, metric.name, metric.unit)) + "\n\n";
    let baseline = found.groups[analysis.baseline].map(|group| group.moments.mean);
    for (number, variant) in builds(analysis).into_iter().enumerate() {
        let Some(group) = found.groups[variant] else { continue };
        let _ = writeln!(text, "{}. {}", number + 1, escape::terminal(name(analysis, variant)));
        let sigma = group.moments.deviation().map_or_else(|| NONE.to_owned(), figure);
        let mean = figure(group.moments.mean);
        let _ = write!(text, "   mean {mean}   sigma {sigma}   n {}", group.moments.count);
        if let Some(baseline) = baseline.filter(|baseline| variant != analysis.baseline && *baseline != 0.0) {
            let less = (1.0 - group.moments.mean / baseline) * 100.0;
            let improvement = if metric.direction == Direction::LowerIsBetter { less } else { -less };
            let _ = write!(text, "   improvement: {improvement:.1}%");
        }
        text.push('\n');
    }
    text.push_str("\nStudent's t, each build against the baseline and every other:\n\n");
    let mut table = ReportTable::new(&["build", "against", "#t", "#df", "#p"]);
    for comparison in found.comparisons.iter().flatten().chain(&workload.pairs) {
        if analysis.variants[comparison.variant].probe.is_none() {
            table.row(student(analysis, comparison));
        }
    }
    text.push_str(&aligned(&table));
    text.push('\n');
    text.push_str(unpaired_note(workload));
    text.push_str(&verdict_lines(analysis, workload));
    Ok(text)
}

/// Six decimals, as in such lists; six significant digits for values that would lose their digits like this.
fn figure(value: f64) -> String {
    const SMALL: f64 = 1e-3;
    if value == 0.0 || value.abs() >= SMALL { format!("{value:.6}") } else { format!("{value:.5e}") }
}

/// t is positive if the build is below the other one, just as improvements are.
fn student(analysis: &Analysis, comparison: &Comparison) -> Vec<String> {
    let or = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    vec![
        name(analysis, comparison.variant).to_owned(),
        name(analysis, comparison.against).to_owned(),
        or(comparison.student.map(|student| format!("{:.3}", -student.t))),
        or(comparison.student.map(|student| format!("{}", student.freedom))),
        or(comparison.student.map(|student| printed_p(student.p))),
    ]
}
