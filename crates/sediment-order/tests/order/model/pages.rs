// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the number of hot pages, against results computed by hand.

use sediment_core::callgraph::{CallGraph, FunctionId};
use sediment_order::model::{Geometry, HotPages, score};

fn hot_pages(sizes: Vec<u64>, weights: Vec<u64>, order: &[u32]) -> HotPages {
    let graph = CallGraph::new(sizes, weights, Vec::new()).unwrap();
    let order: Vec<FunctionId> = order.iter().copied().map(FunctionId).collect();
    score(&graph, &order, &Geometry::default()).hot_pages
}

#[test]
fn hot_functions_side_by_side_need_fewer_pages() {
    // Ten hot functions of 400 bytes, either each before a cold page, or all on one page.
    let sizes = (0..20).map(|id| if id % 2 == 0 { 400 } else { 4096 }).collect::<Vec<u64>>();
    let weights = (0..20).map(|id| if id % 2 == 0 { 10 } else { 0 }).collect::<Vec<u64>>();
    let scattered: Vec<u32> = (0..20).collect();
    let gathered: Vec<u32> = (0..20).step_by(2).chain((1..20).step_by(2)).collect();
    assert_eq!(hot_pages(sizes.clone(), weights.clone(), &gathered).needed, [1; 4]);
    assert!(hot_pages(sizes, weights, &scattered).needed[1] >= 9);
}

#[test]
fn equal_pages_are_counted_exactly() {
    let pages = hot_pages(vec![4096; 10], vec![7; 10], &[]);
    assert_eq!(pages.needed, [5, 9, 10, 10]);
}

#[test]
fn a_giant_function_costs_no_memory() {
    let pages = hot_pages(vec![1 << 50, 64], vec![1, 999_999], &[1, 0]);
    assert_eq!(pages.needed, [1; 4]);
    let half = hot_pages(vec![1 << 50], vec![5], &[]).needed[0];
    assert!(half.abs_diff(1 << 37) < 1000, "{half}");
}

#[test]
fn nothing_weighs_nothing() {
    assert_eq!(hot_pages(vec![64; 3], vec![0; 3], &[]).needed, [0; 4]);
    assert_eq!(hot_pages(Vec::new(), Vec::new(), &[]).needed, [0; 4]);
}

#[test]
fn functions_of_size_0_weigh_on_the_page_where_they_stand() {
    assert_eq!(hot_pages(vec![0, 0, 64], vec![5, 5, 5], &[]).needed, [1; 4]);
}
