// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the TLBs and the instruction cache of a known core miss: counted from a trace, or estimated from a call graph. Units (pages,
//! lines) compete within their set, which their address chooses; the least recently used one makes room.
//!
//! **A run of a function** touches the page of its start and that of its middle, as in [`super::TlbReplay`]; and the lines from its start
//! on, as far as its middle, but no more than [`LINES`] of them: long functions are mostly left early. A function outside of the graph
//! has a page of its own, and of it [`LINES_OUTSIDE`] lines: its size is not known.
//!
//! **The estimate** takes each touch to be independent of those before, and each set for itself: Che's approximation, as for
//! [`super::TlbEstimate`]. It ranks orders and forecasts no count.

use super::Geometry;
use super::cores::{Core, LINE, Sets};
use super::placement::Placement;
use super::tlb::{TouchedPages, missing_share, page_changes};
use crate::graph::{CallGraph, FunctionId, Trace};
use std::collections::{BTreeMap, HashMap};

/// The most lines that a run is taken to touch.
pub(super) const LINES: u64 = 16;
/// The lines of a function whose size is not known.
pub(super) const LINES_OUTSIDE: u64 = 4;

/// What a core misses of an order; in the unit of the graph's weights where it is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CoreMisses {
    /// Misses of the first-level instruction TLB.
    pub itlb: f64,
    /// Those of them that the second level misses, too: walks of the page table.
    pub walks: f64,
    /// Misses of the first-level instruction cache.
    pub l1i: f64,
}

impl CoreMisses {
    /// Counts over a trace.
    pub(super) fn counted(trace: &Trace, placement: &Placement, core: &Core, page: u64) -> Self {
        let page = page.max(1);
        let end = placement.end();
        let first_outside = end / page + 1;
        let mut others: HashMap<FunctionId, u64> = HashMap::new();
        let (mut itlb, mut second, mut l1i) =
            (Recent::new(core.itlb), Recent::new(core.second_tlb), Recent::new(core.l1i));
        let (mut here, mut line_before) = (None, None);
        for &function in &trace.functions {
            let (pages, lines) = if placement.has(function) {
                let start = placement.start(function);
                let middle = start + placement.size(function) / 2;
                ([start / page, middle / page], lines_of(placement, function))
            } else {
                let next = first_outside + others.len() as u64;
                let number = *others.entry(function).or_insert(next);
                let first = number * (page / LINE).max(1);
                ([number; 2], first..first + LINES_OUTSIDE)
            };
            for number in pages {
                if here != Some(number) {
                    here = Some(number);
                    if !itlb.touch(number) {
                        second.touch(number);
                    }
                }
            }
            for line in lines {
                if line_before != Some(line) {
                    line_before = Some(line);
                    l1i.touch(line);
                }
            }
        }
        Self { itlb: itlb.misses as f64, walks: second.misses as f64, l1i: l1i.misses as f64 }
    }

    /// Estimates from a call graph.
    pub(super) fn estimated(
        graph: &CallGraph,
        weights: &[u64],
        placement: &Placement,
        core: &Core,
        geometry: &Geometry,
    ) -> Self {
        let pages = TouchedPages::new(placement, geometry.page);
        let mut touches: BTreeMap<u64, u128> = BTreeMap::new();
        for (number, count) in page_changes(graph, weights, &pages).into_iter().enumerate() {
            if count > 0 {
                touches.insert(pages.address_of(number), count);
            }
        }
        let mut lines: BTreeMap<u64, u128> = BTreeMap::new();
        for function in graph.ids().filter(|function| weights[function.index()] > 0) {
            for line in lines_of(placement, function) {
                *lines.entry(line).or_default() += u128::from(weights[function.index()]);
            }
        }
        for edge in graph.edges() {
            *lines.entry(placement.middle(edge.caller) / LINE).or_default() += u128::from(edge.weight);
        }
        let [itlb, walks] = [core.itlb, core.second_tlb].map(|sets| missed(&touches, sets));
        Self { itlb, walks: walks.min(itlb), l1i: missed(&lines, core.l1i) }
    }
}

/// The lines that a run of a function touches.
fn lines_of(placement: &Placement, function: FunctionId) -> std::ops::Range<u64> {
    let start = placement.start(function);
    let first = start / LINE;
    first..(first + LINES).min((start + placement.size(function) / 2) / LINE + 1)
}

