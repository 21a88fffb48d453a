// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`cut`] removes the edges of a profile that its orders do not need, for packages.
//!
//! **Problem.** Most lines of a profile are affinity edges and calls that were hardly ever made. Most of them change
//! nothing in the order. An edge's weight alone does not show whether it matters, because many merge decisions are
//! close.
//!
//! **Steps.** For each program and library, the order is computed without some edges: first affinity edges, then calls
//! below the share [`LIGHT`], lightest first. At first all of them are left out. If the order changes, each half is
//! tried (bisection); a single edge that changes the order stays. Affinity edges between two files are removed, because
//! each file is linked by itself.
//!
//! **Bounds.** The number of orders is limited by the size of the graph ([`MOST_WORK`]), not by time: the same profile
//! gives the same file. All functions stay, and all but a small part of the calls, so coverage and reports are the same
//! as for the whole profile.

use super::{BuiltGraph, OrderRequest, Selection, build, compute_built};
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId, Order};
use sediment_core::error::Result;
use sediment_core::profile::{EdgeFacts, FunctionIndex, Profile, split};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Limit of the edges and functions that all trials together process.
const MOST_WORK: usize = 4_000_000;
/// Limit of trials.
const MOST_TRIALS: usize = 2_000;
/// An edge may be removed if its calls are less than one in this many of all calls.
const LIGHT: u64 = 10_000;

/// A profile without the edges that no order needs.
#[derive(Debug, Clone)]
pub struct CutProfile {
    /// The profile without them.
    pub profile: Profile,
    /// Edges of the whole profile.
    pub before: usize,
    /// Edges that are left.
    pub after: usize,
}

/// Ends of edges, as ids of a graph.
type EdgeEnds = HashSet<(FunctionId, FunctionId)>;

/// Removes the edges that no order of a program or library in the profile needs; `None` if all are needed.
///
/// # Errors
/// If a sum of weights exceeds the limit of a graph.
pub fn cut(profile: &Profile) -> Result<Option<CutProfile>> {
    let labels: Vec<&str> = profile.dsos().keys().map(String::as_str).collect();
    let selections = match labels.as_slice() {
        [] => vec![Selection::Everything],
        labels => labels.iter().map(|label| Selection::Dso(label)).collect(),
    };
    let mut affine: HashSet<(FunctionIndex, FunctionIndex)> = HashSet::new();
    let mut uncalled: HashSet<(FunctionIndex, FunctionIndex)> = HashSet::new();
    for selection in selections {
        // A file without a function in the profile has no order.
        let Ok(built) = build(profile, &selection) else { continue };
        let ids: HashMap<FunctionIndex, FunctionId> = built
            .table
            .names()
            .filter_map(|(key, id)| profile.find(key).map(|function| (function, id)))
            .collect();
        let (affinity, calls) = Trials::new(profile, built)?.needed()?;
        for (from, to, facts) in profile.edges() {
            let Some(ends) = ids.get(&from).zip(ids.get(&to)).map(|(from, to)| (*from, *to)) else {
                continue;
            };
            if facts.affinity.is_some() && affinity.contains(&ends) {
                affine.insert((from, to));
            }
            if facts.count.is_some() && calls.contains(&ends) {
                uncalled.insert((from, to));
            }
        }
    }
    let rest = split::with_edges(profile, &|from, to, facts| EdgeFacts {
        affinity: facts.affinity.filter(|_| affine.contains(&(from, to))),
        count: facts.count.filter(|_| !uncalled.contains(&(from, to))),
        ..*facts
    });
    let (before, after) = (profile.edge_count(), rest.edge_count());
    Ok((after < before).then_some(CutProfile { profile: rest, before, after }))
}

/// An edge that may be removed.
struct CutCandidate {
    edge: CallEdge,
    is_call: bool,
    is_there: bool,
}

