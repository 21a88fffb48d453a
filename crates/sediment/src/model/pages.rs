// SPDX-License-Identifier: MIT OR Apache-2.0
//! On how many pages the hot functions lie.
//!
//! The weight of a function is spread evenly over its bytes, and pages are taken from the heaviest on. What it cannot
//! see: which bytes of a function run at all, and when.

use super::placement::Placement;

/// The shares of the weight that [`HotPages::needed`] counts pages for, in thousandths.
pub const HOT_SHARES: [u16; 4] = [500, 900, 990, 999];

/// How few pages can hold a share of the weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotPages {
    /// The page size in bytes.
    pub page: u64,
    /// Pages for each of [`HOT_SHARES`]; 0 where nothing has weight.
    pub needed: [u64; HOT_SHARES.len()],
}

/// Pages in a row of one weight each.
struct Run {
    weight: f64,
    pages: u64,
}

impl HotPages {
    pub(super) fn of(weights: &[u64], placement: &Placement, page: u64) -> Self {
        let page = page.max(1);
        let mut runs = runs(weights, placement, page);
        runs.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let total = runs.iter().map(|run| run.weight * run.pages as f64).sum();
        Self { page, needed: HOT_SHARES.map(|share| needed(&runs, total, share)) }
    }
}

/// The weights of all pages by address; whole pages inside one function are one run, so that a giant costs no memory.
fn runs(weights: &[u64], placement: &Placement, page: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut last_page = None;
    let mut add = |number: u64, weight: f64| match runs.last_mut() {
        Some(run) if last_page == Some(number) => run.weight += weight,
        _ => {
            runs.push(Run { weight, pages: 1 });
            last_page = Some(number);
        }
    };
    let mut inner = Vec::new();
    for &function in placement.order() {
        let (start, size) = (placement.start(function), placement.size(function));
        let weight = weights[function.index()] as f64;
        let end = start + size;
        let (first, last) = (start / page, end.saturating_sub(1).max(start) / page);
        if first == last {
            add(first, weight);
            continue;
        }
        let per_byte = weight / size as f64;
        add(first, per_byte * ((first + 1) * page - start) as f64);
        inner.push(Run { weight: per_byte * page as f64, pages: last - first - 1 });
        add(last, per_byte * (end - last * page) as f64);
    }
    runs.extend(inner);
    runs
}

/// How many of the heaviest pages make up the share.
fn needed(runs: &[Run], total: f64, share: u16) -> u64 {
    // Weights that add up to the share on paper may miss it by what rounding loses.
    const ROUNDING: f64 = 1.0 - 1e-9;
    let mut missing = total * f64::from(share) / 1000.0 * ROUNDING;
    let mut pages = 0;
    for run in runs {
        if missing <= 0.0 {
            break;
        }
        let taken = run.pages.min((missing / run.weight).ceil() as u64);
        missing -= run.weight * taken as f64;
        pages += taken;
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::super::{Geometry, score};
    use super::*;
    use crate::callgraph::{CallGraph, FunctionId};

    fn hot_pages(sizes: Vec<u64>, weights: Vec<u64>, order: &[u32]) -> HotPages {
        let graph = CallGraph::new(sizes, weights, Vec::new()).unwrap();
        let order: Vec<FunctionId> = order.iter().copied().map(FunctionId).collect();
        score(&graph, &order, &Geometry::default()).hot_pages
    }

    #[test]
    fn hot_functions_side_by_side_need_fewer_pages() {
        // Ten hot functions of 400 bytes, each before a cold page; or all ten on one page.
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
}
