// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Binary`]: the functions of an ELF file, with sizes and sections, and what identifies the file.
//!
//! [`names`] is the only place that knows how symbols and sections are spelled. Inside, `elf` reads one file,
//! `debug_data` finds the symbols that a stripped file has elsewhere, `unwind` the functions that no symbol names,
//! `plt` reads the stubs of the procedure linkage table, and `address_index` finds the function at an address.

mod address_index;
mod archive_walk;
pub mod bb_addr_map;
pub mod block_map;
pub mod calls;
pub mod code;
mod debug_data;
mod elf;
mod fixed;
pub mod gcc_block_map;
pub mod gcc_early_map;
#[cfg(feature = "dwarf")]
pub mod inlined;
pub mod names;
pub mod objects;
mod plt;
mod section;
#[cfg(feature = "dwarf")]
pub mod source_lines;
#[cfg(feature = "dwarf")]
pub mod unwind;

pub use address_index::AddressIndex;
pub use elf::file_evidence;

use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Further files that a step may ask for; the library itself opens none.
pub trait Files {
    /// The debug file with this build-id (lower-case hex), from wherever the system keeps them.
    fn debug_file_by_build_id(&self, build_id: &str) -> Option<Vec<u8>>;
    /// The debug file that `.gnu_debuglink` names, whose contents must have this CRC-32.
    fn debug_file_by_link(&self, name: &[u8], crc: u32) -> Option<Vec<u8>>;
    /// Works like [`Self::debug_file_by_link`], for a file that was recorded under this path: its debug file may be
    /// next to it.
    fn debug_file_beside(&self, _path: &str, name: &[u8], crc: u32) -> Option<Vec<u8>> {
        self.debug_file_by_link(name, crc)
    }
    /// The executable or library that was recorded under this path, with this build-id where one was recorded.
    fn binary(&self, path: &str, build_id: Option<&str>) -> Option<Vec<u8>>;
    /// True if the user named this file; false if it is only the file that this machine has under the path.
    fn is_chosen(&self, _path: &str, _build_id: Option<&str>) -> bool {
        true
    }
    /// True if the user named some files, so that a recording of more is read for these alone.
    fn names_some(&self) -> bool {
        false
    }
    /// Base name of the file that [`Self::binary`] returns, for recordings that name a file by its build-id alone.
    fn file_name(&self, _path: &str, _build_id: Option<&str>) -> Option<String> {
        None
    }
    /// What the file system reports of the file that [`Self::binary`] returns.
    fn facts(&self, _path: &str, _build_id: Option<&str>) -> Option<FileFacts> {
        None
    }
    /// Name of the machine that the files belong to; None if they are a copy from another machine, or if it is unknown.
    fn host(&self) -> Option<String> {
        None
    }
}

/// What a file system reports of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    /// True if this is the file under the recorded path itself, not a copy elsewhere.
    pub at_recorded_path: bool,
    /// When content, name or attributes changed last, in nanoseconds since 1970.
    pub changed: u128,
    /// Device, as `major << 32 | minor`, and inode.
    pub inode: (u64, u64),
}

/// Returns the build-id of an ELF file, in lower-case hex, without reading the rest of it; `None` if it has none, or is
/// not an ELF file.
#[must_use]
pub fn build_id(bytes: &[u8]) -> Option<String> {
    elf::build_id(bytes)
}

/// True for an ELF file with a symbol table of its own, such as an unstripped file or a debug file.
#[must_use]
pub fn has_symbols(bytes: &[u8]) -> bool {
    elf::read(bytes, false).is_ok_and(|image| image.symbols.iter().any(|function| !function.untyped))
}

/// True for an ELF program: one with a fixed address, or with an interpreter (`PT_INTERP`). Libraries, whatever their
/// names, have neither. Static position-independent programs have neither as well, and are not recognised.
#[must_use]
pub fn is_program(bytes: &[u8]) -> bool {
    elf::is_program(bytes)
}

/// Returns the compilers and linkers that left their name in an ELF file, each once, in the order of `.comment`. GNU ld
/// leaves none.
#[must_use]
pub fn producers(bytes: &[u8]) -> Vec<String> {
    elf::producers(bytes)
}

/// True if GCC's link-time optimisation made a part of an ELF file, as far as its debug information shows.
#[must_use]
pub fn is_of_gcc_lto(bytes: &[u8]) -> bool {
    /// Name of the compiler in the units that it writes.
    const PRODUCER: &[u8] = b"GNU GIMPLE ";
    let Ok(file) = object::File::parse(bytes) else { return false };
    let mut budget = crate::unpack::DEBUG_SECTIONS.of(bytes.len() as u64);
    let texts = section::unpacked(&file, ".debug_str", &mut budget);
    texts.ok().flatten().is_some_and(|texts| memchr::memmem::find(&texts, PRODUCER).is_some())
}

