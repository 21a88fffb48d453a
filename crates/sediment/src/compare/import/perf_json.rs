// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf stat -j`: a JSON object on a line for each event.

use super::{Importer, Table, perf_runs};
use crate::error::{Error, Result};
use crate::measure::perf_stat::{Count, new_count};
use serde_json::Value;

pub(super) const IMPORTER: Importer = Importer {
    name: "perf stat -j",
    summary: "perf stat -j; appended files are several runs",
    looks_like: |text| text.lines().any(|line| line.starts_with('{') && line.contains("\"counter-value\"")),
    read,
};

fn read(text: &str) -> Result<Vec<Table>> {
    let mut counts = Vec::new();
    for (line, number) in text.lines().zip(1u64..) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let value: Value = serde_json::from_str(line)
            .map_err(|error| Error::at_line(number, format!("this is no JSON: {error}")))?;
        // Lines of metrics alone have no event.
        if value.get("counter-value").is_none() {
            continue;
        }
        let count = count(&value).ok_or_else(|| {
            Error::at_line(number, "this is no event of perf stat -j").with_found(line.as_bytes())
        })?;
        counts.push((number, count));
    }
    Ok(vec![Table { label: String::new(), line: 1, imported: perf_runs(counts)? }])
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
