// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict on what was measured: a gain or not, and why. Simulated misses decide, as they are the same in every run; processor time
//! can only cast doubt on them.
//!
//! A change counts if it is of 5 % at least, and if the misses cost a thousandth of the processor time at least: with
//! some 100 cycles for a miss of the TLB and some 15 for one of the cache, at 3.3 GHz.

use crate::change;
use sediment_core::plural::grouped;
use std::fmt;

/// Share by which misses have to change.
const LEAST_CHANGE: f64 = 0.05;
/// Share of the processor time that misses have to cost.
const LEAST_COST: f64 = 0.001;
/// Pages by which the executed functions have to shrink for a faster start, where misses do not change.
const LEAST_PAGES: u64 = 16;
/// Share of the processor time by which the median of pairs has to grow to cast doubt on fewer misses.
const SLOWER: f64 = 0.02;

/// Simulated meters: key, name, and nanoseconds that a miss costs.
pub(super) const METERS: [(&str, &str, f64); 2] = [("itlb", "iTLB", 30.0), ("l1i", "L1I", 5.0)];

/// Nanoseconds that a miss of a simulated meter costs.
pub(super) fn nanoseconds(key: &str) -> f64 {
    METERS.iter().find(|(known, ..)| *known == key).map_or(0.0, |(.., nanoseconds)| *nanoseconds)
}

/// Misses of a simulated cache or TLB before and after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Misses {
    pub(super) name: &'static str,
    /// Time that a miss costs.
    pub(super) nanoseconds: f64,
    pub(super) before: u128,
    pub(super) after: u128,
}

/// Figures of a run.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) misses: Vec<Misses>,
    /// Processor time of the commands before; None where they are too short to time.
    pub(super) seconds: Option<f64>,
    /// Ratios of processor time, after to before: median and lower quartile of each command.
    pub(super) times: Vec<[f64; 2]>,
    /// Pages of the executed functions, before and after.
    pub(super) pages: [u64; 2],
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Gain,
    Nothing,
    Loss,
    Mixed,
    Unknown,
}

impl Verdict {
    /// The verdict, for programs.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Gain => "gain",
            Self::Nothing => "nothing-to-gain",
            Self::Loss => "loss",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.code().replace('-', " "))
    }
}

impl Misses {
    fn change(&self) -> f64 {
        match (self.before, self.after) {
            (0, 0) => 0.0,
            (before, after) => after as f64 / before as f64 - 1.0,
        }
    }

    /// True if a change of this many misses can be felt.
    fn matters(&self, seconds: Option<f64>) -> bool {
        let most = self.before.max(self.after) as f64 * self.nanoseconds * 1e-9;
        seconds.is_none_or(|seconds| most >= LEAST_COST * seconds)
    }

    fn in_words(&self) -> String {
        match self.before {
            0 => format!("{} {} misses instead of none", grouped(self.after), self.name),
            _ => format!("{} {} misses", change::in_percent(1.0 + self.change(), 1), self.name),
        }
    }
}

/// The verdict, and its reason.
pub(super) fn verdict(figures: &Figures) -> (Verdict, String) {
    let counted: Vec<&Misses> =
        figures.misses.iter().filter(|misses| misses.matters(figures.seconds)).collect();
    let words = |wanted: &dyn Fn(f64) -> bool| {
        let those = counted.iter().filter(|misses| wanted(misses.change())).map(|misses| misses.in_words());
        those.collect::<Vec<String>>().join(", ")
    };
    let fewer = words(&|change| change <= -LEAST_CHANGE);
    let more = words(&|change| change >= LEAST_CHANGE);
    // Other commands may judge by these.
    let few = figures.misses.iter().filter(|misses| {
        !misses.matters(figures.seconds) && misses.before > 0 && misses.change().abs() >= LEAST_CHANGE
    });
    let few: String = few.map(|misses| format!("; {} are too few to count", misses.in_words())).collect();
    let slower = figures.times.iter().find(|[median, lower]| *lower > 1.0 && *median > 1.0 + SLOWER);
    let eval = "decide with sediment eval";
    let [pages, pages_after] = figures.pages;
    let fewer_pages = pages.saturating_sub(pages_after) >= LEAST_PAGES;
    let on_pages = format!("executed functions on {pages_after} pages instead of {pages}");
    match (fewer.is_empty(), more.is_empty(), slower) {
        (false, true, Some([median, _])) => {
            (Verdict::Mixed, format!("{fewer}, but {:+.1} % CPU time; {eval}", (median - 1.0) * 100.0))
        }
        (false, true, None) => (Verdict::Gain, fewer + &few),
        (false, false, _) => (Verdict::Mixed, format!("{fewer}, but {more}; {eval}")),
        (true, false, _) => (Verdict::Loss, format!("{more}{few}; keep the program as it was")),
        (true, true, _) if figures.misses.is_empty() => {
            let saved = if fewer_pages { format!("{on_pages}, but ") } else { String::new() };
            (Verdict::Unknown, format!("{saved}misses were not simulated; {eval}"))
        }
        (true, true, Some([median, _])) if fewer_pages => {
            (Verdict::Mixed, format!("{on_pages}, but {:+.1} % CPU time; {eval}", (median - 1.0) * 100.0))
        }
        (true, true, _) if fewer_pages => (Verdict::Gain, format!("{on_pages}, for start and memory")),
        (true, true, _) => (Verdict::Nothing, nothing(figures, counted.is_empty())),
    }
}

