// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types for ordering, made of integers: [`CallGraph`] (dense ids, sizes, weights), [`Order`] (the result) and
//! [`Trace`] (executed functions). This module depends on no names, files, ELF or profiles.

use crate::error::{Error, ErrorCode, Result};
use std::collections::HashSet;

/// A function of a [`CallGraph`], as the index of its row in the [`FunctionTable`](crate::functions::FunctionTable).
/// Ids ascend in the order of the functions' identity (dso, name, file), or of their addresses if a binary is
/// available, so that "ties go to the lower id" always means the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

impl FunctionId {
    /// The id as an index into dense tables.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A weighted edge from one function to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEdge {
    /// The calling function.
    pub caller: FunctionId,
    /// The called function.
    pub callee: FunctionId,
    /// Number of calls, in the same unit for all edges of the graph; above 0.
    pub weight: u64,
}

/// Functions as dense ids with sizes and weights, and the calls between them. No names, no files.
///
/// Edges are unique and sorted by (caller, callee); they may include calls of a function to itself. The sum of the edge
/// weights and the sum of the function weights are each at most [`CallGraph::MAX_TOTAL_WEIGHT`], so they cannot
/// overflow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallGraph {
    sizes: Vec<u64>,
    weights: Vec<u64>,
    edges: Vec<CallEdge>,
    affinity: Vec<CallEdge>,
}

impl CallGraph {
    /// Largest sum of edge weights, and of function weights, in a graph.
    pub const MAX_TOTAL_WEIGHT: u64 = 1 << 62;

    /// Makes a graph of `sizes.len()` functions, each with its size in bytes and its weight (all calls into it), and
    /// with edges in any order. Edges between the same two functions are added up; edges of weight 0 are dropped.
    ///
    /// # Errors
    /// If the tables differ in length, an edge has an unknown id, or a sum exceeds [`Self::MAX_TOTAL_WEIGHT`].
    pub fn new(sizes: Vec<u64>, weights: Vec<u64>, mut edges: Vec<CallEdge>) -> Result<Self> {
        if sizes.len() != weights.len() || u32::try_from(sizes.len()).is_err() {
            return Err(Error::new(
                ErrorCode::Damaged,
                format!(
                    "a call graph needs one size and one weight per function and fewer than 2^32 functions (found {} sizes, {} weights)",
                    sizes.len(),
                    weights.len()
                ),
            ));
        }
        let count = sizes.len();
        let too_heavy =
            || Error::new(ErrorCode::Overflow, "the weights of a call graph exceed 2^62 in total");
        let mut total: u64 = 0;
        for edge in &edges {
            if edge.caller.index() >= count || edge.callee.index() >= count {
                return Err(Error::new(
                    ErrorCode::Damaged,
                    format!(
                        "a call edge leads from function {} to function {}, but there are only {count}",
                        edge.caller.0, edge.callee.0
                    ),
                ));
            }
            total = total.checked_add(edge.weight).ok_or_else(too_heavy)?;
        }
        let own =
            weights.iter().try_fold(0u64, |sum, weight| sum.checked_add(*weight)).ok_or_else(too_heavy)?;
        if total > Self::MAX_TOTAL_WEIGHT || own > Self::MAX_TOTAL_WEIGHT {
            return Err(too_heavy());
        }
        edges.sort_unstable_by_key(|edge| (edge.caller, edge.callee));
        edges.dedup_by(|later, kept| {
            let same = later.caller == kept.caller && later.callee == kept.callee;
            if same {
                kept.weight += later.weight;
            }
            same
        });
        edges.retain(|edge| edge.weight > 0);
        Ok(Self { sizes, weights, edges, affinity: Vec::new() })
    }

    /// Adds affinity edges. Their weight is the number of times that the callee began to run while the caller was among
    /// the last executed functions. Edges may be in any order; equal ones are added up. Edges of weight 0 and edges of
    /// a function to itself are dropped.
    ///
    /// # Errors
    /// If an edge has an unknown id, or the sum of the weights exceeds [`Self::MAX_TOTAL_WEIGHT`].
    pub fn with_affinity(mut self, affinity: Vec<CallEdge>) -> Result<Self> {
        let unweighted = vec![0; self.sizes.len()];
        let mut affinity = Self::new(unweighted.clone(), unweighted, affinity)?.edges;
        affinity.retain(|pair| pair.caller != pair.callee);
        self.affinity = affinity;
        Ok(self)
    }

    /// Number of functions; ids are below this number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// True if there are no functions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Size of each function in bytes, by id.
    #[must_use]
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Weight of each function (calls into it), by id.
    #[must_use]
    pub fn weights(&self) -> &[u64] {
        &self.weights
    }

    /// Call edges, unique and sorted by (caller, callee).
    #[must_use]
    pub fn edges(&self) -> &[CallEdge] {
        &self.edges
    }

    /// Affinity edges, unique and sorted like the call edges; empty if unknown. The weight is the number of times that
    /// the callee began to run while the caller was among the last executed functions.
    #[must_use]
    pub fn affinity(&self) -> &[CallEdge] {
        &self.affinity
    }

    /// All ids in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = FunctionId> + use<> {
        (0..self.sizes.len() as u32).map(FunctionId)
    }
}

/// Part of the layout that a run of functions belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// Functions that run while the program starts.
    Startup,
    /// Functions that run all the time.
    Hot,
    /// Functions that were executed, but rarely.
    Warm,
    /// Functions without data.
    Unprofiled,
}

/// Functions of an [`Order`] that are placed one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderGroup {
    /// Kind of the group.
    pub kind: GroupKind,
    /// The functions in the order of placement.
    pub functions: Vec<FunctionId>,
}

/// Functions in the order of placement by the linker, in groups. No function occurs twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// The groups in the order of placement.
    pub groups: Vec<OrderGroup>,
}

impl Order {
    /// Makes an order of one group.
    #[must_use]
    pub fn of(kind: GroupKind, functions: Vec<FunctionId>) -> Self {
        Self { groups: vec![OrderGroup { kind, functions }] }
    }

    /// All functions in the order of placement.
    pub fn functions(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.groups.iter().flat_map(|group| group.functions.iter().copied())
    }
}

/// Function ids in the order in which the functions began to run. Models and layouts use it; it is never part of a
/// package.
///
/// Ids that are not in the graph represent code outside it, such as library functions, each at an address of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// One entry for each time that a function began or resumed.
    pub functions: Vec<FunctionId>,
    /// Ascending positions in `functions` whose entry does not follow the previous one: entries between them are
    /// missing, or they belong to different threads.
    pub breaks: Vec<usize>,
}

impl Trace {
    /// Returns the executed functions, each once, in order of first use.
    #[must_use]
    pub fn first_uses(&self) -> Vec<FunctionId> {
        let mut executed = HashSet::new();
        self.functions.iter().copied().filter(|function| executed.insert(*function)).collect()
    }
}
