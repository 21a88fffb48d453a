// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions from the unwind tables (`.eh_frame`): a stripped file keeps these tables, because exceptions and
//! backtraces need them.
//!
//! Each entry (an FDE) describes one contiguous piece of code that a compiler emitted: a function, or its cold part.
//! Entries of signal frames are not functions: they begin a byte before the code that they describe. If only the index
//! of the tables is left (`.eh_frame_hdr`), only the starts are known.

use super::{Binary, BinaryFunction, SymbolSource, plt};
use crate::error::{Error, ErrorCode, Result};
use crate::profile::{address_of_nameless, nameless};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EhFrameOffset, EndianSlice, Pointer, RegisterRule,
    RunTimeEndian, UnwindContext, UnwindSection as _, X86_64,
};
use object::{Object as _, ObjectSection as _};

/// An entry of the unwind tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unwound {
    /// Address of its first byte, as linked.
    pub address: u64,
    /// Bytes of code.
    pub size: u64,
    /// True if a signal handler returns there.
    pub of_signal: bool,
}

/// Returns the entries of the unwind tables, in their order; without tables an empty list.
///
/// # Errors
/// If the tables are damaged.
pub fn entries(file: &object::File<'_>) -> Result<Vec<Unwound>> {
    let mut found = Vec::new();
    let damaged = |error: &dyn std::fmt::Display| {
        Error::new(ErrorCode::Damaged, format!("the unwind tables are damaged: {error}"))
    };
    let Some(tables) = tables(file) else { return of_index(file) };
    let (frames, bases) = tables.map_err(|error| damaged(&error))?;
    let mut entries = frames.entries(&bases);
    while let Some(entry) = entries.next().map_err(|error| damaged(&error))? {
        if let gimli::CieOrFde::Fde(partial) = entry {
            let entry = partial.parse(EhFrame::cie_from_offset).map_err(|error| damaged(&error))?;
            found.push(Unwound {
                address: entry.initial_address(),
                size: entry.len(),
                of_signal: entry.is_signal_trampoline(),
            });
        }
    }
    Ok(found)
}

type EhFrameSection<'a> = (EhFrame<EndianSlice<'a, RunTimeEndian>>, BaseAddresses);

/// Returns the unwind tables of a file, and the bases of their relative addresses; None without tables.
fn tables<'a>(file: &object::File<'a>) -> Option<object::Result<EhFrameSection<'a>>> {
    let section = file.section_by_name(".eh_frame")?;
    let data = match section.data() {
        Ok(data) => data,
        Err(error) => return Some(Err(error)),
    };
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut frames = EhFrame::new(data, endian);
    frames.set_address_size(if file.is_64() { 8 } else { 4 });
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(text) = file.section_by_name(".text") {
        bases = bases.set_text(text.address());
    }
    if let Some(got) = file.section_by_name(".got") {
        bases = bases.set_got(got.address());
    }
    Some(Ok((frames, bases)))
}

/// A row of an unwind table: the frame before an instruction. Compilers emit no jump from one row into another with a
/// different frame, because unwinding would then be ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnwindRow {
    /// Register from which the canonical frame address is counted (DWARF number), and the distance in bytes.
    frame: (u16, i64),
    /// Bit for each saved register, if the stack pointer does not show how much is on the stack.
    saved: u32,
}

/// Rows of the unwind tables of x86-64 (DWARF 5, 6.4.1), by address.
pub struct Rows<'a> {
    tables: EhFrameSection<'a>,
    /// First byte, end, and place in the tables of each entry, in ascending order.
    entries: Vec<(u64, u64, EhFrameOffset)>,
    context: UnwindContext<usize>,
}

impl<'a> Rows<'a> {
    /// Reads the rows of a file; `None` if it has no readable tables.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let tables = tables(&file)?.ok()?;
        let mut found = Vec::new();
        let mut entries = tables.0.entries(&tables.1);
        while let Some(entry) = entries.next().ok()? {
            if let gimli::CieOrFde::Fde(partial) = entry {
                let entry = partial.parse(EhFrame::cie_from_offset).ok()?;
                let start = entry.initial_address();
                found.push((start, start.checked_add(entry.len())?, entry.offset().into()));
            }
        }
        found.sort_unstable_by_key(|(start, ..)| *start);
        Some(Self { tables, entries: found, context: UnwindContext::new() })
    }

    /// Finds the row of the instruction at this address; `None` if no row is complete.
    pub fn at(&mut self, address: u64) -> Option<UnwindRow> {
        let behind = self.entries.partition_point(|(start, ..)| *start <= address);
        let (_, _, place) = self.entries.get(behind.checked_sub(1)?).filter(|(_, end, _)| address < *end)?;
        let (frames, bases) = &self.tables;
        let entry = frames.fde_from_offset(bases, *place, EhFrame::cie_from_offset).ok()?;
        let row = entry.unwind_info_for_address(frames, bases, &mut self.context, address).ok()?;
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        let mut saved = 0;
        for (other, rule) in row.registers().filter(|_| register != X86_64::RSP) {
            if !matches!(rule, RegisterRule::Undefined | RegisterRule::SameValue) {
                saved |= 1_u32.checked_shl(other.0.into())?;
            }
        }
        Some(UnwindRow { frame: (register.0, offset), saved })
    }
}

