// SPDX-License-Identifier: MIT OR Apache-2.0
//! The orders of C3 and CDSort against those of lld 19, function by function.

use crate::graphs::{Shape, graph};
use crate::lld::{LLD, Reference};
use crate::support::{Need, case};
use libtest_mimic::Trial;
use sediment::graph::{CallGraph, FunctionId};
use sediment::layout::{Options, algorithm};

const NEEDS: &[Need] = &[Need::Program(LLD), Need::Program("as")];

pub fn cases() -> Vec<Trial> {
    let graphs = [
        ("program", Shape::Program, 10, 20),
        ("program", Shape::Program, 300, 1_200),
        ("program", Shape::Program, 5_000, 20_000),
        ("program", Shape::Program, 20_000, 80_000),
        ("sparse", Shape::Even, 10, 8),
        ("sparse", Shape::Even, 2_000, 1_500),
        ("even", Shape::Even, 5_000, 20_000),
        ("dense", Shape::Even, 200, 20_000),
        ("hubs", Shape::Hubs, 300, 1_000),
        ("hubs", Shape::Hubs, 5_000, 20_000),
        ("ties", Shape::Ties, 20, 60),
        ("ties", Shape::Ties, 1_000, 3_000),
        ("ties", Shape::Ties, 10_000, 20_000),
    ];
    graphs
        .into_iter()
        .map(|(name, shape, functions, edges)| {
            case(&format!("layout::as_lld_{name}_{functions}_{edges}"), NEEDS, move || {
                for seed in 1..=3 {
                    compare(&graph(shape, functions, edges, seed), seed);
                }
            })
        })
        .collect()
}

fn compare(graph: &CallGraph, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let reference = Reference::assemble(graph, folder.path());
    for (ours, theirs) in [("c3", "hfsort"), ("cdsort", "cdsort")] {
        let order = (algorithm(ours).unwrap().run)(graph, &Options::default());
        let placement = reference.link(theirs);
        let differing = order.iter().zip(&placement.order).filter(|(a, b)| a != b).count();
        eprintln!("seed {seed} {ours}: {differing} of {} {} us", graph.len(), placement.sorting_microseconds);
    }
}
