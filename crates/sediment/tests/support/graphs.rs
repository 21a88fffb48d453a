// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call graphs of known shapes, made from a seed: the same on every machine. For tests, benches and proofs.

#![allow(dead_code, unreachable_pub)] // each program that includes it uses its part

use sediment::graph::{CallEdge, CallGraph, FunctionId};

/// What a made-up call graph looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Like a program: most calls go to functions nearby, some functions are called from everywhere, weights and sizes
    /// spread over orders of magnitude, a few calls are recursive.
    Program,
    /// Ends drawn evenly, weights and sizes likewise.
    Even,
    /// Half of all calls lead to or from a handful of functions.
    Hubs,
    /// Long call chains that cross, all of few weights and sizes, with recursion: ties everywhere.
    Ties,
}

/// SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `bound`, exclusive.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// From 1 to below 2^`bits`, each power of two as likely as the next.
    fn spread(&mut self, bits: u64) -> u64 {
        let magnitude = self.below(bits);
        (1 << magnitude) + self.below(1 << magnitude)
    }
}

/// A graph of so many functions and about as many edges as asked (those drawn twice add up). The weight of a function is
/// that of the calls into it.
pub fn graph(shape: Shape, functions: u32, edges: usize, seed: u64) -> CallGraph {
    let mut numbers = Numbers(seed);
    let count = u64::from(functions);
    let sizes: Vec<u64> = (0..functions)
        .map(|_| match shape {
            Shape::Ties => 16 << numbers.below(3),
            Shape::Even => numbers.below(1000),
            Shape::Program | Shape::Hubs => 8 + numbers.spread(12),
        })
        .collect();
    let edges: Vec<CallEdge> = (0..edges)
        .map(|index| {
            let (caller, callee) = ends(shape, count, index as u64, &mut numbers);
            let weight = match shape {
                Shape::Ties => [1, 1, 10, 100][numbers.below(4) as usize],
                Shape::Even => 1 + numbers.below(1000),
                Shape::Program | Shape::Hubs => numbers.spread(24),
            };
            CallEdge { caller: FunctionId(caller as u32), callee: FunctionId(callee as u32), weight }
        })
        .collect();
    let mut weights = vec![0; sizes.len()];
    for edge in &edges {
        weights[edge.callee.index()] += edge.weight;
    }
    CallGraph::new(sizes, weights, edges).expect("a generated graph is sound")
}

fn ends(shape: Shape, count: u64, index: u64, numbers: &mut Numbers) -> (u64, u64) {
    match shape {
        Shape::Even => (numbers.below(count), numbers.below(count)),
        Shape::Program => {
            let caller = numbers.below(count);
            let callee = match numbers.below(20) {
                0 => caller,
                1..5 => numbers.below(1 + count / 100),
                5..8 => numbers.below(count),
                _ => (caller + numbers.spread(7)) % count,
            };
            (caller, callee)
        }
        Shape::Hubs => {
            let (hub, other) = (numbers.below(8.min(count)), numbers.below(count));
            match numbers.below(4) {
                0 => (hub, other),
                1 => (other, hub),
                _ => (other, numbers.below(count)),
            }
        }
        Shape::Ties => match numbers.below(10) {
            0 => (index % count, index % count),
            1 => ((index + 1) % count, index % count),
            2 | 3 => (index % count, numbers.below(count)),
            _ => (index % count, (index + 1) % count),
        },
    }
}
