// SPDX-License-Identifier: MIT OR Apache-2.0
//! First use: functions in the order in which a start of the program first needs them.
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
//! **Ties.** Equal times, which different starts give: the lower id.
//!
//! **Source.** What GCC does with `-fprofile-reorder-functions`, and icegrind did for Firefox (2010).
//!
//! **Where it differs.** GCC takes the time from one counter for the whole program and one run; here there may be several, and
//! the earliest counts: as in LLVM's balanced partitioning before it begins.

use super::{AlgorithmOptions, starts};
use sediment_core::callgraph::{CallGraph, FunctionId};

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, options: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    starts::by_time(graph.len(), options.starts)
}
