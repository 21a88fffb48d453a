// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads Graphviz' DOT language into nodes, edges and clusters with the attributes of profiles.
//!
//! Grammar and meaning are as in Graphviz for digraphs (<https://graphviz.org/doc/info/lang.html>, and the behaviour of
//! `dot` if that page leaves a case open): defaults apply to later objects, a strict graph has at most one edge between
//! two nodes, and an edge of a subgraph is an edge of each of its nodes. Nesting uses the heap, never the stack. Memory
//! grows with the input; edges between subgraphs, which multiply, are limited ([`edges`]).

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

/// Returns the line (from 1) of the byte at `offset`.
fn line_of(bytes: &[u8], offset: usize) -> u64 {
    1 + memchr::memchr_iter(b'\n', &bytes[..offset.min(bytes.len())]).count() as u64
}

/// Makes an error at the line of `offset` that quotes the rest of that line.
fn error_at(bytes: &[u8], offset: usize, message: impl Into<String>) -> Error {
    let error = Error::at_line(line_of(bytes, offset), message);
    let rest = &bytes[offset.min(bytes.len())..];
    let quote = &rest[..memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())];
    if quote.is_empty() { error } else { error.with_found(quote) }
}
