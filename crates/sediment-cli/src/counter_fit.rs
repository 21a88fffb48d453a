// SPDX-License-Identifier: MIT OR Apache-2.0
//! Share of a profile's counters that a build could use, from the build's log, to which sediment's plugin for GCC adds
//! a line for each compiled unit.

use crate::files;
use sediment_core::plural::counted;
use sediment_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the plugin's log in the folder of `SEDIMENT_LOG`.
pub(crate) const LOG: &str = "counters.jsonl";

/// A line of the plugin's log.
#[derive(Deserialize)]
struct CompiledUnit {
    functions: u64,
    /// Number of changed functions.
    changed: u64,
    /// Weight of the unit's counters.
    weight: f64,
    changed_weight: f64,
}

/// Sums over the compiled units with counters.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Fitting {
    units: u64,
    changed_units: u64,
    functions: u64,
    changed_functions: u64,
    weight: f64,
    changed_weight: f64,
}

impl Fitting {
    /// Returns the sums of a build; `None` if no unit was compiled with counters.
    pub(crate) fn of_build(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(LOG);
        if !path.is_file() {
            return Ok(None);
        }
        let text = files::read(&path)?;
        let sums = Self::parse(&String::from_utf8_lossy(&text));
        sums.map(Some).map_err(|error| error.with_input(files::display(&path)))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut sums = Self::default();
        for (line, number) in text.lines().zip(1..) {
            let unit: CompiledUnit = serde_json::from_str(line).map_err(|_| {
                Error::at_line(number, "not a line of the plugin's log").with_found(line.as_bytes())
            })?;
            sums.units += 1;
            sums.changed_units += u64::from(unit.changed > 0);
            sums.functions = sums.functions.saturating_add(unit.functions);
            sums.changed_functions = sums.changed_functions.saturating_add(unit.changed);
            sums.weight += unit.weight;
            sums.changed_weight += unit.changed_weight;
        }
        Ok(sums)
    }

    /// Share of the weight that fits, in parts per million.
    fn parts_per_million(&self) -> u64 {
        if self.weight > 0.0 { ((1.0 - self.changed_weight / self.weight) * 1e6).round() as u64 } else { 0 }
    }

    /// One line for people.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "counters: {} of the weight fits the code; {} of {} functions have changed, in {}",
            in_percent(self.parts_per_million()),
            self.changed_functions,
            self.functions,
            counted(self.changed_units as usize, "unit"),
        )
    }

    pub(crate) fn output(&self) -> CountersOutput {
        CountersOutput {
            units: self.units,
            changed_units: self.changed_units,
            functions: self.functions,
            changed_functions: self.changed_functions,
            fits_percent: self.parts_per_million() as f64 / 10_000.0,
        }
    }
}

/// Units that were compiled with counters. A unit counts once for each compilation.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CountersOutput {
    units: u64,
    /// Units with changed functions.
    changed_units: u64,
    functions: u64,
    changed_functions: u64,
    /// Share of the counters' weight that fits the code of the units.
    fits_percent: f64,
}

/// Formats parts per million as per cent, rounded down.
fn in_percent(parts: u64) -> String {
    format!("{}.{:02} %", parts / 10_000, parts / 100 % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up() {
        let line = |functions: u64, changed: u64, weight: u64, unused: u64| {
            format!(
                "{{\"unit\":\"a.c\",\"functions\":{functions},\"changed\":{changed},\"weight\":{weight},\"changed_weight\":{unused}}}\n"
            )
        };
        let sums = Fitting::parse(&(line(3, 1, 60, 10) + &line(2, 0, 40, 0))).unwrap();
        assert_eq!(
            sums.in_words(),
            "counters: 90.00 % of the weight fits the code; 1 of 5 functions have changed, in 1 unit"
        );
        assert!(Fitting::parse("{\"unit\":\"a.c\"}\n").is_err());
    }
}
