// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the file from which sediment's plugin for GCC reads the counters of a compilation.
//!
//! After the [`HEADER`] and the largest count, each variant has a line with name, file, unit, checksums and counts of
//! the function, separated by tabs. Lines are sorted by name and file, then the heaviest first. Units whose counters
//! come from early ids have the prefix `early+`: for these the plugin splits no functions, and makes GCC split them at
//! the same point as without instrumentation. The reader is gcc-plugin/counters.cc.

use super::INSTRUMENTED;
use sediment_core::profile::Profile;
use sediment_core::profile::counters::ArcCounters;
use sediment_core::skipped::{Reason, Skipped};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Beginning of the first line of a file of counters.
pub const HEADER: &str = "sediment-counters 1";

/// Largest count in a file. The summary of GCC's own files has no room for larger ones, and GCC derives the threshold
/// of hot code from it.
const LARGEST: u128 = u32::MAX as u128;

/// Writes the counters of a profile for sediment's plugin for GCC (`-fplugin-arg-sediment-counters=FILE`). If counts
/// are too large for GCC, all are scaled down; counts above 0 stay above 0.
#[must_use]
pub fn counters(profile: &Profile) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    // A unit does not know which program it becomes part of. Therefore functions with the same name and file are one,
    // whatever their DSO.
    let mut functions: BTreeMap<String, ArcCounters> = BTreeMap::new();
    for function in profile.functions() {
        let Some(counters) = &profile.facts(function).counters else { continue };
        let mut counters = ArcCounters::clone(counters);
        counters.retain(|variant| variant.llvm().is_none());
        if counters.is_empty() {
            continue;
        }
        let key = profile.key(function);
        let line = format!("{}\t{}\t", key.name, key.file.as_deref().unwrap_or_default());
        if functions.entry(line).or_default().absorb(&counters).is_none() {
            skipped.add(Reason::CountersBeyond, 0, &key.name);
        }
    }
    let largest = functions.values().map(ArcCounters::largest).max().unwrap_or(0);
    let divisor = largest.div_ceil(LARGEST).max(1);
    let scale =
        |count: u128| -> Result<u128, std::convert::Infallible> { Ok((count / divisor).max(count.min(1))) };
    // Counters without a mark and without instrumentation come from an older profile by early ids.
    let are_early = !profile.source.iter().any(|source| source.starts_with(INSTRUMENTED));
    let mut text = format!("{HEADER} {}\n", largest / divisor);
    for (line, counters) in &functions {
        let Ok(scaled) = counters.scaled(scale);
        for (variant, counted) in scaled.variants() {
            let variant = if are_early { &variant.as_early() } else { variant };
            let _ = writeln!(
                text,
                "{line}{}\t{:08x}.{:08x}\t{}{}",
                variant.unit(),
                variant.line,
                variant.graph,
                counted.arcs,
                counted.values
            );
        }
    }
    (text, skipped)
}
