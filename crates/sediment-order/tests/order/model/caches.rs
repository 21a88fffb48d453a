// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the misses of known cores, against results computed by hand.

use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId, Trace};
use sediment_order::model::cores::{Core, Sets};
use sediment_order::model::{CoreMisses, Geometry, core_misses, core_replay, replay};

fn core(itlb: (u32, u32), l1i: (u32, u32)) -> Core {
    let sets = |(units, ways)| Sets { units, ways };
    Core { name: "", summary: "", itlb: sets(itlb), second_tlb: sets((8, 8)), l1i: sets(l1i) }
}

fn trace(steps: &[u32]) -> Trace {
    Trace { functions: steps.iter().copied().map(FunctionId).collect(), breaks: Vec::new() }
}

fn pages(count: usize) -> CallGraph {
    CallGraph::new(vec![4096; count], vec![0; count], Vec::new()).unwrap()
}

#[test]
fn pages_of_one_set_push_each_other_out() {
    // Two sets of one way each: 0 and 2 share a set, 1 is in the other.
    let narrow = core((2, 1), (512, 8));
    let misses = |steps: &[u32]| core_replay(&trace(steps), &pages(4), &[], &narrow, &Geometry::default());
    assert_eq!(misses(&[0, 1, 0, 1]).itlb, 2.0);
    let fought = misses(&[0, 2, 0, 2]);
    assert_eq!((fought.itlb, fought.walks), (4.0, 2.0), "the second level holds both");
}

#[test]
fn fully_associative_is_what_the_other_replay_counts() {
    let steps: Vec<u32> = (0..4000u32).map(|step| step.wrapping_mul(2_654_435_761) >> 27).collect();
    let graph = CallGraph::new(vec![1500; 30], vec![0; 30], Vec::new()).unwrap();
    let geometry = Geometry { tlb_entries: 4, ..Geometry::default() };
    let theirs = replay(&trace(&steps), &graph, &[], &geometry);
    let ours = core_replay(&trace(&steps), &graph, &[], &core((4, 4), (512, 8)), &geometry);
    assert_eq!(ours.itlb, theirs.misses as f64);
}

#[test]
fn execution_beyond_an_entry_touches_the_next_lines() {
    // The two functions have lines 0 to 7 and 8 to 15.
    let graph = CallGraph::new(vec![512, 512], vec![0; 2], Vec::new()).unwrap();
    let misses = |steps: &[u32], lines| {
        core_replay(&trace(steps), &graph, &[], &core((8, 8), (lines, lines)), &Geometry::default()).l1i
    };
    assert_eq!(misses(&[0], 64), 4.0);
    assert_eq!(misses(&[0, 1], 64), 8.0);
    // When 0 runs again, it continues from line 3 to line 6; the next time from line 6 to its end, where it stays. 1
    // always runs from its beginning.
    assert_eq!(misses(&[0, 1, 0], 64), 8.0 + 3.0);
    assert_eq!(misses(&[0, 1, 0, 1, 0, 1, 0], 64), 8.0 + 3.0 + 1.0);
    assert!(misses(&[0, 1, 0, 1, 0, 1, 0], 4) > 16.0, "four lines hold one of them alone");
    // Functions that are not in the graph count as 512 bytes each.
    assert_eq!(misses(&[2, 3, 2, 3, 2, 3, 2], 64), misses(&[0, 1, 0, 1, 0, 1, 0], 64));
}

#[test]
fn estimates_rank_as_counts_do() {
    // Forty pairs of half a page each, neighbours or separated.
    let edge =
        |pair: u32| CallEdge { caller: FunctionId(2 * pair), callee: FunctionId(2 * pair + 1), weight: 100 };
    let graph = CallGraph::new(vec![2048; 80], vec![100; 80], (0..40).map(edge).collect()).unwrap();
    let torn: Vec<FunctionId> = (0..80).step_by(2).chain((1..80).step_by(2)).map(FunctionId).collect();
    let small = core((16, 4), (64, 8));
    let [paired, torn] =
        [&[][..], &torn].map(|order| core_misses(&graph, order, &small, &Geometry::default()));
    assert!(paired.itlb < 0.7 * torn.itlb, "{paired:?} {torn:?}");
    assert!(paired.walks <= paired.itlb && paired.l1i > 0.0);
    assert_eq!(core_misses(&CallGraph::default(), &[], &small, &Geometry::default()), CoreMisses::default());
}
