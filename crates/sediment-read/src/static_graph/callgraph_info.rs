// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output of GCC's `-fcallgraph-info`: a `.ci` file per unit in the VCG language (GCC manual, "Developer
//! Options"; tested with GCC 12 to 14).
//!
//! It contains callers and callees, once per call site after inlining, and nothing else: no frequencies, no order, and
//! no targets of calls through pointers. Each call site counts as one call per call of the caller.

use super::{UnitGraph, UnitReader, add_call, add_function};
use sediment_core::profile::{CallKind, EdgeFacts, FunctionFacts, Millionths, Profile};
use sediment_core::skipped::{Reason, Skipped};
use sediment_core::{Error, ErrorCode, Result};
use std::borrow::Cow;

pub(super) const READER: UnitReader = UnitReader {
    name: "callgraph-info",
    extension: "ci",
    summary: "call graphs of GCC's -fcallgraph-info (.ci)",
    recognises,
    read,
};

const INDIRECT: &[u8] = b"__indirect_call";
/// One call per call of the caller.
const ONCE: Millionths = Millionths(1_000_000);

fn recognises(bytes: &[u8]) -> bool {
    bytes.starts_with(b"graph: { title:")
}

fn read(name: &str, bytes: &[u8], skipped: &mut Skipped) -> Result<UnitGraph> {
    let mut graph = Profile::default();
    graph.source.insert("gcc call sites without frequencies or targets of pointers".to_owned());
    let mut ended = false;
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        if ended && !line.starts_with(b"graph: {") {
            return Err(damaged(number, line, "text after the end of the graph"));
        }
        ended = false;
        if line.starts_with(b"node: {") {
            let title =
                attribute(line, b"title: ").ok_or_else(|| damaged(number, line, "a node without title"))?;
            node(&mut graph, &title, line, skipped);
        } else if line.starts_with(b"edge: {") {
            let ends = attribute(line, b"sourcename: ").zip(attribute(line, b"targetname: "));
            let (caller, callee) = ends.ok_or_else(|| damaged(number, line, "an edge without its ends"))?;
            edge(&mut graph, &caller, &callee, skipped);
        } else if line == b"}" {
            ended = true;
        } else if !line.starts_with(b"graph: {") {
            return Err(damaged(number, line, "not a node or an edge"));
        }
    }
    if !ended {
        return Err(Error::new(ErrorCode::Damaged, "the graph does not end: is the file cut off?")
            .with_hint("compile the unit again"));
    }
    Ok(UnitGraph { name: name.to_owned(), graph, whole_program: false })
}

fn damaged(line: u64, found: &[u8], what: &str) -> Error {
    Error::at_line(line, what).with_found(found).with_hint("compile the unit again")
}

fn node(graph: &mut Profile, title: &[u8], line: &[u8], skipped: &mut Skipped) {
    if title == INDIRECT {
        return;
    }
    let (name, file) = name_and_file(title);
    if let Some(function) = add_function(graph, name, file, skipped) {
        // `-fcallgraph-info=su` adds the stack usage, but not the size of the code.
        let facts: &mut FunctionFacts = graph.facts_mut(function);
        facts.entry |= name == b"main" && memchr::memmem::find(line, b"shape : ellipse").is_none();
    }
}

fn edge(graph: &mut Profile, caller: &[u8], callee: &[u8], skipped: &mut Skipped) {
    if callee == INDIRECT {
        skipped.add(Reason::PointerCall, 0, caller);
        return;
    }
    let [caller, callee] = [caller, callee].map(|title| {
        let (name, file) = name_and_file(title);
        add_function(graph, name, file, skipped)
    });
    if let (Some(caller), Some(callee)) = (caller, callee) {
        let call =
            EdgeFacts { static_calls: Some(ONCE), kind: Some(CallKind::Direct), ..EdgeFacts::default() };
        add_call(graph.edge_mut(caller, callee), &call);
    }
}

/// Returns the quoted value of an attribute; VCG escapes quotes and backslashes by a backslash.
fn attribute<'l>(line: &'l [u8], name: &[u8]) -> Option<Cow<'l, [u8]>> {
    let at = memchr::memmem::find(line, name)? + name.len();
    let rest = line[at..].strip_prefix(b"\"")?;
    let mut plain = Vec::new();
    let mut escaped = false;
    for (position, &byte) in rest.iter().enumerate() {
        match byte {
            b'"' if !escaped => {
                let whole = plain.len() == position;
                return Some(if whole { Cow::Borrowed(&rest[..position]) } else { Cow::Owned(plain) });
            }
            b'\\' if !escaped => {
                escaped = true;
                continue;
            }
            _ => plain.push(byte),
        }
        escaped = false;
    }
    None
}

/// Splits a title, which is the name. The unit's file and a colon come before it if the function is local, or if it is
/// a C++ function that several units may emit; of the latter, only `static` functions and functions in unnamed
/// namespaces are local.
fn name_and_file(title: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(colon) = memchr::memrchr(b':', title) else { return (title, None) };
    let (path, name) = (&title[..colon], &title[colon + 1..]);
    let is_local = !name.starts_with(b"_Z")
        || name.starts_with(b"_ZL")
        || memchr::memmem::find(name, b"_GLOBAL__N_").is_some();
    let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    (name, is_local.then_some(base))
}
