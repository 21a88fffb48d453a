// SPDX-License-Identifier: MIT OR Apache-2.0
//! hfsort+: joins chains by the misses that they save in a small cache of pages.
//!
//! **Problem.** Place functions so that few calls lead to a page outside the cache.
//!
//! **Definitions.** s(f): size in bytes, at least 1. w(u, v): weight of the calls from u to v, u ≠ v. n(f): the largest
//! of the weight of f, the sum of w(·, f), and the sum of w(f, ·). T = Σ n. For a chain, s and n are the sums.
//! - A call over D < 4096 bytes, from the middle of its caller to the start of its callee, is short by w · (1 − (D / 4096)²).
//! - miss(X) = (1 − 4096 · n / (s · T))^16, and 0 where the base is not positive.
//! - The cost of a chain is (n − its short calls, at least 0) · miss. The gain of joining two is the sum of their costs
//!   minus the cost of the whole, divided by the smaller of their sizes.
//!
//! **Steps.**
//! 1. Calls that nearly always happen: consider the calls from the last function of one chain to the first function of
//!    another with w ≥ 0.9 · (calls from u) and w ≥ 0.9 · (calls into v). Join their chains, heaviest call first.
//! 2. Join the two chains with the largest gain, in the better order, as long as a gain is above 0 and the joined chain
//!    has at most 128 functions.
//! 3. Chains by falling n / s.
//!
//! O(m · a · log m) for m edges and chains of at most a functions. Step 2 ends early if
//! [`AlgorithmOptions::most_looks`] are used up.
//!
//! **Ties.** Equal weights in step 1: by (caller, callee). Equal gains: the lower first functions of the two chains, lower one
//! first. Both orders alike: the chain with the lower first function in front. Equal densities: the lower first function.
//!
//! **Source.** BOLT's `-reorder-functions=hfsort+` of 2017 to 2023, which CDSort replaced.
//!
//! **Where it differs.** BOLT does not limit the length of chains; ignores calls with less than 1e-8 of all samples;
//! knows where in its caller a call is; and uses only the number of entries, where n(f) here also includes calls out of
//! f. BOLT 19 gives CDSort's order under this name; so tests/toolchain/bolt.rs compares the scores with BOLT 16; they
//! differ by less than a twentieth.

use super::chains::{ChainId, Chains};
use super::{AlgorithmOptions, Looks};
use crate::model::Geometry;
use crate::model::addresses::clamp_sizes;
use sediment_core::callgraph::{CallGraph, FunctionId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const PAGE: f64 = Geometry::COMMON.page as f64;
/// A call nearly always happens if it has this share of the caller's calls and of the calls into the callee: nine of
/// ten.
const NEARLY: (u128, u128) = (9, 10);
/// Largest number of functions in a chain.
const LONGEST_CHAIN: u32 = 128;

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, options: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    let mut pages = PageChains::new(graph);
    pages.join_what_nearly_always_follows(graph);
    pages.join_while_it_gains(Looks::of(options));
    let chains = &pages.chains;
    chains.densest_first(chains.ids(), |chain| chains.weight(chain) as f64 / chains.size(chain) as f64)
}

#[derive(Debug, Clone, Copy)]
struct ChainCall {
    caller: FunctionId,
    callee: FunctionId,
    weight: f64,
    offset: u64,
}

struct PageChains {
    chains: Chains,
    calls: Vec<ChainCall>,
    /// The calls between two chains, by chain and chain.
    between: Vec<BTreeMap<u32, Vec<u32>>>,
    /// By chain: the weight of its short calls.
    short: Vec<f64>,
    /// By chain: number of the merge that made it; earlier proposals do not count.
    joined: Vec<u32>,
    total: f64,
}

/// A join with a gain: the bits of the gain, which ascend with positive numbers; first functions and ages of both
/// chains.
type JoinCandidate = (u64, Reverse<(FunctionId, FunctionId)>, u32, u32);

