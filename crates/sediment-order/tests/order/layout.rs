// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of properties of every layout: it contains all functions once, and is the same for the same graph, however the
//! graph is given. Small graphs are followed by hand.

#![allow(clippy::unwrap_used)] // tests may fail loudly

use proptest::prelude::*;
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};
use sediment_order::model::{Geometry, score};
use sediment_order::order::algorithms::{ALGORITHMS, AlgorithmOptions, algorithm};
use support::graphs;
use support::graphs::Shape;

fn edge(caller: u32, callee: u32, weight: u64) -> CallEdge {
    CallEdge { caller: FunctionId(caller), callee: FunctionId(callee), weight }
}

fn order(name: &str, graph: &CallGraph) -> Vec<u32> {
    (algorithm(name).unwrap().run)(graph, &AlgorithmOptions::default())
        .iter()
        .map(|function| function.0)
        .collect()
}

/// Makes sizes, weights and edges of a graph, with cases that break naive code: empty graphs, sizes of 0 and beyond any
/// memory, weights near the largest allowed sum, recursion, and functions that nobody calls.
fn parts() -> impl Strategy<Value = (Vec<u64>, Vec<u64>, Vec<CallEdge>)> {
    let size = prop_oneof![4 => 0u64..200, 1 => Just(0), 1 => Just(u64::MAX), 1 => 1u64 << 19..1 << 21];
    (0usize..40).prop_flat_map(move |functions| {
        let largest = CallGraph::MAX_TOTAL_WEIGHT / 100;
        let weight = prop_oneof![6 => 0u64..50, 1 => largest - 10..=largest];
        let id = 0..functions.max(1) as u32;
        let edge = (id.clone(), id, weight.clone()).prop_map(|(from, to, weight)| edge(from, to, weight));
        let edges = prop::collection::vec(edge, if functions == 0 { 0..1 } else { 0..100 });
        let edges = edges.prop_map(move |edges| if functions == 0 { Vec::new() } else { edges });
        (prop::collection::vec(size.clone(), functions), prop::collection::vec(weight, functions), edges)
    })
}

proptest! {
    #[test]
    fn every_order_has_each_function_once((sizes, weights, edges) in parts()) {
        let graph = CallGraph::new(sizes, weights, edges).unwrap();
        for algorithm in ALGORITHMS {
            for most_looks in [None, Some(0), Some(100)] {
                let options = AlgorithmOptions { seed: 3, most_looks, ..AlgorithmOptions::default() };
                let mut order = (algorithm.run)(&graph, &options);
                order.sort_unstable();
                prop_assert_eq!(order, graph.ids().collect::<Vec<_>>(), "{}", algorithm.name);
            }
        }
    }

    #[test]
    fn looks_that_are_not_used_up_change_nothing((sizes, weights, edges) in parts()) {
        let graph = CallGraph::new(sizes, weights, edges).unwrap();
        for algorithm in ALGORITHMS {
            let enough = AlgorithmOptions { most_looks: Some(10_000_000), ..AlgorithmOptions::default() };
            prop_assert_eq!((algorithm.run)(&graph, &enough), (algorithm.run)(&graph, &AlgorithmOptions::default()));
        }
    }

    #[test]
    fn the_order_of_the_edges_does_not_show(
        (sizes, weights, edges, shuffled) in parts().prop_flat_map(|(sizes, weights, edges)| {
            let shuffled = Just(edges.clone()).prop_shuffle();
            (Just(sizes), Just(weights), Just(edges), shuffled)
        })
    ) {
        let graph = CallGraph::new(sizes.clone(), weights.clone(), edges).unwrap();
        let again = CallGraph::new(sizes, weights, shuffled).unwrap();
        for algorithm in ALGORITHMS {
            let options = AlgorithmOptions::default();
            prop_assert_eq!((algorithm.run)(&graph, &options), (algorithm.run)(&again, &options));
        }
    }
}

#[test]
fn unprofiled_functions_stand_last_in_their_order() {
    let weights = vec![0, 5, 0, 3, 0];
    let graph = CallGraph::new(vec![100; 5], weights, vec![edge(1, 3, 3)]).unwrap();
    for name in ["c3", "cdsort"] {
        assert_eq!(order(name, &graph), [1, 3, 0, 2, 4], "{name}");
    }
}

#[test]
fn a_function_without_calls_takes_its_place_by_density() {
    let graph =
        CallGraph::new(vec![100; 4], vec![0, 40, 1000, 5], vec![edge(0, 1, 40), edge(0, 3, 5)]).unwrap();
    assert_eq!(order("c3", &graph)[0], 2);
    assert_eq!(order("cdsort", &graph)[0], 2);
}

#[test]
fn hfsort_plus_puts_a_callee_after_its_caller() {
    // No caller makes nearly all calls, and the callee is the densest function, so only the gain of a join can put a
    // caller before it.
    let edges = vec![edge(0, 2, 100), edge(1, 2, 30)];
    let graph = CallGraph::new(vec![4000; 3], vec![0, 0, 200], edges).unwrap();
    let order = order("hfsort+", &graph);
    let place = |function| order.iter().position(|id| *id == function).unwrap();
    assert_eq!(place(2), place(1) + 1, "{order:?}");
}

