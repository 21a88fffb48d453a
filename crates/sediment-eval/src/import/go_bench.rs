// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output of `go test -bench`: `BenchmarkName-8 1000 1234 ns/op 56 B/op 2 allocs/op`, each line a run
//! (`-count`). The benchmark's name, without the number of processors, is the label of its table.

use super::{Imported, ImportedTable, Importer};
use sediment_core::error::{Error, Result};
use std::collections::BTreeMap;

pub(super) const IMPORTER: Importer = Importer {
    name: "Go benchmark",
    summary: "go test -bench, with -count for several runs; the label chooses one of several benchmarks",
    labels_name_variants: true,
    looks_like: |text| text.lines().any(|line| line.starts_with("Benchmark") && line.contains("/op")),
    read,
};

fn read(text: &str) -> Result<Vec<ImportedTable>> {
    let mut tables: Vec<ImportedTable> = Vec::new();
    for (line, number) in text.lines().zip(1u64..) {
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|name| name.starts_with("Benchmark")) else { continue };
        // If a benchmark prints something, or fails, its name is alone on a line.
        let Some(iterations) = words.next() else { continue };
        let rest: Vec<&str> = words.collect();
        let damaged = || Error::at_line(number, "not a benchmark result").with_found(line.as_bytes());
        iterations.parse::<u64>().map_err(|_| damaged())?;
        if rest.is_empty() || rest.len() % 2 != 0 {
            return Err(damaged());
        }
        let label = match name.rsplit_once('-') {
            Some((label, processors)) if processors.bytes().all(|b| b.is_ascii_digit()) => label,
            _ => name,
        };
        let at = tables.iter().position(|table| table.label == label).unwrap_or_else(|| {
            tables.push(ImportedTable {
                label: label.to_owned(),
                line: number,
                imported: Imported::default(),
            });
            tables.len() - 1
        });
        let imported = &mut tables[at].imported;
        let mut run = BTreeMap::new();
        for pair in rest.chunks(2) {
            let value: f64 = pair[0].parse().map_err(|_| damaged())?;
            let (metric, unit, value) = match pair[1] {
                "ns/op" => ("time/op", "s", value / 1e9),
                "B/op" => ("B/op", "bytes", value),
                other => (other, "count", value),
            };
            imported.units.insert(metric.to_owned(), unit.to_owned());
            run.insert(metric.to_owned(), value);
        }
        imported.runs.push(run);
    }
    Ok(tables)
}
