// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Binary`]: the functions of an ELF file, with sizes and sections, and what identifies the file.
//!
//! [`names`] is the only place that knows how symbols and sections are spelled, [`identity`] the one that knows which cluster
//! of a profile belongs to a binary.

pub mod identity;
pub mod names;

use crate::error::Result;

/// Further files that a step may ask for; the library itself opens none.
pub trait Files {
    /// The debug file with this build-id (lower-case hex), from wherever the system keeps them.
    fn debug_file_by_build_id(&self, build_id: &str) -> Option<Vec<u8>>;
    /// The debug file that `.gnu_debuglink` names, whose contents must have this CRC-32.
    fn debug_file_by_link(&self, name: &[u8], crc: u32) -> Option<Vec<u8>>;
    /// The executable or library that was recorded under this path, with this build-id where one was recorded.
    fn binary(&self, path: &str, build_id: Option<&str>) -> Option<Vec<u8>>;
}

/// No further files.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, _: &str, _: Option<&str>) -> Option<Vec<u8>> {
        None
    }
}

/// Where the function symbols of a [`Binary`] were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolSource {
    /// The file's own `.symtab`.
    SymbolTable,
    /// The separate debug file, by build-id or debug link.
    DebugFile,
    /// `.gnu_debugdata` (MiniDebuginfo): functions only.
    GnuDebugdata,
    /// `.dynsym` alone: exported functions only, everything else is stripped.
    DynamicSymbols,
}

/// One function symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryFunction {
    /// Linkage name without `@VERSION`.
    pub name: String,
    /// Virtual address of its first byte.
    pub address: u64,
    /// Bytes of code; 0 where the symbol does not say.
    pub size: u64,
    /// Name of the output section it lies in.
    pub section: String,
    /// Source file (base name of the STT_FILE symbol before it), for local symbols.
    pub file: Option<String>,
    /// Local to its object file.
    pub local: bool,
    /// A resolver for an indirect function (STT_GNU_IFUNC), not the function that will run.
    pub ifunc: bool,
}

/// The functions of an ELF file and what identifies it.
#[derive(Debug, Clone)]
pub struct Binary {
    /// Functions by (address, local, name).
    pub functions: Vec<BinaryFunction>,
    /// Where they were found.
    pub symbols_from: SymbolSource,
    /// Build-id in lower-case hex.
    pub build_id: Option<String>,
    /// DT_SONAME.
    pub soname: Option<String>,
    /// Architecture as `uname -m` spells it.
    pub arch: Option<String>,
    /// Loaded segments, for [`Self::address_of_file_offset`].
    pub segments: Vec<Segment>,
    /// Output sections that hold code.
    pub code_sections: Vec<CodeSection>,
}

/// A PT_LOAD segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Offset in the file.
    pub file_offset: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Virtual address.
    pub address: u64,
    /// Whether it can be executed.
    pub executable: bool,
}

/// An output section that holds code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSection {
    /// Its name.
    pub name: String,
    /// Virtual address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl Binary {
    /// Reads an ELF file, and its debug file where it is stripped and `files` has it.
    ///
    /// # Errors
    /// When this is no ELF file, or one that is damaged. A stripped file is no error: it has few or no functions.
    pub fn parse(bytes: &[u8], files: &dyn Files) -> Result<Self> {
        let _ = (bytes, files);
        Err(crate::error::Error::failed("not written"))
    }
}
