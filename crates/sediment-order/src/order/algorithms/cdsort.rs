// SPDX-License-Identifier: MIT OR Apache-2.0
//! CDSort: cache-directed sort.
//!
//! **Problem.** Place functions so that calls are short, weighted by how often they happen, and so that hot functions
//! fill few pages.
//!
//! **Definitions.** s(f): size in bytes, at least 1. w(u, v): weight of the calls from u to v, u ≠ v. g(f): calls into
//! f from others, at least the sum of w(·, f). n(f): the largest of g(f), the sum of w(·, f) and the sum of w(f, ·). T
//! = Σ g. Z: bytes of all functions with g > 0. For a chain, s and n are the sums; density d = n / s.
//! - A call of weight w over D bytes is worth w · D^-¼ (D = 0 counts as 0.1). It leads from the middle of its caller,
//!   (size + 1) / 2 bytes in, to the start of the callee.
//! - miss(d) = (1 − 2048 d / T)^16, and 0 if the base is not positive: the chance that code of density d is not in the
//!   last 16 pages of 2048 bytes.
//! - The gain of joining chains X and Y is Σ w · (D^-¼ − Z^-¼) over the calls between them, plus ¼ · (n(X) · miss(d(X))
//!   + n(Y) · miss(d(Y)) − n(XY) · miss(d(XY))); if it is not negative, it is divided by the smaller of s(X) and s(Y).
//!
//! **Steps.**
//! 1. Each function is a chain.
//! 2. Join the two chains with the largest gain, in the better of both orders, as long as a gain is above 1e-8 and the
//!    joined chain has at most 128 functions.
//! 3. Chains by falling density.
//!
//! Each join looks again only at the calls of the joined chain: O(a · m · log m) in the worst case, for m edges and
//! chains of at most a functions, and far less on real graphs. [`AlgorithmOptions::most_looks`] limits it: after the
//! looks are used up, a joined chain remembers only the 256 neighbours with the most valuable calls.
//!
//! **Ties.** One chain of a pair is the caller's side: the one with the caller of the first call between them, with
//! edges in the order of (caller, callee). Equal gains: the pair with the lower first function on the caller's side,
//! then on the other side. If the gains of the two orders of a pair differ by at most 1e-8, the chain with the lower
//! first function goes first. Equal densities: the lower first function. When the chains of a pair are joined and both
//! call a third chain, the calls of the caller's side come first.
//!
//! **Settings.** The 16, 2048, ¼, ¼ and 128 above are the defaults of [`CdsortParameters`].
//!
//! **Source.** S. Pupyrev's cache-directed sort, as in lld since version 18 (`--call-graph-profile-sort=cdsort`, its
//! default); LLVM's D152834 and llvm-project#68638. It replaced hfsort+.
//!
//! **Where it differs from lld 19.** lld numbers functions by their first appearance in the graph file, and this number
//! breaks its ties; here the id does. lld knows g(f) only from the edges; here a function may have a larger weight than
//! the counted calls, and functions without edges are ranked by density. Here D^-¼ is computed as 1 / √√D and the 16th
//! power by four squares, which are the same on every machine, while lld calls `pow`. So a gain may differ in its last
//! bits, and two gains that are equal on paper may come in the other order. tests/toolchain/layout.rs compares the
//! orders.

use super::chains::{ChainId, Chains};
use super::{AlgorithmOptions, Looks};
use crate::model::{addresses::clamp_sizes, closeness};
use sediment_core::callgraph::{CallGraph, FunctionId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parameters; the defaults are the values above, which are also lld's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CdsortParameters {
    /// Number of pages in the modelled cache: the 16 in miss(d). lld: `-cdsort-cache-entries`.
    pub cache_entries: u32,
    /// Bytes of a page of the modelled cache: the 2048 in miss(d). lld: `-cdsort-cache-size`.
    pub cache_size: u32,
    /// The power by which the value of calls falls with their distance, in sixteenths, which are exact by square roots:
    /// 4 for the ¼ in D^-¼; at most 32. lld: `-cdsort-distance-power`.
    pub distance_sixteenths: u8,
    /// Weight of the pages relative to the distances; a negative value or NaN counts as 0. lld:
    /// `-cdsort-frequency-scale`.
    pub frequency_scale: f64,
    /// Largest number of functions in a chain. lld: `-cdsort-max-chain-size`.
    pub longest_chain: u32,
    /// For large graphs: calls between two chains are forgotten when their best value times this ratio is less than
    /// the loss in pages from joining the chains. 0, as in lld, forgets none.
    pub prune_ratio: u32,
}

