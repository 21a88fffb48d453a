// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distances between caller and callee, weighted by calls.
//!
//! A call leads from the middle of its caller to the start of the callee. Calls of a function to itself are ignored,
//! because no order changes them. hfsort and BOLT report the same shares within 64 bytes, 4 KiB and 2 MiB. The score
//! ignores which calls happen close in time, and the code that runs between them.

use super::addresses::FunctionAddresses;
use sediment_core::callgraph::CallGraph;

/// Distances of calls between different functions, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallDistance {
    /// Total weight of these calls.
    pub calls: u64,
    /// Weighted mean; 0 without calls, as in the following fields.
    pub mean: f64,
    /// Share of calls over at most 64 bytes.
    pub within_64_bytes: f64,
    /// Share of calls over at most 4 KiB.
    pub within_4_kib: f64,
    /// Share of calls over at most 2 MiB.
    pub within_2_mib: f64,
    /// Weighted mean of D^-¼, with 0.1 for a distance of 0: the goal of CDSort. Higher is better.
    pub nearness: f64,
}

impl CallDistance {
    pub(super) fn of(graph: &CallGraph, addresses: &FunctionAddresses) -> Self {
        let mut calls = 0u64;
        let mut bytes = 0u128;
        let mut within = [0u64; 3];
        let mut nearness = 0.0;
        for edge in graph.edges().iter().filter(|edge| edge.caller != edge.callee) {
            let distance = addresses.middle(edge.caller).abs_diff(addresses.start(edge.callee));
            calls += edge.weight;
            bytes += u128::from(distance) * u128::from(edge.weight);
            for (sum, limit) in within.iter_mut().zip([64, 4 << 10, 2 << 20]) {
                *sum += if distance <= limit { edge.weight } else { 0 };
            }
            nearness += edge.weight as f64 * closeness(distance);
        }
        let all = calls.max(1) as f64;
        let [within_64_bytes, within_4_kib, within_2_mib] = within.map(|sum| sum as f64 / all);
        let (mean, nearness) = (bytes as f64 / all, nearness / all);
        Self { calls, mean, within_64_bytes, within_4_kib, within_2_mib, nearness }
    }
}

/// D^-¼, with 0.1 for a distance of 0: computed from roots and a quotient, which have the same bits on every machine.
pub(crate) fn closeness(distance: u64) -> f64 {
    let distance = if distance == 0 { 0.1 } else { distance as f64 };
    1.0 / distance.sqrt().sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::{Geometry, score};
    use super::*;
    use sediment_core::callgraph::{CallEdge, FunctionId};

    #[test]
    fn distances_by_hand() {
        let edge = |caller, callee, weight| CallEdge {
            caller: FunctionId(caller),
            callee: FunctionId(callee),
            weight,
        };
        let edges = vec![edge(0, 1, 3), edge(1, 0, 1), edge(1, 1, 100), edge(0, 2, 4)];
        let graph = CallGraph::new(vec![32, 4096, 16], vec![0; 3], edges).unwrap();
        let of = |order: [u32; 3]| score(&graph, &order.map(FunctionId), &Geometry::default()).call_distance;
        // 0 at 0, 1 at 32, 2 at 4128: calls over 32 - 16, 32 + 2048 - 0 and 4128 - 16 bytes.
        let input = of([0, 1, 2]);
        assert_eq!(input.calls, 8, "recursion left out");
        assert_eq!(input.mean, f64::from(3 * 16 + 2080 + 4 * 4112) / 8.0);
        assert_eq!([input.within_64_bytes, input.within_4_kib, input.within_2_mib], [0.375, 0.5, 1.0]);
        // 0 at 0, 2 at 32, 1 at 48: over 16, 32 and 2096 bytes.
        let better = of([0, 2, 1]);
        assert_eq!([better.within_64_bytes, better.within_4_kib, better.within_2_mib], [0.875, 1.0, 1.0]);
        assert!(better.nearness > input.nearness);
        assert_eq!(closeness(16), 0.5);
    }

    #[test]
    fn no_calls_score_nothing() {
        let distance = score(&CallGraph::default(), &[], &Geometry::default()).call_distance;
        assert_eq!((distance.calls, distance.mean, distance.nearness), (0, 0.0, 0.0));
    }
}
