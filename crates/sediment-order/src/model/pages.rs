// SPDX-License-Identifier: MIT OR Apache-2.0
//! Number of pages with the hot functions.
//!
//! The weight of a function is spread evenly over its bytes, and the heaviest pages are counted. The model does not
//! include which bytes of a function run, and when.

use super::addresses::FunctionAddresses;

/// Shares of the weight for which [`HotPages::needed`] counts pages, in thousandths.
pub const HOT_SHARES: [u16; 4] = [500, 900, 990, 999];

/// Number of pages that contain a share of the weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotPages {
    /// Page size in bytes.
    pub page: u64,
    /// Number of pages for each of [`HOT_SHARES`]; 0 without weight.
    pub needed: [u64; HOT_SHARES.len()],
}

/// Consecutive pages of the same weight.
struct PageRun {
    weight: f64,
    pages: u64,
}

impl HotPages {
    pub(super) fn of(weights: &[u64], addresses: &FunctionAddresses, page: u64) -> Self {
        let page = page.max(1);
        let mut runs = runs(weights, addresses, page);
        runs.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let total = runs.iter().map(|run| run.weight * run.pages as f64).sum();
        Self { page, needed: HOT_SHARES.map(|share| needed(&runs, total, share)) }
    }
}

/// Weights of all pages by address; whole pages inside one function are one run, so that a huge function takes no
/// memory.
fn runs(weights: &[u64], addresses: &FunctionAddresses, page: u64) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    let mut last_page = None;
    let mut add = |number: u64, weight: f64| match runs.last_mut() {
        Some(run) if last_page == Some(number) => run.weight += weight,
        _ => {
            runs.push(PageRun { weight, pages: 1 });
            last_page = Some(number);
        }
    };
    let mut inner = Vec::new();
    for &function in addresses.order() {
        let (start, size) = (addresses.start(function), addresses.size(function));
        let weight = weights[function.index()] as f64;
        let end = start + size;
        let (first, last) = (start / page, end.saturating_sub(1).max(start) / page);
        if first == last {
            add(first, weight);
            continue;
        }
        let per_byte = weight / size as f64;
        add(first, per_byte * ((first + 1) * page - start) as f64);
        inner.push(PageRun { weight: per_byte * page as f64, pages: last - first - 1 });
        add(last, per_byte * (end - last * page) as f64);
    }
    runs.extend(inner);
    runs
}

/// Number of heaviest pages that make up the share.
fn needed(runs: &[PageRun], total: f64, share: u16) -> u64 {
    // A sum of weights that should reach the share may miss it by rounding.
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
