// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the misses of the instruction TLB, against results computed by hand.

use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId, Trace};
use sediment_order::model::{Geometry, TlbEstimate, TlbReplay, replay, score};

fn geometry(tlb_entries: u32) -> Geometry {
    Geometry { tlb_entries, ..Geometry::default() }
}

/// Makes functions of exactly one page each, so that a touched page is a function.
fn page_sized(functions: usize, edges: Vec<CallEdge>) -> CallGraph {
    CallGraph::new(vec![4096; functions], vec![0; functions], edges).unwrap()
}

fn edge(caller: u32, callee: u32, weight: u64) -> CallEdge {
    CallEdge { caller: FunctionId(caller), callee: FunctionId(callee), weight }
}

fn misses(graph: &CallGraph, steps: &[u32], entries: u32) -> TlbReplay {
    let trace = Trace { functions: steps.iter().copied().map(FunctionId).collect(), breaks: Vec::new() };
    replay(&trace, graph, &[], &geometry(entries))
}

#[test]
fn a_trace_by_hand() {
    let graph = page_sized(4, Vec::new());
    // Two entries: 0 and 1 miss first, 0 hits, 2 replaces 1, 1 replaces 0, 2 hits, and 9 is outside.
    let counted = misses(&graph, &[0, 1, 0, 2, 1, 2, 2, 9], 2);
    assert_eq!(counted, TlbReplay { pages: 4, page_changes: 7, misses: 5, outside: 1 });
    assert_eq!(misses(&graph, &[0, 1, 2, 3, 0, 1, 2, 3], 3).misses, 8, "a ring one larger than the TLB");
    assert_eq!(misses(&graph, &[0, 1, 2, 3, 0, 1, 2, 3], 4).misses, 4);
    assert_eq!(misses(&graph, &[], 4), TlbReplay { pages: 0, page_changes: 0, misses: 0, outside: 0 });
}

#[test]
fn a_long_function_is_on_two_pages() {
    let graph = CallGraph::new(vec![8192, 64], vec![0; 2], Vec::new()).unwrap();
    assert_eq!(misses(&graph, &[0, 1], 8).pages, 3);
}

#[test]
fn functions_on_one_page_never_miss_twice() {
    let graph = CallGraph::new(vec![64; 8], vec![0; 8], vec![edge(0, 7, 1000)]).unwrap();
    let tlb = score(&graph, &[], &geometry(1)).tlb;
    assert_eq!(tlb, TlbEstimate { pages: 0, page_changes: 0.0, misses: 0.0 });
}

#[test]
fn all_pages_held_is_no_miss() {
    let graph = page_sized(4, vec![edge(0, 1, 10), edge(0, 2, 10), edge(0, 3, 10)]);
    let tlb = score(&graph, &[], &geometry(4)).tlb;
    assert_eq!((tlb.pages, tlb.misses), (4, 0.0));
    assert_eq!(tlb.page_changes, 60.0, "each call and each return");
}

#[test]
fn equal_pages_miss_as_often_as_they_are_not_held() {
    // Twenty pages, each called equally often by the next one: because the rates are equal, five entries contain a
    // quarter.
    let graph = page_sized(20, (0..20).map(|id| edge((id + 1) % 20, id, 100)).collect());
    let tlb = score(&graph, &[], &geometry(5)).tlb;
    assert!((tlb.misses / tlb.page_changes - 0.75).abs() < 1e-9, "{tlb:?}");
}

#[test]
fn callers_beside_callees_miss_less() {
    // Forty pairs of half a page each, neighbours or separated.
    let edges = (0..40).map(|pair| edge(2 * pair, 2 * pair + 1, 100)).collect();
    let graph = CallGraph::new(vec![2048; 80], vec![50; 80], edges).unwrap();
    let paired: Vec<FunctionId> = graph.ids().collect();
    let torn: Vec<FunctionId> = (0..80).step_by(2).chain((1..80).step_by(2)).map(FunctionId).collect();
    let of = |order: &[FunctionId]| score(&graph, order, &geometry(16)).tlb;
    assert!(of(&paired).misses < 0.7 * of(&torn).misses, "{:?} {:?}", of(&paired), of(&torn));
}
