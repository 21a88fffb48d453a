// SPDX-License-Identifier: MIT OR Apache-2.0
//! CDSort: cache-directed sort.
//!
//! **Problem.** Place functions so that calls are short, weighted by how often they happen, and so that hot functions
//! fill few pages.
//!
//! **Definitions.** s(f): size in bytes, at least 1. w(u, v): weight of the calls from u to v, u ≠ v. g(f): calls into f
//! from others, at least the sum of w(·, f). n(f): the largest of g(f), the sum of w(·, f) and the sum of w(f, ·).
//! T = Σ g. Z: bytes of all functions with g > 0. Of a chain, s and n are the sums; density d = n / s.
//! - A call of weight w over D bytes is worth w · D^-¼ (D = 0 counts as 0.1). It leads from the middle of its caller,
//!   (size + 1) / 2 bytes in, to the start of the callee.
//! - miss(d) = (1 − 2048 d / T)^16, and 0 where the base is not positive: the chance that code of density d is not among
//!   what the last 16 pages of 2048 bytes hold.
//! - The gain of joining chains X and Y is Σ w · (D^-¼ − Z^-¼) over the calls between them,
//!   plus ¼ · (n(X) · miss(d(X)) + n(Y) · miss(d(Y)) − n(XY) · miss(d(XY))); where that is not negative, it is divided by
//!   the smaller of s(X) and s(Y).
//!
//! **Steps.**
//! 1. Each function is a chain.
//! 2. Join the two chains with the largest gain, in the better of both orders, as long as there is one above 1e-8 that
//!    makes a chain of no more than 128 functions.
//! 3. Chains by falling density.
//!
//! Each join looks again at the calls of the joined chain alone: O(a · m · log m) in the worst case for m edges and a
//! the most functions a chain may have, and far less on graphs that arise.
//!
//! **Ties.** A pair of chains has a caller's side: that of the first call between them, edges taken by (caller, callee).
//! Equal gains: the pair with the lower first function on the caller's side, then on the other side. The two orders of a
//! pair within 1e-8: the chain with the lower first function goes first. Equal densities: the lower first function.
//! When the chains of a pair are joined and both call a third chain, the calls of the caller's side come first.
//!
//! **Source.** S. Pupyrev's cache-directed sort as lld does it from version 18 on (`--call-graph-profile-sort=cdsort`, its
//! default); LLVM's D152834 and llvm-project#68638. It succeeded hfsort+.
//!
//! **Where it differs from lld 19.** lld numbers functions by their first appearance in the graph file, and that number
//! breaks its ties; here it is the id. lld knows g(f) from the edges alone; here a function may weigh more than the calls
//! that were seen, and one without any edge takes its place by density. D^-¼ is 1 / √√D and the 16th power four squares,
//! which are the same on every machine, where lld calls `pow`: a gain may differ in its last bits, and two gains that are
//! equal on paper may then be taken in the other order. tests/toolchain/layout.rs compares the orders.

use super::Options;
use super::chains::{ChainId, Chains, sane_sizes};
use crate::graph::{CallGraph, FunctionId};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Bytes of a page of the modelled cache.
const PAGE: f64 = 2048.0;
/// How much the pages count beside the distances.
const PAGES_SHARE: f64 = 0.25;
/// The most functions that a chain may have.
const LONGEST_CHAIN: u32 = 128;
/// Gains this close are equal; gains no larger are none.
const EPSILON: f64 = 1e-8;

/// No call, no link: the end of a list.
const NONE: u32 = u32::MAX;

/// Orders all functions of the graph.
#[must_use]
pub fn order(graph: &CallGraph, _: &Options) -> Vec<FunctionId> {
    let mut clustering = Clustering::new(graph);
    clustering.join_while_it_gains();
    clustering.order()
}

/// Calls from one function to another.
#[derive(Debug, Clone, Copy)]
struct Call {
    caller: FunctionId,
    callee: FunctionId,
    /// The next call between the same two chains, or [`NONE`].
    next: u32,
    weight: f64,
    /// Bytes from the start of the caller to where it calls.
    offset: u64,
}

/// All calls between two chains, in either direction. Its two chains are those of its first call's ends; the chain
/// of that call's caller is its caller's side.
#[derive(Debug, Clone, Copy)]
struct Link {
    first: u32,
    last: u32,
    /// Goes up whenever the gain changes: candidates with an older stamp are void.
    stamp: u32,
    /// Between chains that may be joined; once false, it stays so.
    alive: bool,
}

/// What joining the chains of a link would gain.
#[derive(Debug, Clone, Copy)]
struct Gain {
    score: f64,
    /// Whether the caller's side goes behind.
    reversed: bool,
}

/// A possible join; the largest is the next to be made.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    gain: Gain,
    caller_first: FunctionId,
    callee_first: FunctionId,
    link: u32,
    stamp: u32,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain
            .score
            .total_cmp(&other.gain.score)
            .then_with(|| other.caller_first.cmp(&self.caller_first))
            .then_with(|| other.callee_first.cmp(&self.callee_first))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

