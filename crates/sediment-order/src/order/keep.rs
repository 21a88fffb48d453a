// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes an older order only where this pays.
//!
//! **Problem.** A package is built again from a slightly newer profile. A completely new order would move most functions. That makes delta
//! updates large and changes hard to review, for little gain. Find an order that moves little code and keeps most of the gain.
//!
//! **Steps.**
//! 1. *Base*: the older order without the functions that no longer exist. New functions are put after the function that
//!    they follow in the new order.
//! 2. If the new order saves less than the threshold (a share of the base's cost), the answer is the base.
//! 3. Otherwise the largest set of functions (by bytes) that has the same sequence in both orders does not move. The
//!    others are ranked by the gain in short calls (weight · D^-¼, as in CDSort) from moving each to its new place. A
//!    growing part of them is moved, each function after the function that it follows in the new order. The answer is
//!    the first such order that loses less than the threshold of the new order's gain. If all are moved, it is the new
//!    order.
//!
//! **Ties** in the ranking go to the lower id. The caller computes the cost: any number that is lower for a better
//! order.

use crate::model::addresses::FunctionAddresses;
use crate::model::{Geometry, closeness};
use sediment_core::ascending;
use sediment_core::callgraph::{CallGraph, FunctionId};

/// Parts of the movable functions that are tried, in 64ths.
const PARTS: [usize; 9] = [1, 2, 4, 8, 16, 24, 32, 48, 64];

/// An order between an older and a new one.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptOrder {
    /// All functions of the new order.
    pub order: Vec<FunctionId>,
    /// By id: true if the function moved relative to the others, compared with the older order.
    pub moved: Vec<bool>,
    /// By id: true if the older order did not have the function.
    pub added: Vec<bool>,
    /// Cost of the base, as a share of the new order's.
    pub cost_of_old: f64,
    /// Cost of this order, as a share of the new order's.
    pub cost: f64,
}

impl KeptOrder {
    /// Functions and bytes of a kind, such as [`Self::moved`].
    #[must_use]
    pub fn sum(&self, graph: &CallGraph, which: &[bool]) -> (u64, u64) {
        let chosen = graph.sizes().iter().zip(which).filter(|(_, chosen)| **chosen);
        chosen.fold((0, 0), |(functions, bytes), (size, _)| (functions + 1, size.saturating_add(bytes)))
    }
}

/// Changes `old` towards `new` until the remaining gain is less than `threshold`, a share of the older order's cost.
///
/// `new` has all functions of the graph once; `old` has any of them, and a repeated function counts at its first place.
#[must_use]
pub fn keep(
    graph: &CallGraph,
    old: &[FunctionId],
    new: &[FunctionId],
    threshold: f64,
    cost: &dyn Fn(&[FunctionId]) -> f64,
) -> KeptOrder {
    let count = graph.len();
    let mut known = vec![false; count];
    let old: Vec<FunctionId> = old
        .iter()
        .copied()
        .filter(|function| function.index() < count && !std::mem::replace(&mut known[function.index()], true))
        .collect();
    let base = hybrid(&old, new, &known);
    let (cost_of_base, cost_of_new) = (cost(&base), cost(new));
    let left_behind = |cost: f64| (cost - cost_of_new) / cost_of_base.max(f64::MIN_POSITIVE);
    let mut best = (base.clone(), cost_of_base);
    if left_behind(cost_of_base) >= threshold {
        let movable = by_gain(graph, &base, &old, new);
        for part in PARTS {
            let mut stays = known.clone();
            for function in &movable[..(movable.len() * part).div_ceil(PARTS[PARTS.len() - 1])] {
                stays[function.index()] = false;
            }
            let order = hybrid(&old, new, &stays);
            let cost = cost(&order);
            let enough = left_behind(cost) < threshold;
            if enough || cost < best.1 {
                best = (order, cost);
            }
            if enough {
                break;
            }
        }
    }
    let (order, cost) = best;
    let mut moved = known.clone();
    for function in standing(graph, &old, &order) {
        moved[function.index()] = false;
    }
    let share = |cost: f64| if cost_of_new > 0.0 { cost / cost_of_new } else { 1.0 };
    KeptOrder {
        added: known.iter().map(|known| !known).collect(),
        cost_of_old: share(cost_of_base),
        cost: share(cost),
        order,
        moved,
    }
}

/// Returns the functions of `old` that stay, in the order of `old`; each is followed by the functions that come after
/// it in `new` and move.
fn hybrid(old: &[FunctionId], new: &[FunctionId], stays: &[bool]) -> Vec<FunctionId> {
    let mut followers: Vec<Vec<FunctionId>> = vec![Vec::new(); stays.len()];
    let mut order = Vec::with_capacity(new.len());
    let mut anchor: Option<FunctionId> = None;
    for function in new {
        match (stays[function.index()], anchor) {
            (true, _) => anchor = Some(*function),
            (false, Some(anchor)) => followers[anchor.index()].push(*function),
            (false, None) => order.push(*function),
        }
    }
    for function in old.iter().filter(|function| stays[function.index()]) {
        order.push(*function);
        order.append(&mut followers[function.index()]);
    }
    order
}

/// Chooses the largest set of functions of `old` (by bytes) that can stay in place while `order` is made.
fn standing(graph: &CallGraph, old: &[FunctionId], order: &[FunctionId]) -> Vec<FunctionId> {
    let mut positions = vec![0u64; graph.len()];
    for (place, function) in order.iter().enumerate() {
        positions[function.index()] = place as u64;
    }
    let sequence: Vec<(u64, u128)> = old
        .iter()
        .map(|function| (positions[function.index()], u128::from(graph.sizes()[function.index()]) + 1))
        .collect();
    ascending::heaviest(&sequence).into_iter().map(|at| old[at]).collect()
}

/// Returns the functions that have to move to reach `new`, those with the largest gain first.
fn by_gain(
    graph: &CallGraph,
    base: &[FunctionId],
    old: &[FunctionId],
    new: &[FunctionId],
) -> Vec<FunctionId> {
    let mut stands = vec![false; graph.len()];
    for function in standing(graph, old, new) {
        stands[function.index()] = true;
    }
    let [before, after] =
        [base, new].map(|order| FunctionAddresses::new(graph, order, Geometry::COMMON.alignment));
    let mut gains = vec![0.0f64; graph.len()];
    for edge in graph.edges().iter().filter(|edge| edge.caller != edge.callee) {
        let near = |addresses: &FunctionAddresses| {
            closeness(addresses.middle(edge.caller).abs_diff(addresses.start(edge.callee)))
        };
        let gain = edge.weight as f64 * (near(&after) - near(&before));
        gains[edge.caller.index()] += gain;
        gains[edge.callee.index()] += gain;
    }
    let mut movable: Vec<FunctionId> =
        old.iter().copied().filter(|function| !stands[function.index()]).collect();
    movable.sort_by(|a, b| gains[b.index()].total_cmp(&gains[a.index()]).then(a.cmp(b)));
    movable
}
