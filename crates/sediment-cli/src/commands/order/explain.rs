// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order --explain FUNCTION`: the address of a function, its neighbours, and the reason for both.

use sediment_core::callgraph::{FunctionId, GroupKind};
use sediment_core::demangle::{demangled, is_meant};
use sediment_core::plural::counted;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::model::Geometry;
use sediment_order::order::algorithms;
use sediment_order::order::algorithms::affinity::{CLASSICS, TOGETHER};
use sediment_order::order::{self, Ordering, Standing};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

const PAGE: u64 = Geometry::COMMON.page;
/// Alignment of functions, in bytes.
const ALIGNMENT: u64 = Geometry::COMMON.alignment;
/// Number of callers and callees to list.
const NAMED: usize = 4;

/// One paragraph for each function of this name.
///
/// # Errors
/// If no ordered function has the name.
pub(super) fn explain(name: &str, made: &Ordering) -> Result<String> {
    let positions = Positions::of(made);
    let mut text = String::new();
    let of_name: HashSet<FunctionId> =
        made.built.table.names().filter(|(key, _)| is_meant(&key.name, name)).map(|(_, id)| id).collect();
    for &function in positions.order.iter().filter(|function| of_name.contains(function)) {
        text += &position_of(function, made, &positions);
        text += &group_of(function, made);
        text += &neighbours_in_order(function, made, &positions);
        text += &edges_of(function, made, &positions);
        text += &origin_of(function, made, &positions);
    }
    if text.is_empty() {
        return Err(Error::new(ErrorCode::NotFound, format!("no ordered function is called {name}"))
            .with_hint("give the linkage name or the demangled name; sediment show lists functions"));
    }
    Ok(text)
}

/// Ranks and offsets of all functions before linking.
struct Positions {
    order: Vec<FunctionId>,
    ranks: Vec<usize>,
    starts: Vec<u64>,
}

impl Positions {
    fn of(made: &Ordering) -> Self {
        let sizes = made.built.graph.sizes();
        let order: Vec<FunctionId> = made.order.functions().collect();
        let (mut ranks, mut starts) = (vec![0; sizes.len()], vec![0; sizes.len()]);
        let mut end = 0u64;
        for (rank, function) in order.iter().enumerate() {
            ranks[function.index()] = rank;
            starts[function.index()] = end.next_multiple_of(ALIGNMENT);
            end = starts[function.index()].saturating_add(sizes[function.index()]);
        }
        Self { order, ranks, starts }
    }

    fn start(&self, function: FunctionId) -> u64 {
        self.starts[function.index()]
    }
}

fn name_of(made: &Ordering, function: FunctionId) -> Cow<'_, str> {
    demangled(&made.built.table.keys[function.index()].name)
}

fn position_of(function: FunctionId, made: &Ordering, positions: &Positions) -> String {
    let name = name_of(made, function);
    let (start, size) = (positions.start(function), made.built.graph.sizes()[function.index()]);
    let called = counted(made.built.graph.weights()[function.index()], "time");
    let (first, last) = (start / PAGE, start.saturating_add(size.max(1) - 1) / PAGE);
    let pages = if first == last {
        format!("page {}", first + 1)
    } else {
        format!("pages {} to {}", first + 1, last + 1)
    };
    format!(
        "{name}: function {} of {}, offset {start} in the order, on {pages}, {}, called {called}\n",
        positions.ranks[function.index()] + 1,
        positions.order.len(),
        counted(size, "byte")
    )
}

fn group_of(function: FunctionId, made: &Ordering) -> String {
    let groups = || made.order.groups.iter();
    let Some(kind) = groups().find(|group| group.functions.contains(&function)).map(|group| group.kind)
    else {
        return String::new();
    };
    let members: usize = groups().filter(|group| group.kind == kind).map(|group| group.functions.len()).sum();
    let first = made.first[function.index()];
    let sequence = if made.keeps_input_order {
        "in input order, because the program fits into the caches"
    } else {
        "ordered by affinity"
    };
    let (name, why) = match kind {
        GroupKind::Hot
            if groups().any(|group| matches!(group.kind, GroupKind::Startup | GroupKind::Warm)) =>
        {
            (
                "hot",
                format!(
                    "one of the heaviest functions, which together have {} % of all calls; {sequence}",
                    order::HOT_SHARE as f64 / 100.0
                ),
            )
        }
        GroupKind::Hot if made.is_estimated => {
            ("estimated", "not profiled; the compiler's estimates place it".to_owned())
        }
        GroupKind::Hot => ("hot", format!("profiled; {sequence}")),
        GroupKind::Startup => (
            "start-up",
            format!("profiled, but rarely called; ordered by first use (rank {})", first.unwrap_or(0)),
        ),
        GroupKind::Warm => ("warm", "profiled, but rarely called; first use unknown".to_owned()),
        GroupKind::Unprofiled => {
            let standing =
                made.unprofiled.as_ref().and_then(|unprofiled| unprofiled.standing[function.index()]);
            (
                "unprofiled",
                format!("not profiled; kept off the pages of profiled functions{}", expected(standing)),
            )
        }
    };
    format!("  group: {name}, {}: {why}\n", counted(members, "function"))
}

