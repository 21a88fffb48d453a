// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts executed instructions to counters of GCC's instrumentation, by the map of statements that the plugin made
//! before inlining.
//!
//! 1. A final block (a block of the code as compiled) has one count: the median of its instructions (callgrind adds what runs in a linkage
//!    stub to the call), or its samples for each 64 bytes.
//! 2. A statement was executed as often as all final blocks together that contain code of it: inlined, cloned and unrolled copies add up.
//!    A `switch` compares and jumps in several blocks: the most frequent one of each function counts.
//!    A statement is firm if each of these final blocks that was executed contains its call, jump or store. Other code may have been moved
//!    there from elsewhere.
//! 3. A block of the graph before inlining has the median count of its firm statements (the higher one of two): it is more common that a
//!    copy lacks a statement than that foreign code is counted. Without firm statements, the block has the median count of the others (the
//!    lower one of two): merging and code motion increase some counts and decrease others. A block without code of its own is unknown.
//! 4. A flow infers the counts of edges ([`flow`]). The counts of the edges that GCC instruments are the counters.

use super::dsos::{At, BinaryView, NameMeaning};
use crate::read::Spot;
use sediment_core::binary::gcc_early_map::{EarlyGraph, EarlyMap, EarlyUnit};
use sediment_core::binary::names::split_from;
use sediment_core::flow::{self, FlowEdge};
use sediment_core::profile::counters::{ArcCounters, CounterVariant, VariantCounts};
use sediment_core::profile::{FunctionKey, Profile};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Samples are counted per this many bytes of code.
pub(super) const SAMPLED_BYTES: u128 = 64;

/// Recorded executions or samples of the code of a DSO.
pub(super) enum CodeEvidence<'a> {
    /// Executions of code.
    Executed(ExecutedCode<'a>),
    /// Samples with their costs, and the least cost that makes a function's samples evidence.
    Sampled(&'a [(&'a Spot, u128)], u128),
}

/// Executions of the code of a DSO.
pub(super) struct ExecutedCode<'a> {
    /// Stretches of code, with their counts.
    pub(super) stretches: &'a [(u64, u64, u128)],
    /// Least number of executions that makes a function's counts evidence.
    pub(super) least: u128,
    /// True if nothing is known about functions without executions.
    pub(super) of_executed_functions: bool,
}

/// Executions of a statement.
#[derive(Clone, Copy)]
struct StatementExecutions {
    executions: u128,
    /// True if all of them are from code that was not moved.
    is_firm: bool,
}

/// Statements of a unit, by their number.
type Statements = HashMap<u32, StatementExecutions>;

/// Adds the counters of the functions of a DSO.
pub(super) fn add(
    profile: &mut Profile,
    view: &BinaryView<'_>,
    label: &str,
    map: &EarlyMap,
    evidence: &CodeEvidence<'_>,
    skipped: &mut Skipped,
) {
    let (counts, unknown) = counts_of_code(map, view, evidence);
    if unknown > 0 {
        skipped.add(Reason::NoStatement, unknown, label);
    }
    let mut units: BTreeMap<u64, Statements> = BTreeMap::new();
    let mut switches: HashMap<(u64, u32, u32), u128> = HashMap::new();
    for (code, count) in map.code.iter().zip(&counts).filter_map(|(code, count)| Some((code, (*count)?))) {
        let statements = units.entry(code.unit).or_default();
        for statement in &code.statements {
            let unknown = StatementExecutions { executions: 0, is_firm: true };
            let known = statements.entry(statement.number).or_insert(unknown);
            known.is_firm &= statement.is_firm || count == 0;
            let more = match statement.is_switch {
                false => count,
                true => {
                    let most = switches.entry((code.unit, statement.number, code.function)).or_default();
                    let more = count.saturating_sub(*most);
                    *most = count.max(*most);
                    more
                }
            };
            known.executions = known.executions.saturating_add(more);
        }
    }
    // Other copies of a statement may have been executed even if this one was not.
    for (code, _) in map.code.iter().zip(&counts).filter(|(_, count)| count.is_none()) {
        let Some(statements) = units.get_mut(&code.unit) else { continue };
        for statement in &code.statements {
            if statements.get(&statement.number).is_some_and(|known| known.executions == 0) {
                statements.remove(&statement.number);
            }
        }
    }
    let (CodeEvidence::Sampled(_, least) | CodeEvidence::Executed(ExecutedCode { least, .. })) = *evidence;
    for (key, statements) in units {
        let Some(unit) = map.units.get(&key) else { continue };
        for graph in &unit.graphs {
            let Some(counts) = counts_of_blocks(graph, &statements) else { continue };
            let key = identity(view, label, unit, graph);
            add_function(profile, key, unit, graph, &counts, least, skipped);
        }
    }
}

