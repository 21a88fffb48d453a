// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plain list with one symbol per line and nothing else, for people and other programs.

use super::{Linker, OrderedName, Placement, looks_like_lines, read_lines, write_lines};
use sediment_core::escape;
use sediment_core::{Result, Skipped};

/// Row of this dialect in the table of linkers.
pub(super) const LINKER: Linker = Linker {
    name: "list",
    summary: "people and scripts, one symbol per line",
    arguments: "(no linker reads it under this name)",
    is_read_by: |_, _| false,
    wants_calls: false,
    write,
    recognises,
    read,
};

fn write(placements: &[Placement]) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    let mut text = String::new();
    // The lines are valid for any program that skips `#` lines and trims.
    write_lines(placements, escape::lld, &mut text, &mut skipped);
    (text, skipped)
}

fn recognises(text: &str) -> bool {
    looks_like_lines(text)
}

fn read(text: &str) -> Result<Vec<OrderedName>> {
    Ok(read_lines(text))
}
