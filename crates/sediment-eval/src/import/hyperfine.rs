// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads hyperfine's JSON (`--export-json`) in the versions 1 and 2.
//!
//! Version 1: `results`, each with `command`, `times` (seconds), and in later releases `memory_usage_byte`, run by run; `user` and
//! `system` are means. Version 2 (`schema_version` 2): `results`, each with `command`, perhaps a `name`, and `measurements`, an object
//! for each run that holds `{ "value": …, "unit": … }` by metric, and the exit code. Command and name are the label of a table.

use super::{Imported, ImportedTable, Importer, perf_metric};
use crate::data::SampleSummary;
use crate::{derive, metrics};
use sediment_core::error::{Error, ErrorCode, Result};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const IMPORTER: Importer = Importer {
    name: "hyperfine",
    summary: "hyperfine --export-json, versions 1 and 2; the label chooses one of several commands",
    labels_name_variants: true,
    looks_like: |text| text.trim_start().starts_with('{') && text.contains("\"results\""),
    read,
};

fn read(text: &str) -> Result<Vec<ImportedTable>> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| Error::at_line(error.line() as u64, format!("not JSON: {error}")))?;
    let results = document
        .get("results")
        .and_then(Value::as_array)
        .ok_or_else(|| Error::new(ErrorCode::Damaged, "no list \"results\": not an export of hyperfine"))?;
    results.iter().enumerate().map(|(index, result)| table(index, result)).collect()
}

fn table(index: usize, result: &Value) -> Result<ImportedTable> {
    let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
    let label = if text("name").is_empty() {
        text("command").to_owned()
    } else {
        format!("{}: {}", text("name"), text("command"))
    };
    let mut imported = Imported::default();
    if let Some(runs) = result.get("measurements").and_then(Value::as_array) {
        imported.runs.extend(runs.iter().map(measurement));
    } else if let Some(times) = result.get("times").and_then(Value::as_array) {
        let memory = result.get("memory_usage_byte").and_then(Value::as_array);
        for (place, time) in times.iter().enumerate() {
            let time = time.as_f64().ok_or_else(|| {
                Error::new(ErrorCode::Damaged, format!("result {}: a time is not a number", index + 1))
            })?;
            let mut values = BTreeMap::from([("elapsed".to_owned(), time)]);
            if let Some(bytes) =
                memory.and_then(|list| list.get(place)?.as_f64()).filter(|bytes| *bytes > 0.0)
            {
                values.insert("max-rss".to_owned(), bytes);
            }
            imported.runs.push(values);
        }
    }
    imported.runs.retain(|run| !run.is_empty());
    let count = imported.runs.len() as u64;
    for (key, metric) in [("user", "user"), ("system", "sys")] {
        let is_there = imported.runs.iter().any(|run| run.contains_key(metric));
        if let (Some(mean), false) = (result.get(key).and_then(Value::as_f64), is_there) {
            imported
                .summaries
                .push((metric.to_owned(), SampleSummary { count: count.max(1), mean, deviation: None }));
        }
    }
    if imported.runs.is_empty() {
        return Err(Error::new(
            ErrorCode::Damaged,
            format!("result {} has no times of single runs", index + 1),
        )
        .with_found(label.as_bytes()));
    }
    Ok(ImportedTable { label, line: index as u64 + 1, imported })
}

/// The values of a run, by metric.
fn measurement(run: &Value) -> BTreeMap<String, f64> {
    let metrics = run.as_object().into_iter().flatten();
    let values = metrics.filter_map(|(key, metric)| Some((key, metric.get("value")?.as_f64()?)));
    values.map(|(key, value)| (metric(key), value)).collect()
}

/// The metric for hyperfine's key.
fn metric(key: &str) -> String {
    match key {
        "time_wall_clock" => "elapsed".to_owned(),
        "time_cpu" => derive::CPU_TIME.to_owned(),
        "time_user" => "user".to_owned(),
        "time_system" => "sys".to_owned(),
        "memory_peak_resident" => metrics::PEAK_MEMORY.to_owned(),
        other => perf_metric(&other.replace('_', "-")),
    }
}
