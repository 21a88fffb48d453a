// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several workloads in one order: compares each with its own order, and gives advice for an underserved one.

use super::{OrderPlan, WeightedProfile, change};
use crate::files;
use crate::ui::Ui;
use sediment_core::Result;
use sediment_core::callgraph::{FunctionId, Trace};
use sediment_core::profile::Profile;
use sediment_core::profile::merge::{self, Weight};
use sediment_order::order::algorithms::affinity::{self, WeightedTrace};
use sediment_order::order::forecast::ForecastProgram;
use sediment_order::order::left_out::{LeftOutMisses, MOST_PARTS};
use sediment_order::order::versions::Engine;
use sediment_order::order::{self, BuiltGraph, Ordering, Selection, predicted_misses};
use std::path::PathBuf;

/// A workload is underserved if its misses exceed the misses with its own order by more than this factor.
const UNDERSERVED: f64 = 1.10;
/// Factors that are tried for the weight of an underserved workload.
const FACTORS: [u32; 5] = [2, 4, 8, 16, 32];

/// Predicted misses of a workload with the common order and with its own order.
struct Fare {
    together: f64,
    alone: f64,
}

impl Fare {
    /// Misses with the common order divided by misses with its own order.
    fn ratio(&self) -> f64 {
        if self.alone == 0.0 && self.together == 0.0 { 1.0 } else { self.together / self.alone }
    }
}

/// Prints a line per profile, and advice for the worst one if it is underserved.
pub(super) fn print_workloads(
    inputs: &[WeightedProfile],
    made: &Ordering,
    selection: &Selection<'_>,
    plan: &OrderPlan<'_>,
    ui: &Ui,
) -> Result<()> {
    let common: Vec<FunctionId> = made.order.functions().collect();
    let fares = (0..inputs.len())
        .map(|which| {
            let profile = only(inputs, which)?;
            let alone = ordered(&profile, selection, plan, ui)?;
            let best: Vec<FunctionId> = alone.order.functions().collect();
            let misses = |order: &[FunctionId]| predicted_misses(&alone.built.graph, &[], order);
            let (together, by_itself) = (misses(&common), misses(&best));
            Ok((alone.built, Fare { together, alone: by_itself }))
        })
        .collect::<Result<Vec<(BuiltGraph, Fare)>>>()?;
    for (input, (_, fare)) in inputs.iter().zip(&fares) {
        ui.note(&format!(
            "order: {} misses, compared with an order of its own: -w {} {}",
            change(fare.ratio()),
            input.weight,
            input.name
        ));
    }
    let worst =
        (0..inputs.len()).max_by(|a, b| fares[*a].1.ratio().total_cmp(&fares[*b].1.ratio()).then(b.cmp(a)));
    let Some(worst) = worst.filter(|worst| fares[*worst].1.ratio() > UNDERSERVED) else { return Ok(()) };
    ui.note(&advice(inputs, worst, &fares, selection, plan, ui)?);
    Ok(())
}

/// Returns the misses of each recording with the order of the other recordings.
pub(super) fn left_out(
    inputs: &[WeightedProfile],
    selection: &Selection<'_>,
    plan: &OrderPlan<'_>,
    ui: &Ui,
) -> Result<LeftOutMisses> {
    let mut sum = LeftOutMisses::default();
    for which in 0..inputs.len().min(MOST_PARTS) {
        let weight =
            |at: usize, input: &WeightedProfile| if at == which { Weight::ZERO } else { input.weight };
        let rest: Vec<(&Profile, Weight)> =
            inputs.iter().enumerate().map(|(at, input)| (&input.profile, weight(at, input))).collect();
        let order: Vec<FunctionId> =
            ordered(&merge::merge(&rest, false)?, selection, plan, ui)?.order.functions().collect();
        let profile = only(inputs, which)?;
        let built = order::build(&profile, selection)?;
        if let Some(gain) = ForecastProgram::new(&profile, &built, &[])?.gain(&order) {
            sum.add(&gain);
        }
    }
    Ok(sum)
}

/// Returns advice for an underserved workload: the weight that helps it, and the cost for the others.
fn advice(
    inputs: &[WeightedProfile],
    worst: usize,
    fares: &[(BuiltGraph, Fare)],
    selection: &Selection<'_>,
    plan: &OrderPlan<'_>,
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
        let order: Vec<FunctionId> = ordered(&merged, selection, plan, ui)?.order.functions().collect();
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
        if found.1 <= UNDERSERVED {
            break;
        }
    }
    let underserved = format!(
        "order: warning: {name} has over {:.0} % more misses than with an order of its own",
        100.0 * (UNDERSERVED - 1.0)
    );
    Ok(match lifted.filter(|(_, ratio, _)| *ratio < fares[worst].1.ratio()) {
        Some((weight, ratio, others)) => format!(
            "{underserved}. With -w {weight}: {} misses; the worst change of the other workloads is {}",
            change(ratio),
            change(others)
        ),
        None => format!("{underserved}. A larger weight does not help, because the workloads conflict"),
    })
}

/// Returns the functions of all inputs with the calls of only one, so that all graphs have the same ids.
fn only(inputs: &[WeightedProfile], which: usize) -> Result<Profile> {
    let weight = |at: usize| if at == which { Weight::ONE } else { Weight::ZERO };
    let weighed: Vec<(&Profile, Weight)> =
        inputs.iter().enumerate().map(|(at, input)| (&input.profile, weight(at))).collect();
    merge::merge(&weighed, false)
}

/// Computes the order of one profile.
fn ordered(profile: &Profile, selection: &Selection<'_>, plan: &OrderPlan<'_>, ui: &Ui) -> Result<Ordering> {
    plan.order(profile, order::build(profile, selection)?, &[], None, selection, ui)
}

/// Prints how well the order fits all traces together, and each one.
pub(super) fn print_traces(
    engine: &Engine,
    made: &Ordering,
    traces: &[Trace],
    paths: &[(PathBuf, Weight)],
    ui: &Ui,
) {
    let (outcome, graph) = (&made.outcome, &made.built.graph);
    // The search for a better order is useful only for programs that miss the TLB.
    if made.keeps_input_order {
        return;
    }
    if !traces.is_empty() {
        let found = match outcome.gain_in_percent() {
            0 => "no better order found".to_owned(),
            gain => format!("refined: -{gain} % cost on held-out parts of the traces"),
        };
        ui.note(&format!("auto: {} fits the traces best; {found}", outcome.start.name));
    }
    if traces.len() < 2 {
        return;
    }
    for ((path, weight), trace) in paths.iter().zip(traces) {
        let alone = engine.sequence(graph, &[WeightedTrace { trace, weight: 1 }]);
        let [together, alone] =
            [&outcome.order, &alone.order].map(|order| affinity::cost(graph, trace, order));
        let fare = Fare { together, alone };
        let underserved = if fare.ratio() > UNDERSERVED { ": raise its -w" } else { "" };
        ui.note(&format!(
            "order: {} cost, compared with an order of its own: -w {weight} {}{underserved}",
            change(fare.ratio()),
            files::display(path)
        ));
    }
}
