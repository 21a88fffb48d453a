// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of a recording together with a compiler's graph: recorded functions keep their order, and functions that no
//! run executed are placed where calls are likely.

use sediment_core::callgraph::{FunctionId, GroupKind};
use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::{Profile, text};
use sediment_order::order::algorithms;
use sediment_order::order::{self, OrderRequest, Ordering, Selection, Standing, place_unprofiled};

const RECORDED: &str = r#"digraph Callgraph {
  graph [sediment=2, source="valgrind callgrind (Ir)", unit=calls, total=1111];
  subgraph cluster0 {
    graph [label="tool"];
    "main" [size=64, samples=5];
    "parse" [size=64, samples=700];
    "token" [size=64, samples=900];
  }
  "main" -> "parse" [label=0.099910, count=111];
  "parse" -> "token" [label=0.900090, count=1000];
}
"#;

/// Recorded functions call `number` and its helper; `usage` is an error path; `plugin` is called through a pointer;
/// nothing leads to the others.
const ESTIMATED: &str = r#"digraph Callgraph {
  graph [sediment=2, source="gcc call graphs of units", unit=calls, total=0];
  subgraph cluster0 {
    graph [label="tool"];
    "digit" [size=16, static=50.000000];
    "done" [size=16, static=0.000000, heat=exit];
    "format" [size=16, static=0.000000];
    "loose" [size=16, static=0.000000];
    "main" [size=64, static=1.000000, heat=startup, entry=1];
    "number" [size=16, static=9.000000];
    "parse" [size=64, static=3.000000];
    "plugin" [size=16, static=1.000000, taken=1];
    "prepare" [size=16, static=0.000000, heat=startup];
    "token" [size=64, static=0.500000];
    "usage" [size=16, static=0.000000, heat=cold];
    "warm" [size=16, static=0.000000, heat=hot];
  }
  "main" -> "parse" [label=0.000000, static=3.000000, kind=direct];
  "main" -> "usage" [label=0.000000, static=0.100000, kind=direct];
  "number" -> "digit" [label=0.000000, static=5.000000, kind=direct];
  "parse" -> "number" [label=0.000000, static=3.000000, kind=direct];
  "parse" -> "token" [label=0.000000, static=0.200000, kind=direct];
  "usage" -> "format" [label=0.000000, static=4.000000, kind=direct];
}
"#;

fn profile(text: &str) -> Profile {
    text::parse(text.as_bytes()).unwrap().0
}

fn merged(inputs: &[&Profile]) -> Profile {
    let weighed: Vec<(&Profile, Weight)> = inputs.iter().map(|input| (*input, Weight::ONE)).collect();
    merge(&weighed, false).unwrap()
}

/// Returns the groups of the default order, with names.
fn ordered(profile: &Profile) -> Vec<(GroupKind, Vec<String>)> {
    let Ordering { order, built, .. } =
        order::compute(profile, &Selection::Dso("tool"), &OrderRequest::default()).unwrap();
    let name = |id: FunctionId| built.table.keys[id.index()].name.clone();
    order
        .groups
        .into_iter()
        .map(|group| (group.kind, group.functions.into_iter().map(name).collect()))
        .collect()
}

#[test]
fn inputs_in_any_order_leave_measured_functions_unchanged() {
    let (recorded, estimated) = (profile(RECORDED), profile(ESTIMATED));
    let alone = merged(&[&recorded]);
    let both = merged(&[&recorded, &estimated]);
    assert_eq!(both.total, alone.total);
    for (caller, callee, facts) in alone.edges() {
        let ends = [caller, callee].map(|end| both.find(alone.key(end)).unwrap());
        let beside = both.edge(ends[0], ends[1]).unwrap();
        assert_eq!((beside.count, beside.affinity), (facts.count, facts.affinity));
    }
    for function in alone.functions() {
        let beside = both.facts(both.find(alone.key(function)).unwrap());
        assert_eq!(beside.samples, alone.facts(function).samples);
    }
    assert_eq!(text::print(&both), text::print(&merged(&[&estimated, &recorded])));
    let again = merged(&[&merged(&[&estimated, &recorded]), &recorded]);
    assert_eq!(text::print(&again), text::print(&merged(&[&recorded, &recorded, &estimated])));
}

