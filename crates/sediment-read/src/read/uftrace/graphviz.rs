// SPDX-License-Identifier: MIT OR Apache-2.0
//! `uftrace dump --graphviz`: an edge for each call in each place of the call tree.
//!
//! ```text
//! digraph "program" {
//!     "program" -> "main" [xlabel = "1"]
//!     "main" -> "caller" [xlabel = "1"]
//! ```
//!
//! The first node is the program itself; its edges are the starts of threads. A pair appears once for each position
//! in the tree, and adds up.

use super::{Aside, Caller, Reading};
use crate::read::input::{Input, Lines};
use crate::read::numbers::decimal;
use memchr::memmem;
use sediment_core::error::{Error, Result};

pub(super) fn recognises(head: &[u8]) -> bool {
    let mut lines = head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let Some(first) = lines.next() else { return false };
    first.starts_with(b"# version\":\"uftrace")
        || first.starts_with(b"digraph ") && lines.next().is_some_and(|line| edge(line).is_some())
}

/// A line of the graph.
struct Edge<'a> {
    /// None for the root of the tree.
    tail: Option<&'a [u8]>,
    head: &'a [u8],
    count: u64,
}

/// `"tail" -> "head" [xlabel = "count"]`
fn edge(line: &[u8]) -> Option<Edge<'_>> {
    let rest = line.strip_prefix(b"\"")?;
    let at = memmem::rfind(rest, b"\" [xlabel = \"")?;
    let count = rest[at + b"\" [xlabel = \"".len()..].strip_suffix(b"\"]").and_then(decimal)?;
    let names = &rest[..at];
    let (tail, head) = match memmem::find(names, b"\" -> \"") {
        Some(arrow) => (Some(&names[..arrow]), &names[arrow + b"\" -> \"".len()..]),
        None => (None, names),
    };
    Some(Edge { tail, head, count })
}

pub(super) fn read(input: &dyn Input, reading: &mut Reading) -> Result<Aside> {
    let mut aside = Aside::default();
    let mut root = Vec::new();
    // A function may have the name of the program; its own calls then come behind the one that starts it.
    let mut root_is_function = false;
    let mut closed = false;
    let mut lines = Lines::of(input);
    while let Some(line) = lines.next()? {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        if let Some(name) = line.strip_prefix(b"digraph ") {
            let name = name.trim_ascii().strip_suffix(b"{").unwrap_or(name).trim_ascii();
            root =
                name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name).to_vec();
        } else if line == b"}" {
            closed = true;
        } else if let Some(Edge { tail, head, count }) = edge(line) {
            if head.starts_with(b"linux:") {
                aside.events += 1;
                continue;
            }
            let starts = tail.is_none_or(|tail| tail == root && !root_is_function);
            root_is_function |= head == root;
            let caller = match tail {
                Some(tail) if !starts => reading.place(tail).map_or(Caller::Unnamed, Caller::Known),
                _ => Caller::Outside,
            };
            let callee = reading.place(head);
            reading.add(caller, callee, u128::from(count));
        } else {
            aside.other(line);
        }
    }
    if !closed {
        return Err(Error::at_line(lines.number(), "the graph ends without its closing brace")
            .with_hint("is the file cut off? print it again: uftrace dump --graphviz --demangle=no"));
    }
    Ok(aside)
}
