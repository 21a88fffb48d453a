// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the others must beat.

use super::Options;
use crate::graph::{CallGraph, FunctionId};

/// input.
#[must_use]
pub fn input(graph: &CallGraph, _: &Options) -> Vec<FunctionId> {
    graph.ids().collect()
}

/// hottest.
#[must_use]
pub fn hottest(graph: &CallGraph, _: &Options) -> Vec<FunctionId> {
    graph.ids().collect()
}

/// random.
#[must_use]
pub fn random(graph: &CallGraph, _: &Options) -> Vec<FunctionId> {
    graph.ids().collect()
}
