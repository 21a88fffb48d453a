// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the reading of DOT with Graphviz. gvpr lists the nodes, edges, subgraphs and attributes of a text
//! (objects.gvpr). They are written as a flat graph, in which each object has its own statement with all its
//! attributes. Reading this graph must give the same profile as reading the text itself, or both must be refused.
//!
//! Rules for intended differences from Graphviz, and for texts that cannot be compared:
//! - a text is refused if Graphviz refuses it, or finds in it no graph, several graphs or an undirected one;
//! - anything but comments after the graph is refused; Graphviz ignores words there;
//! - empty statements, `;;`, are ignored; Graphviz refuses them;
//! - an attribute with an empty text is refused if it must be a number or a word; for Graphviz, it is the same as a
//!   missing attribute: skipped;
//! - a node in several clusters that are not nested belongs to the first one in the text; Graphviz does not keep
//!   their sequence: skipped;
//! - an unknown version is refused where it is found, even if a later statement gives another one;
//! - names that begin with `%` are Graphviz's own names for objects without a name, and get lost there: skipped;
//! - a byte 0 ends the text for Graphviz, and is refused by sediment;
//! - an id that only HTML can express, and that has no balanced brackets, cannot be written flat: skipped.

use crate::cases::{CaseTally, count, differs, mutant, seeds};
use crate::dot_text;
use sediment_core::profile::text::parse;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const NODES: [&str; 14] = [
    "label", "name", "dso", "file", "size", "samples", "first", "static", "heat", "alias", "taken", "entry",
    "blocks", "counters",
];
const EDGES: [&str; 5] = ["label", "count", "near", "static", "kind"];
const CLUSTERS: [&str; 4] = ["label", "build_id", "package", "unresolved"];
const GRAPH: [&str; 9] = [
    "sediment",
    "source",
    "unit",
    "total",
    "arch",
    "inputs",
    "blocks_unit",
    "blocks_total",
    "counters_total",
];

/// A value, and whether it is HTML.
type GraphvizValue = (Vec<u8>, bool);
type GraphvizValues = BTreeMap<Vec<u8>, GraphvizValue>;

#[derive(Debug, Default)]
struct GraphvizSubgraph {
    name: Vec<u8>,
    /// Depth in the tree of subgraphs, from 1 for the graph itself.
    depth: usize,
    /// Index of the parent in the list.
    parent: Option<usize>,
    values: GraphvizValues,
    members: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct GraphvizGraph {
    directed: bool,
    values: GraphvizValues,
    subgraphs: Vec<GraphvizSubgraph>,
    nodes: Vec<(Vec<u8>, GraphvizValues)>,
    edges: Vec<(Vec<u8>, Vec<u8>, GraphvizValues)>,
}

/// Graphviz's view of one text.
#[derive(Debug, Default)]
struct GraphvizAnswer {
    graphs: Vec<GraphvizGraph>,
    complained: bool,
}

pub(crate) fn against_graphviz() {
    let seeds = seeds("profile-text", "profile");
    let mut tally = CaseTally::new("DOT against Graphviz");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    for number in 0..count().by_program {
        let bytes = text(&seeds, number);
        std::fs::write(&file, &bytes).unwrap();
        compare(number, &bytes, &asked(&file), &mut tally);
    }
    tally.finish(35, 15);
}

/// Makes a text: half of them are mutants of a profile, the others are written by the grammar.
fn text(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    if number % 2 == 0 { mutant("profile-text", seeds, number) } else { dot_text::graph(number) }
}

fn compare(number: u64, bytes: &[u8], said: &GraphvizAnswer, tally: &mut CaseTally) {
    if bytes.contains(&0) {
        return tally.pass_over("bytes 0");
    }
    if [&b"\"%"[..], b"<%"].iter().any(|name| memchr::memmem::find(bytes, name).is_some()) {
        return tally.pass_over("names that begin with %");
    }
    let ours = parse(bytes);
    let graph = match &said.graphs[..] {
        [graph] if graph.directed && !said.complained => graph,
        _ => {
            if ours.is_ok() && has_empty_statements(bytes) {
                return tally.pass_over("empty statements");
            }
            if ours.is_ok() {
                differs("dot", number, bytes, &format!("Graphviz does not read it as one digraph: {said:?}"));
            }
            tally.refused += 1;
            return;
        }
    };
    if has_empty_values(bytes) {
        return tally.pass_over("attributes that are given as empty texts");
    }
    let flat = match flat(graph) {
        Ok(flat) => flat,
        Err(rule) => return tally.pass_over(rule),
    };
    match (ours, parse(&flat)) {
        (Ok((ours, _)), Ok((theirs, _))) if ours == theirs => tally.read += 1,
        (Err(_), Err(_)) => tally.refused += 1,
        (Err(why), _) if why.to_string().contains("text after the end of the graph") => tally.refused += 1,
        (Err(why), _) if why.to_string().contains("version") && versions(bytes) > 1 => tally.refused += 1,
        (ours, theirs) => {
            let flat = String::from_utf8_lossy(&flat).into_owned();
            let text = String::from_utf8_lossy(bytes);
            differs("dot", number, bytes, &format!("ours {ours:?}\ntheirs {theirs:?}\n{text}\n{flat}"));
        }
    }
}

fn versions(bytes: &[u8]) -> usize {
    memchr::memmem::find_iter(bytes, b"sediment").count()
}

/// True if a `;` ends nothing, ignoring blanks, comments, quotes and brackets.
fn has_empty_statements(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut last = b';';
    let behind =
        |rest: &[u8], end: &[u8]| memchr::memmem::find(rest, end).map_or(rest.len(), |at| at + end.len());
    while let Some(&byte) = rest.first() {
        let length = match byte {
            b'"' => {
                let mut end = 1;
                while rest.get(end).is_some_and(|byte| *byte != b'"') {
                    end += if rest[end] == b'\\' { 2 } else { 1 };
                }
                end + 1
            }
            b'<' => {
                let mut depth = 0i64;
                let close = rest.iter().position(|byte| {
                    depth += i64::from(*byte == b'<') - i64::from(*byte == b'>');
                    depth == 0
                });
                close.map_or(rest.len(), |at| at + 1)
            }
            b'/' if rest.starts_with(b"/*") => behind(rest, b"*/"),
            b'/' if rest.starts_with(b"//") => behind(rest, b"\n"),
            b'#' => behind(rest, b"\n"),
            _ => 1,
        };
        if byte == b';' && matches!(last, b';' | b'{') {
            return true;
        }
        if !byte.is_ascii_whitespace() && !matches!(byte, b'/' | b'#') {
            last = byte;
        }
        rest = &rest[length.min(rest.len())..];
    }
    false
}

/// True if a `=` is followed by an empty text, ignoring blanks and comments.
fn has_empty_values(bytes: &[u8]) -> bool {
    let equals = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'=').map(|(at, _)| at);
    equals.into_iter().any(|at| {
        let value = bytes[at + 1..].trim_ascii_start();
        value.starts_with(b"\"\"")
            || value.starts_with(b"<>")
            || value.starts_with(b"/")
            || value.starts_with(b"#")
    })
}

