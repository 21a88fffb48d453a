// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf stat -j`: a JSON object on a line for each event, with `-I` for each part of a run.

use super::intervals::{IntervalCount, lines, whole_runs};
use super::{Imported, ImportedTable, Importer, perf_runs};
use sediment_core::error::Result;
use sediment_measure::perf_stat::{StatCount, new_count};
use serde_json::Value;

pub(super) const IMPORTER: Importer = Importer {
    name: "perf stat -j",
    summary: "perf stat -j, with or without -I; appended files are several runs",
    labels_name_variants: false,
    looks_like: |text| text.lines().any(|line| line.starts_with('{') && line.contains("\"counter-value\"")),
    read,
};

fn read(text: &str) -> Result<Vec<ImportedTable>> {
    let (mut counts, mut parts, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (heads, number, line) in lines(text) {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        // A metric that perf derives from other counts has no count of its own.
        if value.get("counter-value").is_none() && value.get("metric-value").is_some() {
            continue;
        }
        match (count(&value), value.get("interval").map(Value::as_f64)) {
            (Some(count), None) => counts.push((number, count)),
            (Some(count), Some(Some(end))) => parts.push(IntervalCount { heads, line: number, end, count }),
            _ => unknown.push(line.to_owned()),
        }
    }
    counts.extend(whole_runs(parts)?);
    let imported = Imported { unknown, ..perf_runs(counts)? };
    Ok(vec![ImportedTable { label: String::new(), line: 1, imported }])
}

fn count(value: &Value) -> Option<StatCount> {
    let text = |key: &str| match value.get(key) {
        Some(Value::String(text)) => Some(text.trim().to_owned()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let running = value.get("pcnt-running").and_then(Value::as_f64).unwrap_or(100.0);
    let error = value.get("variance").and_then(Value::as_f64);
    Some(new_count(
        &text("counter-value")?,
        &text("unit").unwrap_or_default(),
        &text("event")?,
        running,
        error,
    ))
}
