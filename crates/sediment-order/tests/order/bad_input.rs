// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of every layout, the engine and every score with graphs, starts and settings that no real program gives.

#![allow(clippy::unwrap_used)] // tests may fail loudly

use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId, Trace};
use sediment_core::profile::{FunctionKey, Profile};
use sediment_order::model::cores::CORES;
use sediment_order::model::{Geometry, core_misses, core_replay, replay, score, start_faults};
use sediment_order::order::algorithms::affinity::{self, WeightedTrace};
use sediment_order::order::algorithms::{ALGORITHMS, AlgorithmOptions, algorithm, cdsort};
use sediment_order::order::{self, Selection};

fn edge(caller: u32, callee: u32, weight: u64) -> CallEdge {
    CallEdge { caller: FunctionId(caller), callee: FunctionId(callee), weight }
}

fn built(sizes: &[u64], weights: &[u64], edges: &[(u32, u32, u64)]) -> CallGraph {
    let edges = edges.iter().map(|&(caller, callee, weight)| edge(caller, callee, weight)).collect();
    CallGraph::new(sizes.to_vec(), weights.to_vec(), edges).unwrap()
}

/// Returns the order of every layout with its name, and those of the engine without and with a run of all functions,
/// some of them unknown.
fn every_order(graph: &CallGraph, options: &AlgorithmOptions<'_>) -> Vec<(&'static str, Vec<FunctionId>)> {
    let mut orders: Vec<_> =
        ALGORITHMS.iter().map(|algorithm| (algorithm.name, (algorithm.run)(graph, options))).collect();
    orders.push(("engine", affinity::order(graph, &[]).order));
    let trace = run(graph);
    let workload = WeightedTrace { trace: &trace, weight: u64::MAX };
    orders.push(("engine, with a run", affinity::order(graph, &[workload]).order));
    orders
}

/// Makes a run of all functions and of one that the graph lacks.
fn run(graph: &CallGraph) -> Trace {
    let count = graph.len() as u32 + 1;
    Trace {
        functions: (0..600).map(|step| FunctionId((step + step / count) % count)).collect(),
        breaks: vec![3, 300, 9_999],
    }
}

/// Makes the same edges again and again, with a long edge to itself, for a graph of this many functions.
fn ring(functions: u32, weight: u64) -> Vec<(u32, u32, u64)> {
    (0..functions).map(|caller| (caller, (caller + 1) % functions, weight)).collect()
}

/// Makes a profile with as many calls as a profile may contain.
fn profile_at_the_limit() -> CallGraph {
    let mut profile = Profile::default();
    let functions: Vec<_> = (0..6)
        .map(|id| profile.function(FunctionKey::new(None, format!("f{id}").as_bytes(), None).unwrap()))
        .collect();
    for (place, caller) in functions.iter().enumerate() {
        let count = (1u128 << 78) - 1 - place as u128;
        profile.edge_mut(*caller, functions[(place + 1) % 6]).count = Some(count);
        profile.edge_mut(*caller, functions[place]).count = Some(1);
    }
    order::build(&profile, &Selection::Everything).unwrap().graph
}