impl CdsortParameters {
    /// lld's parameters.
    pub const LLD: Self = Self {
        cache_entries: 16,
        cache_size: 2048,
        distance_sixteenths: 4,
        frequency_scale: 0.25,
        longest_chain: 128,
        prune_ratio: 0,
    };
}

impl Default for CdsortParameters {
    fn default() -> Self {
        Self::LLD
    }
}

/// Gains that differ by at most this are equal, and gains up to this do not count.
const EPSILON: f64 = 1e-8;

/// Number of neighbours that a chain remembers after the looks are used up.
const FEW: usize = 256;

/// No call or link: the end of a list.
const NONE: u32 = u32::MAX;

/// Orders all functions of the graph.
#[must_use]
pub fn order(graph: &CallGraph, options: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    let mut clustering = Clustering::new(graph, options.cdsort, Looks::of(options));
    clustering.join_while_it_gains();
    clustering.order()
}

/// Calls from one function to another. If it is the first of its list, it also represents a link: all calls between two
/// chains, in either direction. The caller's side of the link is the chain of the first call's caller.
#[derive(Debug, Clone, Copy)]
struct LinkedCall {
    caller: FunctionId,
    callee: FunctionId,
    /// The next call of the same link, or [`NONE`].
    next: u32,
    /// The last call of the link, if this is its first call; otherwise [`NONE`].
    last: u32,
    weight: f64,
    /// Bytes from the start of the caller to its call.
    offset: u64,
}

/// A chain that calls another chain or is called by it.
#[derive(Debug, Clone, Copy)]
struct Neighbour {
    /// The chain may have been joined to another one since: see [`Clustering::living`].
    chain: ChainId,
    /// The first call of the link. If the link was merged into another one, a later neighbour (now the same chain) has
    /// the merged link.
    link: u32,
    /// Upper bound of the calls' value, wherever the functions between their ends are placed.
    at_best: f64,
}

/// Fields of a chain that a possible merge reads, together in memory.
#[derive(Debug, Clone, Copy)]
struct ChainSide {
    size: u64,
    weight: u64,
    /// n · miss(d).
    misses: f64,
    length: u32,
}

/// Gain of merging the chains of a link.
#[derive(Debug, Clone, Copy)]
struct MergeGain {
    score: f64,
    /// True if the caller's side comes second.
    reversed: bool,
}

/// A join with a gain. The largest is made next, unless one of its chains has been joined since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MergeCandidate {
    /// The bits of the gain: the bits of positive numbers ascend as the numbers do.
    gain: u64,
    /// The first functions of the caller's side and of the other.
    firsts: Reverse<(FunctionId, FunctionId)>,
    link: u32,
    /// Number of merges made before.
    joins: u32,
    /// True if the caller's side comes second.
    reversed: bool,
    /// True if the caller's side proposed it.
    by_caller: bool,
}

struct Clustering {
    settings: CdsortParameters,
    looks: Looks,
    chains: Chains,
    /// By chain.
    sides: Vec<ChainSide>,
    /// By chain: itself, or the chain that it was joined to. Separate from the sides, because it is read most often,
    /// and alone.
    joined_to: Vec<ChainId>,
    /// By chain: its index among the neighbours being united, or [`NONE`].
    slots: Vec<u32>,
    /// Reused memory: the neighbours with which a chain may gain, and the ends of their links.
    hopeful: Vec<(u32, f64)>,
    ends: Vec<[ChainId; 2]>,
    /// By function: number of joins after the last join of a chain that begins, or began, with it.
    joined_at: Vec<u32>,
    /// By chain: the chains that it may still be joined to.
    neighbours: Vec<Vec<Neighbour>>,
    /// n(f) by function.
    counts: Vec<u64>,
    calls: Vec<LinkedCall>,
    /// By chain: the joins that it proposed when it was made, without those that are or were among the candidates.
    proposals: Vec<BinaryHeap<MergeCandidate>>,
    /// The best proposal of each chain that has one.
    candidates: BinaryHeap<MergeCandidate>,
    joins: u32,
    /// T.
    total_calls: f64,
    /// Z^-¼.
    far: f64,
    nearness: Nearness,
}

