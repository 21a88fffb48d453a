// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares balanced partitioning with `llvm-profdata-19 order` and lld 22, on the same starts and the same bytes.
//!
//! Orders are not compared position by position. LLVM adds savings in 32-bit floating point, its library's partition
//! and selection decide the sequence of equal ones, and it skips moves at random by the Mersenne Twister. One exchange
//! more or less in the first halving changes everything after it. So the test compares the goals of both: the area
//! under the fault curve, and the compressed size of the ordered bytes.

#![allow(clippy::unwrap_used)] // tests may fail loudly

use libtest_mimic::Trial;
use sediment_core::callgraph::{CallGraph, FunctionId};
use sediment_order::model::{Geometry, start_faults};
use sediment_order::order::algorithms::{AlgorithmOptions, algorithm};
use std::io::Write as _;
use std::process::{Command, Stdio};
use support::lld::{LATER_LLD, Reference};
use support::temporal_traces::{starts, write_profile};
use support::{Need, case};

const PROFDATA: Need = Need::Program("llvm-profdata-19");

pub(crate) fn cases() -> Vec<Trial> {
    let lld = [PROFDATA, Need::FurtherReference(LATER_LLD), Need::Program("as")];
    let compression = [Need::FurtherReference(LATER_LLD), Need::Program("as"), Need::Program("gzip")];
    vec![
        case("starts::as_good_as_llvm_profdata", &[PROFDATA], as_llvm_profdata),
        case("starts::as_good_as_lld_22", &lld, as_lld),
        case("starts::compress_as_well_as_lld_22", &compression, compress_as_lld),
    ]
}

/// Makes functions of 16 bytes to a kilobyte.
fn graph(functions: u32) -> CallGraph {
    let sizes = (0..functions).map(|id| 16 + u64::from(id.wrapping_mul(2_654_435_761) >> 22)).collect();
    CallGraph::new(sizes, vec![1; functions as usize], Vec::new()).unwrap()
}

fn ours(graph: &CallGraph, starts: &[Vec<FunctionId>]) -> Vec<FunctionId> {
    let options = AlgorithmOptions { starts, ..AlgorithmOptions::default() };
    (algorithm("balanced-partitioning").unwrap().run)(graph, &options)
}

/// Returns the area under the fault curve, over all starts.
fn area(graph: &CallGraph, starts: &[Vec<FunctionId>], order: &[FunctionId]) -> f64 {
    let of = |start: &Vec<FunctionId>| start_faults(start, graph, order, &Geometry::default()).area;
    starts.iter().map(|start| of(start) as f64).sum()
}

/// Compares the sums over six programs; for a single one, chance decides several percent on both sides.
fn compare(theirs: impl Fn(&CallGraph, &[Vec<FunctionId>]) -> Vec<FunctionId>) {
    let (mut sums, mut unordered) = ([0.0; 2], 0.0);
    for seed in 1..=6 {
        let functions = [600, 2_000][seed as usize % 2];
        let (graph, starts) = (graph(functions), starts(functions, 10, seed));
        let orders = [ours(&graph, &starts), theirs(&graph, &starts)];
        assert_eq!(orders[1].len(), graph.len());
        for (sum, order) in sums.iter_mut().zip(&orders) {
            *sum += area(&graph, &starts, order);
        }
        unordered += area(&graph, &starts, &[]);
    }
    let ratio = sums[0] / sums[1];
    println!("area of ours to theirs {ratio:.4}; theirs to none {:.4}", sums[1] / unordered);
    assert!(sums[0] < 0.8 * unordered, "{sums:?} {unordered}");
    assert!((0.93..=1.02).contains(&ratio), "{ratio}");
}

fn as_llvm_profdata() {
    compare(|graph, starts| {
        let folder = tempfile::tempdir().unwrap();
        let profile = write_profile(graph.len() as u32, starts, folder.path());
        let output = Command::new("llvm-profdata-19").arg("order").arg(profile).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let listed: Vec<FunctionId> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .filter_map(|line| line.strip_prefix('n')?.parse().ok().map(FunctionId))
            .collect();
        // Functions that are not listed follow, as in a linker.
        let rest = graph.ids().filter(|function| !listed.contains(function));
        listed.iter().copied().chain(rest).collect()
    });
}

fn as_lld() {
    compare(|graph, starts| {
        let folder = tempfile::tempdir().unwrap();
        let profile = write_profile(graph.len() as u32, starts, folder.path());
        let profile = format!("--irpgo-profile={}", profile.display());
        // lld orders only sections with contents.
        let bodies: Vec<Vec<u8>> = graph.sizes().iter().map(|size| vec![0x90; *size as usize]).collect();
        let reference = Reference::assemble_bytes(graph, &bodies, folder.path());
        reference.link_ordered(LATER_LLD, &["--bp-startup-sort=function".into(), profile.into()]).order
    });
}

/// Makes functions that look as if a few people wrote them: each has the pattern of its kind, with bytes of its own in
/// between.
fn bodies(count: u32) -> Vec<Vec<u8>> {
    let word = |kind: u32, place: u32| (kind * 1_000 + place).wrapping_mul(2_654_435_761).to_le_bytes();
    (0..count)
        .map(|id| {
            let kind = id.wrapping_mul(2_246_822_519) >> 26;
            (0..120)
                .flat_map(
                    |place| {
                        if (id * 7 + place) % 5 == 0 { word(1_000 + id, place) } else { word(kind, place) }
                    },
                )
                .collect()
        })
        .collect()
}

fn compress_as_lld() {
    let bodies = bodies(600);
    let sizes = bodies.iter().map(|body| body.len() as u64).collect();
    let graph = CallGraph::new(sizes, vec![0; bodies.len()], Vec::new()).unwrap();
    let code_shingles: Vec<Vec<u64>> = bodies
        .iter()
        .map(|body| {
            let pieces =
                body.windows(4).map(|piece| u64::from(u32::from_le_bytes(piece.try_into().unwrap())));
            pieces.collect::<std::collections::BTreeSet<u64>>().into_iter().collect()
        })
        .collect();
    let options = AlgorithmOptions { code_shingles: &code_shingles, ..AlgorithmOptions::default() };
    let ours = (algorithm("balanced-partitioning").unwrap().run)(&graph, &options);
    let folder = tempfile::tempdir().unwrap();
    let reference = Reference::assemble_bytes(&graph, &bodies, folder.path());
    let theirs = reference.link_ordered(LATER_LLD, &["--bp-compression-sort=function".into()]).order;
    let unordered: Vec<FunctionId> = graph.ids().collect();
    let [ours, theirs, none] = [&ours, &theirs, &unordered].map(|order| {
        let bytes: Vec<u8> = order.iter().flat_map(|function| bodies[function.index()].clone()).collect();
        compressed(&bytes)
    });
    println!("bytes compressed: {ours} ours, {theirs} theirs, {none} as given");
    assert!(ours * 10 < none * 9, "{ours} {none}");
    assert!(ours * 100 <= theirs * 102, "{ours} {theirs}");
}

/// Returns the size after gzip, which looks back at most 32 KiB.
fn compressed(bytes: &[u8]) -> usize {
    let mut gzip =
        Command::new("gzip").arg("-9c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = gzip.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let output = gzip.wait_with_output().unwrap();
    writer.join().unwrap();
    output.stdout.len()
}
