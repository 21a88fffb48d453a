// SPDX-License-Identifier: MIT OR Apache-2.0
//! A linker script for every GNU ld, those before 2.43 too: one output section, inserted before `.text` of whatever script the
//! linker would use anyway, which therefore needs no copy.
//!
//! It must be handed over by `-T`: as a plain file among the objects, ld would not find `.text` to insert before. The output
//! section lies in the same segment as `.text`. Its name begins with `.text.`, by which tools that look at names know code.

use super::sections::{self, Dialect};
use super::{Linker, OrderedName, Placement, header};
use sediment_core::{Result, Skipped};

/// Row of this dialect in the table of linkers.
pub const LINKER: Linker = Linker {
    name: "gnu-ld-script",
    summary: "every GNU ld, also before 2.43",
    arguments: "-Wl,-T,FILE",
    is_read_by: |version, _| version.starts_with("GNU ld"),
    wants_calls: false,
    write,
    recognises,
    read,
};

/// The output section that holds what is listed.
const OUTPUT_SECTION: &str = ".text.sediment";

fn write(placements: &[Placement]) -> (String, Skipped) {
    let (statements, skipped) = sections::write(placements, "    ");
    let text = format!(
        "/* {} */\nSECTIONS {{\n  {OUTPUT_SECTION} : {{\n{statements}  }}\n}} INSERT BEFORE .text;\n",
        header(&LINKER)
    );
    (text, skipped)
}

fn recognises(text: &str) -> bool {
    sections::dialect(text) == Some(Dialect::Script)
}

fn read(text: &str) -> Result<Vec<OrderedName>> {
    sections::read(text)
}
