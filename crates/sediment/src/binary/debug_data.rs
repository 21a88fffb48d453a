// SPDX-License-Identifier: MIT OR Apache-2.0
//! The function symbols of a file that may be stripped: its own, its debug file's, or the few it kept.
//!
//! Debug files are found as GDB finds them ("Debugging Information in Separate Files" and "MiniDebugInfo" in its manual):
//! by build-id, by `.gnu_debuglink` with its CRC-32, and inside the file, compressed, as `.gnu_debugdata`.

use super::elf::{self, Image};
use super::{BinaryFunction, Files, SymbolSource};
use crate::error::{Error, Result};
use crate::unpack;

/// The functions of a file, and where they were found; takes them out of `image`.
pub(super) fn functions(
    image: &mut Image<'_>,
    files: &dyn Files,
) -> Result<(Vec<BinaryFunction>, SymbolSource)> {
    if image.symbols.iter().any(|function| !function.untyped) {
        return Ok((std::mem::take(&mut image.symbols), SymbolSource::SymbolTable));
    }
    let of_debug_file = |error: Error| error.with_input("the debug file");
    if let Some(build_id) = &image.build_id {
        if let Some(bytes) = files.debug_file_by_build_id(build_id) {
            let debug = elf::read(&bytes).map_err(of_debug_file)?;
            if debug.build_id.as_ref() == Some(build_id) && !debug.symbols.is_empty() {
                return Ok((debug.symbols, SymbolSource::DebugFile));
            }
        }
    }
    if let Some((name, crc)) = image.debug_link {
        let same = |bytes: &Vec<u8>| crc32fast::hash(bytes) == crc;
        if let Some(bytes) = files.debug_file_by_link(name, crc).filter(same) {
            let debug = elf::read(&bytes).map_err(of_debug_file)?;
            if !debug.symbols.is_empty() {
                return Ok((debug.symbols, SymbolSource::DebugFile));
            }
        }
    }
    if !image.symbols.is_empty() {
        return Ok((std::mem::take(&mut image.symbols), SymbolSource::SymbolTable));
    }
    let mut exported = std::mem::take(&mut image.dynamic_symbols);
    if let Some(compressed) = image.debug_data {
        let mut budget = unpack::SYMBOLS.of(image.file_size);
        let bytes = budget.xz(compressed).map_err(|error| error.with_input(".gnu_debugdata"))?;
        let debug = elf::read(&bytes).map_err(|error| error.with_input(".gnu_debugdata"))?;
        if !debug.symbols.is_empty() {
            exported.extend(debug.symbols);
            return Ok((exported, SymbolSource::GnuDebugdata));
        }
    }
    Ok((exported, SymbolSource::DynamicSymbols))
}
