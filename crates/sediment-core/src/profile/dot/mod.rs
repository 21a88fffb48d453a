// SPDX-License-Identifier: MIT OR Apache-2.0
//! The DOT language of Graphviz, read into nodes, edges and clusters with the attributes that a profile has.
//!
//! Grammar and meaning are those of Graphviz's own reader (<https://graphviz.org/doc/info/lang.html>, and what `dot` does where
//! that page is silent), for digraphs: defaults hold for what is made after them, a strict graph has one edge between two
//! nodes, an edge of a subgraph is an edge of each of its nodes. Nesting costs heap, never stack; memory grows with the
//! input, and edges of subgraphs, which multiply, are bounded ([`edges`]).

mod builder;
mod edges;
mod graph;
mod lexer;
mod plain;
mod vocabulary;

pub(super) use builder::read;
pub(super) use graph::{DotEdge, DotGraph, DotNode, DotValue};
pub(super) use vocabulary::{Edges, Graphs, Nodes};

use crate::error::Error;

/// The line (from 1) in which the byte at `offset` stands.
fn line_of(bytes: &[u8], offset: usize) -> u64 {
    1 + memchr::memchr_iter(b'\n', &bytes[..offset.min(bytes.len())]).count() as u64
}

/// An error at the line of `offset`, which quotes the rest of that line.
fn error_at(bytes: &[u8], offset: usize, message: impl Into<String>) -> Error {
    let error = Error::at_line(line_of(bytes, offset), message);
    let rest = &bytes[offset.min(bytes.len())..];
    let quote = &rest[..memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())];
    if quote.is_empty() { error } else { error.with_found(quote) }
}