/// Describes the compiler's data on an unprofiled function.
fn expected(standing: Option<Standing>) -> &'static str {
    match standing {
        Some(Standing::Reachable) => {
            "; reachable from profiled functions in the static call graph, placed first"
        }
        Some(Standing::Hot) => "; hot according to the compiler",
        Some(Standing::Startup) => "; start-up code according to the compiler",
        Some(Standing::Exit) => "; exit code according to the compiler",
        Some(Standing::Cold) => "; an error path according to the compiler, placed last",
        Some(Standing::Unreachable) | None => "",
    }
}

fn neighbours_in_order(function: FunctionId, made: &Ordering, positions: &Positions) -> String {
    let rank = positions.ranks[function.index()];
    let around = &positions.order[rank.saturating_sub(2)..(rank + 3).min(positions.order.len())];
    let around: Vec<Cow<'_, str>> =
        around.iter().filter(|other| **other != function).map(|other| name_of(made, *other)).collect();
    format!("  between {}\n", around.join(", "))
}

fn edges_of(function: FunctionId, made: &Ordering, positions: &Positions) -> String {
    let start = positions.start(function);
    let mut text = String::new();
    let (mut near, mut all) = (0u64, 0u64);
    for (what, callers) in [("called by", true), ("calls", false)] {
        let mut edges: Vec<(u64, FunctionId)> = made
            .built
            .graph
            .edges()
            .iter()
            .filter(|edge| edge.caller != edge.callee)
            .filter(|edge| if callers { edge.callee == function } else { edge.caller == function })
            .map(|edge| (edge.weight, if callers { edge.caller } else { edge.callee }))
            .collect();
        edges.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (place, (weight, other)) in edges.iter().enumerate() {
            let distance = positions.start(*other).abs_diff(start);
            all += weight;
            near += if distance < PAGE { *weight } else { 0 };
            if place < NAMED {
                let reach = if distance < PAGE { "within a page" } else { "more than a page apart" };
                let other = name_of(made, *other);
                let _ = writeln!(
                    text,
                    "  {what} {other} {}, {distance} bytes away: {reach}",
                    counted(weight, "time")
                );
            }
        }
        if edges.len() > NAMED {
            let rest: u64 = edges[NAMED..].iter().map(|(weight, _)| weight).sum();
            let _ = writeln!(text, "  {what} {} more, {}", edges.len() - NAMED, counted(rest, "time"));
        }
    }
    if all == 0 {
        return text + "  no call edge to another ordered function\n";
    }
    // For display only: the quotient of two floats is exact enough.
    let share = 100.0 * near as f64 / all as f64;
    let _ = writeln!(text, "  {share:.0} % of these calls stay within a page");
    text
}

/// The origin of the position: another algorithm, the affinity layout, or the kept order.
fn origin_of(function: FunctionId, made: &Ordering, positions: &Positions) -> String {
    let mut text = String::new();
    // If the engine began with an order of its own, the order to compare with is its reference.
    let algorithm = if made.outcome.start == TOGETHER { CLASSICS[0] } else { made.outcome.start };
    let start = algorithm.name;
    if made.outcome.cost < 1.0 {
        let classic = (algorithm.run)(&made.built.graph, &algorithms::AlgorithmOptions::default());
        let ours = neighbours(&made.outcome.order, function);
        let theirs = neighbours(&classic, function);
        let names = |beside: &[FunctionId]| {
            let names: Vec<Cow<'_, str>> = beside.iter().map(|other| name_of(made, *other)).collect();
            names.join(" and ")
        };
        let _ = if ours == theirs {
            writeln!(text, "  the affinity layout kept it between {}, as in {start}", names(&theirs))
        } else {
            writeln!(text, "  the affinity layout moved it: {start} places it next to {}", names(&theirs))
        };
    }
    if let Some(kept) = made.kept.as_ref().map(|older| &older.kept) {
        let fate = match (kept.added[function.index()], kept.moved[function.index()]) {
            (true, _) => "not in the older order: placed after its predecessor in the new order",
            (false, true) => {
                "moved from its place in the older order, because the predicted gain is above the threshold"
            }
            (false, false) => "kept from the older order",
        };
        let _ = writeln!(text, "  {fate}");
    }
    if text.is_empty() {
        let place = positions.ranks[function.index()];
        let in_sequence = made.outcome.order.iter().position(|other| *other == function).unwrap_or(place);
        let _ = writeln!(
            text,
            "  {start} places it as function {} of its sequence, before the division into groups",
            in_sequence + 1
        );
    }
    text
}

/// Returns the functions before and after another.
fn neighbours(order: &[FunctionId], function: FunctionId) -> Vec<FunctionId> {
    let Some(at) = order.iter().position(|other| *other == function) else { return Vec::new() };
    order[at.saturating_sub(1)..(at + 2).min(order.len())]
        .iter()
        .copied()
        .filter(|other| *other != function)
        .collect()
}
