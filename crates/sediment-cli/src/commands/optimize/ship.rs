// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which level to ship: the simplest of those that are about as good as the best.
//!
//! Processor time judges where it was measured. Elsewhere a cost is estimated of instructions and simulated misses, with the price of a
//! miss. A level has to gain a hundredth of the cost of every simpler one.

use crate::change;
use serde_json::{Value, json};

/// Fact of the state with the levels, and their names, the simplest first.
pub(super) const LEVELS: &str = "levels";
pub(super) const ORDER: &str = "order";
pub(super) const BLOCKS: &str = "blocks";
pub(super) const COUNTS: &str = "counts";
pub(super) const BOTH: &str = "both";
/// No level.
const NONE: &str = "none";

/// Share of the cost that a level has to gain.
const LEAST_GAIN: f64 = 0.01;
/// Nanoseconds of an instruction: two a cycle, at 3.3 GHz.
const INSTRUCTION: f64 = 0.15;

/// Figures of a level over all commands.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) name: String,
    /// Why it was not built.
    pub(super) why: Option<String>,
    pub(super) instructions: Option<u128>,
    pub(super) l1i: Option<u128>,
    pub(super) itlb: Option<u128>,
    /// Ratio of processor time, or of cycles where perf counts them, to that before, with its interval of 95 %; in the geometric mean
    /// over the commands.
    pub(super) cpu_time: Option<[f64; 3]>,
}

/// A level to ship.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shipped {
    pub(super) level: &'static str,
    /// Basis of the choice: `cpu-time`, `estimate`, or `nothing`.
    pub(super) by: &'static str,
    pub(super) why: String,
}

impl Figures {
    /// Figures of the sides of measured commands, and of levels that were not built. The first side is before, the second in order.
    pub(super) fn of(measured: &[Value], levels: &Value) -> Vec<Self> {
        let levels = levels.as_array().map(Vec::as_slice).unwrap_or_default();
        let name = |fact: &Value| fact["name"].as_str().unwrap_or_default().to_owned();
        let built = levels.iter().filter(|fact| fact["why"].is_null()).map(name);
        let names = ["before".to_owned(), ORDER.to_owned()].into_iter().chain(built);
        let mut all: Vec<Self> =
            names.enumerate().map(|(side, name)| Self::of_side(measured, side, name)).collect();
        for fact in levels.iter().filter(|fact| !fact["why"].is_null()) {
            let why = fact["why"].as_str().map(str::to_owned);
            all.push(Self { name: name(fact), why, ..Self::default() });
        }
        all
    }

    fn of_side(measured: &[Value], side: usize, name: String) -> Self {
        let sides: Vec<&Value> = measured.iter().map(|row| &row["sides"][side]).collect();
        let sum = |key: &str| -> Option<u128> {
            let all: Option<Vec<u128>> =
                sides.iter().map(|row| row["simulated"][key].as_u64().map(u128::from)).collect();
            all.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
        };
        let cpu_time = || -> Option<[f64; 3]> {
            let mut product = [1.0; 3];
            for row in &sides {
                for (at, key) in ["saved_percent", "upper_percent", "lower_percent"].iter().enumerate() {
                    product[at] *= 1.0 - row["cpu_time"][key].as_f64()? / 100.0;
                }
            }
            let count = sides.len() as f64;
            (!sides.is_empty()).then(|| product.map(|product: f64| (product.ln() / count).exp()))
        };
        Self {
            name,
            why: None,
            instructions: sum(super::measure::INSTRUCTIONS),
            l1i: sum("l1i"),
            itlb: sum("itlb"),
            cpu_time: cpu_time(),
        }
    }

    /// Estimated nanoseconds.
    fn estimate(&self) -> Option<f64> {
        let [l1i, itlb] = [super::verdict::nanoseconds("l1i"), super::verdict::nanoseconds("itlb")];
        Some(self.instructions? as f64 * INSTRUCTION + self.l1i? as f64 * l1i + self.itlb? as f64 * itlb)
    }

    /// Changes against another, for people.
    pub(super) fn in_words(&self, before: &Self) -> String {
        if let Some(why) = &self.why {
            return format!("not compared: {why}");
        }
        let mut parts = Vec::new();
        if let Some(interval) = self.cpu_time {
            let [ratio, lower, upper] = interval.map(|ratio| change::in_percent(ratio, 1));
            parts.push(format!("{ratio} CPU time (95 %: {lower} to {upper})"));
        }
        let counts = [
            ("instructions", self.instructions, before.instructions),
            ("L1I misses", self.l1i, before.l1i),
            ("iTLB misses", self.itlb, before.itlb),
        ];
        for (name, now, then) in counts {
            if let (Some(now), Some(then @ 1..)) = (now, then) {
                parts.push(format!("{} {name}", change::in_percent(now as f64 / then as f64, 1)));
            }
        }
        parts.join(", ")
    }

    pub(super) fn json(&self) -> Value {
        let spread = |spread: Option<[f64; 3]>| {
            spread.map(|[ratio, lower, upper]| json!({ "ratio": ratio, "lower": lower, "upper": upper }))
        };
        json!({
            "name": self.name, "not_compared": self.why, "instructions": self.instructions.map(|count| count as u64),
            "l1i_misses": self.l1i.map(|count| count as u64), "itlb_misses": self.itlb.map(|count| count as u64),
            "cpu_time": spread(self.cpu_time),
        })
    }
}

