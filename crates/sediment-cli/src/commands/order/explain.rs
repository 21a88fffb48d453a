// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment order --explain FUNCTION`: where a function is to lie, with whom, and what put it there.

use sediment::callgraph::{FunctionId, GroupKind};
use sediment::model::Geometry;
use sediment::order::algorithms;
use sediment::order::algorithms::affinity::{CLASSICS, TOGETHER};
use sediment::order::{self, Ordering, Standing};
use sediment::{Error, Result};
use std::collections::HashSet;
use std::fmt::Write;

const PAGE: u64 = Geometry::COMMON.page;
/// What functions are aligned to, in bytes.
const ALIGNMENT: u64 = Geometry::COMMON.alignment;
/// How many callers and callees are named.
const NAMED: usize = 4;

/// One paragraph for each function of this name.
///
/// # Errors
/// When no function that is ordered has the name.
pub(super) fn explain(name: &str, made: &Ordering) -> Result<String> {
    let places = Places::of(made);
    let mut text = String::new();
    let of_name: HashSet<FunctionId> =
        made.built.table.names().filter(|(key, _)| key.name == name).map(|(_, id)| id).collect();
    for &function in places.order.iter().filter(|function| of_name.contains(function)) {
        text += &where_it_is(name, function, made, &places);
        text += &why_this_group(function, made);
        text += &beside_whom(function, made, &places);
        text += &what_binds_it(function, made, &places);
        text += &who_put_it_there(function, made, &places);
    }
    if text.is_empty() {
        return Err(Error::failed(format!("no function called {name} is ordered"))
            .with_hint("names are linkage names, as the profile has them: sediment show lists some"));
    }
    Ok(text)
}

/// Where everything lies, as far as that is known before linking.
struct Places {
    order: Vec<FunctionId>,
    ranks: Vec<usize>,
    starts: Vec<u64>,
}

impl Places {
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

fn name_of(made: &Ordering, function: FunctionId) -> &str {
    &made.built.table.keys[function.index()].name
}

fn where_it_is(name: &str, function: FunctionId, made: &Ordering, places: &Places) -> String {
    let (start, size) = (places.start(function), made.built.graph.sizes()[function.index()]);
    let (first, last) = (start / PAGE, start.saturating_add(size.max(1) - 1) / PAGE);
    let pages = if first == last {
        format!("page {}", first + 1)
    } else {
        format!("pages {} to {}", first + 1, last + 1)
    };
    format!(
        "{name}: function {} of {}, {start} bytes into the order, on {pages}, {size} bytes long, entered {} times\n",
        places.ranks[function.index()] + 1,
        places.order.len(),
        made.built.graph.weights()[function.index()]
    )
}

fn why_this_group(function: FunctionId, made: &Ordering) -> String {
    let groups = || made.order.groups.iter();
    let Some(kind) = groups().find(|group| group.functions.contains(&function)).map(|group| group.kind)
    else {
        return String::new();
    };
    let members: usize = groups().filter(|group| group.kind == kind).map(|group| group.functions.len()).sum();
    let first = made.first[function.index()];
    let (name, why) = match kind {
        GroupKind::Hot
            if groups().any(|group| matches!(group.kind, GroupKind::Startup | GroupKind::Warm)) =>
        {
            (
                "hot",
                format!(
                    "one of the heaviest, which make up {} % of all calls; these lie by what runs together",
                    order::HOT_SHARE as f64 / 100.0
                ),
            )
        }
        GroupKind::Hot if made.is_estimated => {
            ("expected to run", "by a compiler's estimates, as nothing was seen to run".to_owned())
        }
        GroupKind::Hot => ("hot", "it ran; what ran lies by what runs together".to_owned()),
        GroupKind::Startup => (
            "start-up",
            format!(
                "it ran too seldom to be hot, and as number {} for the first time; such functions lie by first use",
                first.unwrap_or(0)
            ),
        ),
        GroupKind::Warm => ("warm", "it ran too seldom to be hot, and when is not known".to_owned()),
        GroupKind::Unprofiled => {
            let standing =
                made.unprofiled.as_ref().and_then(|unprofiled| unprofiled.standing[function.index()]);
            (
                "never seen",
                format!("nobody saw it run: it stays out of the pages of what did{}", expected(standing)),
            )
        }
    };
    format!("  group: {name}, {members} functions: {why}\n")
}

/// What a compiler said of a function that no run saw.
fn expected(standing: Option<Standing>) -> &'static str {
    match standing {
        Some(Standing::Reachable) => "; a compiler's graph leads to it from what ran, so it comes first",
        Some(Standing::Hot) => "; the compiler takes it for hot",
        Some(Standing::Startup) => "; the compiler says that it runs at the start",
        Some(Standing::Exit) => "; the compiler says that it runs at the end",
        Some(Standing::Cold) => "; the compiler takes it for an error path, so it comes last",
        Some(Standing::Unreachable) | None => "",
    }
}

