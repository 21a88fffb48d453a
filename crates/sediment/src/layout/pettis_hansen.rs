// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pettis and Hansen's procedure ordering: the closest pair first.
//!
//! **Problem.** Place functions that call each other often next to each other.
//!
//! **Definitions.** s(f): size in bytes. w{u, v}: weight of the calls from u to v and from v to u, u ≠ v. Between two chains, the sum
//! over their functions. n(f): weight of f, at least the sum of the calls into it. Density of a chain: n / s, 0 where s = 0.
//!
//! **Steps.**
//! 1. Each function is a chain.
//! 2. Take the two chains with the largest w between them. If together they are larger than 1 MiB, they stay apart for good. Else
//!    join them so that, of the four ways to put them end to end, reversed or not, those two functions meet that have the
//!    largest w{u, v} of their own.
//! 3. Chains by falling density.
//!
//! O(m log² n) for n functions and m edges.
//!
//! **Ties.** Equal w between chains: the pair with the lower function among those that the chains were named after, then the
//! other; a joined chain is named after the lower. Of the four ways: as they are, the chain of the lower name in front; then
//! the second reversed, the first reversed, and the second in front. Equal densities: the lower name.
//!
//! **Source.** K. Pettis, R. Hansen: Profile Guided Code Positioning, PLDI 1990. The largest chain and the order of chains by density are
//! those of BOLT's `-reorder-functions=pettis-hansen`.
//!
//! **Where it differs from BOLT.** BOLT looks for the largest w in tables ordered by pointers, so that its ties are open; and
//! it takes weights of calls from counts of basic blocks. Orders were not compared with BOLT's.

use super::Options;
use crate::graph::{CallGraph, FunctionId};
use crate::model::placement::sane_sizes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Largest chain that a join may make, in bytes.
const LARGEST_CHAIN: u64 = 1 << 20;

#[derive(Debug, Clone, Default)]
struct Chain {
    functions: Vec<u32>,
    size: u64,
    weight: u64,
    /// w to other chains, by name.
    neighbours: BTreeMap<u32, u64>,
}

/// Orders all functions of the graph.
#[must_use]
pub fn order(graph: &CallGraph, _: &Options) -> Vec<FunctionId> {
    let between = between(graph);
    let mut chains = singletons(graph, &between);
    let mut closest: BinaryHeap<(u64, Reverse<(u32, u32)>)> =
        between.iter().map(|(&pair, &weight)| (weight, Reverse(pair))).collect();
    while let Some((weight, Reverse((low, high)))) = closest.pop() {
        // Of pairs that grew, or of which one is gone, older entries are left behind.
        if chains[low as usize].neighbours.get(&high) != Some(&weight) {
            continue;
        }
        if chains[low as usize].size + chains[high as usize].size > LARGEST_CHAIN {
            chains[low as usize].neighbours.remove(&high);
            chains[high as usize].neighbours.remove(&low);
            continue;
        }
        let back = std::mem::take(&mut chains[high as usize]);
        join_functions(&mut chains[low as usize].functions, back.functions, &between);
        let front = &mut chains[low as usize];
        front.size += back.size;
        front.weight += back.weight;
        front.neighbours.remove(&high);
        for (other, weight) in back.neighbours {
            chains[other as usize].neighbours.remove(&high);
            if other == low {
                continue;
            }
            let sum = chains[low as usize].neighbours.entry(other).or_default();
            *sum += weight;
            let sum = *sum;
            chains[other as usize].neighbours.insert(low, sum);
            closest.push((sum, Reverse((low.min(other), low.max(other)))));
        }
    }
    densest_first(chains)
}

/// w{u, v} by (lower, higher).
fn between(graph: &CallGraph) -> BTreeMap<(u32, u32), u64> {
    let mut between = BTreeMap::new();
    for edge in graph.edges().iter().filter(|edge| edge.caller != edge.callee) {
        let (caller, callee) = (edge.caller.0, edge.callee.0);
        *between.entry((caller.min(callee), caller.max(callee))).or_default() += edge.weight;
    }
    between
}

fn singletons(graph: &CallGraph, between: &BTreeMap<(u32, u32), u64>) -> Vec<Chain> {
    let mut incoming = vec![0u64; graph.len()];
    for edge in graph.edges() {
        incoming[edge.callee.index()] += edge.weight;
    }
    let mut chains: Vec<Chain> = (0u32..)
        .zip(sane_sizes(graph.sizes()))
        .map(|(id, size)| Chain {
            functions: vec![id],
            size,
            weight: incoming[id as usize].max(graph.weights()[id as usize]),
            neighbours: BTreeMap::new(),
        })
        .collect();
    for (&(low, high), &weight) in between {
        chains[low as usize].neighbours.insert(high, weight);
        chains[high as usize].neighbours.insert(low, weight);
    }
    chains
}

/// Puts `back` behind `front`, or before it, either reversed where that brings closer functions together.
fn join_functions(front: &mut Vec<u32>, mut back: Vec<u32>, between: &BTreeMap<(u32, u32), u64>) {
    let ends = |chain: &[u32]| (chain[0], chain[chain.len() - 1]);
    let near = |one: u32, other: u32| between.get(&(one.min(other), one.max(other))).copied().unwrap_or(0);
    let ((first, last), (back_first, back_last)) = (ends(front), ends(&back));
    // As they are; the second reversed; the first reversed; the second in front.
    let ways =
        [near(last, back_first), near(last, back_last), near(first, back_first), near(first, back_last)];
    let best = (0..ways.len()).rev().max_by_key(|&way| ways[way]).unwrap_or(0);
    if best == 1 {
        back.reverse();
    }
    match best {
        2 => {
            front.reverse();
            front.extend(back);
        }
        3 => {
            back.append(front);
            *front = back;
        }
        _ => front.extend(back),
    }
}

fn densest_first(mut chains: Vec<Chain>) -> Vec<FunctionId> {
    let density = |chain: &Chain| match chain.size {
        0 => 0.0,
        size => chain.weight as f64 / size as f64,
    };
    // Stable, and in the order of their names.
    chains.sort_by(|a, b| density(b).total_cmp(&density(a)));
    chains.into_iter().flat_map(|chain| chain.functions).map(FunctionId).collect()
}
