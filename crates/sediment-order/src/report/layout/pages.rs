// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of a layout with their calls and functions, and the steps of heat for pictures.

use super::{Layout, LayoutFunction, PAGE};
use std::collections::BTreeMap;

/// A page with code.
#[derive(Debug, Clone, Default)]
pub(super) struct CodePage {
    /// Its share of all calls.
    pub(super) share: f64,
    /// Functions that are at least partly on it, by address, as indices in the layout.
    pub(super) functions: Vec<u32>,
}

/// Pages of a layout, numbered from the first.
#[derive(Debug, Clone, Default)]
pub(super) struct CodePages {
    /// Address of the first page.
    pub(super) base: u64,
    pub(super) pages: BTreeMap<u64, CodePage>,
}

/// Largest number of pages of a function that are counted.
const MOST_PAGES: u64 = 1 << 14;

impl CodePages {
    pub(super) fn of(layout: &Layout<'_>) -> Self {
        let base = layout.functions.first().map_or(0, |function| function.address / PAGE);
        let total: f64 = layout.functions.iter().map(|function| weight(function) as f64).sum();
        let mut pages: BTreeMap<u64, CodePage> = BTreeMap::new();
        for (at, function) in layout.functions.iter().enumerate() {
            let size = function.size.clamp(1, MOST_PAGES * PAGE);
            let end = function.address.saturating_add(size);
            let per_byte = weight(function) as f64 / size as f64 / total.max(1.0);
            for number in function.address / PAGE..=(end - 1) / PAGE {
                let bytes = end.min((number + 1).saturating_mul(PAGE)) - function.address.max(number * PAGE);
                let page = pages.entry(number - base).or_default();
                page.share += per_byte * bytes as f64;
                page.functions.push(at as u32);
            }
        }
        Self { base: base * PAGE, pages }
    }

    /// Returns the pages with heat, the heaviest first.
    pub(super) fn by_heat(&self) -> Vec<(u64, &CodePage)> {
        let mut hot: Vec<(u64, &CodePage)> = self
            .pages
            .iter()
            .filter(|(_, page)| page.share > 0.0)
            .map(|(number, page)| (*number, page))
            .collect();
        hot.sort_by(|a, b| b.1.share.total_cmp(&a.1.share).then(a.0.cmp(&b.0)));
        hot
    }

    /// Number of pages, each `times` as large, that contain this share of the calls.
    pub(super) fn holding(&self, share: f64, times: u64) -> u64 {
        let mut joined: BTreeMap<u64, f64> = BTreeMap::new();
        let first = self.base / PAGE;
        for (number, page) in &self.pages {
            *joined.entry((first + number) / times.max(1)).or_default() += page.share;
        }
        let mut shares: Vec<f64> = joined.into_values().filter(|share| *share > 0.0).collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        // A sum of shares that should reach the total may miss it by rounding.
        let wanted = shares.iter().sum::<f64>() * share * (1.0 - 1e-9);
        let mut sum = 0.0;
        let reached = shares.iter().position(|share| {
            sum += share;
            sum >= wanted
        });
        reached.map_or(shares.len(), |last| last + 1) as u64
    }
}

/// Calls into a function; 0 without data.
pub(super) fn weight(function: &LayoutFunction<'_>) -> u64 {
    function.seen.map_or(0, |seen| seen.weight)
}

/// Shares of all calls at which the steps of heat begin, the hottest first, with the texts of the legend.
pub(super) const STEPS: [(f64, &str); 6] = [
    (0.1, "10 % of all calls or more"),
    (0.01, "1 to 10 %"),
    (0.001, "0.1 to 1 %"),
    (0.0001, "0.01 to 0.1 %"),
    (0.00001, "0.001 to 0.01 %"),
    (0.0, "less"),
];

/// CSS class of a share: from `h6`, the hottest, to `h1`; `c` for none.
pub(super) fn class(share: f64) -> &'static str {
    ["h6", "h5", "h4", "h3", "h2", "h1", "c"][heat_step(share)]
}

/// Colour of each step, the hottest first, then the colour for no calls; each with a text colour. They are the colours
/// of the page's light style.
pub(in crate::report) const HEAT_COLOURS: [(&str, &str); 7] = [
    ("#650e38", "#ffffff"),
    ("#b02f3d", "#ffffff"),
    ("#dc6237", "#ffffff"),
    ("#f09a45", "#1c2330"),
    ("#f8c870", "#1c2330"),
    ("#fbe6bd", "#1c2330"),
    ("#dfe4ea", "#1c2330"),
];

/// Step of a share, as an index of [`HEAT_COLOURS`].
pub(in crate::report) fn heat_step(share: f64) -> usize {
    match share > 0.0 {
        true => STEPS.iter().position(|(least, _)| share >= *least).unwrap_or(STEPS.len() - 1),
        false => STEPS.len(),
    }
}

/// Formats a share in per cent, with as many digits as necessary.
pub(in crate::report) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        p if p >= 10.0 => format!("{p:.1} %"),
        p if p >= 0.1 => format!("{p:.2} %"),
        p if p >= 0.001 => format!("{p:.4} %"),
        p if p > 0.0 => "less than 0.001 %".to_owned(),
        _ => "no calls".to_owned(),
    }
}

/// Formats a distance in a suitable unit.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b % (1 << 18) == 0 => format!("{} MiB", b as f64 / f64::from(1 << 20)),
        b if b >= 10 << 20 => format!("{:.1} MiB", b as f64 / f64::from(1 << 20)),
        b if b >= 1024 => format!("{} KiB", b / 1024),
        b => format!("{b} bytes"),
    }
}
