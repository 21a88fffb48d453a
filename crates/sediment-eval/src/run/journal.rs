// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of an experiment: JSON lines, each an object with a single key that names its kind. The first line contains
//! the plan, so that this file is enough to report on and resume the experiment. A last line that a crash cut off is
//! skipped.

use super::{add_scaled, begin, choose_primary, set_fact};
use crate::data::{Experiment, GroupSummary, Observation};
use crate::metrics;
use crate::plan::{self, Plan};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_measure::machine::Warning;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Version of this format.
const VERSION: u64 = 1;

/// Contents of a file of an experiment.
#[derive(Debug, Clone)]
pub struct RecordedExperiment {
    /// Its plan.
    pub plan: Plan,
    /// The folder that the plan's paths are relative to.
    pub folder: String,
    /// The measurements.
    pub experiment: Experiment,
    /// The programs: SHA-256 by (variant, replica).
    pub programs: BTreeMap<(usize, u32), String>,
    /// Notes made during the runs, such as a jump of the clock.
    pub notes: Vec<String>,
    /// Number of bytes in complete lines; the rest was cut off.
    pub whole: usize,
}

/// The first line.
#[must_use]
pub fn header(plan: &Plan, folder: &str, seed: u64) -> String {
    let header = json!({
        "version": VERSION, "plan_sha256": plan.hash(), "seed": seed, "folder": folder, "plan": plan.text,
    });
    json!({ "sediment-eval": header }).to_string()
}

/// A run.
#[must_use]
pub fn run(observation: &Observation, padding: u64, scaled: &BTreeSet<String>) -> String {
    let mut run = json!(observation);
    run["padding"] = json!(padding);
    if !scaled.is_empty() {
        run["scaled"] = json!(scaled);
    }
    json!({ "run": run }).to_string()
}

/// A group with only a summary.
#[must_use]
pub fn summary(group: &GroupSummary) -> String {
    json!({ "summary": group }).to_string()
}

/// A built or found program.
#[must_use]
pub fn program(variant: usize, replica: u32, sha256: &str) -> String {
    json!({ "program": { "variant": variant, "replica": replica, "sha256": sha256 } }).to_string()
}

/// Facts; a later line with the same name takes precedence.
#[must_use]
pub fn facts(facts: &[(String, String)]) -> String {
    json!({ "facts": facts }).to_string()
}

/// Metrics that cannot be read, with the reasons.
#[must_use]
pub fn absent(absent: &BTreeMap<String, String>) -> String {
    json!({ "absent": absent }).to_string()
}

/// The half-width that a session wants, if it is not the plan's.
#[must_use]
pub fn precision(precision: f64) -> String {
    json!({ "precision": precision }).to_string()
}

/// Units of metrics from imported files.
#[must_use]
pub fn units(units: &BTreeMap<String, String>) -> String {
    json!({ "units": units }).to_string()
}

/// A note that a reader of the report should know.
#[must_use]
pub fn note(text: &str) -> String {
    json!({ "note": text }).to_string()
}

/// Line for a warning about the machine.
#[must_use]
pub fn warning(warning: &Warning) -> String {
    let command =
        if warning.command.is_empty() { String::new() } else { format!(" (to fix it: {})", warning.command) };
    note(&format!("{}{command}", warning.what))
}