struct Clustering {
    chains: Chains,
    /// n(f) by function.
    counts: Vec<u64>,
    calls: Vec<Call>,
    links: Vec<Link>,
    alive_links: usize,
    /// By chain: its links. Dead ones among them are swept out when the chain grows.
    links_of: Vec<Vec<u32>>,
    /// By chain: n · miss(d).
    misses: Vec<f64>,
    candidates: BinaryHeap<Candidate>,
    /// By chain: [`NONE`] between joins; within one, the link of the caller's side to this chain.
    link_to: Vec<u32>,
    /// T.
    total_calls: f64,
    /// Z^-¼.
    far: f64,
}

impl Clustering {
    fn new(graph: &CallGraph) -> Self {
        let Weights { given, counts } = Weights::of(graph);
        let sizes: Vec<u64> = sane_sizes(graph.sizes()).iter().map(|&size| size.max(1)).collect();
        let total_size =
            sizes.iter().zip(&given).filter(|(_, given)| **given > 0).map(|(size, _)| size).sum();
        let calls = calls(graph, &sane_sizes(graph.sizes()));
        let (calls, links) = link(calls);
        let mut links_of = vec![Vec::new(); graph.len()];
        for (index, link) in (0u32..).zip(&links) {
            let call = &calls[link.first as usize];
            links_of[call.caller.index()].push(index);
            links_of[call.callee.index()].push(index);
        }
        let mut clustering = Self {
            chains: Chains::singletons(&sizes, &counts),
            counts,
            calls,
            alive_links: links.len(),
            links,
            links_of,
            misses: Vec::new(),
            candidates: BinaryHeap::new(),
            link_to: vec![NONE; graph.len()],
            total_calls: given.iter().sum::<u64>() as f64,
            far: closeness(total_size),
        };
        clustering.misses = clustering.chains.ids().map(|chain| clustering.misses_of(chain)).collect();
        clustering
    }

    fn join_while_it_gains(&mut self) {
        for link in 0..self.links.len() as u32 {
            self.propose(link);
        }
        while let Some(best) = self.candidates.pop() {
            if is_valid(&self.links, &best) {
                self.join(&best);
                self.sweep_candidates();
            }
        }
    }

    /// All functions, chains by falling density.
    fn order(&self) -> Vec<FunctionId> {
        // A floating-point sum along the chain, because weights beyond 2^53 then round as they do in LLVM.
        let count =
            |chain| self.chains.functions(chain).fold(0.0, |sum, f| sum + self.counts[f.index()] as f64);
        self.chains.densest_first(self.chains.ids(), |chain| count(chain) / self.chains.size(chain) as f64)
    }

    /// The chains of a link: the caller's side, then the other.
    fn sides(&self, link: u32) -> (ChainId, ChainId) {
        let call = &self.calls[self.links[link as usize].first as usize];
        (self.chains.chain_of(call.caller), self.chains.chain_of(call.callee))
    }

    /// Makes a candidate of a link if joining its chains gains anything.
    fn propose(&mut self, link: u32) {
        let (caller, callee) = self.sides(link);
        let gain = self.gain(link, caller, callee);
        if gain.score > EPSILON {
            self.candidates.push(Candidate {
                gain,
                caller_first: self.chains.first(caller),
                callee_first: self.chains.first(callee),
                link,
                stamp: self.links[link as usize].stamp,
            });
        }
    }

    fn join(&mut self, best: &Candidate) {
        let (caller, callee) = self.sides(best.link);
        let links = self.unite_links(caller, callee);
        let (front, back) = if best.gain.reversed { (callee, caller) } else { (caller, callee) };
        let joined = self.chains.join(front, back);
        self.misses[joined.index()] = self.misses_of(joined);
        for &link in &links {
            self.propose(link);
        }
        self.links_of[joined.index()] = links;
    }

    /// The links of two chains about to be joined, one for each other chain that the whole may still be joined to.
    /// All others die, and what was known of the gains of these is void.
    fn unite_links(&mut self, caller: ChainId, callee: ChainId) -> Vec<u32> {
        let length = self.chains.length(caller) + self.chains.length(callee);
        let mut united: Vec<(u32, ChainId)> = Vec::new();
        for (own, partner) in [(caller, callee), (callee, caller)] {
            for link in std::mem::take(&mut self.links_of[own.index()]) {
                if !self.links[link as usize].alive {
                    continue;
                }
                let (one, other) = self.sides(link);
                let other = if one == own { other } else { one };
                let known = self.link_to[other.index()];
                if other == partner || length + self.chains.length(other) > LONGEST_CHAIN {
                    self.kill(link);
                } else if known == NONE {
                    self.link_to[other.index()] = link;
                    self.links[link as usize].stamp += 1;
                    united.push((link, other));
                } else {
                    let moved = self.links[link as usize];
                    let known = &mut self.links[known as usize];
                    self.calls[known.last as usize].next = moved.first;
                    known.last = moved.last;
                    self.kill(link);
                }
            }
        }
        united
            .into_iter()
            .map(|(link, other)| {
                self.link_to[other.index()] = NONE;
                link
            })
            .collect()
    }

