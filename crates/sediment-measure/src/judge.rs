// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides if one build of a program takes less processor time than another, and by how much. The interval includes the
//! luck of layout.
//!
//! ```text
//! layouts   A1 … A5   B1 … B5       links of each build that differ by padding only (crate::padding)
//! round     B3 A1 A5 B2 … A4        each layout runs once, in random order
//! value     ln(processor time / units of work), less the mean of its round
//! layout    mean of its rounds
//! interval  Welch's, over the layouts of both builds
//! ```
//!
//! Two links of the same objects differ in speed because of the addresses that their code gets by chance (T. Mytkowicz
//! et al., "Producing Wrong Data Without Doing Anything Obviously Wrong!", ASPLOS 2009). So the sample consists of
//! layouts, not of runs: an interval over them is also valid for a link that was not measured.
//!
//! An interval is examined after 1, 2, 4, … rounds. Frequent looks that stop at the first difference find differences
//! that do not exist (P. Armitage, C. McPherson, B. Rowe, "Repeated significance tests on accumulating data", 1969).
//! Therefore a difference is accepted only if its p-value is below [`LEVEL`], and the runs end early only if it is
//! below a fifth of that. The printed interval has 95 %. The tests simulate known changes, and count how often the
//! interval and the answer are right.

use crate::statistics::distribution::student_quantile;
use crate::statistics::{Interval, Moments, welch};
use sediment_core::error::Result;
use sediment_core::random::Generator;
use std::time::Duration;

/// Confidence of the printed interval.
const CONFIDENCE: f64 = 0.95;
/// A difference counts if its p-value is below this.
pub const LEVEL: f64 = 0.005;
/// The same level if the runs could continue.
const EARLY_LEVEL: f64 = 0.001;
/// A gain below this share of the processor time does not count.
pub const NOTHING: f64 = 0.005;
/// Fewest layouts of each build.
pub const LEAST_LAYOUTS: usize = 5;
/// Chance to find a difference of the announced size.
const POWER: f64 = 0.9;
/// A tenth of a normal distribution is above this z.
const NORMAL_TENTH: f64 = 1.2816;
/// Largest number of layouts assumed when a longer measurement is suggested.
const MOST_LAYOUTS: f64 = 40.0;

/// Costs of one round, by build and layout: processor seconds or cycles per unit of work. The first build is the one
/// without the change.
pub type Round = Vec<Vec<f64>>;

/// The result of the rounds so far. Shares are relative to the processor time before: 0.04 saves 4 %, -0.04 costs 4 %
/// more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// The saved share, with its 95 % interval.
    pub saved: Interval,
    /// Two-sided p-value of no difference.
    pub p: f64,
    /// The smallest difference that as many rounds and layouts find in nine of ten measurements.
    pub detectable: f64,
    /// Standard deviations of the logarithm: between the layouts of a build, and between the runs of a layout.
    pub deviations: Deviations,
    layouts: f64,
    rounds: f64,
    freedom: f64,
}

/// Standard deviations of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviations {
    /// Between layouts of one build.
    pub layouts: f64,
    /// Between runs of one layout.
    pub runs: f64,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Processor time is saved.
    Saves,
    /// Processor time is lost.
    Costs,
    /// The saved or lost share is below [`NOTHING`].
    Nothing,
    /// None of these is shown.
    Unknown,
}

impl Answer {
    /// Its code in JSON.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Saves => "saves",
            Self::Costs => "costs",
            Self::Nothing => "nothing-to-gain",
            Self::Unknown => "unknown",
        }
    }
}