/// Asks Graphviz about one text at a time, because after an error its lexer may read the next text as the rest of a
/// comment.
fn asked(file: &Path) -> GraphvizAnswer {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/references/objects.gvpr");
    let output = Command::new("gvpr").arg("-f").arg(program).arg(file).env("LC_ALL", "C").output().unwrap();
    let mut said =
        GraphvizAnswer { complained: output.stderr.starts_with(b"Error: "), ..GraphvizAnswer::default() };
    let mut rest = &output.stdout[..];
    while let Some((graph, after)) = graph_of(rest) {
        said.graphs.push(graph);
        rest = after;
    }
    assert!(rest.is_empty(), "gvpr printed what is not understood: {}", String::from_utf8_lossy(rest));
    said
}

/// Reads the next graph, and returns it with the rest.
fn graph_of(bytes: &[u8]) -> Option<(GraphvizGraph, &[u8])> {
    let mut rest = bytes.strip_prefix(b"G")?;
    let mut graph =
        GraphvizGraph { directed: netstring(&mut rest)? == b"directed", ..GraphvizGraph::default() };
    graph.values = values(&mut rest)?;
    loop {
        let (tag, mut after) = rest.split_first()?;
        match tag {
            b'Z' => return Some((graph, after)),
            b'S' => {
                let name = netstring(&mut after)?.to_vec();
                let (depth, values_of) = after.split_at_checked(memchr::memchr(b',', after)?)?;
                let depth = std::str::from_utf8(depth).ok()?.parse().ok()?;
                after = &values_of[1..];
                let parent = graph.subgraphs.iter().rposition(|before| before.depth < depth);
                let values = values(&mut after)?;
                graph.subgraphs.push(GraphvizSubgraph { name, depth, parent, values, members: Vec::new() });
            }
            b'M' => graph.subgraphs.last_mut()?.members.push(netstring(&mut after)?.to_vec()),
            b'N' => graph.nodes.push((netstring(&mut after)?.to_vec(), values(&mut after)?)),
            b'E' => {
                let (tail, head) = (netstring(&mut after)?.to_vec(), netstring(&mut after)?.to_vec());
                graph.edges.push((tail, head, values(&mut after)?));
            }
            _ => return None,
        }
        rest = after;
    }
}

fn values(rest: &mut &[u8]) -> Option<GraphvizValues> {
    let mut values = GraphvizValues::new();
    while let Some((tag @ (b'A' | b'H'), after)) = rest.split_first() {
        *rest = after;
        let name = netstring(rest)?.to_vec();
        values.insert(name, (netstring(rest)?.to_vec(), *tag == b'H'));
    }
    Some(values)
}

fn netstring<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let colon = memchr::memchr(b':', rest)?;
    let length: usize = std::str::from_utf8(&rest[..colon]).ok()?.parse().ok()?;
    let (text, after) = rest[colon + 1..].split_at_checked(length)?;
    *rest = after.strip_prefix(b",")?;
    Some(text)
}

