// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integer types of ordering: [`CallGraph`] (dense ids, sizes, weights), [`Order`] (the result) and [`Trace`]
//! (executed functions). A leaf: no names, no files, no ELF, no profile.

use crate::error::{Error, ErrorCode, Result};
use std::collections::HashSet;

/// A function of a [`CallGraph`]: its row in the [`FunctionTable`](crate::functions::FunctionTable). Ids ascend in the order of the functions' identity
/// (dso, name, file), or of their addresses where a binary is at hand, so that "ties go to the lower id" means the same
/// everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

impl FunctionId {
    /// The id as an index into dense tables.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A weighted connection from one function to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEdge {
    /// The function that calls.
    pub caller: FunctionId,
    /// The function that is called.
    pub callee: FunctionId,
    /// Number of calls, in a unit that is the same for all edges of the graph; above 0.
    pub weight: u64,
}

/// Functions as dense ids with sizes and weights, and the calls between them. No names, no files.
///
/// Edges are unique by (caller, callee) and sorted by it; calls of a function to itself may be among them.
/// Edge weights together and function weights together each stay at or below [`CallGraph::MAX_TOTAL_WEIGHT`],
/// so sums of them cannot overflow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallGraph {
    sizes: Vec<u64>,
    weights: Vec<u64>,
    edges: Vec<CallEdge>,
    affinity: Vec<CallEdge>,
}

impl CallGraph {
    /// The largest sum of edge weights, and of function weights, that a graph may have.
    pub const MAX_TOTAL_WEIGHT: u64 = 1 << 62;

    /// A graph of `sizes.len()` functions: size in bytes and weight (calls into it, from wherever) of each, and edges in
    /// any order; edges between the same two functions add up, edges of weight 0 are dropped.
    ///
    /// # Errors
    /// When the tables differ in length, an edge names no function, or a sum passes [`Self::MAX_TOTAL_WEIGHT`].
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

    /// Adds affinity edges: how often the callee began to run while the caller was among the last executed functions.
    /// Edges come in any order; equal ones add up, and edges of weight 0, or of a function to itself, are dropped.
    ///
    /// # Errors
    /// When a pair names no function, or the weights pass [`Self::MAX_TOTAL_WEIGHT`].
    pub fn with_affinity(mut self, affinity: Vec<CallEdge>) -> Result<Self> {
        let unweighted = vec![0; self.sizes.len()];
        let mut affinity = Self::new(unweighted.clone(), unweighted, affinity)?.edges;
        affinity.retain(|pair| pair.caller != pair.callee);
        self.affinity = affinity;
        Ok(self)
    }

    /// Number of functions; ids run from 0 to this, exclusive.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// True if there is no function.
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

    /// The edges, unique and sorted by (caller, callee).
    #[must_use]
    pub fn edges(&self) -> &[CallEdge] {
        &self.edges
    }

    /// Affinity edges, unique and sorted like the call edges; empty where unknown. The weight counts how often the
    /// callee began to run while the caller was among the last executed functions.
    #[must_use]
    pub fn affinity(&self) -> &[CallEdge] {
        &self.affinity
    }

    /// All ids in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = FunctionId> + use<> {
        (0..self.sizes.len() as u32).map(FunctionId)
    }
}

/// Which part of the layout a run of functions belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// Functions that run while the program starts.
    Startup,
    /// Functions that run all the time.
    Hot,
    /// Functions that were seen, but seldom.
    Warm,
    /// Functions of which nothing more than their existence is known.
    Unprofiled,
}

/// A run of functions of an [`Order`] that are placed one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderGroup {
    /// Kind of the group.
    pub kind: GroupKind,
    /// The functions in placing order.
    pub functions: Vec<FunctionId>,
}

/// Functions in the order in which the linker is to place them, in groups. No function stands in it twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// The groups in placing order.
    pub groups: Vec<OrderGroup>,
}

impl Order {
    /// An order of one group.
    #[must_use]
    pub fn of(kind: GroupKind, functions: Vec<FunctionId>) -> Self {
        Self { groups: vec![OrderGroup { kind, functions }] }
    }

    /// All functions in placing order.
    pub fn functions(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.groups.iter().flat_map(|group| group.functions.iter().copied())
    }
}

/// Function ids in the order in which the functions began to run. For models and layouts; never shipped.
///
/// Ids that a graph does not have stand for code outside of it, such as that of libraries, each at an address of its
/// own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// One entry for each time a function began or resumed.
    pub functions: Vec<FunctionId>,
    /// Positions in `functions`, ascending, that do not follow the one before: something is missing between the two,
    /// or they are of different threads.
    pub breaks: Vec<usize>,
}

impl Trace {
    /// The executed functions, each once, in the order of first use.
    #[must_use]
    pub fn first_uses(&self) -> Vec<FunctionId> {
        let mut executed = HashSet::new();
        self.functions.iter().copied().filter(|function| executed.insert(*function)).collect()
    }
}
