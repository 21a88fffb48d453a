// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs an experiment: blocks in which every link runs once in random order, until it is precise enough or the budget is spent.
//!
//! ```text
//!             slot 0    1     2     3     4     5
//! warm-up          A₀   A₁    B₀    B₁    A/A          recorded, not counted
//! block 0          B₁   A₀    A/A   B₀    A₁           one environment padding, drawn for the block
//! block 1          A₁   A/A   A₀    B₁    B₀           another one, another order
//! ```
//!
//! Drift over a block affects all links alike. Order and padding of a block depend only on the seed and the block's
//! number, so a resumed experiment continues as if it had not been interrupted. Every run is passed to the [`Journal`]
//! before the next one begins, so no measurement is lost.
//!
//! A [`Runner`] starts the processes; [`processes::Processes`] is the real one, tests have others.

pub mod journal;
pub mod processes;
pub mod schedule;

use super::data::{Circumstances, Experiment, Observation, Phase};
use super::plan::Plan;
use super::stopping::{NextStep, StoppingBudget, plan_next};
use super::{data, metrics};
use schedule::PlannedRun;
use sediment_core::error::{Error, ErrorCode, ErrorKind, Result};
use sediment_measure::clock;
use sediment_process::Stop;
use std::collections::{BTreeMap, BTreeSet};

/// Values measured in one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measurement {
    /// Units of work done.
    pub work: Option<f64>,
    /// Values by metric.
    pub values: BTreeMap<String, f64>,
    /// Metrics that were not counted all the time, and scaled up.
    pub scaled: BTreeSet<String>,
    /// Metrics that this run lacks, and why.
    pub absent: BTreeMap<String, String>,
    /// Output of the run, then its errors, if the plan wants them.
    pub printed: Vec<u8>,
    /// Facts that decide if it may be judged.
    pub circumstances: Circumstances,
}

/// Makes the runs of a schedule.
pub trait Runner {
    /// Seconds since the experiment began, by a clock that does not jump; time between sessions does not count.
    fn seconds(&self) -> f64;
    /// By how many seconds the wall clock has gone ahead of that clock since the last call.
    fn wall_jump(&mut self) -> f64;
    /// Makes one run.
    ///
    /// # Errors
    /// If it fails; the error names the variant.
    fn perform(&mut self, planned: &PlannedRun) -> Result<Measurement>;
}

/// Keeps the measurements.
pub trait Journal {
    /// Adds a line, given without its end, and returns after it is stored.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn append(&mut self, line: &str) -> Result<()>;
}

/// Receives progress and notes.
pub trait Watcher {
    /// Called after every run.
    fn progress(&mut self, progress: &ExperimentProgress);
    /// Called with a note for the user.
    fn note(&mut self, text: &str);
    /// Called with the output of a run, if the plan wants it.
    fn printed(&mut self, text: &[u8]);
}

/// Progress of an experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExperimentProgress {
    /// Runs made, in this session and before.
    pub runs: u64,
    /// Largest number of runs that it may need, as far as is known.
    pub most_runs: u64,
    /// Blocks that are complete.
    pub blocks: u32,
    /// Half-width of the primary metric's interval so far, relative.
    pub half_width: Option<f64>,
    /// Half-width at which the experiment stops.
    pub precision: f64,
    /// Largest number of remaining seconds, at the pace so far.
    pub seconds_left: Option<f64>,
}

/// Why an experiment has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The reason in words: precise enough, the budget is spent, or more blocks cannot help; and what would help.
    pub why: String,
}

/// Number of attempts for a run if the clock jumps in each.
const ATTEMPTS: u32 = 3;

/// Makes the missing runs of an experiment.
///
/// # Errors
/// If a run fails, the journal cannot be written, or `stop` is requested ([`ErrorKind::Interrupted`]). The measurements
/// until then are in the journal and in the experiment.
pub fn run(
    plan: &Plan,
    experiment: &mut Experiment,
    runner: &mut dyn Runner,
    journal: &mut dyn Journal,
    watcher: &mut dyn Watcher,
    stop: &Stop,
) -> Result<Finished> {
    if plan.is_import_only() {
        return Ok(Finished { why: "everything was imported".to_owned() });
    }
    let mut session =
        Session { plan, experiment, runner, journal, watcher, stop, half_width: None, begun: None };
    session.blocks()
}

struct Session<'a> {
    plan: &'a Plan,
    experiment: &'a mut Experiment,
    runner: &'a mut dyn Runner,
    journal: &'a mut dyn Journal,
    watcher: &'a mut dyn Watcher,
    stop: &'a Stop,
    half_width: Option<f64>,
    /// Time at which the first counted run of this session began, and number of earlier runs.
    begun: Option<(f64, u64)>,
}

