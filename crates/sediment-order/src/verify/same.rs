// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that a linked file differs from the file linked without an order only by the order: compares hardening,
//! identity, symbols, libraries, unwind tables and debug information.
//!
//! Both files have to be linked from the same objects. An order may change the addresses of functions, and so a few
//! bytes of padding; everything compared here must be equal. But link-time optimisation compiles again for each link,
//! so the numbers in the names of its clones, and its inlining, may differ; they are compared, too.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use sediment_core::binary::names;
use sediment_core::binary::source_lines::SourceLines;
use sediment_core::binary::{Binary, NoFiles, unwind};
use sediment_core::error::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, BTreeSet};

/// One thing that was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Subject of the check.
    pub what: &'static str,
    /// True if it is the same in both.
    pub same: bool,
    /// Value of the base, in words.
    pub base: String,
    /// Value of the other file.
    pub other: String,
}

/// Sizes, which an order may change by a little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the file.
    pub file: u64,
    /// Bytes of the sections that hold code.
    pub code: u64,
    /// Bytes in the file of the sections that contain debug information.
    pub debug: u64,
}

/// Both files compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileComparison {
    /// Checks, in a fixed sequence.
    pub checks: Vec<Check>,
    /// Sizes of the base.
    pub base: Sizes,
    /// Sizes of the other file.
    pub other: Sizes,
}

impl FileComparison {
    /// True if everything is the same.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.checks.iter().all(|check| check.same)
    }
}

/// Compares a linked file with the file linked without an order.
#[must_use]
pub fn compare(base: &ComparedFacts, other: &ComparedFacts) -> FileComparison {
    let mut checks = Vec::new();
    for ((what, base), (_, other)) in base.words.iter().zip(&other.words) {
        checks.push(Check { what, same: base == other, base: base.clone(), other: other.clone() });
    }
    for (what, of) in SETS {
        let (base, other) = (of(base), of(other));
        let more = |some: &BTreeMap<String, u64>, than: &BTreeMap<String, u64>| {
            let extra: Vec<&str> = some
                .iter()
                .filter(|(name, count)| than.get(*name) != Some(count))
                .map(|(name, _)| name.as_str())
                .collect();
            let total: u64 = some.values().sum();
            match extra.as_slice() {
                [] => format!("{total}"),
                [first, ..] => format!("{total}, {} of them different, for example {first}", extra.len()),
            }
        };
        checks.push(Check { what, same: base == other, base: more(base, other), other: more(other, base) });
    }
    FileComparison { checks, base: base.sizes, other: other.sizes }
}

/// Number of occurrences by name.
type NameCounts = BTreeMap<String, u64>;

