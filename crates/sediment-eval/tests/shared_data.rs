// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that every figure in the tests of published comparisons occurs in its source, if the sources are available.

#[path = "eval/seeds.rs"]
#[allow(dead_code)] // other tests use the rest
mod seeds;

use libtest_mimic::{Arguments, Trial};
use seeds::{LTO, PERF_STAT, POSTGRESQL, WELCH};
use support::{Need, case, shared_data};

/// Checks that all of these figures occur in the file.
fn stand_in(file: &str, figures: impl Iterator<Item = &'static str>) {
    let text = std::fs::read_to_string(shared_data(file)).unwrap();
    let mut count = 0;
    for figure in figures.filter(|figure| !figure.is_empty()) {
        assert!(text.contains(figure), "{figure} is not in {file}");
        count += 1;
    }
    assert!(count > 5, "{file}: {count} figures");
}

const LTO_POST: &str = "../seeds/lto-and-inlining-50-trials.txt";
const PERF_STAT_POST: &str = "../seeds/o2-versus-os-perf-stat.txt";
const WELCH_INDEX: &str = "../seeds/always-inline-welch.txt";
const PRINCIPLES: &str = "../seeds/sediment-principles-of-operation.rst";

fn main() {
    libtest_mimic::run(&Arguments::from_args(), cases()).exit();
}

fn cases() -> Vec<Trial> {
    vec![
        case("seeds: LTO and inlining", &[Need::SharedData(LTO_POST)], || {
            stand_in(
                LTO_POST,
                LTO.iter().flat_map(|(_, mean, sigma, gain)| [*mean, *sigma, gain.unwrap_or_default()]),
            );
        }),
        case("seeds: O2 and Os", &[Need::SharedData(PERF_STAT_POST)], || {
            let counters = PERF_STAT.iter().flat_map(|(_, counters)| *counters);
            let figures = counters.flat_map(|(_, old, old_error, new, new_error)| {
                [*old, old_error.unwrap_or_default(), *new, new_error.unwrap_or_default()]
            });
            stand_in(PERF_STAT_POST, figures);
        }),
        case("seeds: always_inline", &[Need::SharedData(WELCH_INDEX)], || {
            let figures = WELCH.iter().flat_map(|(_, with, without, spread, change)| {
                let (one, other) = spread.unwrap_or_default();
                [*with, *without, one, other, *change]
            });
            stand_in(WELCH_INDEX, figures);
        }),
        case("seeds: PostgreSQL reordered", &[Need::SharedData(PRINCIPLES)], || {
            let rows = POSTGRESQL.iter().flat_map(|table| table.rows);
            stand_in(PRINCIPLES, rows.flat_map(|(_, means, changes)| means.iter().chain(*changes).copied()));
        }),
    ]
}
