// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pure scores of an order: what a layout should do, before anything is linked.
//!
//! [`score`] and [`core_misses`] look at a call graph alone, [`replay`] and [`core_replay`] at a recorded trace, [`start_faults`] at a
//! recorded start. No score is the truth, and they disagree: an
//! order with shorter calls can touch more pages. What each assumes, and what it therefore cannot see, stands with it.
//!
//! All of them take a [`AssumedLayout`]. An order lays the functions out one behind the other, each at a multiple of
//! [`Geometry::alignment`]. Functions that are not in the order follow by id, as a linker leaves unlisted ones where
//! they are. A linked file has addresses. [`forecast`](mod@forecast) alone says how much a program will gain, with the code that the order
//! does not move. Sums run in the order of edges, functions or pages, and only over operations that IEEE 754 fixes, so a
//! score has the same bits on every machine.

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

/// The memory that orders are scored on. A value of 0 counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Alignment of functions, in bytes.
    pub alignment: u64,
    /// Bytes of a page.
    pub page: u64,
    /// Bytes of a huge page.
    pub huge_page: u64,
    /// Entries of the instruction TLB, one page each.
    pub tlb_entries: u32,
}

impl Geometry {
    /// 16-byte alignment, pages of 4 KiB and 2 MiB, 64 TLB entries: common on x86-64. Not this machine's own, so that orders made
    /// by it are the same everywhere.
    pub const COMMON: Self = Self { alignment: 16, page: 4096, huge_page: 2 << 20, tlb_entries: 64 };

    /// Number of offsets in a page at which the first function is assumed to begin, evenly spaced: the real one is
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
    /// On how many pages the hot functions lie.
    pub hot_pages: HotPages,
    /// The same for pages of 16 KiB and 64 KiB, as other architectures have them, and for huge pages.
    pub hot_larger_pages: [HotPages; 3],
    /// Estimated misses of the instruction TLB.
    pub tlb: TlbEstimate,
}

/// Scores a layout of the graph's functions.
///
/// Ids that the graph does not have, and repeated ones, count for nothing.
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

/// Runs a trace through an order and counts what the instruction TLB does. Sizes are those of the graph.
#[must_use]
pub fn replay<'a>(
    trace: &Trace,
    graph: &CallGraph,
    layout: impl Into<AssumedLayout<'a>>,
    geometry: &Geometry,
) -> TlbReplay {
    TlbReplay::of(trace, &FunctionAddresses::of(graph, layout.into(), geometry.alignment), geometry)
}

/// Estimates the misses of a core for an order, by a call graph.
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

/// Runs a trace through an order and counts what a core misses. Sizes are those of the graph.
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

/// The page faults of a start, functions in the order of their first use, under an order. Functions that the graph does not
/// have, and repeated ones, count for nothing.
#[must_use]
pub fn start_faults<'a>(
    start: &[FunctionId],
    graph: &CallGraph,
    layout: impl Into<AssumedLayout<'a>>,
    geometry: &Geometry,
) -> StartFaults {
    StartFaults::of(start, &FunctionAddresses::of(graph, layout.into(), geometry.alignment), geometry)
}

/// Executions of each function: its weight, but no less than the calls to it.
pub(crate) fn run_weights(graph: &CallGraph) -> Vec<u64> {
    let mut incoming = vec![0u64; graph.len()];
    for edge in graph.edges() {
        incoming[edge.callee.index()] += edge.weight;
    }
    incoming.iter().zip(graph.weights()).map(|(&seen, &given)| seen.max(given)).collect()
}
