// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ALGORITHMS`] compute an order from a call graph. They are pure: no names, no files, no ELF, no clock; ids break
//! the last ties.
//!
//! To add an algorithm: one file here, one row in [`ALGORITHMS`], a page in docs/background/algorithms.md.

pub mod affinity;
mod balanced_partitioning;
mod baseline;
mod c3;
pub mod cdsort;
mod chains;
mod first_use;
mod hfsort_plus;
mod original;
mod pettis_hansen;
mod starts;

use sediment_core::callgraph::{CallGraph, FunctionId, GroupKind, Order, OrderGroup};

/// One way to order the functions of a call graph.
#[derive(Debug, Clone, Copy)]
pub struct Algorithm {
    /// The name the user chooses it by.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Input that it needs. Without it, the order stays as given.
    pub input: AlgorithmInput,
    /// Orders all functions of the graph: a permutation of its ids.
    pub run: fn(&CallGraph, &AlgorithmOptions<'_>) -> Vec<FunctionId>,
}

/// The remaining looks of [`AlgorithmOptions::most_looks`].
#[derive(Debug, Clone, Copy)]
struct Looks(u64);

impl Looks {
    /// Cost of a look at neighbours kept in maps, relative to a look at neighbours in lists.
    const THROUGH_MAPS: usize = 32;

    fn of(options: &AlgorithmOptions<'_>) -> Self {
        Self(options.most_looks.unwrap_or(u64::MAX))
    }

    fn take(&mut self, count: usize) {
        self.0 = self.0.saturating_sub(count as u64);
    }

    fn are_used_up(self) -> bool {
        self.0 == 0
    }
}

/// Input that an algorithm orders by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlgorithmInput {
    /// The call graph.
    Calls,
    /// [`AlgorithmOptions::starts`], and [`AlgorithmOptions::code_shingles`] for functions in none of them.
    Starts,
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Parameters of algorithms, and further inputs; each algorithm uses those that it needs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AlgorithmOptions<'a> {
    /// Seed of the algorithms that draw random numbers.
    pub seed: u64,
    /// Limit of the neighbours of merged chains that CDSort, hfsort+ and Pettis-Hansen look at before they save work:
    /// CDSort then remembers few neighbours of a chain; the other two stop. A look of the other two takes longer, and
    /// counts as 32 looks of CDSort. Without a limit, a function with very many callers would be looked at, with all of
    /// them, at each merge of its chain. None: no limit.
    pub most_looks: Option<u64>,
    /// Parameters of CDSort.
    pub cdsort: cdsort::CdsortParameters,
    /// Recorded starts, each with its functions in the order of their first use. Repeated ids, and ids that the graph
    /// lacks, are ignored.
    pub starts: &'a [Vec<FunctionId>],
    /// By function: numbers for pieces of its bytes, each once; equal pieces have equal numbers. Empty if they are
    /// unknown, or must not be used.
    pub code_shingles: &'a [Vec<u64>],
}

/// Cache-directed sort, as in lld.
pub const CDSORT: &Algorithm = &by_calls(
    "cdsort",
    "cache-directed sort: short calls first, few hot pages next (as in lld)",
    cdsort::order,
);
/// Call-chain clustering.
pub const C3: &Algorithm = &by_calls("c3", "call-chain clustering (CGO 2017)", c3::order);
/// Chains by misses saved in a small cache of pages.
pub(crate) const HFSORT_PLUS: &Algorithm = &by_calls(
    "hfsort+",
    "chains by misses saved in a small cache of pages (before CDSort)",
    hfsort_plus::order,
);
/// Closest pair first, by Pettis and Hansen.
pub(crate) const PETTIS_HANSEN: &Algorithm =
    &by_calls("pettis-hansen", "closest pair first, in both directions (PLDI 1990)", pettis_hansen::order);

/// Recursive bisection of recorded starts.
pub const BALANCED_PARTITIONING: &Algorithm = &by_starts(
    "balanced-partitioning",
    "recorded starts: recursive bisection by stage (LCTES 2023)",
    balanced_partitioning::order,
);
/// Order of the input.
pub const INPUT: &Algorithm = &by_calls("input", "input order", baseline::input);
/// Random order by a seed.
pub const RANDOM: &Algorithm = &by_calls("random", "random order by --seed", baseline::random);

/// Every algorithm there is.
pub const ALGORITHMS: &[&Algorithm] = &[
    CDSORT,
    C3,
    HFSORT_PLUS,
    PETTIS_HANSEN,
    &by_calls("original", "greedy merge of upstream sediment", original::order),
    BALANCED_PARTITIONING,
    &by_starts("first-use", "recorded starts: by first use", first_use::order),
    INPUT,
    RANDOM,
];

type AlgorithmFunction = fn(&CallGraph, &AlgorithmOptions<'_>) -> Vec<FunctionId>;

const fn by_calls(name: &'static str, summary: &'static str, run: AlgorithmFunction) -> Algorithm {
    Algorithm { name, summary, input: AlgorithmInput::Calls, run }
}

const fn by_starts(name: &'static str, summary: &'static str, run: AlgorithmFunction) -> Algorithm {
    Algorithm { name, summary, input: AlgorithmInput::Starts, run }
}

/// The algorithm of this name.
#[must_use]
pub fn algorithm(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().copied().find(|algorithm| algorithm.name == name)
}

/// Divides an order of the graph's functions into executed functions and, as [`GroupKind::Unprofiled`], functions of
/// which nothing is known but that they exist.
#[must_use]
pub fn grouped(graph: &CallGraph, functions: Vec<FunctionId>) -> Order {
    let mut executed: Vec<bool> = graph.weights().iter().map(|weight| *weight > 0).collect();
    for edge in graph.edges() {
        executed[edge.caller.index()] = true;
        executed[edge.callee.index()] = true;
    }
    let (hot, unprofiled): (Vec<_>, Vec<_>) =
        functions.into_iter().partition(|function| executed[function.index()]);
    let groups = [(GroupKind::Hot, hot), (GroupKind::Unprofiled, unprofiled)];
    Order {
        groups: groups
            .into_iter()
            .filter(|(_, functions)| !functions.is_empty())
            .map(|(kind, functions)| OrderGroup { kind, functions })
            .collect(),
    }
}
