// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a compiler's estimates do to an order, and how far they are to be trusted.

use crate::ui::Ui;
use sediment::order::{Standing, Unprofiled};

/// One line: what of the order rests on estimates; `alone`: all of it does.
pub(super) fn say_what_they_do(unprofiled: &Unprofiled, alone: bool, ui: &Ui) {
    let count = |wanted: &dyn Fn(Standing) -> bool| {
        unprofiled.standing.iter().flatten().filter(|standing| wanted(**standing)).count()
    };
    if alone {
        ui.note(
            "order: it rests on a compiler's estimates alone, which know loops and branches and no workload: better than none, \
             much worse than by a recording; merge even a short one with them",
        );
        return;
    }
    let bound = count(&|standing| standing == Standing::Reachable);
    let cold = count(&|standing| standing == Standing::Cold);
    let rest = count(&|_| true) - bound - cold;
    ui.note(&format!(
        "order: of functions that no run saw, {bound} lie behind those that ran, by a compiler's graph of who calls whom; then {rest} that \
         nothing leads to, and {cold} error paths"
    ));
}
