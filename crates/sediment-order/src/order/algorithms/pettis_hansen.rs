// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pettis and Hansen's procedure ordering: the closest pair first.
//!
//! **Problem.** Place functions that call each other often next to each other.
//!
//! **Definitions.** s(f): size in bytes. w{u, v}: weight of the calls from u to v and from v to u, u ≠ v. Between two
//! chains, the sum over their functions. n(f): weight of f, at least the sum of the calls into it. Density of a chain:
//! n / s, or 0 if s = 0.
//!
//! **Steps.**
//! 1. Each function is a chain.
//! 2. Take the two chains with the largest w between them. If together they are larger than 1 MiB, they are never
//!    joined. Otherwise they can be put end to end in four ways, each chain reversed or not. Join them in the way that
//!    makes the two functions with the largest w{u, v} neighbours.
//! 3. Chains by falling density.
//!
//! O(m · n · log n) for n functions and m edges in the worst case, far less on real graphs. Step 2 ends early if
//! [`AlgorithmOptions::most_looks`] are used up.
//!
//! **Ties.** A chain is named after its lowest function. Equal w between chains: the pair with the lower name, then
//! with the lower other name. A joined chain begins with the part that has the lower name. The four ways are tried in
//! this order: the first reversed, so that the first functions meet; both reversed; the second reversed; as they are.
//! Equal densities: the lower name.
//!
//! **Source.** K. Pettis, R. Hansen: Profile Guided Code Positioning, PLDI 1990. The limit of a chain's size, the order
//! of chains by density, and the sequence of the four ways are the same as in BOLT's
//! `-reorder-functions=pettis-hansen`.
//!
//! **Where it differs from BOLT.** BOLT looks for the largest w in tables ordered by pointers, so its ties are
//! arbitrary; omits functions that were never entered; and takes weights of calls from counts of basic blocks. If all
//! weights are distinct and each call has a block of its own, the orders are equal (tests/toolchain/bolt.rs). BOLT
//! reverses two chains when it joins them. Here a chain is stored in either direction, and if two chains have different
//! directions, the shorter one is reversed.

use super::chains::{ChainId, Chains};
use super::{AlgorithmOptions, Looks};
use crate::model::addresses::clamp_sizes;
use sediment_core::callgraph::{CallGraph, FunctionId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Largest chain that a join may make, in bytes.
const LARGEST_CHAIN: u64 = 1 << 20;

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, options: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    let mut pairs = Pairs::new(graph);
    let mut looks = Looks::of(options);
    let mut closest: BinaryHeap<(u64, Reverse<(u32, u32)>)> =
        pairs.between.iter().map(|(&pair, &weight)| (weight, Reverse(pair))).collect();
    while let Some((weight, Reverse((low, high)))) = closest.pop() {
        // Pairs that grew, or that lost a chain, leave outdated entries.
        if pairs.neighbours[low as usize].get(&high) != Some(&weight) {
            continue;
        }
        if pairs.size(low) + pairs.size(high) > LARGEST_CHAIN {
            pairs.neighbours[low as usize].remove(&high);
            pairs.neighbours[high as usize].remove(&low);
            continue;
        }
        if looks.are_used_up() {
            break;
        }
        pairs.join(low, high);
        looks.take(Looks::THROUGH_MAPS * pairs.neighbours[high as usize].len());
        for (other, weight) in std::mem::take(&mut pairs.neighbours[high as usize]) {
            pairs.neighbours[other as usize].remove(&high);
            if other == low {
                continue;
            }
            let sum = pairs.neighbours[low as usize].entry(other).or_default();
            *sum += weight;
            let sum = *sum;
            pairs.neighbours[other as usize].insert(low, sum);
            closest.push((sum, Reverse((low.min(other), low.max(other)))));
        }
    }
    pairs.densest_first()
}

struct Pairs {
    chains: Chains,
    sizes: Vec<u64>,
    /// w{u, v} by (lower, higher).
    between: BTreeMap<(u32, u32), u64>,
    /// By chain: true if it is stored in reverse.
    turned: Vec<bool>,
    /// By the name of a chain: w to other chains, by their names.
    neighbours: Vec<BTreeMap<u32, u64>>,
}

