// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--keep OLD` compares the new order with an older one.

use crate::ui::Ui;
use sediment_core::callgraph::FunctionId;
use sediment_core::plural::counted;
use sediment_order::order::{Older, Ordering};
use std::collections::HashSet;

/// Prints the moved functions and the predicted gain.
pub(super) fn print_moves(made: &Ordering, old: &Older, ui: &Ui) {
    let Some(older) = &made.kept else { return };
    let (graph, kept) = (&made.built.graph, &older.kept);
    let name_of = |function: FunctionId| made.built.table.keys[function.index()].name.as_str();
    let (moved, moved_bytes) = kept.sum(graph, &kept.moved);
    let named: HashSet<&str> = older.known.iter().map(|id| name_of(*id)).collect();
    let added: Vec<bool> =
        graph.ids().map(|id| kept.added[id.index()] && !named.contains(name_of(id))).collect();
    let (added, added_bytes) = kept.sum(graph, &added);
    let bytes: u64 = graph.sizes().iter().fold(0, |sum, size| sum.saturating_add(*size));
    // For display only: the quotient of two floats is exact enough.
    let share = 100.0 * moved_bytes as f64 / bytes.max(1) as f64;
    ui.note(&format!(
        "keep: {}: moved {} ({moved_bytes} of {bytes} bytes, {share:.1} %); added {added} ({added_bytes} bytes); dropped {} (missing from the profile)",
        old.file,
        counted(moved, "function"),
        older.gone
    ));
    let above = |cost: f64| (100.0 * (cost - 1.0)).max(0.0);
    ui.note(&format!(
        "keep: predicted misses compared with a new order: +{:.1} % with this order, +{:.1} % with the older order (--keep-below {})",
        above(kept.cost),
        above(kept.cost_of_old),
        100.0 * old.threshold
    ));
}
