// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forecast of a program's TLB misses by a profile: how much fewer another layout will have.
//!
//! **Problem.** [`super::TlbEstimate`] ranks orders. Two things make it no forecast: it knows the ordered functions alone, and takes each
//! touch to be independent of those before. So what no order moves is missing, and what runs in phases misses far too often.
//!
//! **Touches** are those of [`super::TlbEstimate`], of all functions of the profile. A function whose address is not known, such as
//! one of a library, has a page of its own.
//!
//! **Phases.** The touches of a page are a renewal process: intervals between touches are drawn from one distribution, whose mean is the inverse of
//! the page's rate. It is Weibull's with shape 1/4: many short intervals, few that are very long. Che's approximation for renewal processes then
//! needs the survival function e^-y and the share of intervals past their beginning,
//! `1 - e^-y (1 + y + y^2/2 + y^3/6)`, with y = (24 r t)^1/4. The time t that an unused entry survives solves: the shares add up to the
//! entries. (M. Garetto, E. Leonardi, V. Martina: A Unified Approach to the Performance Analysis of Caching Systems, ACM TOMPECS 1(3), 2016.)
//!
//! **First touches** miss, too. They count once for each page.
//!
//! **Source.** The shape was chosen on the programs of `scripts/prove engine`: the smaller the shape, the fewer misses; 1 gives up to 25 times as many as
//! cachegrind counts, 1/4 from a third to eight times as many. `scripts/prove predict` compares the changes that it forecasts with measured ones.

use super::addresses::FunctionAddresses;
use super::tlb::{TouchedPages, characteristic_time, exp_of_minus, page_changes};
use super::{Geometry, run_weights};
use sediment_core::callgraph::CallGraph;

/// Expected misses of an instruction TLB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TlbForecast {
    /// Different pages that are touched: first touches.
    pub pages: u64,
    /// Further misses, in the unit of the graph's weights.
    pub misses: f64,
}

/// Forecasts the misses of functions at these addresses, by id. Those without an address have a page of their own each.
#[must_use]
pub fn tlb(graph: &CallGraph, starts: &[Option<u64>], geometry: &Geometry) -> TlbForecast {
    let addresses = FunctionAddresses::partly_known(graph, starts, geometry.page.max(1));
    let pages = TouchedPages::new(&addresses, geometry.page);
    let touches = page_changes(graph, &run_weights(graph), &pages);
    let rates: Vec<f64> =
        touches.iter().filter(|touches| **touches > 0).map(|touches| *touches as f64).collect();
    TlbForecast { pages: rates.len() as u64, misses: missed(&rates, f64::from(geometry.tlb_entries.max(1))) }
}

/// Number of touches that miss, by the touches of each page.
fn missed(touches: &[f64], entries: f64) -> f64 {
    let all = touches.iter().fold(0.0, |sum, touches| sum + touches);
    if touches.len() as f64 <= entries || all <= 0.0 {
        return 0.0;
    }
    let held = |time: f64| touches.iter().fold(0.0, |sum, touches| sum + held_share(touches / all * time));
    let time = characteristic_time(entries, held);
    touches.iter().fold(0.0, |sum, touches| sum + touches * exp_of_minus(fourth_root(touches / all * time)))
}

/// The argument of the survival function after this number of mean intervals.
fn fourth_root(intervals: f64) -> f64 {
    (24.0 * intervals).sqrt().sqrt()
}

/// The probability that a page was touched within this number of mean intervals.
fn held_share(intervals: f64) -> f64 {
    let y = fourth_root(intervals);
    1.0 - exp_of_minus(y) * (1.0 + y * (1.0 + y / 2.0 * (1.0 + y / 3.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_core::callgraph::{CallEdge, FunctionId};

    /// A caller and callees of a page each, called in turn.
    fn star(callees: u32) -> CallGraph {
        let edges = (1..=callees)
            .map(|callee| CallEdge { caller: FunctionId(0), callee: FunctionId(callee), weight: 1000 })
            .collect();
        let count = callees as usize + 1;
        CallGraph::new(vec![64; count], vec![1000; count], edges).unwrap()
    }

    #[test]
    fn code_that_fits_has_first_touches_alone() {
        let graph = star(200);
        let spread: Vec<Option<u64>> = (0..201).map(|id| Some(4096 * id)).collect();
        let packed: Vec<Option<u64>> = (0..201).map(|id| Some(64 * id)).collect();
        let forecast = |starts: &[Option<u64>]| tlb(&graph, starts, &Geometry::default());
        assert_eq!(forecast(&packed), TlbForecast { pages: 4, misses: 0.0 });
        let spread = forecast(&spread);
        assert_eq!(spread.pages, 201);
        assert!(spread.misses > 1000.0 && spread.misses < 400_000.0, "{spread:?}");
        // Unknown addresses are pages of their own.
        assert_eq!(forecast(&[None; 201]), spread);
        assert_eq!(forecast(&[]), spread);
    }

    #[test]
    fn the_share_that_is_held_is_a_distribution() {
        assert!(held_share(0.0) == 0.0 && held_share(1e9) > 0.999);
        let shares: Vec<f64> = (0..50).map(|step| held_share(f64::from(step) / 10.0)).collect();
        assert!(shares.is_sorted(), "{shares:?}");
    }
}
