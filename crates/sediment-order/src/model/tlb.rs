// SPDX-License-Identifier: MIT OR Apache-2.0
//! Misses of the instruction TLB: estimated from a call graph, or counted from a trace. Fully associative; the least
//! recently used entry is evicted.
//!
//! **A run of a function** touches two pages: the page of its start, and the page of its middle, from which it makes
//! calls and to which they return. Nothing else is known about its inside.
//!
//! **The estimate** ([`TlbEstimate`]). Each call from u to v of weight w touches the start of v, the middle of v and,
//! on return, the middle of u; runs without an edge touch both pages of their function. A touch of the same page as the
//! previous touch is not a page change and cannot miss. The remaining touches give each page p its share r(p) of all
//! page changes, which are assumed to be independent. Che's approximation for n entries follows: the time t for which
//! an unused entry survives is the solution of Σ (1 − e^(−r(p) · t)) = n, and a touch of p misses with probability
//! e^(−r(p) · t). (H. Che, Y. Tung, Z. Wang: Hierarchical Web Caching Systems, IEEE JSAC 20(7), 2002.)
//!
//! The estimate ignores time. A program runs in phases, so pages that are used together in a phase hit more often than
//! independent touches would. Therefore the number is too high for most programs and does not predict a count; it ranks
//! orders of one graph. First touches are not included.
//!
//! **The count** ([`TlbReplay`]) is exact for the trace, except that functions, not instructions, determine the touched
//! pages.

use super::Geometry;
use super::addresses::FunctionAddresses;
use sediment_core::callgraph::{CallGraph, FunctionId, Trace};
use std::collections::HashMap;

/// Estimated misses of the instruction TLB by a call graph, in the unit of the graph's weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TlbEstimate {
    /// Number of different touched pages.
    pub pages: u64,
    /// Number of touches of another page than the previous touch.
    pub page_changes: f64,
    /// Page changes that miss, without first touches; 0 if all pages fit in the entries.
    pub misses: f64,
}

/// Counted misses of the instruction TLB in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlbReplay {
    /// Number of different touched pages: misses that no order of functions with this number of pages avoids.
    pub pages: u64,
    /// Number of touches of another page than the previous touch.
    pub page_changes: u64,
    /// Number of page changes that missed, including first touches.
    pub misses: u64,
    /// Misses of code outside the graph, such as libraries: each of its functions has a page of its own, and no order
    /// of the graph's functions moves it.
    pub outside: u64,
}

/// Pages that functions touch, numbered without gaps.
pub(super) struct TouchedPages {
    /// By function: the pages of its start and its middle.
    of_function: Vec<[u32; 2]>,
    /// By page: its address, as a page number.
    addresses: Vec<u64>,
}

