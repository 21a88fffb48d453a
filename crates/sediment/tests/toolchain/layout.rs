// SPDX-License-Identifier: MIT OR Apache-2.0
//! The orders of C3 and CDSort against those of lld 19, function by function.

#![allow(clippy::unwrap_used)] // tests may fail loudly

use crate::graphs::{Shape, graph};
use crate::lld::{LLD, Reference};
use crate::support::{Need, case};
use libtest_mimic::Trial;
use sediment::graph::CallGraph;
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
                // Small graphs are cheap, and ties are where they differ first.
                let seeds = if functions <= 2_000 { 1..=5 } else { 1..=1 };
                for seed in seeds {
                    compare(&graph(shape, functions, edges, seed), seed);
                }
            })
        })
        .collect()
}

/// Both orders, every function. No difference is tolerated: our roots and squares round otherwise than lld's `pow`, but
/// of the last bits of a gain an order depends only where two gains are equal on paper and made of different sums, which
/// none of these graphs has (nor any of 1,800 further ones of these shapes).
fn compare(graph: &CallGraph, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let reference = Reference::assemble(graph, folder.path());
    for (ours, theirs) in [("c3", "hfsort"), ("cdsort", "cdsort")] {
        let order = (algorithm(ours).unwrap().run)(graph, &Options::default());
        let placement = reference.link(theirs);
        assert_ne!(placement.order, graph.ids().collect::<Vec<_>>(), "lld ordered something");
        let differing = order.iter().zip(&placement.order).filter(|(a, b)| a != b).count();
        let first = order.iter().zip(&placement.order).position(|(a, b)| a != b);
        assert_eq!(differing, 0, "{ours}, seed {seed}: places that differ, the first at {first:?}");
        assert_eq!(order.len(), placement.order.len());
    }
}