#[test]
fn c3_leaves_a_callee_alone_that_has_no_main_caller() {
    // Each of eleven callers makes an eleventh of the calls, so none makes over a tenth. With nine callers, each does.
    let calls = |callers: u32| {
        let edges = (0..callers).map(|caller| edge(caller, callers, 10)).collect();
        let mut weights = vec![0; callers as usize + 1];
        weights[callers as usize] = 10 * u64::from(callers);
        order("c3", &CallGraph::new(vec![10; callers as usize + 1], weights, edges).unwrap())
    };
    assert_eq!(calls(11)[..2], [11, 0], "alone, and densest");
    assert_eq!(calls(10)[..2], [10, 0], "a tenth is not more than a tenth");
    assert_eq!(calls(9)[..2], [0, 9], "behind the first of its equal callers");
}

#[test]
fn c3_makes_no_chain_above_a_mebibyte() {
    let behind = |size: u64| {
        // The callee is the densest function, so it would come first on its own.
        order("c3", &CallGraph::new(vec![(1 << 20) - 64, size], vec![0, 50], vec![edge(0, 1, 50)]).unwrap())
    };
    // If the two are joined, the chain begins with the caller; otherwise the callee comes first.
    assert_eq!(behind(64), [0, 1]);
    assert_eq!(behind(65), [1, 0]);
}

#[test]
fn c3_does_not_dilute_a_caller_by_more_than_eight() {
    let order_of = |size: u64| {
        let (sizes, weights) = (vec![100, size], vec![1000, 100]);
        let graph = CallGraph::new(sizes, weights, vec![edge(0, 1, 100)]).unwrap();
        order("c3", &graph)
    };
    // Both orders begin with the caller; only a third function with a density in between shows the difference.
    let with_third = |size: u64| {
        let (sizes, weights) = (vec![100, size, 100], vec![1000, 100, 150]);
        let graph = CallGraph::new(sizes, weights, vec![edge(0, 1, 100)]).unwrap();
        order("c3", &graph)
    };
    assert_eq!(order_of(780), [0, 1]);
    assert_eq!(
        with_third(780),
        [2, 0, 1],
        "1100 / 880 is an eighth of ten: joined, and less dense than the third"
    );
    assert_eq!(with_third(781), [0, 2, 1], "less than an eighth: the caller stays as dense as it was");
}

#[test]
fn cdsort_keeps_calls_of_equal_worth_in_their_order() {
    // There is one call in each direction. Both orders cost exactly the same, so the lower id comes first.
    let graph = CallGraph::new(vec![64; 2], vec![7, 7], vec![edge(0, 1, 7), edge(1, 0, 7)]).unwrap();
    assert_eq!(order("cdsort", &graph), [0, 1]);
}

#[test]
fn cdsort_makes_no_chain_of_more_than_128_functions() {
    // Each function is called by the next. A single chain runs against the ids from end to end; two chains do not.
    let path = |functions: u32| {
        let edges = (1..functions).map(|caller| edge(caller, caller - 1, 1000)).collect();
        order(
            "cdsort",
            &CallGraph::new(vec![64; functions as usize], vec![0; functions as usize], edges).unwrap(),
        )
    };
    assert_eq!(path(128), (0..128).rev().collect::<Vec<_>>());
    assert_ne!(path(129), (0..129).rev().collect::<Vec<_>>());
}

/// A call tree of twelve functions of 33 bytes, and the orders that lld 19 gives for it.
#[test]
fn a_call_tree_is_ordered_as_lld_does() {
    let names = ["main", "f0", "f1", "f2", "f3", "f8", "f9", "f7", "f15", "f17", "f19", "f22"];
    let calls = [
        ("main", "f0", 100),
        ("f0", "f1", 100),
        ("f0", "f2", 40),
        ("f1", "f3", 95),
        ("f1", "f8", 60),
        ("f2", "f9", 30),
        ("f3", "f7", 90),
        ("f7", "f15", 88),
        ("f8", "f17", 55),
        ("f9", "f19", 28),
        ("f15", "f22", 85),
    ];
    let id = |name: &str| names.iter().position(|other| *other == name).unwrap() as u32;
    let edges: Vec<CallEdge> =
        calls.iter().map(|&(from, to, weight)| edge(id(from), id(to), weight)).collect();
    let graph = CallGraph::new(vec![33; names.len()], vec![0; names.len()], edges).unwrap();
    let named = |algorithm: &str| -> Vec<&str> {
        order(algorithm, &graph).iter().map(|&id| names[id as usize]).collect()
    };
    assert_eq!(named("c3"), ["main", "f0", "f1", "f3", "f7", "f15", "f22", "f8", "f17", "f2", "f9", "f19"]);
    assert_eq!(
        named("cdsort"),
        ["f2", "f9", "f19", "main", "f0", "f1", "f3", "f7", "f15", "f22", "f8", "f17"]
    );
}

#[test]
fn call_graph_orders_beat_random_orders() {
    let graph = graphs::graph(Shape::Program, 5_000, 20_000, 1);
    let scored = |name: &str| {
        let order = (algorithm(name).unwrap().run)(&graph, &AlgorithmOptions::default());
        score(&graph, &order, &Geometry::default())
    };
    let chance = scored("random");
    for name in ["c3", "cdsort"] {
        let score = scored(name);
        assert!(
            score.call_distance.nearness > 1.5 * chance.call_distance.nearness,
            "{name}: {score:?} {chance:?}"
        );
        assert!(
            score.call_distance.within_4_kib > chance.call_distance.within_4_kib,
            "{name}: {score:?} {chance:?}"
        );
        assert!(score.hot_pages.needed[1] < chance.hot_pages.needed[1], "{name}: {score:?} {chance:?}");
        assert!(score.tlb.misses < 0.9 * chance.tlb.misses, "{name}: {score:?} {chance:?}");
    }
    assert!(scored("cdsort").tlb.misses < scored("c3").tlb.misses);
}