impl Session<'_> {
    fn blocks(&mut self) -> Result<Finished> {
        let budget = StoppingBudget {
            pilot: self.plan.run.pilot,
            most_blocks: self.plan.run.blocks,
            precision: self.plan.run.precision,
        };
        let mut warm = false;
        for number in 0.. {
            let runs = schedule::block(self.plan, self.experiment.seed, number);
            let missing: Vec<PlannedRun> =
                runs.into_iter().filter(|planned| !is_recorded(self.experiment, planned)).collect();
            if missing.is_empty() && number < self.plan.run.blocks {
                continue;
            }
            if number >= self.plan.run.pilot {
                match plan_next(self.experiment, &budget)? {
                    NextStep::MoreBlocks { half_width, .. } => self.half_width = half_width,
                    NextStep::Precise { half_width } => {
                        return Ok(Finished {
                            why: format!(
                                "precise enough after {number} blocks: ±{:.2} %",
                                100.0 * half_width
                            ),
                        });
                    }
                    NextStep::Spent { half_width, advice } => return Ok(spent(number, half_width, &advice)),
                    NextStep::Futile { half_width, why } => {
                        let reached = reached(half_width);
                        let why = format!(
                            "ended after {number} blocks{reached}, before the budget was spent: {why}"
                        );
                        return Ok(Finished { why });
                    }
                }
            }
            if number >= self.plan.run.blocks {
                return Ok(spent(number, self.half_width, ""));
            }
            let seconds = self.runner.seconds();
            if number > 0 && self.plan.run.time.is_some_and(|time| seconds >= time) {
                let advice = format!("{seconds:.0} s have passed");
                return Ok(spent(number, self.half_width, &advice));
            }
            if !std::mem::replace(&mut warm, true) {
                self.perform_all(&schedule::warm_ups(self.plan), Phase::WarmUp)?;
            }
            self.perform_all(&missing, Phase::Measured)?;
        }
        Ok(spent(u32::MAX, self.half_width, ""))
    }

    fn perform_all(&mut self, runs: &[PlannedRun], phase: Phase) -> Result<()> {
        for planned in runs {
            self.stop.check()?;
            if phase == Phase::Measured && self.begun.is_none() {
                self.begun = Some((self.runner.seconds(), self.measured()));
            }
            let at = self.runner.seconds();
            let measurement = self.perform_undisturbed(planned)?;
            if !measurement.printed.is_empty() {
                self.watcher.printed(&measurement.printed);
            }
            let observation = Observation {
                workload: planned.workload,
                variant: planned.variant,
                replica: planned.replica,
                block: planned.block,
                slot: planned.slot,
                at,
                phase,
                work: measurement.work,
                values: measurement.values,
                circumstances: measurement.circumstances,
            };
            self.journal.append(&journal::run(&observation, planned.padding, &measurement.scaled))?;
            for name in observation.values.keys() {
                if !self.experiment.metrics.iter().any(|metric| metric.name == *name) {
                    self.experiment.metrics.push(metrics::metric(self.plan, name));
                }
            }
            add_scaled(self.experiment, &measurement.scaled);
            self.note_absent(measurement.absent)?;
            self.experiment.observations.push(observation);
            choose_primary(self.plan, self.experiment);
            self.report_progress();
        }
        Ok(())
    }

    /// Makes a run without a jump of the clock. If the clock jumps, the run may have been disturbed, and is repeated.
    fn perform_undisturbed(&mut self, planned: &PlannedRun) -> Result<Measurement> {
        for _ in 0..ATTEMPTS {
            let measurement = self.runner.perform(planned)?;
            let jump = self.runner.wall_jump();
            if jump.abs() <= clock::JUMP {
                return Ok(measurement);
            }
            let text = format!(
                "the wall clock jumped {:.0} s {} during a run of {}, because it was set or the machine slept; the run is repeated",
                jump.abs(),
                if jump > 0.0 { "ahead" } else { "back" },
                self.plan.variants[planned.variant].name
            );
            self.journal.append(&journal::note(&text))?;
            self.watcher.note(&text);
            self.stop.check()?;
        }
        Err(Error::new(ErrorCode::NotMeasured, format!("the wall clock jumped in each of {ATTEMPTS} runs"))
            .with_hint(
                "does a service set the clock? All finished runs are kept; to continue: sediment eval resume",
            ))
    }

    /// Prints a note for each absent metric, once.
    fn note_absent(&mut self, absent: BTreeMap<String, String>) -> Result<()> {
        for (name, why) in absent {
            if !self.experiment.absent.contains_key(&name) {
                self.watcher.note(&format!("{name}: {why}"));
                self.experiment.absent.insert(name, why);
                self.journal.append(&journal::absent(&self.experiment.absent))?;
            }
        }
        Ok(())
    }

    fn measured(&self) -> u64 {
        self.experiment.observations.iter().filter(|o| o.phase == Phase::Measured).count() as u64
    }

    fn report_progress(&mut self) {
        let per_block = schedule::runs_per_block(self.plan) as u64;
        let runs = self.measured();
        let most_runs = per_block * u64::from(self.plan.run.blocks);
        let seconds = self.runner.seconds();
        let by_pace = self.begun.and_then(|(begun, before)| {
            let made = runs.saturating_sub(before);
            (made > 0).then(|| (seconds - begun) / made as f64 * most_runs.saturating_sub(runs) as f64)
        });
        let by_budget = self.plan.run.time.map(|time| (time - seconds).max(0.0));
        let seconds_left = match (by_pace, by_budget) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, None) => one,
            (None, _) => None,
        };
        self.watcher.progress(&ExperimentProgress {
            runs,
            most_runs,
            blocks: (runs / per_block.max(1)) as u32,
            half_width: self.half_width,
            precision: self.plan.run.precision,
            seconds_left,
        });
    }
}

