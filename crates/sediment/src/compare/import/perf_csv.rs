// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf stat -x,` (or another separator of one character): a row for each event. Rows of one event that repeat are further runs;
//! with `-r` they are means with a standard error in per cent, of a number of runs that the file does not say.

use super::{Imported, Importer, Table, perf_metric};
use crate::error::{Error, Result};
use crate::measure::perf_stat::{Count, row, scaled};
use std::collections::BTreeMap;

pub(super) const IMPORTER: Importer = Importer {
    name: "perf stat -x",
    summary: "perf stat -x with any one character; appended files are several runs",
    looks_like: |text| separator(text).is_some(),
    read: |text| {
        let separator = separator(text).unwrap_or(',');
        let mut counts = Vec::new();
        for (line, number) in text.lines().zip(1u64..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let count = row(line, separator).ok_or_else(|| {
                Error::at_line(number, "this is no row of perf stat -x").with_found(line.as_bytes())
            })?;
            counts.push((number, count));
        }
        Ok(vec![Table { label: String::new(), line: 1, imported: runs(counts)? }])
    },
};

/// The separator: the one that makes the first row a row.
fn separator(text: &str) -> Option<char> {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'))?;
    [',', ';', '\t', '|', ':'].into_iter().find(|separator| {
        row(first, *separator).is_some_and(|count| {
            let letter = |c: char| c.is_ascii_alphabetic();
            count.event.contains(letter) && first.split(*separator).count() >= 4
        })
    })
}

/// Counts in the order of a file, as runs: an event that was seen in the run before begins the next one.
pub(super) fn runs(counts: Vec<(u64, Count)>) -> Result<Imported> {
    let mut imported = Imported::default();
    let mut run: BTreeMap<String, f64> = BTreeMap::new();
    let mut seen: Vec<String> = Vec::new();
    for (number, count) in counts {
        if count.error_percent.is_some_and(|percent| percent != 0.0) {
            return Err(Error::at_line(
                number,
                "this is the mean of several runs, and the file does not say how many",
            )
            .with_hint(
                "record without -r, once for each run, or import perf stat's text, which says how many runs",
            ));
        }
        let name = perf_metric(&count.event);
        if seen.contains(&name) {
            imported.runs.push(std::mem::take(&mut run));
            seen.clear();
        }
        seen.push(name.clone());
        match &count.value {
            Ok(value) => {
                if scaled(&count) {
                    imported.scaled.insert(name.clone());
                }
                run.insert(name, *value);
            }
            Err(why) => {
                imported.absent.insert(name, format!("perf said {why}"));
            }
        }
    }
    imported.runs.push(run);
    imported.runs.retain(|run| !run.is_empty());
    // What was counted in one run is not absent.
    imported.absent.retain(|name, _| !imported.runs.iter().any(|run| run.contains_key(name)));
    Ok(imported)
}
