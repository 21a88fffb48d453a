// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the symbols of ELF files with the `object` crate's common interface. Which of them are functions is decided
//! here a second time, from the documentation of `Binary::parse`.
//!
//! Rules:
//! - in a damaged file, the common interface sees only headers, symbols and their sections. A file that sediment
//!   refuses because of a relocation table, a dynamic section, a linkage table, a debug link or an index of further
//!   sections is skipped here, and compared with readelf;
//! - symbols in `.gnu_debugdata` are compressed: skipped.

use crate::cases::{CaseTally, count, differs, mutant, seeds};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
use object::{FileFlags, ObjectKind, SectionFlags, SymbolFlags, SymbolSection};
use sediment_core::binary::{Binary, BinaryFunction, NoFiles, SymbolSource};
use support::elf_writer::{Elf, Function};

/// The compared properties of a function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ComparedSymbol {
    pub(crate) address: u64,
    pub(crate) local: bool,
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) section: String,
    pub(crate) ifunc: bool,
    pub(crate) untyped: bool,
}

pub(crate) fn all_seeds() -> Vec<Vec<u8>> {
    let mut seeds = seeds("elf", "");
    let functions = vec![
        Function::global("main", 0, 32),
        Function::local("helper", 32, 16, "a.c"),
        Function::local("helper", 48, 16, "b.c"),
        Function { ifunc: true, ..Function::global("memcpy@@V1", 64, 8) },
    ];
    let exported = vec![Function::global("shown@V2", 0, 32)];
    let imports = vec!["puts".to_owned(), "exit".to_owned()];
    for (symbols, kind) in [(Some(functions.clone()), 2), (Some(functions), 3), (None, 3)] {
        let elf =
            Elf { kind, symbols, exported: exported.clone(), imports: imports.clone(), ..Elf::default() };
        seeds.push(elf.bytes());
    }
    seeds
}

pub(crate) fn against_object() {
    let seeds = all_seeds();
    let mut tally = CaseTally::new("ELF symbols against the object crate");
    for number in 0..count().in_process {
        let bytes = mutant("elf", &seeds, number);
        match (Binary::parse(&bytes, &NoFiles), by_object(&bytes)) {
            (Ok(ours), _) if ours.symbols_from == SymbolSource::GnuDebugdata => {
                tally.pass_over("compressed symbols");
            }
            (Ok(ours), Ok(theirs)) => {
                let ours = ours_of(&ours.functions);
                if ours != theirs {
                    differs("elf", number, &bytes, &format!("ours {ours:?}\ntheirs {theirs:?}"));
                }
                tally.read += 1;
            }
            (Err(_), Err(_)) => tally.refused += 1,
            (Err(why), Ok(_)) if beyond_the_common_interface(&why.to_string()) => {
                tally.pass_over("damage that the common interface does not show");
            }
            (Err(why), Ok(_)) => differs("elf", number, &bytes, &format!("object alone reads it: {why}")),
            (Ok(_), Err(why)) => differs("elf", number, &bytes, &format!("object alone refuses it: {why}")),
        }
    }
    tally.finish(70, 10);
}

pub(crate) fn beyond_the_common_interface(why: &str) -> bool {
    const TABLES: [&str; 8] = [
        "a relocation table",
        "the name of a section",
        "its dynamic section",
        "its DT_SONAME",
        "its linkage table",
        ".gnu_debuglink",
        ".gnu_debugdata",
        "extended index",
    ];
    TABLES.iter().any(|table| why.contains(table))
}

pub(crate) fn ours_of(functions: &[BinaryFunction]) -> Vec<ComparedSymbol> {
    let mut ours: Vec<ComparedSymbol> = functions
        .iter()
        .map(|function| ComparedSymbol {
            address: function.address,
            local: function.local,
            name: function.name.clone(),
            size: function.size,
            section: function.section.clone(),
            ifunc: function.ifunc,
            untyped: function.untyped,
        })
        .collect();
    ours.sort();
    ours.dedup();
    ours
}

