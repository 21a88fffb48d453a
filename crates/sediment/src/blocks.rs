// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of blocks of each function, for compilers ([`counts`]).

use crate::profile::Profile;
use crate::profile::blocks::Blocks;
use crate::skipped::{Reason, Skipped};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The first line of a file of counts.
pub const HEADER: &str = "sediment-blocks 2";

/// Counts above this are brought below it, all alike: sums of them stay within 64 bits.
const LARGEST: u128 = 1 << 40;

/// Writes the counts of blocks for sediment's plugin for GCC (`-fplugin-arg-sediment-profile=FILE`).
///
/// Behind the [`HEADER`] stands a line for each graph of a function: name, file, hash and blocks as in the profile's attribute, with tabs
/// between; by name, file and weight. A unit does not know which program it becomes part of: functions of one name and file are
/// one, whatever their DSO. gcc-plugin/counts.cc is the reader.
#[must_use]
pub fn counts(profile: &Profile) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    let mut functions: BTreeMap<String, Blocks> = BTreeMap::new();
    for function in profile.functions() {
        let Some(blocks) = &profile.facts(function).blocks else { continue };
        let key = profile.key(function);
        let line = format!("{}\t{}\t", key.name, key.file.as_deref().unwrap_or_default());
        if functions.entry(line).or_default().absorb(blocks).is_none() {
            skipped.add(Reason::BlocksBeyond, 0, &key.name);
        }
    }
    let largest = functions.values().map(Blocks::largest).max().unwrap_or(0);
    let scale = |count: u128| -> Result<u128, std::convert::Infallible> {
        Ok(if largest > LARGEST { (count / (largest / LARGEST + 1)).max(1) } else { count })
    };
    let mut text = format!("{HEADER}\n");
    for (line, blocks) in &functions {
        let Ok(scaled) = blocks.scaled(scale);
        for (hash, graph) in scaled.graphs() {
            let _ = writeln!(text, "{line}{hash:08x}\t{graph}");
        }
    }
    (text, skipped)
}
