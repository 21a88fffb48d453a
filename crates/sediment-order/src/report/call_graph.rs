// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws a part of a profile's calls as a graph for Graphviz' `dot`: functions with their heat, and calls whose width
//! is their frequency.
//!
//! **Which calls.** Around given functions, the heaviest calls are added first, each from or to a function that is
//! already reached and within the depth; then the heaviest calls between reached functions. Otherwise the heaviest
//! calls of all. Ties are in the order of the profile.

use super::layout::{HEAT_COLOURS, heat_step, percent};
use sediment_core::demangle::demangled;
use sediment_core::escape;
use sediment_core::profile::{FunctionIndex, Profile};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::fmt::Write as _;

/// Choice of the calls to draw.
#[derive(Debug, Clone, Default)]
pub struct CallChoice<'a> {
    /// Functions to start from; empty for the whole profile.
    pub around: Vec<FunctionIndex>,
    /// Largest distance of calls from these functions.
    pub depth: u32,
    /// Only calls with an end in this DSO.
    pub dso: Option<&'a str>,
    /// Number of calls to draw; 0 for all.
    pub calls: usize,
}

/// A graph to draw.
#[derive(Debug, Clone)]
pub struct CallPicture {
    /// Text in the DOT language.
    pub dot: String,
    /// Number of drawn calls.
    pub drawn: usize,
    /// Number of further calls that match the choice.
    pub skipped: usize,
}

type DrawnCall = (FunctionIndex, FunctionIndex, u128);

/// Draws a part of a profile.
#[must_use]
pub fn call_picture(profile: &Profile, choice: &CallChoice<'_>) -> CallPicture {
    let is_in = |function| choice.dso.is_none_or(|dso| profile.key(function).dso.as_deref() == Some(dso));
    let mut edges: Vec<DrawnCall> = profile
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

/// Returns the calls around the chosen functions, and the number of calls within the depth that exceed `most`.
fn around(edges: &[DrawnCall], choice: &CallChoice<'_>, most: usize) -> (Vec<DrawnCall>, usize) {
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
                // Edges are sorted, so a lower number is a heavier edge.
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

/// Longest name in a node, in characters.
const LONGEST: usize = 44;
/// Longest name in a tooltip, in characters.
const LONGEST_TOOLTIP: usize = 240;
/// Beyond this number of calls, only frequent ones show their share.
const LABELLED: usize = 80;
/// Beyond this number of leaves at one function, they are drawn in several columns. A leaf is a function with a single
/// drawn call.
const COLUMN: usize = 8;

/// Columns of a drawing: `dot` puts the ends of all calls of one function below each other, and unconnected parts as
/// well.
struct DrawingColumns {
    /// Length in ranks of an edge to a leaf.
    lengths: Vec<usize>,
    /// Number of columns of unconnected parts, if there are many.
    parts: Option<usize>,
}

impl DrawingColumns {
    fn of(edges: &[DrawnCall]) -> Self {
        let mut degrees: HashMap<FunctionIndex, usize> = HashMap::new();
        edges.iter().flat_map(|(caller, callee, _)| [*caller, *callee]).for_each(|function| {
            *degrees.entry(function).or_default() += 1;
        });
        // The other function of an edge to a leaf, and the direction.
        let hub = |(caller, callee, _): &DrawnCall| match (degrees[caller], degrees[callee]) {
            (_, 1) => Some((*caller, true)),
            (1, _) => Some((*callee, false)),
            _ => None,
        };
        let mut leaves: HashMap<(FunctionIndex, bool), usize> = HashMap::new();
        edges.iter().filter_map(hub).for_each(|hub| *leaves.entry(hub).or_default() += 1);
        let mut seen: HashMap<(FunctionIndex, bool), usize> = HashMap::new();
        let length = |edge: &DrawnCall| {
            let Some(hub) = hub(edge) else { return 1 };
            let number = seen.entry(hub).or_default();
            *number += 1;
            1 + (*number - 1) % leaves[&hub].div_ceil(COLUMN)
        };
        let lengths = edges.iter().map(length).collect();
        // Each part is about five times as wide as high, so half as many parts as rows fill a screen.
        let parts = parts(edges);
        Self { lengths, parts: (parts >= 4).then(|| (parts as f64 * 0.12).sqrt().round().max(1.0) as usize) }
    }
}

/// Number of unconnected parts.
fn parts(edges: &[DrawnCall]) -> usize {
    let mut above: HashMap<FunctionIndex, FunctionIndex> = HashMap::new();
    let root = |above: &HashMap<FunctionIndex, FunctionIndex>, mut function| {
        while let Some(next) = above.get(&function) {
            function = *next;
        }
        function
    };
    let mut functions = HashSet::new();
    for (caller, callee, _) in edges {
        functions.extend([*caller, *callee]);
        let (from, to) = (root(&above, *caller), root(&above, *callee));
        // Only roots point at themselves. Pointing at the root keeps paths short.
        for function in [*caller, *callee, from] {
            if function != to {
                above.insert(function, to);
            }
        }
    }
    functions.len() - above.len()
}

/// Identifiers of nodes: names, which pictures show under the mouse pointer. Functions with the same name also get the
/// library and a number.
fn identifiers(
    profile: &Profile,
    functions: &HashMap<FunctionIndex, usize>,
) -> HashMap<FunctionIndex, String> {
    let mut in_order: Vec<FunctionIndex> = functions.keys().copied().collect();
    in_order.sort_by_key(|function| functions[function]);
    let mut taken = HashSet::new();
    let mut found = HashMap::new();
    for function in in_order {
        let key = profile.key(function);
        let name: String = demangled(&key.name).chars().take(LONGEST_TOOLTIP).collect();
        let library = format!("{name} [{}]", key.dso.as_deref().unwrap_or_default());
        let numbered = format!("{library} {}", functions[&function]);
        let free = [name, library, numbered].into_iter().find(|name| taken.insert(name.clone()));
        found.insert(function, quoted(&free.unwrap_or_default()));
    }
    found
}

/// Returns a text as a DOT identifier, in which only the quote is special; a backslash at the end would escape it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "/").replace('"', "'").replace(char::is_control, " "))
}

fn dot(profile: &Profile, choice: &CallChoice<'_>, edges: &[DrawnCall]) -> String {
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
    let names = identifiers(profile, &numbers);
    let columns = DrawingColumns::of(edges);
    let packed =
        columns.parts.map_or_else(String::new, |columns| format!(", pack=8, packmode=\"array_c{columns}\""));
    // The size of a screen in inches; `dot` shrinks a larger drawing.
    let mut text = format!(
        "digraph calls {{\n  graph [rankdir=LR, size=\"15,8.4\", nodesep=0.1, ranksep=0.3{packed}, fontname=\"sans-serif\", bgcolor=\"white\"];\n  \
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
                "    {} [label={}, fillcolor=\"{fill}\", fontcolor=\"{ink}\"{root}];",
                names[function],
                label(&[&demangled(&profile.key(*function).name), &percent(of)])
            );
        }
        if has_frame {
            text.push_str("  }\n");
        }
    }
    let most = edges.iter().map(|(_, _, count)| share(*count)).fold(0.0, f64::max).max(1e-12);
    for ((caller, callee, count), length) in edges.iter().zip(&columns.lengths) {
        let of = share(*count);
        let width = 0.5 + 4.5 * (of / most).sqrt();
        // The callee shows the same number if it has no other caller.
        let is_all = calls_of.get(callee) == Some(count);
        let said = !is_all && (edges.len() <= LABELLED || of >= 0.01);
        let mut more = if said { format!(", label={}", label(&[&percent(of)])) } else { String::new() };
        if *length > 1 {
            let _ = write!(more, ", minlen={length}");
        }
        let _ = writeln!(text, "  {} -> {} [penwidth={width:.2}{more}];", names[caller], names[callee]);
    }
    text.push_str("}\n");
    text
}

