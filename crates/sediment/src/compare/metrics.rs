// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics that a run can read, with unit, direction and kind; and which of them decides where the plan does not say.

use super::data::{Direction, Metric, MetricKind};
use super::plan::Plan;
use crate::measure::perf_stat::EVENTS;
use crate::measure::{METERS, Unit};

/// Seconds on a processor, inside and outside the kernel: the sum of `user` and `sys`.
pub const CPU_TIME: &str = "cpu-time";

/// Most memory of the largest process.
pub const PEAK_MEMORY: &str = "max-rss";

/// How a quantity of a meter is called among the metrics: what a simulator counts says so in its name.
#[must_use]
pub fn of_meter(meter: &str, quantity: &str) -> String {
    match meter {
        "peak-memory" => PEAK_MEMORY.to_owned(),
        _ => format!("{quantity} (simulated)"),
    }
}

/// The metric of this name: as the plan says, else as this program knows it, else a count of which less is better.
#[must_use]
pub fn metric(plan: &Plan, name: &str) -> Metric {
    let mut metric = known(name).unwrap_or_else(|| new(name, "count", MetricKind::Measured));
    if let Some(said) = plan.metrics.iter().find(|metric| metric.name == name) {
        metric.direction = said.better.unwrap_or(metric.direction);
        metric.unit = said.unit.clone().unwrap_or(metric.unit);
    }
    metric
}

fn new(name: &str, unit: &str, kind: MetricKind) -> Metric {
    Metric { name: name.to_owned(), unit: unit.to_owned(), direction: Direction::LowerIsBetter, kind }
}

fn known(name: &str) -> Option<Metric> {
    match name {
        CPU_TIME => return Some(new(name, "s", MetricKind::Measured)),
        PEAK_MEMORY => return Some(new(name, "bytes", MetricKind::Measured)),
        _ => {}
    }
    if let Some(event) = EVENTS.iter().find(|event| event.metric == name) {
        return Some(new(name, event.unit, MetricKind::Measured));
    }
    METERS.iter().find_map(|meter| {
        let quantity =
            meter.quantities.iter().find(|quantity| of_meter(meter.name, quantity.name) == name)?;
        let unit = match quantity.unit {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Microseconds => "us",
        };
        Some(new(name, unit, MetricKind::Simulated))
    })
}

/// The metric that decides, among those that were read: the plan's; where work is counted, cycles or else time on a processor
/// (both are reported per unit of work); else the time that passed.
#[must_use]
pub fn primary(plan: &Plan, read: impl Fn(&str) -> bool) -> String {
    if let Some(primary) = &plan.primary {
        return primary.clone();
    }
    let counts_work = plan.workloads.iter().any(|workload| workload.work.is_some());
    let preferred: &[&str] = if counts_work {
        &["cycles", "task-clock", CPU_TIME, "elapsed"]
    } else {
        &["elapsed", "task-clock", "cycles"]
    };
    preferred.iter().find(|name| read(name)).unwrap_or(&"elapsed").to_string()
}
