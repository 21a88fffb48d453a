// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order by temporal affinity, the best one possible with only a profile.
//!
//! **Problem.** Calls show which functions run one after the other. A program's working set also contains a function
//! executed a little earlier, functions called one after the other, and the caller that continues. The `affinity` of a
//! profile counts these. Place functions by both.
//!
//! **Definitions.** near(u, v): how often v began to run while u was among the last executed; calls(u, v). Both as
//! shares of their sums; then the weight of the edge from u to v is t(u, v) = (near + 0.3 · calls)^⅞. The power reduces
//! the weight of pairs that run all the time, because these are resident at any position. The weight of a function is
//! the sum of the edges to it.
//!
//! **Steps.**
//! 1. [CDSort](crate::order::algorithms::cdsort) of these edges, with chains of up to 512 functions and a frequency
//!    scale of 0.3. There are many edges, and chains of 128 would end among functions that run together.
//! 2. The cost of an order is the share of the affinity edges that are not on one page, over four offsets of the first
//!    function in its page. The cheapest of this order and the classic ones is used.
//!
//! **Ties.** As in CDSort; if orders have equal costs, the first one.
//!
//! **Source.** Weights by nearness in time go back to N. Gloy and M. Smith (TOPLAS 21(5), 1999). The constants were
//! chosen from forty settings by replaying four programs on other inputs than the recorded ones. With powers between ¾
//! and 1, shares of the calls from 0.1 to 0.6, and chains of 256 functions or more, the results differ by less than two
//! per cent.
//!
//! **Rejected variants.** A search that lowers the cost of step 2, even weighted by the time that a page stays in a
//! TLB, made the order worse by 8 to 20 %, because pairs do not show which other pages a window touches. A search that
//! raises CDSort's own sum over calls made it worse by 5 to 9 %, because it puts cold functions into the hot block.

use crate::model::Geometry;
use crate::model::addresses::{FunctionAddresses, clamp_sizes};
use crate::order::algorithms::{AlgorithmOptions, cdsort};
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};

/// Total weight of all calls, as a share of the weight of all affinity edges.
const CALLS_SHARE: f64 = 0.3;
/// Largest number of functions in a chain.
const LONGEST_CHAIN: u32 = 512;
/// Weight of the pages relative to the distances.
const PAGES_SHARE: f64 = 0.3;
/// Approximate sum of the weights of the graph.
const TOTAL: f64 = (1u64 << 50) as f64;
/// Bytes of a page.
const PAGE: u64 = Geometry::COMMON.page;
const PHASES: u64 = Geometry::PHASES;

/// Orders all functions by the edges above. Only the prune ratio of CDSort's parameters is used.
pub(super) fn order(graph: &CallGraph, options: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    let settings = cdsort::CdsortParameters {
        longest_chain: LONGEST_CHAIN,
        frequency_scale: PAGES_SHARE,
        prune_ratio: options.cdsort.prune_ratio,
        ..cdsort::CdsortParameters::LLD
    };
    cdsort::order(&pair_graph(graph), &AlgorithmOptions { cdsort: settings, ..*options })
}

/// Sums the weight of the affinity edges whose ends are on two pages, over every page offset of the first function.
pub(super) fn apart(graph: &CallGraph, order: &[FunctionId], alignment: u64) -> u128 {
    let addresses = FunctionAddresses::of_sizes(clamp_sizes(graph.sizes()), order, alignment);
    let page = |function, phase| (addresses.middle(function) + phase * (PAGE / PHASES)) / PAGE;
    let on_two = |pair: &CallEdge| {
        (0..PHASES).filter(|&phase| page(pair.caller, phase) != page(pair.callee, phase)).count()
    };
    graph.affinity().iter().map(|pair| on_two(pair) as u128 * u128::from(pair.weight)).sum()
}

/// Graph of pairs: calls and affinity edges, weighed together.
fn pair_graph(graph: &CallGraph) -> CallGraph {
    let sum = |edges: &[CallEdge]| edges.iter().map(|edge| edge.weight as f64).sum::<f64>();
    let others = graph.edges().iter().filter(|edge| edge.caller != edge.callee);
    let calls: Vec<CallEdge> = others.copied().collect();
    let (affinity_unit, call_unit) = (1.0 / sum(graph.affinity()), CALLS_SHARE / sum(&calls));
    let mut shares: Vec<(FunctionId, FunctionId, f64)> =
        Vec::with_capacity(graph.affinity().len() + calls.len());
    for (edges, unit) in [(graph.affinity(), affinity_unit), (&calls, call_unit)] {
        shares.extend(edges.iter().map(|edge| (edge.caller, edge.callee, edge.weight as f64 * unit)));
    }
    // The sort is stable, so the near share of each pair comes first, and sums are always rounded in the same way.
    shares.sort_by_key(|(from, to, _)| (*from, *to));
    shares.dedup_by(|later, sampled| {
        let same = (later.0, later.1) == (sampled.0, sampled.1);
        if same {
            sampled.2 += later.2;
        }
        same
    });
    for (_, _, share) in &mut shares {
        *share /= share.sqrt().sqrt().sqrt();
    }
    let unit = TOTAL / shares.iter().map(|(_, _, share)| share).sum::<f64>();
    let mut weights: Vec<u64> = graph.weights().iter().map(|weight| u64::from(*weight > 0)).collect();
    let edges = shares.into_iter().map(|(caller, callee, share)| {
        let weight = (share * unit).ceil() as u64;
        weights[callee.index()] += weight;
        CallEdge { caller, callee, weight }
    });
    let edges = edges.collect();
    // The sums are about TOTAL, and the tables kept their lengths, so these edges are valid if those of `graph` are.
    CallGraph::new(graph.sizes().to_vec(), weights, edges).unwrap_or_else(|_| graph.clone())
}
