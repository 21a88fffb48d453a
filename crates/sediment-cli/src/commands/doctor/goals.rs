// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the recording method for each goal on a machine, with the reason.

use serde::Serialize;

/// Goal of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum Goal {
    /// Order of first uses, for starts.
    Starts,
    /// Calls, for the order of functions.
    Calls,
    /// Counts of blocks, for compilers.
    Blocks,
}

/// Reason for a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum MethodReason {
    /// No other method records an order.
    OnlyOrder,
    /// The processor records branches.
    BranchRecords,
    /// Call sites count every call.
    EveryCall,
    /// Valgrind counts every block of a program that it starts.
    EveryBlock,
    /// Tracing is not allowed; the processor counts cycles.
    Cycles,
    /// Tracing is not allowed; the kernel's clock triggers the samples.
    Clock,
    /// Nothing else works.
    Exact,
}

/// Goals with suitable methods, the best first. A reason that mentions cycles needs a processor that counts them.
const BEST: [(Goal, &[(&str, MethodReason)]); 3] = [
    (Goal::Starts, &[("call-sites", MethodReason::OnlyOrder)]),
    (
        Goal::Calls,
        &[
            ("perf-branches", MethodReason::BranchRecords),
            ("call-sites", MethodReason::EveryCall),
            ("perf-stacks", MethodReason::Cycles),
            ("perf-stacks", MethodReason::Clock),
            ("valgrind", MethodReason::Exact),
        ],
    ),
    (
        Goal::Blocks,
        &[
            ("perf-branches", MethodReason::BranchRecords),
            ("valgrind", MethodReason::EveryBlock),
            ("perf-stacks", MethodReason::Cycles),
            ("perf-stacks", MethodReason::Clock),
        ],
    ),
];

/// Method for a goal; `None` if no suitable method works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GoalMethod {
    pub(super) goal: Goal,
    pub(super) method: Option<(&'static str, MethodReason)>,
}

/// Chooses the method for each goal on a machine where these methods work; `counts_cycles`: the processor counts
/// cycles.
pub(super) fn choices(works: &[&str], counts_cycles: bool) -> Vec<GoalMethod> {
    let may = |(name, why): &&(&'static str, MethodReason)| {
        works.contains(name) && (counts_cycles || *why != MethodReason::Cycles)
    };
    BEST.iter()
        .map(|(goal, methods)| GoalMethod { goal: *goal, method: methods.iter().find(may).copied() })
        .collect()
}

impl Goal {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Starts => "starts",
            Self::Calls => "calls",
            Self::Blocks => "blocks",
        }
    }
}

impl MethodReason {
    fn in_words(self) -> &'static str {
        match self {
            Self::OnlyOrder => "no other method records the order of first uses",
            Self::BranchRecords => "the processor's branch records count at nearly full speed",
            Self::EveryCall => "it counts every call",
            Self::EveryBlock => {
                "samples missed executed blocks in tests (running processes are sampled by perf-stacks)"
            }
            Self::Cycles => {
                "call sites or valgrind do not work here, and the processor counts cycles for samples"
            }
            Self::Clock => {
                "call sites or valgrind do not work here, and the kernel's clock triggers the samples"
            }
            Self::Exact => {
                "nothing else works here; it counts every call, but runs the program about 50 times slower"
            }
        }
    }
}

impl GoalMethod {
    pub(super) fn name(&self) -> &'static str {
        self.goal.name()
    }

    /// Formats the method and its reason.
    pub(super) fn in_words(&self) -> String {
        match self.method {
            Some((method, why)) => format!("{method}: {}", why.in_words()),
            None => "no method works here".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_record::RECORDERS;

    fn chosen(works: &[&str], counts_cycles: bool) -> [Option<(&'static str, MethodReason)>; 3] {
        let choices = choices(works, counts_cycles);
        assert_eq!(choices.iter().map(GoalMethod::name).collect::<Vec<_>>(), ["starts", "calls", "blocks"]);
        [0, 1, 2].map(|index| choices[index].method)
    }

    #[test]
    fn each_goal_has_its_method() {
        let starts = Some(("call-sites", MethodReason::OnlyOrder));
        let branches = Some(("perf-branches", MethodReason::BranchRecords));
        let blocks = Some(("valgrind", MethodReason::EveryBlock));
        let all = ["perf-branches", "call-sites", "perf-stacks", "valgrind"];
        for counts_cycles in [true, false] {
            assert_eq!(chosen(&all, counts_cycles), [starts, branches, branches]);
            let calls = Some(("call-sites", MethodReason::EveryCall));
            assert_eq!(chosen(&all[1..], counts_cycles), [starts, calls, blocks]);
        }
        let stacks = |why| Some(("perf-stacks", why));
        let (cycles, clock) = (stacks(MethodReason::Cycles), stacks(MethodReason::Clock));
        assert_eq!(chosen(&["perf-stacks", "valgrind"], true), [None, cycles, blocks]);
        assert_eq!(chosen(&["perf-stacks"], false), [None, clock, clock]);
        assert_eq!(chosen(&["valgrind"], false), [None, Some(("valgrind", MethodReason::Exact)), blocks]);
        assert_eq!(chosen(&[], true), [None; 3]);
    }

    #[test]
    fn methods_of_goals_are_recorders() {
        let known = |name: &str| {
            name == "call-sites" && !cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
                || RECORDERS.iter().any(|recorder| recorder.name == name)
        };
        assert!(BEST.iter().all(|(_, methods)| methods.iter().all(|(name, _)| known(name))));
    }
}
