// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the engine: each order contains all functions once, is the same every time, is never worse than the classic
//! orders, and is better if there is something to gain.

#![allow(clippy::unwrap_used)] // tests may fail loudly

use proptest::prelude::*;
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId, Trace};
use sediment_order::model::{Geometry, replay};
use sediment_order::order::algorithms::affinity::{CLASSICS, TOGETHER, WeightedTrace, cost, order};
use sediment_order::order::algorithms::{AlgorithmOptions, CDSORT, algorithm};
use std::collections::BTreeMap;
use support::graphs;
use support::graphs::Shape;

fn trace(functions: Vec<u32>) -> Trace {
    Trace { functions: functions.into_iter().map(FunctionId).collect(), breaks: Vec::new() }
}

/// Makes a run of a program with several jobs. Each job has functions of its own, scattered over the program, and
/// common ones; libraries run in between.
fn jobs(functions: u32, jobs: u32, rounds: u32, seed: u32) -> Trace {
    let mut run = Vec::new();
    let mut state = seed;
    for _ in 0..rounds {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let job = (state >> 16) % jobs;
        for step in 0..functions / jobs {
            run.push(step * jobs + job);
            if step % 4 == 0 {
                run.push(step % 7);
            }
            if step % 9 == 0 {
                run.push(functions + job % 3);
            }
        }
    }
    trace(run)
}

/// Makes the graph of the calls that a run suggests: each function calls the next.
fn graph_of(run: &Trace, functions: u32, size: u64) -> CallGraph {
    let mut calls: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for pair in run.functions.windows(2).filter(|pair| pair[0].0 < functions && pair[1].0 < functions) {
        *calls.entry((pair[0].0, pair[1].0)).or_default() += 1;
    }
    CallGraph::new(vec![size; functions as usize], vec![0; functions as usize], graphs::edges(calls)).unwrap()
}

/// Makes the graph of a run with its affinity: each function that begins to run is near the last eight other functions.
fn with_affinity(run: &Trace, functions: u32, size: u64) -> CallGraph {
    let mut affinity: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut last: Vec<u32> = Vec::new();
    for &FunctionId(function) in run.functions.iter().filter(|function| function.0 < functions) {
        let since = last.iter().rposition(|other| *other == function);
        for &other in &last[since.map_or(0, |at| at + 1)..] {
            *affinity.entry((other, function)).or_default() += 1;
        }
        last.retain(|other| *other != function);
        last.push(function);
        if last.len() > 8 {
            last.remove(0);
        }
    }
    graph_of(run, functions, size).with_affinity(graphs::edges(affinity)).unwrap()
}

fn alone(trace: &Trace) -> [WeightedTrace<'_>; 1] {
    [WeightedTrace { trace, weight: 1 }]
}

fn misses(run: &Trace, graph: &CallGraph, order: &[FunctionId], tlb_entries: u32) -> u64 {
    replay(run, graph, order, &Geometry { tlb_entries, ..Geometry::default() }).misses
}

#[test]
fn without_a_trace_it_is_the_best_of_the_classics() {
    let graph = graphs::graph(Shape::Program, 500, 2_000, 1);
    let outcome = order(&graph, &[]);
    assert_eq!(outcome.order, (CLASSICS[0].run)(&graph, &AlgorithmOptions::default()));
    assert_eq!((outcome.start, outcome.cost), (CDSORT, 1.0));
}

#[test]
fn functions_of_one_phase_are_adjacent() {
    let (functions, size) = (600, 800);
    let train = jobs(functions, 12, 1_500, 1);
    let graph = graph_of(&train, functions, size);
    let outcome = order(&graph, &alone(&train));
    assert!(outcome.cost < 0.97, "{}", outcome.cost);
    let classic = (algorithm("cdsort").unwrap().run)(&graph, &AlgorithmOptions::default());
    let held_out = jobs(functions, 12, 500, 99);
    for entries in [16, 32, 64] {
        let [ours, theirs] =
            [&outcome.order, &classic].map(|order| misses(&held_out, &graph, order, entries));
        assert!(ours < theirs, "{entries} entries: {ours} against {theirs}");
    }
}

