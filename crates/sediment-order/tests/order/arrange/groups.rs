// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of orders in groups, for start-up and steady state.

use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId, GroupKind, OrderGroup};
use sediment_order::order::{AIMS, Aim, GroupingInput, arrange};

/// Six functions: 0 and 1 call each other often, 2 and 3 ran once at the start, 4 ran once at an unknown time, and 5
/// never ran.
fn input() -> (CallGraph, Vec<Option<u64>>) {
    let edge =
        |caller, callee, weight| CallEdge { caller: FunctionId(caller), callee: FunctionId(callee), weight };
    let edges = vec![edge(0, 1, 100_000), edge(2, 3, 1), edge(3, 0, 1), edge(3, 4, 1)];
    let graph = CallGraph::new(vec![64; 6], vec![1, 100_000, 1, 1, 1, 0], edges).unwrap();
    (graph, vec![Some(3), Some(2), Some(1), Some(0), None, None])
}

fn arranged(graph: &CallGraph, first: &[Option<u64>], aim: Aim) -> Vec<(GroupKind, Vec<u32>)> {
    let sequence: Vec<FunctionId> = graph.ids().collect();
    let order = arrange(&GroupingInput { graph, first }, &sequence, aim);
    let ids = |group: OrderGroup| (group.kind, group.functions.into_iter().map(|id| id.0).collect());
    order.groups.into_iter().map(ids).collect()
}

#[test]
fn hot_first_then_by_first_use_then_the_never_seen() {
    let (graph, first) = input();
    use GroupKind::{Hot, Startup, Unprofiled, Warm};
    let both = arranged(&graph, &first, Aim::Both);
    assert_eq!(both, [(Hot, vec![1]), (Startup, vec![3, 2, 0]), (Warm, vec![4]), (Unprofiled, vec![5])]);
    let startup = arranged(&graph, &first, Aim::Startup);
    assert_eq!(startup, [(Startup, vec![3, 2, 1, 0]), (Warm, vec![4]), (Unprofiled, vec![5])]);
    let steady = arranged(&graph, &first, Aim::Steady);
    assert_eq!(steady, [(Hot, vec![0, 1, 2, 3, 4]), (Unprofiled, vec![5])]);
}

#[test]
fn unknown_first_uses_form_no_group() {
    let (graph, first) = input();
    use GroupKind::{Hot, Startup, Unprofiled};
    for (aim, _, _) in AIMS {
        let without = arranged(&graph, &[None; 6], *aim);
        assert_eq!(without, [(Hot, vec![0, 1, 2, 3, 4]), (Unprofiled, vec![5])]);
        let nothing = CallGraph::new(vec![64; 6], vec![0; 6], Vec::new()).unwrap();
        let only_first = arranged(&nothing, &first, *aim);
        assert_eq!(only_first, [(Startup, vec![3, 2, 1, 0]), (Unprofiled, vec![4, 5])]);
    }
    assert!(arranged(&CallGraph::default(), &[], Aim::Both).is_empty());
}
