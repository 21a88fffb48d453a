// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the order with orders for the other goals of `--optimize-for`, and with the current link of the program.

use super::change;
use crate::ui::Ui;
use sediment_core::callgraph::{FunctionId, Trace};
use sediment_order::model::AssumedLayout;
use sediment_order::order::forecast::ForecastProgram;
use sediment_order::order::{self, AIMS, Aim, FaultCurve, Ordering};

/// With a given goal or `--verbose`, prints a line per goal and marks the chosen one; otherwise prints the goal that
/// the profile chose. Prints nothing for profiles without both call counts and first uses.
pub(super) fn print_goals(
    made: &Ordering,
    program: &ForecastProgram<'_>,
    traces: &[&Trace],
    named: Option<Aim>,
    ui: &Ui,
) {
    let input = made.input();
    if !input.has_both() || made.served.is_none() && !made.is_best_as_linked {
        return;
    }
    if named.is_none() && !ui.is_verbose() {
        let chosen = made.served.filter(|aim| *aim != Aim::Steady);
        if let Some((_, name, _)) = AIMS.iter().find(|(aim, _, _)| Some(*aim) == chosen) {
            ui.note(&format!(
                "order: --optimize-for {name} (default), because the profile has recordings of starts"
            ));
        }
        return;
    }
    let orders: Vec<(Aim, &str, Vec<FunctionId>)> = AIMS
        .iter()
        .map(|(aim, name, _)| {
            let order = order::arrange(&input, &made.outcome.order, *aim).functions().collect();
            (*aim, *name, order)
        })
        .collect();
    let linked = program.linked();
    let misses = |layout: AssumedLayout<'_>| match (linked, layout) {
        (Some(_), layout) => program.outlook(layout).common_misses(),
        (None, AssumedLayout::Packed(order)) => order::predicted_misses(&made.built.graph, traces, order),
        (None, AssumedLayout::Linked(_)) => 0.0,
    };
    let steady = orders.iter().find(|(aim, _, _)| *aim == Aim::Steady);
    let base = linked.or(steady.map(|(_, _, order)| AssumedLayout::Packed(order))).map_or(0.0, misses);
    let against = if linked.is_some() { "the program as linked" } else { "steady" };
    let how = if traces.is_empty() { "estimated" } else { "counted in the traces" };
    ui.note(&format!("order: pages of 4 KiB touched after 10 %, 50 % and 100 % of the functions; iTLB misses against {against}"));
    // Without a forecast, the estimate of the misses is too inaccurate for a ranking.
    let is_forecast = !traces.is_empty() || !program.gain(&[]).is_some_and(|gain| gain.fits());
    let row = |start: &str, layout: AssumedLayout<'_>| {
        let FaultCurve { tenth, half, all, .. } = order::fault_curve(&input, layout);
        let change = change(if base > 0.0 { misses(layout) / base } else { 1.0 });
        let misses =
            if is_forecast { format!("misses {change:>8} ({how})") } else { "few misses".to_owned() };
        ui.note(&format!("order: {start:<25} pages {tenth:>5} {half:>5} {all:>5}   {misses}"));
    };
    if let Some(linked) = linked {
        row(if made.is_best_as_linked { "* as linked" } else { "  as linked" }, linked);
    }
    for (aim, name, order) in &orders {
        let mark = if made.served == Some(*aim) { '*' } else { ' ' };
        row(&format!("{mark} --optimize-for {name:<8}"), AssumedLayout::Packed(order));
    }
}
