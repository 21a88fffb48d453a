// SPDX-License-Identifier: MIT OR Apache-2.0
//! Misses of a known core's TLBs and instruction cache: counted from a trace, or estimated from a call graph. Units
//! (pages, lines) compete within their set, which their address selects; the least recently used one is evicted.
//!
//! **Pages**: a run of a function touches the page of its start and the page of its middle, as in [`super::TlbReplay`].
//!
//! **Lines**: a function that begins to run touches its first [`LINES`] lines. A function that continues after a call
//! touches the same number of lines from its last touched line on, up to its end. A trace does not distinguish the two
//! cases, so a heuristic decides: a function continues if it is one of the last [`DEPTH`] functions that began and have
//! not returned. Touching all lines up to the middle each time ranked orders no better than chance.
//!
//! A function outside the graph has a page of its own and the lines of a function of [`BYTES_OUTSIDE`] bytes, because
//! its size and address are not known. Such functions are one line apart.
//!
//! **The estimate** assumes that touches are independent and treats each set separately, with Che's approximation as in
//! [`super::TlbEstimate`]. It ranks orders, but does not predict counts.

use super::Geometry;
use super::addresses::FunctionAddresses;
use super::cores::{Core, LINE, Sets};
use super::tlb::{TouchedPages, missing_share, page_changes};
use sediment_core::callgraph::{CallGraph, FunctionId, Trace};
use std::collections::{BTreeMap, HashMap};

/// Number of lines that a function touches each time that it begins or continues.
const LINES: u64 = 4;
/// Number of functions that are remembered as callers.
const DEPTH: usize = 12;
/// Assumed size of a function of unknown size.
const BYTES_OUTSIDE: u64 = 512;

/// Misses of a core with an order; estimates have the unit of the graph's weights.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CoreMisses {
    /// Misses of the first-level instruction TLB.
    pub itlb: f64,
    /// Misses of both levels, which cause walks of the page table.
    pub walks: f64,
    /// Misses of the first-level instruction cache.
    pub l1i: f64,
}

impl CoreMisses {
    /// Counts the misses in a trace.
    pub(super) fn counted(trace: &Trace, addresses: &FunctionAddresses, core: &Core, page: u64) -> Self {
        let page = page.max(1);
        let end = addresses.end();
        let first_outside = end / page + 1;
        let mut others: HashMap<FunctionId, u64> = HashMap::new();
        let (mut itlb, mut second, mut l1i) =
            (Recent::new(core.itlb), Recent::new(core.second_tlb), Recent::new(core.l1i));
        let mut here = None;
        let mut callers = Callers::default();
        for &function in &trace.functions {
            let (pages, start, size) = if addresses.has(function) {
                let (start, size) = (addresses.start(function), addresses.size(function));
                ([start, start + size / 2].map(|address| address / page), start, size)
            } else {
                let next = others.len() as u64;
                let number = *others.entry(function).or_insert(next);
                (
                    [first_outside + number; 2],
                    first_outside * page + number * (BYTES_OUTSIDE + LINE),
                    BYTES_OUTSIDE,
                )
            };
            for number in pages {
                if here != Some(number) {
                    here = Some(number);
                    if !itlb.touch(number) {
                        second.touch(number);
                    }
                }
            }
            let last = (start + size.max(1) - 1) / LINE;
            let from = callers.step(function).unwrap_or(start / LINE).min(last);
            let until = (from + LINES - 1).min(last);
            for line in from..=until {
                l1i.touch(line);
            }
            callers.left_at(until);
        }
        Self { itlb: itlb.misses as f64, walks: second.misses as f64, l1i: l1i.misses as f64 }
    }

    /// Estimates the misses from a call graph.
    pub(super) fn estimated(
        graph: &CallGraph,
        weights: &[u64],
        addresses: &FunctionAddresses,
        core: &Core,
        geometry: &Geometry,
    ) -> Self {
        let pages = TouchedPages::new(addresses, geometry.page);
        let mut touches: BTreeMap<u64, u128> = BTreeMap::new();
        for (number, count) in page_changes(graph, weights, &pages).into_iter().enumerate() {
            if count > 0 {
                touches.insert(pages.address_of(number), count);
            }
        }
        let mut lines: BTreeMap<u64, u128> = BTreeMap::new();
        let mut touch = |from: u64, function: FunctionId, weight: u64| {
            let last = (addresses.start(function) + addresses.size(function).max(1) - 1) / LINE;
            for line in from / LINE..=(from / LINE + LINES - 1).min(last) {
                *lines.entry(line).or_default() += u128::from(weight);
            }
        };
        for function in graph.ids().filter(|function| weights[function.index()] > 0) {
            touch(addresses.start(function), function, weights[function.index()]);
        }
        for edge in graph.edges() {
            touch(addresses.middle(edge.caller), edge.caller, edge.weight);
        }
        let [itlb, walks] = [core.itlb, core.second_tlb].map(|sets| missed(&touches, sets));
        Self { itlb, walks: walks.min(itlb), l1i: missed(&lines, core.l1i) }
    }
}

/// Functions that began and have not returned, as far as the trace shows, and the last touched line of each.
#[derive(Debug, Default)]
struct Callers(Vec<(FunctionId, u64)>);

impl Callers {
    /// Handles a run of a function. Returns the line at which it continues; `None` if it begins.
    fn step(&mut self, function: FunctionId) -> Option<u64> {
        if let Some(place) = self.0.iter().rposition(|(caller, _)| *caller == function) {
            self.0.truncate(place + 1);
            return self.0.last().map(|(_, line)| *line);
        }
        if self.0.len() == DEPTH {
            self.0.remove(0);
        }
        self.0.push((function, 0));
        None
    }

    /// Sets the last touched line of the running function.
    fn left_at(&mut self, line: u64) {
        if let Some((_, left)) = self.0.last_mut() {
            *left = line;
        }
    }
}

/// Number of these touches that miss, by Che's approximation for each set.
fn missed(touches: &BTreeMap<u64, u128>, sets: Sets) -> f64 {
    let mut by_set: Vec<Vec<f64>> = vec![Vec::new(); sets.sets() as usize];
    for (number, count) in touches {
        by_set[(number % u64::from(sets.sets())) as usize].push(*count as f64);
    }
    by_set
        .iter()
        .map(|counts| {
            let all: f64 = counts.iter().sum();
            let rates: Vec<f64> = counts.iter().map(|count| count / all).collect();
            all * missing_share(&rates, f64::from(sets.ways.max(1)))
        })
        .sum()
}

/// Most recently touched units by set.
struct Recent {
    /// By set, the most recent last.
    sets: Vec<Vec<u64>>,
    ways: usize,
    misses: u64,
}

impl Recent {
    fn new(sets: Sets) -> Self {
        Self { sets: vec![Vec::new(); sets.sets() as usize], ways: sets.ways.max(1) as usize, misses: 0 }
    }

    /// Makes a unit the most recent of its set; true if it was in the set.
    fn touch(&mut self, number: u64) -> bool {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(number % count) as usize];
        // From the end, where most touched units are.
        let held = set.iter().rposition(|held| *held == number);
        match held {
            Some(place) => {
                set.remove(place);
            }
            None => {
                self.misses += 1;
                if set.len() == self.ways {
                    set.remove(0);
                }
            }
        }
        set.push(number);
        held.is_some()
    }
}
