// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the text of `perf stat`: one table for each invocation, from a terminal, a log, or a mail, where lines begin
//! with `>` and long ones are broken.
//!
//! ```text
//!  Performance counter stats for 'netperf' (3 runs):
//!
//!     3779.262214 task-clock        #    0.378 CPUs utilized     ( +- 0.37% )
//!   8,885,976,365 cycles            #    2.351 GHz               ( +- 0.37% ) (83.3%)
//!
//!    10.009993130 seconds time elapsed                           ( +- 0.04% )
//! ```
//!
//! With `-r` the value is a mean, and `+-` its standard error in per cent. The deviation is this error, times the mean,
//! times the root of the number of runs. A table without `(N runs)` is one run. The line above a table, such as
//! `O2 + netperf`, is its label.

use super::{Imported, ImportedTable, Importer, perf_metric};
use crate::data::SampleSummary;
use sediment_core::error::{Error, Result};
use sediment_measure::perf_stat::{StatCount, across_cores, new_count, scaled};

pub(super) const IMPORTER: Importer = Importer {
    name: "perf stat text",
    summary: "perf stat, with or without -r; several tables are several runs, or the label chooses one",
    labels_name_variants: false,
    looks_like: |text| text.contains(HEAD),
    read,
};

/// Beginning of the lines of top-down analysis, which newer perfs print by default.
const TOP_DOWN: &str = "TopdownL";
const HEAD: &str = "Performance counter stats for";

fn read(text: &str) -> Result<Vec<ImportedTable>> {
    let mut tables: Vec<ImportedTable> = Vec::new();
    let mut label = String::new();
    let mut open: Option<OpenTable> = None;
    for (line, number) in text.lines().zip(1u64..) {
        let line = unquoted(line);
        if line.contains(HEAD) {
            tables.extend(open.take().map(OpenTable::close).transpose()?);
            open = Some(OpenTable::new(line, number, std::mem::take(&mut label)));
        } else if let Some(table) = open.as_mut().filter(|table| table.takes(line)) {
            table.add(line);
        } else if !line.is_empty() {
            tables.extend(open.take().map(OpenTable::close).transpose()?);
            line.clone_into(&mut label);
        }
    }
    tables.extend(open.map(OpenTable::close).transpose()?);
    Ok(tables)
}

/// A line without the marks of a quoted mail and without blanks around it.
fn unquoted(line: &str) -> &str {
    line.trim_start_matches(['>', ' ', '\t', '|']).trim_end()
}

/// A table whose end has not been read; broken lines are joined.
struct OpenTable {
    label: String,
    runs: Option<u64>,
    head: u64,
    rows: Vec<String>,
    elapsed: bool,
}

impl OpenTable {
    fn new(line: &str, number: u64, label: String) -> Self {
        let runs = line.rsplit_once('(').and_then(|(_, rest)| rest.split_once(" runs)")?.0.parse().ok());
        Self { label, runs, head: number, rows: Vec::new(), elapsed: false }
    }

    /// True if a line belongs to this table: a blank one, a row, or the continuation of a row.
    fn takes(&self, line: &str) -> bool {
        if line.is_empty() || is_error(line) {
            return true;
        }
        if self.elapsed {
            return line.ends_with("seconds user") || line.ends_with("seconds sys");
        }
        true
    }

    fn add(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        let begins_row = line.starts_with(|c: char| c.is_ascii_digit()) && !is_continued(line)
            || line.starts_with("<not")
            || line.starts_with(TOP_DOWN);
        match self.rows.last_mut() {
            Some(row) if !begins_row => {
                row.push(' ');
                row.push_str(line);
            }
            // A metric that perf derives from other counts.
            None if line.starts_with('#') => {}
            _ => self.rows.push(line.to_owned()),
        }
        self.elapsed |= line.contains("seconds time elapsed");
    }

