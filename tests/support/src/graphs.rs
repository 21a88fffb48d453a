// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call graphs of known shapes, made from a seed: the same on every machine. For tests, benches and proofs.

#![allow(dead_code, unreachable_pub)] // each program that includes it uses its part

use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};
use sediment_core::random::Generator;
use std::collections::BTreeMap;

/// Shape of a made-up call graph.
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

/// From 1 to below 2^`bits`, each power of two as likely as the next.
fn spread(numbers: &mut Generator, bits: u64) -> u64 {
    let magnitude = numbers.scaled(bits);
    (1 << magnitude) + numbers.scaled(1 << magnitude)
}

/// Edges in the order of a map from both ends to the weight.
pub fn edges(weights: BTreeMap<(u32, u32), u64>) -> Vec<CallEdge> {
    let edge = |((caller, callee), weight)| CallEdge {
        caller: FunctionId(caller),
        callee: FunctionId(callee),
        weight,
    };
    weights.into_iter().map(edge).collect()
}

/// A graph of so many functions and about as many edges as asked (those drawn twice add up). The weight of a function is
/// that of the calls into it.
pub fn graph(shape: Shape, functions: u32, edges: usize, seed: u64) -> CallGraph {
    let mut numbers = Generator::new(seed);
    let count = u64::from(functions);
    let sizes: Vec<u64> = (0..functions)
        .map(|_| match shape {
            Shape::Ties => 16 << numbers.scaled(3),
            Shape::Even => numbers.scaled(1000),
            Shape::Program | Shape::Hubs => 8 + spread(&mut numbers, 12),
        })
        .collect();
    let edges: Vec<CallEdge> = (0..edges)
        .map(|index| {
            let (caller, callee) = ends(shape, count, index as u64, &mut numbers);
            let weight = match shape {
                Shape::Ties => [1, 1, 10, 100][numbers.scaled(4) as usize],
                Shape::Even => 1 + numbers.scaled(1000),
                Shape::Program | Shape::Hubs => spread(&mut numbers, 24),
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

fn ends(shape: Shape, count: u64, index: u64, numbers: &mut Generator) -> (u64, u64) {
    match shape {
        Shape::Even => (numbers.scaled(count), numbers.scaled(count)),
        Shape::Program => {
            let caller = numbers.scaled(count);
            let callee = match numbers.scaled(20) {
                0 => caller,
                1..5 => numbers.scaled(1 + count / 100),
                5..8 => numbers.scaled(count),
                _ => (caller + spread(numbers, 7)) % count,
            };
            (caller, callee)
        }
        Shape::Hubs => {
            let (hub, other) = (numbers.scaled(8.min(count)), numbers.scaled(count));
            match numbers.scaled(4) {
                0 => (hub, other),
                1 => (other, hub),
                _ => (other, numbers.scaled(count)),
            }
        }
        Shape::Ties => match numbers.scaled(10) {
            0 => (index % count, index % count),
            1 => ((index + 1) % count, index % count),
            2 | 3 => (index % count, numbers.scaled(count)),
            _ => (index % count, (index + 1) % count),
        },
    }
}
