// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares Pettis and Hansen's layout with BOLT's, function by function, and hfsort+ by its score with BOLT 16, the
//! last one that has it.

#![allow(clippy::unwrap_used)] // tests may fail loudly

use libtest_mimic::Trial;
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};
use sediment_order::model::{Geometry, score};
use sediment_order::order::algorithms::{AlgorithmOptions, algorithm};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use support::graphs;
use support::{Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    let needs = |bolt| [Need::Program("as"), Need::Program("ld"), bolt];
    let bolt = needs(Need::Program("llvm-bolt-19"));
    let older = needs(Need::FurtherReference("llvm-bolt-16"));
    vec![
        case("bolt::pettis_hansen_is_bolts", &bolt, || pettis_hansen("llvm-bolt-19")),
        case("bolt::pettis_hansen_is_that_of_bolt_16", &older, || pettis_hansen("llvm-bolt-16")),
        case("bolt::hfsort_plus_is_as_good_as_that_of_bolt_16", &older, hfsort_plus),
    ]
}

/// Makes calls with distinct weights. Every function is among the callees, because BOLT omits functions that it never
/// saw entered.
fn graph(functions: u32, edges: usize, seed: u64) -> CallGraph {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = move |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % bound
    };
    let mut calls: BTreeMap<(u32, u32), u64> =
        (0..functions).map(|id| ((id, (id * 7 + 1) % functions), 0)).filter(|((a, b), _)| a != b).collect();
    while calls.len() < edges {
        let caller = below(u64::from(functions)) as u32;
        let callee = if below(3) == 0 {
            below(u64::from(functions)) as u32
        } else {
            (caller + 1 + below(20) as u32) % functions
        };
        if caller != callee {
            calls.insert((caller, callee), 0);
        }
    }
    let mut taken = BTreeSet::new();
    for weight in calls.values_mut() {
        while *weight == 0 || !taken.insert(*weight) {
            let magnitude = below(24);
            *weight = (1 << magnitude) + below(1 << magnitude) + below(1 << 12);
        }
    }
    let mut addresses = vec![0u64; functions as usize];
    let mut weights = vec![0u64; functions as usize];
    for (&(caller, callee), &weight) in &calls {
        addresses[caller as usize] += 1;
        weights[callee as usize] += weight;
    }
    let sizes = addresses.iter().map(|addresses| addresses * CALL + 2 * below(300) + 1).collect();
    CallGraph::new(sizes, weights, graphs::edges(calls)).unwrap()
}

/// Bytes of a call site: a test, a jump over the call, and the call.
const CALL: u64 = 9;

/// Writes the program and its profile. Each call has its own block, because BOLT takes the weight of a call from its
/// block.
fn write(graph: &CallGraph, folder: &Path) {
    let (mut assembly, mut profile) = (String::new(), String::new());
    for caller in graph.ids() {
        let calls: Vec<&CallEdge> = graph.edges().iter().filter(|edge| edge.caller == caller).collect();
        let id = caller.0;
        let runs =
            calls.iter().map(|call| call.weight).chain([graph.weights()[caller.index()]]).max().unwrap_or(0);
        writeln!(
            assembly,
            ".section .text.n{id},\"ax\",@progbits\n.globl n{id}\n.type n{id},@function\nn{id}:"
        )
        .unwrap();
        for (place, call) in (0u64..).zip(&calls) {
            let (jump, call_at, next) = (CALL * place + 2, CALL * place + 4, CALL * (place + 1));
            let (callee, weight) = (call.callee.0, call.weight);
            writeln!(assembly, "test %edi,%edi\nje 1f\ncall n{callee}\n1:").unwrap();
            writeln!(profile, "1 n{id} {jump:x} 1 n{id} {next:x} 0 {}", runs - weight).unwrap();
            writeln!(profile, "1 n{id} {jump:x} 1 n{id} {call_at:x} 0 {weight}").unwrap();
            writeln!(profile, "1 n{id} {call_at:x} 1 n{callee} 0 0 {weight}").unwrap();
        }
        // Filling without nops, because BOLT removes them.
        let filling = (graph.sizes()[caller.index()] - CALL * calls.len() as u64) / 2;
        for _ in 0..filling {
            assembly.push_str("mov %ebx,%ebx\n");
        }
        writeln!(assembly, "ret\n.size n{id},.-n{id}").unwrap();
    }
    std::fs::write(folder.join("program.s"), assembly).unwrap();
    std::fs::write(folder.join("program.fdata"), profile).unwrap();
}