/// How many of these touches miss, each set by Che's approximation.
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

/// The units that were touched last, set by set.
struct Recent {
    /// Of each set, the most recent last.
    sets: Vec<Vec<u64>>,
    ways: usize,
    misses: u64,
}

impl Recent {
    fn new(sets: Sets) -> Self {
        Self { sets: vec![Vec::new(); sets.sets() as usize], ways: sets.ways.max(1) as usize, misses: 0 }
    }

    /// Makes a unit the most recent of its set; whether it was held.
    fn touch(&mut self, number: u64) -> bool {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(number % count) as usize];
        // From the back, where most of what is touched stands.
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

#[cfg(test)]
mod tests {
    use super::super::{core_misses, core_replay, replay};
    use super::*;
    use crate::graph::CallEdge;

    fn core(itlb: (u32, u32), l1i: (u32, u32)) -> Core {
        let sets = |(units, ways)| Sets { units, ways };
        Core { name: "", summary: "", itlb: sets(itlb), second_tlb: sets((8, 8)), l1i: sets(l1i) }
    }

    fn trace(steps: &[u32]) -> Trace {
        Trace { functions: steps.iter().copied().map(FunctionId).collect(), breaks: Vec::new() }
    }

    fn pages(count: usize) -> CallGraph {
        CallGraph::new(vec![4096; count], vec![0; count], Vec::new()).unwrap()
    }

    #[test]
    fn pages_of_one_set_push_each_other_out() {
        // Two sets of one way: 0 and 2 share one, 1 has the other.
        let narrow = core((2, 1), (512, 8));
        let misses =
            |steps: &[u32]| core_replay(&trace(steps), &pages(4), &[], &narrow, &Geometry::default());
        assert_eq!(misses(&[0, 1, 0, 1]).itlb, 2.0);
        let fought = misses(&[0, 2, 0, 2]);
        assert_eq!((fought.itlb, fought.walks), (4.0, 2.0), "the second level holds both");
    }

    #[test]
    fn fully_associative_is_what_the_other_replay_counts() {
        let steps: Vec<u32> = (0..4000u32).map(|step| step.wrapping_mul(2_654_435_761) >> 27).collect();
        let graph = CallGraph::new(vec![1500; 30], vec![0; 30], Vec::new()).unwrap();
        let geometry = Geometry { tlb_entries: 4, ..Geometry::default() };
        let theirs = replay(&trace(&steps), &graph, &[], &geometry);
        let ours = core_replay(&trace(&steps), &graph, &[], &core((4, 4), (512, 8)), &geometry);
        assert_eq!(ours.itlb, theirs.misses as f64);
    }

    #[test]
    fn lines_are_counted_from_start_to_middle() {
        // Lines 0 and 1; then of the second, which is long, 16 from line 4 on.
        let graph = CallGraph::new(vec![256, 1 << 16], vec![0; 2], Vec::new()).unwrap();
        let steps = trace(&[0, 0, 1, 0]);
        let large = core_replay(&steps, &graph, &[], &core((8, 8), (512, 8)), &Geometry::default());
        assert_eq!(large.l1i, 3.0 + 16.0);
        let small = core_replay(&steps, &graph, &[], &core((8, 8), (4, 4)), &Geometry::default());
        assert_eq!(small.l1i, 3.0 + 16.0 + 3.0, "pushed out by the long one");
    }

    #[test]
    fn estimates_rank_as_counts_do() {
        // Forty pairs of half a page, paired or torn apart.
        let edge = |pair: u32| CallEdge {
            caller: FunctionId(2 * pair),
            callee: FunctionId(2 * pair + 1),
            weight: 100,
        };
        let graph = CallGraph::new(vec![2048; 80], vec![100; 80], (0..40).map(edge).collect()).unwrap();
        let torn: Vec<FunctionId> = (0..80).step_by(2).chain((1..80).step_by(2)).map(FunctionId).collect();
        let small = core((16, 4), (64, 8));
        let [paired, torn] =
            [&[][..], &torn].map(|order| core_misses(&graph, order, &small, &Geometry::default()));
        assert!(paired.itlb < 0.7 * torn.itlb, "{paired:?} {torn:?}");
        assert!(paired.walks <= paired.itlb && paired.l1i > 0.0);
        assert_eq!(
            core_misses(&CallGraph::default(), &[], &small, &Geometry::default()),
            CoreMisses::default()
        );
    }
}
