// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the others must beat: the order as given, the most called first, and chance.

use super::Options;
use crate::graph::{CallGraph, FunctionId};
use std::cmp::Reverse;

/// The order of the ids: the linker's own, where ids follow the addresses of a binary.
#[must_use]
pub fn input(graph: &CallGraph, _: &Options<'_>) -> Vec<FunctionId> {
    graph.ids().collect()
}

/// By falling weight, ties by id. Neither size nor callers count, which is why it is often worse than no order at all.
#[must_use]
pub fn hottest(graph: &CallGraph, _: &Options<'_>) -> Vec<FunctionId> {
    let mut order: Vec<FunctionId> = graph.ids().collect();
    order.sort_by_key(|function| Reverse(graph.weights()[function.index()]));
    order
}

/// A shuffle that depends on [`Options::seed`] and the number of functions alone (Fisher–Yates over SplitMix64).
#[must_use]
pub fn random(graph: &CallGraph, options: &Options<'_>) -> Vec<FunctionId> {
    let mut order: Vec<FunctionId> = graph.ids().collect();
    let mut numbers = SplitMix64::new(options.seed);
    for remaining in (2..=order.len()).rev() {
        order.swap(remaining - 1, numbers.below(remaining as u64) as usize);
    }
    order
}

/// The generator SplitMix64 (G. Steele, D. Lea, C. Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014):
/// 64 bits of state, every seed good, the same numbers on every machine.
#[derive(Debug, Clone)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound`, exclusive: the high half of a product, which favours none by more than bound / 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
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
    fn the_generator_gives_the_published_numbers() {
        let mut numbers = SplitMix64::new(1_234_567);
        assert_eq!(numbers.next(), 6_457_827_717_110_365_317);
        assert_eq!(numbers.next(), 3_203_168_211_198_807_973);
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
