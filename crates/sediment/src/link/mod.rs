// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`LINKERS`]: an order as a file that a linker understands, and back again for [`crate::verify`].
//!
//! One statement per function: several patterns in one statement would be placed in file order. What is not listed keeps the
//! linker's own default treatment. To add a dialect: one file here, one row in [`LINKERS`], a folder in tests/golden/link, a
//! section of docs/linkers.md.

pub mod gnu_ld;
pub mod gnu_ld_script;
pub mod list;
pub mod lld;

use crate::binary::{Binary, names};
use crate::error::{Losses, Result};
use crate::graph::{BuiltGraph, Order};

/// A function to be placed, and the names by which a linker can know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Linkage name.
    pub name: String,
    /// Input sections that may hold it, in the order in which they are to be placed.
    pub sections: Vec<String>,
    /// Input sections that may hold its split cold part, to be placed behind all functions.
    pub cold_sections: Vec<String>,
}

/// One dialect of ordering file.
#[derive(Debug, Clone, Copy)]
pub struct Linker {
    /// The name the user chooses it by.
    pub name: &'static str,
    /// Which linkers read it.
    pub summary: &'static str,
    /// The compiler's arguments that hand the file to the linker; `FILE` stands for its path.
    pub arguments: &'static str,
    /// Writes the placements; what the dialect cannot express is left out and counted.
    pub write: fn(&[Placement]) -> (String, Losses),
    /// Whether this text looks like the dialect.
    pub recognises: fn(&str) -> bool,
    /// The functions that such a text asks for, in order, as names; cold parts as `NAME.cold`.
    pub read: fn(&str) -> Result<Vec<OrderedName>>,
}

/// One function that an ordering file asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OrderedName {
    /// Linkage name.
    pub name: String,
    /// Line of the file that asks for it first, from 1.
    pub line: u64,
}

/// Every dialect there is.
pub const LINKERS: &[Linker] = &[gnu_ld::LINKER, gnu_ld_script::LINKER, lld::LINKER, list::LINKER];

/// The dialect of this name.
#[must_use]
pub fn linker(name: &str) -> Option<&'static Linker> {
    LINKERS.iter().find(|linker| linker.name == name)
}

/// The functions of an order as a linker can know them, and what could not be told apart.
#[must_use]
pub fn placements(order: &Order, built: &BuiltGraph, binary: Option<&Binary>) -> (Vec<Placement>, Losses) {
    let _ = binary;
    let placed = order
        .functions()
        .map(|id| {
            let name = built.table.keys[id.index()].name.clone();
            let sections = names::sections(&name, None);
            Placement { name, sections: sections.own, cold_sections: sections.cold }
        })
        .collect();
    (placed, Losses::default())
}
