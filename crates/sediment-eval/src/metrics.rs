// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics that a run can read, with unit, direction and kind; and the choice of the deciding metric if the plan
//! names none.

use super::data::{Direction, Metric, MetricKind};
use super::derive::{self, CPU_TIME};
use super::plan::{Plan, WorkloadKind};
use sediment_core::error::{Error, ErrorCode};
use sediment_measure::perf_stat::{CountableEvents, EVENTS};
use sediment_measure::{METERS, Unit};

/// Most memory of the largest process.
pub(crate) const PEAK_MEMORY: &str = "max-rss";

/// Metric name of a meter's quantity; names of simulated ones say so.
#[must_use]
pub(crate) fn of_meter(meter: &str, quantity: &str) -> String {
    match meter {
        "peak-memory" => PEAK_MEMORY.to_owned(),
        _ => format!("{quantity} (simulated)"),
    }
}

/// Finds the metric of this name: the plan's; otherwise one that this program knows; otherwise a count, where less is
/// better.
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

/// Chooses the deciding metric among those that were read: the plan's; if work is counted, cycles or else CPU time
/// (both are reported per unit of work); otherwise the elapsed time.
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

/// Metrics from the kernel's accounts of a program, and of a server.
const OF_PROGRAMS: &[&str] =
    &["elapsed", "user", "sys", CPU_TIME, "minor-faults", "major-faults", "context-switches"];
const OF_SERVERS: &[&str] =
    &["elapsed", "user", "sys", CPU_TIME, "minor-faults", "major-faults", PEAK_MEMORY];

/// Returns the reason why no run of this plan can read its primary metric, as far as this is known before the first
/// run. Imported files may have any metric.
#[must_use]
pub fn refusal(plan: &Plan, counters: &CountableEvents) -> Option<Error> {
    let primary = plan.primary.as_deref()?;
    let has = |kind: fn(&WorkloadKind) -> bool| plan.workloads.iter().any(|workload| kind(&workload.kind));
    let printed = plan.metrics.iter().any(|metric| metric.name == primary && metric.extraction.is_some());
    if printed || derive::explains_only(primary) || has(|kind| matches!(kind, WorkloadKind::Import(_))) {
        return None;
    }
    let works = || plan.workloads.iter().filter_map(|workload| workload.work.as_ref().map(|(name, _)| name));
    if works().any(|work| primary == format!("{work} per second")) {
        return None;
    }
    let name = works()
        .find_map(|work| primary.strip_suffix(work.as_str())?.strip_suffix(" per "))
        .unwrap_or(primary);
    let counted = |name: &str| counters.passes.iter().flatten().any(|event| event.metric == name);
    let metered =
        || {
            plan.run.meters.iter().filter_map(|meter| sediment_measure::meter(meter)).any(|meter| {
                meter.quantities.iter().any(|quantity| of_meter(meter.name, quantity.name) == name)
            })
        };
    let read = counted(name)
        || name == CPU_TIME && (counted("user") || counted("sys"))
        || counters.passes.is_empty() && OF_PROGRAMS.contains(&name)
        || has(|kind| matches!(kind, WorkloadKind::Server(_))) && OF_SERVERS.contains(&name)
        || has(|kind| matches!(kind, WorkloadKind::Command { .. })) && metered();
    if read {
        return None;
    }
    if let Some(why) = counters.absent.get(name) {
        return Some(Error::new(
            ErrorCode::NotMeasured,
            format!("the primary metric {primary} is not counted here: {why}"),
        ));
    }
    if known(name).is_some() {
        let is_event = EVENTS.iter().any(|event| event.metric == name) || name == CPU_TIME;
        let hint = if is_event {
            "counters in [run] lists what perf counts; --no-counters is an empty list"
        } else {
            "a meter measures it: add the meter to `meters` in [run], or --meter"
        };
        let message = format!("the primary metric {primary} is not measured");
        return Some(Error::new(ErrorCode::Usage, message).with_hint(hint));
    }
    let all: Vec<&str> = EVENTS.iter().map(|event| event.metric).chain([CPU_TIME, PEAK_MEMORY]).collect();
    Some(Error::new(ErrorCode::Usage, format!("unknown metric {primary}")).with_hint(format!(
        "supported: {}; a [[metric]] with a regex or a pointer adds its own",
        all.join(", ")
    )))
}
