// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common first: what every recorded start uses, then what most of them use, and so on.
//!
//! **Problem.** Let a start that was not recorded touch few pages. It will use what all recorded starts use, and of the rest only some:
//! pages that hold both are half wasted.
//!
//! **Definitions.** A start is the sequence of functions that one run used, each at its first use. The time of a
//! function is its lowest position in any start. A class is all functions that are used by the same starts; its time
//! is the lowest of its functions'.
//!
//! **Steps.** Classes by how many starts use them, the most first, then by their time; within a class functions by their time. Then functions
//! that no start used, by id.
//!
//! O(n log n + the lengths of the starts). With one start this is [`super::first_use`]; with many, classes become small, and it is the order
//! of first use among functions that are used by as many starts.
//!
//! **Ties.** Classes: the one with the lower first function. Equal times: the lower id.
//!
//! **Source.** Our own; `scripts/prove start-up` compares it with the others.

use super::{Options, starts};
use sediment_core::callgraph::{CallGraph, FunctionId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, options: &Options<'_>) -> Vec<FunctionId> {
    let times = starts::times(graph.len(), options.starts);
    let mut used_by: Vec<Vec<u32>> = vec![Vec::new(); graph.len()];
    for (number, start) in (0u32..).zip(starts::distinct(graph.len(), options.starts)) {
        for function in start {
            used_by[function.index()].push(number);
        }
    }
    // By its starts: the time of a class and its first function.
    let mut classes: BTreeMap<&[u32], (u32, FunctionId)> = BTreeMap::new();
    for function in graph.ids() {
        let time = (times[function.index()], function);
        let class = classes.entry(&used_by[function.index()]).or_insert(time);
        *class = time.min(*class);
    }
    let mut order: Vec<FunctionId> = graph.ids().collect();
    order.sort_by_cached_key(|function| {
        let starts = used_by[function.index()].as_slice();
        (Reverse(starts.len()), classes[starts], times[function.index()], *function)
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(starts: &[&[u32]]) -> Vec<u32> {
        let starts: Vec<Vec<FunctionId>> =
            starts.iter().map(|start| start.iter().copied().map(FunctionId).collect()).collect();
        let graph = CallGraph::new(vec![16; 9], vec![0; 9], Vec::new()).unwrap();
        let options = Options { starts: &starts, ..Options::default() };
        order(&graph, &options).iter().map(|function| function.0).collect()
    }

    #[test]
    fn functions_used_by_all_stand_in_front() {
        // All use 5 and 2; the first two 7; 1 and 8 belong to the third alone, 0 to the first.
        let starts: [&[u32]; 3] = [&[5, 7, 0, 2], &[5, 7, 2], &[1, 5, 8, 2]];
        assert_eq!(ordered(&starts), [5, 2, 7, 1, 8, 0, 3, 4, 6]);
    }

    #[test]
    fn one_start_is_its_own_order() {
        assert_eq!(ordered(&[&[5, 1, 6, 0, 3]]), [5, 1, 6, 0, 3, 2, 4, 7, 8]);
        assert_eq!(ordered(&[]), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
