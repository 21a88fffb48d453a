// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`order`]: a program whose executed code fits the caches keeps its input order, with its hot functions packed together.
//!
//! **Problem.** An order moves hot functions together so that they touch fewer pages. If the executed functions fit the
//! instruction TLB in any packed order, and the hot ones fit the L1I, a sequence by calls saves no more pages than
//! packing does. It only redistributes the lines that compete for a set of the L1I, and this makes some programs miss
//! more often.
//!
//! **Definitions.** A function *was executed* if it has a weight or an edge. Its *touches* are its calls and the
//! returns to it. *Hot* are the functions with the most touches that together have [`HOT_SHARE`] of all: the loop that
//! calls others is one of them, although it is called once. Sizes are rounded up to the alignment of
//! [`Geometry::COMMON`], because an order packs functions like this.
//!
//! **Rule.** A program fits if its executed functions fill at most [`TLB_PAGES`] pages, and its hot ones at most [`L1I_BYTES`] bytes. Both are
//! constants, not properties of this machine: the same profile gives the same order everywhere.
//!
//! **Order.** Hot functions, other executed functions, and the rest, each by id. If functions have equally many
//! touches, the lower id is hot first.
//!
//! **Source.** Our own. `scripts/prove resident` measures it.

use crate::model::{Geometry, run_weights};
use sediment_core::callgraph::{CallGraph, FunctionId};
use std::cmp::Reverse;

/// Pages of 4 KiB that executed functions may fill: the entries of a common first-level instruction TLB.
const TLB_PAGES: u64 = Geometry::COMMON.tlb_entries as u64;
/// Bytes that hot functions may fill: a common L1I.
const L1I_BYTES: u64 = 32 << 10;
/// Share of the touches that hot functions have, in thousandths.
const HOT_SHARE: u128 = 990;

/// Returns the order of a program that fits the caches, if ids follow its input order. None if the program does not
/// fit, or if nothing was executed.
#[must_use]
pub fn order(graph: &CallGraph) -> Option<Vec<FunctionId>> {
    let executions = run_weights(graph);
    let mut touches: Vec<u128> = executions.iter().map(|count| u128::from(*count)).collect();
    for edge in graph.edges() {
        touches[edge.caller.index()] += u128::from(edge.weight);
    }
    let packed = |function: &FunctionId| {
        let size = graph.sizes()[function.index()].max(1);
        u128::from(size).next_multiple_of(Geometry::COMMON.alignment.into())
    };
    let (mut executed, rest): (Vec<FunctionId>, Vec<FunctionId>) =
        graph.ids().partition(|function| touches[function.index()] > 0);
    let bytes: u128 = executed.iter().map(packed).sum();
    if executed.is_empty() || bytes > u128::from(TLB_PAGES * Geometry::COMMON.page) {
        return None;
    }
    executed.sort_by_key(|function| (Reverse(touches[function.index()]), *function));
    let wanted = touches.iter().sum::<u128>() * HOT_SHARE;
    let mut covered = 0;
    let hot = executed.iter().take_while(|function| {
        let is_hot = covered * 1000 < wanted;
        covered += touches[function.index()];
        is_hot
    });
    let count = hot.count();
    let (hot, warm) = executed.split_at_mut(count);
    if hot.iter().map(packed).sum::<u128>() > u128::from(L1I_BYTES) {
        return None;
    }
    hot.sort_unstable();
    warm.sort_unstable();
    executed.extend(rest);
    Some(executed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_core::callgraph::CallEdge;

    /// Makes functions of the same size: the last one calls `hot` others often, and all the others once.
    fn star(hot: u32, cold: u32, size: u64) -> CallGraph {
        let last = hot + cold;
        let edge = |callee| CallEdge {
            caller: FunctionId(last),
            callee: FunctionId(callee),
            weight: if callee % (last / hot) == 0 { 1_000_000 } else { 1 },
        };
        let edges: Vec<CallEdge> = (0..last).map(edge).collect();
        CallGraph::new(vec![size; last as usize + 1], vec![0; last as usize + 1], edges).unwrap_or_default()
    }

    fn fits(graph: &CallGraph) -> bool {
        order(graph).is_some()
    }

    #[test]
    fn hot_functions_fit_the_cache_and_all_executed_ones_the_tlb() {
        assert!(fits(&star(31, 0, 1024)));
        assert!(!fits(&star(32, 0, 1024)), "the caller is hot, too");
        assert!(!fits(&star(31, 0, 1025)), "sizes are rounded up to the alignment");
        assert!(fits(&star(15, 240, 1024)));
        assert!(!fits(&star(16, 240, 1024)));
    }

    #[test]
    fn hot_functions_come_first_in_input_order() {
        let graph = star(3, 6, 64);
        let order = order(&graph).unwrap_or_default();
        assert_eq!(order.iter().map(|id| id.0).collect::<Vec<_>>(), [0, 3, 6, 9, 1, 2, 4, 5, 7, 8]);
    }

    #[test]
    fn nothing_executed_does_not_fit() {
        assert!(!fits(&CallGraph::default()));
        assert!(CallGraph::new(vec![16; 3], vec![0; 3], Vec::new()).is_ok_and(|graph| !fits(&graph)));
        // Sizes of a damaged symbol table.
        assert!(!fits(&star(2, 0, u64::MAX)));
    }
}
