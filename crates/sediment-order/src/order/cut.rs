// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`cut`]: a profile without the affinity edges that its orders do not need, as a package ships it.
//!
//! **Problem.** Most lines of a profile are affinity edges, and most of these change nothing in the order. Which ones do, no weight alone
//! tells: functions are joined by close decisions.
//!
//! **Steps.** For each program and library, the edges of the profile that only its order reads are tried without, the lightest first: all
//! of them, and where the order changes, each half, until one edge is left. What changes the order stays. Edges between two files go: files
//! are linked alone.
//!
//! **Bounds.** The number of orders is limited by the size of the graph ([`MOST_WORK`]), not by time: the same profile gives the same file.
//! Calls, samples and functions stay, so that coverage and reports are those of the whole profile.

use super::{BuiltGraph, Request, Selection, build, compute_built};
use sediment_core::callgraph::{CallEdge, FunctionId, Order};
use sediment_core::error::Result;
use sediment_core::profile::{FunctionIndex, Profile, split};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Edges and functions that all trials together look at.
const MOST_WORK: usize = 4_000_000;
/// Trials at most.
const MOST_TRIALS: usize = 2_000;

/// A profile without the affinity edges that no order needs.
#[derive(Debug, Clone)]
pub struct CutProfile {
    /// The rest.
    pub profile: Profile,
    /// Affinity edges of the whole profile.
    pub before: usize,
    /// Affinity edges that are left.
    pub after: usize,
}

/// Takes out the affinity edges that no order of a program or library of the profile needs; None where all are needed.
///
/// # Errors
/// When a sum of weights passes what a graph may have.
pub fn cut(profile: &Profile) -> Result<Option<CutProfile>> {
    let labels: Vec<&str> = profile.dsos().keys().map(String::as_str).collect();
    let selections = match labels.as_slice() {
        [] => vec![Selection::Everything],
        labels => labels.iter().map(|label| Selection::Dso(label)).collect(),
    };
    let mut needed: HashSet<(FunctionIndex, FunctionIndex)> = HashSet::new();
    for selection in selections {
        // A file of which the profile has no function has no order.
        let Ok(built) = build(profile, &selection) else { continue };
        let ids: HashMap<FunctionIndex, FunctionId> = built
            .table
            .names()
            .filter_map(|(key, id)| profile.find(key).map(|function| (function, id)))
            .collect();
        let pairs = Trials::new(profile, built)?.needed()?;
        for (from, to, facts) in profile.edges() {
            let ends = ids.get(&from).zip(ids.get(&to)).map(|(from, to)| (*from, *to));
            if facts.affinity.is_some() && ends.is_some_and(|ends| pairs.contains(&ends)) {
                needed.insert((from, to));
            }
        }
    }
    let before = profile.edges().iter().filter(|(_, _, facts)| facts.affinity.is_some()).count();
    let after = needed.len();
    let cut = || CutProfile {
        profile: split::with_affinity_of(profile, &|from, to| needed.contains(&(from, to))),
        before,
        after,
    };
    Ok((after < before).then(cut))
}

/// Trials of orders without some affinity edges.
struct Trials<'a> {
    profile: &'a Profile,
    built: BuiltGraph,
    /// The affinity edges, the lightest first, and whether each is still there.
    edges: Vec<(CallEdge, bool)>,
    wanted: Order,
    left: usize,
}

impl<'a> Trials<'a> {
    fn new(profile: &'a Profile, built: BuiltGraph) -> Result<Self> {
        let graph = &built.graph;
        let mut edges: Vec<(CallEdge, bool)> = graph.affinity().iter().map(|edge| (*edge, true)).collect();
        edges.sort_by_key(|(edge, _)| (edge.weight, edge.caller, edge.callee));
        let work = graph.len() + graph.edges().len() + edges.len();
        let left = (MOST_WORK / work.max(1)).min(MOST_TRIALS);
        let wanted = compute_built(profile, built.clone(), &Request::default())?.order;
        Ok(Self { profile, built, edges, wanted, left })
    }

    /// The ends of the edges that the order needs.
    fn needed(mut self) -> Result<HashSet<(FunctionId, FunctionId)>> {
        let mut ranges = vec![0..self.edges.len()];
        while let Some(range) = ranges.pop() {
            if range.is_empty() || self.is_same_without(range.clone())? || range.len() == 1 {
                continue;
            }
            let middle = range.start + range.len() / 2;
            ranges.extend([middle..range.end, range.start..middle]);
        }
        let kept = self.edges.into_iter().filter(|(_, is_kept)| *is_kept);
        Ok(kept.map(|(edge, _)| (edge.caller, edge.callee)).collect())
    }

    /// Takes out the edges of a range if the order stays the same.
    fn is_same_without(&mut self, range: Range<usize>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let rest = self.edges[..range.start].iter().chain(&self.edges[range.end..]);
        let affinity = rest.filter(|(_, is_kept)| *is_kept).map(|(edge, _)| *edge).collect();
        let graph = self.built.graph.clone().with_affinity(affinity)?;
        let built = BuiltGraph { graph, ..self.built.clone() };
        let is_same = compute_built(self.profile, built, &Request::default())?.order == self.wanted;
        if is_same {
            self.edges[range].iter_mut().for_each(|(_, is_kept)| *is_kept = false);
        }
        Ok(is_same)
    }
}
