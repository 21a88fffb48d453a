// SPDX-License-Identifier: MIT OR Apache-2.0
//! hyperfine's JSON (`--export-json`), of version 1 and of version 2.
//!
//! Version 1: `results`, each with `command`, `times` (seconds), and in later releases `memory_usage_byte`, run by run; `mean`,
//! `stddev`, `user` and `system` are summaries. Version 2 keeps the same under `results`, with `runs` as objects or with `measurements`,
//! each holding a run's times and counters as numbers or as `{ "value": …, "unit": … }`; both spellings are read. The command is the
//! label of a table.

use super::{Imported, Importer, Table, perf_metric};
use crate::compare::data::Summary;
use crate::error::{Error, Result};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const IMPORTER: Importer = Importer {
    name: "hyperfine",
    summary: "hyperfine --export-json, versions 1 and 2; of several commands one is chosen by its label",
    looks_like: |text| text.trim_start().starts_with('{') && text.contains("\"results\""),
    read,
};

fn read(text: &str) -> Result<Vec<Table>> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| Error::at_line(error.line() as u64, format!("this is no JSON: {error}")))?;
    let results = document
        .get("results")
        .and_then(Value::as_array)
        .ok_or_else(|| Error::failed("no list \"results\" in it: this is no export of hyperfine"))?;
    results.iter().enumerate().map(|(index, result)| table(index, result)).collect()
}

fn table(index: usize, result: &Value) -> Result<Table> {
    let label = result.get("command").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut imported = Imported::default();
    if let Some(runs) = result.get("runs").or_else(|| result.get("measurements")).and_then(Value::as_array) {
        for run in runs {
            let mut values = BTreeMap::new();
            collect(run, &mut values);
            imported.runs.push(values);
        }
    } else if let Some(times) = result.get("times").and_then(Value::as_array) {
        let memory = result.get("memory_usage_byte").and_then(Value::as_array);
        for (place, time) in times.iter().enumerate() {
            let time = time
                .as_f64()
                .ok_or_else(|| Error::failed(format!("result {}: a time is no number", index + 1)))?;
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
                .push((metric.to_owned(), Summary { count: count.max(1), mean, deviation: None }));
        }
    }
    if imported.runs.is_empty() {
        return Err(
            Error::failed(format!("result {} has no single times", index + 1)).with_found(label.as_bytes())
        );
    }
    Ok(Table { label, line: index as u64 + 1, imported })
}

/// Numbers of a run, whatever object they lie in.
fn collect(value: &Value, into: &mut BTreeMap<String, f64>) {
    let Some(object) = value.as_object() else { return };
    for (key, value) in object {
        let number = value.as_f64().or_else(|| value.get("value").and_then(Value::as_f64));
        match (number, key.as_str()) {
            (Some(_), "exit_code" | "iteration") => {}
            (Some(number), _) => {
                into.insert(metric(key), number);
            }
            (None, _) => collect(value, into),
        }
    }
}

fn metric(key: &str) -> String {
    match key {
        "time" | "wall_clock_time" | "time_wall_clock" | "real" | "elapsed" => "elapsed".to_owned(),
        "user" | "user_time" | "time_user" => "user".to_owned(),
        "system" | "system_time" | "time_system" => "sys".to_owned(),
        "memory_usage_byte" | "memory_usage_bytes" | "peak_memory_usage" | "max_rss" => "max-rss".to_owned(),
        other => perf_metric(&other.replace('_', "-")),
    }
}
