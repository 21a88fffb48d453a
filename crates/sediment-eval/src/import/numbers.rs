// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads plain numbers, one on each line; each is a run's `elapsed` in seconds. Lines that begin with `#` are skipped;
//! `# metric: NAME` names another metric.

use super::{Imported, ImportedTable, Importer};
use sediment_core::error::{Error, Result};
use std::collections::BTreeMap;

pub(super) const IMPORTER: Importer = Importer {
    name: "numbers",
    summary: "one number per line, seconds unless a line `# metric: NAME` names another metric",
    labels_name_variants: false,
    looks_like: |text| {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.next().is_some_and(|line| line.parse::<f64>().is_ok())
    },
    read,
};

fn read(text: &str) -> Result<Vec<ImportedTable>> {
    let mut imported = Imported::default();
    let mut metric = "elapsed".to_owned();
    for (line, number) in text.lines().zip(1u64..) {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(name) = comment.trim().strip_prefix("metric:") {
                name.trim().clone_into(&mut metric);
            }
        } else if !line.is_empty() {
            let value = line.parse::<f64>().ok().filter(|value| value.is_finite());
            let value =
                value.ok_or_else(|| Error::at_line(number, "not a number").with_found(line.as_bytes()))?;
            imported.runs.push(BTreeMap::from([(metric.clone(), value)]));
        }
    }
    Ok(vec![ImportedTable { label: String::new(), line: 1, imported }])
}