fn run(folder: &Path, program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split(' ')).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

fn order_of_bolt(bolt: &str, layout: &str, graph: &CallGraph) -> Vec<FunctionId> {
    let folder = tempfile::tempdir().unwrap();
    write(graph, folder.path());
    run(folder.path(), "as", "program.s -o program.o");
    run(folder.path(), "ld", "-q -e n0 program.o -o program");
    let arguments = format!(
        "program -o ordered -data=program.fdata -reorder-functions={layout} -generate-function-order=order"
    );
    run(folder.path(), bolt, &arguments);
    let order = std::fs::read_to_string(folder.path().join("order")).unwrap();
    order.lines().map(|name| FunctionId(name.strip_prefix('n').unwrap().parse().unwrap())).collect()
}

/// Returns the graph with BOLT's numbers, and the names of its functions. BOLT numbers functions as it meets them: each
/// function, then those that it calls. This number decides which of two chains comes first.
fn as_met(graph: &CallGraph) -> (CallGraph, Vec<FunctionId>) {
    let mut names: Vec<FunctionId> = Vec::new();
    let mut numbers: Vec<Option<FunctionId>> = vec![None; graph.len()];
    for caller in graph.ids() {
        let callees = graph.edges().iter().filter(|edge| edge.caller == caller).map(|edge| edge.callee);
        for function in [caller].into_iter().chain(callees) {
            numbers[function.index()].get_or_insert_with(|| {
                names.push(function);
                FunctionId(names.len() as u32 - 1)
            });
        }
    }
    let number = |function: FunctionId| numbers[function.index()].unwrap();
    let edges = graph
        .edges()
        .iter()
        .map(|edge| CallEdge {
            caller: number(edge.caller),
            callee: number(edge.callee),
            weight: edge.weight,
        })
        .collect();
    let of = |values: &[u64]| names.iter().map(|function| values[function.index()]).collect();
    (CallGraph::new(of(graph.sizes()), of(graph.weights()), edges).unwrap(), names)
}

fn pettis_hansen(bolt: &str) {
    for (functions, edges, seed) in [(10, 20, 1), (50, 150, 2), (50, 150, 3), (400, 1_500, 4), (400, 800, 5)]
    {
        let graph = graph(functions, edges, seed);
        let (numbered, names) = as_met(&graph);
        let ours: Vec<FunctionId> =
            (algorithm("pettis-hansen").unwrap().run)(&numbered, &AlgorithmOptions::default())
                .into_iter()
                .map(|function| names[function.index()])
                .collect();
        assert_eq!(
            ours,
            order_of_bolt(bolt, "pettis-hansen", &graph),
            "{bolt}, {functions} functions, seed {seed}"
        );
    }
}

/// The orders differ in several ways: BOLT knows the position of each call in its caller, while sediment assumes the
/// middle; BOLT does not limit the length of chains; and it counts only entries, while sediment also counts calls out
/// of a function. So the test compares the scores over several programs.
fn hfsort_plus() {
    let (mut sums, mut near) = ([0.0; 3], [0.0; 3]);
    for seed in 1..=4 {
        let graph = graph(1_500, 6_000, seed);
        let ours = (algorithm("hfsort+").unwrap().run)(&graph, &AlgorithmOptions::default());
        let theirs = order_of_bolt("llvm-bolt-16", "hfsort+", &graph);
        assert_eq!(theirs.len(), graph.len());
        let chance = (algorithm("random").unwrap().run)(
            &graph,
            &AlgorithmOptions { seed, ..AlgorithmOptions::default() },
        );
        for (place, order) in [ours, theirs, chance].iter().enumerate() {
            let score = score(&graph, order, &Geometry { tlb_entries: 16, ..Geometry::default() });
            sums[place] += score.tlb.misses / 1e6;
            near[place] += score.call_distance.within_4_kib;
        }
    }
    println!("estimated misses {sums:?}, calls within 4 KiB {near:?}: ours, theirs, chance");
    assert!(sums[0] < 0.8 * sums[2] && (0.9..=1.05).contains(&(sums[0] / sums[1])), "{sums:?}");
    assert!((0.95..=1.1).contains(&(near[0] / near[1])), "{near:?}");
}
