// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of worse profiles for the affinity layout, CDSort and C3: replayed misses of a run that was not recorded. Prints Markdown.
//!
//! `scripts/prove engine-robustness` runs this with PROGRAM PROFILE BINARY RECORDED-TRACE OTHER-TRACE, once or several times.
#![allow(clippy::print_stdout)] // this program prints a table
#![allow(clippy::unwrap_used)] // a proof that cannot run must fail

use sediment_core::binary::{Binary, NoFiles};
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId, Trace};
use sediment_core::profile::text;
use sediment_core::random::Generator;
use sediment_order::model::{Geometry, replay};
use sediment_order::order::algorithms::affinity;
use sediment_order::order::algorithms::{self, AlgorithmOptions};
use sediment_order::order::{self, Selection};
use sediment_read::trace::file;
use std::fs::read;
use std::process::ExitCode;

/// Entries of the replayed TLBs. The ratio of misses is the geometric mean over them.
const ENTRIES: [u32; 5] = [32, 48, 64, 96, 128];
/// Samples of each random degradation; the table shows their mean.
const DRAWINGS: u64 = 3;
/// Limit of the misses of the affinity layout, divided by the misses of the better of CDSort and C3 with the same worse profile.
const CLAIM: f64 = 1.0;

/// Degradation of a profile.
type ProfileDamage = fn(&CallGraph, &mut Generator) -> CallGraph;
const DAMAGES: &[(&str, ProfileDamage)] = &[
    ("as recorded", |graph, _| graph.clone()),
    ("every weight times ½ to 1½", |graph, numbers| {
        weighted(graph, |weight| (weight as f64 * (0.5 + numbers.unit())).ceil() as u64)
    }),
    ("one of 100 calls and pairs sampled", |graph, numbers| {
        weighted(graph, |weight| sampled(weight, 100, numbers))
    }),
    ("one of 1,000 sampled", |graph, numbers| weighted(graph, |weight| sampled(weight, 1_000, numbers))),
    ("a tenth of the names changed", |graph, numbers| {
        let lost: Vec<bool> = graph.ids().map(|_| numbers.below(10) == 0).collect();
        rebuilt(
            graph,
            |edge| if lost[edge.caller.index()] || lost[edge.callee.index()] { 0 } else { edge.weight },
        )
    }),
];

fn main() -> ExitCode {
    println!(
        "Misses above first touches with 32 to 128 entries, as geometric mean of the ratio to CDSort's order of the undamaged profile."
    );
    println!(
        "Recorded: over the run that the profile is of. Other: over a run of other input. Mean of {DRAWINGS} drawings.\n"
    );
    println!("| program | profile | run | C3 | CDSort | affinity | affinity / better peer |");
    println!("|---|---|---|--:|--:|--:|--:|");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut held = true;
    for program in arguments.chunks_exact(5) {
        held &= of_program(program);
    }
    println!("\n## Claim\n");
    println!(
        "- In each row of the other run the affinity layout has at most {CLAIM} of the misses of the better peer's.\n"
    );
    println!("{}", if held { "It holds." } else { "It does not hold." });
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn of_program(arguments: &[String]) -> bool {
    let [name, profile, binary, recorded, other] = arguments else { return false };
    let (profile, _) = text::parse(&read(profile).unwrap()).unwrap();
    let bytes = read(binary).unwrap();
    let binary = Binary::parse(&bytes, &NoFiles).unwrap();
    let built = order::build(&profile, &Selection::Binary { binary: &binary, file_name: name }).unwrap();
    let runs = [("recorded", recorded), ("other", other)].map(|(run, path)| {
        (run, file::load_with_others(&read(path).unwrap().as_slice(), &built.table).unwrap())
    });
    let exact = &built.graph;
    let reference = runs.each_ref().map(|(_, run)| misses(run, exact, &classic(exact, "cdsort")));
    let mut held = true;
    for (damage, apply) in DAMAGES {
        let mut ratios = [[0.0f64; 3]; 2];
        for drawing in 1..=DRAWINGS {
            let damaged = apply(exact, &mut Generator::new(drawing));
            let orders =
                [classic(&damaged, "c3"), classic(&damaged, "cdsort"), affinity::order(&damaged, &[]).order];
            for (which, (_, run)) in runs.iter().enumerate() {
                for (order, ratio) in orders.iter().zip(&mut ratios[which]) {
                    *ratio += mean_ratio(&misses(run, exact, order), &reference[which]) / DRAWINGS as f64;
                }
            }
        }
        for ((run, _), [c3, cdsort, ours]) in runs.iter().zip(ratios) {
            let ratio = ours / c3.min(cdsort);
            println!("| {name} | {damage} | {run} | {c3:.3} | {cdsort:.3} | {ours:.3} | {ratio:.3} |");
            held &= *run == "recorded" || ratio <= CLAIM;
        }
    }
    held
}

fn classic(graph: &CallGraph, name: &str) -> Vec<FunctionId> {
    (algorithms::algorithm(name).unwrap().run)(graph, &AlgorithmOptions::default())
}

fn misses(run: &Trace, graph: &CallGraph, order: &[FunctionId]) -> [f64; ENTRIES.len()] {
    ENTRIES.map(|tlb_entries| {
        let replay = replay(run, graph, order, &Geometry { tlb_entries, ..Geometry::default() });
        (replay.misses - replay.pages).max(1) as f64
    })
}

fn mean_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let logs = ours.iter().zip(theirs).map(|(ours, theirs)| (ours / theirs).ln());
    (logs.sum::<f64>() / ours.len() as f64).exp()
}

/// Number of sampled events of `weight` if on average one event in `of` is sampled.
fn sampled(weight: u64, of: u64, numbers: &mut Generator) -> u64 {
    let mean = weight as f64 / of as f64;
    if mean > 100.0 {
        return (mean + mean.sqrt() * numbers.normal()).round().max(0.0) as u64;
    }
    // Gaps between samples are exponential; counts them until the mean is used up.
    let (mut left, mut seen) = (mean, 0);
    loop {
        left += (1.0 - numbers.unit()).ln();
        if left < 0.0 {
            return seen;
        }
        seen += 1;
    }
}

fn weighted(graph: &CallGraph, mut weight: impl FnMut(u64) -> u64) -> CallGraph {
    rebuilt(graph, |edge| weight(edge.weight))
}

/// The graph with other weights of its call and affinity edges. The weight of a function is the sum of its calls.
fn rebuilt(graph: &CallGraph, mut weight: impl FnMut(&CallEdge) -> u64) -> CallGraph {
    let mut other =
        |edges: &[CallEdge]| edges.iter().map(|edge| CallEdge { weight: weight(edge), ..*edge }).collect();
    let (calls, affinity): (Vec<CallEdge>, Vec<CallEdge>) = (other(graph.edges()), other(graph.affinity()));
    let mut weights = vec![0; graph.len()];
    for call in &calls {
        weights[call.callee.index()] += call.weight;
    }
    CallGraph::new(graph.sizes().to_vec(), weights, calls).unwrap().with_affinity(affinity).unwrap()
}
