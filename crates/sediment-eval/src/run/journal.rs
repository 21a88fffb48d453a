// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of an experiment: JSON lines, each an object with one key that says what it is. The first holds the plan itself, so
//! that the file alone can be reported on and gone on with; a last line that was torn by a crash is left out.

use super::{add_scaled, begin, set_fact, settle_primary};
use crate::data::{Experiment, GroupSummary, Observation, Phase, Summary};
use crate::measure::machine::Warning;
use crate::metrics;
use crate::plan::{self, Plan};
use sediment::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Version of this format.
const VERSION: u64 = 1;

/// What a file of an experiment holds.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its plan.
    pub plan: Plan,
    /// The folder that the plan's paths are relative to.
    pub folder: String,
    /// What was measured.
    pub experiment: Experiment,
    /// The programs that ran: SHA-256 by (variant, replica).
    pub programs: BTreeMap<(usize, u32), String>,
    /// What was said on the way, such as that a clock jumped.
    pub notes: Vec<String>,
    /// Bytes of whole lines; what is behind them was torn.
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
    let mut run = json!({
        "workload": observation.workload,
        "variant": observation.variant,
        "replica": observation.replica,
        "block": observation.block,
        "slot": observation.slot,
        "at": observation.at,
        "phase": match observation.phase { Phase::WarmUp => "warm-up", Phase::Measured => "measured" },
        "padding": padding,
        "work": observation.work,
        "values": observation.values,
    });
    if let (false, Some(run)) = (scaled.is_empty(), run.as_object_mut()) {
        run.insert("scaled".to_owned(), json!(scaled));
    }
    json!({ "run": run }).to_string()
}

/// A group that is known by its summary alone.
#[must_use]
pub fn summary(group: &GroupSummary) -> String {
    json!({ "summary": {
        "workload": group.workload, "variant": group.variant, "metric": group.metric,
        "count": group.summary.count, "mean": group.summary.mean, "deviation": group.summary.deviation,
    }})
    .to_string()
}

/// A program that was built or found.
#[must_use]
pub fn program(variant: usize, replica: u32, sha256: &str) -> String {
    json!({ "program": { "variant": variant, "replica": replica, "sha256": sha256 } }).to_string()
}

/// Facts; a later line with the same name wins.
#[must_use]
pub fn facts(facts: &[(String, String)]) -> String {
    json!({ "facts": facts }).to_string()
}

/// Metrics that cannot be read, and why.
#[must_use]
pub fn absent(absent: &BTreeMap<String, String>) -> String {
    json!({ "absent": absent }).to_string()
}

/// The half-width that a sitting wants, where it is not the plan's.
#[must_use]
pub fn precision(precision: f64) -> String {
    json!({ "precision": precision }).to_string()
}

/// Units of metrics that came with imported files.
#[must_use]
pub fn units(units: &BTreeMap<String, String>) -> String {
    json!({ "units": units }).to_string()
}

/// Something that a reader of the report should know.
#[must_use]
pub fn note(text: &str) -> String {
    json!({ "note": text }).to_string()
}

/// What disturbs on this machine.
#[must_use]
pub fn warning(warning: &Warning) -> String {
    let command =
        if warning.command.is_empty() { String::new() } else { format!(" (mend it: {})", warning.command) };
    note(&format!("{}{command}", warning.what))
}

/// Reads the file of an experiment.
///
/// # Errors
/// When it is none, or a line before the last is damaged.
pub fn read(bytes: &[u8]) -> Result<Recorded> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split_inclusive('\n').zip(1u64..);
    let no_experiment = || {
        Error::failed("this is no file of sediment eval").with_hint(
            "sediment eval run PLAN makes one; sediment eval import makes one from other tools' files",
        )
    };
    let (first, _) = lines.next().ok_or_else(no_experiment)?;
    let head: Value = serde_json::from_str(first).map_err(|_| no_experiment())?;
    let head = head.get("sediment-eval").ok_or_else(no_experiment)?;
    match head["version"].as_u64() {
        Some(VERSION) => {}
        Some(newer) if newer > VERSION => {
            return Err(Error::at_line(
                1,
                format!("this file has version {newer}; a newer sediment reads it"),
            ));
        }
        _ => return Err(no_experiment()),
    }
    let damaged = |line, what: &str| Error::at_line(line, format!("damaged: {what}"));
    let plan_text = head["plan"].as_str().ok_or_else(|| damaged(1, "no plan"))?;
    let plan = plan::read(plan_text).map_err(|error| error.with_input("the plan in line 1"))?;
    if head["plan_sha256"].as_str() != Some(plan.hash().as_str()) {
        return Err(damaged(1, "the plan is not the one that was run"));
    }
    let seed = head["seed"].as_u64().ok_or_else(|| damaged(1, "no seed"))?;
    let mut recorded = Recorded {
        folder: head["folder"].as_str().unwrap_or(".").to_owned(),
        experiment: begin(&plan, seed),
        plan,
        programs: BTreeMap::new(),
        notes: Vec::new(),
        whole: first.len(),
    };
    for (line, number) in lines {
        let whole = line.ends_with('\n');
        match serde_json::from_str::<Value>(line) {
            // A line without its end may be cut where it still happens to parse.
            Ok(_) if !whole => break,
            Ok(value) => recorded.add(&value).ok_or_else(|| damaged(number, "not what such a line holds"))?,
            Err(_) if !whole => break,
            Err(error) => return Err(damaged(number, &error.to_string())),
        }
        recorded.whole += line.len();
    }
    settle_primary(&recorded.plan, &mut recorded.experiment);
    Ok(recorded)
}

