// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes metrics from others of the same run: per unit of work, and ratios such as instructions per cycle.
//!
//! A ratio is computed for each run and then summarised, never from totals, so that it has an interval of its own. If
//! only printed means are known, the ratio of the means is used, without a spread. A metric without all its inputs
//! stays absent. Measured and simulated values are never combined in a ratio.
//!
//! Values per unit of work decide: a build that does more work in the same time spends more cycles, and instructions
//! per cycle also rise if a build executes more instructions for the same work.

use super::data::{Direction, Experiment, GroupSummary, Metric, MetricKind, Observation, SampleSummary};
use std::collections::BTreeMap;

/// A ratio of two counters in one run.
struct Ratio {
    name: &'static str,
    above: &'static str,
    below: &'static str,
    unit: &'static str,
    direction: Direction,
    times: f64,
}

const fn ratio(name: &'static str, above: &'static str, below: &'static str, unit: &'static str) -> Ratio {
    Ratio { name, above, below, unit, direction: Direction::LowerIsBetter, times: 1.0 }
}

const fn per_thousand(name: &'static str, above: &'static str) -> Ratio {
    Ratio { times: 1000.0, ..ratio(name, above, "instructions", "per 1000 instructions") }
}

const RATIOS: &[Ratio] = &[
    Ratio {
        direction: Direction::HigherIsBetter,
        ..ratio("instructions per cycle", "instructions", "cycles", "instructions/cycle")
    },
    Ratio {
        direction: Direction::HigherIsBetter,
        ..ratio("instructions per iTLB miss", "instructions", "iTLB-load-misses", "instructions/miss")
    },
    per_thousand("iTLB-loads MPKI", "iTLB-loads"),
    per_thousand("iTLB-load-misses MPKI", "iTLB-load-misses"),
    per_thousand("L1-icache-load-misses MPKI", "L1-icache-load-misses"),
    per_thousand("L1-dcache-load-misses MPKI", "L1-dcache-load-misses"),
    per_thousand("LLC-load-misses MPKI", "LLC-load-misses"),
    per_thousand("cache-misses MPKI", "cache-misses"),
    per_thousand("branch-misses MPKI", "branch-misses"),
    Ratio { times: 100.0, ..ratio("branch miss rate", "branch-misses", "branches", "%") },
    Ratio { times: 100.0, ..ratio("frontend cycles idle", "stalled-cycles-frontend", "cycles", "%") },
    Ratio { times: 100.0, ..ratio("backend cycles idle", "stalled-cycles-backend", "cycles", "%") },
    ratio("CPUs utilised", "task-clock", "elapsed", "CPUs"),
    Ratio {
        direction: Direction::HigherIsBetter,
        times: 1e-9,
        ..ratio("clock rate", "cycles", "task-clock", "GHz")
    },
];

/// Seconds on a processor, inside and outside the kernel: the sum of `user` and `sys`.
pub(crate) const CPU_TIME: &str = "cpu-time";

/// True if a metric cannot decide a comparison, because it is a ratio that ignores the work done (such as instructions
/// per cycle).
#[must_use]
pub(crate) fn explains_only(name: &str) -> bool {
    RATIOS.iter().any(|ratio| ratio.name == name)
}

/// Name of a metric per unit of work.
#[must_use]
pub(crate) fn per_work(metric: &str, work: &str) -> String {
    format!("{metric} per {work}")
}

/// Appends the derived metrics to the metrics of the experiment.
#[must_use]
pub(crate) fn derive(experiment: &Experiment) -> Experiment {
    let mut whole = experiment.clone();
    add_cpu_time(&mut whole);
    let read: Vec<Metric> = whole.metrics.clone();
    for ratio in RATIOS {
        let above = find(&read, ratio.above);
        let below = find(&read, ratio.below);
        let (Some(above), Some(below)) = (above, below) else { continue };
        if (above.kind == MetricKind::Simulated) != (below.kind == MetricKind::Simulated) {
            continue;
        }
        let factor = ratio.times * seconds(&above.unit).unwrap_or(1.0) / seconds(&below.unit).unwrap_or(1.0);
        let metric = Metric {
            name: ratio.name.to_owned(),
            unit: ratio.unit.to_owned(),
            direction: ratio.direction,
            kind: if above.kind == MetricKind::Simulated {
                MetricKind::Simulated
            } else {
                MetricKind::Derived
            },
        };
        add(&mut whole, metric, |values, _| {
            divide(*values.get(&above.name)?, *values.get(&below.name)?, factor)
        });
    }
    for workload in 0..whole.workloads.len() {
        if let Some(work) = whole.workloads[workload].work.clone() {
            add_per_work(&mut whole, workload, &work, &read);
        }
    }
    whole
}