/// Returns the entries of a file that has only their index, `.eh_frame_hdr`. Each entry extends to the next one, or to
/// the end of its section.
fn of_index(file: &object::File<'_>) -> Result<Vec<Unwound>> {
    let Some(section) = file.section_by_name(".eh_frame_hdr") else { return Ok(Vec::new()) };
    let damaged = |error: &dyn std::fmt::Display| {
        Error::new(ErrorCode::Damaged, format!("the index of the unwind tables is damaged: {error}"))
    };
    let data = section.data().map_err(|error| damaged(&error))?;
    let endian =
        if file.is_little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big };
    let bases = BaseAddresses::default().set_eh_frame_hdr(section.address());
    let header = EhFrameHdr::new(data, endian).parse(&bases, if file.is_64() { 8 } else { 4 });
    let header = header.map_err(|error| damaged(&error))?;
    let mut starts = Vec::new();
    if let Some(table) = header.table() {
        let mut rows = table.iter(&bases);
        while let Some((start, _)) = rows.next().map_err(|error| damaged(&error))? {
            if let Pointer::Direct(address) = start {
                starts.push(address);
            }
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let code: Vec<_> = file
        .sections()
        .filter(|section| section.kind() == object::SectionKind::Text)
        .map(|section| section.address()..section.address().saturating_add(section.size()))
        .collect();
    let entry = |(index, address): (usize, &u64)| {
        let section = code.iter().find(|section| section.contains(address))?;
        let next = starts.get(index + 1).copied().unwrap_or(u64::MAX).min(section.end);
        Some(Unwound { address: *address, size: next - address, of_signal: false })
    };
    Ok(starts.iter().enumerate().filter_map(entry).collect())
}

impl Binary {
    /// Adds the functions of a stripped file that have no symbol, each under its address in the file: `0x4a10`. Their
    /// starts come from the unwind tables; code in a named function or in the procedure linkage table is left out.
    /// Nothing is added without a build-id, because addresses are meaningful in a single build only, nor from damaged
    /// tables.
    #[must_use]
    pub fn with_nameless(mut self, bytes: &[u8]) -> Self {
        if self.symbols_from != SymbolSource::DynamicSymbols || self.build_id.is_none() {
            return self;
        }
        let Some(mut entries) = object::File::parse(bytes).ok().and_then(|file| entries(&file).ok()) else {
            return self;
        };
        entries.sort_unstable();
        let named = std::mem::take(&mut self.functions);
        let mut named: Vec<BinaryFunction> =
            named.into_iter().filter(|function| address_of_nameless(&function.name).is_none()).collect();
        let mut reach = NamedRanges::of(&named);
        let mut added: Vec<BinaryFunction> = Vec::new();
        for Unwound { address, size, .. } in
            entries.into_iter().filter(|entry| entry.size > 0 && !entry.of_signal)
        {
            let section = self.code_sections.iter().find(|section| {
                let inside = address.checked_sub(section.address);
                inside.is_some_and(|inside| inside < section.size && size <= section.size - inside)
                    && !plt::is_stub_section(section.name.as_bytes())
            });
            let Some(section) = section else { continue };
            let is_known = added.last().is_some_and(|last| last.address == address);
            if is_known || reach.covers(address) {
                continue;
            }
            added.push(BinaryFunction {
                name: nameless(address),
                address,
                size,
                section: section.name.clone(),
                file: None,
                local: true,
                ifunc: false,
                untyped: false,
            });
        }
        self.unresolved = !added.is_empty();
        named.append(&mut added);
        named.sort_by(|a, b| (a.address, a.local, &a.name).cmp(&(b.address, b.local, &b.name)));
        self.functions = named;
        self
    }

    /// True if this function is known by its address alone.
    #[must_use]
    pub fn is_nameless(&self, function: &BinaryFunction) -> bool {
        self.unresolved && address_of_nameless(&function.name).is_some()
    }
}

/// Ranges of code that named functions cover, for queries by ascending address.
struct NamedRanges {
    /// By address: first byte, and the furthest end of all functions up to here.
    ranges: Vec<(u64, u64)>,
    next: usize,
}

impl NamedRanges {
    fn of(functions: &[BinaryFunction]) -> Self {
        let mut furthest = 0;
        let ranges = functions.iter().map(|function| {
            furthest = furthest.max(function.address.saturating_add(function.size.max(1)));
            (function.address, furthest)
        });
        Self { ranges: ranges.collect(), next: 0 }
    }

    /// True if a function covers this address. Addresses must ascend.
    fn covers(&mut self, address: u64) -> bool {
        while self.ranges.get(self.next).is_some_and(|(start, _)| *start <= address) {
            self.next += 1;
        }
        self.next > 0 && address < self.ranges[self.next - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_function_covers_its_bytes_and_those_of_functions_inside() {
        let function = |address: u64, size: u64| BinaryFunction {
            name: "named".to_owned(),
            address,
            size,
            section: ".text".to_owned(),
            file: None,
            local: false,
            ifunc: false,
            untyped: false,
        };
        let named = [function(0x10, 0x20), function(0x18, 4), function(0x40, 0)];
        let mut reach = NamedRanges::of(&named);
        let asked = [0xf, 0x10, 0x1c, 0x2f, 0x30, 0x40, 0x41];
        assert_eq!(asked.map(|address| reach.covers(address)), [false, true, true, true, false, true, false]);
    }
}
