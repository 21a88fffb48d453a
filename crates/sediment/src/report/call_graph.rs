// SPDX-License-Identifier: MIT OR Apache-2.0
//! A part of a profile's calls as a graph for Graphviz' `dot`: functions with their heat, calls as wide as they are frequent.
//!
//! **Which calls.** Around functions: calls are added heaviest first, each at a function that is reached already and within the
//! depth; then the heaviest between reached functions. Otherwise the heaviest of all. On a tie the earlier in the profile comes first.

use super::layout::{HEAT_COLOURS, heat_step, percent};
use crate::demangle::demangled;
use crate::escape;
use crate::profile::{FunctionIndex, Profile};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::fmt::Write as _;

/// Which calls of a profile are drawn.
#[derive(Debug, Clone, Default)]
pub struct Choice<'a> {
    /// Functions to start from; none for the whole profile.
    pub around: Vec<FunctionIndex>,
    /// Calls from or to those to follow.
    pub depth: u32,
    /// Calls with an end in this DSO alone.
    pub dso: Option<&'a str>,
    /// Calls to draw; 0 for all.
    pub calls: usize,
}

/// A graph to draw.
#[derive(Debug, Clone)]
pub struct CallPicture {
    /// Text in the DOT language.
    pub dot: String,
    /// Calls drawn.
    pub drawn: usize,
    /// Calls that the choice allows beyond those.
    pub skipped: usize,
}

type Edge = (FunctionIndex, FunctionIndex, u128);

/// Draws a part of a profile.
#[must_use]
pub fn call_picture(profile: &Profile, choice: &Choice<'_>) -> CallPicture {
    let is_in = |function| choice.dso.is_none_or(|dso| profile.key(function).dso.as_deref() == Some(dso));
    let mut edges: Vec<Edge> = profile
        .edges()
        .into_iter()
        .filter(|(caller, callee, _)| is_in(*caller) || is_in(*callee))
        .map(|(caller, callee, facts)| (caller, callee, facts.count.unwrap_or(0)))
        .collect();
    edges.sort_by_key(|(_, _, count)| Reverse(*count));
    let most = if choice.calls == 0 { usize::MAX } else { choice.calls };
    let (chosen, skipped) = match choice.around.is_empty() {
        true => {
            let skipped = edges.len().saturating_sub(most);
            edges.truncate(most);
            (edges, skipped)
        }
        false => around(&edges, choice, most),
    };
    CallPicture { dot: dot(profile, choice, &chosen), drawn: chosen.len(), skipped }
}

/// The calls around the chosen functions, and the number of those within the depth that are beyond `most`.
fn around(edges: &[Edge], choice: &Choice<'_>, most: usize) -> (Vec<Edge>, usize) {
    let mut at: HashMap<FunctionIndex, Vec<usize>> = HashMap::new();
    for (number, (caller, callee, _)) in edges.iter().enumerate() {
        at.entry(*caller).or_default().push(number);
        at.entry(*callee).or_default().push(number);
    }
    let mut depths: HashMap<FunctionIndex, u32> = HashMap::new();
    let mut waiting = BinaryHeap::new();
    let mut taken: HashSet<usize> = HashSet::new();
    let mut reached: Vec<(FunctionIndex, u32)> =
        choice.around.iter().map(|function| (*function, 0)).collect();
    let mut within = HashSet::new();
    loop {
        for (function, depth) in reached.drain(..) {
            if depths.get(&function).is_some_and(|known| *known <= depth) {
                continue;
            }
            depths.insert(function, depth);
            if depth < choice.depth {
                // Edges are sorted: the lower number is the heavier.
                waiting
                    .extend(at.get(&function).into_iter().flatten().map(|edge| Reverse((*edge, depth + 1))));
            }
        }
        let Some(Reverse((edge, depth))) = waiting.pop() else { break };
        within.insert(edge);
        let (caller, callee, _) = edges[edge];
        let is_new = !depths.contains_key(&caller) || !depths.contains_key(&callee);
        if is_new && taken.len() >= most {
            continue;
        }
        if is_new {
            taken.insert(edge);
        }
        reached.extend([(caller, depth), (callee, depth)]);
    }
    let between = |edge: &usize| {
        let (caller, callee, _) = edges[*edge];
        depths.contains_key(&caller) && depths.contains_key(&callee)
    };
    let mut rest: Vec<usize> =
        within.iter().copied().filter(|edge| !taken.contains(edge) && between(edge)).collect();
    rest.sort_unstable();
    taken.extend(rest.into_iter().take(most.saturating_sub(taken.len())));
    let mut taken: Vec<usize> = taken.into_iter().collect();
    taken.sort_unstable();
    let skipped = within.len() - taken.len();
    (taken.into_iter().map(|edge| edges[edge]).collect(), skipped)
}

/// Letters of a name that a node shows.
const LONGEST: usize = 44;
/// More calls than these are drawn without their share, but for the frequent ones.
const LABELLED: usize = 80;

