// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line on what an order changes in the program as it is linked.

use crate::change;
use crate::ui::Ui;
use sediment_core::callgraph::FunctionId;
use sediment_core::plural::counted;
use sediment_order::order::Ordering;
use sediment_order::order::forecast::{Gain, Outlook, Program, TLB_ENTRIES};
use serde::Serialize;

/// Said where calls are missing.
pub(crate) const NO_FORECAST: &str = "no forecast: the profile has no call counts";

/// Prints and returns it for an order of a binary's functions; None for other orders, and where nothing was executed.
pub(super) fn print_gain(made: &Ordering, program: &Program<'_>, is_counted: bool, ui: &Ui) -> Option<Gain> {
    if made.is_best_as_linked {
        ui.note(
            "order: nothing to gain: the program starts best as it is linked; the order lists no function",
        );
        return program.gain(&[]);
    }
    if made.keeps_input_order && made.kept.is_none() {
        ui.note(
            "order: the program fits the caches: its functions keep their input order, the hot ones first",
        );
    }
    if program.linked().is_some() && !program.has_calls() {
        ui.note(NO_FORECAST);
        return None;
    }
    let order: Vec<FunctionId> = made.order.functions().collect();
    let gain = program.gain(&order).filter(|_| !made.is_estimated)?;
    ui.note(&format!("order: {}", in_words(&gain, is_counted)));
    Some(gain)
}

/// Hot pages and misses now and after, and whether that is worth while.
pub(crate) fn in_words(gain: &Gain, is_counted: bool) -> String {
    let (before, after) = (gain.before.hot_pages, gain.after.hot_pages);
    let how = if is_counted { "iTLB misses in the trace" } else { "estimated iTLB misses" };
    let nothing = if gain.is_nothing() { ": nothing to gain in iTLB misses" } else { "" };
    let hot = format!("hot code (99 % of the calls): {} now, {after} after", counted(before, "page"));
    // First touches are most of the misses then, and those of libraries without a profile are not known.
    if gain.fits() && !is_counted {
        let rest = if gain.is_nothing() { nothing } else { ", so misses are not forecast" };
        return format!("{hot}; it fits the TLB{rest}");
    }
    format!("{hot}; {how} {}{nothing}", change::in_percent(gain.ratio(), 0))
}

/// Effect of an order on the program as it is linked.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct GainOutput {
    now: OutlookOutput,
    after: OutlookOutput,
    /// Change of the misses with 64 entries, in per cent.
    itlb_misses_change_percent: f64,
    nothing_to_gain: bool,
}

/// Pages and misses of a layout.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OutlookOutput {
    /// Pages of 4 KiB that hold 99 % of the calls.
    hot_pages: u64,
    /// Pages of 4 KiB that are touched.
    pages: u64,
    itlb_misses: Vec<TlbMissesOutput>,
}

/// Misses of an instruction TLB.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TlbMissesOutput {
    /// Entries of 4 KiB.
    entries: u32,
    misses: f64,
}

impl TlbMissesOutput {
    /// Misses at each of [`TLB_ENTRIES`].
    pub(crate) fn of_sizes(misses: [f64; TLB_ENTRIES.len()]) -> Vec<Self> {
        TLB_ENTRIES.into_iter().zip(misses).map(|(entries, misses)| Self { entries, misses }).collect()
    }
}

impl GainOutput {
    pub(crate) fn new(gain: &Gain) -> Self {
        let outlook = |outlook: &Outlook| OutlookOutput {
            hot_pages: outlook.hot_pages,
            pages: outlook.pages,
            itlb_misses: TlbMissesOutput::of_sizes(outlook.misses),
        };
        Self {
            now: outlook(&gain.before),
            after: outlook(&gain.after),
            itlb_misses_change_percent: 100.0 * (gain.ratio() - 1.0),
            nothing_to_gain: gain.is_nothing(),
        }
    }
}
