// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call graphs by compilers, which need no run: graphs of units, joined for a linked file.
//!
//! Each compiler writes its own files, one per unit; [`UNIT_READERS`] reads them. [`join_units()`] finds the functions
//! of the units in a linked file and joins calls between units; [`estimate`](sediment_core::estimate::estimate)
//! propagates calls from the beginning of the program.

mod callgraph_info;
mod gcc_plugin;
mod join_units;
mod llvm_section;

pub(crate) use join_units::LinkedSymbols;
pub use join_units::{Linked, join_units};
use sediment_core::skipped::{Reason, Skipped};

use sediment_core::profile::{EdgeFacts, FunctionIndex, FunctionKey, Profile};
use sediment_core::{Error, ErrorCode, Result};

/// Call graph of one unit, or of a whole program if the compiler saw it.
#[derive(Debug, Clone)]
pub struct UnitGraph {
    /// Path of its file as given, for messages and for the search in a link map.
    pub name: String,
    /// Functions without a DSO; local functions have the file of their unit.
    pub graph: Profile,
    /// True for a graph of the whole program, made during link-time optimisation: data of single units on its functions
    /// is older.
    pub whole_program: bool,
}

/// A kind of file written by a compiler.
#[derive(Debug)]
pub struct UnitReader {
    /// Its name.
    pub name: &'static str,
    /// Extension of such files.
    pub extension: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Recognises such a file by its beginning; [`HEAD`] bytes are enough.
    pub recognises: fn(&[u8]) -> bool,
    /// Reads it; `name` becomes the name of the unit.
    pub read: fn(&str, &[u8], &mut Skipped) -> Result<UnitGraph>,
}

/// All kinds of files.
pub const UNIT_READERS: &[UnitReader] = &[gcc_plugin::READER, callgraph_info::READER, llvm_section::READER];

/// Reads a compiler's graph of a unit; the content decides its kind.
///
/// # Errors
/// If no reader in [`UNIT_READERS`] recognises the content, or if it is damaged.
pub fn read_unit(name: &str, bytes: &[u8], skipped: &mut Skipped) -> Result<UnitGraph> {
    let reader = UNIT_READERS.iter().find(|reader| (reader.recognises)(bytes)).ok_or_else(|| {
        let kinds: Vec<&str> = UNIT_READERS.iter().map(|reader| reader.summary).collect();
        Error::new(ErrorCode::UnknownFormat, "not a call graph of a unit")
            .with_hint(format!("supported: {}", kinds.join("; ")))
    })?;
    (reader.read)(name, bytes, skipped)
}

/// Number of bytes of a file that decide its kind.
pub const HEAD: usize = 512;

/// True for the beginning of a unit's call graph.
#[must_use]
pub fn is_unit(head: &[u8]) -> bool {
    UNIT_READERS.iter().any(|reader| (reader.recognises)(head))
}

/// Adds a function by name, or counts one without an acceptable name.
fn add_function(
    graph: &mut Profile,
    name: &[u8],
    file: Option<&[u8]>,
    skipped: &mut Skipped,
) -> Option<FunctionIndex> {
    match FunctionKey::new(None, name, file) {
        Some(key) => Some(graph.function(key)),
        None => {
            skipped.add(Reason::UnwritableFunction, 0, name);
            None
        }
    }
}

/// Adds data of the same unit on a call: frequencies and counts are added up.
fn add_call(edge: &mut EdgeFacts, more: &EdgeFacts) {
    if let Some(calls) = more.static_calls {
        let sum = edge.static_calls.unwrap_or_default().0.saturating_add(calls.0);
        edge.static_calls = Some(sediment_core::profile::Millionths(sum));
    }
    if let Some(count) = more.count {
        edge.count = Some(edge.count.unwrap_or(0).saturating_add(count));
    }
    edge.kind = least(edge.kind, more.kind);
}

/// Returns the smaller of two, or the known one.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
