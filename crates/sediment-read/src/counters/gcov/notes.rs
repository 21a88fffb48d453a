// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads names of a unit's functions (`.gcno`), which the compiler writes with `-ftest-coverage`.

use super::GcovFileKind;
use super::cursor::GcovCursor;
use super::units::{GcnoFunction, GcovIdentity, Units};
use sediment_core::error::Result;
use sediment_core::skipped::Skipped;

pub(super) const READER: GcovFileKind = GcovFileKind { magic: *b"oncg", extension: super::NOTES, read };

const FUNCTION: u32 = 0x0100_0000;

fn read(bytes: &[u8], name: &str, units: &mut Units, _: &mut Skipped) -> Result<()> {
    let (mut cursor, header) = GcovCursor::open(bytes, READER.magic)?;
    cursor.string("the folder of the compilation")?;
    cursor.word("a flag")?;
    let mut functions = Vec::new();
    while let Some(record) = cursor.record()? {
        if record.tag == FUNCTION {
            let mut content = record.content;
            let place = GcovIdentity::read(&mut content)?;
            let name = content.string("the name of a function")?.to_vec();
            content.word("a flag")?;
            let source = content.string("the name of a source file")?.to_vec();
            functions.push(GcnoFunction { place, name, source });
        }
    }
    units.add_notes(name, header.stamp, functions);
    Ok(())
}
