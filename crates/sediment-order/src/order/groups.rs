// SPDX-License-Identifier: MIT OR Apache-2.0
//! Divides one sequence of functions into the groups of the final [`Order`], for start-up and steady state.
//!
//! **Problem.** A sequence by calls puts a function that runs once, when the program starts, next to its caller, which
//! may run all the time: pages of the hot block are diluted. A sequence by first use makes a program start on few
//! pages, but scatters its steady state over all of them.
//!
//! **Definitions.** A function *was executed* if the profile counts calls of it or by it, or has its first use. *Hot*
//! are the heaviest functions that together make up [`HOT_SHARE`] of all calls. The *fault curve* gives, for each
//! function in the order of first use, the number of pages that have been touched after it ran. A function touches the
//! pages of its start and its middle, as for the TLB.
//!
//! **Groups**, of [`Aim::Both`]: hot functions in the given sequence; then the other executed functions with a known
//! first use, in the order of first use; then the other executed functions; then the unprofiled ones. Hot functions
//! come first, and not in the order of first use, although most of them also run while the program starts: they fill
//! their pages in any order.
//!
//! **Ties** go to the lower id.
//!
//! **Source.** LLVM's balanced partitioning reports the area under the fault curve (`BPSectionOrderer`); GCC's
//! `-fprofile-reorder-functions` orders by first use. The groups are our own. [`HOT_SHARE`] was chosen by hand on four
//! programs, and the default of [`AIMS`] by measuring these with `scripts/prove groups`: `both` saves hardly a page of
//! the start.

use sediment_core::callgraph::{CallGraph, FunctionId, GroupKind, Order, OrderGroup};

/// The share of all calls that go to hot functions, in ten-thousandths.
pub const HOT_SHARE: u64 = 9999;

/// Goal of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aim {
    /// The steady state, and the start as far as this costs the steady state little.
    Both,
    /// The steady state only: the given sequence.
    Steady,
    /// The start only: the order of first use.
    Startup,
}

/// Every goal with its name for the user and its description. The first is the default, except for recordings of
/// starts.
pub const AIMS: &[(Aim, &str, &str)] = &[
    (Aim::Steady, "steady", "profiled functions by affinity"),
    (Aim::Both, "both", "hot functions by affinity, then the others by first use"),
    (Aim::Startup, "startup", "profiled functions by first use"),
];

/// Call graph and first uses, from which groups are made.
#[derive(Debug, Clone, Copy)]
pub struct GroupingInput<'a> {
    /// Sizes, weights and calls.
    pub graph: &'a CallGraph,
    /// Rank of first use by id; `None` if it is not known.
    pub first: &'a [Option<u64>],
}

impl GroupingInput<'_> {
    /// True if first uses and calls are both known, so that the goals differ.
    #[must_use]
    pub fn has_both(&self) -> bool {
        self.first.iter().any(Option::is_some) && self.graph.weights().iter().any(|weight| *weight > 0)
    }

    pub(super) fn rank(&self, function: FunctionId) -> Option<u64> {
        self.first.get(function.index()).copied().flatten()
    }

    /// By id: true if the function was executed.
    fn executed(&self) -> Vec<bool> {
        let mut executed: Vec<bool> = self.graph.weights().iter().map(|weight| *weight > 0).collect();
        for edge in self.graph.edges() {
            executed[edge.caller.index()] = true;
            executed[edge.callee.index()] = true;
        }
        for (executed, function) in executed.iter_mut().zip(self.graph.ids()) {
            *executed |= self.rank(function).is_some();
        }
        executed
    }

    /// By id: true if the function is hot.
    #[must_use]
    pub fn hot(&self) -> Vec<bool> {
        let weights = self.graph.weights();
        let mut heaviest: Vec<FunctionId> = self.graph.ids().collect();
        heaviest.sort_by_key(|function| (std::cmp::Reverse(weights[function.index()]), *function));
        let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        let mut hot = vec![false; weights.len()];
        let mut covered = 0u128;
        for function in heaviest {
            if covered * 10_000 >= total * u128::from(HOT_SHARE) {
                break;
            }
            covered += u128::from(weights[function.index()]);
            hot[function.index()] = true;
        }
        hot
    }
}

/// Divides a sequence of all functions into groups. Without first uses, all executed functions are one group in the
/// given sequence, whatever the goal. If only first uses are known, they alone decide.
#[must_use]
pub fn arrange(input: &GroupingInput<'_>, sequence: &[FunctionId], aim: Aim) -> Order {
    let executed = input.executed();
    let known = |function: &FunctionId| input.rank(*function).is_some();
    let knows_first = sequence.iter().any(known);
    let hot = match aim {
        _ if !knows_first => executed.clone(),
        Aim::Both => input.hot(),
        Aim::Steady if input.has_both() => executed.clone(),
        Aim::Steady | Aim::Startup => vec![false; executed.len()],
    };
    let (mut groups, mut rest) = (Vec::new(), sequence.to_vec());
    let mut take = |kind: GroupKind, wanted: &dyn Fn(&FunctionId) -> bool| {
        let (taken, left): (Vec<_>, Vec<_>) = rest.iter().copied().partition(wanted);
        rest = left;
        groups.push(OrderGroup { kind, functions: taken });
    };
    take(GroupKind::Hot, &|function| hot[function.index()]);
    take(GroupKind::Startup, &known);
    take(GroupKind::Warm, &|function| executed[function.index()]);
    take(GroupKind::Unprofiled, &|_| true);
    groups[1].functions.sort_by_key(|function| (input.rank(*function), *function));
    groups.retain(|group| !group.functions.is_empty());
    Order { groups }
}