/// Judges a build against the first one. None without a round, with fewer than two layouts of a build, if the layouts
/// of rounds differ, or if a cost is not positive.
#[must_use]
pub fn judge(rounds: &[Round], build: usize) -> Option<Judgement> {
    let counts = |round: &Round| Some([round.first()?.len(), round.get(build)?.len()]);
    let [count_before, count_after] = counts(rounds.first()?)?;
    let both = |round: &Round| round[0].iter().chain(&round[build]).copied().collect::<Vec<f64>>();
    let is_whole = |round: &Round| {
        counts(round) == Some([count_before, count_after])
            && both(round).iter().all(|cost| cost.is_finite() && *cost > 0.0)
    };
    if count_before < 2 || count_after < 2 || !rounds.iter().all(is_whole) {
        return None;
    }
    let layouts = count_before + count_after;
    // One row per round, minus the round's mean: this removes effects common to all layouts of a round.
    let rows: Vec<Vec<f64>> = rounds
        .iter()
        .map(|round| {
            let logarithms: Vec<f64> = both(round).iter().map(|cost| cost.ln()).collect();
            let centre = logarithms.iter().sum::<f64>() / layouts as f64;
            logarithms.iter().map(|value| value - centre).collect()
        })
        .collect();
    let means: Vec<f64> = (0..layouts)
        .map(|layout| rows.iter().map(|row| row[layout]).sum::<f64>() / rows.len() as f64)
        .collect();
    let (before, after) = (Moments::of(&means[..count_before])?, Moments::of(&means[count_before..])?);
    let effect = welch::two_groups(&after, &before, CONFIDENCE)?;
    let saved = saved(effect.interval);
    Some(Judgement {
        saved,
        p: effect.p,
        detectable: detectable(effect.standard_error, effect.freedom, LEVEL),
        deviations: deviations(&rows, &means, [&before, &after]),
        layouts: layouts as f64 / 2.0,
        rounds: rows.len() as f64,
        freedom: effect.freedom,
    })
}

/// Converts a change of the logarithm to the saved share.
#[must_use]
pub fn saved(change: Interval) -> Interval {
    let share = |logarithm: f64| -logarithm.exp_m1();
    Interval { estimate: share(change.estimate), lower: share(change.upper), upper: share(change.lower) }
}

/// Returns the smallest change that is found at a level in [`POWER`] of all measurements. The standard error of the
/// logarithm is an estimate. If it is too small by chance, the promise would be too good, so an upper 90 % bound of the
/// standard error is used.
#[must_use]
pub fn detectable(standard_error: f64, freedom: f64, level: f64) -> f64 {
    // The tenth part of chi-square over its degrees of freedom (E. Wilson, M. Hilferty, "The distribution of chi-square", 1931).
    let part = 2.0 / (9.0 * freedom);
    let tenth = (1.0 - part - NORMAL_TENTH * part.sqrt()).powi(3);
    let too_small = tenth.max(0.01).sqrt().recip();
    let reach =
        student_quantile(1.0 - level, freedom) + too_small * student_quantile(2.0 * POWER - 1.0, freedom);
    (reach * standard_error).exp_m1()
}

/// Splits the variance by the mean squares between the layouts of a build and of the residuals.
fn deviations(rows: &[Vec<f64>], means: &[f64], builds: [&Moments; 2]) -> Deviations {
    let (rounds, layouts) = (rows.len() as f64, means.len() as f64);
    let left: f64 =
        rows.iter().flat_map(|row| row.iter().zip(means)).map(|(value, mean)| (value - mean).powi(2)).sum();
    let freedom = (rounds - 1.0) * (layouts - 1.0);
    let runs = if freedom > 0.0 { left / freedom } else { 0.0 };
    let squares: f64 = builds.iter().filter_map(|build| Some(build.variance? * (build.count - 1.0))).sum();
    let between = squares / (layouts - 2.0);
    Deviations { layouts: (between - runs / rounds).max(0.0).sqrt(), runs: runs.sqrt() }
}

impl Judgement {
    /// Returns the answer. It is `Nothing` if the interval is within ±[`NOTHING`].
    #[must_use]
    pub fn answer(&self) -> Answer {
        self.answer_at(LEVEL)
    }

    fn answer_at(&self, level: f64) -> Answer {
        let Interval { estimate, lower, upper } = self.saved;
        if lower > -NOTHING && upper < NOTHING {
            Answer::Nothing
        } else if self.p >= level {
            Answer::Unknown
        } else if estimate > 0.0 {
            Answer::Saves
        } else {
            Answer::Costs
        }
    }

    /// Returns the smallest difference that a measurement `times` as long would find. Additional time is first used for
    /// more layouts.
    #[must_use]
    fn detectable_in(&self, times: f64) -> f64 {
        let layouts = (self.layouts * times).min(MOST_LAYOUTS.max(self.layouts));
        let rounds = (self.rounds * self.layouts * times / layouts).max(1.0);
        let variance = self.deviations.layouts.powi(2) + self.deviations.runs.powi(2) / rounds;
        let freedom = self.freedom * (layouts - 1.0) / (self.layouts - 1.0);
        detectable((2.0 * variance / layouts).sqrt(), freedom, LEVEL)
    }

