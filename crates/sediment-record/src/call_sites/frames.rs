// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of an x86-64 file by its unwind tables (`.eh_frame`), with the data that a plan needs of each: whether it begins as a
//! function does, where it has nothing but the return address on the stack, and where its landing pads are.
//!
//! Compilers write these tables as the Linux Standard Base describes them (part "Exception Frames"). Only the encoding that they use on
//! x86-64 is read: addresses relative to their place, in 4 bytes. A table in another encoding has no functions.

use std::collections::HashMap;
use std::ops::Range;

/// A function, or a part of one, that a compiler emitted in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its code, by address as linked.
    pub(super) code: Range<u64>,
    /// True if its frame is set up before its first instruction, as in the cold part of a function.
    pub(super) is_part: bool,
    /// Address of its table of landing pads, if it has one.
    pub(super) exceptions: Option<u64>,
    /// Where its unwind instructions are in the section.
    instructions: Range<usize>,
}

/// Bytes that are read one after the other; None beyond their end.
#[derive(Debug, Clone, Copy)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(*bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.number().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.number().map(u32::from_le_bytes)
    }

    /// A number of any length (LEB128); of a signed one, its bits.
    fn leb128(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            if shift < u64::BITS {
                value |= u64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }
}

/// Bytes of a pointer relative to its place, in 4 bytes with a sign (DW_EH_PE_pcrel | DW_EH_PE_sdata4).
const RELATIVE_4: u8 = 0x1b;
/// No pointer at all (DW_EH_PE_omit).
const OMITTED: u8 = 0xff;

/// Facts of a CIE, which many functions share.
#[derive(Debug, Clone, Copy, Default)]
struct Common {
    /// True if its functions can be read.
    is_known: bool,
    has_exceptions: bool,
}

fn common(section: &[u8], at: usize) -> Option<Common> {
    let mut cursor = Cursor { bytes: section, at: at.checked_add(8)? };
    cursor.byte()?;
    let start = cursor.at;
    let length = section.get(start..)?.iter().position(|byte| *byte == 0)?;
    let augmentation = section.get(start..start + length)?;
    cursor.at = start + length + 1;
    cursor.leb128()?;
    cursor.leb128()?;
    cursor.leb128()?;
    let mut found = Common::default();
    let Some((b'z', letters)) = augmentation.split_first().map(|(first, rest)| (*first, rest)) else {
        return Some(found);
    };
    cursor.leb128()?;
    for letter in letters {
        match letter {
            b'R' => found.is_known = cursor.byte()? == RELATIVE_4,
            b'L' => {
                found.has_exceptions = true;
                found.is_known &= matches!(cursor.byte()?, RELATIVE_4 | OMITTED);
            }
            b'P' => {
                let bytes = match cursor.byte()? & 7 {
                    2 => 2,
                    3 => 4,
                    0 | 4 => 8,
                    _ => return Some(Common::default()),
                };
                cursor.at += bytes;
            }
            // A signal frame (S) begins a byte before the code that it describes.
            _ => return Some(Common::default()),
        }
    }
    Some(found)
}

/// The functions of a section at this address, in ascending order. What cannot be read ends the list.
pub(super) fn frames(section: &[u8], address: u64) -> Vec<Frame> {
    let mut found = Vec::new();
    let mut commons: HashMap<usize, Common> = HashMap::new();
    let mut cursor = Cursor { bytes: section, at: 0 };
    while let Some(length) = cursor.u32() {
        let start = cursor.at;
        let Some(end) = start.checked_add(length as usize).filter(|end| *end <= section.len()) else { break };
        if length == u32::MAX {
            break;
        }
        if length > 0 {
            found.extend(frame(section, address, start..end, &mut commons));
        }
        cursor.at = end;
    }
    found.sort_by_key(|frame| (frame.code.start, frame.code.end));
    found
}

fn frame(
    section: &[u8],
    address: u64,
    entry: Range<usize>,
    commons: &mut HashMap<usize, Common>,
) -> Option<Frame> {
    let mut cursor = Cursor { bytes: section, at: entry.start };
    let back = cursor.u32()? as usize;
    if back == 0 {
        return None;
    }
    // The length of the CIE stands before what the distance leads to.
    let owner = entry.start.checked_sub(back)?;
    let Common { is_known, has_exceptions } =
        *commons.entry(owner).or_insert_with(|| common(section, owner).unwrap_or_default());
    if !is_known {
        return None;
    }
    let relative = |cursor: &mut Cursor<'_>| {
        let place = address + cursor.at as u64;
        cursor.u32().map(|distance| (distance, place.wrapping_add(distance as i32 as i64 as u64)))
    };
    let (_, start) = relative(&mut cursor)?;
    let end = start.checked_add(u64::from(cursor.u32()?))?;
    let augmentation = cursor.leb128()? as usize;
    let instructions = cursor.at.checked_add(augmentation)?..entry.end;
    let exceptions = if has_exceptions && augmentation >= 4 {
        relative(&mut cursor).filter(|(distance, _)| *distance != 0).map(|(_, place)| place)
    } else {
        None
    };
    let first = section.get(instructions.clone())?.first();
    // A frame that is described before any instruction has run was set up by somebody else.
    let is_part = first.is_some_and(|first| matches!(first, 0x0c..=0x10 | 0x80..));
    (end > start).then_some(Frame { code: start..end, is_part, exceptions, instructions })
}