impl TouchedPages {
    pub(super) fn new(layout: &FunctionAddresses, page: u64) -> Self {
        let page = page.max(1);
        let touched = |function: FunctionId| {
            let (start, size) = (layout.start(function), layout.size(function));
            [start, start + size / 2].map(|address| address / page)
        };
        let mut addresses: Vec<u64> = layout.order().iter().flat_map(|function| touched(*function)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let number = |page: u64| addresses.partition_point(|known| *known < page) as u32;
        let of_function =
            (0..layout.order().len() as u32).map(|id| touched(FunctionId(id)).map(number)).collect();
        Self { of_function, addresses }
    }

    fn count(&self) -> usize {
        self.addresses.len()
    }

    /// Address of a page, as a page number.
    pub(super) fn address_of(&self, page: usize) -> u64 {
        self.addresses[page]
    }

    fn of(&self, function: FunctionId) -> [usize; 2] {
        self.of_function[function.index()].map(|page| page as usize)
    }
}

impl TlbEstimate {
    pub(super) fn of(
        graph: &CallGraph,
        weights: &[u64],
        addresses: &FunctionAddresses,
        geometry: &Geometry,
    ) -> Self {
        let touches = page_changes(graph, weights, &TouchedPages::new(addresses, geometry.page));
        let touched: Vec<f64> =
            touches.iter().filter(|touches| **touches > 0).map(|touches| *touches as f64).collect();
        // Not `sum`, which is -0 for an empty sequence.
        let page_changes = touched.iter().fold(0.0, |sum, touches| sum + touches);
        let rates: Vec<f64> = touched.iter().map(|touches| touches / page_changes).collect();
        let missing = missing_share(&rates, f64::from(geometry.tlb_entries.max(1)));
        Self { pages: touched.len() as u64, page_changes, misses: page_changes * missing }
    }
}

/// Number of changes to each page.
pub(super) fn page_changes(graph: &CallGraph, weights: &[u64], pages: &TouchedPages) -> Vec<u128> {
    let mut touches = vec![0u128; pages.count()];
    let mut change = |from: Option<usize>, to: usize, weight: u64| {
        if from != Some(to) {
            touches[to] += u128::from(weight);
        }
    };
    let mut unexplained = weights.to_vec();
    for edge in graph.edges() {
        let [_, caller] = pages.of(edge.caller);
        let [start, middle] = pages.of(edge.callee);
        change(Some(caller), start, edge.weight);
        change(Some(start), middle, edge.weight);
        change(Some(middle), caller, edge.weight);
        unexplained[edge.callee.index()] -= edge.weight;
    }
    for (function, &weight) in graph.ids().zip(&unexplained) {
        let [start, middle] = pages.of(function);
        change(None, start, weight);
        change(Some(start), middle, weight);
    }
    touches
}

/// Share of independent touches with these rates that miss, by Che's approximation.
pub(super) fn missing_share(rates: &[f64], entries: f64) -> f64 {
    if rates.len() as f64 <= entries {
        return 0.0;
    }
    let held = |time: f64| rates.iter().map(|rate| 1.0 - exp_of_minus(rate * time)).sum::<f64>();
    let time = characteristic_time(entries, held);
    rates.iter().map(|rate| rate * exp_of_minus(rate * time)).sum()
}

/// Time for which an unused entry survives: the time at which the number of `held` pages equals the number of entries.
/// `held` must ascend.
pub(super) fn characteristic_time(entries: f64, held: impl Fn(f64) -> f64) -> f64 {
    const DOUBLINGS: usize = 200;
    const HALVINGS: usize = 100;
    let mut long = entries;
    for _ in 0..DOUBLINGS {
        if held(long) >= entries {
            break;
        }
        long *= 2.0;
    }
    let mut short = 0.0;
    for _ in 0..HALVINGS {
        let time = f64::midpoint(short, long);
        if held(time) < entries { short = time } else { long = time }
    }
    long
}

/// e^-x for x ≥ 0, with about 12 digits, computed by operations that have the same bits on every machine.
pub(super) fn exp_of_minus(x: f64) -> f64 {
    const SQUARINGS: i32 = 14;
    const TERMS: i32 = 8;
    if x > 700.0 {
        return 0.0;
    }
    let small = x / f64::from(1 << SQUARINGS);
    let mut power = 1.0;
    for term in (1..=TERMS).rev() {
        power = 1.0 - power * small / f64::from(term);
    }
    for _ in 0..SQUARINGS {
        power *= power;
    }
    power
}

impl TlbReplay {
    pub(super) fn of(trace: &Trace, addresses: &FunctionAddresses, geometry: &Geometry) -> Self {
        let pages = TouchedPages::new(addresses, geometry.page);
        let mut others: HashMap<FunctionId, usize> = HashMap::new();
        for function in trace.functions.iter().filter(|function| !addresses.has(**function)) {
            let next = pages.count() + others.len();
            others.entry(*function).or_insert(next);
        }
        let mut recent = RecentPages::new(pages.count() + others.len(), geometry.tlb_entries.max(1));
        let mut replay = Self { pages: 0, page_changes: 0, misses: 0, outside: 0 };
        let mut here = None;
        for function in &trace.functions {
            let other = others.get(function).copied();
            for page in other.map_or_else(|| pages.of(*function), |page| [page; 2]) {
                if here != Some(page) {
                    here = Some(page);
                    let missed = u64::from(!recent.touch(page));
                    replay.page_changes += 1;
                    replay.misses += missed;
                    replay.outside += if other.is_some() { missed } else { 0 };
                }
            }
        }
        replay.pages = recent.touched.iter().filter(|touched| **touched).count() as u64;
        replay
    }
}

/// Most recently touched pages, as a ring from the most to the least recent; an extra last position is its entrance.
struct RecentPages {
    /// By page, and one more for the ends of the ring: the page touched just before, and just after.
    older: Vec<usize>,
    newer: Vec<usize>,
    held: Vec<bool>,
    touched: Vec<bool>,
    free: u32,
}

impl RecentPages {
    fn new(pages: usize, entries: u32) -> Self {
        Self {
            older: vec![pages; pages + 1],
            newer: vec![pages; pages + 1],
            held: vec![false; pages],
            touched: vec![false; pages],
            free: entries,
        }
    }

    /// Makes a page the most recent one; true if it was in the TLB.
    fn touch(&mut self, page: usize) -> bool {
        let ends = self.older.len() - 1;
        let hit = self.held[page];
        if hit {
            self.take_out(page);
        } else if self.free > 0 {
            self.free -= 1;
        } else {
            let oldest = self.newer[ends];
            self.take_out(oldest);
            self.held[oldest] = false;
        }
        let newest = self.older[ends];
        self.older[page] = newest;
        self.newer[newest] = page;
        self.newer[page] = ends;
        self.older[ends] = page;
        self.held[page] = true;
        self.touched[page] = true;
        hit
    }

    fn take_out(&mut self, page: usize) {
        let (older, newer) = (self.older[page], self.newer[page]);
        self.newer[older] = newer;
        self.older[newer] = older;
    }
}

#[cfg(test)]
mod tests {
    use super::exp_of_minus;

    #[test]
    fn the_exponential_is_one() {
        for x in [0.0, 1e-9, 0.3, 1.0, 5.0, 40.0, 300.0] {
            let (ours, theirs) = (exp_of_minus(x), (-x).exp());
            assert!((ours - theirs).abs() <= 1e-10 * theirs, "{x}: {ours} {theirs}");
        }
        assert_eq!(exp_of_minus(1e9), 0.0);
    }
}
