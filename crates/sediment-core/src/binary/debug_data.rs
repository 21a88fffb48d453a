// SPDX-License-Identifier: MIT OR Apache-2.0
//! The function symbols of a file that may be stripped: its own, its debug file's, or the few it kept.
//!
//! Debug files are found as GDB finds them ("Debugging Information in Separate Files" and "MiniDebugInfo" in its manual):
//! by build-id, by `.gnu_debuglink` with its CRC-32, and inside the file, compressed, as `.gnu_debugdata`.

use super::elf::{self, ElfImage};
use super::{BinaryFunction, Files, SymbolSource};
use crate::error::{Error, Result};
use crate::unpack;

/// The functions of a file, and where they were found; takes them out of `image`.
pub(super) fn functions(
    image: &mut ElfImage<'_>,
    files: &dyn Files,
) -> Result<(Vec<BinaryFunction>, SymbolSource)> {
    if image.symbols.iter().any(|function| !function.untyped) {
        return Ok((std::mem::take(&mut image.symbols), SymbolSource::SymbolTable));
    }
    let of_debug_file = |error: Error| error.with_input("the debug file");
    if let Some(build_id) = &image.build_id {
        if let Some(bytes) = files.debug_file_by_build_id(build_id) {
            let debug = elf::read(&bytes, true).map_err(of_debug_file)?;
            if debug.build_id.as_ref() == Some(build_id) && !debug.symbols.is_empty() {
                return Ok((debug.symbols, SymbolSource::DebugFile));
            }
        }
    }
    if let Some((name, crc)) = image.debug_link {
        let same = |bytes: &Vec<u8>| crc32fast::hash(bytes) == crc;
        if let Some(bytes) = files.debug_file_by_link(name, crc).filter(same) {
            let debug = elf::read(&bytes, true).map_err(of_debug_file)?;
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
        let debug = elf::read(&bytes, true).map_err(|error| error.with_input(".gnu_debugdata"))?;
        if !debug.symbols.is_empty() {
            exported.extend(debug.symbols);
            return Ok((exported, SymbolSource::GnuDebugdata));
        }
    }
    Ok((exported, SymbolSource::DynamicSymbols))
}

/// Returns the result for an ELF file, or for its separate debug file, found by build-id or debug link; `None` if
/// neither has one.
///
/// # Errors
/// If the file is not an ELF file, or the read part is damaged.
pub(super) fn in_file_or_debug_file<T>(
    bytes: &[u8],
    files: &dyn Files,
    read: impl Fn(&[u8]) -> Result<Option<T>>,
) -> Result<Option<T>> {
    if let Some(found) = read(bytes)? {
        return Ok(Some(found));
    }
    let image = elf::read(bytes, false)?;
    let of_debug_file = |bytes: Vec<u8>| read(&bytes).map_err(|error| error.with_input("the debug file"));
    let by_build_id = image.build_id.as_deref().and_then(|id| files.debug_file_by_build_id(id));
    if let Some(found) = by_build_id.map(of_debug_file).transpose()?.flatten() {
        return Ok(Some(found));
    }
    let by_link = image.debug_link.and_then(|(name, crc)| {
        files.debug_file_by_link(name, crc).filter(|bytes| crc32fast::hash(bytes) == crc)
    });
    Ok(by_link.map(of_debug_file).transpose()?.flatten())
}
