// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file by which sediment's plugin for GCC gives a compilation its counters.
//!
//! Behind the [`HEADER`] and the largest count comes a line for each variant: name, file, unit, checksums and counts of the
//! function, with tabs between; by name and file, then the heaviest first. `early+` stands before units whose counters are of early ids: of
//! them the plugin splits nothing, and has GCC split functions where it does without instrumentation. gcc-plugin/counters.cc is the reader.

use super::INSTRUMENTED;
use sediment_core::profile::Profile;
use sediment_core::profile::counters::ArcCounters;
use sediment_core::skipped::{Reason, Skipped};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Beginning of the first line of a file of counters.
pub const HEADER: &str = "sediment-counters 1";

/// The largest count of a file. GCC's own files have no room for larger ones in their summary, and it derives from that the least count
/// that is hot.
const LARGEST: u128 = u32::MAX as u128;

/// Writes the counters of a profile for sediment's plugin for GCC (`-fplugin-arg-sediment-counters=FILE`). Counts too large
/// for GCC are brought down, all alike, those above 0 never to it.
#[must_use]
pub fn counters(profile: &Profile) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    // A unit does not know which program it becomes part of: functions of one name and file are one, whatever their DSO.
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
    // Counters without a mark and without instrumentation: of an older profile by early ids.
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