    fn kill(&mut self, link: u32) {
        self.links[link as usize].alive = false;
        self.alive_links -= 1;
    }

    /// Throws the void candidates away once they outnumber the others, so that memory stays in proportion to the graph.
    fn sweep_candidates(&mut self) {
        if self.candidates.len() > 2 * self.alive_links + 1024 {
            let links = &self.links;
            self.candidates.retain(|candidate| is_valid(links, candidate));
        }
    }

    /// What joining the two chains of a link gains, and in which order.
    fn gain(&self, link: u32, caller: ChainId, callee: ChainId) -> Gain {
        let chains = &self.chains;
        let (caller_size, callee_size) = (chains.size(caller), chains.size(callee));
        let [forward, reversed] = self.nearness(link, caller, caller_size, callee_size);
        let joined_misses =
            self.expected_misses(chains.weight(caller) + chains.weight(callee), caller_size + callee_size);
        let pages = self.misses[caller.index()] + self.misses[callee.index()] - joined_misses;
        let score = |nearness: f64| {
            let gain = nearness + PAGES_SHARE * pages;
            if gain >= 0.0 { gain / caller_size.min(callee_size) as f64 } else { gain }
        };
        let (forward, reversed) = (score(forward), score(reversed));
        let take_reversed = if (forward - reversed).abs() < EPSILON {
            chains.first(caller) > chains.first(callee)
        } else {
            reversed > forward + EPSILON
        };
        Gain { score: if take_reversed { reversed } else { forward }, reversed: take_reversed }
    }

    /// Σ w · (D^-¼ − Z^-¼) with the caller's side in front, and with it behind.
    fn nearness(&self, link: u32, caller: ChainId, caller_size: u64, callee_size: u64) -> [f64; 2] {
        let (mut forward, mut reversed, mut apart) = (0.0, 0.0, 0.0);
        let mut at = self.links[link as usize].first;
        while at != NONE {
            let call = &self.calls[at as usize];
            let from = self.chains.position(call.caller) + call.offset;
            let to = self.chains.position(call.callee);
            let (in_front, behind) = if self.chains.chain_of(call.caller) == caller {
                ((caller_size + to).abs_diff(from), (callee_size + from).abs_diff(to))
            } else {
                ((caller_size + from).abs_diff(to), (callee_size + to).abs_diff(from))
            };
            forward += call.weight * closeness(in_front);
            reversed += call.weight * closeness(behind);
            apart += call.weight * self.far;
            at = call.next;
        }
        [forward - apart, reversed - apart]
    }

    /// n · miss(d) of a chain.
    fn misses_of(&self, chain: ChainId) -> f64 {
        self.expected_misses(self.chains.weight(chain), self.chains.size(chain))
    }

    fn expected_misses(&self, count: u64, size: u64) -> f64 {
        let count = count as f64;
        let calls_of_page = count / size as f64 * PAGE;
        if calls_of_page >= self.total_calls {
            return 0.0;
        }
        let elsewhere = 1.0 - calls_of_page / self.total_calls;
        let squared = elsewhere * elsewhere;
        let fourth = squared * squared;
        let eighth = fourth * fourth;
        count * (eighth * eighth)
    }
}

fn is_valid(links: &[Link], candidate: &Candidate) -> bool {
    let link = &links[candidate.link as usize];
    link.alive && link.stamp == candidate.stamp
}

/// D^-¼, with operations that give the same bits everywhere.
fn closeness(distance: u64) -> f64 {
    let distance = if distance == 0 { 0.1 } else { distance as f64 };
    1.0 / distance.sqrt().sqrt()
}

/// The weights of the functions, by id.
struct Weights {
    /// g: calls from others.
    given: Vec<u64>,
    /// n: the same, but no less than the calls to others.
    counts: Vec<u64>,
}

impl Weights {
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
fn calls(graph: &CallGraph, sizes: &[u64]) -> Vec<Call> {
    graph
        .edges()
        .iter()
        .filter(|edge| edge.caller != edge.callee)
        .map(|edge| Call {
            caller: edge.caller,
            callee: edge.callee,
            next: NONE,
            weight: edge.weight as f64,
            offset: sizes[edge.caller.index()].div_ceil(2),
        })
        .collect()
}

/// Gathers the calls between the same two functions: those that lead to the higher id first.
fn link(mut calls: Vec<Call>) -> (Vec<Call>, Vec<Link>) {
    let mut links: Vec<Link> = Vec::new();
    let mut link_of_call = Vec::with_capacity(calls.len());
    for index in 0..calls.len() {
        let (caller, callee) = (calls[index].caller, calls[index].callee);
        let opposite =
            calls[..index].binary_search_by_key(&(callee, caller), |call| (call.caller, call.callee));
        let link = match opposite {
            Ok(opposite) => {
                let link = link_of_call[opposite];
                calls[opposite].next = index as u32;
                links[link as usize].last = index as u32;
                link
            }
            Err(_) => {
                links.push(Link { first: index as u32, last: index as u32, stamp: 0, alive: true });
                links.len() as u32 - 1
            }
        };
        link_of_call.push(link);
    }
    (calls, links)
}