/// A compared part that consists of names.
type ComparedNames = (&'static str, fn(&ComparedFacts) -> &NameCounts);

const SETS: [ComparedNames; 4] = [
    ("symbol names", |facts| &facts.symbols),
    ("dynamic symbols", |facts| &facts.dynamic_symbols),
    ("functions with unwind tables", |facts| &facts.unwound),
    ("functions with their source lines", |facts| &facts.lines),
];

/// The compared facts of a file.
pub struct ComparedFacts {
    words: Vec<(&'static str, String)>,
    symbols: NameCounts,
    dynamic_symbols: NameCounts,
    unwound: NameCounts,
    lines: NameCounts,
    sizes: Sizes,
}

impl ComparedFacts {
    /// Reads them from a linked file.
    ///
    /// # Errors
    /// If it is not a linked ELF file, or its tables are damaged.
    pub fn of(bytes: &[u8]) -> Result<Self> {
        let damaged = |error: object::Error| {
            Error::new(ErrorCode::Damaged, format!("not an ELF file, or a damaged one: {error}"))
        };
        let file = object::File::parse(bytes).map_err(damaged)?;
        let binary = Binary::parse(bytes, &NoFiles)?;
        let count = |names: &mut dyn Iterator<Item = String>| {
            let mut counted = NameCounts::new();
            for name in names {
                *counted.entry(name).or_default() += 1;
            }
            counted
        };
        let of_symbols = |symbols: object::SymbolIterator<'_, '_>| {
            // Names that the linker itself defines depend on its scripts.
            let named = symbols.filter(|symbol| symbol.is_definition() || symbol.is_undefined());
            count(
                &mut named
                    .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
                    .filter(|name| !name.is_empty()),
            )
        };
        let covered = unwound(&file)?;
        let mut unwound = NameCounts::new();
        let mut lines = NameCounts::new();
        let source = SourceLines::read(bytes, &NoFiles)?;
        for function in &binary.functions {
            if covered.contains(&function.address) {
                *unwound.entry(function.name.clone()).or_default() += 1;
            }
            if let Some(line) = source.as_ref().and_then(|source| source.line_at(function.address)) {
                *lines.entry(format!("{} at {line}", names::stem(&function.name))).or_default() += 1;
            }
        }
        let mut sizes = Sizes { file: bytes.len() as u64, code: 0, debug: 0 };
        for section in file.sections() {
            let name = section.name().unwrap_or_default();
            if section.kind() == object::SectionKind::Text {
                sizes.code += section.size();
            } else if name.starts_with(".debug_") {
                sizes.debug += section.file_range().map_or(0, |(_, size)| size);
            }
        }
        Ok(Self {
            words: words(&file, bytes, &binary),
            symbols: of_symbols(file.symbols()),
            dynamic_symbols: of_symbols(file.dynamic_symbols()),
            unwound,
            lines,
            sizes,
        })
    }
}

/// Collects from the unwind tables the addresses at which functions begin.
fn unwound(file: &object::File<'_>) -> Result<BTreeSet<u64>> {
    Ok(unwind::entries(file)?.into_iter().map(|entry| entry.address).collect())
}

/// Returns the facts of a file that are a single word each.
fn words(file: &object::File<'_>, bytes: &[u8], binary: &Binary) -> Vec<(&'static str, String)> {
    let elf = Elf::read(file, bytes);
    let property =
        file.section_by_name(".note.gnu.property").and_then(|section| section.data().ok()).map_or_else(
            || "none".to_owned(),
            |data| data.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
        );
    let there = |is: bool| if is { "yes" } else { "no" }.to_owned();
    vec![
        ("kind of file", format!("{:?}", file.kind()).to_lowercase()),
        ("position independent", there(elf.position_independent)),
        ("RELRO", there(elf.relro)),
        ("BIND_NOW", there(elf.bind_now)),
        ("executable stack", there(elf.executable_stack)),
        ("writable code", there(elf.writable_code)),
        ("CET or BTI notes (.note.gnu.property)", property),
        ("build-id", there(binary.build_id.is_some())),
        ("soname", binary.soname.clone().unwrap_or_else(|| "none".to_owned())),
        ("needed libraries", elf.needed.join(" ")),
    ]
}

/// Program headers and the dynamic section.
#[derive(Default)]
struct Elf {
    position_independent: bool,
    relro: bool,
    bind_now: bool,
    executable_stack: bool,
    writable_code: bool,
    needed: Vec<String>,
}

impl Elf {
    fn read(file: &object::File<'_>, bytes: &[u8]) -> Self {
        match file {
            object::File::Elf32(elf) => Self::of(elf, bytes),
            object::File::Elf64(elf) => Self::of(elf, bytes),
            _ => Self::default(),
        }
    }

    fn of<'data, E: object::read::elf::FileHeader>(
        file: &object::read::elf::ElfFile<'data, E>,
        bytes: &'data [u8],
    ) -> Self {
        use object::elf;
        use object::read::elf::{Dyn as _, ProgramHeader as _};
        let endian = file.endian();
        let header = file.elf_header();
        let mut found =
            Self { position_independent: header.e_type(endian) == elf::ET_DYN, ..Self::default() };
        let mut stack = None;
        for segment in header.program_headers(endian, bytes).unwrap_or_default() {
            let flags = segment.p_flags(endian);
            match segment.p_type(endian) {
                elf::PT_GNU_RELRO => found.relro = true,
                elf::PT_GNU_STACK => stack = Some(flags.contains(elf::PF_X)),
                elf::PT_LOAD => found.writable_code |= flags.contains(elf::PF_X) && flags.contains(elf::PF_W),
                _ => {}
            }
        }
        found.executable_stack = stack.unwrap_or(true);
        let sections = header.sections(endian, bytes);
        let dynamic = sections
            .as_ref()
            .ok()
            .and_then(|sections| Some((sections, sections.dynamic(endian, bytes).ok()??)));
        if let Some((sections, (entries, strings))) = dynamic {
            let strings = sections.strings(endian, bytes, strings).unwrap_or_default();
            for entry in entries {
                let value: u64 = entry.d_val(endian).into();
                match entry.d_tag(endian) {
                    elf::DT_BIND_NOW => found.bind_now = true,
                    elf::DT_FLAGS => found.bind_now |= value & elf::DF_BIND_NOW.0 != 0,
                    elf::DT_FLAGS_1 => found.bind_now |= value & elf::DF_1_NOW.0 != 0,
                    elf::DT_NEEDED => {
                        let name =
                            u32::try_from(value).ok().and_then(|at| strings.get(at).ok()).unwrap_or_default();
                        found.needed.push(String::from_utf8_lossy(name).into_owned());
                    }
                    _ => {}
                }
            }
        }
        found
    }
}
