// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ext-TSP, made for basic blocks, on functions: a tour in which calls lead to what stands next, or at most a little further.
//!
//! **Problem.** Place functions so that a call leads on to the bytes behind its caller, or jumps no further than a cache prefetches.
//!
//! **Definitions.** s(f): size in bytes, at least 1. w(u, v): weight of the calls from u to v, u ≠ v. n(f): the largest of the
//! weight of f, the sum of w(·, f) and the sum of w(f, ·). Of a chain, s and n are the sums; density d = n / s. A call leads from the end of its caller to the start of its callee, D
//! bytes on or back. It is worth
//! - w where D = 0: the callee stands right behind its caller;
//! - w · 0.1 · (1 − D / 1024) forward, for D up to 1024;
//! - w · 0.1 · (1 − D / 640) back, for D up to 640.
//!
//! The value of a chain is what the calls within it are worth.
//!
//! **Steps.**
//! 1. Each function is a chain.
//! 2. Of two chains X and Y that call each other, in either role, consider X Y; and with X split into X1 and X2, X1 Y X2, Y X2 X1, and
//!    X2 X1 Y. X is split at every place while it has at most 32 functions, else before and behind those that Y's first and last
//!    function call or are called by. Make the change that gains most in value, while one gains more than 1e-8 that makes a chain of no more
//!    than 512 functions out of two of which none is more than 100 times as dense as the other.
//! 3. Chains by falling density.
//!
//! O(m · a² · log m) for m edges and a the functions of a chain that is split everywhere.
//!
//! **Ties.** Equal gains: the pair with the lower first function of X, then of Y; then the way that stands first above, then the split
//! nearest the front. Equal densities: the lower first function.
//!
//! **Source.** A. Newell, S. Pupyrev: Improved Basic Block Reordering, IEEE Transactions on Computers 69(12), 2020; LLVM's
//! `-enable-ext-tsp-block-placement`.
//!
//! **Where it differs.** LLVM splits at every place of chains of up to 128, and values blocks that always follow each other a little higher.
//! It orders blocks of one function alone, so that its orders of functions cannot be had.

use super::Options;
use super::chains::{ChainId, Chains};
use crate::model::addresses::clamp_sizes;
use sediment_core::callgraph::{CallGraph, FunctionId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Bytes that a call may jump, forward and back.
const FORWARD: u64 = 1024;
const BACK: u64 = 640;
/// Value of a jump against that of a callee right behind.
const JUMP: f64 = 0.1;
/// The most functions that a chain may have, and one that is split everywhere.
const LONGEST_CHAIN: u32 = 512;
const SPLIT_EVERYWHERE: u32 = 32;
/// Largest ratio between the densities of two chains.
const UNEVENNESS: f64 = 100.0;
/// Gains no larger are none.
const EPSILON: f64 = 1e-8;

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, _: &Options<'_>) -> Vec<FunctionId> {
    let mut tour = Tour::new(graph);
    tour.join_while_it_gains();
    tour.chains.densest_first(tour.chains.ids(), |chain| tour.density(chain))
}

#[derive(Debug, Clone, Copy)]
struct Call {
    caller: FunctionId,
    callee: FunctionId,
    weight: f64,
}

/// In which order the parts of two chains go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MergeType {
    /// X Y
    Behind,
    /// X1 Y X2
    Within,
    /// Y X2 X1
    TurnedBehind,
    /// X2 X1 Y
    TurnedBefore,
}

/// A change that gains something: the largest is the next to be made, unless one of its chains changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// The bits of the gain: those of positive numbers ascend as the numbers do.
    gain: u64,
    /// The first functions of X and of Y.
    firsts: Reverse<(FunctionId, FunctionId)>,
    /// Number of functions of X before the split, and how the parts are merged.
    change: Reverse<(MergeType, u64)>,
    /// Ages of X and Y.
    ages: (u32, u32),
}

struct Tour {
    chains: Chains,
    sizes: Vec<u64>,
    calls: Vec<Call>,
    /// By chain: the calls within it, and those to and from others.
    within: Vec<Vec<u32>>,
    between: Vec<BTreeMap<u32, Vec<u32>>>,
    /// By chain: the value of the calls within it, and its age.
    values: Vec<f64>,
    ages: Vec<u32>,
    joins: u32,
}