#[test]
fn a_profile_with_affinity_edges_is_enough() {
    let (functions, size) = (600, 800);
    // Misses of other runs of the same kind, summed over seeds and sizes of the TLB: with the order by the profile, and
    // with each classic order.
    let mut sums = vec![0u64; 1 + CLASSICS.len()];
    for seed in 1..4 {
        let graph = with_affinity(&jobs(functions, 12, 500, seed), functions, size);
        let outcome = order(&graph, &[]);
        assert_eq!(outcome.start, TOGETHER);
        assert!(outcome.cost < 1.0, "{}", outcome.cost);
        let classics = CLASSICS.iter().map(|classic| (classic.run)(&graph, &AlgorithmOptions::default()));
        let held_out = jobs(functions, 12, 300, 98 + seed);
        for (sum, order) in sums.iter_mut().zip([outcome.order].into_iter().chain(classics)) {
            *sum += [32, 64].map(|entries| misses(&held_out, &graph, &order, entries)).iter().sum::<u64>();
        }
    }
    assert!(sums[1..].iter().all(|theirs| sums[0] < *theirs), "{sums:?}");
}

#[test]
fn each_of_several_workloads_counts() {
    let (functions, size) = (600, 400);
    let [long, short] = [jobs(functions, 6, 4_000, 1), jobs(functions, 10, 300, 5)];
    let graph = graph_of(&long, functions, size);
    let both = order(
        &graph,
        &[WeightedTrace { trace: &long, weight: 1 }, WeightedTrace { trace: &short, weight: 1 }],
    );
    let classic = (algorithm("cdsort").unwrap().run)(&graph, &AlgorithmOptions::default());
    assert!(misses(&short, &graph, &both.order, 32) < misses(&short, &graph, &classic, 32));
    assert_eq!(cost(&graph, &short, &classic), 1.0);
    // The classic order was computed from the long run's own calls, so almost nothing can be gained for this run.
    let costs = [&long, &short].map(|run| cost(&graph, run, &both.order));
    assert!(costs[0] < 1.1 && costs[1] < 1.0, "neither is drowned by the other: {costs:?}");
}

#[test]
fn the_same_input_gives_the_same_order() {
    let run = jobs(300, 5, 200, 3);
    let graph = graph_of(&run, 300, 300);
    assert_eq!(order(&graph, &alone(&run)), order(&graph, &alone(&run)));
}

fn parts() -> impl Strategy<Value = (CallGraph, Trace)> {
    let size = prop_oneof![4 => 0u64..5000, 1 => Just(0), 1 => Just(u64::MAX), 1 => 1u64 << 19..1 << 21];
    (0usize..30).prop_flat_map(move |functions| {
        let run = prop::collection::vec(0..functions as u32 + 3, 0..200);
        let sizes = prop::collection::vec(size.clone(), functions);
        (sizes, run, prop::collection::vec(0usize..200, 0..3)).prop_map(move |(sizes, run, mut breaks)| {
            breaks.sort_unstable();
            breaks.dedup();
            let edges = run
                .windows(2)
                .filter(|pair| pair.iter().all(|function| (*function as usize) < functions))
                .map(|pair| CallEdge { caller: FunctionId(pair[0]), callee: FunctionId(pair[1]), weight: 1 });
            let edges: Vec<CallEdge> = edges.collect();
            let graph = CallGraph::new(sizes, vec![0; functions], edges.clone()).unwrap();
            let graph = if run.len() % 2 == 0 { graph } else { graph.with_affinity(edges).unwrap() };
            (graph, Trace { breaks, ..trace(run) })
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_order_has_each_function_once((graph, run) in parts()) {
        for workloads in [&alone(&run)[..], &[]] {
            let mut sorted = order(&graph, workloads).order;
            sorted.sort_unstable();
            prop_assert_eq!(sorted, graph.ids().collect::<Vec<_>>());
        }
    }
}