impl Frame {
    /// Code that runs with nothing but the return address on the stack, as before a function's first instruction and before a tail jump.
    pub(super) fn bare(&self, section: &[u8]) -> Vec<Range<u64>> {
        self.bare_or_none(section).unwrap_or_default()
    }

    fn bare_or_none(&self, section: &[u8]) -> Option<Vec<Range<u64>>> {
        /// The frame address is the stack pointer (register 7) and 8 bytes.
        const BARE: (u64, u64) = (7, 8);
        /// A frame address that is computed.
        const OTHER: (u64, u64) = (u64::MAX, 0);
        let mut cursor = Cursor { bytes: section.get(self.instructions.clone())?, at: 0 };
        let (mut rule, mut kept) = (BARE, Vec::new());
        let (mut at, mut found) = (self.code.start, Vec::new());
        while let Some(operation) = cursor.byte() {
            let mut advance = 0;
            match operation {
                0x40..=0x7f => advance = u64::from(operation & 0x3f),
                0x80..=0xbf => drop(cursor.leb128()?),
                0x00 | 0xc0..=0xff => {}
                0x02 => advance = u64::from(cursor.byte()?),
                0x03 => advance = u64::from(cursor.u16()?),
                0x04 => advance = u64::from(cursor.u32()?),
                0x05 | 0x09 | 0x11 | 0x14 | 0x15 => {
                    cursor.leb128()?;
                    cursor.leb128()?;
                }
                0x06..=0x08 | 0x2e => drop(cursor.leb128()?),
                0x0a => kept.push(rule),
                0x0b => rule = kept.pop()?,
                0x0c => rule = (cursor.leb128()?, cursor.leb128()?),
                0x0d => rule.0 = cursor.leb128()?,
                0x0e => rule.1 = cursor.leb128()?,
                0x0f => {
                    let length = cursor.leb128()?;
                    cursor.at = cursor.at.checked_add(length as usize)?;
                    rule = OTHER;
                }
                0x10 | 0x16 => {
                    cursor.leb128()?;
                    let length = cursor.leb128()?;
                    cursor.at = cursor.at.checked_add(length as usize)?;
                }
                _ => return None,
            }
            if advance > 0 {
                if rule == BARE {
                    found.push(at..at.saturating_add(advance));
                }
                at = at.saturating_add(advance);
            }
        }
        if rule == BARE && at < self.code.end {
            found.push(at..self.code.end);
        }
        Some(found)
    }
}

/// Landing pads of a function that begins at `start`, by its table (LSDA) in a section at `address`; None if it cannot be read.
pub(super) fn landing_pads(section: &[u8], address: u64, table: u64, start: u64) -> Option<Vec<u64>> {
    const ULEB128: u8 = 1;
    const UDATA4: u8 = 3;
    let mut cursor = Cursor { bytes: section, at: usize::try_from(table.checked_sub(address)?).ok()? };
    // The pads are counted from the function's start.
    if cursor.byte()? != OMITTED {
        return None;
    }
    if cursor.byte()? != OMITTED {
        cursor.leb128()?;
    }
    let encoding = cursor.byte()?;
    let length = cursor.leb128()?;
    let end = cursor.at.checked_add(usize::try_from(length).ok()?)?;
    let mut pads = Vec::new();
    while cursor.at < end {
        let mut number = || match encoding {
            ULEB128 => cursor.leb128(),
            UDATA4 => cursor.u32().map(u64::from),
            _ => None,
        };
        let (_, _, pad) = (number()?, number()?, number()?);
        cursor.leb128()?;
        if pad != 0 {
            pads.push(start.checked_add(pad)?);
        }
    }
    Some(pads)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CIE as GCC writes it, and FDEs with these starts, sizes and instructions, in a section at 0x1000.
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
        // push; CFA is 16 behind it; ... pop; CFA is 8 again.
        let pushes: &[u8] = &[0x41, 0x0e, 16, 0x86, 2, 0x44, 0x0e, 8];
        let part: &[u8] = &[0x0e, 32];
        let section = section(&[(0x2000, 0x10, pushes), (0x3000, 8, part), (0x1800, 4, &[])]);
        let found = frames(&section, 0x1000);
        let code: Vec<_> = found.iter().map(|frame| (frame.code.clone(), frame.is_part)).collect();
        assert_eq!(code, [(0x1800..0x1804, false), (0x2000..0x2010, false), (0x3000..0x3008, true)]);
        assert_eq!(found[1].bare(&section), [0x2000..0x2001, 0x2005..0x2010]);
        assert_eq!(found[2].bare(&section), []);
    }

    #[test]
    fn damaged_tables_end_the_list() {
        let whole = section(&[(0x2000, 0x10, &[]), (0x3000, 8, &[])]);
        for length in 0..whole.len() {
            let found = frames(&whole[..length], 0x1000);
            assert!(found.len() <= 2);
            found.iter().for_each(|frame| drop(frame.bare(&whole[..length])));
        }
        for place in 0..whole.len() {
            let mut other = whole.clone();
            other[place] ^= 0xff;
            frames(&other, 0x1000).iter().for_each(|frame| drop(frame.bare(&other)));
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
