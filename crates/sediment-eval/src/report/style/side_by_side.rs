// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes tables of means with the change in per cent: one build compared with the baseline, and four builds of guest
//! and host.
//!
//! The published tables show sums over a run of fixed length, in which a faster build does more work. So if work is
//! counted, rows per unit of work follow, which can reverse the result of a table.

use super::super::document::ReportTable;
use super::super::figures::{NONE, p_value};
use super::super::text::aligned;
use super::{builds, change, find, moments, name, nothing, per_cent, verdict_lines};
use crate::findings::WorkloadAnalysis;
use crate::{Analysis, MetricKind};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::escape;
use std::fmt::Write as _;

/// The rows of the published tables after the rows of the work done, in their order.
const ROWS: &[&str] = &[
    "cycles",
    "instructions",
    "instructions per cycle",
    "iTLB-loads",
    "iTLB-load-misses",
    "instructions per iTLB miss",
    "LLC-load-misses",
    "minor-faults",
    "major-faults",
    "cpu-clock",
    "task-clock",
];

pub(super) fn baseline_reordered(analysis: &Analysis, workload: &WorkloadAnalysis) -> Result<String> {
    let builds = builds(analysis);
    let mut text = String::new();
    for variant in &builds[1..] {
        let shown = [analysis.baseline, *variant];
        let _ = writeln!(text, "{}", escape::terminal(&workload.name));
        let titles =
            [name(analysis, shown[0]).to_owned(), name(analysis, shown[1]).to_owned(), "%change".to_owned()];
        text.push_str(&table(analysis, workload, &shown, &titles)?);
        text.push('\n');
    }
    text.push_str(&verdict_lines(analysis, workload));
    Ok(text)
}

pub(super) fn guest_host(analysis: &Analysis, workload: &WorkloadAnalysis) -> Result<String> {
    let builds = builds(analysis);
    if builds.len() != 4 {
        let what = format!("--style guest-host needs four builds; the experiment has {}", builds.len());
        return Err(Error::new(ErrorCode::Usage, what).with_hint("every other --style shows any number"));
    }
    let mut titles: Vec<String> = builds.iter().map(|variant| name(analysis, *variant).to_owned()).collect();
    titles.extend(builds[1..].iter().map(|variant| format!("{}, %change", name(analysis, *variant))));
    let mut text = format!("{}\n", escape::terminal(&workload.name));
    text.push_str(&table(analysis, workload, &builds, &titles)?);
    text.push('\n');
    text.push_str(&verdict_lines(analysis, workload));
    Ok(text)
}

/// Writes the means of these builds, then the changes of all but the first; `titles` are the column names after
/// "metric".
fn table(
    analysis: &Analysis,
    workload: &WorkloadAnalysis,
    shown: &[usize],
    titles: &[String],
) -> Result<String> {
    let numbers: Vec<String> = titles.iter().map(|title| format!("#{title}")).collect();
    let mut columns = vec!["metric"];
    columns.extend(numbers.iter().map(String::as_str));
    let tested = workload
        .metrics
        .iter()
        .any(|m| shown.iter().any(|v| m.comparisons[*v].as_ref().is_some_and(|c| c.effect.is_some())));
    if tested {
        columns.push("#p");
    }
    let mut table = ReportTable::new(&columns);
    for at in rows(analysis, workload) {
        let found = &workload.metrics[at];
        if shown.iter().all(|variant| moments(found, *variant).is_none()) {
            continue;
        }
        let mut cells = vec![label(analysis, at)];
        cells.extend(shown.iter().map(|variant| {
            moments(found, *variant).map_or_else(|| NONE.to_owned(), |moments| figure(moments.mean))
        }));
        cells
            .extend(shown[1..].iter().map(|variant| per_cent(change(found, *variant, analysis.baseline), 2)));
        if tested {
            let p: Vec<String> = shown[1..]
                .iter()
                .map(|variant| {
                    p_value(found.comparisons[*variant].as_ref().and_then(|comparison| comparison.p()))
                })
                .collect();
            cells.push(p.join(" "));
        }
        table.row(cells);
    }
    if table.rows.is_empty() {
        return Err(nothing("measured metrics"));
    }
    Ok(aligned(&table))
}

/// The rows: first rates of work, then the published rows, other measured ones, and costs per unit of work.
fn rows(analysis: &Analysis, workload: &WorkloadAnalysis) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    let rates = (0..analysis.metrics.len()).filter(|at| {
        let metric = &analysis.metrics[*at];
        metric.unit.ends_with("/s") || metric.name.starts_with("tps")
    });
    order.extend(rates);
    order.extend(ROWS.iter().filter_map(|name| find(analysis, name)));
    let measured =
        (0..analysis.metrics.len()).filter(|at| analysis.metrics[*at].kind == MetricKind::Measured);
    order.extend(measured);
    order.extend((0..analysis.metrics.len()).filter(|at| {
        analysis.metrics[*at].unit.contains('/') && analysis.metrics[*at].kind == MetricKind::Derived
    }));
    let mut seen = Vec::new();
    order.retain(|at| {
        let known = workload.metrics.len() > *at && analysis.metrics[*at].kind != MetricKind::Simulated;
        let new = known && !seen.contains(at);
        seen.push(*at);
        new
    });
    order
}

/// Name of a row: the short name in the published tables.
fn label(analysis: &Analysis, at: usize) -> String {
    let metric = &analysis.metrics[at];
    match metric.name.as_str() {
        "instructions per cycle" => "IPC".to_owned(),
        "instructions per iTLB miss" => "i per iTLB-miss".to_owned(),
        "cpu-clock" | "task-clock" | "elapsed" => format!("{} ({})", metric.name, metric.unit),
        name => name.to_owned(),
    }
}

/// Four significant digits; powers of ten from ten million on, as in the published tables.
fn figure(x: f64) -> String {
    let size = x.abs();
    if size >= 1e7 {
        let text = format!("{x:.3e}");
        match text.split_once('e') {
            Some((digits, power)) => format!("{digits}E+{power:0>2}"),
            None => text,
        }
    } else if size >= 1000.0 {
        super::super::figures::thousands(x, 2)
    } else if size >= 1.0 {
        format!("{x:.2}")
    } else if x == 0.0 {
        "0".to_owned()
    } else {
        let leading = (-size.log10()).floor().max(0.0) as usize;
        format!("{x:.0$}", leading + 3)
    }
}
