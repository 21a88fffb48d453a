// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an order gives the start and what the steady state, beside the orders that serve one of them alone.

use crate::ui::Ui;
use sediment::callgraph::{FunctionId, Trace};
use sediment::order::{self, AIMS, Aim, Ordering};

/// A line for each aim, with a mark at the one that was chosen; nothing where the profile cannot tell them apart.
pub(super) fn say_what_each_aim_gives(made: &Ordering, traces: &[Trace], chosen: Aim, ui: &Ui) {
    let input = made.input();
    if !input.has_both() {
        return;
    }
    let traces: Vec<&Trace> = traces.iter().collect();
    let served = AIMS.iter().map(|(aim, name, _)| {
        let order: Vec<FunctionId> = order::arrange(&input, &made.outcome.order, *aim).functions().collect();
        (*aim, *name, order::serving(&input, &traces, &order))
    });
    let served: Vec<_> = served.collect();
    let steady = served.iter().find(|(aim, _, _)| *aim == Aim::Steady).map_or(0.0, |(_, _, (_, cost))| *cost);
    let how = if traces.is_empty() { "estimated" } else { "counted over the runs" };
    ui.note("order: pages of 4 KiB touched when a tenth, half and all of the functions have run once; iTLB misses");
    for (aim, name, (curve, cost)) in served {
        let mark = if aim == chosen { '*' } else { ' ' };
        let ratio = if steady > 0.0 { cost / steady } else { 1.0 };
        ui.note(&format!(
            "order: {mark} --serve {name:<8} pages {:>5} {:>5} {:>5}   misses {ratio:.3} of steady's ({how})",
            curve.tenth, curve.half, curve.all
        ));
    }
}
