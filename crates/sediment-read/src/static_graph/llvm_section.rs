// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the section `.llvm.call-graph-profile` of an object file: call counts of a unit that was compiled with a
//! profile (`-fprofile-use`, `-fprofile-sample-use`), which LLVM writes for its own linker.
//!
//! Since LLVM 13 the section has 8 bytes per call, which are its count; two relocations at this offset refer to caller
//! and callee (LLVM: "Extensions", SHT_LLVM_CALL_GRAPH_PROFILE). Objects from older compilers, or compiled without a
//! profile, have an empty graph.

use super::{UnitGraph, UnitReader, add_call, add_function};
use object::elf;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use sediment_core::profile::source::{ProfileSource, Unknown::TimeOrder};
use sediment_core::profile::{EdgeFacts, Profile};
use sediment_core::skipped::Skipped;
use sediment_core::{Error, ErrorCode, Result};

pub(super) const READER: UnitReader = UnitReader {
    name: "llvm-section",
    extension: "o",
    summary: "an object file of clang, compiled with a profile (.o)",
    recognises,
    read,
};

const SECTION: &str = ".llvm.call-graph-profile";
/// Size of a count in bytes.
const COUNT: usize = 8;

fn recognises(bytes: &[u8]) -> bool {
    let kind = bytes.get(16..18).and_then(|bytes| bytes.first_chunk());
    let is_object =
        |kind: &[u8; 2]| [u16::from_le_bytes(*kind), u16::from_be_bytes(*kind)].contains(&elf::ET_REL.0);
    bytes.starts_with(&elf::ELFMAG) && kind.is_some_and(is_object)
}

fn read(name: &str, bytes: &[u8], skipped: &mut Skipped) -> Result<UnitGraph> {
    let file = object::File::parse(bytes)
        .map_err(|error| Error::new(ErrorCode::Damaged, format!("cannot read this object file: {error}")))?;
    let mut graph = Profile::default();
    graph.source.insert(ProfileSource::new("clang call counts of units", "", &[TimeOrder]).to_string());
    let unit = file.symbols().find(|symbol| symbol.kind() == SymbolKind::File);
    let unit = unit.and_then(|symbol| symbol.name_bytes().ok());
    if let Some(section) = file.section_by_name(SECTION) {
        let counts = section.data().map_err(|error| {
            Error::new(ErrorCode::Damaged, format!("cannot read the section {SECTION}: {error}"))
        })?;
        let mut pending: Option<(u64, Option<_>)> = None;
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(symbol);
            let end = symbol.ok().and_then(|symbol| {
                let local = symbol.is_local();
                let name = symbol.name_bytes().ok()?;
                add_function(&mut graph, name, unit.filter(|_| local), skipped)
            });
            match pending.take() {
                Some((before, caller)) if before == offset => {
                    let at = usize::try_from(offset).ok();
                    let count = at.and_then(|at| counts.get(at..)?.first_chunk::<COUNT>()).map(|bytes| {
                        if file.is_little_endian() {
                            u64::from_le_bytes(*bytes)
                        } else {
                            u64::from_be_bytes(*bytes)
                        }
                    });
                    if let (Some(caller), Some(callee), Some(count)) = (caller, end, count) {
                        let call = EdgeFacts { count: Some(count.into()), ..EdgeFacts::default() };
                        add_call(graph.edge_mut(caller, callee), &call);
                        graph.total = graph.total.saturating_add(count.into());
                    }
                }
                _ => pending = Some((offset, end)),
            }
        }
    }
    Ok(UnitGraph { name: name.to_owned(), graph, whole_program: false })
}