#[test]
fn unprofiled_functions_lie_by_call_edges_then_heat_and_error_paths_last() {
    let groups = ordered(&merged(&[&profile(RECORDED), &profile(ESTIMATED)]));
    let (kinds, names): (Vec<GroupKind>, Vec<Vec<String>>) = groups.into_iter().unzip();
    assert_eq!(kinds, [GroupKind::Hot, GroupKind::Unprofiled]);
    // Recorded functions are placed as without the compiler's graph.
    assert_eq!(names[0], ordered(&profile(RECORDED))[0].1);
    let (reachable, rest) = names[1].split_at(3);
    assert_eq!(reachable[2], "plugin", "the least of them: {reachable:?}");
    assert!(
        reachable[..2].contains(&"number".to_owned()) && reachable[..2].contains(&"digit".to_owned()),
        "{reachable:?}"
    );
    assert_eq!(rest, ["warm", "format", "loose", "prepare", "done", "usage"]);
}

#[test]
fn a_compilers_graph_alone_is_ordered_and_said_to_be_one() {
    let estimated = profile(ESTIMATED);
    assert!(order::is_estimated(&estimated) && order::is_estimated(&merged(&[&estimated, &estimated])));
    assert!(!order::is_estimated(&merged(&[&estimated, &profile(RECORDED)])));
    let groups = ordered(&estimated);
    assert_eq!(groups[0].0, GroupKind::Hot);
    assert!(
        ["main", "parse", "number", "digit", "token"]
            .iter()
            .all(|name| groups[0].1.contains(&(*name).to_owned()))
    );
    assert_eq!(groups[1].1.last().unwrap(), "usage");
}

#[test]
fn a_recording_alone_has_nothing_to_expect() {
    let recorded = profile(RECORDED);
    let built = order::build(&recorded, &Selection::Dso("tool")).unwrap();
    assert_eq!(order::unprofiled(&recorded, &built.graph, &built.table).unwrap(), None);
}

/// Contains functions that call each other in a circle, one that is called only on an error path, and one that has
/// samples but no calls.
#[test]
fn standings() {
    let more = profile(
        r#"digraph Callgraph {
  graph [sediment=2, source="gcc call graphs of units", unit=calls, total=0];
  subgraph cluster0 { graph [label="tool"]; "even"; "odd"; "fail" [heat=cold]; "behind"; "sampled" [samples=3]; "main"; }
  "main" -> "even" [static=1];
  "even" -> "odd" [static=1];
  "odd" -> "even" [static=1];
  "odd" -> "fail" [static=0.5];
  "fail" -> "behind" [static=2];
}
"#,
    );
    let both = merged(&[&profile(RECORDED), &more]);
    let built = order::build(&both, &Selection::Dso("tool")).unwrap();
    let unprofiled = order::unprofiled(&both, &built.graph, &built.table).unwrap().unwrap();
    let standing = |name: &str| {
        let at = built.table.keys.iter().position(|key| key.name == name).unwrap();
        unprofiled.standing[at]
    };
    assert_eq!(standing("main"), None);
    assert_eq!(standing("sampled"), None);
    assert_eq!(standing("even"), Some(Standing::Reachable));
    assert_eq!(standing("odd"), Some(Standing::Reachable));
    assert_eq!(standing("fail"), Some(Standing::Cold));
    assert_eq!(standing("behind"), Some(Standing::Unreachable));
    // Only the calls of functions that did not run are used.
    let sequence = place_unprofiled(
        &(algorithms::algorithm("input").unwrap().run)(
            &built.graph,
            &algorithms::AlgorithmOptions::default(),
        ),
        &unprofiled,
    );
    assert_eq!(sequence.len(), built.graph.len());
}