impl Shipped {
    pub(super) fn json(&self) -> Value {
        json!({ "level": self.level, "by": self.by, "why": self.why })
    }

    /// The decision, for people.
    pub(super) fn in_words(&self) -> String {
        let what = match self.level {
            NONE => "not for this program",
            level => level,
        };
        format!("{what}: {}", self.why)
    }

    /// The level, if one gains.
    pub(super) fn level(&self) -> Option<&'static str> {
        (self.level != NONE).then_some(self.level)
    }
}

/// The level to ship of these, of which the first is the build before.
pub(super) fn shipped(all: &[Figures]) -> Shipped {
    let Some((before, levels)) = all.split_first() else {
        return Shipped { level: NONE, by: "nothing", why: "nothing was measured".to_owned() };
    };
    let by_time = levels.iter().any(|level| level.cpu_time.is_some());
    // The cost of each as a share of that before; one whose interval reaches 1 gains nothing.
    let cost = |level: &Figures| -> Option<f64> {
        if by_time {
            return level.cpu_time.map(|[ratio, _, upper]| if upper < 1.0 { ratio } else { ratio.max(1.0) });
        }
        Some(level.estimate()? / before.estimate()?)
    };
    let by = if by_time { "cpu-time" } else { "estimate" };
    let decide = "decide with sediment eval";
    let (mut best, mut least, mut known) = (None, 1.0, false);
    for name in [ORDER, BLOCKS, COUNTS, BOTH] {
        let Some(level) = levels.iter().find(|level| level.name == name) else { continue };
        let Some(cost) = cost(level) else { continue };
        known = true;
        if cost <= least * (1.0 - LEAST_GAIN) {
            (best, least) = (Some((name, level)), cost);
        }
    }
    if !known {
        let why = format!("neither time nor misses were measured; {decide}");
        return Shipped { level: NONE, by: "nothing", why };
    }
    let Some((level, figures)) = best else {
        let why =
            format!("no level saves 1 % of the {}", if by_time { "CPU time" } else { "estimated cost" });
        return Shipped { level: NONE, by, why };
    };
    let mut why = figures.in_words(before);
    if !by_time {
        why = format!("{} estimated cost ({why})", change::in_percent(least, 1));
    }
    Shipped { level, by, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str, instructions: u128, l1i: u128, itlb: u128) -> Figures {
        Figures {
            name: name.to_owned(),
            instructions: Some(instructions),
            l1i: Some(l1i),
            itlb: Some(itlb),
            ..Figures::default()
        }
    }

    fn timed(name: &str, ratio: f64, upper: f64) -> Figures {
        Figures { cpu_time: Some([ratio, ratio - 0.01, upper]), ..level(name, 100, 0, 0) }
    }

    #[test]
    fn the_simplest_of_the_best_is_shipped() {
        let million = 1_000_000;
        let rows: &[(&str, Vec<Figures>)] = &[
            // Fewer misses; fewer instructions; both together hardly better.
            ("order", vec![level("order", 100 * million, million, million / 4)]),
            (
                "counts",
                vec![
                    level("order", 100 * million, million, million / 2),
                    level("counts", 90 * million, million, million / 4),
                    level("both", 90 * million, million * 99 / 100, million / 4),
                ],
            ),
            (
                "none",
                vec![
                    level("order", 100 * million, million, million),
                    level("counts", 101 * million, million, million),
                ],
            ),
            // A level that was not built.
            (
                "order",
                vec![
                    level("order", 90 * million, million, million),
                    Figures { name: "counts".to_owned(), why: Some("no".to_owned()), ..Figures::default() },
                ],
            ),
        ];
        for (expected, levels) in rows {
            let mut all = vec![level("before", 100 * million, million, million)];
            all.extend(levels.iter().cloned());
            assert_eq!(shipped(&all).level, *expected, "{levels:?}");
        }
    }

    /// Promise to users: where no level gains, the line says so and why.
    #[test]
    fn a_program_that_no_level_makes_faster_is_told_so() {
        let million = 1_000_000;
        let same = level("before", 100 * million, million, million);
        let none = shipped(&[same.clone(), Figures { name: "order".to_owned(), ..same }]);
        assert_eq!(none.in_words(), "not for this program: no level saves 1 % of the estimated cost");
        assert_eq!(none.level(), None);
        let none = shipped(&[timed("before", 1.0, 1.0), timed("counts", 0.999, 1.01)]);
        assert_eq!(none.in_words(), "not for this program: no level saves 1 % of the CPU time");
        assert_eq!(none.json()["level"], "none");
    }

    #[test]
    fn time_judges_if_it_was_measured() {
        let before = timed("before", 1.0, 1.0);
        let gain = [before.clone(), timed("order", 0.97, 0.98), timed("counts", 0.87, 0.88)];
        assert_eq!((shipped(&gain).level, shipped(&gain).by), ("counts", "cpu-time"));
        // Fewer instructions, more time.
        let mut loss = [before, timed("order", 0.98, 0.99), timed("counts", 1.0, 1.01)];
        loss[2].instructions = Some(50);
        assert_eq!(shipped(&loss).level, "order");
        assert_eq!(shipped(&[timed("before", 1.0, 1.0), timed("order", 0.9, 1.02)]).level(), None);
    }

    #[test]
    fn nothing_is_said_without_figures() {
        let unknown = |name: &str| Figures { name: name.to_owned(), ..Figures::default() };
        let said = shipped(&[unknown("before"), unknown("order")]);
        assert_eq!((said.level, said.by), ("none", "nothing"));
    }
}