impl PageChains {
    fn new(graph: &CallGraph) -> Self {
        let sizes: Vec<u64> = clamp_sizes(graph.sizes()).iter().map(|size| (*size).max(1)).collect();
        let [incoming, outgoing] = sums(graph);
        let counts: Vec<u64> =
            (0..graph.len()).map(|id| incoming[id].max(outgoing[id]).max(graph.weights()[id])).collect();
        let calls: Vec<ChainCall> = graph
            .edges()
            .iter()
            .filter(|edge| edge.caller != edge.callee)
            .map(|edge| ChainCall {
                caller: edge.caller,
                callee: edge.callee,
                weight: edge.weight as f64,
                offset: sizes[edge.caller.index()].div_ceil(2),
            })
            .collect();
        let mut between: Vec<BTreeMap<u32, Vec<u32>>> = vec![BTreeMap::new(); graph.len()];
        for (number, call) in (0u32..).zip(&calls) {
            between[call.caller.index()].entry(call.callee.0).or_default().push(number);
            between[call.callee.index()].entry(call.caller.0).or_default().push(number);
        }
        let total = counts.iter().map(|count| *count as f64).sum();
        let chains = Chains::singletons(&sizes, &counts);
        let count = graph.len();
        Self { chains, calls, between, short: vec![0.0; count], joined: vec![0; count], total }
    }

    fn join_what_nearly_always_follows(&mut self, graph: &CallGraph) {
        let [incoming, outgoing] = sums(graph);
        let nearly = |weight: u64, all: u64| u128::from(weight) * NEARLY.1 >= u128::from(all) * NEARLY.0;
        let mut sure: Vec<_> = graph
            .edges()
            .iter()
            .filter(|edge| edge.caller != edge.callee)
            .filter(|edge| nearly(edge.weight, outgoing[edge.caller.index()]))
            .filter(|edge| nearly(edge.weight, incoming[edge.callee.index()]))
            .collect();
        sure.sort_by_key(|edge| Reverse(edge.weight));
        for edge in sure {
            let (front, back) = (self.chains.chain_of(edge.caller), self.chains.chain_of(edge.callee));
            let short_enough = self.chains.length(front) + self.chains.length(back) <= LONGEST_CHAIN;
            let meet = self.chains.functions(front).last() == Some(edge.caller)
                && self.chains.first(back) == edge.callee;
            if front != back && meet && short_enough {
                self.join(front, back);
            }
        }
    }

    fn join_while_it_gains(&mut self, mut looks: Looks) {
        let mut candidates = BinaryHeap::new();
        for chain in self.chains.ids().collect::<Vec<_>>() {
            self.propose(chain, &mut candidates, true);
        }
        while let Some((_, Reverse((low, high)), low_age, high_age)) = candidates.pop() {
            if looks.are_used_up() {
                break;
            }
            let (one, other) = (self.chains.chain_of(low), self.chains.chain_of(high));
            let as_they_were = self.chains.first(one) == low
                && self.chains.first(other) == high
                && self.joined[one.index()] == low_age
                && self.joined[other.index()] == high_age;
            if as_they_were {
                let (_, reversed) = self.gain(one, other);
                let whole = if reversed { self.join(other, one) } else { self.join(one, other) };
                looks.take(Looks::THROUGH_MAPS * self.between[whole.index()].len());
                self.propose(whole, &mut candidates, false);
            }
        }
    }

    /// Adds the gainful joins of a chain to the candidates. If all chains do this, each only looks at later ones.
    fn propose(&self, chain: ChainId, candidates: &mut BinaryHeap<JoinCandidate>, later_alone: bool) {
        for &other in self.between[chain.index()].keys() {
            let other = self.chains.chain_of(FunctionId(other));
            let [mine, theirs] = [chain, other].map(|chain| self.chains.first(chain));
            if other == chain || later_alone && theirs < mine {
                continue;
            }
            if self.chains.length(chain) + self.chains.length(other) > LONGEST_CHAIN {
                continue;
            }
            let (low, high) = if mine < theirs { (chain, other) } else { (other, chain) };
            let (gain, _) = self.gain(low, high);
            if gain > 0.0 {
                let firsts = Reverse((self.chains.first(low), self.chains.first(high)));
                candidates.push((
                    gain.to_bits(),
                    firsts,
                    self.joined[low.index()],
                    self.joined[high.index()],
                ));
            }
        }
    }

