// SPDX-License-Identifier: MIT OR Apache-2.0
//! C3: call-chain clustering, also known as hfsort.
//!
//! **Problem.** Place functions so that a callee is soon after its most frequent caller, and hot bytes are together.
//!
//! **Definitions.** s(f): size in bytes. w(u, v): weight of the calls from u to v. n(f): weight of f, at least the sum
//! of w(·, f), recursion included. For a chain, s and n are the sums; density d = n / s, or 0 if s = 0.
//!
//! **Steps.**
//! 1. Each function is a chain. The main caller of v is the function u other than v with the largest w(u, v).
//! 2. Visit the functions by falling density. Put the whole chain of v after the chain of its main caller u, unless
//!    - 10 · w(u, v) ≤ n(v): no caller stands out;
//!    - both are in one chain already;
//!    - the two chains together are larger than 1 MiB;
//!    - the whole would be less than an eighth as dense as the caller's chain.
//! 3. Chains by falling density.
//!
//! O(n log n + m) for n functions and m edges.
//!
//! **Ties.** Equal densities, of functions or of chains: the lower (first) function goes first. Equal w(u, v): the lower u.
//!
//! **Source.** G. Ottoni, B. Maher: Optimizing Function Placement for Large-Scale Data-Center Applications, CGO 2017.
//! The thresholds, and the visit by density instead of weight, are the same as in lld's
//! `--call-graph-profile-sort=hfsort`.
//!
//! **Where it differs from lld 19.** lld numbers functions by their first appearance in the graph file, and this number
//! breaks its ties; here the id does. lld knows n(f) only from the edges; here a function may have a larger weight than
//! the counted calls, and functions without edges are ranked by density. Functions in chains of size 0, which lld does
//! not list, come last, by id. With the same numbering and weights, the orders are equal (tests/toolchain/layout.rs).

use super::AlgorithmOptions;
use super::chains::{ChainId, Chains};
use crate::model::addresses::clamp_sizes;
use sediment_core::callgraph::{CallGraph, FunctionId};

/// Largest chain that a join may make, in bytes.
const LARGEST_CHAIN: u64 = 1 << 20;
/// Largest ratio of the caller's chain's density to the joined chain's.
const LARGEST_DILUTION: f64 = 8.0;
/// A caller counts if it makes more than one in this many of the calls.
const SMALLEST_SHARE: u128 = 10;

/// The most frequent caller of a function.
#[derive(Debug, Clone, Copy)]
struct MainCaller {
    caller: FunctionId,
    weight: u64,
}

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, _: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    let weights = incoming_weights(graph);
    let callers = main_callers(graph);
    let mut chains = Chains::singletons(&clamp_sizes(graph.sizes()), &weights);
    for function in densest_functions(&chains, graph) {
        if let Some(main) = callers[function.index()] {
            let stands_out = u128::from(main.weight) * SMALLEST_SHARE > u128::from(weights[function.index()]);
            let (front, back) = (chains.chain_of(main.caller), chains.chain_of(function));
            if stands_out && front != back && worth_joining(&chains, front, back) {
                chains.join(front, back);
            }
        }
    }
    let placed = chains.ids().filter(|&chain| chains.size(chain) > 0);
    let mut order = chains.densest_first(placed, |chain| density(&chains, chain));
    order.extend(graph.ids().filter(|&function| chains.size(chains.chain_of(function)) == 0));
    order
}

/// n(f): the weight in the graph, but at least the sum of the recorded calls.
fn incoming_weights(graph: &CallGraph) -> Vec<u64> {
    let mut incoming = vec![0; graph.len()];
    for edge in graph.edges() {
        incoming[edge.callee.index()] += edge.weight;
    }
    incoming.iter().zip(graph.weights()).map(|(&seen, &given)| seen.max(given)).collect()
}

fn main_callers(graph: &CallGraph) -> Vec<Option<MainCaller>> {
    let mut callers: Vec<Option<MainCaller>> = vec![None; graph.len()];
    for edge in graph.edges().iter().filter(|edge| edge.caller != edge.callee) {
        let main = &mut callers[edge.callee.index()];
        if main.is_none_or(|main| main.weight < edge.weight) {
            *main = Some(MainCaller { caller: edge.caller, weight: edge.weight });
        }
    }
    callers
}

fn densest_functions(singletons: &Chains, graph: &CallGraph) -> Vec<FunctionId> {
    singletons.densest_first(graph.ids().map(|function| singletons.chain_of(function)), |chain| {
        density(singletons, chain)
    })
}

fn worth_joining(chains: &Chains, front: ChainId, back: ChainId) -> bool {
    let size = chains.size(front) + chains.size(back);
    let weight = chains.weight(front) + chains.weight(back);
    let too_thin = (weight as f64 / size as f64) < density(chains, front) / LARGEST_DILUTION;
    size <= LARGEST_CHAIN && !too_thin
}

fn density(chains: &Chains, chain: ChainId) -> f64 {
    match chains.size(chain) {
        0 => 0.0,
        size => chains.weight(chain) as f64 / size as f64,
    }
}
