// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scores of an order at the start and in the steady state, by a profile or over a recorded run.

use super::groups::GroupingInput;
use crate::model::{self, AssumedLayout, Geometry};
use sediment_core::callgraph::{CallGraph, FunctionId, Trace};

/// Sizes of the TLB, in entries. Misses are summed over them, so that no order is fitted to a single size.
const ENTRIES: [u32; 3] = [32, 64, 128];

/// Pages touched as functions run for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCurve {
    /// Pages of 4 KiB after a tenth of the functions with a known first use have run.
    pub tenth: u64,
    /// After half of them have run.
    pub half: u64,
    /// After all of them have run.
    pub all: u64,
    /// Sum over all functions of the pages touched after each has run.
    pub area: u64,
}

/// Computes the fault curve of a layout.
#[must_use]
pub fn fault_curve(input: &GroupingInput<'_>, layout: AssumedLayout<'_>) -> FaultCurve {
    let mut first: Vec<FunctionId> = input.graph.ids().filter(|f| input.rank(*f).is_some()).collect();
    first.sort_by_key(|function| (input.rank(*function), *function));
    let faults =
        |count: usize| model::start_faults(&first[..count], input.graph, layout, &Geometry::default());
    let whole = faults(first.len());
    FaultCurve {
        tenth: faults(first.len().div_ceil(10)).pages,
        half: faults(first.len().div_ceil(2)).pages,
        all: whole.pages,
        area: whole.area,
    }
}

/// Returns the sum of the misses of instruction TLBs with 32, 64 and 128 entries: counted over the traces, or estimated
/// from the calls if there are none. If these TLBs hold all pages, the number of page changes is returned, and ranks
/// orders.
#[must_use]
pub fn predicted_misses(graph: &CallGraph, traces: &[&Trace], order: &[FunctionId]) -> f64 {
    let geometry = |tlb_entries| Geometry { tlb_entries, ..Geometry::default() };
    if traces.is_empty() {
        let estimates = ENTRIES.map(|entries| model::score(graph, order, &geometry(entries)).tlb);
        let misses: f64 = estimates.iter().map(|estimate| estimate.misses).sum();
        return if misses > 0.0 { misses } else { estimates[0].page_changes };
    }
    let replay = |entries| {
        traces.iter().map(move |trace| model::replay(trace, graph, order, &geometry(entries)).misses).sum()
    };
    ENTRIES.map(replay).iter().sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_by_hand() {
        // Four functions of a page each; those that run first are the last two in the order.
        let graph = CallGraph::new(vec![4096; 4], vec![0; 4], Vec::new()).unwrap();
        let first = [Some(2), None, Some(0), Some(1)];
        let input = GroupingInput { graph: &graph, first: &first };
        let order: Vec<FunctionId> = graph.ids().collect();
        assert_eq!(
            fault_curve(&input, AssumedLayout::Packed(&order)),
            FaultCurve { tenth: 1, half: 2, all: 3, area: 6 }
        );
        let none = GroupingInput { graph: &graph, first: &[] };
        assert_eq!(fault_curve(&none, AssumedLayout::Packed(&order)), FaultCurve::default());
    }
}