    /// Gain of merging two chains, and true if the second should come first.
    fn gain(&self, one: ChainId, other: ChainId) -> (f64, bool) {
        let [as_is, reversed] = self.short_between(one, other);
        let whole = |between: f64| {
            let short = self.short[one.index()] + self.short[other.index()] + between;
            self.cost(
                self.chains.weight(one) + self.chains.weight(other),
                self.chains.size(one) + self.chains.size(other),
                short,
            )
        };
        let apart: f64 = [one, other]
            .map(|chain| {
                self.cost(self.chains.weight(chain), self.chains.size(chain), self.short[chain.index()])
            })
            .iter()
            .sum();
        let scale = self.chains.size(one).min(self.chains.size(other)) as f64;
        let [as_is, reversed] = [as_is, reversed].map(|between| (apart - whole(between)) / scale);
        if reversed > as_is { (reversed, true) } else { (as_is, false) }
    }

    /// Weight of the short calls between two chains, with the first in front and with the second in front.
    fn short_between(&self, one: ChainId, other: ChainId) -> [f64; 2] {
        let sizes = [self.chains.size(one), self.chains.size(other)];
        let mut short = [0.0; 2];
        let Some(calls) = self.between[one.index()].get(&other_key(other)) else { return short };
        for &number in calls {
            let call = self.calls[number as usize];
            let from = self.chains.position(call.caller) + call.offset;
            let to = self.chains.position(call.callee);
            let from_one = self.chains.chain_of(call.caller) == one;
            for (sum, front) in short.iter_mut().zip([true, false]) {
                // The end in the chain that comes second moves by the size of the first.
                let (from, to) = match (from_one, front) {
                    (true, true) => (from, to + sizes[0]),
                    (false, true) => (from + sizes[0], to),
                    (true, false) => (from + sizes[1], to),
                    (false, false) => (from, to + sizes[1]),
                };
                *sum += shortness(call.weight, from.abs_diff(to));
            }
        }
        short
    }

    fn cost(&self, weight: u64, size: u64, short: f64) -> f64 {
        let base = 1.0 - weight as f64 / size as f64 * PAGE / self.total;
        if base <= 0.0 {
            return 0.0;
        }
        let fourth = base * base * base * base;
        (weight as f64 - short).max(0.0) * (fourth * fourth * fourth * fourth)
    }

    fn join(&mut self, front: ChainId, back: ChainId) -> ChainId {
        let [between, _] = self.short_between(front, back);
        let short = self.short[front.index()] + self.short[back.index()] + between;
        let age = self.joined[front.index()].max(self.joined[back.index()]) + 1;
        let whole = self.chains.join(front, back);
        let gone = if whole == front { back } else { front };
        let neighbours = std::mem::take(&mut self.between[gone.index()]);
        for (other, calls) in neighbours {
            self.between[other as usize].remove(&other_key(gone));
            if other != other_key(whole) {
                self.between[other as usize].entry(other_key(whole)).or_default().extend(&calls);
                self.between[whole.index()].entry(other).or_default().extend(calls);
            }
        }
        self.short[whole.index()] = short;
        self.joined[whole.index()] = age;
        whole
    }
}

/// The tables name a chain by its original function.
fn other_key(chain: ChainId) -> u32 {
    chain.index() as u32
}

fn shortness(weight: f64, distance: u64) -> f64 {
    let part = distance as f64 / PAGE;
    if part < 1.0 { weight * (1.0 - part * part) } else { 0.0 }
}

/// Weights of the calls into each function from others, and from it to others.
fn sums(graph: &CallGraph) -> [Vec<u64>; 2] {
    let mut sums = [vec![0u64; graph.len()], vec![0u64; graph.len()]];
    for edge in graph.edges().iter().filter(|edge| edge.caller != edge.callee) {
        sums[0][edge.callee.index()] += edge.weight;
        sums[1][edge.caller.index()] += edge.weight;
    }
    sums
}
