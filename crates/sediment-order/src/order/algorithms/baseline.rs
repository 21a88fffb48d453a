// SPDX-License-Identifier: MIT OR Apache-2.0
//! Baselines that the other algorithms must beat: the given order, and a random one.

use super::AlgorithmOptions;
use sediment_core::callgraph::{CallGraph, FunctionId};
use sediment_core::random::Generator;

/// The order of the ids, which is the linker's own if ids follow the addresses of a binary.
#[must_use]
pub(super) fn input(graph: &CallGraph, _: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    graph.ids().collect()
}

/// A shuffle (Fisher–Yates) that depends only on [`AlgorithmOptions::seed`] and the number of functions.
#[must_use]
pub(super) fn random(graph: &CallGraph, options: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
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

    #[test]
    fn a_shuffle_is_its_seed() {
        let graph = CallGraph::new(vec![16; 100], vec![0; 100], Vec::new()).unwrap();
        let shuffled = |seed| random(&graph, &AlgorithmOptions { seed, ..AlgorithmOptions::default() });
        assert_eq!(shuffled(7), shuffled(7));
        assert_ne!(shuffled(7), shuffled(8));
        let mut sorted = shuffled(7);
        sorted.sort_unstable();
        assert_eq!(sorted, graph.ids().collect::<Vec<_>>());
    }
}
