// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time of the affinity layout from a profile alone, on generated graphs of up to a million functions. Prints Markdown.
//!
//! `scripts/prove layout-speed` runs this. Each graph is measured in a separate process, because peak memory is per process.
#![allow(clippy::print_stdout)] // this program prints a table
#![allow(clippy::unwrap_used)] // a proof that cannot run must fail

use sediment_order::model::{Geometry, score};
use sediment_order::order::algorithms::affinity;
use sediment_order::order::algorithms::{self, AlgorithmOptions};
use std::process::{Command, ExitCode};
use std::time::Instant;
use support::graphs::{self, Shape, graph};

/// Shape, functions, call edges and affinity edges.
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

/// For the graphs of a claim: the limit in seconds, and the order that must not have a better score.
const CLAIMS: &[(Shape, u32, usize, f64, &str)] =
    &[(Shape::Program, 60_000, 240_000, 0.5, "cdsort"), (Shape::Program, 1_000_000, 10_000_000, 10.0, "c3")];
/// Limit of a process's memory in bytes, including its graph.
const MOST_MEMORY: u64 = 4 << 30;
/// Number of runs, by the number of calls. The fastest run counts, and long runs need fewer repetitions.
const REPEATS: [(usize, usize); 2] = [(1_000_000, 9), (usize::MAX, 3)];
/// Exit code of the process of one graph if only its time exceeds the limit.
const TOO_SLOW: u8 = 3;

fn main() -> ExitCode {
    if let Some(which) = std::env::args().nth(1) {
        let (shape, functions, calls, affinity) = GRAPHS[which.parse::<usize>().unwrap()];
        return one(shape, functions, calls, affinity);
    }
    println!(
        "| graph | functions | calls | affinity edges | order begun with | time | peak memory | nearness | of |"
    );
    println!("|---|--:|--:|--:|---|--:|--:|--:|---|");
    let mut ends = Vec::new();
    for (index, (shape, functions, calls, affinity)) in GRAPHS.iter().enumerate() {
        let this = std::env::current_exe().unwrap();
        let end = Command::new(this).arg(index.to_string()).status().unwrap().code().unwrap_or(1);
        ends.push((*shape, *functions, *calls, *affinity, end));
    }
    println!("\n## Goals of the affinity layout, and results\n");
    for (shape, functions, calls, seconds, peer) in CLAIMS {
        let graph = (*shape, *functions, *calls, 0);
        let end = ends.iter().find(|end| (end.0, end.1, end.2, end.3) == graph).map_or(1, |end| end.4);
        let [in_time, otherwise] = [end == 0, end == 0 || end == i32::from(TOO_SLOW)]
            .map(|held| if held { "held" } else { "missed" });
        println!(
            "- {shape:?} {functions} / {calls}: under {seconds} s, {in_time}; under 4 GiB and no lower nearness than {peer}'s, {otherwise}."
        );
    }
    println!(
        "\nTimes are of this machine, whose processors are shared with others; lld's own on the same graphs stand above."
    );
    let wrong = ends.iter().any(|end| end.4 != 0 && end.4 != i32::from(TOO_SLOW));
    if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn one(shape: Shape, functions: u32, calls: usize, affinity: usize) -> ExitCode {
    let mut graph = graph(shape, functions, calls, 1);
    if affinity > 0 {
        let pairs = graphs::graph(Shape::Program, functions, affinity, 2).edges().to_vec();
        graph = graph.with_affinity(pairs).unwrap();
    }
    let mut fastest = f64::INFINITY;
    let mut outcome = None;
    let repeats = REPEATS.iter().find(|(most, _)| calls < *most).map_or(1, |(_, repeats)| *repeats);
    for _ in 0..repeats {
        let start = Instant::now();
        outcome = Some(affinity::order(&graph, &[]));
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    let outcome = outcome.unwrap();
    let memory = peak_memory();
    let claim =
        CLAIMS.iter().find(|claim| (claim.0, claim.1, claim.2, 0) == (shape, functions, calls, affinity));
    let peer = claim.map_or("cdsort", |claim| claim.4);
    let by_peer =
        claim.map(|_| (algorithms::algorithm(peer).unwrap().run)(&graph, &AlgorithmOptions::default()));
    let nearness = |order: &[_]| score(&graph, order, &Geometry::default()).call_distance.nearness;
    let of_peer = by_peer.as_deref().map(nearness);
    let ours = nearness(&outcome.order);
    println!(
        "| {shape:?} | {functions} | {} | {} | {} | {fastest:.3} s | {} MB | {ours:.4} | {} |",
        graph.edges().len(),
        graph.affinity().len(),
        outcome.start.name,
        memory / 1_000_000,
        of_peer.map_or_else(String::new, |value| format!("{peer}: {value:.4}")),
    );
    match claim {
        Some(_) if memory >= MOST_MEMORY || of_peer.is_some_and(|theirs| ours < theirs) => ExitCode::FAILURE,
        Some(claim) if fastest >= claim.3 => ExitCode::from(TOO_SLOW),
        _ => ExitCode::SUCCESS,
    }
}

/// Peak memory of this process in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