impl Recorded {
    fn add(&mut self, line: &Value) -> Option<()> {
        let (kind, value) = line.as_object()?.iter().next()?;
        match kind.as_str() {
            "run" => self.add_run(value.as_object()?),
            "summary" => self.add_summary(value),
            "program" => {
                let replica = u32::try_from(value["replica"].as_u64()?).ok()?;
                let variant = usize::try_from(value["variant"].as_u64()?).ok()?;
                self.programs.insert((variant, replica), value["sha256"].as_str()?.to_owned());
                Some(())
            }
            "facts" => {
                for fact in value.as_array()? {
                    set_fact(&mut self.experiment, fact[0].as_str()?, fact[1].as_str()?.to_owned());
                }
                Some(())
            }
            "absent" => {
                for (name, why) in value.as_object()? {
                    self.experiment.absent.insert(name.clone(), why.as_str()?.to_owned());
                }
                Some(())
            }
            "precision" => {
                self.experiment.precision = value.as_f64().filter(|share| *share > 0.0 && *share < 1.0)?;
                Some(())
            }
            "units" => {
                for (name, unit) in value.as_object()? {
                    let unit = unit.as_str()?;
                    self.meet(name);
                    let metric = self.experiment.metrics.iter_mut().find(|metric| metric.name == *name)?;
                    unit.clone_into(&mut metric.unit);
                }
                Some(())
            }
            "note" => {
                let text = value.as_str()?.to_owned();
                if !self.notes.contains(&text) {
                    let name = format!("note {}", self.notes.len() + 1);
                    set_fact(&mut self.experiment, &name, text.clone());
                    self.notes.push(text);
                }
                Some(())
            }
            // Of a later program: it says something that is not needed here.
            _ => Some(()),
        }
    }

    fn meet(&mut self, name: &str) {
        if !self.experiment.metrics.iter().any(|metric| metric.name == name) {
            self.experiment.metrics.push(metrics::metric(&self.plan, name));
        }
    }

    /// Index of an item that the plan has.
    fn index(value: &Value, count: usize) -> Option<usize> {
        usize::try_from(value.as_u64()?).ok().filter(|index| *index < count)
    }

    fn add_run(&mut self, run: &Map<String, Value>) -> Option<()> {
        let mut values = BTreeMap::new();
        for (name, value) in run.get("values")?.as_object()? {
            values.insert(name.clone(), value.as_f64()?);
        }
        let observation = Observation {
            workload: Self::index(run.get("workload")?, self.plan.workloads.len())?,
            variant: Self::index(run.get("variant")?, self.plan.variants.len())?,
            replica: u32::try_from(run.get("replica")?.as_u64()?).ok()?,
            block: match run.get("block")? {
                Value::Null => None,
                block => Some(u32::try_from(block.as_u64()?).ok()?),
            },
            slot: u32::try_from(run.get("slot")?.as_u64()?).ok()?,
            at: run.get("at")?.as_f64()?,
            phase: match run.get("phase")?.as_str()? {
                "warm-up" => Phase::WarmUp,
                "measured" => Phase::Measured,
                _ => return None,
            },
            work: run.get("work").and_then(Value::as_f64),
            values,
        };
        if observation.replica >= self.plan.variants[observation.variant].replicas {
            return None;
        }
        for name in observation.values.keys() {
            self.meet(name);
        }
        let scaled = run.get("scaled").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let scaled: BTreeSet<String> = scaled.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        add_scaled(&mut self.experiment, &scaled);
        self.experiment.observations.push(observation);
        Some(())
    }

    fn add_summary(&mut self, value: &Value) -> Option<()> {
        let metric = value["metric"].as_str()?.to_owned();
        let group = GroupSummary {
            workload: Self::index(&value["workload"], self.plan.workloads.len())?,
            variant: Self::index(&value["variant"], self.plan.variants.len())?,
            metric: metric.clone(),
            summary: Summary {
                count: value["count"].as_u64()?,
                mean: value["mean"].as_f64()?,
                deviation: value["deviation"].as_f64(),
            },
        };
        self.meet(&metric);
        self.experiment.summaries.push(group);
        Some(())
    }
}