/// Returns lines as a label, each cut.
fn label(lines: &[&str]) -> String {
    let cut = |line: &&str| -> String {
        line.chars().take(LONGEST).chain(line.chars().nth(LONGEST).map(|_| '…')).collect()
    };
    let lines: Vec<String> = lines.iter().map(cut).collect();
    escape::dot_label(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{CallChoice, call_picture, label};
    use sediment_core::profile::{FunctionIndex, FunctionKey, Profile};

    /// Functions a to f: each calls the next, less often towards the end.
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
                call_picture(&profile, &CallChoice { around: vec![functions[2]], depth, dso: None, calls });
            (picture.drawn, picture.skipped)
        };
        assert_eq!(drawn(1, 0), (2, 0), "b to c, c to d");
        assert_eq!(drawn(2, 0), (4, 0));
        assert_eq!(drawn(9, 0), (5, 0));
        assert_eq!(drawn(9, 1), (1, 2), "b to c; a to b and c to d touch it");
        let all = call_picture(&profile, &CallChoice { calls: 2, ..CallChoice::default() });
        assert_eq!((all.drawn, all.skipped), (2, 3));
    }

    /// A function that calls 24 others, and 24 separate pairs.
    #[test]
    fn leaves_and_parts_are_drawn_in_columns() {
        let key = |name: String| FunctionKey { dso: Some("p".to_owned()), name, file: None };
        let (mut star, mut pairs) = (Profile::default(), Profile::default());
        let hub = star.function(key("main".to_owned()));
        for number in 0..24 {
            let leaf = star.function(key(format!("leaf{number}")));
            star.edge_mut(hub, leaf).count = Some(9);
            let (from, to) = (key(format!("from{number}")), key(format!("to{number}")));
            let (from, to) = (pairs.function(from), pairs.function(to));
            pairs.edge_mut(from, to).count = Some(9);
        }
        let star = call_picture(&star, &CallChoice::default()).dot;
        assert_eq!(star.matches("minlen=2").count(), 8, "{star}");
        assert_eq!(star.matches("minlen=3").count(), 8, "{star}");
        assert!(!star.contains("packmode"), "{star}");
        assert!(star.contains("\"main\" -> \"leaf4\" [penwidth=5.00];"), "no share twice: {star}");
        let pairs = call_picture(&pairs, &CallChoice::default()).dot;
        assert!(pairs.contains("packmode=\"array_c2\"") && !pairs.contains("minlen"), "{pairs}");
    }

    #[test]
    fn nodes_of_the_same_name_have_identifiers_of_their_own() {
        let mut profile = Profile::default();
        let mut function = |dso: &str, file: &str| {
            let file = Some(file.to_owned());
            profile.function(FunctionKey { dso: Some(dso.to_owned()), name: "a\"\\".to_owned(), file })
        };
        let (first, second, third) = (function("p", "a.c"), function("p", "b.c"), function("p", "c.c"));
        profile.edge_mut(first, second).count = Some(1);
        profile.edge_mut(second, third).count = Some(1);
        let dot = call_picture(&profile, &CallChoice::default()).dot;
        assert!(dot.contains("  \"a'/\" -> \"a'/ [p]\" ["), "{dot}");
        assert!(dot.contains("  \"a'/ [p]\" -> \"a'/ [p] 2\" ["), "{dot}");
    }

    #[test]
    fn labels_have_lines_and_nothing_else() {
        assert_eq!(label(&["f(int&)", "1 %"]), r#""f(int&amp;)\n1 %""#);
        assert_eq!(label(&["a\\N\"b"]), r#""a\\N\"b""#);
    }
}
