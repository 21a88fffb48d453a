// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts a program's TLB misses from a profile, to compare them with another layout's.
//!
//! **Problem.** [`super::TlbEstimate`] ranks orders. It is not a forecast for two reasons: it contains only the ordered
//! functions, and it assumes that touches are independent. So the misses of code that no order moves are not included,
//! and the misses of code that runs in phases are far too many.
//!
//! **Touches** are as in [`super::TlbEstimate`], for all functions of the profile. A function without a known address,
//! such as a library function, has a page of its own.
//!
//! **Phases.** The touches of a page are a renewal process: the intervals between touches are drawn from one
//! distribution, whose mean is the inverse of the page's rate. It is a Weibull distribution with shape 1/4, which has
//! many short intervals and a few very long ones. Che's approximation for renewal processes then needs the survival
//! function e^-y, and the share of elapsed intervals, `1 - e^-y (1 + y + y^2/2 + y^3/6)`, with y = (24 r t)^1/4. The
//! time t for which an unused entry survives is the solution of: the shares of all pages add up to the number of
//! entries. (M. Garetto, E. Leonardi, V. Martina: A Unified Approach to the Performance Analysis of Caching Systems,
//! ACM TOMPECS 1(3), 2016.)
//!
//! **First touches** also miss. They count once for each page.
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
    /// Number of different touched pages, which is the number of first touches.
    pub pages: u64,
    /// Further misses, in the unit of the graph's weights.
    pub misses: f64,
}

/// Predicts the misses for functions at these addresses, by id. Each function without an address has a page of its own.
#[must_use]
pub fn tlb(graph: &CallGraph, starts: &[Option<u64>], geometry: &Geometry) -> TlbForecast {
    let addresses = FunctionAddresses::partly_known(graph, starts, geometry.page.max(1));
    let pages = TouchedPages::new(&addresses, geometry.page);
    let touches = page_changes(graph, &run_weights(graph), &pages);
    let rates: Vec<f64> =
        touches.iter().filter(|touches| **touches > 0).map(|touches| *touches as f64).collect();
    TlbForecast { pages: rates.len() as u64, misses: missed(&rates, f64::from(geometry.tlb_entries.max(1))) }
}

/// Number of touches that miss, from the touches of each page.
fn missed(touches: &[f64], entries: f64) -> f64 {
    let all = touches.iter().fold(0.0, |sum, touches| sum + touches);
    if touches.len() as f64 <= entries || all <= 0.0 {
        return 0.0;
    }
    let held = |time: f64| touches.iter().fold(0.0, |sum, touches| sum + held_share(touches / all * time));
    let time = characteristic_time(entries, held);
    touches.iter().fold(0.0, |sum, touches| sum + touches * exp_of_minus(fourth_root(touches / all * time)))
}

/// Argument of the survival function after this number of mean intervals.
fn fourth_root(intervals: f64) -> f64 {
    (24.0 * intervals).sqrt().sqrt()
}

/// Probability that a page was touched within this number of mean intervals.
fn held_share(intervals: f64) -> f64 {
    let y = fourth_root(intervals);
    1.0 - exp_of_minus(y) * (1.0 + y * (1.0 + y / 2.0 * (1.0 + y / 3.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_core::callgraph::{CallEdge, FunctionId};

    /// A caller and callees with one page each; the callees are called in turn.
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
        // Each unknown address is a page of its own.
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
