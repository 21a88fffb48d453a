// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ALGORITHMS`]: call graph in, order out. Pure: no names, no files, no ELF, no clock; ties end in an id.
//!
//! To add an algorithm: one file here, one row in [`ALGORITHMS`], a page in docs/algorithms.md.

pub mod baseline;
pub mod c3;
pub mod cdsort;
mod chains;
pub mod hfsort_plus;
pub mod original;
pub mod pettis_hansen;

use crate::graph::{CallGraph, FunctionId, Group, GroupKind, Order};

/// One way to order the functions of a call graph.
#[derive(Debug, Clone, Copy)]
pub struct Algorithm {
    /// The name the user chooses it by.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Orders all functions of the graph: a permutation of its ids.
    pub run: fn(&CallGraph, &Options) -> Vec<FunctionId>,
}

/// What a user may choose; each algorithm looks at what concerns it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Seed of the algorithms that draw random numbers.
    pub seed: u64,
}

/// Every algorithm there is; the first is the default.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "cdsort",
        summary: "cache-directed sort: short calls first, few hot pages next (as in lld)",
        run: cdsort::order,
    },
    Algorithm { name: "c3", summary: "call-chain clustering (CGO 2017)", run: c3::order },
    Algorithm {
        name: "hfsort+",
        summary: "chains by what they save of a small cache of pages (before CDSort)",
        run: hfsort_plus::order,
    },
    Algorithm {
        name: "pettis-hansen",
        summary: "the closest pair first, whoever calls (PLDI 1990)",
        run: pettis_hansen::order,
    },
    Algorithm { name: "original", summary: "the original sediment's greedy merge", run: original::order },
    Algorithm { name: "hottest", summary: "most called first", run: baseline::hottest },
    Algorithm { name: "input", summary: "as given: the order of the ids", run: baseline::input },
    Algorithm { name: "random", summary: "shuffled by --seed", run: baseline::random },
];

/// The algorithm of this name.
#[must_use]
pub fn algorithm(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}

/// Orders a graph by an algorithm, in groups as [`grouped`] makes them.
#[must_use]
pub fn place(graph: &CallGraph, algorithm: &Algorithm, options: &Options) -> Order {
    grouped(graph, (algorithm.run)(graph, options))
}

/// Parts an order of the graph's functions: those that were seen to run, and behind them as [`GroupKind::Unseen`] those of which
/// nothing more than their existence is known.
#[must_use]
pub fn grouped(graph: &CallGraph, functions: Vec<FunctionId>) -> Order {
    let mut ran: Vec<bool> = graph.weights().iter().map(|weight| *weight > 0).collect();
    for edge in graph.edges() {
        ran[edge.caller.index()] = true;
        ran[edge.callee.index()] = true;
    }
    let (hot, unseen): (Vec<_>, Vec<_>) = functions.into_iter().partition(|function| ran[function.index()]);
    let groups = [(GroupKind::Hot, hot), (GroupKind::Unseen, unseen)];
    Order {
        groups: groups
            .into_iter()
            .filter(|(_, functions)| !functions.is_empty())
            .map(|(kind, functions)| Group { kind, functions })
            .collect(),
    }
}