/// Returns the sections of an ELF file that contain code, by name and contents. Packaging leaves them as they were
/// linked, whatever it removes from a file or adds to it. `None` if there is no code, or it is not an ELF file.
#[must_use]
pub fn code_sections(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    elf::code(bytes).filter(|sections| sections.iter().any(|(_, code)| !code.is_empty()))
}

/// Compares two build-ids. Old recordings pad them with zeros.
#[must_use]
pub fn same_build_id(a: &str, b: &str) -> bool {
    a.trim_end_matches("00").eq_ignore_ascii_case(b.trim_end_matches("00"))
}

/// The checksum by which `.gnu_debuglink` knows its debug file.
#[must_use]
pub fn debug_link_checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
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

/// The files for a program or library that was recorded under this path.
pub struct FilesBeside<'a> {
    /// Every file there is.
    pub files: &'a dyn Files,
    /// The recorded path.
    pub path: &'a str,
}

impl Files for FilesBeside<'_> {
    fn debug_file_by_build_id(&self, build_id: &str) -> Option<Vec<u8>> {
        self.files.debug_file_by_build_id(build_id)
    }
    fn debug_file_by_link(&self, name: &[u8], crc: u32) -> Option<Vec<u8>> {
        self.files.debug_file_beside(self.path, name, crc)
    }
    fn binary(&self, path: &str, build_id: Option<&str>) -> Option<Vec<u8>> {
        self.files.binary(path, build_id)
    }
}

/// Where the function symbols of a [`Binary`] were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SymbolSource {
    /// The file's own `.symtab`.
    #[default]
    SymbolTable,
    /// The separate debug file, by build-id or debug link.
    DebugFile,
    /// `.gnu_debugdata` (MiniDebuginfo): functions only; those that `.dynsym` has are not repeated in it and come from there.
    GnuDebugdata,
    /// `.dynsym` alone: exported functions only, everything else is stripped.
    DynamicSymbols,
}

/// One function symbol.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BinaryFunction {
    /// Linkage name without `@VERSION`.
    pub name: String,
    /// Virtual address of its first byte.
    pub address: u64,
    /// Bytes of code; 0 if the symbol has no size.
    pub size: u64,
    /// Name of the output section that contains it.
    pub section: String,
    /// Source file (base name of the STT_FILE symbol before it), for local symbols. `None` if that is the name of a
    /// temporary file or of a partition of link-time optimisation, which says nothing.
    pub file: Option<String>,
    /// Local to its object file.
    pub local: bool,
    /// A resolver for an indirect function (STT_GNU_IFUNC), not the function that will run.
    pub ifunc: bool,
    /// The symbol is not marked as a function (STT_NOTYPE), such as a symbol of assembler code without `.type`. No
    /// breakpoint may be set there, because it may be data.
    pub untyped: bool,
}

impl BinaryFunction {
    /// Address after its last byte of code.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
}

/// The functions of an ELF file and what identifies it.
#[derive(Debug, Clone, Default)]
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
    /// Stubs of the procedure linkage table by address: x86-64, i386, AArch64, Arm, RISC-V, z/Architecture and, where the file
    /// is not stripped, 64-bit Power; elsewhere none are known.
    pub plt_stubs: Vec<PltStub>,
    /// Some functions are addresses, because the file is stripped.
    pub unresolved: bool,
    /// Addresses of functions that no linker may move, because code relies on their place: in ranges that two labels
    /// mark, or next to a function that runs on into the next one. Ascending.
    pub fixed: Vec<u64>,
    /// Ranges of code that two labels mark.
    pub label_ranges: Vec<LabelRange>,
}

/// Range of code between two labels, or empty functions, such as `fast_begin` and `fast_end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRange {
    /// Label of the beginning.
    pub begin: String,
    /// Label of the end.
    pub end: String,
    /// Address of the beginning.
    pub from: u64,
    /// Address of the end; lower than the beginning where a linker moved one of them.
    pub to: u64,
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
    /// True if the segment is executable.
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

/// A stub of the procedure linkage table: the few bytes through which a function of another DSO is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PltStub {
    /// Virtual address of its first byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Linkage name of the function it leads to, without `@VERSION`.
    pub target: String,
}

