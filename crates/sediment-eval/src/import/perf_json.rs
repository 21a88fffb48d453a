// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf stat -j`: a JSON object on a line for each event.

use super::{Imported, Importer, Table, is_interval, perf_runs};
use crate::measure::perf_stat::{Count, is_comment, new_count};
use sediment::error::Result;
use serde_json::Value;

pub(super) const IMPORTER: Importer = Importer {
    name: "perf stat -j",
    summary: "perf stat -j; appended files are several runs",
    labels_name_variants: false,
    looks_like: |text| text.lines().any(|line| line.starts_with('{') && line.contains("\"counter-value\"")),
    read,
};

fn read(text: &str) -> Result<Vec<Table>> {
    let (mut counts, mut unknown) = (Vec::new(), Vec::new());
    for (line, number) in text.lines().zip(1u64..).filter(|(line, _)| !is_comment(line)) {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        // A metric that perf derives from other counts has no count of its own.
        if value.get("counter-value").is_none() && value.get("metric-value").is_some() {
            continue;
        }
        if value.get("interval").is_some() {
            return Err(is_interval(number));
        }
        match count(&value) {
            Some(count) => counts.push((number, count)),
            None => unknown.push(line.to_owned()),
        }
    }
    let imported = Imported { unknown, ..perf_runs(counts)? };
    Ok(vec![Table { label: String::new(), line: 1, imported }])
}

fn count(value: &Value) -> Option<Count> {
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
