// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the functions of a file from its unwind tables (`.eh_frame`), with the data that a plan needs of each:
//! if it begins like a function, the ranges in which only the return address is on the stack, and its landing pads.
//!
//! The tables are those of the Linux Standard Base (part "Exception Frames").

use gimli::{
    BaseAddresses, CallFrameInstruction, CfaRule, CieOrFde, EhFrame, EhFrameOffset, EndianSlice,
    LittleEndian, Pointer, Reader as _, Register, UnwindContext, UnwindSection as _, Vendor,
};
use std::ops::Range;

/// Code that a compiler emitted in one piece: a function, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CodeUnit {
    /// Its code, by address as linked.
    pub(super) code: Range<u64>,
    /// True if its frame is set up before its first instruction, for example in the cold part of a function.
    pub(super) is_part: bool,
    /// Address of its table of landing pads, if it has one.
    pub(super) exceptions: Option<u64>,
    /// Its entry.
    entry: EhFrameOffset,
}

/// Where the frame of a function is before its first instruction: the frame address is this register and offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bare {
    pub(super) register: Register,
    pub(super) offset: i64,
    /// Whose instructions the tables have.
    pub(super) vendor: Vendor,
}

/// The unwind tables of a file.
#[derive(Debug, Clone)]
pub(super) struct UnwindTables<'a> {
    section: EhFrame<EndianSlice<'a, LittleEndian>>,
    bases: BaseAddresses,
    /// Addresses of the section.
    range: Range<u64>,
    bare: Bare,
}

impl<'a> UnwindTables<'a> {
    /// Reads the unwind tables of a section `.eh_frame` at this address.
    pub(super) fn new(section: &'a [u8], address: u64, bare: Bare) -> Self {
        let mut frames = EhFrame::new(section, LittleEndian);
        frames.set_vendor(bare.vendor);
        Self {
            section: frames,
            bare,
            bases: BaseAddresses::default().set_eh_frame(address),
            range: address..address.saturating_add(section.len() as u64),
        }
    }

    /// Returns all units, in ascending order. The list ends at the first one that cannot be read.
    pub(super) fn units(&self) -> Vec<CodeUnit> {
        let mut units = Vec::new();
        let mut entries = self.section.entries(&self.bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(entry) = entry else { continue };
            let Ok(entry) = entry.parse(EhFrame::cie_from_offset) else { continue };
            let code = entry.initial_address()..entry.initial_address().saturating_add(entry.len());
            // The entry of a signal frame begins a byte before the code that it describes.
            if code.is_empty() || entry.is_signal_trampoline() {
                continue;
            }
            let first = entry.instructions(&self.section, &self.bases).next();
            // If the frame is described before any instruction has run, other code has set it up.
            let is_part = matches!(
                first,
                Ok(Some(
                    CallFrameInstruction::DefCfa { .. }
                        | CallFrameInstruction::DefCfaRegister { .. }
                        | CallFrameInstruction::DefCfaOffset { .. }
                        | CallFrameInstruction::DefCfaExpression { .. }
                        | CallFrameInstruction::Expression { .. }
                        | CallFrameInstruction::Offset { .. }
                        | CallFrameInstruction::Restore { .. }
                ))
            );
            let exceptions = match entry.lsda() {
                // A distance of 0 to itself means that there is no table.
                Some(Pointer::Direct(table)) if self.range.contains(&table) => None,
                Some(Pointer::Direct(table)) => Some(table),
                // The pointer cannot be read from the file.
                Some(Pointer::Indirect(_)) => Some(u64::MAX),
                None => None,
            };
            units.push(CodeUnit { code, is_part, exceptions, entry: EhFrameOffset(entry.offset()) });
        }
        units.sort_by_key(|unit| (unit.code.start, unit.code.end));
        units
    }

    /// Finds the code of a unit that runs without a frame, for example before a function's first instruction and before a
    /// tail jump.
    pub(super) fn bare(&self, unit: &CodeUnit) -> Vec<Range<u64>> {
        self.bare_or_none(unit).unwrap_or_default()
    }

