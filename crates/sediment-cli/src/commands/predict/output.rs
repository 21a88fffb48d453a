// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of `predict`.

use super::super::order::share::PlacedOutput;
use super::PredictionRow;
use crate::commands::order::gain::{GainOutput, TlbMissesOutput};
use crate::output::Schema;
use sediment_order::model::HOT_SHARES;
use serde::Serialize;

/// Output of `predict --json`: orders with their scores.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PredictOutput {
    pub(super) schema: Schema<1>,
    /// Weight of the profile that an order places.
    pub(super) placed: PlacedOutput,
    pub(super) orders: Vec<OrderScores>,
    /// Effect of the default order, or of the first of `--order`, on the program of `--binary`; null if no forecast is possible.
    pub(super) gain: Option<GainOutput>,
}

/// Scores of an order. Distances are weighted by call counts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OrderScores {
    /// An algorithm, an ordering file, or `input`, the program's current layout.
    order: String,
    /// Share of the calls, 0 to 1.
    calls_within_64_bytes: f64,
    /// Share of the calls, 0 to 1.
    calls_within_4_kib: f64,
    /// Share of the calls, 0 to 1.
    calls_within_2_mib: f64,
    /// Mean distance.
    mean_call_bytes: f64,
    /// Mean of distance^-1/4; higher is better.
    nearness: f64,
    /// Pages of 4 KiB for 90 % of the weight.
    pages_of_90_percent: u64,
    /// Pages of 4 KiB for 99 % of the weight.
    pages_of_99_percent: u64,
    hot_pages: Vec<HotPagesOutput>,
    /// Misses of an instruction TLB: counted over the trace, otherwise estimated from calls.
    itlb_misses: Vec<TlbMissesOutput>,
    /// Misses at first touches of pages, which no order removes; null without a trace.
    first_touches: Option<u64>,
    /// Misses in other programs and libraries with 64 entries; null without a trace.
    misses_outside: Option<u64>,
    /// Misses of the processor core that `--core` names.
    core: Option<CoreMissesOutput>,
    /// Page faults at start; null without first uses.
    start: Option<StartFaultsOutput>,
}

/// Number of pages of one size that hold shares of the weight.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HotPagesOutput {
    page_bytes: u64,
    needed: Vec<PagesOfShare>,
}

/// Pages for a share of the weight.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PagesOfShare {
    percent: f64,
    pages: u64,
}

/// Misses of a processor core.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CoreMissesOutput {
    itlb_misses: f64,
    page_walks: f64,
    /// A rough estimate that does not rank orders.
    l1i_misses: f64,
}

/// Page faults at start.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StartFaultsOutput {
    /// First uses of functions.
    first_uses: u64,
    /// Touched pages of 4 KiB: faults without fault-around.
    pages: u64,
    /// Faults with fault-around of 64 KiB.
    faults_with_fault_around: u64,
    /// Pages touched so far, added up over the first uses.
    area: u64,
}

impl OrderScores {
    pub(super) fn new(row: &PredictionRow) -> Self {
        let PredictionRow { score, faults, .. } = row;
        let needed = |pages: [u64; HOT_SHARES.len()]| {
            let shares = HOT_SHARES.iter().map(|share| f64::from(*share) / 10.0);
            shares.zip(pages).map(|(percent, pages)| PagesOfShare { percent, pages }).collect()
        };
        let hot_pages = row
            .hot_pages()
            .map(|pages| HotPagesOutput { page_bytes: pages.page, needed: needed(pages.needed) });
        Self {
            order: row.name.shown(),
            calls_within_64_bytes: score.call_distance.within_64_bytes,
            calls_within_4_kib: score.call_distance.within_4_kib,
            calls_within_2_mib: score.call_distance.within_2_mib,
            mean_call_bytes: score.call_distance.mean,
            nearness: score.call_distance.nearness,
            pages_of_90_percent: score.hot_pages.needed[1],
            pages_of_99_percent: score.hot_pages.needed[2],
            hot_pages: hot_pages.into(),
            itlb_misses: TlbMissesOutput::of_sizes(row.misses),
            first_touches: row.compulsory,
            misses_outside: row.outside.map(|outside| outside[1]),
            core: row.core.map(|core| CoreMissesOutput {
                itlb_misses: core.itlb + 0.0,
                page_walks: core.walks + 0.0,
                l1i_misses: core.l1i + 0.0,
            }),
            start: faults.map(|faults| StartFaultsOutput {
                first_uses: faults.uses,
                pages: faults.pages,
                faults_with_fault_around: faults.around,
                area: faults.area,
            }),
        }
    }
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<PredictOutput>("predict");
}
