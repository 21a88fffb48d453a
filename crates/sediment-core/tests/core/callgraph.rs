// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of call graphs: which input they accept, and how edges add up.

use sediment_core::ErrorCode;
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};

fn edge(caller: u32, callee: u32, weight: u64) -> CallEdge {
    CallEdge { caller: FunctionId(caller), callee: FunctionId(callee), weight }
}

fn code_of(sizes: usize, weights: Vec<u64>, edges: Vec<CallEdge>) -> ErrorCode {
    CallGraph::new(vec![1; sizes], weights, edges).unwrap_err().code()
}

#[test]
fn edges_between_the_same_two_functions_add_up() {
    let edges =
        vec![edge(1, 0, 1), edge(0, 1, 2), edge(0, 2, 4), edge(2, 1, 8), edge(0, 1, 16), edge(1, 2, 0)];
    let graph = CallGraph::new(vec![1; 3], vec![0; 3], edges).unwrap();
    assert_eq!(graph.edges(), [edge(0, 1, 18), edge(0, 2, 4), edge(1, 0, 1), edge(2, 1, 8)]);
}

#[test]
fn damaged_tables_are_errors() {
    assert_eq!(code_of(2, vec![0; 3], Vec::new()), ErrorCode::Damaged);
    assert_eq!(code_of(2, vec![0; 2], vec![edge(2, 0, 1)]), ErrorCode::Damaged);
    assert_eq!(code_of(2, vec![0; 2], vec![edge(0, 2, 1)]), ErrorCode::Damaged);
}

#[test]
fn sums_have_a_limit() {
    let most = CallGraph::MAX_TOTAL_WEIGHT;
    let graph = CallGraph::new(vec![1; 2], vec![most - 1, 1], vec![edge(0, 1, most - 1), edge(0, 1, 1)]);
    assert_eq!(graph.unwrap().edges()[0].weight, most);
    assert_eq!(code_of(2, vec![most, 1], Vec::new()), ErrorCode::Overflow);
    assert_eq!(code_of(2, vec![0; 2], vec![edge(0, 1, most), edge(1, 0, 1)]), ErrorCode::Overflow);
    assert_eq!(code_of(2, vec![u64::MAX, 1], Vec::new()), ErrorCode::Overflow);
}
