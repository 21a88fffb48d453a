// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profile file: [`parse`] reads versions 1 to 3, [`print()`] writes version 2, or 3 where that is needed, in one order.
//!
//! A profile is a Graphviz digraph that people read, `dot` draws and source packages keep (docs/profile-format.md).
//! Version 1 is upstream sediment's, a graph without the attribute `sediment`. Equal profiles are equal bytes, and
//! `parse(print(p))` is `p` again.

mod identity;
mod version1;
mod version2;
pub(super) mod words;
mod write;

use crate::skipped::{Reason, Skipped};
pub use write::print;

use super::dot::{self, DotValue};
use super::{FunctionIndex, FunctionKey, Profile, acceptable, base_name};
use crate::error::{ErrorCode, Result};
use std::collections::BTreeSet;

/// The newest version.
pub const VERSION: u32 = 3;

/// Reads a profile file of version 1 to 3. Returns the skipped items with it, and [`Reason::NoWeights`] where it
/// applies.
///
/// # Errors
/// With the line of what is no DOT, not directed, a number that is negative or none, an edge without a weight among others
/// that have one, or a version that is newer than [`VERSION`].
pub fn parse(bytes: &[u8]) -> Result<(Profile, Skipped)> {
    let graph = dot::read(bytes, |value| version(value).map(|_| ()))?;
    let named = graph.of_graph(dot::Graphs::Sediment).map(version).transpose();
    match named.map_err(|(code, message)| crate::Error::new(code, message))? {
        None | Some(1) => version1::read(&graph),
        Some(_) => version2::read(&graph),
    }
}

/// The version that a graph names.
fn version(value: &DotValue) -> std::result::Result<u128, (ErrorCode, String)> {
    match super::arithmetic::integer(&value.text) {
        Ok(known) if (1..=u128::from(VERSION)).contains(&known) => Ok(known),
        Ok(newer) if newer > 0 => Err((
            ErrorCode::NewerVersion,
            format!(
                "profile version {newer}, but this sediment reads versions 1 to {VERSION}; use a newer sediment"
            ),
        )),
        _ => Err((ErrorCode::Damaged, "the graph attribute `sediment` is not a profile version".to_owned())),
    }
}

/// Separator between the entries of a list in one attribute.
const LIST_SEPARATOR: &str = ", ";

/// The entries of a list, sorted and without repeats; an entry with the separator in it is several.
pub(super) fn entries(list: &BTreeSet<String>) -> BTreeSet<&str> {
    list.iter().flat_map(|entry| entry.split(LIST_SEPARATOR)).filter(|entry| !entry.is_empty()).collect()
}

/// The function of a node, or the reason why a node has none.
#[derive(Debug, Clone)]
enum NodeMeaning {
    Function(FunctionIndex),
    /// It is a PLT stub that leads to this function, which is added with its first edge.
    Stub(Box<FunctionKey>),
    LeftOut,
}

/// A text that may stand in a profile; what may not is counted.
fn accepted(text: &[u8], skipped: &mut Skipped) -> Option<String> {
    let kept = acceptable(text).map(str::to_owned);
    if kept.is_none() {
        skipped.add(Reason::UnacceptableText, 0, text);
    }
    kept
}