impl Clustering {
    fn new(graph: &CallGraph, settings: CdsortParameters, looks: Looks) -> Self {
        let scale = settings.frequency_scale;
        let frequency_scale = if scale.is_finite() { scale.max(0.0) } else { 0.0 };
        let settings = CdsortParameters { frequency_scale, ..settings };
        let nearness = Nearness::new(settings.distance_sixteenths);
        let CallWeights { given, counts } = CallWeights::of(graph);
        let sizes: Vec<u64> = clamp_sizes(graph.sizes()).iter().map(|&size| size.max(1)).collect();
        let total_size =
            sizes.iter().zip(&given).filter(|(_, given)| **given > 0).map(|(size, _)| size).sum();
        let mut clustering = Self {
            settings,
            looks,
            chains: Chains::singletons(&sizes, &counts),
            sides: Vec::new(),
            joined_to: graph.ids().map(ChainId::of_single).collect(),
            slots: vec![NONE; graph.len()],
            hopeful: Vec::new(),
            ends: Vec::new(),
            joined_at: vec![0; graph.len()],
            neighbours: vec![Vec::new(); graph.len()],
            counts,
            calls: calls(graph),
            proposals: vec![BinaryHeap::new(); graph.len()],
            candidates: BinaryHeap::new(),
            joins: 0,
            total_calls: given.iter().sum::<u64>() as f64,
            far: nearness.of(total_size),
            nearness,
        };
        clustering.sides = clustering.chains.ids().map(|chain| clustering.side(chain)).collect();
        clustering.link_functions();
        clustering.meet_neighbours();
        clustering
    }

    /// Makes links of the calls between the same two functions; the calls to the higher id come first.
    fn link_functions(&mut self) {
        let calls = &mut self.calls;
        let mut starts = vec![0usize; self.neighbours.len() + 1];
        for call in calls.iter() {
            starts[call.caller.index() + 1] += 1;
        }
        for caller in 1..starts.len() {
            starts[caller] += starts[caller - 1];
        }
        for index in 0..calls.len() {
            let LinkedCall { caller, callee, .. } = calls[index];
            if callee > caller {
                continue;
            }
            let back = starts[callee.index()]..starts[callee.index() + 1];
            if let Ok(place) = calls[back.clone()].binary_search_by_key(&caller, |call| call.callee) {
                let first = back.start + place;
                calls[first].next = index as u32;
                calls[first].last = index as u32;
                calls[index].last = NONE;
            }
        }
    }

    /// Makes neighbours of every two functions with a link, and candidates if joining them gains.
    fn meet_neighbours(&mut self) {
        let mut callees: Vec<Vec<Neighbour>> = vec![Vec::new(); self.neighbours.len()];
        let mut known = vec![[0usize; 2]; self.neighbours.len()];
        for call in self.calls.iter().filter(|call| call.last != NONE) {
            known[call.caller.index()][0] += 1;
            known[call.callee.index()][1] += 1;
        }
        for (function, [called, calling]) in known.into_iter().enumerate() {
            callees[function].reserve_exact(called);
            self.neighbours[function].reserve_exact(called + calling);
        }
        for index in 0..self.calls.len() {
            let LinkedCall { caller, callee, next, last, .. } = self.calls[index];
            if last != NONE {
                let [caller, callee] = [caller, callee].map(ChainId::of_single);
                let second = (next != NONE).then_some(next as usize);
                let at_best =
                    [Some(index), second].into_iter().flatten().map(|call| self.worth_at_best(call)).sum();
                let neighbour = |chain| Neighbour { chain, link: index as u32, at_best };
                self.neighbours[caller.index()].push(neighbour(callee));
                self.neighbours[callee.index()].push(neighbour(caller));
                callees[caller.index()].push(neighbour(callee));
            }
        }
        for (function, mut callees) in (0u32..).zip(callees) {
            self.propose(ChainId::of_single(FunctionId(function)), &mut callees);
        }
    }

