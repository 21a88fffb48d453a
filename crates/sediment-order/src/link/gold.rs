// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section ordering file of gold: one input section per line, or a wildcard for several. The whole line is the
//! name.
//!
//! gold puts listed functions after everything else in `.text`, and the rest loses its groups of cold, start-up and hot
//! code. Local symbols with the same name are not distinguished by file.

use super::sections::{self, AskedSection};
use super::{CLONES, Linker, OrderedName, Placement, header, heaviest, repeated};
use sediment_core::error::Result;
use sediment_core::escape;
use sediment_core::skipped::{Reason, Skipped};
use std::collections::HashSet;

/// Row of this dialect in the table of linkers.
pub const LINKER: Linker = Linker {
    name: "gold",
    summary: "gold",
    arguments: "-Wl,--section-ordering-file,FILE",
    is_read_by: |version, _| version.starts_with("GNU gold"),
    wants_calls: false,
    write,
    recognises,
    read,
};

fn write(placements: &[Placement]) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    // gold treats this line as a section that does not exist.
    let mut text = format!("# {}\n", header(&LINKER));
    let mut sections: HashSet<&str> = HashSet::new();
    let mut push = |section, line: String| {
        if sections.insert(section) {
            text.push_str(&line);
            text.push('\n');
        }
    };
    for (placement, kept) in placements.iter().zip(heaviest(placements)) {
        if !kept {
            repeated(placement, &mut skipped);
            continue;
        }
        let lines: Option<Vec<String>> = placement.sections.iter().map(|section| line_of(section)).collect();
        let Some(lines) = lines.filter(|_| !placement.name.is_empty()) else {
            skipped.add(Reason::UnwritableName, 0, &placement.name);
            continue;
        };
        placement.sections.iter().zip(lines).for_each(|(section, line)| push(section, line));
    }
    for section in placements.iter().flat_map(|placement| &placement.cold_sections) {
        if let Some(line) = escape::gold(section) {
            push(section, line);
        }
    }
    (text, skipped)
}

/// Returns the line for a section, or for the sections of all clones of a function.
fn line_of(section: &str) -> Option<String> {
    match section.strip_suffix(CLONES) {
        Some(stem) => Some(escape::gold(stem)? + ".*"),
        None => escape::gold(section),
    }
}

/// True for lines of sections, at least one of which contains a function's name.
fn recognises(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).peekable();
    lines.peek().is_some() && lines.all(|line| line.starts_with(".text."))
}

fn read(text: &str) -> Result<Vec<OrderedName>> {
    let lines = text.lines().zip(1..);
    let sections: Vec<AskedSection> = lines
        .filter_map(|(text, line)| {
            Some(AskedSection { section: escape::gold_literal(text)?, line, file: None })
        })
        .collect();
    Ok(sections::functions(&sections))
}
