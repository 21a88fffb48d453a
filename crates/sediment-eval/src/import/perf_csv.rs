// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf stat -x,` (or another separator of one character): a row for each event. Rows of one event that repeat are further runs;
//! with `-r` they are means with a standard error in per cent, of a number of runs that the file does not say. With `-I` they are
//! counts of parts of a run.

use super::intervals::{IntervalCount, lines, whole_runs};
use super::{ImportedTable, Importer, perf_runs};
use sediment_measure::perf_stat::{StatRow, is_comment, row};

pub(super) const IMPORTER: Importer = Importer {
    name: "perf stat -x",
    summary: "perf stat -x with any one character, with or without -I; appended files are several runs",
    labels_name_variants: false,
    looks_like: |text| separator(text).is_some(),
    read: |text| {
        let separator = separator(text).unwrap_or(',');
        let (mut counts, mut parts, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for (heads, number, line) in lines(text) {
            match row(line, separator) {
                StatRow::Count(count) => counts.push((number, count)),
                StatRow::Metric => {}
                StatRow::Interval(end, count) => {
                    parts.push(IntervalCount { heads, line: number, end, count })
                }
                StatRow::Unknown => unknown.push(line.to_owned()),
            }
        }
        counts.extend(whole_runs(parts)?);
        let imported = super::Imported { unknown, ..perf_runs(counts)? };
        Ok(vec![ImportedTable { label: String::new(), line: 1, imported }])
    },
};

/// Finds the separator: the one with which at least half of the lines are rows.
fn separator(text: &str) -> Option<char> {
    let lines = || text.lines().filter(|line| !is_comment(line));
    [',', ';', '\t', '|', ':'].into_iter().find(|separator| {
        let is_row = |line: &&str| match row(line, *separator) {
            StatRow::Count(count) => {
                count.event.contains(|c: char| c.is_ascii_alphabetic()) && line.split(*separator).count() >= 4
            }
            StatRow::Metric | StatRow::Interval(..) => true,
            StatRow::Unknown => false,
        };
        let rows = lines().filter(is_row).count();
        rows > 0 && 2 * rows >= lines().count()
    })
}
