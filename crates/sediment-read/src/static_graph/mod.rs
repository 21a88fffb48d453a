// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call graphs that compilers write, without a run: graphs of units, joined for a linked file.
//!
//! Each compiler writes its own files, one per unit; [`UNIT_READERS`] reads them. [`join_units()`] finds which functions of the units
//! a linked file has and joins calls that cross units; [`estimate`](sediment_core::estimate::estimate) spreads calls from where the program begins.

mod callgraph_info;
mod gcc_plugin;
mod join_units;
mod llvm_section;

pub(crate) use join_units::LinkedSymbols;
pub use join_units::{Linked, join_units};
use sediment_core::skipped::{Reason, Skipped};

use sediment_core::profile::{EdgeFacts, FunctionIndex, FunctionKey, Profile};
use sediment_core::{Error, ErrorCode, Result};

/// Call graph of one unit, or of a whole program where the compiler saw that.
#[derive(Debug, Clone)]
pub struct UnitGraph {
    /// Path of its file as it was given, for messages and to be found in a link map.
    pub name: String,
    /// Functions without a DSO; local ones with the file of their unit.
    pub graph: Profile,
    /// It is of the whole program, as link-time optimisation saw it: what single units say of its functions is older.
    pub whole_program: bool,
}

/// One kind of file that a compiler leaves.
#[derive(Debug)]
pub struct UnitReader {
    /// Its name.
    pub name: &'static str,
    /// Ending of the names of such files.
    pub extension: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Recognises content of this kind by its start; [`HEAD`] bytes are enough.
    pub recognises: fn(&[u8]) -> bool,
    /// Reads it; `name` is what the unit is to be called.
    pub read: fn(&str, &[u8], &mut Skipped) -> Result<UnitGraph>,
}

/// The kinds of files.
pub const UNIT_READERS: &[UnitReader] = &[gcc_plugin::READER, callgraph_info::READER, llvm_section::READER];

/// Reads what a compiler says of a unit, its kind found by content.
///
/// # Errors
/// Where the content is none of [`UNIT_READERS`], or damaged.
pub fn read_unit(name: &str, bytes: &[u8], skipped: &mut Skipped) -> Result<UnitGraph> {
    let reader = UNIT_READERS.iter().find(|reader| (reader.recognises)(bytes)).ok_or_else(|| {
        let kinds: Vec<&str> = UNIT_READERS.iter().map(|reader| reader.summary).collect();
        Error::new(ErrorCode::UnknownFormat, "not a call graph of a unit")
            .with_hint(format!("supported: {}", kinds.join("; ")))
    })?;
    (reader.read)(name, bytes, skipped)
}

/// Number of bytes of a file that tell its kind.
pub const HEAD: usize = 512;

/// True for the start of a unit's call graph.
#[must_use]
pub fn is_unit(head: &[u8]) -> bool {
    UNIT_READERS.iter().any(|reader| (reader.recognises)(head))
}

/// Adds a function by name, or counts what has no acceptable name.
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

/// Adds to what is known of a call, from the same unit: frequencies and counts add up.
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

/// The lesser of two, or the one that is known.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
