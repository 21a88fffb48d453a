// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders unprofiled functions by a compiler's estimates. They come after the profiled ones: first the functions
//! reachable from profiled functions, with callers next to callees; error paths last.
//!
//! Estimates multiply along chains of calls, and so do their errors. Therefore their logarithm is used
//! ([`compressed`]). In replays of PostgreSQL, SQLite's shell and perl it was better than the estimates themselves,
//! their square roots, and 1.

use super::algorithms::{AlgorithmOptions, cdsort};
use super::build::{WeightSource, compressed};
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};
use sediment_core::error::Result;
use sediment_core::estimate::expected;
use sediment_core::functions::FunctionTable;
use sediment_core::profile::{FunctionIndex, Heat, Profile};

/// Scale of expected calls: shares of all counted calls, and the smallest value before compression.
const SHARES: f64 = 1e15;
const LEAST: u128 = 1_000_000;

/// Rank of an unprofiled function; the ones most likely to run come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Reachable from profiled functions, by calls that compilers found or through a pointer.
    Reachable,
    /// Nothing leads to it; the compiler calls it hot.
    Hot,
    /// Nothing leads to it.
    Unreachable,
    /// Only the start of the program leads to it.
    Startup,
    /// Only the end of the program leads to it.
    Exit,
    /// The compiler takes it for an error path.
    Cold,
}

/// The unprofiled functions of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Unprofiled {
    /// The same functions, with the expected calls of unprofiled functions by each other and by executed ones, which
    /// have size 0 here.
    pub graph: CallGraph,
    /// By id. `None` for executed functions or, if nothing was recorded, for functions that are expected to run.
    pub standing: Vec<Option<Standing>>,
}

/// Ranks the unprofiled functions of `graph`, if the profile has a compiler's estimates.
///
/// # Errors
/// The errors of [`CallGraph::new`].
pub fn unprofiled(profile: &Profile, graph: &CallGraph, table: &FunctionTable) -> Result<Option<Unprofiled>> {
    let mut functions: Vec<Vec<FunctionIndex>> = vec![Vec::new(); graph.len()];
    for (key, id) in table.names() {
        functions[id.index()].extend(profile.find(key));
    }
    let heat = |at: usize| functions[at].iter().find_map(|function| profile.facts(*function).heat);
    let by_heat = |at: usize| match heat(at) {
        Some(Heat::Hot) => Standing::Hot,
        None => Standing::Unreachable,
        Some(Heat::Startup) => Standing::Startup,
        Some(Heat::Exit) => Standing::Exit,
        Some(Heat::Cold) => Standing::Cold,
    };
    let Some(expected) = expected(profile) else {
        if WeightSource::of(profile) != WeightSource::Estimates {
            return Ok(None);
        }
        let standing = |at: usize| (graph.weights()[at] == 0).then(|| by_heat(at));
        let alone = CallGraph::new(graph.sizes().to_vec(), vec![0; graph.len()], Vec::new())?;
        return Ok(Some(Unprofiled { graph: alone, standing: (0..graph.len()).map(standing).collect() }));
    };
    let runs = |at: usize| functions[at].iter().map(|function| expected.runs[function.index()]).sum::<f64>();
    let executed = |at: usize| {
        functions[at].is_empty() || functions[at].iter().any(|function| expected.executed[function.index()])
    };
    let standing: Vec<Option<Standing>> = (0..graph.len())
        .map(|at| match by_heat(at) {
            _ if executed(at) => None,
            Standing::Cold => Some(Standing::Cold),
            _ if runs(at) > 0.0 => Some(Standing::Reachable),
            standing => Some(standing),
        })
        .collect();
    let mut ids = vec![None; profile.function_count()];
    for (at, functions) in functions.iter().enumerate() {
        for function in functions {
            ids[function.index()] = Some(FunctionId(at as u32));
        }
    }
    let share = |runs: f64| compressed((runs * SHARES) as u128, LEAST);
    let (mut edges, mut weights) = (Vec::new(), vec![0u64; graph.len()]);
    for (caller, callee, facts) in profile.edges() {
        let ends = ids[caller.index()].zip(ids[callee.index()]);
        let Some(((caller_id, callee_id), calls)) = ends.zip(facts.static_calls) else { continue };
        if standing[callee_id.index()].is_some() {
            let weight = share(expected.runs[caller.index()] * calls.0 as f64 / 1e6).max(1);
            weights[callee_id.index()] += weight;
            edges.push(CallEdge { caller: caller_id, callee: callee_id, weight });
        }
    }
    let mut sizes = graph.sizes().to_vec();
    for (at, standing) in standing.iter().enumerate() {
        match standing {
            Some(_) => weights[at] = weights[at].max(share(runs(at))),
            None => sizes[at] = 0,
        }
    }
    Ok(Some(Unprofiled { graph: CallGraph::new(sizes, weights, edges)?, standing }))
}

/// Returns the same sequence with unprofiled functions last, by standing, and by CDSort within each standing.
#[must_use]
pub fn place_unprofiled(sequence: &[FunctionId], unprofiled: &Unprofiled) -> Vec<FunctionId> {
    let standing = |function: &FunctionId| unprofiled.standing.get(function.index()).copied().flatten();
    let executed = sequence.iter().copied().filter(|function| standing(function).is_none());
    let order = if unprofiled.graph.edges().is_empty() {
        sequence.to_vec()
    } else {
        cdsort::order(&unprofiled.graph, &AlgorithmOptions::default())
    };
    let mut behind: Vec<FunctionId> =
        order.into_iter().filter(|function| standing(function).is_some()).collect();
    behind.sort_by_key(standing);
    executed.chain(behind).collect()
}

#[cfg(test)]
mod tests {
    use super::compressed;

    #[test]
    fn logarithms_grow_with_what_they_are_of() {
        assert_eq!(compressed(0, 1000), 0);
        assert_eq!(compressed(1000, 1000), 1 << 20);
        assert_eq!(compressed(7000, 1000), 3 << 20);
        assert_eq!(compressed(1, u128::MAX), 1);
        let values = (0..400).map(|step| compressed(step * step * step, 1000));
        assert!(values.clone().zip(values.skip(1)).all(|(less, more)| less < more));
        assert!(compressed(u128::MAX, 1_000_000_000) > compressed(u128::MAX >> 1, 1_000_000_000));
    }
}
