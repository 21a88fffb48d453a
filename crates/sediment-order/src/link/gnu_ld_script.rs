// SPDX-License-Identifier: MIT OR Apache-2.0
//! A linker script for every GNU ld, even before 2.43: one output section, which is inserted before `.text` of the
//! script that the linker uses anyway. So that script need not be copied.
//!
//! It must be passed with `-T`: if it were an input file, ld would not find the `.text` to insert before. The output
//! section is in the same segment as `.text`. Its name begins with `.text.`, so tools that classify sections by name
//! treat it as code.

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

/// The output section for the listed functions.
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
