// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output of sediment's plugin for GCC: profiles without DSOs, for a unit or, at link time, for the whole
//! program.

use super::{HEAD, UnitGraph, UnitReader};
use sediment_core::profile::text;
use sediment_core::skipped::Skipped;
use sediment_core::{Error, ErrorCode, Result};

pub(super) const READER: UnitReader = UnitReader {
    name: "gcc-plugin",
    extension: "gv",
    summary: "call graphs of sediment's plugin for GCC (.gv)",
    recognises,
    read,
};

/// Beginning of the plugin's `source`.
const SOURCE: &str = "gcc call graph";
const WHOLE_PROGRAM: &str = "gcc call graph of the program";

fn recognises(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(HEAD)];
    head.starts_with(b"digraph ")
        && memchr::memmem::find(head, format!("source=\"{SOURCE}").as_bytes()).is_some()
}

fn read(name: &str, bytes: &[u8], skipped: &mut Skipped) -> Result<UnitGraph> {
    let (graph, lost) = text::parse(bytes)?;
    skipped.append(&lost);
    if !graph.dsos().is_empty() {
        return Err(Error::new(
            ErrorCode::UnknownFormat,
            "a profile of linked programs, not a call graph of a unit",
        )
        .with_hint("to join profiles: sediment merge"));
    }
    let whole_program = graph.source.contains(WHOLE_PROGRAM);
    Ok(UnitGraph { name: name.to_owned(), graph, whole_program })
}
