// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the engine takes for a profile alone, on made-up graphs of up to a million functions. Prints Markdown.
//!
//! Run by `scripts/prove layout-speed`: each graph in a process of its own, so that its peak memory is its own.
#![allow(clippy::print_stdout)] // the table is what it is for
#![allow(clippy::unwrap_used)] // a proof that cannot run has nothing to say

#[path = "../tests/support/graphs.rs"]
mod graphs;

use graphs::{Shape, graph};
use sediment::engine;
use sediment::layout::{self, Options};
use sediment::model::{Geometry, score};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Shape, functions, calls and near pairs.
const GRAPHS: &[(Shape, u32, usize, usize)] = &[
    (Shape::Program, 1_000, 4_000, 0),
    (Shape::Program, 10_000, 40_000, 0),
    (Shape::Program, 60_000, 240_000, 0),
    (Shape::Program, 100_000, 400_000, 0),
    (Shape::Program, 1_000_000, 4_000_000, 0),
    (Shape::Program, 1_000_000, 10_000_000, 0),
    (Shape::Hubs, 1_000, 4_000, 0),
    (Shape::Hubs, 10_000, 40_000, 0),
    (Shape::Hubs, 60_000, 240_000, 0),
    (Shape::Hubs, 100_000, 400_000, 0),
    (Shape::Hubs, 1_000_000, 10_000_000, 0),
    (Shape::Program, 1_000, 2_000, 20_000),
    (Shape::Program, 5_000, 10_000, 150_000),
    (Shape::Program, 20_000, 40_000, 200_000),
    (Shape::Program, 60_000, 120_000, 1_500_000),
];

/// Of the graphs of a claim: the most seconds, and the order that must not have the better score.
const CLAIMS: &[(Shape, u32, usize, f64, &str)] =
    &[(Shape::Program, 60_000, 240_000, 0.5, "cdsort"), (Shape::Program, 1_000_000, 10_000_000, 10.0, "c3")];
/// The most bytes of a process, its graph included.
const MOST_MEMORY: u64 = 4 << 30;
/// The fastest of so many turns counts.
const TURNS: usize = 3;

fn main() -> ExitCode {
    if let Some(which) = std::env::args().nth(1) {
        let (shape, functions, calls, near) = GRAPHS[which.parse::<usize>().unwrap()];
        return one(shape, functions, calls, near);
    }
    println!(
        "| graph | functions | calls | near pairs | order begun with | time | peak memory | nearness | of |"
    );
    println!("|---|--:|--:|--:|---|--:|--:|--:|---|");
    let mut held = true;
    for index in 0..GRAPHS.len() {
        let this = std::env::current_exe().unwrap();
        held &= Command::new(this).arg(index.to_string()).status().unwrap().success();
    }
    println!("\n## Claims of the engine\n");
    for (shape, functions, calls, seconds, peer) in CLAIMS {
        println!(
            "- {shape:?} {functions} / {calls}: under {seconds} s and 4 GiB, no lower nearness than {peer}'s."
        );
    }
    println!("\n{}", if held { "All hold." } else { "Not all hold." });
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(shape: Shape, functions: u32, calls: usize, near: usize) -> ExitCode {
    let mut graph = graph(shape, functions, calls, 1);
    if near > 0 {
        let pairs = graphs::graph(Shape::Program, functions, near, 2).edges().to_vec();
        graph = graph.with_near(pairs).unwrap();
    }
    let mut fastest = f64::INFINITY;
    let mut outcome = None;
    for _ in 0..TURNS {
        let start = Instant::now();
        outcome = Some(engine::order(&graph, &[]));
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    let outcome = outcome.unwrap();
    let memory = peak_memory();
    let claim = CLAIMS.iter().find(|claim| (claim.0, claim.1, claim.2, 0) == (shape, functions, calls, near));
    let peer = claim.map_or("cdsort", |claim| claim.4);
    let by_peer = claim.map(|_| (layout::algorithm(peer).unwrap().run)(&graph, &Options::default()));
    let nearness = |order: &[_]| score(&graph, order, &Geometry::default()).call_distance.nearness;
    let of_peer = by_peer.as_deref().map(nearness);
    let ours = nearness(&outcome.order);
    println!(
        "| {shape:?} | {functions} | {} | {} | {} | {fastest:.3} s | {} MB | {ours:.4} | {} |",
        graph.edges().len(),
        graph.near().len(),
        outcome.start,
        memory / 1_000_000,
        of_peer.map_or_else(String::new, |value| format!("{peer}: {value:.4}")),
    );
    let held = claim.is_none_or(|claim| {
        fastest < claim.3 && memory < MOST_MEMORY && of_peer.is_none_or(|theirs| ours >= theirs)
    });
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Bytes that this process held at most.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
