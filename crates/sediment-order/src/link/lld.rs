// SPDX-License-Identifier: MIT OR Apache-2.0
//! The symbol ordering file of lld: one symbol per line; `#` starts a comment line.
//!
//! lld looks up the section of each symbol, so a function may be in any section. Local symbols with the same name are
//! all placed together. Cold parts are separate symbols: those made by block counts come after all functions; others
//! are listed only if they were executed.

use super::{Linker, MADE_BY, OrderedName, Placement, header, looks_like_lines, read_lines, write_lines};
use sediment_core::escape;
use sediment_core::{Result, Skipped};
use std::collections::HashSet;

/// Row of this dialect in the table of linkers.
pub const LINKER: Linker = Linker {
    name: "lld",
    summary: "lld (LLVM)",
    arguments: "-Wl,--symbol-ordering-file,FILE -Wl,--no-warn-symbol-ordering",
    // Its version text also claims compatibility with GNU linkers.
    is_read_by: |version, _| version.contains("LLD"),
    wants_calls: false,
    write,
    recognises,
    read,
};

/// What to do about objects that lld does not read.
pub const NO_GCC_LTO: &str = "lld cannot link objects of GCC's -flto: link by GNU ld, gold or mold (-fuse-ld=bfd, gold, mold), or compile with -ffat-lto-objects, which lld links without LTO";

fn write(placements: &[Placement]) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    let mut text = format!("# {}\n", header(&LINKER));
    write_lines(placements, escape::lld, &mut text, &mut skipped);
    let own: HashSet<&str> = placements.iter().map(|placement| placement.name.as_str()).collect();
    let mut parts: HashSet<&str> = HashSet::new();
    for part in placements.iter().filter_map(|placement| placement.cold_name.as_deref()) {
        if let Some(line) = escape::lld(part).filter(|_| !own.contains(part) && parts.insert(part)) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    (text, skipped)
}

fn recognises(text: &str) -> bool {
    text.starts_with(&format!("# {MADE_BY}"))
        || text.lines().any(|line| line.trim_start().starts_with('#'))
            && (looks_like_lines(text) || read_lines(text).is_empty())
}

fn read(text: &str) -> Result<Vec<OrderedName>> {
    Ok(read_lines(text))
}
