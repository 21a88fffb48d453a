// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scores of an order: predictions about a layout before anything is linked. All are pure functions.
//!
//! [`score`] and [`core_misses`] use only a call graph, [`replay`] and [`core_replay`] a recorded trace,
//! [`start_faults`] a recorded start. The scores are models, and they may disagree: an order with shorter calls can
//! touch more pages. Each module documents its assumptions and limits.
//!
//! All of them take an [`AssumedLayout`]. An order places the functions one after the other, each at a multiple of
//! [`Geometry::alignment`]; functions that are not in the order follow by id, because a linker does not move unlisted
//! ones. A linked file has addresses. Only [`forecast`](mod@forecast) predicts the gain of a program, including the
//! code that the order does not move. Sums are computed in the order of edges, functions or pages, and only with
//! operations that IEEE 754 defines exactly, so a score has the same bits on every machine.

pub(crate) mod addresses;
mod caches;
pub mod cores;
mod distance;
mod faults;
pub mod forecast;
mod pages;
mod tlb;

pub use addresses::AssumedLayout;
pub use caches::CoreMisses;
pub use distance::CallDistance;
pub(crate) use distance::closeness;
pub use faults::StartFaults;
pub use pages::{HOT_SHARES, HotPages};
pub use tlb::{TlbEstimate, TlbReplay};

use addresses::FunctionAddresses;
use cores::Core;
use sediment_core::callgraph::{CallGraph, FunctionId, Trace};

/// The memory for which orders are scored. A value of 0 counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Alignment of functions, in bytes.
    pub alignment: u64,
    /// Size of a page in bytes.
    pub page: u64,
    /// Size of a huge page in bytes.
    pub huge_page: u64,
    /// Number of entries of the instruction TLB, one page each.
    pub tlb_entries: u32,
}

impl Geometry {
    /// 16-byte alignment, pages of 4 KiB and 2 MiB, 64 TLB entries: common on x86-64. These are not the values of the
    /// current machine, so that orders are the same everywhere.
    pub const COMMON: Self = Self { alignment: 16, page: 4096, huge_page: 2 << 20, tlb_entries: 64 };

    /// Number of evenly spaced offsets in a page at which the first function is assumed to begin: the real offset is
    /// unknown before linking.
    pub(crate) const PHASES: u64 = 4;
}

impl Default for Geometry {
    /// [`Self::COMMON`].
    fn default() -> Self {
        Self::COMMON
    }
}

/// Score of an order by a call graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Distances of calls.
    pub call_distance: CallDistance,
    /// Number of pages with the hot functions.
    pub hot_pages: HotPages,
    /// The same for pages of 16 KiB and 64 KiB, which other architectures have, and for huge pages.
    pub hot_larger_pages: [HotPages; 3],
    /// Estimated misses of the instruction TLB.
    pub tlb: TlbEstimate,
}

/// Scores a layout of a graph's functions.
///
/// Ids that are not in the graph, and repeated ids, are ignored.
#[must_use]
pub fn score<'a>(graph: &CallGraph, layout: impl Into<AssumedLayout<'a>>, geometry: &Geometry) -> Score {
    let addresses = FunctionAddresses::of(graph, layout.into(), geometry.alignment);
    let weights = run_weights(graph);
    Score {
        call_distance: CallDistance::of(graph, &addresses),
        hot_pages: HotPages::of(&weights, &addresses, geometry.page),
        hot_larger_pages: [16 << 10, 64 << 10, geometry.huge_page]
            .map(|page| HotPages::of(&weights, &addresses, page)),
        tlb: TlbEstimate::of(graph, &weights, &addresses, geometry),
    }
}

/// Replays a trace with an order, and counts the events of the instruction TLB. Sizes come from the graph.
#[must_use]
pub fn replay<'a>(
    trace: &Trace,
    graph: &CallGraph,
    layout: impl Into<AssumedLayout<'a>>,
    geometry: &Geometry,
) -> TlbReplay {
    TlbReplay::of(trace, &FunctionAddresses::of(graph, layout.into(), geometry.alignment), geometry)
}

/// Estimates the misses of a core with an order, from a call graph.
#[must_use]
pub fn core_misses<'a>(
    graph: &CallGraph,
    layout: impl Into<AssumedLayout<'a>>,
    core: &Core,
    geometry: &Geometry,
) -> CoreMisses {
    let addresses = FunctionAddresses::of(graph, layout.into(), geometry.alignment);
    CoreMisses::estimated(graph, &run_weights(graph), &addresses, core, geometry)
}

/// Replays a trace with an order, and counts the misses of a core. Sizes come from the graph.
#[must_use]
pub fn core_replay<'a>(
    trace: &Trace,
    graph: &CallGraph,
    layout: impl Into<AssumedLayout<'a>>,
    core: &Core,
    geometry: &Geometry,
) -> CoreMisses {
    CoreMisses::counted(
        trace,
        &FunctionAddresses::of(graph, layout.into(), geometry.alignment),
        core,
        geometry.page,
    )
}

/// Returns the page faults of a start with an order; `functions` are in order of first use. Functions that are not in
/// the graph, and repeated ones, are ignored.
#[must_use]
pub fn start_faults<'a>(
    start: &[FunctionId],
    graph: &CallGraph,
    layout: impl Into<AssumedLayout<'a>>,
    geometry: &Geometry,
) -> StartFaults {
    StartFaults::of(start, &FunctionAddresses::of(graph, layout.into(), geometry.alignment), geometry)
}

/// Executions of each function: its weight, but at least the number of calls to it.
pub(crate) fn run_weights(graph: &CallGraph) -> Vec<u64> {
    let mut incoming = vec![0u64; graph.len()];
    for edge in graph.edges() {
        incoming[edge.callee.index()] += edge.weight;
    }
    incoming.iter().zip(graph.weights()).map(|(&seen, &given)| seen.max(given)).collect()
}
