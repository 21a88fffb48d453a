// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an older order is kept if a change gains little.

use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};
use sediment_order::order::keep::keep;

fn ids(numbers: &[u32]) -> Vec<FunctionId> {
    numbers.iter().copied().map(FunctionId).collect()
}

/// Eight functions of 100 bytes: 0 calls 7 very often, and three other pairs call each other rarely.
fn graph() -> CallGraph {
    let edge =
        |caller, callee, weight| CallEdge { caller: FunctionId(caller), callee: FunctionId(callee), weight };
    let edges = vec![edge(0, 7, 1000), edge(1, 2, 1), edge(3, 4, 1), edge(5, 6, 1)];
    CallGraph::new(vec![100; 8], vec![1; 8], edges).unwrap()
}

/// Returns the sum of the calls' weights, each times the number of functions in between.
fn cost(order: &[FunctionId]) -> f64 {
    let graph = graph();
    let place = |wanted: FunctionId| order.iter().position(|function| *function == wanted).unwrap();
    let far = |edge: &&CallEdge| -> f64 { (place(edge.caller).abs_diff(place(edge.callee)) - 1) as f64 };
    1.0 + graph.edges().iter().map(|edge| edge.weight as f64 * far(&edge)).sum::<f64>()
}

#[test]
fn small_gains_keep_the_older_order() {
    let (graph, old, new) = (graph(), ids(&[0, 7, 2, 3, 1, 4, 5, 6]), ids(&[0, 7, 1, 2, 3, 4, 5, 6]));
    let kept = keep(&graph, &old, &new, 0.9, &cost);
    assert_eq!(kept.order, old);
    assert_eq!(kept.sum(&graph, &kept.moved), (0, 0));
    assert!(kept.cost > 1.0 && kept.cost == kept.cost_of_old);
}

#[test]
fn only_the_largest_gains_move() {
    let (graph, old) = (graph(), ids(&[0, 2, 3, 1, 4, 5, 6, 7]));
    let kept = keep(&graph, &old, &ids(&[0, 7, 1, 2, 3, 4, 5, 6]), 0.05, &cost);
    assert_eq!(kept.order, ids(&[0, 7, 2, 3, 1, 4, 5, 6]));
    assert_eq!(kept.sum(&graph, &kept.moved), (1, 100), "7 alone moved");
}

#[test]
fn all_gain_is_had_by_the_fewest_moves() {
    let (graph, new) = (graph(), ids(&[0, 7, 1, 2, 3, 4, 5, 6]));
    let kept = keep(&graph, &ids(&[7, 6, 5, 4, 3, 2, 1, 0]), &new, 0.0, &cost);
    assert_eq!(kept.cost, cost(&new));
    assert_eq!(
        kept.order,
        ids(&[0, 7, 6, 5, 4, 3, 2, 1]),
        "the others lie as near to each other as in the new order"
    );
}

#[test]
fn new_functions_follow_their_predecessor() {
    let (graph, old) = (graph(), ids(&[6, 5, 4, 3, 6]));
    let kept = keep(&graph, &old, &ids(&[0, 7, 3, 1, 2, 4, 5, 6]), 1.0, &cost);
    assert_eq!(kept.order, ids(&[0, 7, 6, 5, 4, 3, 1, 2]));
    assert_eq!(kept.sum(&graph, &kept.added).0, 4);
    assert_eq!(kept.sum(&graph, &kept.moved).0, 0);
    assert_eq!(keep(&graph, &[], &old[..0], 0.1, &|_| 0.0).order, []);
}