/// Returns graphs with their names, and a condition that each order must fulfil besides being a permutation.
fn graphs() -> Vec<(&'static str, CallGraph)> {
    const MOST: u64 = CallGraph::MAX_TOTAL_WEIGHT;
    vec![
        ("no nodes", CallGraph::default()),
        ("one node", built(&[64], &[1], &[])),
        ("one node, calling itself as often as can be", built(&[64], &[MOST], &[(0, 0, MOST)])),
        ("self edges alone", built(&[64; 4], &[5; 4], &[(0, 0, 5), (1, 1, 5), (2, 2, 5), (3, 3, 5)])),
        (
            "parallel edges",
            built(&[64; 3], &[0; 3], &[(0, 1, 2), (0, 1, 3), (1, 0, 1), (1, 0, 1), (1, 2, 4)]),
        ),
        ("zero sizes", built(&[0; 6], &[1; 6], &ring(6, 10))),
        ("zero sizes and weights", built(&[0; 6], &[0; 6], &[])),
        ("some zero sizes", built(&[0, 64, 0, 64, 0, 64], &[1; 6], &ring(6, 10))),
        ("one giant function", built(&[64, 1 << 40, 64, 64], &[9; 4], &ring(4, 7))),
        ("giants beyond any memory", built(&[u64::MAX; 5], &[9; 5], &ring(5, 7))),
        ("disconnected nodes", built(&[64; 8], &[0; 8], &[(2, 3, 5), (6, 7, 5)])),
        ("nothing but disconnected nodes", built(&[64; 8], &[3, 0, 3, 0, 3, 0, 3, 0], &[])),
        ("one edge as heavy as can be", built(&[64; 3], &[0, MOST, 0], &[(0, 1, MOST)])),
        ("all as heavy as can be", built(&[64; 8], &[MOST / 8; 8], &ring(8, MOST / 8))),
        (
            "weights of 1 beside the heaviest",
            built(&[16; 4], &[0; 4], &[(0, 1, MOST - 2), (2, 3, 1), (1, 2, 1)]),
        ),
        ("a profile at the limit of its counts", profile_at_the_limit()),
        ("weights far below the calls", built(&[64; 3], &[0; 3], &[(0, 1, 1 << 40), (1, 2, 1 << 50)])),
        ("weights far above the calls", built(&[64; 3], &[1 << 50; 3], &[(0, 1, 1), (1, 2, 1)])),
        ("a hub", {
            let edges: Vec<_> = (1..80).flat_map(|id| [(0, id, u64::from(id)), (id, 0, 1)]).collect();
            built(&[40; 80], &[0; 80], &edges)
        }),
    ]
}

#[test]
fn every_layout_orders_every_graph_and_does_so_again() {
    for (name, graph) in graphs() {
        let ids: Vec<FunctionId> = graph.ids().collect();
        let orders = every_order(&graph, &AlgorithmOptions::default());
        assert!(
            orders == every_order(&graph, &AlgorithmOptions::default()),
            "{name}: another order the second time"
        );
        for (by, mut order) in orders {
            order.sort_unstable();
            assert_eq!(order, ids, "{name}: {by} must have each function once");
        }
    }
}

#[test]
fn every_score_of_every_graph_is_a_number() {
    for (name, graph) in graphs() {
        let trace = run(&graph);
        for geometry in
            [Geometry::default(), Geometry { alignment: 0, page: 0, huge_page: 0, tlb_entries: 0 }]
        {
            let score = score(&graph, &[], &geometry);
            let distance = score.call_distance;
            let core = core_misses(&graph, &[], &CORES[0], &geometry);
            for number in [
                distance.mean,
                distance.nearness,
                distance.within_2_mib,
                score.tlb.misses,
                core.itlb,
                core.l1i,
            ] {
                assert!(number.is_finite() && number >= 0.0, "{name}: {score:?} {core:?}");
            }
            let counted = replay(&trace, &graph, &[], &geometry);
            assert!(
                counted.misses >= counted.pages && counted.misses <= counted.page_changes,
                "{name}: {counted:?}"
            );
            let core = core_replay(&trace, &graph, &[], &CORES[0], &geometry);
            assert!(core.itlb >= core.walks && core.walks > 0.0, "{name}: {core:?}");
            let faults = start_faults(&trace.first_uses(), &graph, &[], &geometry);
            assert!(faults.uses == graph.len() as u64 && faults.around <= faults.pages, "{name}: {faults:?}");
        }
    }
}

#[test]
fn calls_to_oneself_move_nobody() {
    let calls = [(0, 3, 50), (3, 1, 40), (2, 4, 30)];
    let mut with_recursion = calls.to_vec();
    with_recursion.extend([(1, 1, 1_000), (4, 4, 7)]);
    let without = built(&[64; 5], &[0, 40, 0, 50, 30], &calls);
    // A function's calls of itself enter it, too.
    let with = built(&[64; 5], &[0, 1_040, 0, 50, 37], &with_recursion);
    // C3, Pettis-Hansen and hfsort+ rank chains by entries, so they are not tested here.
    for name in ["cdsort", "original", "first-use", "balanced-partitioning", "input", "random"] {
        let run = algorithm(name).unwrap().run;
        assert_eq!(
            run(&with, &AlgorithmOptions::default()),
            run(&without, &AlgorithmOptions::default()),
            "{name}"
        );
    }
}

