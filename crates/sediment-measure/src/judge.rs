// SPDX-License-Identifier: MIT OR Apache-2.0
//! Says whether one build of a program takes less processor time than another, and by how much, with the luck of layout inside the interval.
//!
//! ```text
//! layouts   A1 … A5   B1 … B5       links of each build that differ by padding only (crate::padding)
//! round     B3 A1 A5 B2 … A4        each layout runs once, in random order
//! value     ln(processor time / units of work), less the mean of its round
//! layout    mean of its rounds
//! interval  Welch's, over the layouts of both builds
//! ```
//!
//! Two links of the same objects differ in speed by where their code happens to lie (T. Mytkowicz et al., "Producing Wrong Data Without
//! Doing Anything Obviously Wrong!", ASPLOS 2009). So the layouts, and not the runs, are the sample: an interval over them holds for a link
//! that was not measured.
//!
//! An interval is looked at after 1, 2, 4, … rounds. Whoever looks often and stops at the first difference finds some where there are none
//! (P. Armitage, C. McPherson, B. Rowe, "Repeated significance tests on accumulating data", 1969). So a difference counts where its p-value is
//! below [`LEVEL`], and ends the runs where it is below [`EARLY_LEVEL`]; the interval that is printed is that of [`CONFIDENCE`].
//! `docs/proofs/judge.md` has how often both are right.

use crate::statistics::distribution::student_quantile;
use crate::statistics::{Interval, Moments, welch};
use sediment_core::error::Result;
use sediment_core::random::Generator;
use std::fmt;
use std::time::Duration;

/// Confidence of the interval that is printed.
pub const CONFIDENCE: f64 = 0.95;
/// A difference counts where its p-value is below this.
pub const LEVEL: f64 = 0.005;
/// The same where the runs may go on.
pub const EARLY_LEVEL: f64 = 0.001;
/// A gain below this share of the processor time is none.
pub const NOTHING: f64 = 0.005;
/// Fewest layouts of each build.
pub const LEAST_LAYOUTS: usize = 5;
/// Chance to find a difference of the size that is announced.
const POWER: f64 = 0.9;
/// The z above which a tenth of a normal distribution lies.
const NORMAL_TENTH: f64 = 1.2816;
/// More layouts than this are not foreseen for a longer measurement.
const MOST_LAYOUTS: f64 = 40.0;

/// Costs of one round: of each layout before and after, in processor seconds or cycles for a unit of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Of the layouts of the build before.
    pub before: Vec<f64>,
    /// Of the layouts of the build after.
    pub after: Vec<f64>,
}

/// What the rounds so far say. Shares are of the processor time before: 0.04 saves 4 %, -0.04 costs 4 % more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// What is saved, with its interval of [`CONFIDENCE`].
    pub saved: Interval,
    /// Two-sided p-value of no difference.
    pub p: f64,
    /// The least difference that as many rounds and layouts find in nine of ten measurements.
    pub detectable: f64,
    /// Standard deviation between the layouts of a build, and between the runs of a layout: both of the logarithm.
    pub deviations: Deviations,
    layouts: f64,
    rounds: f64,
    freedom: f64,
}

/// Where the values vary.
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
    /// What is saved or lost is below [`NOTHING`].
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

/// Judges rounds; None without a round, with fewer than two layouts of a build, layouts that come and go, or a cost that is not positive.
#[must_use]
pub fn judge(rounds: &[Round]) -> Option<Judgement> {
    let (count_before, count_after) = (rounds.first()?.before.len(), rounds.first()?.after.len());
    let is_whole = |round: &Round| {
        (round.before.len(), round.after.len()) == (count_before, count_after)
            && round.before.iter().chain(&round.after).all(|cost| cost.is_finite() && *cost > 0.0)
    };
    if count_before < 2 || count_after < 2 || !rounds.iter().all(is_whole) {
        return None;
    }
    let layouts = count_before + count_after;
    // Rows of rounds: what a round does to all layouts alike is taken out.
    let rows: Vec<Vec<f64>> = rounds
        .iter()
        .map(|round| {
            let logarithms: Vec<f64> =
                round.before.iter().chain(&round.after).map(|cost| cost.ln()).collect();
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
        detectable: detectable(effect.standard_error, effect.freedom),
        deviations: deviations(&rows, &means, [&before, &after]),
        layouts: layouts as f64 / 2.0,
        rounds: rows.len() as f64,
        freedom: effect.freedom,
    })
}

/// Share saved of a change of the logarithm.
fn saved(change: Interval) -> Interval {
    let share = |logarithm: f64| -logarithm.exp_m1();
    Interval { estimate: share(change.estimate), lower: share(change.upper), upper: share(change.lower) }
}

