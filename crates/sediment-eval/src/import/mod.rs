// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`IMPORTERS`] read measurements of other tools from files, whose format is found by their content.
//!
//! To add one, add a file here, a row in [`IMPORTERS`], and a row in the table of docs/measuring.md.

mod go_bench;
mod hyperfine;
mod intervals;
mod numbers;
mod perf_csv;
mod perf_json;
mod perf_text;

use super::data::{Circumstances, Experiment, GroupSummary, Observation, Phase, SampleSummary};
use super::metrics;
use super::plan::Plan;
use super::run::{journal, set_fact};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_measure::perf_stat::{StatCount, across_cores, scaled};
use std::collections::{BTreeMap, BTreeSet};

/// A supported format.
#[derive(Debug, Clone, Copy)]
pub struct Importer {
    /// Its name.
    pub name: &'static str,
    /// The tools that write it.
    pub summary: &'static str,
    /// True if labels name the measured thing, so that tables with different labels are not runs of one variant.
    pub labels_name_variants: bool,
    /// True if a text seems to have this format.
    pub looks_like: fn(&str) -> bool,
    /// Reads its tables; an error has the line.
    pub read: fn(&str) -> Result<Vec<ImportedTable>>,
}

/// One of the tables in a file: an invocation of perf, a command of hyperfine, a benchmark of Go.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedTable {
    /// The line above it, or its name; may be empty.
    pub label: String,
    /// Its first line.
    pub line: u64,
    /// Its contents.
    pub imported: Imported,
}

/// Contents of a file about one variant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// Values by metric, run by run.
    pub runs: Vec<BTreeMap<String, f64>>,
    /// Metrics with only a summary.
    pub summaries: Vec<(String, SampleSummary)>,
    /// Metrics that could not be counted according to the file, with its words for that.
    pub absent: BTreeMap<String, String>,
    /// Units given in the file, by metric, if they differ from the known ones.
    pub units: BTreeMap<String, String>,
    /// Metrics that were scaled up, because they were not counted all the time.
    pub scaled: BTreeSet<String>,
    /// Rows that are not understood.
    pub unknown: Vec<String>,
}

/// All formats; the first one that a text seems to have is used.
pub const IMPORTERS: &[Importer] = &[
    perf_json::IMPORTER,
    hyperfine::IMPORTER,
    perf_text::IMPORTER,
    intervals::IMPORTER,
    go_bench::IMPORTER,
    perf_csv::IMPORTER,
    numbers::IMPORTER,
];

/// Reads a file of any known format. If there are several tables, those labelled `label` are used, otherwise those
/// whose label contains it; without `label`, several tables are the runs of one variant.
///
/// # Errors
/// If the format is unknown, the file is empty or damaged, no table has the label, or several summaries are ambiguous.
pub fn read(bytes: &[u8], label: Option<&str>) -> Result<Imported> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Error::at_offset(error.valid_up_to() as u64, "not a measurement of a known tool: it is not text")
    })?;
    let importer = IMPORTERS.iter().find(|importer| (importer.looks_like)(text)).ok_or_else(|| {
        let names: Vec<&str> = IMPORTERS.iter().map(|importer| importer.name).collect();
        Error::new(ErrorCode::UnknownFormat, "not a measurement of a known tool")
            .with_hint(format!("supported: {}", names.join(", ")))
    })?;
    let tables = (importer.read)(text)?;
    let labels: Vec<String> = tables.iter().map(|table| table.label.clone()).collect();
    let hint = || format!("choose one by FILE#LABEL; the labels are: {}", labels.join(" | "));
    let held = tables.len();
    // If a label is equal to the whole label of a table, it does not select others as a part.
    let exact = label.is_some_and(|label| tables.iter().any(|table| table.label.trim() == label.trim()));
    let is_meant = |table: &ImportedTable| match label {
        None => true,
        Some(label) if exact => table.label.trim() == label.trim(),
        Some(label) => table.label.contains(label),
    };
    let chosen: Vec<ImportedTable> = tables.into_iter().filter(is_meant).collect();
    if let (true, Some(label)) = (chosen.is_empty(), label) {
        return Err(Error::new(ErrorCode::NotFound, format!("no table in it has the label {label}"))
            .with_hint(hint()));
    }
    let summarised = chosen.iter().filter(|table| !table.imported.summaries.is_empty()).count();
    let distinct = chosen.iter().map(|table| &table.label).collect::<BTreeSet<_>>().len();
    if chosen.len() > 1 && (summarised > 0 || importer.labels_name_variants && distinct > 1) {
        return Err(Error::new(
            ErrorCode::Ambiguous,
            match label {
                Some(label) => {
                    format!("it holds {held} tables, and the label {label} is in {} of them", chosen.len())
                }
                None => format!("it has {held} tables, so one must be chosen"),
            },
        )
        .with_hint(hint()));
    }
    let mut all = Imported::default();
    for table in chosen {
        let Imported { runs, summaries, absent, units, scaled, unknown } = table.imported;
        all.runs.extend(runs);
        all.summaries.extend(summaries);
        all.absent.extend(absent);
        all.units.extend(units);
        all.scaled.extend(scaled);
        all.unknown.extend(unknown);
    }
    if all.runs.is_empty() && all.summaries.is_empty() {
        return Err(Error::new(
            ErrorCode::EmptyRecording,
            format!("no value in this file ({})", importer.name),
        ));
    }
    Ok(all)
}

