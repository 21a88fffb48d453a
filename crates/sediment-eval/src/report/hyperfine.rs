// SPDX-License-Identifier: MIT OR Apache-2.0
//! hyperfine's JSON, of version 1: `results`, each with the times of its runs in seconds and their statistics.

use crate::{Experiment, Phase};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Writes the measured runs of each build except probes.
pub(super) fn json(experiment: &Experiment, commands: &[(String, BTreeMap<String, String>)]) -> String {
    let builds = experiment.variants.iter().enumerate().filter(|(_, variant)| variant.probe.is_none());
    let results: Vec<Value> = builds
        .map(|(index, variant)| {
            let runs = experiment.observations.iter().filter(|run| {
                run.variant == index && run.workload == 0 && matches!(run.phase, Phase::Measured)
            });
            let runs: Vec<_> = runs.collect();
            let all = |metric: &str| -> Vec<f64> {
                runs.iter().filter_map(|run| run.values.get(metric).copied()).collect()
            };
            let (times, memory) = (all("elapsed"), all(crate::metrics::PEAK_MEMORY));
            let mut sorted = times.clone();
            sorted.sort_by(f64::total_cmp);
            let command = commands.get(index);
            let mut result = json!({
                "command": command.map_or(&variant.name, |(line, _)| line), "name": variant.name,
                "mean": mean(&times), "stddev": deviation(&times), "median": median(&sorted),
                "user": mean(&all("user")), "system": mean(&all("sys")),
                "min": sorted.first(), "max": sorted.last(), "times": times,
            });
            if memory.len() == times.len() {
                result["memory_usage_byte"] = memory.iter().map(|bytes| *bytes as u64).collect();
            }
            if let Some((_, parameters)) = command.filter(|(_, parameters)| !parameters.is_empty()) {
                result["parameters"] = json!(parameters);
            }
            result
        })
        .collect();
    sediment_core::escape::json(&json!({ "results": results }))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation with the divisor `count - 1`; None for a single value, as in hyperfine.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { *upper } else { f64::midpoint(sorted[middle - 1], *upper) })
}