    fn join_while_it_gains(&mut self) {
        while let Some(best) = self.candidates.pop() {
            let Reverse((caller, callee)) = best.firsts;
            let [caller_as_it_was, callee_as_it_was] =
                [caller, callee].map(|first| self.joined_at[first.index()] <= best.joins);
            if caller_as_it_was && callee_as_it_was {
                self.join(&best);
            } else if best.by_caller && caller_as_it_was {
                self.put_forward(self.chains.chain_of(caller));
            } else if !best.by_caller && callee_as_it_was {
                self.put_forward(self.chains.chain_of(callee));
            }
        }
    }

    /// Returns all functions, with chains by falling density.
    fn order(&self) -> Vec<FunctionId> {
        // The sum is computed in floating point along the chain, so that weights beyond 2^53 are rounded as in LLVM.
        let count =
            |chain| self.chains.functions(chain).fold(0.0, |sum, f| sum + self.counts[f.index()] as f64);
        self.chains.densest_first(self.chains.ids(), |chain| count(chain) / self.chains.size(chain) as f64)
    }

    /// The chains of a link: the caller's side, then the other.
    fn ends(&self, link: u32) -> [ChainId; 2] {
        let call = &self.calls[link as usize];
        [self.chains.chain_of(call.caller), self.chains.chain_of(call.callee)]
    }

    /// The current chain that contains this one.
    fn living(&self, mut chain: ChainId) -> ChainId {
        loop {
            let joined_to = self.joined_to[chain.index()];
            if joined_to == chain {
                return chain;
            }
            chain = joined_to;
        }
    }

    /// Finds the gainful joins of a chain to these neighbours, and adds the best of them to the candidates. Neighbours
    /// that are not worth remembering are removed.
    fn propose(&mut self, chain: ChainId, neighbours: &mut Vec<Neighbour>) {
        let mut hopeful = std::mem::take(&mut self.hopeful);
        let mut all_ends = std::mem::take(&mut self.ends);
        hopeful.clear();
        all_ends.clear();
        let prune_ratio = f64::from(self.settings.prune_ratio);
        neighbours.retain(|neighbour| {
            let pages = self.gain_of_pages(chain, neighbour.chain);
            if neighbour.at_best + pages > 0.0 {
                hopeful.push((neighbour.link, pages));
            }
            prune_ratio == 0.0 || neighbour.at_best * prune_ratio + pages > 0.0
        });
        // All are computed in one go, because each waits for memory, and so the waits overlap.
        all_ends.extend(hopeful.iter().map(|&(link, _)| self.ends(link)));
        let mut proposals = Vec::new();
        for (&(link, pages), &ends) in hopeful.iter().zip(&all_ends) {
            let MergeGain { score, reversed } = self.gain(link, ends, pages);
            if score > EPSILON {
                proposals.push(MergeCandidate {
                    gain: score.to_bits(),
                    firsts: Reverse(ends.map(|chain| self.chains.first(chain)).into()),
                    link,
                    joins: self.joins,
                    reversed,
                    by_caller: ends[0] == chain,
                });
            }
        }
        (self.hopeful, self.ends) = (hopeful, all_ends);
        self.proposals[chain.index()] = BinaryHeap::from(proposals);
        self.put_forward(chain);
    }

    /// Makes a candidate of the chain's best remaining proposal.
    fn put_forward(&mut self, chain: ChainId) {
        self.candidates.extend(self.proposals[chain.index()].pop());
    }

    /// Joins the two chains of a candidate.
    fn join(&mut self, best: &MergeCandidate) {
        let [caller, callee] = self.ends(best.link);
        let mut neighbours = self.unite_neighbours(caller, callee);
        self.joins += 1;
        for part in [caller, callee] {
            self.joined_at[self.chains.first(part).index()] = self.joins;
            self.proposals[part.index()] = BinaryHeap::new();
        }
        let joined = match best.reversed {
            false => self.chains.join(caller, callee),
            true => self.chains.join(callee, caller),
        };
        for part in [caller, callee] {
            self.joined_to[part.index()] = joined;
        }
        self.sides[joined.index()] = self.side(joined);
        self.propose(joined, &mut neighbours);
        self.neighbours[joined.index()] = neighbours;
    }

