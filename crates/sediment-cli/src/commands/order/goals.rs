// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of the order with those for other goals of `--optimize-for`.

use super::change;
use crate::ui::Ui;
use sediment::callgraph::{FunctionId, Trace};
use sediment::order::{self, AIMS, Aim, Ordering};

/// Prints a line per goal and marks the chosen one; prints nothing for profiles without both call counts and first uses.
pub(super) fn print_goals(made: &Ordering, traces: &[Trace], chosen: Aim, ui: &Ui) {
    let input = made.input();
    if !input.has_both() {
        return;
    }
    let traces: Vec<&Trace> = traces.iter().collect();
    let rows = AIMS.iter().map(|(aim, name, _)| {
        let order: Vec<FunctionId> = order::arrange(&input, &made.outcome.order, *aim).functions().collect();
        (*aim, *name, order::goal_scores(&input, &traces, &order))
    });
    let rows: Vec<_> = rows.collect();
    let steady = rows.iter().find(|(aim, _, _)| *aim == Aim::Steady).map_or(0.0, |(_, _, (_, cost))| *cost);
    let how = if traces.is_empty() { "estimated" } else { "counted in the traces" };
    ui.note("order: pages of 4 KiB touched after 10 %, 50 % and 100 % of the functions; iTLB misses against steady");
    for (aim, name, (curve, cost)) in rows {
        let mark = if aim == chosen { '*' } else { ' ' };
        let change = change(if steady > 0.0 { cost / steady } else { 1.0 });
        ui.note(&format!(
            "order: {mark} --optimize-for {name:<8} pages {:>5} {:>5} {:>5}   misses {change:>8} ({how})",
            curve.tenth, curve.half, curve.all
        ));
    }
}
