// SPDX-License-Identifier: MIT OR Apache-2.0
//! gnu_ld.

use super::{Linker, OrderedName, Placement};
use crate::error::{Error, Losses, Result};

/// Its row in the table.
pub const LINKER: Linker = Linker { name: "gnu-ld", summary: "", arguments: "", write, recognises, read };

fn write(placements: &[Placement]) -> (String, Losses) {
    let _ = placements;
    (String::new(), Losses::default())
}

fn recognises(text: &str) -> bool {
    let _ = text;
    false
}

fn read(text: &str) -> Result<Vec<OrderedName>> {
    let _ = text;
    Err(Error::failed("not written"))
}