/// Returns the count of each final block, if known, and the number of executions in blocks without statements.
fn counts_of_code(
    map: &EarlyMap,
    view: &BinaryView<'_>,
    evidence: &CodeEvidence<'_>,
) -> (Vec<Option<u128>>, u128) {
    let mut counts = vec![0u128; map.code.len()];
    let mut unknown = 0u128;
    match evidence {
        CodeEvidence::Executed(ExecutedCode { stretches, .. }) => {
            let mut all: Vec<Vec<u128>> = vec![Vec::new(); map.code.len()];
            for (begin, end, count) in *stretches {
                let first = map.code.partition_point(|code| code.address.saturating_add(code.size) <= *begin);
                let code = map.code[first..].iter().take_while(|code| code.address < *end);
                for (place, code) in (first..).zip(code) {
                    all[place].push(*count);
                    if code.statements.is_empty() {
                        unknown = unknown.saturating_add(*count);
                    }
                }
            }
            for (count, mut own) in counts.iter_mut().zip(all) {
                own.sort_unstable();
                *count = own.get(own.len() / 2).copied().unwrap_or(0);
            }
        }
        CodeEvidence::Sampled(samples, _) => {
            for (spot, cost) in *samples {
                let Some(place) = view.address_of(spot).and_then(|address| map.at(address)) else { continue };
                counts[place] = counts[place].saturating_add(*cost);
                if map.code[place].statements.is_empty() {
                    unknown = unknown.saturating_add(*cost);
                }
            }
            for (count, code) in counts.iter_mut().zip(&map.code).filter(|(count, _)| **count > 0) {
                *count = (count.saturating_mul(SAMPLED_BYTES) / u128::from(code.size.max(1))).max(1);
            }
        }
    }
    let mut counts: Vec<Option<u128>> = counts.into_iter().map(Some).collect();
    if let CodeEvidence::Executed(executed) = evidence {
        if executed.of_executed_functions {
            let names: HashSet<&str> =
                executed.stretches.iter().filter_map(|(begin, ..)| function_at(view, *begin)).collect();
            for (code, count) in map.code.iter().zip(&mut counts) {
                *count = count
                    .filter(|_| function_at(view, code.address).is_some_and(|name| names.contains(name)));
            }
        }
    }
    (counts, unknown)
}

/// Returns the function at an address; for a cold part, the function that it belongs to.
fn function_at<'a>(view: &BinaryView<'a>, address: u64) -> Option<&'a str> {
    let Ok(At::Function { function, .. }) = view.at_address(address) else { return None };
    Some(split_from(&function.name).unwrap_or(&function.name))
}

/// Counts of the blocks of a graph; `None` if none of its code is known.
fn counts_of_blocks(graph: &EarlyGraph, statements: &Statements) -> Option<Vec<Option<u64>>> {
    let mut counts: Vec<Vec<StatementExecutions>> = vec![Vec::new(); graph.blocks as usize];
    for (first, number, block) in &graph.statements {
        let known = (*first..first.saturating_add(*number).min(first.saturating_add(1 << 24)))
            .filter_map(|statement| statements.get(&statement));
        counts.get_mut(*block as usize)?.extend(known);
    }
    let is_known = counts.iter().any(|own| !own.is_empty());
    is_known.then(|| counts.into_iter().map(count_of_block).collect())
}

/// Returns the median count of the firm statements (the higher of two middle counts); without firm ones, of all
/// statements (the lower).
fn count_of_block(mut statements: Vec<StatementExecutions>) -> Option<u64> {
    let has_firm = statements.iter().any(|known| known.is_firm);
    statements.retain(|known| known.is_firm || !has_firm);
    statements.sort_unstable_by_key(|known| known.executions);
    let middle = statements.get(statements.len().saturating_sub(usize::from(!has_firm)) / 2)?;
    Some(u64::try_from(middle.executions).unwrap_or(u64::MAX))
}

