// SPDX-License-Identifier: MIT OR Apache-2.0
//! First use: orders functions by the time at which a start of the program first needs them.
//!
//! **Problem.** Let a starting program read its pages one after the other, each once.
//!
//! **Definitions.** A start is the sequence of functions that one run used, each at its first use. The time of a
//! function is its lowest position in any start.
//!
//! **Steps.** Functions by their time; then those that no start used, by id.
//!
//! O(n log n + the lengths of the starts).
//!
//! **Ties.** Functions of different starts can have equal times: the lower id goes first.
//!
//! **Source.** GCC does this with `-fprofile-reorder-functions`, and icegrind did it for Firefox (2010).
//!
//! **Where it differs.** GCC takes the time from one counter for the whole program and one run. Here there may be
//! several runs, and the earliest time counts, as in the initial order of LLVM's balanced partitioning.

use super::{AlgorithmOptions, starts};
use sediment_core::callgraph::{CallGraph, FunctionId};

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, options: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    starts::by_time(graph.len(), options.starts)
}
