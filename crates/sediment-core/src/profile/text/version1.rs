// SPDX-License-Identifier: MIT OR Apache-2.0
//! Version 1: graphs by upstream sediment, by gprof2dot, and by compilers.
//!
//! The id of a node is its name followed by `@VERSION`, the label of its first cluster is its DSO, and the label of an
//! edge is its weight: a decimal share, or the lines of gprof2dot, `12.34%` and `567×`. A PLT stub counts as the
//! function that it leads to.

use super::{NodeMeaning, base_name};
use crate::error::{Error, Result};
use crate::profile::arithmetic::{NumberFault, decimal, integer};
use crate::profile::dot::{DotEdge, DotGraph, DotNode, DotValue, Edges, Graphs, Nodes};
use crate::profile::{FunctionIndex, FunctionKey, Profile, SHARE_TOTAL, WeightUnit, acceptable};
use crate::skipped::{Reason, Skipped};
use std::collections::HashMap;

/// Number of decimals of a share.
const DECIMALS: i64 = 15;
const STUB: &[u8] = b"@plt";
const UNRESOLVED: &[u8] = b"offset_0x";

pub(super) fn read(graph: &DotGraph) -> Result<(Profile, Skipped)> {
    let (mut profile, mut skipped) = (Profile::default(), Skipped::default());
    if graph.nodes.is_empty() {
        return Err(Error::at_line(1, "the graph has no functions")
            .with_hint("an empty profile is valid only with the attribute `sediment`"));
    }
    count_foreign(graph, &mut skipped);
    let dsos = read_clusters(graph, &mut profile, &mut skipped);
    let readings = read_nodes(graph, &dsos, &mut profile, &mut skipped);
    let weights = read_weights(graph, &mut skipped)?;
    if let Some(unit) = weights.unit {
        profile.unit = unit;
        profile.total = match unit {
            WeightUnit::Share => SHARE_TOTAL,
            WeightUnit::Calls => weights.sum,
        };
    } else if let Some(first) = graph.edges.first() {
        let name = &graph.nodes[first.tail as usize].id;
        skipped.add_many(Reason::NoWeights, graph.edges.len() as u64, 0, name);
    }
    profile.reserve_edges(graph.edges.len());
    for (number, edge) in graph.edges.iter().enumerate() {
        let weight = weights.of_edges.get(number).copied();
        let amount = weight.unwrap_or(0);
        let (tail, head) = (&readings[edge.tail as usize], &readings[edge.head as usize]);
        let (Some(caller), Some(callee)) = (end(tail, &mut profile), end(head, &mut profile)) else {
            skipped.add(Reason::EdgeWithoutEnd, amount, &graph.nodes[edge.tail as usize].id);
            continue;
        };
        let through_stub = matches!(tail, NodeMeaning::Stub(_)) || matches!(head, NodeMeaning::Stub(_));
        if through_stub && caller == callee {
            skipped.add(Reason::StubOfItself, amount, &profile.key(caller).name);
            continue;
        }
        profile.add_edge(caller, callee);
        if let Some(weight) = weight {
            let facts = profile.edge_mut(caller, callee);
            let sum = facts.count.unwrap_or(0).checked_add(weight);
            facts.count =
                Some(sum.ok_or_else(|| graph.error(edge.offset, "the weight of an edge exceeds 128 bits"))?);
        }
    }
    Ok((profile, skipped))
}

/// Counts foreign attributes: unknown ones and attributes of later versions.
fn count_foreign(graph: &DotGraph, skipped: &mut Skipped) {
    skipped.add_many(Reason::ForeignAttribute, graph.foreign, 0, &graph.first_foreign);
    let given = [
        (
            &graph.given_to_nodes[..],
            &[Nodes::Label as usize][..],
            Nodes::spelling as fn(usize) -> &'static str,
        ),
        (&graph.given_to_edges[..], &[Edges::Label as usize][..], Edges::spelling),
        (
            &graph.given_to_graphs[..],
            &[Graphs::Label as usize, Graphs::Sediment as usize][..],
            Graphs::spelling,
        ),
    ];
    for (counts, own, spelling) in given {
        for (place, count) in counts.iter().enumerate().filter(|(place, _)| !own.contains(place)) {
            skipped.add_many(Reason::ForeignAttribute, *count, 0, spelling(place));
        }
    }
}

/// The DSO of each cluster; an inner `None` is a label that a profile cannot contain.
fn read_clusters<'g>(
    graph: &'g DotGraph,
    profile: &mut Profile,
    skipped: &mut Skipped,
) -> HashMap<u32, Option<&'g [u8]>> {
    let mut dsos = HashMap::new();
    for cluster in graph.clusters() {
        let Some(label) = graph.of_cluster(cluster, Graphs::Label) else { continue };
        let dso = base_name(&label.text);
        match acceptable(dso) {
            Some(text) => {
                profile.dso_mut(text);
            }
            None => skipped.add(Reason::UnacceptableName, 0, dso),
        }
        dsos.insert(cluster, acceptable(dso).map(|_| dso));
    }
    dsos
}

