// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes for every metric the means with the improvement, Welch's t, its degrees of freedom and p, and the
//! coefficients of variation with a test.

use super::super::document::ReportTable;
use super::super::figures::{NONE, value};
use super::super::text::aligned;
use super::{builds, change, moments, name, nothing, per_cent, printed_p, unpaired_note, verdict_lines};
use crate::findings::WorkloadAnalysis;
use crate::statistics::multiplicity::holm;
use crate::{Analysis, MetricKind};
use sediment_core::error::Result;
use sediment_core::escape;
use std::fmt::Write as _;

pub(super) fn welch(analysis: &Analysis, workload: &WorkloadAnalysis) -> Result<String> {
    let mut text = String::new();
    for variant in builds(analysis).into_iter().skip(1) {
        let shown: Vec<usize> = (0..analysis.metrics.len())
            .filter(|at| analysis.metrics[*at].kind != MetricKind::Simulated)
            .filter(|at| workload.metrics[*at].comparisons[variant].is_some())
            .collect();
        if shown.is_empty() {
            return Err(nothing("measured metrics of both builds"));
        }
        let title = format!(
            "{}: {} against {}",
            workload.name,
            name(analysis, variant),
            name(analysis, analysis.baseline)
        );
        let _ = writeln!(text, "{}\n", escape::terminal(&title));
        text.push_str(&aligned(&means(analysis, workload, &shown, variant)));
        text.push('\n');
        text.push_str(&aligned(&spreads(analysis, workload, &shown, variant)));
        text.push('\n');
    }
    text.push_str(unpaired_note(workload));
    text.push_str(&verdict_lines(analysis, workload));
    Ok(text)
}

fn means(analysis: &Analysis, workload: &WorkloadAnalysis, shown: &[usize], variant: usize) -> ReportTable {
    let tests: Vec<Option<f64>> = shown
        .iter()
        .map(|at| {
            workload.metrics[*at].comparisons[variant]
                .as_ref()
                .and_then(|found| found.welch)
                .map(|welch| welch.p)
        })
        .collect();
    let mut adjusted = holm(&tests.iter().copied().flatten().collect::<Vec<_>>()).into_iter();
    let titles = [
        "metric",
        &format!("#{}", name(analysis, variant)),
        &format!("#{}", name(analysis, analysis.baseline)),
        "#change",
        "#t",
        "#df",
        "#p",
        "#p, Holm",
    ];
    let mut table = ReportTable::new(&titles);
    for (at, p) in shown.iter().zip(tests) {
        let found = &workload.metrics[*at];
        let welch = found.comparisons[variant].as_ref().and_then(|comparison| comparison.welch);
        let mean =
            |variant: usize| moments(found, variant).map_or_else(|| NONE.to_owned(), |m| value(m.mean));
        let or = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
        table.row([
            analysis.metrics[*at].name.clone(),
            mean(variant),
            mean(analysis.baseline),
            per_cent(change(found, variant, analysis.baseline), 2),
            or(welch.map(|welch| format!("{:.3}", welch.t.abs()))),
            or(welch.map(|welch| format!("{:.2}", welch.freedom))),
            or(p.map(printed_p)),
            or(p.and_then(|_| adjusted.next()).map(printed_p)),
        ]);
    }
    table
}

fn spreads(analysis: &Analysis, workload: &WorkloadAnalysis, shown: &[usize], variant: usize) -> ReportTable {
    let mut table = ReportTable::new(&[
        "coefficient of variation",
        &format!("#{}", name(analysis, variant)),
        &format!("#{}", name(analysis, analysis.baseline)),
        "#F",
        "#p of equal ones",
    ]);
    for at in shown {
        let found = &workload.metrics[*at];
        let spread = found.comparisons[variant].as_ref().and_then(|comparison| comparison.spread);
        let cv = |variant: usize| {
            moments(found, variant)
                .and_then(|m| m.coefficient_of_variation())
                .map_or_else(|| NONE.to_owned(), |cv| format!("{:.2}%", cv * 100.0))
        };
        let or = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
        table.row([
            analysis.metrics[*at].name.clone(),
            cv(variant),
            cv(analysis.baseline),
            or(spread.map(|test| format!("{:.2}", test.f))),
            or(spread.map(|test| printed_p(test.p))),
        ]);
    }
    table
}