/// Trials of orders without some edges.
struct Trials<'a> {
    profile: &'a Profile,
    built: BuiltGraph,
    /// Affinity edges, then light calls, the lightest first.
    candidates: Vec<CutCandidate>,
    /// The orders without and with a known input order.
    wanted: [Order; 2],
    left: usize,
}

impl<'a> Trials<'a> {
    fn new(profile: &'a Profile, built: BuiltGraph) -> Result<Self> {
        let graph = &built.graph;
        let all: u64 = graph.edges().iter().map(|edge| edge.weight).sum();
        // Without counted calls, affinity or estimates are used in their place.
        let is_light = |edge: &&CallEdge| profile.total > 0 && edge.weight < all / LIGHT;
        let candidate = |edge: &CallEdge, is_call| CutCandidate { edge: *edge, is_call, is_there: true };
        let mut candidates: Vec<CutCandidate> =
            graph.affinity().iter().map(|edge| candidate(edge, false)).collect();
        candidates.extend(graph.edges().iter().filter(is_light).map(|edge| candidate(edge, true)));
        candidates.sort_by_key(|candidate| {
            let edge = &candidate.edge;
            (candidate.is_call, edge.weight, edge.caller, edge.callee)
        });
        let work = graph.len() + graph.edges().len() + graph.affinity().len();
        let left = (MOST_WORK / work.max(1)).min(MOST_TRIALS);
        let wanted = orders(profile, &built)?;
        Ok(Self { profile, built, candidates, wanted, left })
    }

    /// Returns the ends of the affinity edges that the orders need, and of the calls that they do not need.
    fn needed(mut self) -> Result<(EdgeEnds, EdgeEnds)> {
        let all = 0..self.candidates.len();
        let mut ranges: Vec<Range<usize>> = Vec::from([all]);
        while let Some(range) = ranges.pop() {
            if range.is_empty() || self.is_same_without(range.clone())? || range.len() == 1 {
                continue;
            }
            let middle = range.start + range.len() / 2;
            ranges.extend([middle..range.end, range.start..middle]);
        }
        let ends = |is_call: bool| -> EdgeEnds {
            let chosen =
                self.candidates.iter().filter(|one| one.is_call == is_call && one.is_there != is_call);
            chosen.map(|one| (one.edge.caller, one.edge.callee)).collect()
        };
        Ok((ends(false), ends(true)))
    }

    /// Removes the candidates of a range if the orders stay the same.
    fn is_same_without(&mut self, range: Range<usize>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let gone = |index: usize, one: &CutCandidate| !one.is_there || range.contains(&index);
        let graph = &self.built.graph;
        let (mut affinity, mut calls) = (Vec::new(), EdgeEnds::new());
        let mut weights = graph.weights().to_vec();
        for (index, one) in self.candidates.iter().enumerate() {
            match (one.is_call, gone(index, one)) {
                (false, false) => affinity.push(one.edge),
                (true, true) => {
                    calls.insert((one.edge.caller, one.edge.callee));
                    let weight = &mut weights[one.edge.callee.index()];
                    *weight = weight.saturating_sub(one.edge.weight);
                }
                _ => {}
            }
        }
        let edges = graph.edges().iter().filter(|edge| !calls.contains(&(edge.caller, edge.callee)));
        let graph = CallGraph::new(graph.sizes().to_vec(), weights, edges.copied().collect())?;
        let built = BuiltGraph { graph: graph.with_affinity(affinity)?, ..self.built.clone() };
        let is_same = orders(self.profile, &built)? == self.wanted;
        if is_same {
            self.candidates[range].iter_mut().for_each(|one| one.is_there = false);
        }
        Ok(is_same)
    }
}

/// Returns the orders of a graph for an unknown input order of its link, and for ids in input order.
fn orders(profile: &Profile, built: &BuiltGraph) -> Result<[Order; 2]> {
    let order = |is_in_input_order| {
        let built = BuiltGraph { is_in_input_order, ..built.clone() };
        compute_built(profile, built, &OrderRequest::default()).map(|ordering| ordering.order)
    };
    Ok([order(false)?, order(true)?])
}
