// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the level to ship: the simplest one that saves CPU time, unless another one saves a hundredth more.
//!
//! Only CPU time decides, with one exception: a level that executes over a hundredth more instructions is not shipped.

use super::verdict::{self, Finding, LevelVerdict, Misses};
use crate::change;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Share of CPU time that a further level must save.
const LEAST_GAIN: f64 = 0.01;
/// Largest ratio of instructions of a shipped level to those before.
const MOST_INSTRUCTIONS: f64 = 1.01;

/// Name of the level's choice in JSON if none is shipped.
const NONE: &str = "none";

/// Part of the build that a profile changes, the simplest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum LevelName {
    /// The linker orders functions
    Order,
    /// The compiler also places blocks, by their counts
    Blocks,
    /// The compiler optimises by the counters of an instrumented build, not by block counts
    Counters,
    /// Counters and counts of blocks
    Both,
}

impl LevelName {
    pub(super) const ALL: [Self; 4] = [Self::Order, Self::Blocks, Self::Counters, Self::Both];

    /// The name for the command line.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Blocks => "blocks",
            Self::Counters => "counters",
            Self::Both => "both",
        }
    }
}

/// A level that was considered for shipping.
#[derive(Debug, Clone)]
pub(super) struct TriedLevel {
    pub(super) name: LevelName,
    /// Reason why it was not built.
    pub(super) why_not: Option<String>,
    /// Folder of its outputs, and the profile that it needs.
    pub(super) folder: PathBuf,
    pub(super) profile: PathBuf,
    /// Figures of the measured commands, compared with the first build.
    pub(super) rows: Vec<Value>,
}

impl TriedLevel {
    /// A level that is not built.
    pub(super) fn not(name: LevelName, why: String) -> Self {
        Self { name, why_not: Some(why), folder: PathBuf::new(), profile: PathBuf::new(), rows: Vec::new() }
    }

    pub(super) fn is_built(&self) -> bool {
        self.why_not.is_none()
    }

    /// Returns the verdict on this level. `pages`: pages of the executed functions before and after.
    pub(super) fn verdict(&self, pages: [u64; 2]) -> (LevelVerdict, String) {
        verdict::verdict(&self.rows.iter().map(Finding::of).collect::<Vec<_>>(), pages)
    }

    /// Returns the sums of a simulated figure over the commands, before and after; None if a command was not simulated.
    pub(super) fn simulated(&self, key: &str) -> Option<[u128; 2]> {
        let sum = |side: &str| -> Option<u128> {
            self.rows.iter().map(|row| row["simulated"][key][side].as_u64().map(u128::from)).sum()
        };
        Some([sum("before")?, sum("after")?]).filter(|_| !self.rows.is_empty())
    }

    /// Returns the ratio of CPU time to that before, with its 95 % interval: the geometric mean over the judged
    /// commands.
    fn ratio(&self) -> Option<[f64; 3]> {
        let (mut sum, mut count) = ([0.0; 3], 0.0);
        for row in &self.rows {
            let percent = |key: &str| row["cpu_time"][key].as_f64();
            let keys = ["saved_percent", "upper_percent", "lower_percent"];
            let [Some(saved), Some(upper), Some(lower)] = keys.map(percent) else { continue };
            for (sum, percent) in sum.iter_mut().zip([saved, upper, lower]) {
                *sum += (1.0 - percent / 100.0).ln();
            }
            count += 1.0;
        }
        (count > 0.0).then(|| sum.map(|sum: f64| (sum / count).exp()))
    }

    /// Ratio of simulated instructions to the number before.
    fn instructions(&self) -> Option<f64> {
        let [before, after] = self.simulated(super::measure::INSTRUCTIONS)?;
        (before > 0).then(|| after as f64 / before as f64)
    }

    /// Simulated misses before and after.
    pub(super) fn misses(&self) -> Vec<Misses> {
        let of = |(key, name): (&str, &'static str)| {
            let [before, after] = self.simulated(key)?;
            Some(Misses { name, before, after })
        };
        verdict::METERS.iter().filter_map(|(key, name)| of((key, name))).collect()
    }

    /// The result in words.
    pub(super) fn in_words(&self) -> String {
        if let Some(why) = &self.why_not {
            return format!("not built: {why}");
        }
        let (verdict, why) = self.verdict([0, 0]);
        let mut parts = vec![if verdict == LevelVerdict::Gain { why } else { format!("{verdict}: {why}") }];
        let percent = |ratio| change::in_percent(ratio, 1);
        parts.extend(self.instructions().map(|ratio| format!("{} instructions", percent(ratio))));
        for misses in self.misses().iter().filter(|misses| misses.before > 0) {
            parts.push(format!(
                "{} {} misses",
                percent(misses.after as f64 / misses.before as f64),
                misses.name
            ));
        }
        parts.join(", ")
    }

