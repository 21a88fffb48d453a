// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the line on the effect of an order, compared with the current link of the program.

use crate::change;
use crate::ui::Ui;
use sediment_core::Result;
use sediment_core::callgraph::FunctionId;
use sediment_core::plural::counted;
use sediment_core::profile::source::{ProfileSource, Unknown};
use sediment_core::profile::{Profile, WeightUnit};
use sediment_measure::judge;
use sediment_order::order::forecast::{ForecastProgram, OrderGain, Outlook, TLB_ENTRIES};
use sediment_order::order::left_out::LeftOutMisses;
use sediment_order::order::{self, OrderRequest, Ordering, Selection};
use serde::Serialize;

/// Message if the profile has no calls.
pub(crate) const NO_FORECAST: &str = "no forecast: the profile has no call counts";

/// Prints and returns the gain of an order for a binary's functions; `None` for other orders, and if nothing was
/// executed.
pub(super) fn print_gain(
    made: &Ordering,
    program: &ForecastProgram<'_>,
    forecast: &Forecast<'_>,
    ui: &Ui,
) -> Option<OrderGain> {
    if made.is_best_as_linked {
        ui.note(
            "order: nothing to gain: the linker's own layout starts best, so the order lists no function",
        );
        return program.gain(&[]);
    }
    if made.keeps_input_order && made.kept.is_none() {
        ui.note(
            "order: the program fits into the caches, so functions keep their input order, with the hot ones first",
        );
    }
    if program.linked().is_some() && !program.has_calls() {
        ui.note(NO_FORECAST);
        return None;
    }
    let order: Vec<FunctionId> = made.order.functions().collect();
    let gain = program.gain(&order).filter(|_| !made.is_estimated)?;
    ui.note(&format!("order: {}", forecast.in_words(&gain)));
    if forecast.would_gain_by_trace(&gain) {
        ui.note("order: this profile has no time order; with a trace (--trace), the order often saves more misses");
    }
    Some(gain)
}

/// Basis of a forecast.
pub(crate) struct Forecast<'a> {
    pub(crate) profile: &'a Profile,
    /// True if misses are counted over a trace.
    pub(crate) is_counted: bool,
    /// Misses of held-out work.
    pub(crate) left_out: Option<LeftOutMisses>,
}

impl Forecast<'_> {
    /// True if only calls were used for the order of a program that does not fit in the TLB.
    fn would_gain_by_trace(&self, gain: &OrderGain) -> bool {
        let has_affinity = || self.profile.edges().iter().any(|(_, _, facts)| facts.affinity.is_some());
        let is_worth_it = !gain.fits() && !is_nothing(gain, worth(gain, self.profile));
        !self.is_counted && is_worth_it && !has_affinity()
    }

    /// Formats hot pages and misses before and after, the work they are for, and the largest effect on time.
    pub(crate) fn in_words(&self, gain: &OrderGain) -> String {
        let (before, after) = (gain.before.hot_pages, gain.after.hot_pages);
        let worth = worth(gain, self.profile);
        let nothing = if is_nothing(gain, worth) { ": nothing to gain in iTLB misses" } else { "" };
        let worth = worth.map_or_else(String::new, |worth| format!(", {}", judge::worth_in_words(worth)));
        let hot = format!("hot code (99 % of the calls): {} now, {after} after", counted(before, "page"));
        // In this case, first touches are most of the misses, and first touches of libraries without a profile are not
        // known.
        if gain.fits() && !self.is_counted {
            let rest = match nothing {
                "" => ", so misses are not forecast".to_owned(),
                nothing => format!("{nothing}{worth}"),
            };
            return format!("{hot}; it fits into the TLB{rest}");
        }
        let how = if self.is_counted {
            "iTLB misses in the trace"
        } else {
            "estimated iTLB misses of the recorded work"
        };
        let recorded = change::in_percent(gain.ratio(), 0);
        let other = match self.left_out.and_then(|left_out| left_out.ratio()) {
            Some(ratio) if self.is_counted => {
                format!(", in parts of the trace left out of the order {}", change::in_percent(ratio, 0))
            }
            Some(ratio) => format!(", in recordings left out of the order {}", change::in_percent(ratio, 0)),
            None if !self.is_counted && !gain.is_nothing() => {
                let [usual, least, most] = OTHER_WORK;
                format!(" (other work: usually {usual} times the forecast, {least} to {most})")
            }
            None => String::new(),
        };
        format!("{hot}; {how} {recorded}{other}{nothing}{worth}")
    }
}

/// Measured change of the misses of held-out work, divided by the forecast: median, smallest and largest value in
/// docs/proofs/held-out.md.
const OTHER_WORK: [f64; 3] = [0.9, 0.0, 1.6];

fn is_nothing(gain: &OrderGain, worth: Option<f64>) -> bool {
    gain.is_nothing() || worth.is_some_and(|worth| worth < judge::WORTH)
}

/// True if all counts are exact, and samples are instructions.
fn counts_instructions(profile: &Profile) -> bool {
    profile.unit == WeightUnit::Calls
        && !profile.source.is_empty()
        && profile.source.iter().all(|source| source.ends_with("callgrind (Ir)"))
}