fn spent(blocks: u32, half_width: Option<f64>, advice: &str) -> Finished {
    let reached = reached(half_width);
    let advice = if advice.is_empty() { String::new() } else { format!(": {advice}") };
    Finished { why: format!("the budget is spent after {blocks} blocks{reached}{advice}") }
}

fn reached(half_width: Option<f64>) -> String {
    half_width.map_or_else(String::new, |half| format!(", at ±{:.2} %", 100.0 * half))
}

fn is_recorded(experiment: &Experiment, planned: &PlannedRun) -> bool {
    experiment.observations.iter().any(|o| {
        o.phase == Phase::Measured
            && o.block == planned.block
            && (o.workload, o.variant, o.replica) == (planned.workload, planned.variant, planned.replica)
    })
}

/// Makes an experiment of this plan, without any runs.
#[must_use]
pub fn begin(plan: &Plan, seed: u64) -> Experiment {
    let mut experiment = Experiment {
        variants: plan
            .variants
            .iter()
            .map(|variant| data::Variant {
                name: variant.name.clone(),
                factors: variant.factors.clone(),
                replicas: variant.replicas,
                probe: variant.probe,
            })
            .collect(),
        baseline: plan.baseline,
        workloads: plan
            .workloads
            .iter()
            .map(|workload| data::Workload {
                name: workload.name.clone(),
                work: workload.work.as_ref().map(|(name, _)| name.clone()),
            })
            .collect(),
        metrics: Vec::new(),
        primary: String::new(),
        margin: plan.margin,
        confidence: plan.confidence,
        precision: plan.run.precision,
        observations: Vec::new(),
        summaries: Vec::new(),
        absent: BTreeMap::new(),
        facts: Vec::new(),
        seed,
    };
    if !plan.name.is_empty() {
        experiment.facts.push(("experiment".to_owned(), plan.name.clone()));
    }
    experiment.facts.push(("plan (SHA-256)".to_owned(), plan.hash()));
    choose_primary(plan, &mut experiment);
    experiment
}

/// Chooses the metric that decides, from the metrics read so far.
pub fn choose_primary(plan: &Plan, experiment: &mut Experiment) {
    experiment.primary =
        metrics::primary(plan, |name| experiment.metrics.iter().any(|metric| metric.name == name));
}

/// Adds a fact that lists the scaled counters.
fn add_scaled(experiment: &mut Experiment, scaled: &BTreeSet<String>) {
    const NAME: &str = "scaled counters";
    if scaled.is_empty() {
        return;
    }
    let mut all = scaled.clone();
    if let Some((_, before)) = experiment.facts.iter().find(|(name, _)| name == NAME) {
        all.extend(before.split(", ").map(str::to_owned));
    }
    let list: Vec<String> = all.into_iter().collect();
    set_fact(experiment, NAME, list.join(", "));
}

/// Sets a fact; an existing one keeps its position.
pub fn set_fact(experiment: &mut Experiment, name: &str, value: String) {
    match experiment.facts.iter_mut().find(|(other, _)| other == name) {
        Some(fact) => fact.1 = value,
        None => experiment.facts.push((name.to_owned(), value)),
    }
}

/// Adds the variant of the run to an error, if the error does not name it.
pub(crate) fn of_variant(plan: &Plan, planned: &PlannedRun, error: Error) -> Error {
    if error.kind() == ErrorKind::Interrupted {
        return error;
    }
    let variant = &plan.variants[planned.variant];
    let link = if variant.replicas > 1 { format!(", link {}", planned.replica + 1) } else { String::new() };
    let mut named = Error::new(
        error.code(),
        format!(
            "variant {}{link}, workload {}: {error}",
            variant.name, plan.workloads[planned.workload].name
        ),
    );
    if let Some(hint) = error.hint() {
        named = named.with_hint(hint);
    }
    named
}