impl Tour {
    fn new(graph: &CallGraph) -> Self {
        let sizes: Vec<u64> = clamp_sizes(graph.sizes()).iter().map(|size| (*size).max(1)).collect();
        let (mut incoming, mut outgoing) = (vec![0u64; graph.len()], vec![0u64; graph.len()]);
        for edge in graph.edges().iter().filter(|edge| edge.caller != edge.callee) {
            incoming[edge.callee.index()] += edge.weight;
            outgoing[edge.caller.index()] += edge.weight;
        }
        let weights: Vec<u64> =
            (0..graph.len()).map(|id| incoming[id].max(outgoing[id]).max(graph.weights()[id])).collect();
        let calls: Vec<Call> = graph
            .edges()
            .iter()
            .filter(|edge| edge.caller != edge.callee)
            .map(|edge| Call { caller: edge.caller, callee: edge.callee, weight: edge.weight as f64 })
            .collect();
        let mut between: Vec<BTreeMap<u32, Vec<u32>>> = vec![BTreeMap::new(); graph.len()];
        for (number, call) in (0u32..).zip(&calls) {
            between[call.caller.index()].entry(call.callee.0).or_default().push(number);
            between[call.callee.index()].entry(call.caller.0).or_default().push(number);
        }
        Self {
            chains: Chains::singletons(&sizes, &weights),
            sizes,
            calls,
            within: vec![Vec::new(); graph.len()],
            between,
            values: vec![0.0; graph.len()],
            ages: vec![0; graph.len()],
            joins: 0,
        }
    }

    fn density(&self, chain: ChainId) -> f64 {
        self.chains.weight(chain) as f64 / self.chains.size(chain) as f64
    }

    fn join_while_it_gains(&mut self) {
        let mut candidates = BinaryHeap::new();
        for chain in self.chains.ids().collect::<Vec<_>>() {
            for other in self.neighbours(chain) {
                candidates.extend(self.best_change(chain, other));
            }
        }
        while let Some(Candidate {
            firsts: Reverse((x, y)),
            change: Reverse((merge_type, split)),
            ages,
            ..
        }) = candidates.pop()
        {
            let [one, other] = [x, y].map(|first| self.chains.chain_of(first));
            let as_they_were = self.chains.first(one) == x
                && self.chains.first(other) == y
                && (self.ages[one.index()], self.ages[other.index()]) == ages;
            if as_they_were {
                let whole = self.join(one, other, merge_type, split);
                for neighbour in self.neighbours(whole) {
                    candidates.extend(self.best_change(whole, neighbour));
                    candidates.extend(self.best_change(neighbour, whole));
                }
            }
        }
    }

    /// The chains that this one calls or is called by.
    fn neighbours(&self, chain: ChainId) -> Vec<ChainId> {
        // Chains are named in tables by their handles.
        self.between[chain.index()].keys().map(|&other| self.chains.chain_of(FunctionId(other))).collect()
    }

    /// The change of X and Y that gains most, if any gains.
    fn best_change(&self, x: ChainId, y: ChainId) -> Option<Candidate> {
        let [one, other] = [x, y].map(|chain| self.density(chain));
        let even = one.max(other) <= UNEVENNESS * one.min(other);
        if !even || self.chains.length(x) + self.chains.length(y) > LONGEST_CHAIN {
            return None;
        }
        let size = self.chains.size(x);
        let mut best: Option<(f64, MergeType, u64)> = None;
        let mut consider = |merge_type: MergeType, split: u64| {
            let gain = self.value_of(x, y, merge_type, split) - self.values[x.index()];
            if gain > best.map_or(EPSILON, |(most, ..)| most) {
                best = Some((gain, merge_type, split));
            }
        };
        consider(MergeType::Behind, size);
        let splits = self.splits(x, y);
        for merge_type in [MergeType::Within, MergeType::TurnedBehind, MergeType::TurnedBefore] {
            for &split in &splits {
                consider(merge_type, split);
            }
        }
        best.map(|(gain, merge_type, split)| Candidate {
            gain: gain.to_bits(),
            firsts: Reverse((self.chains.first(x), self.chains.first(y))),
            change: Reverse((merge_type, split)),
            ages: (self.ages[x.index()], self.ages[y.index()]),
        })
    }

    /// Where to split X: bytes from its start, ascending.
    fn splits(&self, x: ChainId, y: ChainId) -> Vec<u64> {
        let mut splits: Vec<u64> = if self.chains.length(x) <= SPLIT_EVERYWHERE {
            self.chains.functions(x).map(|function| self.chains.position(function)).collect()
        } else {
            let ends = [self.chains.first(y), self.chains.last(y)];
            let calls = self.calls_between(x, y);
            calls
                .iter()
                .map(|&number| self.calls[number as usize])
                .filter_map(|call| match (ends.contains(&call.caller), ends.contains(&call.callee)) {
                    (true, _) => Some(call.callee),
                    (_, true) => Some(call.caller),
                    _ => None,
                })
                .flat_map(|function| {
                    let start = self.chains.position(function);
                    [start, start + self.sizes[function.index()]]
                })
                .collect()
        };
        splits.retain(|&split| split > 0 && split < self.chains.size(x));
        splits.sort_unstable();
        splits.dedup();
        splits
    }

