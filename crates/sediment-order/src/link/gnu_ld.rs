// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section ordering file of GNU ld 2.43 and later: input statements that the linker inserts before those of its
//! default script.
//!
//! It does not end in `*(.text.*)`, because that would remove the unlisted functions from the default script's groups
//! of cold, exit, start-up and hot code.

use super::sections::{self, Dialect};
use super::{Linker, OrderedName, Placement, header};
use sediment_core::{Result, Skipped};

/// Row of this dialect in the table of linkers.
pub const LINKER: Linker = Linker {
    name: "gnu-ld",
    summary: "GNU ld 2.43 and later",
    arguments: "-Wl,--section-ordering-file,FILE",
    // Since 2.43. The option is searched by its name, because distributions backport later options.
    is_read_by: |version, help| version.starts_with("GNU ld") && help.contains("--section-ordering-file"),
    wants_calls: false,
    write,
    recognises,
    read,
};

fn write(placements: &[Placement]) -> (String, Skipped) {
    let (statements, skipped) = sections::write(placements, "  ");
    (format!("/* {} */\n.text : {{\n{statements}}}\n", header(&LINKER)), skipped)
}

fn recognises(text: &str) -> bool {
    sections::dialect(text) == Some(Dialect::OrderingFile)
}

fn read(text: &str) -> Result<Vec<OrderedName>> {
    sections::read(text)
}
