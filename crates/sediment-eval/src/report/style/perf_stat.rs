// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes blocks in the form of `perf stat -r`, one for each build, with its derived ratios and the standard error of
//! every mean. Below them are the change, Welch's t and p of every counter, which perf leaves to the reader.

use super::super::document::ReportTable;
use super::super::figures::{NONE, thousands};
use super::super::text::aligned;
use super::{
    builds, change, find, moments, name, nothing, per_cent, printed_p, unpaired_note, verdict_lines,
};
use crate::findings::WorkloadAnalysis;
use crate::statistics::multiplicity::benjamini_hochberg;
use crate::statistics::{Effect, Moments};
use crate::{Analysis, Experiment, MetricKind};
use sediment_core::error::Result;
use sediment_core::escape;
use std::fmt::Write as _;

pub(super) fn perf_stat(
    experiment: &Experiment,
    analysis: &Analysis,
    workload: &WorkloadAnalysis,
) -> Result<String> {
    let counters: Vec<usize> = (0..experiment.metrics.len())
        .filter(|at| analysis.metrics[*at].kind == MetricKind::Measured)
        .filter(|at| workload.metrics[*at].groups.iter().any(Option::is_some))
        .collect();
    if counters.is_empty() {
        return Err(nothing("measured counters"));
    }
    let builds = builds(analysis);
    let mut text = String::new();
    for variant in &builds {
        text.push_str(&block(analysis, workload, &counters, *variant));
        text.push('\n');
    }
    for variant in &builds[1..] {
        let title = format!("{} against {}", name(analysis, *variant), name(analysis, analysis.baseline));
        let _ = writeln!(text, "{}", escape::terminal(&title));
        text.push_str(&aligned(&changes(analysis, workload, &counters, *variant)));
        text.push('\n');
    }
    text.push_str(unpaired_note(workload));
    text.push_str(&verdict_lines(analysis, workload));
    Ok(text)
}

fn block(analysis: &Analysis, workload: &WorkloadAnalysis, counters: &[usize], variant: usize) -> String {
    let of = |event: &str| moments(&workload.metrics[find(analysis, event)?], variant).map(|m| m.mean);
    let counts = counters.iter().filter_map(|at| moments(&workload.metrics[*at], variant));
    let runs = counts.map(|m| m.count).fold(0.0, f64::max);
    let title = format!("{}, {}", workload.name, name(analysis, variant));
    let mut text =
        format!(" Performance counter stats for '{}' ({runs} runs):\n\n", escape::terminal(&title));
    let mut elapsed = String::new();
    for at in counters {
        let metric = &analysis.metrics[*at];
        let Some(found) = moments(&workload.metrics[*at], variant) else { continue };
        let error = standard_error(&found);
        let event = match metric.unit.as_str() {
            "count" | "ms" | "s" => escape::terminal(&metric.name),
            unit => escape::terminal(&format!("{} {unit}", metric.name)),
        };
        if metric.name == "elapsed" {
            elapsed = format!(
                "\n  {:>18.9} seconds time elapsed{:>44}\n",
                found.mean * seconds(&metric.unit),
                error
            );
            continue;
        }
        let value = match metric.name.as_str() {
            "task-clock" | "cpu-clock" => format!("{:.6}", found.mean * seconds(&metric.unit) * 1e3),
            _ if found.mean.fract() != 0.0 && found.mean < 1000.0 => format!("{:.3}", found.mean),
            _ => thousands(found.mean, 0),
        };
        let rated = metric.unit == "count" || metric.name.ends_with("-clock");
        let notes = if rated { derived(&metric.name, found.mean, &of, analysis) } else { Vec::new() };
        let mut notes = notes.into_iter();
        let first = notes.next().map(|note| format!("# {note}")).unwrap_or_default();
        let _ = writeln!(text, "{}", format!("  {value:>18} {event:<26} {first:<34} {error}").trim_end());
        for note in notes {
            let _ = writeln!(text, "  {:>18} {:<26} # {note}", "", "");
        }
    }
    text + &elapsed
}

/// Seconds in a unit of time; 1 for others.
fn seconds(unit: &str) -> f64 {
    match unit {
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => 1.0,
    }
}