/// Seconds in a unit of time.
fn seconds(unit: &str) -> Option<f64> {
    match unit {
        "s" => Some(1.0),
        "ms" => Some(1e-3),
        "us" => Some(1e-6),
        "ns" => Some(1e-9),
        _ => None,
    }
}

/// Finds a metric by the name of its event; `perf stat` writes `cycles:u` if only user space may be counted.
fn find<'a>(metrics: &'a [Metric], event: &str) -> Option<&'a Metric> {
    let same = |metric: &&Metric| metric.name == event;
    let restricted =
        |metric: &&Metric| metric.name.strip_prefix(event).is_some_and(|rest| rest.starts_with(':'));
    metrics.iter().find(same).or_else(|| metrics.iter().find(restricted))
}

fn divide(above: f64, below: f64, factor: f64) -> Option<f64> {
    (below != 0.0).then(|| above / below * factor).filter(|value| value.is_finite())
}

/// Adds a derived metric to each run or table with its inputs. Does nothing if the metric exists already or cannot be
/// derived anywhere.
fn add(
    whole: &mut Experiment,
    metric: Metric,
    value: impl Fn(&BTreeMap<String, f64>, Option<&Observation>) -> Option<f64>,
) {
    if whole.metrics.iter().any(|other| other.name == metric.name) {
        return;
    }
    let mut found = false;
    for run in &mut whole.observations {
        if let Some(value) = value(&run.values, Some(run)) {
            run.values.insert(metric.name.clone(), value);
            found = true;
        }
    }
    for ((workload, variant), (count, means)) in means(whole) {
        if let Some(mean) = value(&means, None) {
            let summary = SampleSummary { count, mean, deviation: None };
            whole.summaries.push(GroupSummary { workload, variant, metric: metric.name.clone(), summary });
            found = true;
        }
    }
    if found {
        whole.metrics.push(metric);
    }
}

/// By workload and variant, the smallest count and the means of a table.
fn means(whole: &Experiment) -> BTreeMap<(usize, usize), (u64, BTreeMap<String, f64>)> {
    let mut groups = BTreeMap::new();
    for group in &whole.summaries {
        let (count, values) =
            groups.entry((group.workload, group.variant)).or_insert_with(|| (u64::MAX, BTreeMap::new()));
        *count = group.summary.count.min(*count);
        values.insert(group.metric.clone(), group.summary.mean);
    }
    groups
}

fn add_cpu_time(whole: &mut Experiment) {
    let metrics = whole.metrics.clone();
    let (Some(user), Some(system)) = (find(&metrics, "user"), find(&metrics, "sys")) else { return };
    if user.unit != system.unit || user.kind != system.kind {
        return;
    }
    let metric = Metric {
        name: CPU_TIME.to_owned(),
        unit: user.unit.clone(),
        direction: Direction::LowerIsBetter,
        kind: MetricKind::Derived,
    };
    add(whole, metric, |values, _| Some(values.get(&user.name)? + values.get(&system.name)?));
}

