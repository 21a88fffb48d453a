// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmark of the layouts: `cargo bench -p sediment-order --bench layout`.

use support::graphs;

use divan::Bencher;
use graphs::{Shape, graph};
use sediment_order::order::algorithms::{AlgorithmOptions, algorithm};

fn main() {
    divan::main();
}

/// Shape, functions and edges.
const GRAPHS: &[(Shape, u32, usize)] = &[
    (Shape::Program, 5_000, 20_000),
    (Shape::Program, 20_000, 80_000),
    (Shape::Program, 60_000, 240_000),
    (Shape::Hubs, 20_000, 80_000),
];

#[divan::bench(args = GRAPHS, sample_count = 5, sample_size = 1)]
fn c3(bencher: Bencher, graph: &(Shape, u32, usize)) {
    order(bencher, "c3", graph);
}

#[divan::bench(args = GRAPHS, sample_count = 5, sample_size = 1)]
fn cdsort(bencher: Bencher, graph: &(Shape, u32, usize)) {
    order(bencher, "cdsort", graph);
}

fn order(bencher: Bencher, name: &str, &(shape, functions, edges): &(Shape, u32, usize)) {
    let graph = graph(shape, functions, edges, 1);
    let algorithm = algorithm(name).expect("a name of the table");
    bencher.bench(|| (algorithm.run)(&graph, &AlgorithmOptions::default()));
}