    /// Returns the sentence for people; `took` is the duration of the measurement.
    #[must_use]
    pub fn sentence(&self, took: Duration) -> String {
        match self.answer() {
            Answer::Saves | Answer::Costs => saving_in_words(self.saved, CONFIDENCE, "CPU time"),
            Answer::Nothing => nothing_in_words(self.saved),
            Answer::Unknown => {
                let longer = as_option(LONGER * took);
                let seen = percent(self.detectable_in(f64::from(LONGER)));
                let more = format!("--measure-for {longer} would detect {seen} %");
                unknown_in_words(self.detectable, took, Some(&more))
            }
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Text for the share of `what` that a build saves or costs: "saves 4.1 % of CPU time (95 %: 2.9 to 5.2 %)".
#[must_use]
pub fn saving_in_words(saved: Interval, confidence: f64, what: &str) -> String {
    let Interval { estimate, lower, upper } = saved;
    let (said, from, to) = if estimate >= 0.0 {
        (format!("saves {} % of {what}", percent(estimate)), lower, upper)
    } else {
        (format!("costs {} % more {what}", percent(-estimate)), -upper, -lower)
    };
    format!("{said} ({:.0} %: {} to {} %)", confidence * 100.0, percent(from), percent(to))
}

/// Text for a build that saves nothing relevant: "nothing to gain: at most 0.4 %".
#[must_use]
pub fn nothing_in_words(saved: Interval) -> String {
    format!("nothing to gain: at most {} %", percent(saved.upper.max(0.0)))
}

/// Text for an unknown result, with a sufficient time: "cannot detect a change below 1.5 % in 2m; --measure-for 10m
/// would detect 0.7 %".
#[must_use]
pub fn unknown_in_words(detectable: f64, took: Duration, more: Option<&str>) -> String {
    let more = more.map_or_else(String::new, |more| format!("; {more}"));
    format!("cannot detect a change below {} % in {}{more}", percent(detectable), as_option(took))
}

/// Text for the worth of misses, computed by [`worth`]: "worth at most 0.2 % of CPU time".
#[must_use]
pub fn worth_in_words(worth: f64) -> String {
    format!("worth at most {} % of CPU time", percent(worth))
}

/// Factor by which a longer measurement is suggested.
const LONGER: u32 = 5;

/// A time in the form of options: `45s`, `10m`, `2h`.
fn as_option(time: Duration) -> String {
    match time.as_secs().max(1) {
        seconds @ 0..=119 => format!("{seconds}s"),
        seconds @ 120..=7199 => format!("{}m", (seconds + 30) / 60),
        seconds => format!("{}h", (seconds + 1800) / 3600),
    }
}

/// Runs at least one round, until every interval decides or the time is over. `layouts` has the number of layouts of
/// each build. `cost` runs a layout of a build once; `elapsed` is the time since the first run.
///
/// # Errors
/// The errors of `cost`.
pub fn rounds(
    layouts: &[usize],
    limit: Duration,
    random: &mut Generator,
    mut cost: impl FnMut(usize, usize) -> Result<f64>,
    mut elapsed: impl FnMut() -> Duration,
) -> Result<Vec<Round>> {
    let mut rounds: Vec<Round> = Vec::new();
    loop {
        let mut round: Round = layouts.iter().map(|count| vec![0.0; *count]).collect();
        let mut turns: Vec<(usize, usize)> = layouts
            .iter()
            .enumerate()
            .flat_map(|(build, count)| (0..*count).map(move |layout| (build, layout)))
            .collect();
        random.shuffle(&mut turns);
        for (build, layout) in turns {
            round[build][layout] = cost(build, layout)?;
        }
        rounds.push(round);
        let done = rounds.len();
        let is_decided = |build| {
            judge(&rounds, build).is_some_and(|judgement| judgement.answer_at(EARLY_LEVEL) != Answer::Unknown)
        };
        let round_takes = elapsed() / u32::try_from(done).unwrap_or(u32::MAX);
        let is_over = elapsed() + round_takes > limit;
        if is_over || (done.is_power_of_two() && (1..layouts.len()).all(is_decided)) {
            return Ok(rounds);
        }
    }
}

/// Returns the reason why rounds are not judged, if the work shrinks or grows from round to round: the cost of a round
/// changed by more than [`TREND`] from the first eighth of the rounds (at least one round) to the second half, and by
/// more than the variation within that half. Work that leaves something behind, such as a cache, shrinks, usually at
/// once. Returns `None` if there are fewer than four rounds.
#[must_use]
pub fn changed_work(rounds: &[Round]) -> Option<String> {
    let centres: Vec<f64> = rounds
        .iter()
        .filter_map(|round| {
            let logarithms: Vec<f64> = round.iter().flatten().map(|cost| cost.ln()).collect();
            Moments::of(&logarithms).map(|moments| moments.mean)
        })
        .collect();
    let half = centres.len() / 2;
    let first = Moments::of(&centres[..(centres.len() / 8).max(1).min(centres.len())])?;
    let later = Moments::of(&centres[half..]).filter(|_| half >= 2)?;
    let change = (later.mean - first.mean).exp_m1();
    let is_one = (later.mean - first.mean).abs() > 3.0 * later.deviation().unwrap_or(0.0);
    (is_one && change.abs() > TREND).then(|| {
        let percent = 100.0 * change;
        format!("the work changes from run to run: {percent:+.0} % from the first runs to the last")
    })
}

/// If the cost changes by more than this over the rounds, the work is not the same.
const TREND: f64 = 0.2;

/// The smallest share of processor time that justifies further links.
pub const WORTH: f64 = 0.005;

/// Largest cost of a miss in nanoseconds, for a one-level instruction TLB and an L1 instruction cache: some 100 and
/// some 15 cycles at 3.3 GHz.
const NANOSECONDS: [(&str, f64); 2] = [("itlb", 30.0), ("l1i", 5.0)];

/// Returns the processor time of this many instructions and misses of the instruction TLB, in seconds, if misses cost
/// as much as possible and nothing else costs anything: four instructions per cycle at 3.3 GHz. Relative to this time,
/// the share of misses is an upper limit.
#[must_use]
pub fn least_seconds(instructions: f64, misses: f64) -> f64 {
    instructions * 0.075e-9 + misses * NANOSECONDS[0].1 * 1e-9
}

/// Returns the largest possible worth of saved misses, as a share of the processor time in which they occur: never a
/// gain, but a reason to stop. `saved` has the misses saved of the instruction TLB, and of the first-level instruction
/// cache.
#[must_use]
pub fn worth(saved: [f64; 2], seconds: f64) -> f64 {
    let nanoseconds: f64 =
        saved.iter().zip(NANOSECONDS).map(|(misses, (_, each))| misses.max(0.0) * each).sum();
    if seconds > 0.0 { (nanoseconds * 1e-9 / seconds).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Makes rounds of builds that save these shares relative to the first, with luck of layouts and noise of runs.
    fn made(saved: &[f64], [luck, noise]: [f64; 2], layouts: usize, limit: u32, seed: u64) -> Vec<Round> {
        let mut draws = Generator::new(seed);
        let mut normal = |deviation: f64| deviation * draws.normal();
        let places: Vec<Vec<f64>> =
            saved.iter().map(|_| (0..layouts).map(|_| normal(luck)).collect()).collect();
        let runs = Cell::new(0_u32);
        let cost = |build: usize, layout: usize| {
            runs.set(runs.get() + 1);
            Ok(((1.0 - saved[build]).ln() + places[build][layout] + normal(noise)).exp())
        };
        let in_round = (layouts * saved.len()) as f64;
        let elapsed = || Duration::from_secs_f64(f64::from(runs.get()) / in_round);
        let counts = vec![layouts; saved.len()];
        let limit = Duration::from_secs(limit.into());
        rounds(&counts, limit, &mut Generator::new(seed ^ 1), cost, elapsed).unwrap()
    }

    /// Shares of 400 simulated measurements: the interval contains the truth; a difference is reported; it has the
    /// wrong sign; announced differences that are found.
    fn shares(saved: f64, noise: [f64; 2]) -> [f64; 4] {
        let [mut holds, mut said, mut wrong, mut announced, mut found] = [0.0; 5];
        for seed in 0..400 {
            let judgement = judge(&made(&[0.0, saved], noise, 5, 16, seed), 1).unwrap();
            let is_said = matches!(judgement.answer(), Answer::Saves | Answer::Costs);
            let count = |of: &mut f64, is: bool| *of += f64::from(u8::from(is));
            count(&mut holds, judgement.saved.lower <= saved && saved <= judgement.saved.upper);
            count(&mut said, is_said);
            count(&mut wrong, is_said && (judgement.saved.estimate > 0.0) != (saved > 0.0));
            let is_announced = judgement.detectable <= saved.abs();
            count(&mut announced, is_announced);
            count(&mut found, is_announced && is_said);
        }
        [holds / 400.0, said / 400.0, wrong / 400.0, if announced > 20.0 { found / announced } else { 1.0 }]
    }

    #[test]
    fn intervals_hold_what_was_planted() {
        for noise in [[0.01, 0.01], [0.002, 0.02], [0.0, 0.05]] {
            for saved in [0.0, 0.01, -0.02, 0.05] {
                let [holds, said, wrong, found] = shares(saved, noise);
                assert!(holds >= 0.91, "{noise:?} {saved}: {holds}");
                assert!(found >= 0.9, "{noise:?} {saved}: {found}");
                assert!(wrong <= 0.02 && (saved != 0.0 || said <= 0.02), "{noise:?} {saved}: {said} {wrong}");
            }
        }
    }

    #[test]
    fn runs_stop_when_the_interval_decides() {
        let clear = made(&[0.0, 0.1], [0.002, 0.002], 5, 64, 1);
        assert_eq!(clear.len(), 1);
        let judgement = judge(&clear, 1).unwrap();
        assert_eq!(judgement.answer(), Answer::Saves);
        let sentence = judgement.sentence(Duration::from_secs(60));
        assert!(sentence.starts_with("saves ") && sentence.contains(" % of CPU time (95 %: "), "{sentence}");
        let equal = made(&[0.0, 0.0], [0.0005, 0.002], 5, 64, 1);
        assert_eq!(judge(&equal, 1).unwrap().answer(), Answer::Nothing);
        let wide = made(&[0.0, 0.003], [0.02, 0.02], 5, 12, 1);
        assert_eq!(wide.len(), 12);
        let judgement = judge(&wide, 1).unwrap();
        let sentence = judgement.sentence(Duration::from_secs(120));
        assert!(sentence.contains(" in 2m; --measure-for 10m would detect "), "{sentence}");
        assert!(judgement.detectable_in(5.0) < judgement.detectable * 0.7);
    }

    #[test]
    fn rounds_that_cannot_be_judged() {
        assert_eq!(judge(&[], 1), None);
        assert_eq!(judge(&[vec![vec![1.0], vec![1.0]]], 1), None, "one layout shows no luck");
        assert_eq!(judge(&[vec![vec![1.0, 1.0]]], 1), None);
        assert_eq!(judge(&[vec![vec![1.0, 0.0], vec![1.0, 1.0]]], 1), None);
    }

    #[test]
    fn work_that_changes() {
        let rounds = |costs: &[f64]| costs.iter().map(|cost| vec![vec![*cost; 2]; 2]).collect::<Vec<Round>>();
        let shrinking = changed_work(&rounds(&[4.0, 1.1, 1.0, 1.0])).unwrap();
        assert!(shrinking.ends_with(": -75 % from the first runs to the last"), "{shrinking}");
        let by_a_tenth: Vec<f64> = (0..16).map(|round| 0.9_f64.powi(round)).collect();
        assert!(changed_work(&rounds(&by_a_tenth)).is_some());
        assert_eq!(changed_work(&rounds(&[4.0, 1.0, 1.0])), None, "too few rounds");
        // A busy machine also varies as much later.
        assert_eq!(changed_work(&rounds(&[1.5, 1.0, 1.3, 0.9, 1.4, 1.1, 0.9, 1.2])), None);
        assert_eq!(changed_work(&[]), None);
    }

    #[test]
    fn misses_are_worth_time() {
        assert!((worth([1e6, 1e6], 1.0) - 0.035).abs() < 1e-12);
        assert!(worth([-5.0, 10.0], 0.0) == 0.0);
    }
}