fn standard_error(found: &Moments) -> String {
    match found.squared_error() {
        Some(square) if found.mean != 0.0 => {
            format!("( +- {:5.2}% )", square.sqrt() / found.mean.abs() * 100.0)
        }
        _ => String::new(),
    }
}

/// Derived figures that `perf stat` prints after the `#`.
fn derived(event: &str, mean: f64, of: &dyn Fn(&str) -> Option<f64>, analysis: &Analysis) -> Vec<String> {
    let unit = |name: &str| find(analysis, name).map_or(1.0, |at| seconds(&analysis.metrics[at].unit));
    let clock = of("task-clock").map(|clock| clock * unit("task-clock"));
    let ratio = |below: Option<f64>| below.filter(|below| *below != 0.0).map(|below| mean / below);
    let mut notes = Vec::new();
    let event = event.split(':').next().unwrap_or_default();
    match event {
        "task-clock" => {
            let elapsed = of("elapsed").map(|elapsed| elapsed * unit("elapsed"));
            notes.extend(
                ratio(elapsed).map(|cpus| format!("{:8.3} CPUs utilized", cpus * unit("task-clock"))),
            );
        }
        "cycles" => notes.extend(ratio(clock).map(|hertz| format!("{:8.3} GHz", hertz / 1e9))),
        "instructions" => {
            notes.extend(ratio(of("cycles")).map(|ipc| format!("{ipc:8.2} insns per cycle")));
            let stalled = [of("stalled-cycles-frontend"), of("stalled-cycles-backend")];
            let most = stalled.into_iter().flatten().reduce(f64::max);
            notes.extend(
                most.filter(|_| mean != 0.0)
                    .map(|most| format!("{:8.2} stalled cycles per insn", most / mean)),
            );
        }
        "stalled-cycles-frontend" | "stalled-cycles-backend" => {
            let end = if event.ends_with("frontend") { "frontend" } else { "backend" };
            notes
                .extend(ratio(of("cycles")).map(|share| format!("{:8.2}% {end} cycles idle", share * 100.0)));
        }
        "branch-misses" => {
            notes
                .extend(ratio(of("branches")).map(|share| format!("{:8.2}% of all branches", share * 100.0)));
        }
        "cpu-clock" => {}
        _ => {
            notes.extend(ratio(clock).map(|rate| {
                // As in perf: thousands only below a thousandth of a million.
                if rate >= 1e3 {
                    format!("{:8.3} M/sec", rate / 1e6)
                } else {
                    format!("{:8.3} K/sec", rate / 1e3)
                }
            }));
        }
    }
    notes
}

fn changes(
    analysis: &Analysis,
    workload: &WorkloadAnalysis,
    counters: &[usize],
    variant: usize,
) -> ReportTable {
    let mut table = ReportTable::new(&["counter", "#change", "#Welch t", "#df", "#p", "#adjusted p"]);
    let ratios = (0..analysis.metrics.len()).filter(|at| {
        analysis.metrics[*at].kind == MetricKind::Derived
            && workload.metrics[*at].comparisons[variant].is_some()
    });
    let shown: Vec<usize> = counters.iter().copied().chain(ratios).collect();
    let tests: Vec<Option<Effect>> = shown
        .iter()
        .map(|at| workload.metrics[*at].comparisons[variant].as_ref().and_then(|found| found.welch))
        .collect();
    let p: Vec<f64> = tests.iter().flatten().map(|welch| welch.p).collect();
    let mut adjusted = benjamini_hochberg(&p).into_iter();
    let or = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    for (at, welch) in shown.into_iter().zip(tests) {
        table.row([
            analysis.metrics[at].name.clone(),
            per_cent(change(&workload.metrics[at], variant, analysis.baseline), 2),
            or(welch.map(|welch| format!("{:.2}", welch.t))),
            or(welch.map(|welch| format!("{:.1}", welch.freedom))),
            or(welch.map(|welch| printed_p(welch.p))),
            or(welch.and_then(|_| adjusted.next()).map(printed_p)),
        ]);
    }
    table
}
