// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the source file and line of an address in DWARF, through the crate addr2line.

use super::Files;
use super::debug_data::in_file_or_debug_file;
use super::section::unpacked;
use crate::error::{Error, ErrorCode, Result};
use crate::unpack;
use gimli::{EndianRcSlice, Reader as _, RunTimeEndian};
use object::Object as _;
use std::rc::Rc;

pub(super) type DwarfBytes = EndianRcSlice<RunTimeEndian>;

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// Base name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

impl std::fmt::Display for SourceLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Debug information of one compilation unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilationUnit {
    /// Its source file, from the compiler's command line.
    pub name: String,
    /// True if it was compiled for link-time optimisation, as far as the compiler recorded its options.
    pub link_time_optimised: bool,
}

/// The debug information of a binary.
pub struct SourceLines {
    context: addr2line::Context<DwarfBytes>,
}

impl std::fmt::Debug for SourceLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceLines").finish_non_exhaustive()
    }
}

impl SourceLines {
    /// Reads the debug information of an ELF file, or of its separate debug file; `None` if there is none.
    ///
    /// # Errors
    /// When it is there and damaged, or compressed in a way that is not read here.
    pub fn read(bytes: &[u8], files: &dyn Files) -> Result<Option<Self>> {
        let Some(dwarf) = in_file_or_debug_file(bytes, files, dwarf_of)? else { return Ok(None) };
        let damaged = |error: gimli::Error| {
            Error::new(ErrorCode::Damaged, format!("the debug information is damaged: {error}"))
        };
        Ok(Some(Self { context: addr2line::Context::from_dwarf(dwarf).map_err(damaged)? }))
    }

    /// The line that the instruction at this address comes from.
    #[must_use]
    pub fn line_at(&self, address: u64) -> Option<SourceLine> {
        let location = self.context.find_location(address).ok()??;
        let file = location.file?;
        let file = file.rsplit('/').next().unwrap_or(file).to_owned();
        Some(SourceLine { file, line: location.line? })
    }

    /// The compilation that the code at this address comes from.
    #[must_use]
    pub fn unit_at(&self, address: u64) -> Option<CompilationUnit> {
        let unit = self.context.find_dwarf_and_unit(address).skip_all_loads()?;
        let mut entries = unit.entries();
        let (_, root) = entries.next_dfs().ok()??;
        let text = |attribute| {
            let value = root.attr_value(attribute).ok()??;
            Some(unit.attr_string(value).ok()?.to_string_lossy().ok()?.into_owned())
        };
        let name = text(gimli::DW_AT_name)?;
        let producer = text(gimli::DW_AT_producer).unwrap_or_default();
        let link_time_optimised =
            name == "<artificial>" || producer.starts_with("GNU GIMPLE") || producer.contains(" -flto");
        Some(CompilationUnit { name, link_time_optimised })
    }
}

/// Reads the debug information of an ELF file; `None` if there is none.
///
/// # Errors
/// When it is there and damaged, or compressed in a way that is not read here.
pub(super) fn dwarf_of(bytes: &[u8]) -> Result<Option<gimli::Dwarf<DwarfBytes>>> {
    let damaged = |error: &dyn std::fmt::Display| {
        Error::new(ErrorCode::Damaged, format!("the debug information is damaged: {error}"))
    };
    let file = object::File::parse(bytes).map_err(|error| damaged(&error))?;
    if [".debug_info", ".zdebug_info"].iter().all(|name| file.section_by_name(name).is_none()) {
        return Ok(None);
    }
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut budget = unpack::DEBUG_SECTIONS.of(bytes.len() as u64);
    let load = |id: gimli::SectionId| -> Result<DwarfBytes> {
        let data = unpacked(&file, id.name(), &mut budget)?;
        Ok(EndianRcSlice::new(data.unwrap_or_else(|| Rc::from(Vec::new())), endian))
    };
    gimli::Dwarf::load(load).map(Some)
}
