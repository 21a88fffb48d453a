// SPDX-License-Identifier: MIT OR Apache-2.0
//! The affinity layout orders by temporal affinity, if a profile has it, and refines the order if traces of runs are
//! available.
//!
//! **Problem.** Place the functions so that a program touches few pages in any stretch of its run, whatever the size of
//! the instruction TLB, and whatever else uses it.
//!
//! **Steps.**
//! 1. Without a trace: the order by calls and affinity edges (`pair_graph`), unless a classic order has a lower cost.
//!    If the profile has no affinity edges, CDSort's order is used; for graphs on which CDSort is slow, C3's order.
//! 2. With traces: cut them into windows of 12 to 100 pages (`windows`). Of that order and the classic ones take the
//!    one of the lowest cost (`local_search`), over the executed functions; the others follow in the order's
//!    sequence.
//! 3. Change it by a fixed number of moves, each of which lowers the cost on half of the windows.
//! 4. Judge the result on the other half. If it does not cost less there than the best classic order, discard it.
//!
//! **Guarantee.** No returned order costs more than the best classic one: on held-out windows or, without a trace, in
//! affinity edges across two pages. The cost is computed for windows, not for a TLB: it assumes no capacity, and no
//! offset in a page at which the linker will begin.
//!
//! **Ties.** If classic orders have equal costs, the first one in [`CLASSICS`] is used; moves without a gain are not
//! made. Random numbers come from a fixed seed, so the same input gives the same order.
//!
//! **Source.** The windows are the working sets of P. Denning (The Working Set Model for Program Behavior, CACM
//! 11(5), 1968). Placing functions by temporal affinity goes back to N. Gloy and M. Smith (Procedure Placement Using
//! Temporal-Ordering Information, TOPLAS 21(5), 1999). Cost and moves are our own.

mod local_search;
mod pair_graph;
mod windows;

use crate::model::Geometry;
use crate::model::addresses::{FunctionAddresses, clamp_sizes};
use crate::order::algorithms::{
    Algorithm, AlgorithmInput, AlgorithmOptions, C3, CDSORT, HFSORT_PLUS, PETTIS_HANSEN, cdsort,
};
use local_search::LocalSearch;
use sediment_core::callgraph::{CallGraph, FunctionId, Trace};
use windows::{Sampling, WindowStatistics};

/// The classic orders that it compares at the beginning; the first one is the reference.
pub const CLASSICS: &[&Algorithm] = &[CDSORT, C3, HFSORT_PLUS, PETTIS_HANSEN];

/// The order by calls and affinity edges, one of the starting points.
pub const TOGETHER: &Algorithm = &Algorithm {
    name: "near",
    summary: "calls and temporal affinity",
    input: AlgorithmInput::Calls,
    run: pair_graph::order,
};

/// Widths of windows in pages.
const WIDTHS: [u32; 6] = [12, 20, 32, 48, 72, 100];
/// Number of blocks of 64 windows to learn from, for each width.
const BLOCKS: usize = 32;
/// Moves for each executed function, and the limit of all moves.
const MOVES_PER_FUNCTION: u64 = 600;
const MOST_MOVES: u64 = 4_000_000;
/// If a graph has more calls and affinity edges, CDSort is too slow.
const MOST_CALLS: usize = 2_000_000;
/// If a graph has more calls and affinity edges, CDSort forgets calls with little effect, and uses longer chains to
/// compensate.
const MOST_REMEMBERED: usize = 150_000;
const THRIFTY: cdsort::CdsortParameters =
    cdsort::CdsortParameters { longest_chain: 192, prune_ratio: 9, ..cdsort::CdsortParameters::LLD };
/// If a graph has more calls and affinity edges, only the first classic order is compared with [`TOGETHER`].
const MOST_COMPARED: usize = 200_000;
/// Number of neighbours of joined chains that a classic order may look at: about half a second. A graph of 60,000
/// functions with 1,500,000 affinity edges needs half of it; a function with some 30,000 partners exceeds it.
const MOST_LOOKS: u64 = 16_000_000;
/// Alignment of functions, in bytes.
const ALIGNMENT: u64 = Geometry::COMMON.alignment;
/// A larger function counts as this large, because it fills pages of its own at every position.
const LARGEST: u64 = 1 << 18;

