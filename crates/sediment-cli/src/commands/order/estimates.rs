// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes on orders that use a compiler's estimates.

use crate::ui::Ui;
use sediment_core::plural::counted;
use sediment_order::order::{Standing, Unprofiled};

/// Prints the number of functions placed by estimates; `alone`: there is no other profile.
pub(super) fn print_estimates(unprofiled: &Unprofiled, alone: bool, ui: &Ui) {
    let count = |wanted: &dyn Fn(Standing) -> bool| {
        unprofiled.standing.iter().flatten().filter(|standing| wanted(**standing)).count()
    };
    if alone {
        ui.warn(
            "the order is based only on a compiler's estimates, which are independent of the workload: it is better than no order, but much worse than one from a recording",
        );
        return;
    }
    let bound = count(&|standing| standing == Standing::Reachable);
    let cold = count(&|standing| standing == Standing::Cold);
    let rest = count(&|_| true) - bound - cold;
    let all = counted(count(&|_| true), "unprofiled function");
    ui.note(&format!(
        "order: placed last: {all} ({bound} by the static call graph, {rest} unreachable, {cold} cold)"
    ));
}