/// Reads the file of an experiment.
///
/// # Errors
/// If it is not such a file, or a line before the last is damaged.
pub fn read(bytes: &[u8]) -> Result<RecordedExperiment> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split_inclusive('\n').zip(1u64..);
    let no_experiment = || {
        Error::new(ErrorCode::UnknownFormat, "not a file of sediment eval").with_hint(
            "sediment eval run PLAN makes one; sediment eval import makes one from other tools' files",
        )
    };
    let (first, _) = lines.next().ok_or_else(no_experiment)?;
    let head: Value = serde_json::from_str(first).map_err(|_| no_experiment())?;
    let head = head.get("sediment-eval").ok_or_else(no_experiment)?;
    match head["version"].as_u64() {
        Some(VERSION) => {}
        Some(newer) if newer > VERSION => {
            return Err(Error::at_line(1, format!("this file has version {newer}: use a newer sediment")));
        }
        _ => return Err(no_experiment()),
    }
    let damaged = |line, what: &str| Error::at_line(line, format!("damaged: {what}"));
    let head = JournalHeader::deserialize(head).map_err(|error| damaged(1, &error.to_string()))?;
    let plan = plan::read(&head.plan).map_err(|error| error.with_input("the plan in line 1"))?;
    if head.plan_sha256 != plan.hash() {
        return Err(damaged(1, "the plan differs from the one that was run"));
    }
    let mut recorded = RecordedExperiment {
        folder: head.folder,
        experiment: begin(&plan, head.seed),
        plan,
        programs: BTreeMap::new(),
        notes: Vec::new(),
        whole: first.len(),
    };
    for (line, number) in lines {
        let whole = line.ends_with('\n');
        match serde_json::from_str::<JournalLine>(line) {
            // An incomplete line may be cut so that it can still be parsed.
            _ if !whole => break,
            Ok(line) => recorded.add(line).ok_or_else(|| damaged(number, "a line with invalid values"))?,
            Err(error) => return Err(damaged(number, &error.to_string())),
        }
        recorded.whole += line.len();
    }
    choose_primary(&recorded.plan, &mut recorded.experiment);
    Ok(recorded)
}

/// The first line.
#[derive(Deserialize)]
struct JournalHeader {
    plan_sha256: String,
    seed: u64,
    #[serde(default = "here")]
    folder: String,
    plan: String,
}

fn here() -> String {
    ".".to_owned()
}

/// A line, which is one of these. Further keys of later versions are ignored.
#[derive(Deserialize)]
struct JournalLine {
    run: Option<JournalRun>,
    summary: Option<GroupSummary>,
    program: Option<JournalProgram>,
    #[serde(default)]
    facts: Vec<(String, String)>,
    #[serde(default)]
    absent: BTreeMap<String, String>,
    precision: Option<f64>,
    #[serde(default)]
    units: BTreeMap<String, String>,
    note: Option<String>,
}

#[derive(Deserialize)]
struct JournalRun {
    #[serde(flatten)]
    observation: Observation,
    #[serde(default)]
    scaled: BTreeSet<String>,
}

#[derive(Deserialize)]
struct JournalProgram {
    variant: usize,
    replica: u32,
    sha256: String,
}

impl RecordedExperiment {
    fn add(&mut self, line: JournalLine) -> Option<()> {
        if let Some(run) = line.run {
            self.add_run(run)?;
        }
        if let Some(group) = line.summary {
            self.known(group.workload, group.variant)?;
            self.meet(&group.metric);
            self.experiment.summaries.push(group);
        }
        if let Some(JournalProgram { variant, replica, sha256 }) = line.program {
            self.programs.insert((variant, replica), sha256);
        }
        for (name, value) in line.facts {
            set_fact(&mut self.experiment, &name, value);
        }
        self.experiment.absent.extend(line.absent);
        if let Some(precision) = line.precision {
            self.experiment.precision = Some(precision).filter(|share| *share > 0.0 && *share < 1.0)?;
        }
        for (name, unit) in line.units {
            self.meet(&name);
            self.experiment.metrics.iter_mut().find(|metric| metric.name == name)?.unit = unit;
        }
        if let Some(text) = line.note.filter(|text| !self.notes.contains(text)) {
            let name = format!("note {}", self.notes.len() + 1);
            set_fact(&mut self.experiment, &name, text.clone());
            self.notes.push(text);
        }
        Some(())
    }

    fn meet(&mut self, name: &str) {
        if !self.experiment.metrics.iter().any(|metric| metric.name == name) {
            self.experiment.metrics.push(metrics::metric(&self.plan, name));
        }
    }

    /// None if the plan has no such workload or variant.
    fn known(&self, workload: usize, variant: usize) -> Option<()> {
        (workload < self.plan.workloads.len() && variant < self.plan.variants.len()).then_some(())
    }

    fn add_run(&mut self, JournalRun { observation, scaled }: JournalRun) -> Option<()> {
        self.known(observation.workload, observation.variant)?;
        if observation.replica >= self.plan.variants[observation.variant].replicas {
            return None;
        }
        for name in observation.values.keys() {
            self.meet(name);
        }
        add_scaled(&mut self.experiment, &scaled);
        self.experiment.observations.push(observation);
        Some(())
    }
}
