// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unpacks sections of debug information, and reads the numbers in them.

use crate::error::{Error, ErrorCode, Result};
use crate::unpack::UnpackBudget;
use object::{CompressionFormat, Object as _, ObjectSection as _};
use std::rc::Rc;

/// Returns the unpacked content of a section; `None` if the file lacks the section. Older tools call a compressed
/// section .zdebug_NAME.
///
/// # Errors
/// If the section is damaged, or compressed in an unsupported way.
pub(super) fn unpacked(
    file: &object::File<'_>,
    name: &str,
    budget: &mut UnpackBudget,
) -> Result<Option<Rc<[u8]>>> {
    let older = || file.section_by_name(&name.replacen(".debug_", ".zdebug_", 1));
    let Some(section) = file.section_by_name(name).or_else(older) else { return Ok(None) };
    let found = section
        .compressed_data()
        .map_err(|error| Error::new(ErrorCode::Damaged, format!("the section {name} is damaged: {error}")))?;
    let data = match found.format {
        CompressionFormat::None => match of_older_tools(found.data) {
            Some((packed, size)) => budget.zlib(packed, size),
            None => budget.copy(found.data),
        },
        CompressionFormat::Zlib => budget.zlib(found.data, found.uncompressed_size),
        _ => {
            return Err(Error::new(
                ErrorCode::UnsupportedVariant,
                format!("unsupported compression of {name}"),
            )
            .with_hint("unpack it: objcopy --decompress-debug-sections FILE"));
        }
    };
    data.map(Some).map_err(|error| error.with_input(name))
}

/// Returns the content and the unpacked size of a section that `objcopy --compress-debug-sections=zlib-gnu` compressed
/// without changing its name.
fn of_older_tools(data: &[u8]) -> Option<(&[u8], u64)> {
    let (size, packed) = data.strip_prefix(b"ZLIB")?.split_first_chunk::<8>()?;
    Some((packed, u64::from_be_bytes(*size)))
}

/// Reads the numbers of a section one after the other.
pub(super) struct SectionNumbers<'a> {
    pub(super) rest: &'a [u8],
    is_little_endian: bool,
    is_64: bool,
}

impl<'a> SectionNumbers<'a> {
    /// The numbers of a section of a file.
    pub(super) fn of(data: &'a [u8], file: &object::File<'_>) -> Self {
        Self { rest: data, is_little_endian: file.is_little_endian(), is_64: file.is_64() }
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub(super) fn uleb(&mut self) -> Option<u64> {
        let (mut sum, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            sum |= bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
            if byte & 0x80 == 0 {
                return Some(sum);
            }
            shift += 7;
        }
    }

    /// Reads an address of the size that the file's machine uses.
    pub(super) fn address(&mut self) -> Option<u64> {
        self.number(if self.is_64 { 8 } else { 4 })
    }

    /// Reads a number of a fixed size, in the file's byte order.
    pub(super) fn number(&mut self, size: usize) -> Option<u64> {
        let (bytes, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.is_little_endian { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) })
    }
}