/// A run for which the order is computed, and its weight among the runs.
#[derive(Debug, Clone, Copy)]
pub struct WeightedTrace<'a> {
    /// The run, by the ids of the graph; other ids stand for code outside of it.
    pub trace: &'a Trace,
    /// Weight in any unit that is the same for all; 0 counts as 1.
    pub weight: u64,
}

/// An order and its forecast.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedOrder {
    /// All functions of the graph.
    pub order: Vec<FunctionId>,
    /// The order that it began with: one of [`CLASSICS`], [`TOGETHER`], or the order of the chosen algorithm.
    pub start: &'static Algorithm,
    /// The cost on held-out windows, as a share of the cost of that order; 1 if the search found no lasting gain.
    /// Without traces: affinity edges across two pages, as a share of those in the best classic order; 1 if there are
    /// none.
    pub cost: f64,
}

impl ExpectedOrder {
    /// By how many percent the cost is below the classic order's, rounded down.
    #[must_use]
    pub fn gain_in_percent(&self) -> u8 {
        ((1.0 - self.cost) * 100.0) as u8
    }
}

/// Orders the functions of a graph.
#[must_use]
pub fn order(graph: &CallGraph, workloads: &[WeightedTrace<'_>]) -> ExpectedOrder {
    if workloads.is_empty() {
        return by_profile(graph);
    }
    let traces: Vec<&Trace> = workloads.iter().map(|workload| workload.trace).collect();
    let reference = begun(graph, CLASSICS[0]);
    let sampling = Sampling { widths: &WIDTHS, blocks: BLOCKS };
    let observed = windows::observe(&traces, &pages(graph, &reference), &sampling);
    let judge = Judge::new(graph, workloads, &observed, &reference);
    let (mut start, mut classic) = (CLASSICS[0], reference.clone());
    let mut least = judge.train(&classic).cost();
    let together = (!graph.affinity().is_empty()).then_some(TOGETHER);
    for other in CLASSICS[1..].iter().copied().chain(together) {
        let order = begun(graph, other);
        let cost = judge.train(&order).cost();
        if cost < least {
            (start, classic, least) = (other, order, cost);
        }
    }
    let mut search = judge.train(&classic);
    let moves = (judge.count as u64 * MOVES_PER_FUNCTION).min(MOST_MOVES);
    search.improve(moves, 1);
    let refined = with_the_rest(search.into_order(), &classic);
    let [before, after] = [&classic, &refined].map(|order| judge.held_out(order).cost());
    if after < before {
        ExpectedOrder { order: refined, start, cost: after as f64 / before as f64 }
    } else {
        ExpectedOrder { order: classic, start, cost: 1.0 }
    }
}

/// Cost of an order on a run, as a share of the cost of the first of [`CLASSICS`]. It shows the effect on one workload
/// of an order for several. Below 1 is better; 1 if the run is too short.
#[must_use]
pub fn cost(graph: &CallGraph, trace: &Trace, order: &[FunctionId]) -> f64 {
    let reference = begun(graph, CLASSICS[0]);
    let sampling = Sampling { widths: &WIDTHS, blocks: BLOCKS };
    let observed = windows::observe(&[trace], &pages(graph, &reference), &sampling);
    let judge = Judge::new(graph, &[WeightedTrace { trace, weight: 1 }], &observed, &reference);
    let [ours, theirs] = [order, &reference].map(|order| judge.train(order).cost());
    if theirs == 0 { 1.0 } else { ours as f64 / theirs as f64 }
}

/// Computes the order from a profile only.
fn by_profile(graph: &CallGraph) -> ExpectedOrder {
    let edges = graph.edges().len() + graph.affinity().len();
    let classics = match edges {
        _ if edges > MOST_CALLS => &[C3][..],
        _ if edges > MOST_COMPARED => &CLASSICS[..1],
        _ => CLASSICS,
    };
    if graph.affinity().is_empty() || edges > MOST_CALLS {
        return ExpectedOrder { order: begun(graph, classics[0]), start: classics[0], cost: 1.0 };
    }
    let apart = |order: &[FunctionId]| pair_graph::apart(graph, order, ALIGNMENT);
    let (mut start, mut order) = (TOGETHER, begun(graph, TOGETHER));
    let mut least = apart(&order);
    let mut best_classic = u128::MAX;
    for &classic in classics {
        let other = begun(graph, classic);
        let cost = apart(&other);
        best_classic = best_classic.min(cost);
        if cost < least {
            (start, order, least) = (classic, other, cost);
        }
    }
    let cost = if best_classic > 0 { least as f64 / best_classic as f64 } else { 1.0 };
    ExpectedOrder { order, start, cost }
}

/// Computes the initial order of an algorithm.
fn begun(graph: &CallGraph, algorithm: &Algorithm) -> Vec<FunctionId> {
    let is_large = graph.edges().len() + graph.affinity().len() > MOST_REMEMBERED;
    let cdsort = if is_large { THRIFTY } else { cdsort::CdsortParameters::LLD };
    (algorithm.run)(
        graph,
        &AlgorithmOptions { most_looks: Some(MOST_LOOKS), cdsort, ..AlgorithmOptions::default() },
    )
}

/// The pages of each function's start and middle.
fn pages(graph: &CallGraph, order: &[FunctionId]) -> Vec<[u32; 2]> {
    const PAGE: u64 = Geometry::COMMON.page;
    let sizes: Vec<u64> = graph.sizes().iter().map(|size| (*size).min(LARGEST)).collect();
    let addresses = FunctionAddresses::of_sizes(sizes, order, ALIGNMENT);
    graph
        .ids()
        .map(|function| {
            [addresses.start(function), addresses.middle(function)].map(|address| (address / PAGE) as u32)
        })
        .collect()
}

/// Returns the functions of a search, then the functions of another order that it does not have.
fn with_the_rest(order: Vec<u32>, other: &[FunctionId]) -> Vec<FunctionId> {
    let mut placed = vec![false; other.len()];
    for &function in &order {
        placed[function as usize] = true;
    }
    let rest = other.iter().copied().filter(|function| !placed[function.index()]);
    order.iter().copied().map(FunctionId).chain(rest).collect()
}

/// Judges orders by activity windows.
struct Judge<'a> {
    observed: &'a WindowStatistics,
    sizes: Vec<u64>,
    /// Number of executed functions.
    count: usize,
    train: Vec<i64>,
    held_out: Vec<i64>,
}