fn dot(profile: &Profile, choice: &Choice<'_>, edges: &[Edge]) -> String {
    let total = profile
        .edges()
        .iter()
        .fold(0, |sum: u128, (_, _, facts)| sum.saturating_add(facts.count.unwrap_or(0)));
    let share = |count: u128| if total == 0 { 0.0 } else { count as f64 / total as f64 };
    let mut calls_of: HashMap<FunctionIndex, u128> = HashMap::new();
    for (_, callee, facts) in profile.edges() {
        let sum = calls_of.entry(callee).or_default();
        *sum = sum.saturating_add(facts.count.unwrap_or(0));
    }
    let mut numbers: HashMap<FunctionIndex, usize> = HashMap::new();
    let mut libraries: BTreeMap<&str, Vec<FunctionIndex>> = BTreeMap::new();
    let ends = edges.iter().flat_map(|(caller, callee, _)| [*caller, *callee]);
    for function in choice.around.iter().copied().chain(ends) {
        let number = numbers.len();
        numbers.entry(function).or_insert_with(|| {
            libraries
                .entry(profile.key(function).dso.as_deref().unwrap_or_default())
                .or_default()
                .push(function);
            number
        });
    }
    // The size is that of a screen in inches; `dot` makes a larger drawing smaller.
    let mut text = String::from(
        "digraph calls {\n  graph [rankdir=LR, size=\"15,8.4\", nodesep=0.16, ranksep=0.6, fontname=\"sans-serif\", bgcolor=\"white\"];\n  \
         node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11, color=\"#8a93a3\", margin=\"0.12,0.05\"];\n  \
         edge [fontname=\"sans-serif\", fontsize=9, color=\"#59627388\", fontcolor=\"#596273\", arrowsize=0.6];\n",
    );
    for (at, (library, functions)) in libraries.iter().enumerate() {
        let has_frame = libraries.len() > 1 && !library.is_empty();
        if has_frame {
            let _ = writeln!(
                text,
                "  subgraph cluster{at} {{\n    graph [label={}, style=rounded, color=\"#d9dee6\", fontcolor=\"#596273\"];",
                label(&[library])
            );
        }
        for function in functions {
            let of = share(calls_of.get(function).copied().unwrap_or(0));
            let step = heat_step(of);
            let (fill, ink) = HEAT_COLOURS[step];
            let root = if choice.around.contains(function) { ", penwidth=3, color=\"#2457a6\"" } else { "" };
            let _ = writeln!(
                text,
                "    n{} [label={}, fillcolor=\"{fill}\", fontcolor=\"{ink}\"{root}];",
                numbers[function],
                label(&[&demangled(&profile.key(*function).name), &percent(of)])
            );
        }
        if has_frame {
            text.push_str("  }\n");
        }
    }
    let most = edges.iter().map(|(_, _, count)| share(*count)).fold(0.0, f64::max).max(1e-12);
    for (caller, callee, count) in edges {
        let of = share(*count);
        let width = 0.5 + 4.5 * (of / most).sqrt();
        let said = edges.len() <= LABELLED || of >= 0.01;
        let label = if said { format!(", label={}", label(&[&percent(of)])) } else { String::new() };
        let _ =
            writeln!(text, "  n{} -> n{} [penwidth={width:.2}{label}];", numbers[caller], numbers[callee]);
    }
    text.push_str("}\n");
    text
}

/// Lines as a label, each cut.
fn label(lines: &[&str]) -> String {
    let cut = |line: &&str| -> String {
        line.chars().take(LONGEST).chain(line.chars().nth(LONGEST).map(|_| '…')).collect()
    };
    let lines: Vec<String> = lines.iter().map(cut).collect();
    escape::dot_label(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{Choice, call_picture, label};
    use crate::profile::{FunctionIndex, FunctionKey, Profile};

    /// Functions a to f, each calling the next, less often the farther.
    fn chain() -> (Profile, Vec<FunctionIndex>) {
        let mut profile = Profile::default();
        let key = |name: &str| FunctionKey { dso: Some("p".to_owned()), name: name.to_owned(), file: None };
        let functions: Vec<FunctionIndex> =
            ["a", "b", "c", "d", "e", "f"].iter().map(|name| profile.function(key(name))).collect();
        for (at, pair) in functions.windows(2).enumerate() {
            profile.edge_mut(pair[0], pair[1]).count = Some(100 - at as u128);
        }
        (profile, functions)
    }

    #[test]
    fn the_calls_around_a_function_are_within_the_depth() {
        let (profile, functions) = chain();
        let drawn = |depth, calls| {
            let picture =
                call_picture(&profile, &Choice { around: vec![functions[2]], depth, dso: None, calls });
            (picture.drawn, picture.skipped)
        };
        assert_eq!(drawn(1, 0), (2, 0), "b to c, c to d");
        assert_eq!(drawn(2, 0), (4, 0));
        assert_eq!(drawn(9, 0), (5, 0));
        assert_eq!(drawn(9, 1), (1, 2), "b to c; a to b and c to d touch it");
        let all = call_picture(&profile, &Choice { calls: 2, ..Choice::default() });
        assert_eq!((all.drawn, all.skipped), (2, 3));
    }

    #[test]
    fn labels_have_lines_and_nothing_else() {
        assert_eq!(label(&["f(int&)", "1 %"]), r#""f(int&amp;)\n1 %""#);
        assert_eq!(label(&["a\\N\"b"]), r#""a\\N\"b""#);
    }
}
