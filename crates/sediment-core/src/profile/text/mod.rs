// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profile file: [`parse`] reads versions 1 to 3; [`print()`] writes version 2, or 3 if necessary, in a canonical
//! order.
//!
//! A profile is a Graphviz digraph that people can read, `dot` can draw and source packages can keep
//! (docs/profile-format.md). Version 1 is upstream sediment's format, a graph without the attribute `sediment`. Equal
//! profiles give equal bytes, and `parse(print(p))` is `p`.

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

/// Reads a profile file of version 1 to 3. Also returns the skipped items, including [`Reason::NoWeights`] if it
/// applies.
///
/// # Errors
/// If the text is not DOT or not directed, if a number is invalid or negative, if an edge has no weight but others do,
/// or if the version is newer than [`VERSION`]. The error has the line.
pub fn parse(bytes: &[u8]) -> Result<(Profile, Skipped)> {
    let graph = dot::read(bytes, |value| version(value).map(|_| ()))?;
    let named = graph.of_graph(dot::Graphs::Sediment).map(version).transpose();
    match named.map_err(|(code, message)| crate::Error::new(code, message))? {
        None | Some(1) => version1::read(&graph),
        Some(_) => version2::read(&graph),
    }
}

/// Returns the version that a graph has.
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

/// Returns the entries of a list, sorted and without repeats; an entry that contains the separator is split.
pub(super) fn entries(list: &BTreeSet<String>) -> BTreeSet<&str> {
    list.iter().flat_map(|entry| entry.split(LIST_SEPARATOR)).filter(|entry| !entry.is_empty()).collect()
}

/// Function of a node, or the reason why the node has none.
#[derive(Debug, Clone)]
enum NodeMeaning {
    Function(FunctionIndex),
    /// A PLT stub that leads to this function, which is added with its first edge.
    Stub(Box<FunctionKey>),
    LeftOut,
}

/// Returns a text that a profile may contain; counts an invalid one.
fn accepted(text: &[u8], skipped: &mut Skipped) -> Option<String> {
    let kept = acceptable(text).map(str::to_owned);
    if kept.is_none() {
        skipped.add(Reason::UnacceptableText, 0, text);
    }
    kept
}
