// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ENGINES`]: the default order of each release. If the default of a release differs from the one before, it gets a
//! row here and a line in CHANGELOG.md; earlier rows must give the same orders, to the byte.
//!
//! After an update of sediment, packagers can keep the older order: `sediment order --engine N`.

use crate::order::algorithms::affinity::{self, ExpectedOrder, WeightedTrace};
use crate::order::algorithms::{AlgorithmOptions, CDSORT, cdsort};
use sediment_core::callgraph::CallGraph;

/// The default order of some releases.
#[derive(Debug, Clone, Copy)]
pub struct Engine {
    /// The number by which a user chooses it.
    pub number: u32,
    /// The first release with it.
    pub since: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// True if it uses recorded runs and first uses.
    pub knows_runs: bool,
    /// True if programs that fit the caches keep their input order ([`super::resident`]); [`super::compute`] implements
    /// this.
    pub keeps_resident: bool,
    sequence: fn(&CallGraph, &[WeightedTrace<'_>]) -> ExpectedOrder,
}

impl Engine {
    /// Returns the functions in this engine's sequence, before they are arranged in groups. Workloads are for engines
    /// that use runs.
    #[must_use]
    pub fn sequence(&self, graph: &CallGraph, workloads: &[WeightedTrace<'_>]) -> ExpectedOrder {
        (self.sequence)(graph, workloads)
    }
}

/// All engines so far; the last one is the default.
pub const ENGINES: &[Engine] = &[
    Engine {
        number: 1,
        since: "before 0.1.0",
        summary: "CDSort, then unprofiled functions",
        knows_runs: false,
        keeps_resident: false,
        sequence: first,
    },
    Engine {
        number: 2,
        since: "0.1.0",
        summary: "calls and temporal affinity, refined by traces; groups for steady state and start-up",
        knows_runs: true,
        keeps_resident: false,
        sequence: affinity::order,
    },
    Engine {
        number: 3,
        since: "0.1.0",
        summary: "as engine 2; programs that fit into the caches keep their input order, hot functions together",
        knows_runs: true,
        keeps_resident: true,
        sequence: affinity::order,
    },
];

/// The default.
pub const LATEST: &Engine = &ENGINES[ENGINES.len() - 1];

/// The default order of the release with this number.
#[must_use]
pub fn engine(number: u32) -> Option<&'static Engine> {
    ENGINES.iter().find(|engine| engine.number == number)
}

fn first(graph: &CallGraph, _: &[WeightedTrace<'_>]) -> ExpectedOrder {
    ExpectedOrder { order: cdsort::order(graph, &AlgorithmOptions::default()), start: CDSORT, cost: 1.0 }
}