#[test]
fn parallel_edges_are_one_edge_of_their_sum() {
    let parted = built(&[64; 4], &[0; 4], &[(0, 2, 3), (0, 2, 4), (2, 1, 5), (2, 1, 0), (1, 3, 6)]);
    let summed = built(&[64; 4], &[0; 4], &[(0, 2, 7), (2, 1, 5), (1, 3, 6)]);
    assert_eq!(
        every_order(&parted, &AlgorithmOptions::default()),
        every_order(&summed, &AlgorithmOptions::default())
    );
}

#[test]
fn unprofiled_functions_follow_profiled_ones() {
    let graph = built(&[64; 8], &[0; 8], &[(2, 3, 5), (6, 7, 5)]);
    for (name, order) in every_order(&graph, &AlgorithmOptions::default()) {
        let by_calls = ["cdsort", "c3", "hfsort+", "pettis-hansen", "original", "engine"];
        if by_calls.contains(&name) {
            assert_eq!(order[4..], [0, 1, 4, 5].map(FunctionId), "{name}");
        }
    }
}

#[test]
fn a_giant_function_keeps_the_others_together() {
    // Calls go around a giant function. Wherever it is placed, it must not separate the small functions that call each
    // other.
    let graph = built(&[64, 1 << 40, 64], &[0; 3], &[(0, 2, 90), (2, 1, 10), (1, 0, 10)]);
    for (name, order) in every_order(&graph, &AlgorithmOptions::default()) {
        let place = |id| order.iter().position(|function| *function == FunctionId(id)).unwrap();
        if !["input", "random", "first-use", "balanced-partitioning"].contains(&name) {
            assert_eq!(place(0).abs_diff(place(2)), 1, "{name}: {order:?}");
        }
    }
}

#[test]
fn starts_and_contents_that_are_not_of_the_graph() {
    let graph = built(&[64; 5], &[1; 5], &[(0, 1, 1)]);
    let starts = [vec![9, 9, 4, 4, 2, u32::MAX, 4], vec![], vec![7; 50]]
        .map(|start| start.into_iter().map(FunctionId).collect::<Vec<_>>());
    let code_shingles = [vec![], vec![u64::MAX, 0], vec![0; 3]];
    let options =
        AlgorithmOptions { starts: &starts, code_shingles: &code_shingles, ..AlgorithmOptions::default() };
    for name in ["first-use", "balanced-partitioning"] {
        let order = (algorithm(name).unwrap().run)(&graph, &options);
        assert_eq!(order[..2], [4, 2].map(FunctionId), "{name}");
        assert_eq!(order.len(), 5);
    }
}

#[test]
fn settings_of_cdsort_that_nobody_means() {
    let graph = built(&[64; 6], &[0; 6], &ring(6, 10));
    let standard = cdsort::CdsortParameters::default();
    let settings = [
        cdsort::CdsortParameters { cache_entries: 0, cache_size: 0, longest_chain: 0, ..standard },
        cdsort::CdsortParameters {
            cache_entries: u32::MAX,
            cache_size: u32::MAX,
            longest_chain: u32::MAX,
            ..standard
        },
        cdsort::CdsortParameters { frequency_scale: f64::NAN, distance_sixteenths: 0, ..standard },
        cdsort::CdsortParameters { frequency_scale: f64::INFINITY, distance_sixteenths: 255, ..standard },
        cdsort::CdsortParameters { frequency_scale: -1.0, ..standard },
    ];
    for cdsort in settings {
        let mut order = (algorithm("cdsort").unwrap().run)(
            &graph,
            &AlgorithmOptions { cdsort, ..AlgorithmOptions::default() },
        );
        order.sort_unstable();
        assert_eq!(order, graph.ids().collect::<Vec<_>>(), "{cdsort:?}");
    }
}
