// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forecasts for work that an order does not know: each part of the recorded work is left out in turn, an order is
//! computed from the rest, and the misses of the part with this order are counted.
//!
//! A forecast from the same profile as the order is valid for the recorded work only, and too good for other work (M.
//! Stone, "Cross-Validatory Choice and Assessment of Statistical Predictions", J. Royal Statistical Society B 36(2),
//! 1974).
//!
//! Parts are the recordings, or the halves of a single trace. Two halves resemble each other more than two runs do.

use super::algorithms::affinity::WeightedTrace;
use super::forecast::{ForecastProgram, OrderGain};
use super::{BuiltGraph, OrderRequest, compute_built};
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId, Trace};
use sediment_core::error::Result;
use sediment_core::profile::Profile;
use std::borrow::Cow;

/// At most this many parts are left out, because an order is computed for each.
pub const MOST_PARTS: usize = 8;

/// Misses with 64 entries, summed over the parts left out: in the linker's layout, and in the orders of the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LeftOutMisses {
    before: f64,
    after: f64,
}

impl LeftOutMisses {
    /// Adds a part.
    pub fn add(&mut self, gain: &OrderGain) {
        self.before += gain.before.common_misses();
        self.after += gain.after.common_misses();
    }

    /// Misses after as a share of the misses before; `None` if there are none.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.before > 0.0).then(|| self.after / self.before)
    }
}

/// Leaves out each trace of a request, or each half of a single one. The others make an order.
///
/// # Errors
/// The errors of [`compute_built`] and [`ForecastProgram::new`].
pub fn over_traces(
    profile: &Profile,
    built: &BuiltGraph,
    request: &OrderRequest<'_>,
) -> Result<LeftOutMisses> {
    let parts = parts(request.workloads);
    let mut sum = LeftOutMisses::default();
    for (left, (part, _)) in parts.iter().enumerate().take(MOST_PARTS) {
        let rest: Vec<WeightedTrace<'_>> = parts
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != left)
            .map(|(_, (trace, weight))| WeightedTrace { trace, weight: *weight })
            .collect();
        let known = BuiltGraph { graph: without(&built.graph, part, &rest)?, ..built.clone() };
        let made =
            compute_built(profile, known, &OrderRequest { workloads: &rest, older: None, ..*request })?;
        let order: Vec<FunctionId> = made.order.functions().collect();
        let part: &Trace = part;
        if let Some(gain) = ForecastProgram::new(profile, built, &[part])?.gain(&order) {
            sum.add(&gain);
        }
    }
    Ok(sum)
}

/// The traces with their weights, or the halves of a single one.
fn parts<'a>(workloads: &[WeightedTrace<'a>]) -> Vec<(Cow<'a, Trace>, u64)> {
    if let [WeightedTrace { trace, weight }] = workloads {
        let middle = trace.functions.len() / 2;
        let half = |from: usize, to: usize| Trace {
            functions: trace.functions[from..to].to_vec(),
            breaks: trace
                .breaks
                .iter()
                .filter(|at| (from + 1..to).contains(at))
                .map(|at| at - from)
                .collect(),
        };
        let halves = [half(0, middle), half(middle, trace.functions.len())];
        return halves.map(|half| (Cow::Owned(half), *weight)).into();
    }
    workloads.iter().map(|workload| (Cow::Borrowed(workload.trace), workload.weight)).collect()
}

/// Makes the graph without the calls of a part: counts shrink with the share of a function's uses that are in the rest.
/// Functions that are in no trace keep their counts.
fn without(graph: &CallGraph, part: &Trace, rest: &[WeightedTrace<'_>]) -> Result<CallGraph> {
    let uses = |traces: &mut dyn Iterator<Item = &Trace>| {
        let mut uses = vec![0_u64; graph.len()];
        for function in traces.flat_map(|trace| &trace.functions) {
            if let Some(count) = uses.get_mut(function.index()) {
                *count += 1;
            }
        }
        uses
    };
    let left = uses(&mut std::iter::once(part));
    let kept = uses(&mut rest.iter().map(|workload| workload.trace));
    let scaled = |count: u64, function: FunctionId| {
        let (left, kept) = (left[function.index()], kept[function.index()]);
        match left {
            0 => count,
            _ => (u128::from(count) * u128::from(kept)).div_ceil(u128::from(left) + u128::from(kept)) as u64,
        }
    };
    let edges = |edges: &[CallEdge]| {
        let fewer = |edge: &CallEdge| {
            let [by_caller, by_callee] = [edge.caller, edge.callee].map(|end| scaled(edge.weight, end));
            CallEdge { weight: by_caller.min(by_callee), ..*edge }
        };
        edges.iter().map(fewer).collect::<Vec<_>>()
    };
    let weights = graph.ids().map(|id| scaled(graph.weights()[id.index()], id)).collect();
    CallGraph::new(graph.sizes().to_vec(), weights, edges(graph.edges()))?
        .with_affinity(edges(graph.affinity()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(functions: &[u32], breaks: &[usize]) -> Trace {
        Trace { functions: functions.iter().map(|id| FunctionId(*id)).collect(), breaks: breaks.to_vec() }
    }

    #[test]
    fn a_single_trace_is_cut_in_the_middle() {
        let whole = trace(&[0, 1, 2, 3, 4], &[1, 2, 3]);
        let halves = parts(&[WeightedTrace { trace: &whole, weight: 7 }]);
        assert_eq!(*halves[0].0, trace(&[0, 1], &[1]));
        assert_eq!(*halves[1].0, trace(&[2, 3, 4], &[1]));
        let two = [WeightedTrace { trace: &whole, weight: 1 }, WeightedTrace { trace: &whole, weight: 2 }];
        assert_eq!(parts(&two).len(), 2);
    }

    #[test]
    fn calls_of_the_part_are_not_known() -> Result<()> {
        let edge = |caller, callee, weight| CallEdge {
            caller: FunctionId(caller),
            callee: FunctionId(callee),
            weight,
        };
        let graph =
            CallGraph::new(vec![16; 4], vec![8, 8, 8, 8], vec![edge(0, 1, 8), edge(0, 2, 8), edge(0, 3, 8)])?;
        let (part, rest) = (trace(&[0, 1, 1, 1], &[]), trace(&[0, 1, 2], &[]));
        let known = without(&graph, &part, &[WeightedTrace { trace: &rest, weight: 1 }])?;
        assert_eq!(known.weights(), [4, 2, 8, 8]);
        assert_eq!(known.edges(), [edge(0, 1, 2), edge(0, 2, 4), edge(0, 3, 4)]);
        let only_there = without(&graph, &part, &[])?;
        assert_eq!(only_there.weights(), [0, 0, 8, 8]);
        assert!(only_there.edges().is_empty());
        Ok(())
    }
}
