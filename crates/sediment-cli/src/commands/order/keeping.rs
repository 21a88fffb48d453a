// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--keep OLD`: an ordering file of before, changed only where that gains.

use super::Made;
use crate::files;
use crate::ui::Ui;
use sediment::callgraph::{FunctionId, Group, GroupKind, Order, Trace};
use sediment::order::keep::{self, Kept};
use sediment::order::predicted_misses;
use sediment::{Error, ErrorKind, Result, link};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The order between that of a file and the one that was made, telling what it moves.
pub(super) fn keep(made: &Made, old: &Path, threshold: f64, ui: &Ui) -> Result<(Order, Kept)> {
    if !(0.0..=1.0).contains(&threshold) {
        return Err(Error::new(ErrorKind::Usage, "--keep-below is a share in per cent, from 0 to 100"));
    }
    let graph = &made.built.graph;
    let (known, gone) = functions_of(made, old)?;
    let new: Vec<FunctionId> = made.order.functions().collect();
    let traces: Vec<&Trace> = made.traces.iter().collect();
    let cost = |order: &[FunctionId]| predicted_misses(graph, &traces, order);
    let kept = keep::keep(graph, &known, &new, threshold, &cost);
    let (moved, moved_bytes) = kept.sum(graph, &kept.moved);
    let named: HashSet<&str> = known.iter().map(|id| name_of(made, *id)).collect();
    let added: Vec<bool> =
        graph.ids().map(|id| kept.added[id.index()] && !named.contains(name_of(made, id))).collect();
    let (added, added_bytes) = kept.sum(graph, &added);
    let bytes: u64 = graph.sizes().iter().fold(0, |sum, size| sum.saturating_add(*size));
    // Only for the eye: the quotient of two floats is near enough.
    let share = 100.0 * moved_bytes as f64 / bytes.max(1) as f64;
    ui.note(&format!(
        "keep: {}: {moved} functions moved, {moved_bytes} of {bytes} bytes ({share:.1}%); {added} added, {added_bytes} bytes; {gone} left out, as the profile does not have them",
        files::display(old)
    ));
    let above = |cost: f64| (100.0 * (cost - 1.0)).max(0.0);
    ui.note(&format!(
        "keep: predicted misses are {:.1}% above those of an order from scratch, {:.1}% before; --keep-below {} decides",
        above(kept.cost),
        above(kept.cost_of_old),
        100.0 * threshold
    ));
    Ok((in_runs(made, &kept.order), kept))
}

fn name_of(made: &Made, function: FunctionId) -> &str {
    &made.built.table.keys[function.index()].name
}

/// The functions that an ordering file asks for and the graph has, and how many it asks for that the graph does not have.
fn functions_of(made: &Made, path: &Path) -> Result<(Vec<FunctionId>, usize)> {
    let named = |error: Error| error.with_input(files::display(path));
    let bytes = files::read(path)?;
    let (_, asked) = link::read(&String::from_utf8_lossy(&bytes)).map_err(named)?;
    // Functions of one name are placed together, where the heaviest of them belongs.
    let mut by_name: HashMap<&str, FunctionId> = HashMap::new();
    let weights = made.built.graph.weights();
    for id in made.order.functions() {
        let heaviest = by_name.entry(name_of(made, id)).or_insert(id);
        if weights[id.index()] > weights[heaviest.index()] {
            *heaviest = id;
        }
    }
    let mut gone = 0;
    let mut known = Vec::with_capacity(asked.len());
    for name in &asked {
        match by_name.get(name.name.as_str()) {
            Some(id) => known.push(*id),
            None => gone += 1,
        }
    }
    if known.is_empty() {
        return Err(named(
            Error::failed("none of the functions of this order is in the profile")
                .with_hint("was it made for another program?"),
        ));
    }
    Ok((known, gone))
}

/// The same groups for the same functions, in stretches: an older order knows no groups.
fn in_runs(made: &Made, functions: &[FunctionId]) -> Order {
    let mut kinds = vec![GroupKind::Unseen; made.built.graph.len()];
    for group in &made.order.groups {
        for function in &group.functions {
            kinds[function.index()] = group.kind;
        }
    }
    let runs = functions.chunk_by(|a, b| kinds[a.index()] == kinds[b.index()]);
    let group = |run: &[FunctionId]| Group { kind: kinds[run[0].index()], functions: run.to_vec() };
    Order { groups: runs.map(group).collect() }
}