/// Returns the metric of an event by the name that some version of perf uses.
fn perf_metric(event: &str) -> String {
    let lower = event.to_ascii_lowercase();
    match lower.as_str() {
        "duration_time" => "elapsed",
        "user_time" => "user",
        "system_time" => "sys",
        "cs" => "context-switches",
        "migrations" | "cpu-migrations" => "cpu-migrations",
        "faults" => "page-faults",
        "cpu-cycles" => "cycles",
        "branch-instructions" => "branches",
        "idle-cycles-frontend" => "stalled-cycles-frontend",
        "idle-cycles-backend" => "stalled-cycles-backend",
        _ => return event.to_owned(),
    }
    .to_owned()
}

/// Splits counts in the order of a file into runs: an event that the current run already has begins the next run.
fn perf_runs(counts: Vec<(u64, StatCount)>) -> Result<Imported> {
    let mut imported = Imported::default();
    let mut run: BTreeMap<String, f64> = BTreeMap::new();
    // Modifiers of the events in this run.
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (number, count) in across_cores(counts, |(_, count)| count, |_, _| true) {
        if count.error_percent.is_some_and(|percent| percent != 0.0) {
            return Err(Error::at_line(
                number,
                "a mean of several runs, but the file does not contain their number",
            )
            .with_hint(
                "record without -r, once per run, or import perf stat's text, which has the number of runs",
            ));
        }
        let name = perf_metric(&count.event);
        if let Some(modifiers) = seen.get(&name) {
            if *modifiers != count.modifiers {
                let message = format!(
                    "{name} was counted twice, with the modifiers {modifiers:?} and {:?}",
                    count.modifiers
                );
                return Err(Error::at_line(number, &message).with_hint("leave one of them in the file"));
            }
            imported.runs.push(std::mem::take(&mut run));
            seen.clear();
        }
        seen.insert(name.clone(), count.modifiers.clone());
        match &count.value {
            Ok(value) => {
                if scaled(&count) {
                    imported.scaled.insert(name.clone());
                }
                run.insert(name, *value);
            }
            Err(why) => {
                imported.absent.insert(name, format!("perf reported {why}"));
            }
        }
    }
    imported.runs.push(run);
    imported.runs.retain(|run| !run.is_empty());
    // A metric counted in one run is not absent.
    for name in imported.runs.iter().flat_map(BTreeMap::keys) {
        imported.absent.remove(name);
    }
    Ok(imported)
}

/// Adds the imported values of a (workload, variant) to an experiment, and returns the lines to store.
pub fn enter(
    plan: &Plan,
    experiment: &mut Experiment,
    (workload, variant): (usize, usize),
    imported: &Imported,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut met: BTreeSet<String> = experiment.metrics.iter().map(|metric| metric.name.clone()).collect();
    let mut meet = |experiment: &mut Experiment, name: &str| {
        if met.insert(name.to_owned()) {
            let mut metric = metrics::metric(plan, name);
            if let Some(unit) = imported.units.get(name) {
                metric.unit.clone_from(unit);
            }
            experiment.metrics.push(metric);
        }
    };
    let before = experiment.observations.len() as u32;
    for (run, slot) in imported.runs.iter().zip(before..) {
        for name in run.keys() {
            meet(experiment, name);
        }
        let observation = Observation {
            workload,
            variant,
            replica: 0,
            block: None,
            slot,
            at: f64::from(slot),
            phase: Phase::Measured,
            work: None,
            values: run.clone(),
            circumstances: Circumstances::default(),
        };
        lines.push(journal::run(&observation, 0, &imported.scaled));
        experiment.observations.push(observation);
    }
    for (metric, summary) in &imported.summaries {
        meet(experiment, metric);
        let group = GroupSummary { workload, variant, metric: metric.clone(), summary: *summary };
        lines.push(journal::summary(&group));
        experiment.summaries.push(group);
    }
    if !imported.scaled.is_empty() {
        let list: Vec<&str> = imported.scaled.iter().map(String::as_str).collect();
        set_fact(experiment, "scaled counters", list.join(", "));
    }
    experiment.absent.extend(imported.absent.clone());
    lines.push(journal::absent(&experiment.absent));
    if !imported.units.is_empty() {
        lines.push(journal::units(&imported.units));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn each_of_many_events_is_added_up() {
        const EVENTS: usize = 3000;
        let mut text = String::new();
        for end in 1..=2 {
            for event in 0..EVENTS {
                let value = if event == 7 { "<not counted>".to_owned() } else { (event * end).to_string() };
                writeln!(text, "     {end}.000000000,{value},,raw_event_{event},1000,100.00,,").unwrap();
            }
        }
        let importer = IMPORTERS.iter().find(|importer| (importer.looks_like)(&text)).unwrap();
        let imported = (importer.read)(&text).unwrap().remove(0).imported;
        let [run] = &imported.runs[..] else { panic!("one run, in two parts") };
        // The elapsed time is one more metric, and one metric was never counted.
        assert_eq!((run.len(), imported.absent.len()), (EVENTS, 1));
        assert!(
            (0..EVENTS)
                .filter(|event| *event != 7)
                .all(|event| run[&format!("raw_event_{event}")] == 3.0 * event as f64)
        );
    }
}