/// Writes the same graph, with each object in its own statement with all its attributes; or returns the rule that skips
/// it.
fn flat(graph: &GraphvizGraph) -> Result<Vec<u8>, &'static str> {
    let mut flat = b"digraph {\n".to_vec();
    let mut own = graph.values.clone();
    own.retain(|name, _| GRAPH.iter().any(|known| known.as_bytes() == &name[..]));
    if own.values().any(|(text, _)| !text.is_empty()) {
        flat.extend_from_slice(b"graph");
        list(&own, &GRAPH, &mut flat)?;
    }
    let clusters = clusters(graph)?;
    for (place, subgraph) in graph.subgraphs.iter().enumerate() {
        if !is_cluster(subgraph) || !has_label(subgraph) {
            continue;
        }
        flat.extend_from_slice(format!("subgraph cluster{place} {{ graph").as_bytes());
        list(&subgraph.values, &CLUSTERS, &mut flat)?;
        for (node, _) in graph.nodes.iter().filter(|(node, _)| clusters.get(&node[..]) == Some(&place)) {
            id(node, false, &mut flat)?;
            flat.push(b'\n');
        }
        flat.extend_from_slice(b"}\n");
    }
    for (node, values) in &graph.nodes {
        id(node, false, &mut flat)?;
        list(values, &NODES, &mut flat)?;
    }
    for (tail, head, values) in &graph.edges {
        id(tail, false, &mut flat)?;
        flat.extend_from_slice(b" -> ");
        id(head, false, &mut flat)?;
        list(values, &EDGES, &mut flat)?;
    }
    flat.extend_from_slice(b"}\n");
    Ok(flat)
}

fn is_cluster(subgraph: &GraphvizSubgraph) -> bool {
    subgraph.name.starts_with(b"cluster")
}

fn has_label(subgraph: &GraphvizSubgraph) -> bool {
    subgraph.values.get(&b"label"[..]).is_some_and(|(text, _)| !text.is_empty())
}

/// Returns the cluster of each node: the innermost one that lists the node, or the next one around it that has a label.
fn clusters(graph: &GraphvizGraph) -> Result<BTreeMap<&[u8], usize>, &'static str> {
    let around = |place: usize| std::iter::successors(Some(place), |at| graph.subgraphs[*at].parent);
    let mut listed: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (place, subgraph) in graph.subgraphs.iter().enumerate().filter(|(_, subgraph)| is_cluster(subgraph)) {
        subgraph.members.iter().for_each(|node| listed.entry(node).or_default().push(place));
    }
    let mut found = BTreeMap::new();
    for (node, places) in listed {
        let inner = |outer: usize| places.iter().any(|inner| around(*inner).skip(1).any(|at| at == outer));
        let innermost: Vec<usize> = places.iter().copied().filter(|outer| !inner(*outer)).collect();
        let [innermost] = innermost[..] else { return Err("nodes in several clusters") };
        let mut clusters = around(innermost).filter(|at| is_cluster(&graph.subgraphs[*at]));
        if let Some(cluster) = clusters.find(|at| has_label(&graph.subgraphs[*at])) {
            found.insert(node, cluster);
        }
    }
    Ok(found)
}

/// Writes ` [name=value,…]` with the attributes that a profile knows.
fn list(values: &GraphvizValues, known: &[&str], flat: &mut Vec<u8>) -> Result<(), &'static str> {
    flat.extend_from_slice(b" [");
    for name in known {
        if let Some((text, html)) = values.get(name.as_bytes()).filter(|(text, _)| !text.is_empty()) {
            flat.extend_from_slice(format!("{name}=").as_bytes());
            id(text, *html, flat)?;
            flat.push(b',');
        }
    }
    flat.extend_from_slice(b"]\n");
    Ok(())
}

/// Writes a text in quotes, or in brackets if quotes cannot express it.
fn id(text: &[u8], html: bool, flat: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut backslashes = 0;
    let mut unquotable = html;
    for byte in text.iter().chain(b"\"") {
        // After an odd number of backslashes, a quote would not end the text, and the end of a line would be dropped.
        unquotable |= backslashes % 2 == 1 && matches!(byte, b'"' | b'\n' | b'\r');
        backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
    }
    if !unquotable {
        flat.extend_from_slice(&quote(text));
        return Ok(());
    }
    let mut depth = 0i32;
    let balanced = text.iter().all(|byte| {
        depth += i32::from(*byte == b'<') - i32::from(*byte == b'>');
        depth >= 0
    });
    if !balanced || depth != 0 {
        return Err("ids that cannot be written flat");
    }
    flat.push(b'<');
    flat.extend_from_slice(text);
    flat.push(b'>');
    Ok(())
}

fn quote(text: &[u8]) -> Vec<u8> {
    let mut quoted = b"\"".to_vec();
    for byte in text {
        if *byte == b'"' {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    quoted
}