fn read_nodes(
    graph: &DotGraph,
    dsos: &HashMap<u32, Option<&[u8]>>,
    profile: &mut Profile,
    skipped: &mut Skipped,
) -> Vec<NodeMeaning> {
    // The only DSO that defines a name; `None` if several do.
    let mut defining: HashMap<&[u8], Option<&[u8]>> = HashMap::new();
    let mut readings = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let name = name_of(node);
        if is_stub(node) {
            readings.push(NodeMeaning::LeftOut);
            continue;
        }
        let dso = match graph.cluster_of(node).and_then(|cluster| dsos.get(&cluster)) {
            None => Some(None),
            Some(dso) => dso.map(Some),
        };
        let key = dso.and_then(|dso| FunctionKey::new(dso, name, None));
        match key {
            Some(key) => {
                if let Some(dso) = dso.flatten() {
                    let known = defining.entry(name).or_insert(Some(dso));
                    if *known != Some(dso) {
                        *known = None;
                    }
                }
                readings.push(NodeMeaning::Function(profile.function(key)));
            }
            None => {
                let example = graph.lost_name(name, node.offset, skipped.items(Reason::UnacceptableName));
                skipped.add(Reason::UnacceptableName, 0, &example);
                readings.push(NodeMeaning::LeftOut);
            }
        }
    }
    for (node, reading) in graph.nodes.iter().zip(&mut readings).filter(|(node, _)| is_stub(node)) {
        let name = name_of(node);
        if name.starts_with(UNRESOLVED) {
            skipped.add(Reason::UnresolvedStub, 0, name);
            continue;
        }
        match FunctionKey::new(defining.get(name).copied().flatten(), name, None) {
            Some(key) => *reading = NodeMeaning::Stub(Box::new(key)),
            None => skipped.add(Reason::UnacceptableName, 0, name),
        }
    }
    readings
}

fn name_of<'g>(node: &'g DotNode) -> &'g [u8] {
    &node.id[..memchr::memchr(b'@', &node.id).unwrap_or(node.id.len())]
}

fn is_stub(node: &DotNode) -> bool {
    node.id.ends_with(STUB)
}

fn end(reading: &NodeMeaning, profile: &mut Profile) -> Option<FunctionIndex> {
    match reading {
        NodeMeaning::Function(function) => Some(*function),
        NodeMeaning::Stub(key) => Some(match profile.find(key) {
            Some(function) => function,
            None => profile.function((**key).clone()),
        }),
        NodeMeaning::LeftOut => None,
    }
}

struct EdgeWeights {
    /// `None` if no edge has a weight.
    unit: Option<WeightUnit>,
    sum: u128,
    /// Weights of all edges, or empty.
    of_edges: Vec<u128>,
}

fn read_weights(graph: &DotGraph, skipped: &mut Skipped) -> Result<EdgeWeights> {
    let mut weights = EdgeWeights { unit: None, sum: 0, of_edges: Vec::new() };
    let mut bare: Option<&DotEdge> = None;
    for edge in &graph.edges {
        let label = graph.of_edge(edge, Edges::Label).filter(|value| !value.text.is_empty());
        let weight = label.map(|label| read_label(graph, label, skipped)).transpose()?.flatten();
        let Some((unit, amount)) = weight else {
            bare = bare.or(Some(edge));
            continue;
        };
        if weights.unit.is_some_and(|known| known != unit) {
            let offset = label.map_or(edge.offset, |label| label.offset);
            return Err(graph.error(offset, "some labels are shares and others are call counts"));
        }
        weights.unit = Some(unit);
        weights.sum = weights
            .sum
            .checked_add(amount)
            .ok_or_else(|| graph.error(edge.offset, "the weights of the edges exceed 128 bits"))?;
        weights.of_edges.push(amount);
    }
    match bare {
        Some(edge) if weights.unit.is_some() => Err(super::version2::without_weight(graph, edge)),
        _ => Ok(weights),
    }
}

/// Returns the weight in an edge's label, if it has more than a percentage.
fn read_label(
    graph: &DotGraph,
    label: &DotValue,
    skipped: &mut Skipped,
) -> Result<Option<(WeightUnit, u128)>> {
    let fault = |fault: NumberFault| {
        graph.error(label.offset, format!("the label of an edge {}", fault.message())).with_found(&label.text)
    };
    match decimal(&label.text, DECIMALS) {
        Ok(share) => return Ok(Some((WeightUnit::Share, share))),
        Err(NumberFault::NoNumber) => {}
        Err(other) => return Err(fault(other)),
    }
    let mut count = None;
    for line in lines(&label.text).filter(|line| !line.is_empty()) {
        if let Some(percentage) = line.strip_suffix(b"%") {
            decimal(percentage, 0).map_err(fault)?;
            skipped.add(Reason::Percentage, 0, line);
        } else if let (Some(calls), None) = (calls_of(line), count) {
            count = Some(integer(calls).map_err(fault)?);
        } else {
            return Err(fault(NumberFault::NoNumber));
        }
    }
    Ok(count.map(|count| (WeightUnit::Calls, count)))
}

/// Returns the number before the multiplication sign, which is in Latin-1 in older files.
fn calls_of(line: &[u8]) -> Option<&[u8]> {
    line.strip_suffix("×".as_bytes()).or_else(|| line.strip_suffix(b"\xD7"))
}

/// Splits a label into lines as DOT does: at `\n`, `\l` or `\r`, or at a line end in the text.
fn lines(label: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(label);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = (0..text.len()).find_map(|at| match text[at..] {
            [b'\n', ..] => Some((at, 1)),
            [b'\\', b'n' | b'l' | b'r', ..] => Some((at, 2)),
            _ => None,
        });
        rest = end.map(|(at, length)| &text[at + length..]);
        Some(end.map_or(text, |(at, _)| &text[..at]).trim_ascii())
    })
}