/// The least change that is found in [`POWER`] of all measurements. The standard error is an estimate: one that came out too small by
/// chance may not promise too much, so the truth is taken to be as large as it is in nine of ten cases.
fn detectable(standard_error: f64, freedom: f64) -> f64 {
    // The tenth part of chi-square over its degrees of freedom (E. Wilson, M. Hilferty, "The distribution of chi-square", 1931).
    let part = 2.0 / (9.0 * freedom);
    let tenth = (1.0 - part - NORMAL_TENTH * part.sqrt()).powi(3);
    let too_small = tenth.max(0.01).sqrt().recip();
    let reach =
        student_quantile(1.0 - LEVEL, freedom) + too_small * student_quantile(2.0 * POWER - 1.0, freedom);
    (reach * standard_error).exp_m1()
}

/// Splits the variance by the mean squares of layouts and of what rounds and layouts leave.
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
    /// The answer. That there is nothing is shown by an interval which lies within [`NOTHING`] on both sides.
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

    /// The least difference that a measurement `times` as long would find. More time goes into more layouts first.
    #[must_use]
    pub fn detectable_in(&self, times: f64) -> f64 {
        let layouts = (self.layouts * times).min(MOST_LAYOUTS.max(self.layouts));
        let rounds = (self.rounds * self.layouts * times / layouts).max(1.0);
        let variance = self.deviations.layouts.powi(2) + self.deviations.runs.powi(2) / rounds;
        let freedom = self.freedom * (layouts - 1.0) / (self.layouts - 1.0);
        detectable((2.0 * variance / layouts).sqrt(), freedom)
    }

    /// The sentence for people, of a measurement that took so long.
    #[must_use]
    pub fn sentence(&self, took: Duration) -> String {
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let Interval { estimate, lower, upper } = self.saved;
        match self.answer() {
            Answer::Saves => format!(
                "saves {} % of CPU time (95 %: {} to {} %)",
                percent(estimate),
                percent(lower),
                percent(upper)
            ),
            Answer::Costs => format!(
                "costs {} % more CPU time (95 %: {} to {} %)",
                percent(-estimate),
                percent(-upper),
                percent(-lower)
            ),
            Answer::Nothing => format!("nothing to gain: at most {} %", percent(upper.max(0.0))),
            Answer::Unknown => {
                let longer = LONGER * took;
                format!(
                    "cannot tell below {} % in {}; --measure-for {} would see {} %",
                    percent(self.detectable),
                    Span(took),
                    Span(longer),
                    percent(self.detectable_in(f64::from(LONGER)))
                )
            }
        }
    }
}

/// How much longer a measurement is suggested.
const LONGER: u32 = 5;

/// A time as options take it: `45s`, `10m`, `2h`.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs().max(1);
        match seconds {
            0..=119 => write!(out, "{seconds}s"),
            120..=7199 => write!(out, "{}m", (seconds + 30) / 60),
            _ => write!(out, "{}h", (seconds + 1800) / 3600),
        }
    }
}

/// Runs rounds until the interval decides or the time is over, and at least one. `cost` runs a layout once: of the build after if its first
/// argument is true. `elapsed` is the time since the first run.
///
/// # Errors
/// Those of `cost`.
pub fn rounds(
    layouts: [usize; 2],
    limit: Duration,
    random: &mut Generator,
    mut cost: impl FnMut(bool, usize) -> Result<f64>,
    mut elapsed: impl FnMut() -> Duration,
) -> Result<Vec<Round>> {
    let mut rounds: Vec<Round> = Vec::new();
    loop {
        let mut round = Round { before: vec![0.0; layouts[0]], after: vec![0.0; layouts[1]] };
        let mut turns: Vec<(bool, usize)> = [false, true]
            .into_iter()
            .flat_map(|after| (0..layouts[usize::from(after)]).map(move |at| (after, at)))
            .collect();
        random.shuffle(&mut turns);
        for (after, at) in turns {
            let costs = if after { &mut round.after } else { &mut round.before };
            costs[at] = cost(after, at)?;
        }
        rounds.push(round);
        let done = rounds.len();
        let is_decided =
            || judge(&rounds).is_some_and(|judgement| judgement.answer_at(EARLY_LEVEL) != Answer::Unknown);
        let round_takes = elapsed() / u32::try_from(done).unwrap_or(u32::MAX);
        if elapsed() + round_takes > limit || (done.is_power_of_two() && is_decided()) {
            return Ok(rounds);
        }
    }
}
