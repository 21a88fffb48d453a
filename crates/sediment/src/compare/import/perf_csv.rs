// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf stat -x,` (or another separator of one character): a row for each event. Rows of one event that repeat are further runs;
//! with `-r` they are means with a standard error in per cent, of a number of runs that the file does not say.

use super::{Importer, Table, perf_runs};
use crate::error::Error;
use crate::measure::perf_stat::row;

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
        Ok(vec![Table { label: String::new(), line: 1, imported: perf_runs(counts)? }])
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
