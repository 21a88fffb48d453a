// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs and their results: optionally stored in a file, so that the runs can be made in parts, and printed as a table.

use super::fault::{Fault, FaultKind, KINDS};
use super::parameters::Parameters;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(crate) struct TortureJournal {
    file: Option<PathBuf>,
    until: Option<Instant>,
    left: AtomicUsize,
    rows: Mutex<BTreeMap<String, ScenarioRow>>,
}

#[derive(Default)]
struct ScenarioRow {
    seeds: BTreeSet<u64>,
    faults: BTreeMap<FaultKind, usize>,
    seconds: f64,
    lines: Vec<String>,
}

impl TortureJournal {
    /// Opens an empty journal, or the one in SEDIMENT_JOURNAL.
    pub(crate) fn open() -> Self {
        let file = std::env::var_os("SEDIMENT_JOURNAL").map(PathBuf::from);
        let until = super::number("SEDIMENT_MINUTES")
            .map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
        let journal = Self { file, until, left: AtomicUsize::new(0), rows: Mutex::default() };
        let text =
            journal.file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        for line in text.lines() {
            journal.take(line);
        }
        journal
    }

    /// Reads a line: scenario, seed, seconds, kind of fault or "well", and a text.
    fn take(&self, line: &str) {
        let fields: Vec<&str> = line.splitn(5, '\t').collect();
        let [name, seed, seconds, how, said] = fields[..] else { return };
        let mut rows = self.rows.lock().unwrap();
        let row = rows.entry(name.to_owned()).or_default();
        row.seeds.insert(seed.parse().unwrap());
        row.seconds += seconds.parse::<f64>().unwrap();
        if let Some(kind) = KINDS.into_iter().find(|kind| kind.name() == how) {
            *row.faults.entry(kind).or_default() += 1;
            row.lines.push(format!("{how}: {said}"));
        }
    }

    pub(crate) fn has(&self, name: &str, seed: u64) -> bool {
        self.rows.lock().unwrap().get(name).is_some_and(|row| row.seeds.contains(&seed))
    }

    /// True if no further run may begin; counts omitted runs.
    pub(crate) fn leaves(&self) -> bool {
        let over = self.until.is_some_and(|until| Instant::now() > until);
        self.left.fetch_add(usize::from(over), Ordering::Relaxed);
        over
    }

    /// Returns failures of this scenario with this kind of fault.
    pub(crate) fn fault(&self, name: &str, kind: FaultKind) -> Option<usize> {
        self.rows.lock().unwrap().get(name)?.faults.get(&kind).copied()
    }

    pub(crate) fn add(
        &self,
        name: &str,
        drawn: &Parameters,
        fault: Option<(Parameters, Fault)>,
        took: Duration,
    ) {
        let (how, said) = match fault {
            None => ("well", drawn.to_string()),
            Some((smallest, fault)) => {
                let detail = fault.detail.replace(['\n', '\t'], " ");
                (fault.kind.name(), format!("{drawn}; smallest: {smallest}; {detail}"))
            }
        };
        let line = format!("{name}\t{}\t{:.2}\t{how}\t{said}", drawn.seed, took.as_secs_f64());
        if let Some(file) = &self.file {
            let mut file = std::fs::File::options().create(true).append(true).open(file).unwrap();
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        self.take(&line);
    }

    pub(crate) fn faults(&self, name: &str) -> Vec<String> {
        self.rows.lock().unwrap().get(name).map(|row| row.lines.clone()).unwrap_or_default()
    }

    /// Prints a line for each scenario, and one for all.
    pub(crate) fn print_table(&self) {
        let rows = self.rows.lock().unwrap();
        let heads: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        println!("| scenario | runs | {} | seconds a run |", heads.join(" | "));
        println!("|---|---:|{}---:|", "---:|".repeat(KINDS.len()));
        let mut all = ScenarioRow::default();
        let mut runs = 0;
        let print = |name: &str, runs: usize, row: &ScenarioRow| {
            let counts = KINDS.iter().map(|kind| row.faults.get(kind).copied().unwrap_or(0).to_string());
            let counts: Vec<String> = counts.collect();
            println!(
                "| {name} | {runs} | {} | {:.1} |",
                counts.join(" | "),
                row.seconds / runs.max(1) as f64
            );
        };
        for (name, row) in rows.iter() {
            print(&name.replace('_', " "), row.seeds.len(), row);
            runs += row.seeds.len();
            all.seconds += row.seconds;
            for (kind, count) in &row.faults {
                *all.faults.entry(*kind).or_default() += count;
            }
        }
        print(&format!("all {} scenarios", rows.len()), runs, &all);
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            println!("\n{left} runs are left for another part");
        }
    }
}
