// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbour clustering: functions that start-ups use shortly after each other lie next to each other.
//!
//! **Problem.** Place what several recorded starts need at about the same time together, also where none of them is the rule.
//!
//! **Definitions.** A start is the sequence of functions that one run used, each at its first use. The gap from u to
//! v in a start is the position of v less that of u, if they are at most 19 apart. The sum of their gaps over all
//! starts decides which of the two comes first: where it is negative, v. Their distance is that sum without its sign,
//! and 1000 more for each start that has no gap of them.
//!
//! **Steps.**
//! 1. Each function is a chain.
//! 2. Take the pairs of functions with a gap in some start by rising distance. If they are in different chains, put the chain of
//!    the second behind the chain of the first.
//! 3. Chains by how many functions they have, the longest first; then functions that no start used, by id.
//!
//! O(19 · l · log l) for starts of l functions in all.
//!
//! **Ties.** Equal distances: the pair whose functions have the lower times (see [`super::first_use`]), then the lower ids. A sum
//! of 0: the lower time in front. Chains of one length: the lower time of their first functions.
//!
//! **Source.** Chromium's order files for Android, made from the first uses of functions in many processes.
//!
//! **Where it differs.** There, what a missing gap adds counts for the direction, too, and a pair that is taken the other way round keeps
//! its negative distance, which lets it pass before all others; ties are left to the order of a hash table; and the mean is taken
//! where here it is the sum. There is no program to compare with here.

use super::chains::Chains;
use super::{Options, starts};
use crate::model::addresses::clamp_sizes;
use sediment_core::callgraph::{CallGraph, FunctionId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The furthest that two functions of a start may be apart to have a gap, plus one.
const WINDOW: usize = 20;
/// Value of a gap where a start has none.
const FAR: i64 = 1000;

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, options: &Options<'_>) -> Vec<FunctionId> {
    let times = starts::times(graph.len(), options.starts);
    let time = |function: FunctionId| (times[function.index()], function);
    let recorded = starts::distinct(graph.len(), options.starts);
    let mut pairs: Vec<(i64, FunctionId, FunctionId)> = gaps(&recorded)
        .into_iter()
        .map(|((low, high), (sum, starts))| {
            let distance = sum.abs() + FAR * (recorded.len() as i64 - starts);
            let turned = sum < 0 || sum == 0 && time(high) < time(low);
            if turned { (distance, high, low) } else { (distance, low, high) }
        })
        .collect();
    pairs.sort_unstable_by_key(|&(distance, front, back)| (distance, time(front), time(back)));

    let mut chains = Chains::singletons(&clamp_sizes(graph.sizes()), &vec![0; graph.len()]);
    for (_, front, back) in pairs {
        let (front, back) = (chains.chain_of(front), chains.chain_of(back));
        if front != back {
            chains.join(front, back);
        }
    }
    let mut ranked: Vec<_> = chains.ids().collect();
    ranked.sort_by_key(|&chain| {
        let (time, first) = time(chains.first(chain));
        (time == starts::NEVER, Reverse(chains.length(chain)), time, first)
    });
    ranked.into_iter().flat_map(|chain| chains.functions(chain).collect::<Vec<_>>()).collect()
}

/// By (lower, higher) id: the sum of the gaps from the lower to the higher, and in how many starts they have one.
fn gaps(recorded: &[Vec<FunctionId>]) -> BTreeMap<(FunctionId, FunctionId), (i64, i64)> {
    let mut gaps: BTreeMap<_, (i64, i64)> = BTreeMap::new();
    for start in recorded {
        for (place, &early) in start.iter().enumerate() {
            for (gap, &late) in (1i64..).zip(&start[place + 1..(place + WINDOW).min(start.len())]) {
                let (pair, gap) = if early < late { ((early, late), gap) } else { ((late, early), -gap) };
                let sum = gaps.entry(pair).or_default();
                *sum = (sum.0 + gap, sum.1 + 1);
            }
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(starts: &[&[u32]]) -> Vec<u32> {
        let starts: Vec<Vec<FunctionId>> =
            starts.iter().map(|start| start.iter().copied().map(FunctionId).collect()).collect();
        let graph = CallGraph::new(vec![16; 8], vec![0; 8], Vec::new()).unwrap();
        let options = Options { starts: &starts, ..Options::default() };
        order(&graph, &options).iter().map(|function| function.0).collect()
    }

    #[test]
    fn one_start_is_its_own_order() {
        assert_eq!(ids(&[&[5, 1, 6, 0, 3]]), [5, 1, 6, 0, 3, 2, 4, 7]);
        assert_eq!(ids(&[]), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn neighbours_in_all_starts_stay_together() {
        // 3 follows 1 at once in both starts, whatever else they do between 0 and 1.
        let order = ids(&[&[0, 5, 6, 1, 3], &[0, 7, 1, 3]]);
        let place = |id| order.iter().position(|other| *other == id).unwrap();
        assert_eq!(place(3), place(1) + 1, "{order:?}");
        assert_eq!(order[..1], [0]);
        assert_eq!(order[6..], [2, 4], "what no start used is last");
    }
}
