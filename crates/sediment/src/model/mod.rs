// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pure scores of an order: what a layout should do, before anything is linked.
//!
//! [`score`] looks at a call graph alone, [`replay`] at a recorded trace. No score is the truth, and they disagree: an
//! order with shorter calls can touch more pages. What each assumes, and what it therefore cannot see, stands with it.
//!
//! All of them lay the functions out one behind the other in the given order, each at a multiple of
//! [`Geometry::alignment`]. Functions that the order leaves out follow by id, as a linker leaves unlisted ones where they
//! are. Sums run in the order of edges, functions or pages, and only over operations that IEEE 754 fixes, so a score
//! has the same bits on every machine.

mod distance;
mod pages;
pub(crate) mod placement;
mod tlb;

pub use distance::CallDistance;
pub(crate) use distance::closeness;
pub use pages::{HOT_SHARES, HotPages};
pub use tlb::{TlbEstimate, TlbReplay};

use crate::graph::{CallGraph, FunctionId, Trace};
use placement::Placement;

/// The memory that orders are scored on. A value of 0 counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// What each function's address is a multiple of, in bytes.
    pub alignment: u64,
    /// Bytes of a page.
    pub page: u64,
    /// Bytes of a huge page.
    pub huge_page: u64,
    /// How many pages the instruction TLB holds.
    pub tlb_entries: u32,
}

impl Default for Geometry {
    /// 16-byte alignment, pages of 4 KiB and 2 MiB, 64 TLB entries: common on x86-64. Not this machine's own.
    fn default() -> Self {
        Self { alignment: 16, page: 4096, huge_page: 2 << 20, tlb_entries: 64 }
    }
}

/// What an order is worth by a call graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// How far calls reach.
    pub call_distance: CallDistance,
    /// On how many pages the hot functions lie.
    pub hot_pages: HotPages,
    /// The same for huge pages.
    pub hot_huge_pages: HotPages,
    /// How often the instruction TLB should miss.
    pub tlb: TlbEstimate,
}

/// Scores an order of the graph's functions.
///
/// Ids that the graph does not have, and repeated ones, count for nothing.
#[must_use]
pub fn score(graph: &CallGraph, order: &[FunctionId], geometry: &Geometry) -> Score {
    let placement = Placement::new(graph, order, geometry.alignment);
    let weights = run_weights(graph);
    Score {
        call_distance: CallDistance::of(graph, &placement),
        hot_pages: HotPages::of(&weights, &placement, geometry.page),
        hot_huge_pages: HotPages::of(&weights, &placement, geometry.huge_page),
        tlb: TlbEstimate::of(graph, &weights, &placement, geometry),
    }
}

/// Runs a trace through an order and counts what the instruction TLB does. Sizes are those of the graph.
#[must_use]
pub fn replay(trace: &Trace, graph: &CallGraph, order: &[FunctionId], geometry: &Geometry) -> TlbReplay {
    TlbReplay::of(trace, &Placement::new(graph, order, geometry.alignment), geometry)
}

/// How often each function runs: its weight, but no less than the calls to it.
fn run_weights(graph: &CallGraph) -> Vec<u64> {
    let mut incoming = vec![0u64; graph.len()];
    for edge in graph.edges() {
        incoming[edge.callee.index()] += edge.weight;
    }
    incoming.iter().zip(graph.weights()).map(|(&seen, &given)| seen.max(given)).collect()
}