/// Largest share of processor time that the saved misses can cost. If the profile has no count of instructions, its
/// calls give a lower limit of the time; then the result is `None` unless the share is below [`judge::WORTH`].
pub(crate) fn worth(gain: &OrderGain, profile: &Profile) -> Option<f64> {
    let saved = gain.before.common_misses() - gain.after.common_misses();
    let at_most = |instructions| {
        judge::worth([saved, 0.0], judge::least_seconds(instructions, gain.before.common_misses()))
    };
    if counts_instructions(profile) {
        let functions = profile.functions();
        let counts = functions.iter().filter_map(|function| profile.facts(*function).samples);
        let instructions: f64 = counts.map(|count| count as f64).sum();
        return (instructions > 0.0).then(|| at_most(instructions));
    }
    let counts_calls =
        |source: &String| !ProfileSource::from(source.as_str()).unknown.contains(&Unknown::CallCounts);
    let is_counted = profile.unit == WeightUnit::Calls && profile.source.iter().all(counts_calls);
    let limit = is_counted.then(|| at_most(profile.total as f64 * CALL_INSTRUCTIONS));
    limit.filter(|worth| *worth < judge::WORTH)
}

/// Largest share of processor time that the iTLB misses saved by the default order can cost, if it is below
/// [`judge::WORTH`].
pub(crate) fn little_worth(profile: &Profile, selection: &Selection<'_>) -> Result<Option<f64>> {
    let built = order::build(profile, selection)?;
    let made = order::compute_built(profile, built, &OrderRequest::default())?;
    let functions: Vec<FunctionId> = made.order.functions().collect();
    let gain = ForecastProgram::new(profile, &made.built, &[])?.gain(&functions);
    Ok(gain.and_then(|gain| worth(&gain, profile)).filter(|worth| *worth < judge::WORTH))
}

/// Smallest number of instructions per call: the call and the return.
const CALL_INSTRUCTIONS: f64 = 2.0;

/// Effect of an order, compared with the program's current layout.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct GainOutput {
    now: OutlookOutput,
    after: OutlookOutput,
    /// Change of the misses with 64 entries, in per cent.
    itlb_misses_change_percent: f64,
    /// The same change for held-out work: each recording, or part of a trace, is left out of the order in turn; null with one recording.
    left_out_change_percent: Option<f64>,
    /// Upper limit of the CPU time that the saved misses can save, in per cent; null if neither a count of instructions nor the number of
    /// calls limits it.
    worth_percent: Option<f64>,
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
    /// Makes the output for the misses at each of [`TLB_ENTRIES`].
    pub(crate) fn of_sizes(misses: [f64; TLB_ENTRIES.len()]) -> Vec<Self> {
        TLB_ENTRIES.into_iter().zip(misses).map(|(entries, misses)| Self { entries, misses }).collect()
    }
}

impl GainOutput {
    pub(crate) fn new(gain: &OrderGain, forecast: &Forecast<'_>) -> Self {
        let worth = worth(gain, forecast.profile);
        let left_out = forecast.left_out.and_then(|left_out| left_out.ratio());
        let outlook = |outlook: &Outlook| OutlookOutput {
            hot_pages: outlook.hot_pages,
            pages: outlook.pages,
            itlb_misses: TlbMissesOutput::of_sizes(outlook.misses),
        };
        Self {
            now: outlook(&gain.before),
            after: outlook(&gain.after),
            itlb_misses_change_percent: 100.0 * (gain.ratio() - 1.0),
            left_out_change_percent: left_out.map(|ratio| 100.0 * (ratio - 1.0)),
            worth_percent: worth.map(|worth| 100.0 * worth),
            nothing_to_gain: is_nothing(gain, worth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_limit_what_misses_are_worth() {
        let mut profile = Profile::default();
        (profile.unit, profile.total) = (WeightUnit::Calls, 10_000_000);
        let worth_of = |saved: f64, profile: &Profile| {
            let outlook = |misses| Outlook { hot_pages: 80, pages: 80, misses: [misses; TLB_ENTRIES.len()] };
            worth(&OrderGain { before: outlook(saved), after: outlook(0.0) }, profile)
        };
        // 100 misses of 30 ns each, in at least 1.5 ms.
        let few = worth_of(100.0, &profile).unwrap();
        assert!(few > 0.0019 && few < 0.0021, "{few}");
        assert_eq!(worth_of(10_000.0, &profile), None, "the calls do not tell");
        let source = [ProfileSource::new("perf call stacks", "cycles:u", &[Unknown::CallCounts]).to_string()];
        profile.source = source.into();
        assert_eq!(worth_of(100.0, &profile), None);
    }

    #[test]
    fn other_work_is_that_of_the_proof() {
        let document = include_str!("../../../../../docs/proofs/held-out.md");
        let line = document.lines().find(|line| line.starts_with("- Usual shrinkage: ")).unwrap();
        let words = line.split([' ', ';', ')', '(']).filter(|word| word.contains('.'));
        let figures: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        assert_eq!(
            figures.iter().map(|figure| (figure * 10.0).round() / 10.0).collect::<Vec<_>>(),
            OTHER_WORK
        );
    }
}