    fn bare_or_none(&self, unit: &CodeUnit) -> Option<Vec<Range<u64>>> {
        let entry = self.section.fde_from_offset(&self.bases, unit.entry, EhFrame::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        let mut rows = entry.rows(&self.section, &self.bases, &mut context).ok()?;
        let mut bare = Vec::new();
        while let Some(row) = rows.next_row().ok()? {
            let Bare { register, offset, .. } = self.bare;
            if *row.cfa() == (CfaRule::RegisterAndOffset { register, offset }) {
                bare.push(row.start_address()..row.end_address().min(unit.code.end));
            }
        }
        Some(bare)
    }
}

/// Landing pads of a function that begins at `start`, by its table (LSDA) in a section at `address`; None if it cannot be read.
pub(super) fn landing_pads(section: &[u8], address: u64, table: u64, start: u64) -> Option<Vec<u64>> {
    /// No pointer at all (DW_EH_PE_omit), and forms of numbers.
    const OMITTED: u8 = 0xff;
    const ULEB128: u8 = 1;
    const UDATA4: u8 = 3;
    let place = usize::try_from(table.checked_sub(address)?).ok()?;
    let mut reader = EndianSlice::new(section.get(place..)?, LittleEndian);
    // The pads are counted from the start of the function.
    if reader.read_u8().ok()? != OMITTED {
        return None;
    }
    if reader.read_u8().ok()? != OMITTED {
        reader.read_uleb128().ok()?;
    }
    let encoding = reader.read_u8().ok()?;
    let length = reader.read_uleb128().ok()?;
    let mut sites = reader.split(usize::try_from(length).ok()?).ok()?;
    let mut pads = Vec::new();
    while !sites.is_empty() {
        let mut number = || match encoding {
            ULEB128 => sites.read_uleb128().ok(),
            UDATA4 => sites.read_u32().ok().map(u64::from),
            _ => None,
        };
        let (_, _, pad) = (number()?, number()?, number()?);
        sites.read_uleb128().ok()?;
        if pad != 0 {
            pads.push(start.checked_add(pad)?);
        }
    }
    Some(pads)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: Bare = Bare { register: gimli::X86_64::RSP, offset: 8, vendor: Vendor::Default };

    /// A CIE as written by GCC, and FDEs with these starts, sizes and instructions, in a section at 0x1000.
    fn section(functions: &[(i32, u32, &[u8])]) -> Vec<u8> {
        let mut section = Vec::new();
        let mut add = |body: &[u8]| {
            section.extend((body.len() as u32).to_le_bytes());
            section.extend(body);
            section.len()
        };
        let mut common = vec![0, 0, 0, 0, 1];
        common.extend(b"zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0");
        let mut at = add(&common);
        for (start, size, instructions) in functions {
            let mut body = (at as u32 + 4).to_le_bytes().to_vec();
            body.extend((start - (0x1000 + at as i32 + 8)).to_le_bytes());
            body.extend(size.to_le_bytes());
            body.push(0);
            body.extend(*instructions);
            at = add(&body);
        }
        section.extend([0; 4]);
        section
    }

    #[test]
    fn functions_and_their_bare_code_are_read() {
        // push; CFA is 16 bytes after it; ... pop; CFA is 8 bytes again.
        let pushes: &[u8] = &[0x41, 0x0e, 16, 0x86, 2, 0x44, 0x0e, 8];
        let part: &[u8] = &[0x0e, 32];
        let section = section(&[(0x2000, 0x10, pushes), (0x3000, 8, part), (0x1800, 4, &[])]);
        let tables = UnwindTables::new(&section, 0x1000, BARE);
        let found = tables.units();
        let code: Vec<_> = found.iter().map(|unit| (unit.code.clone(), unit.is_part)).collect();
        assert_eq!(code, [(0x1800..0x1804, false), (0x2000..0x2010, false), (0x3000..0x3008, true)]);
        assert_eq!(tables.bare(&found[1]), [0x2000..0x2001, 0x2005..0x2010]);
        assert_eq!(tables.bare(&found[2]), []);
    }

    #[test]
    fn damaged_tables_end_the_list() {
        let whole = section(&[(0x2000, 0x10, &[]), (0x3000, 8, &[])]);
        for length in 0..whole.len() {
            let tables = UnwindTables::new(&whole[..length], 0x1000, BARE);
            let found = tables.units();
            assert!(found.len() <= 2);
            found.iter().for_each(|unit| drop(tables.bare(unit)));
        }
        for place in 0..whole.len() {
            let mut other = whole.clone();
            other[place] ^= 0xff;
            let tables = UnwindTables::new(&other, 0x1000, BARE);
            tables.units().iter().for_each(|unit| drop(tables.bare(unit)));
        }
    }

    #[test]
    fn landing_pads_are_read() {
        let table = [0xff, 0xff, 1, 8, 2, 3, 0x20, 1, 7, 1, 0, 0, 9];
        assert_eq!(landing_pads(&table, 0x500, 0x500, 0x1000), Some(vec![0x1020]));
        assert_eq!(landing_pads(&table[..6], 0x500, 0x500, 0x1000), None);
        assert_eq!(landing_pads(&table, 0x500, 0x400, 0x1000), None);
    }
}
