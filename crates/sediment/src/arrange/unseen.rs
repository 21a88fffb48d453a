// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that no run saw, behind those that ran: those first that what ran is bound to, what calls each other side by side, error
//! paths last.

use crate::graph::{FunctionId, Unseen};
use crate::layout::{Options, cdsort};

/// The same sequence, in which what no run saw comes last, by its standing and within that as CDSort has it.
#[must_use]
pub fn by_bonds(sequence: &[FunctionId], unseen: &Unseen) -> Vec<FunctionId> {
    let standing = |function: &FunctionId| unseen.standing.get(function.index()).copied().flatten();
    let ran = sequence.iter().copied().filter(|function| standing(function).is_none());
    let order = if unseen.graph.edges().is_empty() {
        sequence.to_vec()
    } else {
        cdsort::order(&unseen.graph, &Options::default())
    };
    let mut behind: Vec<FunctionId> =
        order.into_iter().filter(|function| standing(function).is_some()).collect();
    behind.sort_by_key(standing);
    ran.chain(behind).collect()
}
