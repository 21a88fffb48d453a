// SPDX-License-Identifier: MIT OR Apache-2.0
//! The greedy merge of upstream sediment, for comparison.
//!
//! **Problem.** Place the two ends of frequent calls into one list.
//!
//! **Definitions.** w(u, v): weight of the calls from u to v, u ≠ v. Sizes and weights of functions do not count.
//!
//! **Steps.** Take the calls by falling weight.
//! 1. If neither end is listed, they begin a new list, the caller first.
//! 2. If only the caller is listed, the callee goes to the end of its list.
//! 3. If only the callee is listed, the caller goes to the front of its list.
//! 4. If both are in different lists, the callee's list goes after the caller's.
//!
//! Lists in the order in which they began; then functions without any call.
//!
//! O(m log m) for m edges, and the copying of lists.
//!
//! **Ties.** Equal weights: by (caller, callee).
//!
//! **Source.** The behaviour of upstream sediment's `gv2link`.
//!
//! **Where it differs.** When upstream joins two lists, it forgets the positions of the second list's functions, except
//! for the called one; here they are tracked. Upstream lists a function that calls itself twice; here it is listed
//! once. Upstream drops functions without calls; here they come last.

use super::AlgorithmOptions;
use super::chains::Chains;
use crate::model::addresses::clamp_sizes;
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};
use std::cmp::Reverse;

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, _: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    let mut calls: Vec<&CallEdge> = graph.edges().iter().filter(|edge| edge.caller != edge.callee).collect();
    calls.sort_by_key(|edge| Reverse(edge.weight));
    let mut chains = Chains::singletons(&clamp_sizes(graph.sizes()), &vec![0; graph.len()]);
    // By function: the time at which its first list began.
    let mut began: Vec<Option<usize>> = vec![None; graph.len()];
    for (turn, call) in calls.into_iter().enumerate() {
        let (caller, callee) = (chains.chain_of(call.caller), chains.chain_of(call.callee));
        if caller == callee {
            continue;
        }
        let of_caller = began[chains.first(caller).index()];
        let of_callee = began[chains.first(callee).index()];
        let joined = chains.join(caller, callee);
        // Stored with the current first function of the list.
        began[chains.first(joined).index()] = Some(of_caller.or(of_callee).unwrap_or(turn));
    }
    let mut lists: Vec<_> =
        chains.ids().map(|chain| (began[chains.first(chain).index()].unwrap_or(usize::MAX), chain)).collect();
    lists.sort_by_key(|(began, _)| *began);
    lists.into_iter().flat_map(|(_, chain)| chains.functions(chain).collect::<Vec<_>>()).collect()
}