    /// Returns the neighbours of two chains about to be joined that the joined chain may still be joined to, each once.
    fn unite_neighbours(&mut self, caller: ChainId, callee: ChainId) -> Vec<Neighbour> {
        let length = self.chains.length(caller) + self.chains.length(callee);
        let parts = [caller, callee].map(|part| std::mem::take(&mut self.neighbours[part.index()]));
        let known = parts.iter().map(Vec::len).sum();
        self.looks.take(known);
        let mut united: Vec<Neighbour> = Vec::with_capacity(known);
        for mut neighbours in parts {
            // A loop of its own, because nothing else in this file waits for memory as long, and so the waits overlap.
            for neighbour in &mut neighbours {
                neighbour.chain = self.living(neighbour.chain);
            }
            for neighbour in neighbours {
                let own = neighbour.chain == caller || neighbour.chain == callee;
                let slot = &mut self.slots[neighbour.chain.index()];
                match *slot {
                    _ if own => {}
                    NONE => {
                        if length + self.sides[neighbour.chain.index()].length > self.settings.longest_chain {
                            continue;
                        }
                        *slot = united.len() as u32;
                        united.push(neighbour);
                    }
                    slot => self.unite(&mut united[slot as usize], &neighbour),
                }
            }
        }
        for neighbour in &united {
            self.slots[neighbour.chain.index()] = NONE;
        }
        if self.looks.are_used_up() && united.len() > FEW {
            united.sort_unstable_by(|one, other| {
                other.at_best.total_cmp(&one.at_best).then(one.link.cmp(&other.link))
            });
            united.truncate(FEW);
        }
        united
    }

    /// Merges two neighbours that are the same chain. Their links may already be one, merged from the other end.
    fn unite(&mut self, known: &mut Neighbour, other: &Neighbour) {
        known.at_best += other.at_best;
        let last_known = self.calls[known.link as usize].last;
        let last_other = self.calls[other.link as usize].last;
        if last_known == NONE {
            known.link = other.link;
        } else if last_other != NONE {
            self.calls[last_known as usize].next = other.link;
            self.calls[known.link as usize].last = last_other;
            self.calls[other.link as usize].last = NONE;
        }
    }

    /// Gain of merging two chains, counting pages only.
    fn gain_of_pages(&self, one: ChainId, other: ChainId) -> f64 {
        let [one, other] = [one, other].map(|chain| &self.sides[chain.index()]);
        let joined = self.expected_misses(one.weight + other.weight, one.size + other.size);
        self.settings.frequency_scale * (one.misses + other.misses - joined)
    }

    /// Gain of merging the two chains of a link, and their order.
    fn gain(&self, link: u32, ends: [ChainId; 2], pages: f64) -> MergeGain {
        let [caller_size, callee_size] = ends.map(|chain| self.sides[chain.index()].size);
        let scale = caller_size.min(callee_size) as f64;
        let [forward, reversed] = self.gain_of_calls(link, ends[0], caller_size, callee_size).map(|calls| {
            let gain = calls + pages;
            if gain >= 0.0 { gain / scale } else { gain }
        });
        let take_reversed = if (forward - reversed).abs() < EPSILON {
            self.chains.first(ends[0]) > self.chains.first(ends[1])
        } else {
            reversed > forward + EPSILON
        };
        MergeGain { score: if take_reversed { reversed } else { forward }, reversed: take_reversed }
    }

    /// Σ w · (D^-¼ − Z^-¼) with the caller's side first, and with it second.
    fn gain_of_calls(&self, link: u32, caller: ChainId, caller_size: u64, callee_size: u64) -> [f64; 2] {
        let (mut forward, mut reversed, mut apart) = (0.0, 0.0, 0.0);
        let mut at = link;
        while at != NONE {
            let call = &self.calls[at as usize];
            let from = self.chains.position(call.caller) + call.offset;
            let to = self.chains.position(call.callee);
            let (in_front, behind) = if self.chains.chain_of(call.caller) == caller {
                ((caller_size + to).abs_diff(from), (callee_size + from).abs_diff(to))
            } else {
                ((caller_size + from).abs_diff(to), (callee_size + to).abs_diff(from))
            };
            forward += call.weight * self.nearness.of(in_front);
            reversed += call.weight * self.nearness.of(behind);
            apart += call.weight * self.far;
            at = call.next;
        }
        [forward - apart, reversed - apart]
    }