impl<'a> Judge<'a> {
    fn new(
        graph: &CallGraph,
        workloads: &[WeightedTrace<'_>],
        observed: &'a WindowStatistics,
        reference: &[FunctionId],
    ) -> Self {
        let sizes = clamp_sizes(graph.sizes())
            .iter()
            .map(|size| size.clamp(&1, &LARGEST).next_multiple_of(ALIGNMENT))
            .collect();
        let count = observed.executed.iter().filter(|executed| **executed).count();
        let mut judge = Self { observed, sizes, count, train: Vec::new(), held_out: Vec::new() };
        let shares = |bands: &[windows::Band]| -> Vec<f64> {
            let all: f64 = workloads.iter().map(|workload| workload.weight.max(1) as f64).sum();
            bands.iter().map(|band| workloads[band.workload].weight.max(1) as f64 / all).collect()
        };
        judge.train = judge.train(reference).balanced(&shares(&observed.train.bands));
        judge.held_out = judge.held_out(reference).balanced(&shares(&observed.held_out.bands));
        judge
    }

    fn train(&self, order: &[FunctionId]) -> LocalSearch<'_> {
        let order = self.of_executed(order);
        LocalSearch::new(
            &self.observed.train,
            &self.observed.companions,
            &self.sizes,
            order,
            self.train.clone(),
        )
    }

    fn held_out(&self, order: &[FunctionId]) -> LocalSearch<'_> {
        let order = self.of_executed(order);
        LocalSearch::new(
            &self.observed.held_out,
            &self.observed.companions,
            &self.sizes,
            order,
            self.held_out.clone(),
        )
    }

    fn of_executed(&self, order: &[FunctionId]) -> Vec<u32> {
        order
            .iter()
            .filter(|function| self.observed.executed[function.index()])
            .map(|function| function.0)
            .collect()
    }
}