    pub(super) fn json(&self) -> Value {
        let (verdict, why) = self.verdict([0, 0]);
        let verdict = self.is_built().then(|| json!({ "code": verdict.code(), "why": why }));
        let after = |key: &str| self.simulated(key).map(|[_, after]| after as u64);
        json!({
            "name": self.name.text(), "not_built": self.why_not, "verdict": verdict,
            "instructions": after(super::measure::INSTRUCTIONS), "l1i_misses": after("l1i"), "itlb_misses": after("itlb"),
            "cpu_time": self.ratio().map(|[ratio, lower, upper]| json!({ "ratio": ratio, "lower": lower, "upper": upper })),
        })
    }
}

/// The choice of the level to ship.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LevelChoice {
    pub(super) level: Option<LevelName>,
    /// Basis of the choice: `cpu-time`, or `request` for `--ship`.
    by: &'static str,
    why: String,
}

impl LevelChoice {
    pub(super) fn json(&self) -> Value {
        json!({ "level": self.level.map_or(NONE, LevelName::text), "by": self.by, "why": self.why })
    }

    /// Returns the reason why this level, or none, is shipped.
    pub(super) fn why(&self) -> &str {
        &self.why
    }
}

/// Chooses the level to ship from these, the simplest first; `asked` is the level of `--ship`.
pub(super) fn choose(levels: &[TriedLevel], asked: Option<LevelName>) -> LevelChoice {
    let by = if asked.is_some() { "request" } else { "cpu-time" };
    if let Some(level) = asked.and_then(|asked| levels.iter().find(|level| level.name == asked)) {
        let ships = Some(level.name).filter(|_| level.is_built());
        let why = if ships.is_some() { "asked for by --ship".to_owned() } else { level.in_words() };
        return LevelChoice { level: ships, by, why };
    }
    let mut best: Option<(LevelName, f64)> = None;
    let mut vetoed = None;
    for level in levels.iter().filter(|level| level.is_built()) {
        let saved = level.ratio().filter(|_| level.verdict([0, 0]).0 == LevelVerdict::Gain);
        let Some([ratio, ..]) = saved else { continue };
        if level.instructions().is_some_and(|ratio| ratio > MOST_INSTRUCTIONS) {
            vetoed = Some(level.name);
        } else if best.is_none_or(|(_, least)| ratio <= least * (1.0 - LEAST_GAIN)) {
            best = Some((level.name, ratio));
        }
    }
    let why = match (best, vetoed) {
        (Some((name, _)), _) => levels.iter().find(|level| level.name == name).map(TriedLevel::in_words),
        (None, Some(name)) => Some(format!("{} executes more than 1 % more instructions", name.text())),
        (None, None) => None,
    };
    let why = why.unwrap_or_else(|| "no level was shown to save CPU time".to_owned());
    LevelChoice { level: best.map(|(name, _)| name), by, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a level that saves this percentage of CPU time, with this many thousandths of the instructions.
    fn level(name: LevelName, saved: f64, answer: &str, instructions: u64) -> TriedLevel {
        let cpu_time = json!({
            "saved_percent": saved, "lower_percent": saved - 1.0, "upper_percent": saved + 1.0, "answer": answer, "in_words": answer,
        });
        let simulated = json!({ "instructions": { "before": 1000, "after": instructions } });
        let rows = vec![json!({ "command": "./prog", "cpu_time": cpu_time, "simulated": simulated })];
        TriedLevel { rows, why_not: None, ..TriedLevel::not(name, String::new()) }
    }

    #[test]
    fn the_simplest_of_the_best_is_shipped() {
        use LevelName::{Blocks, Both, Counters, Order};
        let saves = |name, saved| level(name, saved, "saves", 1000);
        let rows = [
            (vec![saves(Order, 3.0), saves(Blocks, 3.5)], Some(Order)),
            (vec![saves(Order, 3.0), saves(Blocks, 4.5), saves(Counters, 5.0)], Some(Blocks)),
            (
                vec![level(Order, 0.1, "nothing-to-gain", 1000), saves(Counters, 6.0), saves(Both, 7.5)],
                Some(Both),
            ),
            (vec![level(Order, 4.0, "unknown", 1000)], None),
            (vec![level(Order, -4.0, "costs", 1000), TriedLevel::not(Blocks, "no".to_owned())], None),
            (vec![level(Counters, 6.0, "saves", 1011)], None),
            (Vec::new(), None),
        ];
        for (levels, expected) in rows {
            assert_eq!(choose(&levels, None).level, expected, "{levels:?}");
        }
    }

    #[test]
    fn a_level_that_is_asked_for_is_shipped_if_it_was_built() {
        let levels = [
            level(LevelName::Order, -4.0, "costs", 1000),
            TriedLevel::not(LevelName::Blocks, "no plugin".to_owned()),
        ];
        assert_eq!(choose(&levels, Some(LevelName::Order)).level, Some(LevelName::Order));
        let not = choose(&levels, Some(LevelName::Blocks));
        assert_eq!((not.level, not.why()), (None, "not built: no plugin"));
    }
}
