// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf stat -I`: counts of parts of a run, which are added up; and its text, a line for each event of each part.
//!
//! ```text
//! #           time             counts unit events
//!      0.100145580              99.43 msec task-clock      #    0.994 CPUs utilized
//!      0.100145580          394023298      cycles          #    3.963 GHz
//! ```

use super::perf_text::row_of;
use super::{ImportedTable, Importer, perf_runs};
use sediment_core::error::{Error, Result};
use sediment_measure::perf_stat::{StatCount, across_cores, is_comment, is_time, new_count};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

pub(super) const IMPORTER: Importer = Importer {
    name: "perf stat -I text",
    summary: "perf stat -I; its intervals are added up, and appended files of -o are several runs",
    labels_name_variants: false,
    looks_like: |text| text.lines().any(is_head),
    read,
};

/// A count of a part of a run.
pub(super) struct IntervalCount {
    /// Number of headers before it.
    pub(super) heads: u64,
    /// Its line.
    pub(super) line: u64,
    /// Seconds from the run's start to the end of the part.
    pub(super) end: f64,
    /// The count.
    pub(super) count: StatCount,
}

/// Returns the lines that are not comments, each with the number of headers (`# started on …`) before it, and its own
/// number.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (u64, u64, &str)> {
    let mut heads = 0;
    text.lines().zip(1u64..).filter_map(move |(line, number)| {
        heads += u64::from(line.starts_with("# started on "));
        (!is_comment(line)).then_some((heads, number, line))
    })
}

/// Adds up the parts of each run. The next run begins after a header, or with a part that ends before the previous one.
/// An event that was not counted in some part is marked as scaled. The end of the last part is the elapsed time.
pub(super) fn whole_runs(parts: Vec<IntervalCount>) -> Result<Vec<(u64, StatCount)>> {
    let mut all = Vec::new();
    let mut run: Vec<(u64, StatCount)> = Vec::new();
    // Indices in the run by event and modifiers.
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    let (mut heads, mut end, mut line) = (0, 0.0, 1);
    let is_same =
        |one: &IntervalCount, other: &IntervalCount| one.heads == other.heads && one.end == other.end;
    for part in across_cores(parts, |part| &mut part.count, is_same) {
        if part.count.error_percent.is_some() {
            return Err(Error::at_line(part.line, "a mean of several runs inside an interval of one run"));
        }
        if part.end < end || part.heads != heads {
            all.append(&mut closed(run, line, end));
            run = Vec::new();
            known.clear();
        }
        (heads, end, line) = (part.heads, part.end, part.line);
        match known.entry((part.count.event.clone(), part.count.modifiers.clone())) {
            Entry::Occupied(place) => add(&mut run[*place.get()].1, &part.count),
            Entry::Vacant(place) => {
                place.insert(run.len());
                run.push((part.line, part.count));
            }
        }
    }
    all.append(&mut closed(run, line, end));
    Ok(all)
}

fn add(sum: &mut StatCount, part: &StatCount) {
    sum.running = sum.running.min(part.running);
    match (&mut sum.value, &part.value) {
        (Ok(sum), Ok(value)) => *sum += value,
        (Err(_), Ok(value)) => {
            sum.value = Ok(*value);
            sum.running = 0.0;
        }
        (Ok(_), Err(_)) => sum.running = 0.0,
        (Err(_), Err(_)) => {}
    }
}

/// Ends a run with the elapsed time.
fn closed(mut run: Vec<(u64, StatCount)>, line: u64, end: f64) -> Vec<(u64, StatCount)> {
    if !run.is_empty() && !run.iter().any(|(_, count)| count.event == "duration_time") {
        run.push((line, new_count(&end.to_string(), "sec", "duration_time", 100.0, None)));
    }
    run
}

fn is_head(line: &str) -> bool {
    line.split_whitespace().eq(["#", "time", "counts", "unit", "events"])
}

fn read(text: &str) -> Result<Vec<ImportedTable>> {
    let (mut parts, mut unknown) = (Vec::new(), Vec::new());
    for (heads, number, line) in lines(text) {
        match line.trim_start().split_once(char::is_whitespace) {
            // A metric that perf derives from other counts.
            Some((time, rest)) if is_time(time) && rest.trim_start().starts_with('#') => {}
            Some((time, rest)) if is_time(time) => match (time.parse(), row_of(rest.trim())) {
                (Ok(end), Some(row)) => {
                    parts.push(IntervalCount { heads, line: number, end, count: row.count() })
                }
                _ => unknown.push(line.to_owned()),
            },
            _ => unknown.push(line.to_owned()),
        }
    }
    let imported = super::Imported { unknown, ..perf_runs(whole_runs(parts)?)? };
    Ok(vec![ImportedTable { label: String::new(), line: 1, imported }])
}