    fn close(self) -> Result<ImportedTable> {
        let mut imported = Imported::default();
        let mut run = std::collections::BTreeMap::new();
        let mut counts = Vec::new();
        // Metrics of top-down analysis have no count.
        for text in self.rows.iter().filter(|text| !text.starts_with(TOP_DOWN)) {
            match row_of(text) {
                Some(row) => counts.push(row.count()),
                None => imported.unknown.push(text.to_owned()),
            }
        }
        for count in across_cores(counts, |count| count, |_, _| true) {
            let name = perf_metric(&count.event);
            match (&count.value, self.runs) {
                (Err(why), _) => {
                    imported.absent.insert(name, format!("perf reported {why}"));
                    continue;
                }
                (Ok(mean), Some(runs)) => {
                    let root = (runs as f64).sqrt();
                    let deviation = count.error_percent.map(|percent| percent / 100.0 * mean * root);
                    imported
                        .summaries
                        .push((name.clone(), SampleSummary { count: runs, mean: *mean, deviation }));
                }
                (Ok(value), None) => {
                    run.insert(name.clone(), *value);
                }
            }
            if scaled(&count) {
                imported.scaled.insert(name);
            }
        }
        if run.is_empty() && imported.summaries.is_empty() {
            return Err(Error::at_line(self.head, "a table of perf stat without a value: is it cut off?"));
        }
        if !run.is_empty() {
            imported.runs.push(run);
        }
        Ok(ImportedTable { label: self.label, line: self.head, imported })
    }
}

/// `( +- 0.37% )` on a line of its own.
fn is_error(line: &str) -> bool {
    line.starts_with("( +-") || line.starts_with("(+-") || line.starts_with("( +−")
}

/// A number that continues a comment, as in `# 2.28 stalled cycles per`, begins with `#`; no row begins with a single
/// one.
fn is_continued(line: &str) -> bool {
    line.split_whitespace().nth(1).is_none()
}

pub(super) struct PerfTextRow {
    value: String,
    unit: String,
    event: String,
    running: Option<f64>,
    error_percent: Option<f64>,
}

impl PerfTextRow {
    pub(super) fn count(&self) -> StatCount {
        new_count(&self.value, &self.unit, &self.event, self.running.unwrap_or(100.0), self.error_percent)
    }
}

/// Reads one row; `None` if the text is not a row.
pub(super) fn row_of(text: &str) -> Option<PerfTextRow> {
    let error_percent = text.rsplit_once("+-").and_then(|(_, rest)| {
        // `0.05507 +- 0.00291 seconds time elapsed ( +- 5.29% )`: the last number is the one in per cent.
        rest.trim().split('%').next()?.trim().parse().ok().filter(|_| rest.contains('%'))
    });
    let running =
        text.trim_end().strip_suffix("%)").or_else(|| text.trim_end().strip_suffix("%]")).and_then(|rest| {
            let (_, number) = rest.rsplit_once(['(', '['])?;
            number.trim().parse().ok()
        });
    let before_comment = text.split('#').next()?;
    let before_error = before_comment.split("( +-").next()?;
    let mut words = before_error.split_whitespace();
    let first = words.next()?;
    let value = if first.starts_with('<') {
        format!("{first} {}", words.next().unwrap_or_default())
    } else {
        let plain: String = first.chars().filter(|c| *c != ',').collect();
        plain.parse::<f64>().ok()?;
        plain
    };
    let rest: Vec<&str> = words.filter(|word| !word.starts_with(['(', '['])).collect();
    let joined = rest.join(" ");
    let (unit, event) = if joined.ends_with("seconds time elapsed") {
        ("sec", "elapsed")
    } else if joined == "seconds user" {
        ("sec", "user")
    } else if joined == "seconds sys" {
        ("sec", "sys")
    } else {
        match rest.as_slice() {
            // Older perfs print no unit; these two are always in milliseconds.
            [event] if matches!(*event, "task-clock" | "cpu-clock") => ("msec", *event),
            [event] => ("", *event),
            [unit, event] => (*unit, *event),
            _ => return None,
        }
    };
    Some(PerfTextRow { value, unit: unit.to_owned(), event: event.to_owned(), running, error_percent })
}
