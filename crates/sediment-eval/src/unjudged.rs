// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds reasons to give no verdict although there are values: the builds do different work, the work or the speed of
//! the processor changes from run to run, or the machine is overloaded.

use super::data::{Experiment, Metric, MetricKind, Phase};
use sediment_measure::{judge, pace};
use std::collections::{BTreeMap, BTreeSet};

/// Returns for each build the reason why its values are not compared with the baseline's; `None` if they are. `rows`
/// has logarithms by build, link and block.
pub(super) fn reasons(
    whole: &Experiment,
    workload: usize,
    metric: &Metric,
    rows: Option<&[Vec<Vec<f64>>]>,
) -> Vec<Option<String>> {
    let is_simulated = metric.kind == MetricKind::Simulated;
    let of_all = if is_simulated {
        None
    } else {
        let is_time = matches!(metric.unit.split('/').next(), Some("s" | "ms" | "us" | "ns"));
        is_time.then(|| unsteady(whole, workload)).flatten().or_else(|| rows.and_then(changed_work))
    };
    let builds = 0..whole.variants.len();
    builds.map(|build| other_results(whole, workload, build).or_else(|| of_all.clone())).collect()
}

/// Exit code and output of a run.
type Results<'a> = (Option<i32>, &'a str);

/// Collects the result of each link, if every link always had the same result, in at least two runs. `None` if a link
/// had several results, for example because the program prints the time.
fn results(whole: &Experiment, workload: usize, build: usize) -> Option<BTreeSet<Results<'_>>> {
    let mut links: BTreeMap<u32, Vec<Results<'_>>> = BTreeMap::new();
    let runs = whole
        .observations
        .iter()
        .filter(|run| run.workload == workload && run.variant == build && run.phase == Phase::Measured);
    for run in runs {
        let found = &run.circumstances;
        links.entry(run.replica).or_default().push((found.exit, found.printed.as_deref()?));
    }
    let is_one = |runs: &Vec<Results<'_>>| runs.len() > 1 && runs.iter().all(|run| *run == runs[0]);
    links.values().all(is_one).then(|| links.values().map(|runs| runs[0]).collect())
}

fn other_results(whole: &Experiment, workload: usize, build: usize) -> Option<String> {
    let name = |build: usize| &whole.variants[build].name;
    let [before, after] = [results(whole, workload, whole.baseline)?, results(whole, workload, build)?];
    let exits: BTreeSet<Option<i32>> = before.union(&after).map(|(exit, _)| *exit).collect();
    let what = if exits.len() > 1 { "exit codes" } else { "outputs" };
    let of = if after.len() > 1 {
        format!("the links of {}", name(build))
    } else if before.len() > 1 {
        format!("the links of {}", name(whole.baseline))
    } else {
        format!("{} and {}", name(whole.baseline), name(build))
    };
    (before.union(&after).count() > 1)
        .then(|| format!("the {what} of {of} differ (to judge them anyway: --ignore-output)"))
}

fn unsteady(whole: &Experiment, workload: usize) -> Option<String> {
    let runs = || whole.observations.iter().filter(|run| run.workload == workload);
    let looks: Vec<f64> = runs().filter_map(|run| run.circumstances.pace).collect();
    let tasks: Vec<f64> = runs().filter_map(|run| run.circumstances.ready_tasks).collect();
    let change = pace::change(&looks);
    pace::overload(&tasks).or_else(|| (change > pace::TOO_UNSTEADY).then(|| pace::in_words(change)))
}

fn changed_work(rows: &[Vec<Vec<f64>>]) -> Option<String> {
    let blocks = rows.first()?.first()?.len();
    let costs = |block: usize| {
        let links = |links: &Vec<Vec<f64>>| links.iter().map(|link| link[block].exp()).collect();
        rows.iter().map(links).collect::<judge::Round>()
    };
    judge::changed_work(&(0..blocks).map(costs).collect::<Vec<_>>())
}
