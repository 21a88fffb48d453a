// SPDX-License-Identifier: MIT OR Apache-2.0
//! Baselines that the other algorithms must beat: the order as given, the most called first, and chance.

use super::Options;
use sediment_core::callgraph::{CallGraph, FunctionId};
use sediment_core::random::Generator;
use std::cmp::Reverse;

/// The order of the ids: the linker's own, where ids follow the addresses of a binary.
#[must_use]
pub(super) fn input(graph: &CallGraph, _: &Options<'_>) -> Vec<FunctionId> {
    graph.ids().collect()
}

/// By falling weight, ties by id. Neither size nor callers count, which is why it is often worse than no order at all.
#[must_use]
pub(super) fn hottest(graph: &CallGraph, _: &Options<'_>) -> Vec<FunctionId> {
    let mut order: Vec<FunctionId> = graph.ids().collect();
    order.sort_by_key(|function| Reverse(graph.weights()[function.index()]));
    order
}

/// A shuffle that depends on [`Options::seed`] and the number of functions alone (Fisher–Yates).
#[must_use]
pub(super) fn random(graph: &CallGraph, options: &Options<'_>) -> Vec<FunctionId> {
    let mut order: Vec<FunctionId> = graph.ids().collect();
    let mut numbers = Generator::new(options.seed);
    for remaining in (2..=order.len()).rev() {
        order.swap(remaining - 1, numbers.scaled(remaining as u64) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(weights: &[u64]) -> CallGraph {
        CallGraph::new(vec![16; weights.len()], weights.to_vec(), Vec::new()).unwrap()
    }

    fn ids(order: &[FunctionId]) -> Vec<u32> {
        order.iter().map(|function| function.0).collect()
    }

    #[test]
    fn hottest_first_ends_in_the_id() {
        assert_eq!(ids(&hottest(&graph(&[1, 9, 0, 9, 5]), &Options::default())), [1, 3, 4, 0, 2]);
    }

    #[test]
    fn a_shuffle_is_its_seed() {
        let graph = graph(&[0; 100]);
        let shuffled = |seed| ids(&random(&graph, &Options { seed, ..Options::default() }));
        assert_eq!(shuffled(7), shuffled(7));
        assert_ne!(shuffled(7), shuffled(8));
        let mut sorted = shuffled(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<u32>>());
    }
}