    /// Upper bound of a call's value: for two chains of one function each, neighbours in the better order, plus the
    /// largest rounding error.
    fn worth_at_best(&self, call: usize) -> f64 {
        const ROUNDING: f64 = 1.0 + 1e-9;
        let call = &self.calls[call];
        let [caller, callee] =
            [call.caller, call.callee].map(|function| self.chains.size(ChainId::of_single(function)));
        let in_front = caller.saturating_sub(call.offset);
        let behind = callee + call.offset;
        call.weight * self.nearness.of(in_front.min(behind)) * ROUNDING
    }

    fn side(&self, chain: ChainId) -> ChainSide {
        let (size, weight) = (self.chains.size(chain), self.chains.weight(chain));
        let misses = self.expected_misses(weight, size);
        ChainSide { size, weight, misses, length: self.chains.length(chain) }
    }

    /// n · miss(n / s).
    fn expected_misses(&self, count: u64, size: u64) -> f64 {
        let count = count as f64;
        let calls_of_page = count / size as f64 * f64::from(self.settings.cache_size);
        if calls_of_page >= self.total_calls {
            return 0.0;
        }
        let elsewhere = 1.0 - calls_of_page / self.total_calls;
        count * power(elsewhere, self.settings.cache_entries)
    }
}

/// Computes D to a negative power of this number of sixteenths; a distance of 0 counts as 0.1.
#[derive(Debug, Clone, Copy)]
struct Nearness(u8);

impl Nearness {
    /// The steepest power, in sixteenths.
    const STEEPEST: u8 = 32;

    fn new(sixteenths: u8) -> Self {
        Self(sixteenths.min(Self::STEEPEST))
    }

    #[inline]
    fn of(self, distance: u64) -> f64 {
        if self.0 == 4 { closeness(distance) } else { self.by_roots(distance) }
    }

    fn by_roots(self, distance: u64) -> f64 {
        let mut factor = if distance == 0 { 0.1 } else { distance as f64 };
        factor *= factor;
        let mut raised = 1.0;
        for bit in (0..=5).rev() {
            if self.0 >> bit & 1 == 1 {
                raised *= factor;
            }
            factor = factor.sqrt();
        }
        1.0 / raised
    }
}

/// A whole power, by squares and products.
#[inline]
fn power(base: f64, exponent: u32) -> f64 {
    if exponent == 16 {
        let fourth = (base * base) * (base * base);
        return (fourth * fourth) * (fourth * fourth);
    }
    let (mut square, mut raised) = (base, 1.0);
    let mut left = exponent;
    while left > 0 {
        if left & 1 == 1 {
            raised *= square;
        }
        square *= square;
        left >>= 1;
    }
    raised
}

/// The weights of the functions, by id.
struct CallWeights {
    /// g: calls from others.
    given: Vec<u64>,
    /// n: the same, but at least the calls to others.
    counts: Vec<u64>,
}

impl CallWeights {
    fn of(graph: &CallGraph) -> Self {
        let mut incoming = vec![0u64; graph.len()];
        let mut outgoing = vec![0u64; graph.len()];
        let mut from_itself = vec![0u64; graph.len()];
        for edge in graph.edges() {
            if edge.caller == edge.callee {
                from_itself[edge.caller.index()] += edge.weight;
            } else {
                incoming[edge.callee.index()] += edge.weight;
                outgoing[edge.caller.index()] += edge.weight;
            }
        }
        let given: Vec<u64> = graph
            .ids()
            .map(FunctionId::index)
            .map(|id| graph.weights()[id].saturating_sub(from_itself[id]).max(incoming[id]))
            .collect();
        let counts = given.iter().zip(&outgoing).map(|(&given, &outgoing)| given.max(outgoing)).collect();
        Self { given, counts }
    }
}

/// The calls between different functions, by (caller, callee).
fn calls(graph: &CallGraph) -> Vec<LinkedCall> {
    let sizes = clamp_sizes(graph.sizes());
    let between_two = graph.edges().iter().filter(|edge| edge.caller != edge.callee);
    (0u32..)
        .zip(between_two)
        .map(|(index, edge)| LinkedCall {
            caller: edge.caller,
            callee: edge.callee,
            next: NONE,
            last: index,
            weight: edge.weight as f64,
            offset: sizes[edge.caller.index()].div_ceil(2),
        })
        .collect()
}