/// Returns the functions of a file by the common interface, or the error of a damaged file.
fn by_object(bytes: &[u8]) -> Result<Vec<ComparedSymbol>, String> {
    let words = |error: object::read::Error| error.to_string();
    let file = object::File::parse(bytes).map_err(words)?;
    if !matches!(file.flags(), FileFlags::Elf { .. })
        || !matches!(file.kind(), ObjectKind::Executable | ObjectKind::Dynamic)
    {
        return Err("no linked ELF file".to_owned());
    }
    let arm = file.architecture() == object::Architecture::Arm;
    let of_table = |symbols: Vec<object::Symbol<'_, '_>>| -> Result<Vec<ComparedSymbol>, String> {
        let mut found = Vec::new();
        for symbol in symbols {
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return Err("no ELF".to_owned()) };
            let (kind, local) = (st_info.0 & 15, st_info.0 >> 4 == 0);
            // The symbols of source files are read too.
            if kind == 4 {
                symbol.name_bytes().map_err(words)?;
            }
            let untyped = kind == 0 && (symbol.size() > 0 || !local);
            if !matches!(kind, 2 | 10) && !untyped {
                continue;
            }
            let section = match symbol.section() {
                SymbolSection::Section(index) => file.section_by_index(index).map_err(words)?,
                _ => continue,
            };
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return Err("no ELF".to_owned()) };
            let end = section.address().saturating_add(section.size());
            if sh_flags.0 & 6 != 6 {
                continue;
            }
            let section = String::from_utf8_lossy(section.name_bytes().map_err(words)?).into_owned();
            let address = if arm { symbol.address() & !1 } else { symbol.address() };
            let name = symbol.name_bytes().map_err(words)?;
            let Some(name) = std::str::from_utf8(without_version(name)).ok() else { continue };
            let (name, size, ifunc) = (name.to_owned(), symbol.size(), kind == 10);
            found.push((ComparedSymbol { address, local, name, size, section, ifunc, untyped }, end));
        }
        Ok(functions_of(found))
    };
    let own = of_table(file.symbols().collect())?;
    let dynamic = of_table(file.dynamic_symbols().collect())?;
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return Err("no ELF".to_owned()) };
        if sh_flags.0 & 6 == 6 {
            section.name_bytes().map_err(words)?;
        }
    }
    Ok(chosen(own, dynamic))
}

/// Returns the functions of the symbol table or, if it has none, those of the dynamic one.
pub(crate) fn chosen(own: Vec<ComparedSymbol>, dynamic: Vec<ComparedSymbol>) -> Vec<ComparedSymbol> {
    let mut chosen = if own.is_empty() { dynamic } else { own };
    chosen.sort();
    chosen.dedup();
    chosen
}

/// Drops the symbols in code that are not functions. Each symbol comes with the end of its section.
pub(crate) fn functions_of(symbols: Vec<(ComparedSymbol, u64)>) -> Vec<ComparedSymbol> {
    let within = |address: u64| {
        symbols.iter().any(|(other, _)| {
            let end = other.address.saturating_add(other.size.max(1));
            !other.untyped && !other.name.is_empty() && other.address <= address && address < end
        })
    };
    let stays = |(symbol, end): &&(ComparedSymbol, u64)| {
        let label = symbol.name.starts_with('$') || symbol.name.starts_with(".L");
        let typed = !symbol.untyped;
        !symbol.name.is_empty() && (typed || !label && symbol.address < *end && !within(symbol.address))
    };
    symbols.iter().filter(stays).map(|(symbol, _)| symbol.clone()).collect()
}

/// Returns a name without its version, which begins at an `@`. An `@` at the beginning, or before an address, does not
/// begin a version. `.localalias` is removed too.
pub(crate) fn without_version(name: &[u8]) -> &[u8] {
    sediment_core::binary::names::symbol(name).name
}
