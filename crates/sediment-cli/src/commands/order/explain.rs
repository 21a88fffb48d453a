// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order --explain FUNCTION`: where a function is to lie, with whom, and what binds it there.

use super::Made;
use sediment::graph::FunctionId;
use sediment::{Error, Result};
use std::fmt::Write;

const PAGE: u64 = 4096;
/// What functions are aligned to, in bytes.
const ALIGNMENT: u64 = 16;
/// How many callers, callees and neighbours are named.
const NAMED: usize = 4;

/// One paragraph for each function of this name.
///
/// # Errors
/// When no function that is ordered has the name.
pub(super) fn explain(name: &str, made: &Made) -> Result<String> {
    let Made { built, order, .. } = made;
    let graph = &built.graph;
    let mut starts = vec![0; graph.len()];
    let mut ranks = vec![0; graph.len()];
    let mut end = 0u64;
    let placed: Vec<FunctionId> = order.functions().collect();
    for (rank, function) in placed.iter().enumerate() {
        starts[function.index()] = end.next_multiple_of(ALIGNMENT);
        ranks[function.index()] = rank;
        end = starts[function.index()].saturating_add(graph.sizes()[function.index()]);
    }
    let called = |function: FunctionId| built.table.keys[function.index()].name.as_str();
    let mut text = String::new();
    for &function in placed.iter().filter(|function| called(**function) == name) {
        let (rank, start) = (ranks[function.index()], starts[function.index()]);
        let _ = writeln!(
            text,
            "{name}: function {} of {}, {} bytes into the order, {} bytes long, entered {} times",
            rank + 1,
            placed.len(),
            start,
            graph.sizes()[function.index()],
            graph.weights()[function.index()]
        );
        let around = placed[rank.saturating_sub(2)..(rank + 3).min(placed.len())].iter();
        let around: Vec<&str> =
            around.filter(|other| **other != function).map(|other| called(*other)).collect();
        let _ = writeln!(text, "  between {}", around.join(", "));
        for (what, callers) in [("called by", true), ("calls", false)] {
            let mut edges: Vec<(u64, FunctionId)> = graph
                .edges()
                .iter()
                .filter(|edge| edge.caller != edge.callee)
                .filter(|edge| if callers { edge.callee == function } else { edge.caller == function })
                .map(|edge| (edge.weight, if callers { edge.caller } else { edge.callee }))
                .collect();
            edges.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            for (weight, other) in edges.into_iter().take(NAMED) {
                let distance = starts[other.index()].abs_diff(start);
                let near = if distance < PAGE { "within a page" } else { "further than a page" };
                let _ = writeln!(
                    text,
                    "  {what} {} {weight} times, {distance} bytes away: {near}",
                    called(other)
                );
            }
        }
        if let Some(group) = order.groups.iter().find(|group| group.functions.contains(&function)) {
            let _ = writeln!(text, "  group: {:?}, {} functions", group.kind, group.functions.len());
        }
    }
    if text.is_empty() {
        return Err(Error::failed(format!("no function called {name} is ordered"))
            .with_hint("names are linkage names, as the profile has them: sediment show lists some"));
    }
    Ok(text)
}
