// SPDX-License-Identifier: MIT OR Apache-2.0
//! C3 and CDSort compared with lld 19 on the same graphs: time, and equality of the orders. Prints Markdown.
//!
//! `scripts/prove layout-speed` runs this. Needs `ld.lld-19` and `as`.
#![allow(clippy::print_stdout)] // this program prints a table
#![allow(clippy::unwrap_used)] // a proof that cannot run must fail

use sediment_core::callgraph::{CallGraph, FunctionId};
use sediment_order::order::algorithms::{AlgorithmOptions, algorithm};
use std::process::ExitCode;
use std::time::Instant;
use support::graphs::{Shape, graph};
use support::lld::Reference;

const GRAPHS: &[(Shape, u32, usize)] = &[
    (Shape::Program, 5_000, 20_000),
    (Shape::Program, 20_000, 80_000),
    (Shape::Program, 60_000, 240_000),
    (Shape::Even, 60_000, 240_000),
    (Shape::Hubs, 20_000, 80_000),
    (Shape::Ties, 60_000, 240_000),
];

/// Number of alternating runs of each program. The fastest counts, because other load only slows down a run.
const REPEATS: usize = 3;

/// The graph of the claims, and the limit in seconds for each algorithm on it.
const CLAIMED: (Shape, u32) = (Shape::Program, 60_000);
const CLAIMS: [(&str, f64); 2] = [("c3", 0.1), ("cdsort", 2.0)];

fn main() -> ExitCode {
    println!(
        "Graphs are made by `tests/support/src/graphs.rs` with seed 1. One thread each. lld's time is that of"
    );
    println!("its event `Total Sort sections`, ours that of the call; the fastest of {REPEATS} runs each.\n");
    println!("| graph | functions | edges | algorithm | lld | sediment | lld / sediment | orders |");
    println!("|---|--:|--:|---|--:|--:|--:|---|");
    let mut failed = Vec::new();
    for &(shape, functions, edges) in GRAPHS {
        let graph = graph(shape, functions, edges, 1);
        let folder = tempfile::tempdir().unwrap();
        let reference = Reference::assemble(&graph, folder.path());
        for (ours, theirs) in [("c3", "hfsort"), ("cdsort", "cdsort")] {
            let (lld, sediment, same) = race(&graph, &reference, ours, theirs);
            println!(
                "| {shape:?} | {functions} | {} | {ours} | {lld:.3} s | {sediment:.3} s | {:.1} | {} |",
                graph.edges().len(),
                lld / sediment,
                if same { "equal" } else { "differ" }
            );
            if !same {
                failed.push(format!("{ours} on {shape:?} {functions} differs from lld"));
            }
            let claim = CLAIMS.iter().find(|claim| claim.0 == ours && (shape, functions) == CLAIMED);
            if let Some((_, seconds)) = claim.filter(|(_, seconds)| sediment >= *seconds) {
                failed.push(format!("{ours} takes {seconds} s or more on {shape:?} {functions}"));
            }
        }
    }
    println!("\n## Claims\n");
    for (algorithm, seconds) in CLAIMS {
        println!("- {algorithm} orders {:?} {} in under {seconds} s.", CLAIMED.0, CLAIMED.1);
    }
    println!("- All orders are equal to lld's.\n");
    for claim in &failed {
        println!("Does not hold: {claim}.");
    }
    if failed.is_empty() {
        println!("All hold.");
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

/// Seconds of lld, seconds of sediment, and whether every function has the same position.
fn race(graph: &CallGraph, reference: &Reference<'_>, ours: &str, theirs: &str) -> (f64, f64, bool) {
    let algorithm = algorithm(ours).unwrap();
    let (mut lld, mut sediment, mut same) = (f64::INFINITY, f64::INFINITY, true);
    for _ in 0..REPEATS {
        let begin = Instant::now();
        let order: Vec<FunctionId> = (algorithm.run)(graph, &AlgorithmOptions::default());
        sediment = sediment.min(begin.elapsed().as_secs_f64());
        let placement = reference.link(theirs);
        lld = lld.min(placement.sorting_microseconds as f64 / 1e6);
        same &= order == placement.order;
    }
    (lld, sediment, same)
}