    fn calls_between(&self, x: ChainId, y: ChainId) -> &[u32] {
        self.between[x.index()].get(&(y.index() as u32)).map_or(&[], Vec::as_slice)
    }

    /// Value of the calls within X and between X and Y, split and merged this way.
    fn value_of(&self, x: ChainId, y: ChainId, merge_type: MergeType, split: u64) -> f64 {
        let (size, other) = (self.chains.size(x), self.chains.size(y));
        // Where X1, X2 and Y begin.
        let (first, second, inserted) = match merge_type {
            MergeType::Behind => (0, split, size),
            MergeType::Within => (0, split + other, split),
            MergeType::TurnedBehind => (other + size - split, other, 0),
            MergeType::TurnedBefore => (size - split, 0, size),
        };
        let address = |function: FunctionId| {
            let position = self.chains.position(function);
            if self.chains.chain_of(function) == y {
                inserted + position
            } else if position < split {
                first + position
            } else {
                second + position - split
            }
        };
        let calls = self.within[x.index()].iter().chain(self.calls_between(x, y));
        calls
            .map(|&number| {
                let call = self.calls[number as usize];
                worth(
                    call.weight,
                    address(call.caller) + self.sizes[call.caller.index()],
                    address(call.callee),
                )
            })
            .sum()
    }

    fn join(&mut self, x: ChainId, y: ChainId, merge_type: MergeType, split: u64) -> ChainId {
        let value = self.value_of(x, y, merge_type, split) + self.values[y.index()];
        let whole = if merge_type == MergeType::Behind {
            self.chains.join(x, y)
        } else {
            let (first, second): (Vec<FunctionId>, Vec<FunctionId>) =
                self.chains.functions(x).partition(|function| self.chains.position(*function) < split);
            let inserted: Vec<FunctionId> = self.chains.functions(y).collect();
            let functions = match merge_type {
                MergeType::Behind | MergeType::Within => [first, inserted, second],
                MergeType::TurnedBehind => [inserted, second, first],
                MergeType::TurnedBefore => [second, first, inserted],
            };
            self.chains.rearrange(x, y, &functions.concat(), &self.sizes)
        };
        let gone = if whole == x { y } else { x };
        for (other, calls) in std::mem::take(&mut self.between[gone.index()]) {
            self.between[other as usize].remove(&(gone.index() as u32));
            if other == whole.index() as u32 {
                self.within[whole.index()].extend(calls);
            } else {
                self.between[other as usize].entry(whole.index() as u32).or_default().extend(&calls);
                self.between[whole.index()].entry(other).or_default().extend(calls);
            }
        }
        let within = std::mem::take(&mut self.within[gone.index()]);
        self.within[whole.index()].extend(within);
        self.joins += 1;
        self.values[whole.index()] = value;
        self.ages[whole.index()] = self.joins;
        whole
    }
}

/// Value of a call from one byte to another.
fn worth(weight: f64, from: u64, to: u64) -> f64 {
    let jump = |distance: u64, most: u64| {
        if distance <= most { weight * JUMP * (1.0 - distance as f64 / most as f64) } else { 0.0 }
    };
    match to.checked_sub(from) {
        Some(0) => weight,
        Some(distance) => jump(distance, FORWARD),
        None => jump(from - to, BACK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_core::callgraph::CallEdge;

    fn ordered(sizes: &[u64], edges: &[(u32, u32, u64)]) -> Vec<u32> {
        let edges = edges
            .iter()
            .map(|&(caller, callee, weight)| CallEdge {
                caller: FunctionId(caller),
                callee: FunctionId(callee),
                weight,
            })
            .collect();
        let graph = CallGraph::new(sizes.to_vec(), vec![0; sizes.len()], edges).unwrap();
        order(&graph, &Options::default()).iter().map(|function| function.0).collect()
    }

    #[test]
    fn the_worth_of_a_call() {
        assert_eq!([worth(10.0, 64, 64), worth(10.0, 0, 512), worth(10.0, 0, 1025)], [10.0, 0.5, 0.0]);
        assert_eq!([worth(10.0, 320, 0), worth(10.0, 641, 0)], [0.5, 0.0]);
    }

    #[test]
    fn a_chain_is_split_for_what_belongs_into_it() {
        // 0 and 1 call each other's next most; 2 is called by 0 and calls 1, together more than that.
        assert_eq!(ordered(&[64; 3], &[(0, 1, 100), (0, 2, 80), (2, 1, 80)]), [0, 2, 1]);
    }

    #[test]
    fn a_path_is_followed() {
        assert_eq!(ordered(&[100; 5], &[(3, 1, 9), (1, 4, 8), (4, 0, 7), (0, 2, 6)]), [3, 1, 4, 0, 2]);
    }
}
