// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forecasts the effect of an order on a linked program: hot pages and TLB misses before and after.

use super::build::{BuiltGraph, Selection, build};
use crate::model::addresses::FunctionAddresses;
use crate::model::{self, AssumedLayout, Geometry, HOT_SHARES, forecast};
use sediment_core::callgraph::{FunctionId, Trace};
use sediment_core::error::Result;
use sediment_core::profile::{FunctionKey, Profile, SHARE_TOTAL, WeightUnit};
use std::collections::HashMap;

/// Sizes of the instruction TLB that misses are forecast for, in entries.
pub const TLB_ENTRIES: [u32; 3] = [32, 64, 128];
/// Index into [`TLB_ENTRIES`] of the size used for verdicts.
const COMMON: usize = 1;
/// Index into [`HOT_SHARES`] of the share of calls used for hot pages.
const HOT: usize = 2;
/// Smallest share of misses that an order must save.
const LEAST_GAIN: f64 = 0.05;
/// Fewest pages that an order must save in a program with few misses: a tenth of the pages of a small program with its libraries.
const LEAST_PAGES: u64 = 16;
/// Below this number of misses per touched page, nearly all misses of a program are first touches.
const FEW_MISSES: f64 = 4.0;

/// Number of calls assumed for a program in a merged profile, which has only shares: typical of the short recorded
/// programs. Otherwise first touches would have no weight.
const ASSUMED_CALLS: f64 = 1e6;

/// A program of a profile, with its libraries.
#[derive(Debug)]
pub struct ForecastProgram<'a> {
    built: &'a BuiltGraph,
    traces: &'a [&'a Trace],
    whole: BuiltGraph,
    /// By id in the whole program: the same function among the ordered ones.
    ours: Vec<Option<FunctionId>>,
    /// Number of calls per unit of weight.
    scale: f64,
}

/// Hot pages and misses in one layout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// Pages of 4 KiB that contain 99 % of the calls of the ordered functions.
    pub hot_pages: u64,
    /// Different pages that are touched.
    pub pages: u64,
    /// Misses for each of [`TLB_ENTRIES`], including first touches and the misses of code that no order moves.
    pub misses: [f64; TLB_ENTRIES.len()],
}

/// The same program before and after ordering.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrderGain {
    /// In the linker's layout.
    pub before: Outlook,
    /// In the order.
    pub after: Outlook,
}

impl Outlook {
    /// Misses with 64 entries.
    #[must_use]
    pub fn common_misses(&self) -> f64 {
        self.misses[COMMON]
    }

    /// True if another outlook has no fewer misses.
    pub(super) fn no_worse_than(&self, other: &Self) -> bool {
        self.common_misses() <= other.common_misses()
    }
}

impl OrderGain {
    /// Misses with 64 entries after, as a share of the misses before; 1 if there are none.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let [before, after] = [&self.before, &self.after].map(Outlook::common_misses);
        if before > 0.0 { after / before } else { 1.0 }
    }

    /// True if the program, as it is linked, has few misses except first touches. The misses of libraries without a
    /// profile are unknown, so the ratio is only a rough sign.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.before.common_misses() < FEW_MISSES * self.before.pages as f64
    }

    /// True if the layout after is worse: it has more misses or, if both have few misses except first touches, more
    /// pages.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        let still_fits = Self { before: self.after, after: self.after }.fits();
        match self.fits() && still_fits {
            true => self.after.pages >= self.before.pages + LEAST_PAGES,
            false => self.ratio() > 1.0 + LEAST_GAIN,
        }
    }

    /// True if the order gains too little.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let saved = self.before.pages.saturating_sub(self.after.pages);
        self.ratio() > 1.0 - LEAST_GAIN || self.fits() && saved < LEAST_PAGES
    }
}

impl<'a> ForecastProgram<'a> {
    /// The program that a graph was built of. Misses are counted over the traces, where there are any.
    ///
    /// # Errors
    /// The errors of [`build()`].
    pub fn new(profile: &Profile, built: &'a BuiltGraph, traces: &'a [&'a Trace]) -> Result<Self> {
        let whole = build(profile, &Selection::Everything)?;
        let known: HashMap<&FunctionKey, FunctionId> = built.table.names().collect();
        let ours = whole.table.keys.iter().map(|key| known.get(key).copied()).collect();
        let scale = match profile.unit {
            WeightUnit::Share => ASSUMED_CALLS / (profile.total.max(SHARE_TOTAL) as f64),
            _ => 1.0,
        };
        Ok(Self { built, traces, whole, ours, scale })
    }

    /// True if the profile has calls of the ordered functions, or there is a trace. Samples alone give no misses.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        !self.traces.is_empty() || self.built.graph.weights().iter().any(|weight| *weight > 0)
    }

    /// The program in the linker's layout; `None` if the graph was built without a binary.
    #[must_use]
    pub fn linked(&self) -> Option<AssumedLayout<'_>> {
        let addresses = &self.built.table.addresses;
        (addresses.len() == self.built.graph.len()).then_some(AssumedLayout::Linked(addresses))
    }

    /// Computes the gain of an order; `None` if the linker's layout or the calls are not known.
    #[must_use]
    pub fn gain(&self, order: &[FunctionId]) -> Option<OrderGain> {
        if !self.has_calls() {
            return None;
        }
        Some(OrderGain {
            before: self.outlook(self.linked()?),
            after: self.outlook(AssumedLayout::Packed(order)),
        })
    }

    /// Hot pages and misses in a layout.
    #[must_use]
    pub fn outlook(&self, layout: AssumedLayout<'_>) -> Outlook {
        let graph = &self.built.graph;
        let geometry = |tlb_entries| Geometry { tlb_entries, ..Geometry::default() };
        // The number of first touches does not depend on the number of entries.
        let mut pages = 0;
        let misses = if self.traces.is_empty() {
            let addresses = FunctionAddresses::of(graph, layout, Geometry::default().alignment);
            let starts: Vec<Option<u64>> =
                self.ours.iter().map(|function| function.map(|function| addresses.start(function))).collect();
            TLB_ENTRIES.map(|entries| {
                let expected = forecast::tlb(&self.whole.graph, &starts, &geometry(entries));
                pages = expected.pages;
                expected.pages as f64 + expected.misses * self.scale
            })
        } else {
            TLB_ENTRIES.map(|entries| {
                let replay = |trace: &&Trace| model::replay(trace, graph, layout, &geometry(entries));
                let counted: Vec<_> = self.traces.iter().map(replay).collect();
                pages = counted.iter().map(|replay| replay.pages).sum();
                counted.iter().map(|replay| replay.misses).sum::<u64>() as f64
            })
        };
        let hot = model::score(graph, layout, &Geometry::default()).hot_pages;
        debug_assert_eq!(HOT_SHARES[HOT], 990);
        Outlook { hot_pages: hot.needed[HOT], pages, misses }
    }
}