fn add_per_work(whole: &mut Experiment, workload: usize, work: &str, read: &[Metric]) {
    let rate_unit = format!("{work}/s");
    let rate = read.iter().find(|metric| metric.unit == rate_unit).cloned();
    let elapsed = find(read, "elapsed").cloned();
    let duration = |values: &BTreeMap<String, f64>| {
        let elapsed = elapsed.as_ref()?;
        Some(values.get(&elapsed.name)? * seconds(&elapsed.unit)?)
    };
    // Units of work of a run: the counted ones, otherwise rate times duration.
    let done = |values: &BTreeMap<String, f64>, run: Option<&Observation>| match run.and_then(|run| run.work)
    {
        Some(work) => Some(work),
        None => Some(values.get(&rate.as_ref()?.name)? * duration(values)?),
    };
    let mut here = whole.clone();
    here.observations.retain(|run| run.workload == workload);
    here.summaries.retain(|group| group.workload == workload);
    let before = here.summaries.len();
    for metric in read {
        let countable = metric.unit == "count" || seconds(&metric.unit).is_some();
        if !countable || metric.direction != Direction::LowerIsBetter {
            continue;
        }
        let per = Metric {
            name: per_work(&metric.name, work),
            unit: format!("{}/{work}", metric.unit),
            direction: Direction::LowerIsBetter,
            kind: if metric.kind == MetricKind::Simulated { metric.kind } else { MetricKind::Derived },
        };
        here.metrics.retain(|other| other.name != per.name);
        add(&mut here, per, |values, run| divide(*values.get(&metric.name)?, done(values, run)?, 1.0));
    }
    if rate.is_none() {
        let per_second = Metric {
            name: format!("{work} per second"),
            unit: rate_unit,
            direction: Direction::HigherIsBetter,
            kind: MetricKind::Derived,
        };
        here.metrics.retain(|other| other.name != per_second.name);
        add(&mut here, per_second, |values, run| divide(done(values, run)?, duration(values)?, 1.0));
    }
    let mut derived = here.observations.into_iter();
    for run in whole.observations.iter_mut().filter(|run| run.workload == workload) {
        if let Some(with_more) = derived.next() {
            run.values = with_more.values;
        }
    }
    whole.summaries.extend(here.summaries.into_iter().skip(before));
    for metric in here.metrics {
        if !whole.metrics.iter().any(|other| other.name == metric.name) {
            whole.metrics.push(metric);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Circumstances, Phase, Variant, Workload};

    fn metric(name: &str, unit: &str, kind: MetricKind) -> Metric {
        Metric { name: name.to_owned(), unit: unit.to_owned(), direction: Direction::LowerIsBetter, kind }
    }

    fn experiment(values: &[(&str, f64)], work: Option<f64>) -> Experiment {
        Experiment {
            variants: vec![Variant {
                name: "base".to_owned(),
                factors: Vec::new(),
                replicas: 1,
                probe: None,
            }],
            baseline: 0,
            workloads: vec![Workload { name: "w".to_owned(), work: Some("transaction".to_owned()) }],
            metrics: vec![
                metric("cycles:u", "count", MetricKind::Measured),
                metric("instructions", "count", MetricKind::Measured),
                metric("iTLB-load-misses", "count", MetricKind::Simulated),
                metric("task-clock", "ms", MetricKind::Measured),
                metric("elapsed", "s", MetricKind::Measured),
                metric("user", "s", MetricKind::Measured),
                metric("sys", "s", MetricKind::Measured),
                metric("max-rss", "bytes", MetricKind::Measured),
            ],
            primary: "cycles".to_owned(),
            margin: 0.01,
            confidence: 0.95,
            precision: 0.005,
            observations: vec![Observation {
                workload: 0,
                variant: 0,
                replica: 0,
                block: Some(0),
                slot: 0,
                at: 0.0,
                phase: Phase::Measured,
                work,
                values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
                circumstances: Circumstances::default(),
            }],
            summaries: Vec::new(),
            absent: BTreeMap::new(),
            facts: Vec::new(),
            seed: 1,
        }
    }

    #[test]
    fn ratios_and_values_per_unit_of_work_are_taken_run_by_run() {
        let values = [
            ("cycles:u", 2e9),
            ("instructions", 1e9),
            ("iTLB-load-misses", 1e6),
            ("task-clock", 1500.0),
            ("elapsed", 2.0),
            ("user", 1.0),
            ("sys", 0.25),
            ("max-rss", 1e6),
        ];
        let whole = derive(&experiment(&values, Some(1000.0)));
        let derived = &whole.observations[0].values;
        let value = |name: &str| derived.get(name).copied();
        assert_eq!(value("instructions per cycle"), Some(0.5));
        assert_eq!(value("CPUs utilised"), Some(0.75));
        assert_eq!(value("clock rate"), Some(2e9 / 1.5 * 1e-9));
        assert_eq!(value("cycles:u per transaction"), Some(2e6));
        assert_eq!(value("cpu-time"), Some(1.25));
        assert_eq!(value("cpu-time per transaction"), Some(0.00125));
        assert_eq!(value("transaction per second"), Some(500.0));
        assert_eq!(value("max-rss per transaction"), None, "memory is not spent by the transaction");
        assert_eq!(value("instructions per iTLB miss"), None, "measured over simulated");
        let kind = |name: &str| whole.metrics.iter().find(|metric| metric.name == name).unwrap().kind;
        assert_eq!(kind("iTLB-load-misses per transaction"), MetricKind::Simulated);
    }

    #[test]
    fn metrics_without_their_inputs_stay_absent() {
        let whole = derive(&experiment(&[("cycles:u", 0.0), ("instructions", 5.0), ("elapsed", 0.0)], None));
        assert_eq!(whole.observations[0].values.len(), 3);
        assert_eq!(whole.metrics.len(), 8);
    }
}
