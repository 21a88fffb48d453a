// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads words, strings and records of gcov's files, up to an end.

use sediment_core::error::{Error, ErrorCode, Result};

/// The oldest and the latest supported major version of GCC. Lengths are in bytes since version 12.
const VERSIONS: std::ops::RangeInclusive<u32> = 12..=16;

/// The remaining part of a file, with its offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct GcovCursor<'a> {
    left: &'a [u8],
    offset: u64,
    is_big_endian: bool,
}

/// Beginning of both kinds of files.
pub(super) struct GcovHeader {
    /// Identity of the compilation.
    pub(super) stamp: u32,
}

/// A record: its tag, its length, and its content.
pub(super) struct GcovRecord<'a> {
    pub(super) tag: u32,
    /// If negative: the number of zero bytes that the content represents, which are not in the file.
    pub(super) length: i32,
    pub(super) content: GcovCursor<'a>,
}

impl<'a> GcovCursor<'a> {
    /// Reads the header of a file that begins with this magic number on a little-endian machine.
    pub(super) fn open(bytes: &'a [u8], magic: [u8; 4]) -> Result<(Self, GcovHeader)> {
        let is_big_endian = bytes.get(..magic.len()) != Some(&magic[..]);
        let mut cursor = Self { left: bytes, offset: 0, is_big_endian };
        cursor.word("the magic number")?;
        let version = cursor.word("the version")?;
        supported(version)?;
        let stamp = cursor.word("the stamp")?;
        cursor.word("the checksum")?;
        Ok((cursor, GcovHeader { stamp }))
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    fn bytes(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        let Some((taken, left)) = self.left.split_at_checked(count) else {
            let found = format!("{what} needs {count} bytes, but only {} are left", self.left.len());
            return Err(Error::at_offset(self.offset, found)
                .with_hint("the file is cut off: was the program or the compiler killed while writing it?"));
        };
        self.left = left;
        self.offset += count as u64;
        Ok(taken)
    }

    pub(super) fn word(&mut self, what: &str) -> Result<u32> {
        let mut word = [0; 4];
        word.copy_from_slice(self.bytes(4, what)?);
        Ok(if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    /// Reads a counter: two words, the lower first.
    pub(super) fn counter(&mut self) -> Result<u64> {
        let low = u64::from(self.word("a counter")?);
        Ok(u64::from(self.word("a counter")?) << 32 | low)
    }

    /// Reads a string: its length including the zero at its end, and its bytes. Empty if the length is 0.
    pub(super) fn string(&mut self, what: &str) -> Result<&'a [u8]> {
        let length = self.word(what)? as usize;
        let bytes = self.bytes(length, what)?;
        Ok(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    }

    /// Returns the next record; `None` at the end of the file.
    pub(super) fn record(&mut self) -> Result<Option<GcovRecord<'a>>> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.word("the tag of a record")?;
        if tag == 0 {
            return Ok(None);
        }
        let length = self.word("the length of a record")? as i32;
        let (offset, is_big_endian) = (self.offset, self.is_big_endian);
        let left = self.bytes(usize::try_from(length).unwrap_or(0), "a record")?;
        Ok(Some(GcovRecord { tag, length, content: Self { left, offset, is_big_endian } }))
    }
}

/// Checks the version: four characters. The first two are the major version (`B2` is 12), the third is the minor
/// version.
fn supported(version: u32) -> Result<()> {
    let [tens, ones, ..] = version.to_be_bytes();
    // Versions of GCC 9 and earlier begin with a digit.
    let digit = |byte: u8, zero: u8| byte.checked_sub(zero).filter(|digit| *digit < 10).map(u32::from);
    let major = match (digit(tens, b'A'), digit(ones, b'0')) {
        (Some(tens), Some(ones)) => Some(tens * 10 + ones),
        _ => None,
    };
    if major.is_some_and(|major| VERSIONS.contains(&major)) {
        return Ok(());
    }
    let found = match (major, tens) {
        (Some(major), _) => format!("a file of GCC {major}"),
        (None, b'0'..=b'9') => "a file of GCC 9 or earlier, or of clang".to_owned(),
        (None, _) => "a file of an unknown version of GCC".to_owned(),
    };
    Err(Error::new(ErrorCode::UnsupportedVariant, found)
        .with_found(&version.to_be_bytes())
        .with_hint(format!("compile the training build with GCC {} to {}", VERSIONS.start(), VERSIONS.end())))
}
