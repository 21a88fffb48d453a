// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the orders of C3 and CDSort with those of lld 19, and of lld 22 if it is installed, function by function.

#![allow(clippy::unwrap_used)] // tests may fail loudly

use libtest_mimic::Trial;
use sediment_core::callgraph::{CallGraph, FunctionId};
use sediment_order::order::algorithms::{AlgorithmOptions, algorithm, cdsort};
use support::graphs::{Shape, graph};
use support::lld::{LATER_LLD, LLD, Reference};
use support::{Need, case};

/// The linkers to compare with, and their names in the cases.
const REFERENCES: &[(&str, &str, Need)] =
    &[("lld", LLD, Need::Program(LLD)), ("lld_22", LATER_LLD, Need::FurtherReference(LATER_LLD))];

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
    let mut cases = Vec::new();
    for &(version, lld, need) in REFERENCES {
        let needs = [need, Need::Program("as")];
        cases.extend(graphs.map(|(name, shape, functions, edges)| {
            case(&format!("layout::as_{version}_{name}_{functions}_{edges}"), &needs, move || {
                // Small graphs are cheap, and show first where equal gains are decided differently.
                let seeds = if functions <= 2_000 { 1..=5 } else { 1..=1 };
                for seed in seeds {
                    compare(&graph(shape, functions, edges, seed), lld, seed);
                }
            })
        }));
        cases.push(case(&format!("layout::cdsort_set_as_{version}"), &needs, move || settings(lld)));
    }
    cases
}

/// Compares both orders in every function, and tolerates no difference. sediment's roots and squares are rounded
/// differently from lld's `pow`. But the last bits of a gain matter only if two gains are equal on paper and computed
/// by different sums. None of these graphs has such gains (nor any of 1,800 further ones of these shapes).
fn compare(graph: &CallGraph, lld: &str, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let reference = Reference::assemble(graph, folder.path());
    for (ours, theirs) in [("c3", "hfsort"), ("cdsort", "cdsort")] {
        let order = (algorithm(ours).unwrap().run)(graph, &AlgorithmOptions::default());
        let placement = reference.link_by(lld, theirs, &[]);
        assert_ne!(placement.order, graph.ids().collect::<Vec<_>>(), "{lld} ordered something");
        assert_equal(&order, &placement.order, &format!("{ours}, {lld}, seed {seed}"));
    }
}

fn assert_equal(ours: &[FunctionId], theirs: &[FunctionId], what: &str) {
    let differing = ours.iter().zip(theirs).filter(|(a, b)| a != b).count();
    let first = ours.iter().zip(theirs).position(|(a, b)| a != b);
    assert_eq!(differing, 0, "{what}: places that differ, the first at {first:?}");
    assert_eq!(ours.len(), theirs.len());
}

/// Compares CDSort with lld's, with each of its settings changed in both.
fn settings(lld: &str) {
    let standard = cdsort::CdsortParameters::default();
    let changed = [
        ("-cdsort-max-chain-size=16", cdsort::CdsortParameters { longest_chain: 16, ..standard }),
        ("-cdsort-max-chain-size=512", cdsort::CdsortParameters { longest_chain: 512, ..standard }),
        ("-cdsort-cache-entries=3", cdsort::CdsortParameters { cache_entries: 3, ..standard }),
        ("-cdsort-cache-size=65536", cdsort::CdsortParameters { cache_size: 65_536, ..standard }),
        ("-cdsort-distance-power=0.5", cdsort::CdsortParameters { distance_sixteenths: 8, ..standard }),
        ("-cdsort-distance-power=0.125", cdsort::CdsortParameters { distance_sixteenths: 2, ..standard }),
        ("-cdsort-frequency-scale=4", cdsort::CdsortParameters { frequency_scale: 4.0, ..standard }),
    ];
    for (shape, functions, edges) in [(Shape::Program, 2_000, 8_000), (Shape::Hubs, 300, 1_000)] {
        let graph = graph(shape, functions, edges, 1);
        let folder = tempfile::tempdir().unwrap();
        let reference = Reference::assemble(&graph, folder.path());
        let usual = (algorithm("cdsort").unwrap().run)(&graph, &AlgorithmOptions::default());
        for (option, settings) in changed {
            let ours = (algorithm("cdsort").unwrap().run)(
                &graph,
                &AlgorithmOptions { cdsort: settings, ..AlgorithmOptions::default() },
            );
            assert_ne!(ours, usual, "{option} changes something");
            let placement = reference.link_by(lld, "cdsort", &["-mllvm", option]);
            assert_equal(&ours, &placement.order, &format!("{option}, {shape:?}"));
        }
    }
}