/// Adds the counters of a function, computed from the counts of its blocks.
fn add_function(
    profile: &mut Profile,
    key: Option<FunctionKey>,
    unit: &EarlyUnit,
    graph: &EarlyGraph,
    counts: &[Option<u64>],
    least: u128,
    skipped: &mut Skipped,
) {
    let sum = counts.iter().flatten().fold(0u128, |sum, count| sum.saturating_add(u128::from(*count)));
    if sum < least {
        if sum > 0 {
            skipped.add(Reason::FewSamples, sum, &graph.name);
        }
        return;
    }
    let Some(arcs) = arcs(graph, counts) else {
        skipped.add(Reason::NoFlow, 0, &graph.name);
        return;
    };
    let variant = CounterVariant::of_early_ids(&unit.name, unit.functions, graph.line, graph.graph);
    let (Some(key), Some(variant)) = (key, variant) else {
        skipped.add(Reason::UnacceptableName, 0, &graph.name);
        return;
    };
    let function = profile.function(key);
    let known = profile.facts_mut(function).counters.get_or_insert_with(|| Box::new(ArcCounters::default()));
    if known.add(variant, &arcs).is_none() {
        skipped.add(Reason::CountersBeyond, 0, &graph.name);
        return;
    }
    let sum = arcs.arcs.sum().unwrap_or(u128::MAX);
    profile.counters_total = profile.counters_total.saturating_add(sum);
}

/// The counts of the edges that GCC instruments; `None` if they were not found.
fn arcs(graph: &EarlyGraph, counts: &[Option<u64>]) -> Option<VariantCounts> {
    let mut single = vec![0u32; counts.len()];
    for edge in &graph.edges {
        single[edge.from as usize] += 1;
    }
    let edges: Vec<FlowEdge> = graph
        .edges
        .iter()
        .map(|edge| FlowEdge {
            from: edge.from as usize,
            to: edge.to as usize,
            is_rare: edge.is_fake && single[edge.from as usize] > 1,
        })
        .collect();
    let flow = flow::infer(counts, &edges)?;
    let mut counted = VariantCounts::default();
    for (_, count) in graph.edges.iter().zip(flow).filter(|(edge, _)| edge.is_counted) {
        counted.arcs.extend(u128::from(count), 1)?;
    }
    Some(counted)
}

/// Returns the identity of a function: from the DSO if it has the function, otherwise from its unit.
fn identity(view: &BinaryView<'_>, label: &str, unit: &EarlyUnit, graph: &EarlyGraph) -> Option<FunctionKey> {
    let name = std::str::from_utf8(&graph.name).ok()?;
    let unit = std::str::from_utf8(&unit.name).ok().filter(|_| graph.is_local);
    let file = match view.by_name(name, unit) {
        NameMeaning::Function { file, .. } => file,
        _ => unit,
    };
    FunctionKey::new(Some(label.as_bytes()), name.as_bytes(), file.map(str::as_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firm_statements_speak_for_their_block() {
        let count = |statements: &[(u128, bool)]| {
            let known = |(executions, is_firm)| StatementExecutions { executions, is_firm };
            count_of_block(statements.iter().copied().map(known).collect())
        };
        assert_eq!(count(&[(90, false), (7, true), (90, false)]), Some(7));
        assert_eq!(count(&[(90, false), (7, false), (90, false)]), Some(90));
        assert_eq!(count(&[(5, true), (7, true), (90, false)]), Some(7));
        assert_eq!(count(&[(5, false), (7, false)]), Some(5));
        assert_eq!(count(&[]), None);
    }

    #[test]
    fn a_graph_is_known_by_any_of_its_statements() {
        let graph = EarlyGraph {
            name: b"f".to_vec(),
            is_local: false,
            line: 1,
            graph: 1,
            blocks: 2,
            statements: vec![(0, 1, 0), (1, 1, 1)],
            edges: Vec::new(),
        };
        let seen = |executions| StatementExecutions { executions, is_firm: true };
        assert_eq!(counts_of_blocks(&graph, &Statements::new()), None);
        let both = [(0, seen(3)), (1, seen(4))].into_iter().collect();
        assert_eq!(counts_of_blocks(&graph, &both), Some(vec![Some(3), Some(4)]));
        let second = [(1, seen(4))].into_iter().collect();
        assert_eq!(counts_of_blocks(&graph, &second), Some(vec![None, Some(4)]));
    }
}