impl Pairs {
    fn new(graph: &CallGraph) -> Self {
        let mut incoming = vec![0u64; graph.len()];
        let mut between = BTreeMap::new();
        for edge in graph.edges() {
            incoming[edge.callee.index()] += edge.weight;
            let (caller, callee) = (edge.caller.0, edge.callee.0);
            if caller != callee {
                *between.entry((caller.min(callee), caller.max(callee))).or_default() += edge.weight;
            }
        }
        let weights: Vec<u64> =
            incoming.iter().zip(graph.weights()).map(|(&seen, &given)| seen.max(given)).collect();
        let mut neighbours = vec![BTreeMap::new(); graph.len()];
        for (&(low, high), &weight) in &between {
            neighbours[low as usize].insert(high, weight);
            neighbours[high as usize].insert(low, weight);
        }
        let sizes = clamp_sizes(graph.sizes());
        let turned = vec![false; graph.len()];
        Self { chains: Chains::singletons(&sizes, &weights), sizes, between, turned, neighbours }
    }

    /// The chain of this name: the lowest of its functions.
    fn chain(&self, name: u32) -> ChainId {
        self.chains.chain_of(FunctionId(name))
    }

    fn size(&self, name: u32) -> u64 {
        self.chains.size(self.chain(name))
    }

    /// Puts the second chain after the first. Either is reversed if this brings closer functions together.
    fn join(&mut self, low: u32, high: u32) {
        let (front, back) = (self.chain(low), self.chain(high));
        let near = |one: FunctionId, other: FunctionId| {
            self.between.get(&(one.min(other).0, one.max(other).0)).copied().unwrap_or(0)
        };
        let [(first, last), (back_first, back_last)] = [front, back].map(|chain| self.ends(chain));
        // Which of the two is reversed, and which functions meet.
        let ways = [
            (true, false, near(first, back_first)),
            (true, true, near(first, back_last)),
            (false, true, near(last, back_last)),
            (false, false, near(last, back_first)),
        ];
        let most = ways.iter().map(|way| way.2).max();
        let (turn_front, turn_back, _) = ways.into_iter().find(|way| Some(way.2) == most).unwrap_or(ways[3]);
        self.turned[front.index()] ^= turn_front;
        self.turned[back.index()] ^= turn_back;
        if self.turned[front.index()] != self.turned[back.index()] {
            let shorter = if self.chains.length(front) < self.chains.length(back) { front } else { back };
            self.chains.reverse(shorter, &self.sizes);
            self.turned[shorter.index()] ^= true;
        }
        let turned = self.turned[front.index()];
        let whole = if turned { self.chains.join(back, front) } else { self.chains.join(front, back) };
        self.turned[whole.index()] = turned;
    }

    /// First and last function of a chain.
    fn ends(&self, chain: ChainId) -> (FunctionId, FunctionId) {
        let (first, last) = (self.chains.first(chain), self.chains.last(chain));
        if self.turned[chain.index()] { (last, first) } else { (first, last) }
    }

    fn functions(&self, chain: ChainId) -> Vec<FunctionId> {
        let mut functions: Vec<FunctionId> = self.chains.functions(chain).collect();
        if self.turned[chain.index()] {
            functions.reverse();
        }
        functions
    }

    fn densest_first(&self) -> Vec<FunctionId> {
        let density = |chain: ChainId| match self.chains.size(chain) {
            0 => 0.0,
            size => self.chains.weight(chain) as f64 / size as f64,
        };
        let mut named: Vec<(f64, u32)> = Vec::new();
        let mut seen = vec![false; self.sizes.len()];
        for name in 0..self.sizes.len() as u32 {
            // The lowest function of a chain comes first, and it is the chain's name.
            let chain = self.chain(name);
            if !std::mem::replace(&mut seen[chain.index()], true) {
                named.push((density(chain), name));
            }
        }
        named.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        named.into_iter().flat_map(|(_, name)| self.functions(self.chain(name))).collect()
    }
}