fn beside_whom(function: FunctionId, made: &Ordering, places: &Places) -> String {
    let rank = places.ranks[function.index()];
    let around = &places.order[rank.saturating_sub(2)..(rank + 3).min(places.order.len())];
    let around: Vec<&str> =
        around.iter().filter(|other| **other != function).map(|other| name_of(made, *other)).collect();
    format!("  between {}\n", around.join(", "))
}

fn what_binds_it(function: FunctionId, made: &Ordering, places: &Places) -> String {
    let start = places.start(function);
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
            let distance = places.start(*other).abs_diff(start);
            all += weight;
            near += if distance < PAGE { *weight } else { 0 };
            if place < NAMED {
                let reach = if distance < PAGE { "within a page" } else { "further than a page" };
                let other = name_of(made, *other);
                let _ = writeln!(text, "  {what} {other} {weight} times, {distance} bytes away: {reach}");
            }
        }
        if edges.len() > NAMED {
            let rest: u64 = edges[NAMED..].iter().map(|(weight, _)| weight).sum();
            let _ = writeln!(text, "  {what} {} more, {rest} times", edges.len() - NAMED);
        }
    }
    if all == 0 {
        return text + "  no call binds it to another function of the order\n";
    }
    // Only for the eye: the quotient of two floats is near enough.
    let share = 100.0 * near as f64 / all as f64;
    let _ = writeln!(text, "  {share:.0}% of these calls stay within a page");
    text
}

/// Whether the place is a classic order's, the engine's, or that of the order that was kept.
fn who_put_it_there(function: FunctionId, made: &Ordering, places: &Places) -> String {
    let mut text = String::new();
    // Where the engine began with an order of its own, the classic to compare with is its reference.
    let algorithm = if made.outcome.start == TOGETHER { CLASSICS[0] } else { made.outcome.start };
    let start = algorithm.name;
    if made.outcome.cost < 1.0 {
        let classic = (algorithm.run)(&made.built.graph, &algorithms::Options::default());
        let ours = neighbours(&made.outcome.order, function);
        let theirs = neighbours(&classic, function);
        let names = |beside: &[FunctionId]| {
            let names: Vec<&str> = beside.iter().map(|other| name_of(made, *other)).collect();
            names.join(" and ")
        };
        let _ = if ours == theirs {
            writeln!(text, "  the engine left it between {}, as {start} has it", names(&theirs))
        } else {
            writeln!(text, "  the engine moved it: {start} has it beside {}", names(&theirs))
        };
    }
    if let Some(kept) = made.kept.as_ref().map(|older| &older.kept) {
        let fate = match (kept.added[function.index()], kept.moved[function.index()]) {
            (true, _) => {
                "the older order does not have it: it stands behind the one that it follows in the new order"
            }
            (false, true) => {
                "moved: the older order had it elsewhere, and the predicted gain passed the threshold"
            }
            (false, false) => "kept where the older order had it",
        };
        let _ = writeln!(text, "  {fate}");
    }
    if text.is_empty() {
        let place = places.ranks[function.index()];
        let in_sequence = made.outcome.order.iter().position(|other| *other == function).unwrap_or(place);
        let _ =
            writeln!(text, "  {start} has it as function {} of its sequence, before groups", in_sequence + 1);
    }
    text
}

/// The functions before and behind another.
fn neighbours(order: &[FunctionId], function: FunctionId) -> Vec<FunctionId> {
    let Some(at) = order.iter().position(|other| *other == function) else { return Vec::new() };
    order[at.saturating_sub(1)..(at + 2).min(order.len())]
        .iter()
        .copied()
        .filter(|other| *other != function)
        .collect()
}