/// Why there is nothing to gain.
fn nothing(figures: &Figures, are_few: bool) -> String {
    let misses: Vec<String> =
        figures.misses.iter().map(|misses| format!("{} {}", grouped(misses.before), misses.name)).collect();
    let misses = misses.join(" and ");
    match figures.seconds.filter(|_| are_few) {
        Some(seconds) => format!("the executed code fits TLB and cache: {misses} misses in {seconds:.2} s"),
        None => format!("before and after do not differ: {misses} misses"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(itlb: [u128; 2], l1i: [u128; 2], seconds: f64) -> Figures {
        let misses =
            |name, nanoseconds, [before, after]: [u128; 2]| Misses { name, nanoseconds, before, after };
        Figures {
            misses: vec![misses("iTLB", 30.0, itlb), misses("L1I", 5.0, l1i)],
            seconds: Some(seconds),
            times: vec![[0.99, 0.98]],
            pages: [9, 3],
        }
    }

    #[test]
    fn a_change_counts_if_it_is_large_and_costs_time() {
        let rows = [
            ([1_000_000, 100_000], [1_000_000, 1_000_000], Verdict::Gain),
            ([1_000_000, 980_000], [1_000_000, 990_000], Verdict::Nothing),
            ([80, 8], [1_262, 500], Verdict::Nothing),
            ([1_000_000, 100_000], [1_000_000, 1_200_000], Verdict::Mixed),
            ([1_000_000, 1_000_000], [1_000_000, 1_200_000], Verdict::Loss),
            ([0, 0], [0, 0], Verdict::Nothing),
        ];
        for (itlb, l1i, expected) in rows {
            assert_eq!(verdict(&figures(itlb, l1i, 1.0)).0, expected, "{itlb:?} {l1i:?}");
        }
        assert_eq!(verdict(&figures([80, 8], [1_262, 500], 0.001)).0, Verdict::Gain);
        // Misses that are too few to count are named, as another command may judge by them.
        let (is, why) = verdict(&figures([80, 8], [1_000_000, 1_200_000], 1.0));
        assert_eq!(
            (is, why.as_str()),
            (
                Verdict::Loss,
                "+20.0 % L1I misses; -90.0 % iTLB misses are too few to count; keep the program as it was"
            )
        );
    }

    #[test]
    fn processor_time_casts_doubt_and_decides_nothing() {
        let mut slower = figures([1_000_000, 100_000], [10, 10], 1.0);
        slower.times = vec![[1.05, 1.01]];
        assert_eq!(verdict(&slower).0, Verdict::Mixed);
        let faster = Figures { times: vec![[0.5, 0.4]], seconds: Some(1.0), ..Figures::default() };
        assert_eq!(verdict(&faster).0, Verdict::Unknown);
    }

    #[test]
    fn fewer_pages_make_a_faster_start() {
        let start = Figures { pages: [40, 4], ..figures([100, 99], [100, 99], 1.0) };
        assert_eq!(verdict(&start).0, Verdict::Gain);
        let slower = Figures { times: vec![[1.05, 1.01]], ..start };
        assert_eq!(verdict(&slower).0, Verdict::Mixed);
    }

    /// A loss by misses would not show.
    #[test]
    fn fewer_pages_are_no_gain_where_misses_are_unknown() {
        let start = Figures { pages: [43, 26], seconds: Some(20.0), ..Figures::default() };
        let (is, why) = verdict(&start);
        assert_eq!(is, Verdict::Unknown);
        assert_eq!(
            why,
            "executed functions on 26 pages instead of 43, but misses were not simulated; decide with sediment eval"
        );
    }
}