impl Binary {
    /// Reads an ELF file and, if it is stripped, its debug file from `files`.
    ///
    /// Functions are the defined STT_FUNC and STT_GNU_IFUNC symbols of sections with code. They are taken from the
    /// first of these that has any: `.symtab`; the debug file with the same build-id; the debug file that
    /// `.gnu_debuglink` names, if its CRC-32 is the one given there; `.gnu_debugdata`; `.dynsym`. Symbols whose name is
    /// not UTF-8 are skipped, because no profile can contain them. A debug file in place of the program is read as
    /// well; only its segments may be of no use.
    ///
    /// # Errors
    /// If this is not a linked ELF file, or is damaged. A stripped file is not an error: it has few or no functions.
    pub fn parse(bytes: &[u8], files: &dyn Files) -> Result<Self> {
        let mut image = elf::read(bytes, false)?;
        let (mut functions, symbols_from) = debug_data::functions(&mut image, files)?;
        functions.sort_unstable_by(|a, b| {
            (a.address, a.local, &a.name, &a.file, a.size)
                .cmp(&(b.address, b.local, &b.name, &b.file, b.size))
        });
        functions.dedup();
        let plt_stubs = plt::name_stubs(image.plt_stubs, &functions);
        Ok(Self {
            functions,
            symbols_from,
            build_id: image.build_id,
            soname: image.soname,
            arch: image.arch,
            segments: image.segments,
            code_sections: image.code_sections,
            plt_stubs,
            unresolved: false,
            fixed: image.fixed,
            label_ranges: image.label_ranges,
        })
    }

    /// Returns the virtual address at which this byte of the file is loaded; if two segments contain it, the one with
    /// code counts.
    #[must_use]
    pub fn address_of_file_offset(&self, offset: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            offset.checked_sub(segment.file_offset).is_some_and(|inside| inside < segment.file_size)
        };
        let segment = self
            .segments
            .iter()
            .find(|segment| segment.executable && holds(segment))
            .or_else(|| self.segments.iter().find(holds))?;
        segment.address.checked_add(offset - segment.file_offset)
    }

    /// Returns the offset in the file of the byte at this virtual address, if the file contains it.
    #[must_use]
    pub fn file_offset_of_address(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let inside = address.checked_sub(segment.address).filter(|inside| *inside < segment.file_size)?;
            segment.file_offset.checked_add(inside)
        })
    }

    /// Index that maps addresses to functions, for many lookups.
    #[must_use]
    pub fn address_index(&self) -> AddressIndex<'_> {
        AddressIndex::new(self)
    }

    /// The function that the stub at this address leads to, if one is there.
    #[must_use]
    pub fn plt_target(&self, address: u64) -> Option<&str> {
        self.plt_stub_at(address).map(|stub| stub.target.as_str())
    }

    /// Finds the stub that contains this address.
    pub fn plt_stub_at(&self, address: u64) -> Option<&PltStub> {
        let after = self.plt_stubs.partition_point(|stub| stub.address <= address);
        self.plt_stubs[..after].last().filter(|stub| address - stub.address < stub.size)
    }

    /// True if only exported functions of this file are known.
    #[must_use]
    pub fn is_stripped(&self) -> bool {
        self.symbols_from == SymbolSource::DynamicSymbols
    }

    /// True if no linker may move the function at this address.
    #[must_use]
    pub fn is_fixed(&self, address: u64) -> bool {
        self.fixed.binary_search(&address).is_ok()
    }

    /// True if this address is in a section of stubs.
    pub fn in_plt(&self, address: u64) -> bool {
        self.code_sections.iter().any(|section| {
            plt::is_stub_section(section.name.as_bytes())
                && address.checked_sub(section.address).is_some_and(|inside| inside < section.size)
        })
    }

    /// If more names share an address, they are not names of one function: a linker folded functions with equal code.
    pub const MOST_NAMES: usize = 8;

    /// Number of names at this address.
    pub fn names_at(&self, address: u64) -> usize {
        let begin = self.functions.partition_point(|function| function.address < address);
        self.functions[begin..].partition_point(|function| function.address <= address)
    }

    /// Returns the names that occur at more than one address, so that the name alone does not identify a function.
    #[must_use]
    pub fn same_named_locals(&self) -> BTreeSet<&str> {
        let mut first_address: BTreeMap<&str, u64> = BTreeMap::new();
        let mut same_named_locals = BTreeSet::new();
        for function in &self.functions {
            let first = *first_address.entry(&function.name).or_insert(function.address);
            if first != function.address {
                same_named_locals.insert(function.name.as_str());
            }
        }
        same_named_locals
    }
}
