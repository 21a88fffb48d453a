// SPDX-License-Identifier: MIT OR Apache-2.0
//! cdsort.

use super::Options;
use crate::graph::{CallGraph, FunctionId};

/// Orders all functions of the graph.
#[must_use]
pub fn order(graph: &CallGraph, _: &Options) -> Vec<FunctionId> {
    graph.ids().collect()
}
