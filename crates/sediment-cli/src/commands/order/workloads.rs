// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several workloads in one order: how each fares beside an order for it alone, and what to do for one that is drowned.

use super::{How, Input};
use crate::files;
use crate::ui::Ui;
use sediment::Result;
use sediment::callgraph::{FunctionId, Trace};
use sediment::order::algorithms::affinity::{self, Workload};
use sediment::order::versions::Engine;
use sediment::order::{self, BuiltGraph, Ordering, Selection, predicted_misses};
use sediment::profile::Profile;
use sediment::profile::merge::{self, Weight};
use std::path::PathBuf;

/// A workload is drowned where it misses so much more often than in an order for it alone.
const DROWNED: f64 = 1.10;
/// Factors of a drowned workload's weight that are tried.
const FACTORS: [u32; 5] = [2, 4, 8, 16, 32];

/// Predicted misses of a workload in the common order and in one for it alone.
struct Fare {
    together: f64,
    alone: f64,
}

impl Fare {
    /// How many times as often it misses as it had to.
    fn ratio(&self) -> f64 {
        if self.together <= self.alone {
            1.0_f64.min(self.together / self.alone.max(f64::MIN_POSITIVE))
        } else {
            self.together / self.alone
        }
    }
}

/// A line for each profile, and what to do about the one that fares worst where that is drowned.
pub(super) fn say_how_each_fares(
    inputs: &[Input],
    made: &Ordering,
    selection: &Selection<'_>,
    how: &How<'_>,
    ui: &Ui,
) -> Result<()> {
    let common: Vec<FunctionId> = made.order.functions().collect();
    let fares = (0..inputs.len())
        .map(|which| {
            let profile = only(inputs, which)?;
            let alone = ordered(&profile, selection, how, ui)?;
            let best: Vec<FunctionId> = alone.order.functions().collect();
            let misses = |order: &[FunctionId]| predicted_misses(&alone.built.graph, &[], order);
            let (together, by_itself) = (misses(&common), misses(&best));
            Ok((alone.built, Fare { together, alone: by_itself }))
        })
        .collect::<Result<Vec<(BuiltGraph, Fare)>>>()?;
    for (input, (_, fare)) in inputs.iter().zip(&fares) {
        ui.note(&format!(
            "order: {:.3} of the misses in an order for it alone: -w {} {}",
            fare.ratio(),
            input.weight,
            input.name
        ));
    }
    let worst =
        (0..inputs.len()).max_by(|a, b| fares[*a].1.ratio().total_cmp(&fares[*b].1.ratio()).then(b.cmp(a)));
    let Some(worst) = worst.filter(|worst| fares[*worst].1.ratio() > DROWNED) else { return Ok(()) };
    ui.note(&advice(inputs, worst, &fares, selection, how, ui)?);
    Ok(())
}

/// One sentence for the user of a drowned workload: the weight that lifts it, and what that costs the others.
fn advice(
    inputs: &[Input],
    worst: usize,
    fares: &[(BuiltGraph, Fare)],
    selection: &Selection<'_>,
    how: &How<'_>,
    ui: &Ui,
) -> Result<String> {
    let name = &inputs[worst].name;
    let mut lifted: Option<(Weight, f64, f64)> = None;
    for weight in FACTORS.iter().filter_map(|factor| inputs[worst].weight.times(*factor)) {
        let weighed: Vec<(&Profile, Weight)> = inputs
            .iter()
            .enumerate()
            .map(|(at, input)| (&input.profile, if at == worst { weight } else { input.weight }))
            .collect();
        let merged = merge::merge(&weighed, false)?;
        let order: Vec<FunctionId> = ordered(&merged, selection, how, ui)?.order.functions().collect();
        let ratio = |at: usize| {
            let (built, fare) = &fares[at];
            let together = predicted_misses(&built.graph, &[], &order);
            Fare { together, alone: fare.alone }.ratio()
        };
        let others = (0..inputs.len()).filter(|at| *at != worst).map(ratio).fold(0.0, f64::max);
        let found = (weight, ratio(worst), others);
        if lifted.is_none_or(|best| found.1.max(found.2) < best.1.max(best.2)) {
            lifted = Some(found);
        }
        if found.1 <= DROWNED {
            break;
        }
    }
    let drowned =
        format!("order: {name} is drowned: more than {:.0}% above its own best", 100.0 * (DROWNED - 1.0));
    Ok(match lifted.filter(|(_, ratio, _)| *ratio < fares[worst].1.ratio()) {
        Some((weight, ratio, others)) => format!(
            "{drowned}. With -w {weight} in front of it, it comes to {ratio:.3}, and the worst of the others to {others:.3}"
        ),
        None => format!(
            "{drowned}, and no greater weight helps it: what these workloads run together does not agree"
        ),
    })
}

/// The functions of all inputs with the calls of one alone, so that ids mean the same for all.
fn only(inputs: &[Input], which: usize) -> Result<Profile> {
    let weight = |at: usize| if at == which { Weight::ONE } else { Weight::ZERO };
    let weighed: Vec<(&Profile, Weight)> =
        inputs.iter().enumerate().map(|(at, input)| (&input.profile, weight(at))).collect();
    merge::merge(&weighed, false)
}

/// The order of a profile alone.
fn ordered(profile: &Profile, selection: &Selection<'_>, how: &How<'_>, ui: &Ui) -> Result<Ordering> {
    how.order(profile, order::build(profile, selection)?, &[], None, selection, ui)
}

/// How well the engine's order fits the recorded runs, and where there are several, each of them.
pub(super) fn say_how_the_runs_fare(
    engine: &Engine,
    made: &Ordering,
    traces: &[Trace],
    paths: &[(PathBuf, Weight)],
    ui: &Ui,
) {
    let (outcome, graph) = (&made.outcome, &made.built.graph);
    if !traces.is_empty() {
        let found = match outcome.gain_in_percent() {
            0 => "nothing better was found".to_owned(),
            gain => format!("refined to {gain}% less cost on parts of the runs that were kept from it"),
        };
        ui.note(&format!("engine: {} fits the runs best; {found}", outcome.start.name));
    }
    if traces.len() < 2 {
        return;
    }
    for ((path, weight), trace) in paths.iter().zip(traces) {
        let alone = engine.sequence(graph, &[Workload { trace, weight: 1 }]);
        let [together, alone] =
            [&outcome.order, &alone.order].map(|order| affinity::cost(graph, trace, order));
        let fare = Fare { together, alone };
        let drowned =
            if fare.ratio() > DROWNED { ": drowned; a greater -w in front of it lifts it" } else { "" };
        ui.note(&format!(
            "order: {:.3} of the cost in an order for it alone: -w {weight} {}{drowned}",
            fare.ratio(),
            files::display(path)
        ));
    }
}
