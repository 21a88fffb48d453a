// SPDX-License-Identifier: MIT OR Apache-2.0
//! A position in a perf.data file from which numbers are read one after the other, up to an end.

use sediment_core::error::{Error, Result};

/// The remaining part of the file, with its offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct PerfDataCursor<'a> {
    left: &'a [u8],
    offset: u64,
    big_endian: bool,
}

impl<'a> PerfDataCursor<'a> {
    pub(super) fn new(bytes: &'a [u8], offset: u64, big_endian: bool) -> Self {
        Self { left: bytes, offset, big_endian }
    }

    /// Offset in the file of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    /// Bytes left.
    pub(super) fn left(&self) -> &'a [u8] {
        self.left
    }

    pub(super) fn big_endian(&self) -> bool {
        self.big_endian
    }

    /// Takes the next bytes; `what` names them in the error if they are missing.
    pub(super) fn bytes(&mut self, count: u64, what: &str) -> Result<&'a [u8]> {
        let split = usize::try_from(count).ok().and_then(|count| self.left.split_at_checked(count));
        let Some((taken, left)) = split else {
            return Err(Error::at_offset(
                self.offset,
                format!("{what} needs {count} bytes, but only {} are left", self.left.len()),
            )
            .with_hint("is the file complete, and unchanged since perf wrote it?"));
        };
        self.left = left;
        self.offset += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N as u64, what)?);
        Ok(array)
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<u16> {
        let array = self.array(what)?;
        Ok(if self.big_endian { u16::from_be_bytes(array) } else { u16::from_le_bytes(array) })
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        let array = self.array(what)?;
        Ok(if self.big_endian { u32::from_be_bytes(array) } else { u32::from_le_bytes(array) })
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        let array = self.array(what)?;
        Ok(if self.big_endian { u64::from_be_bytes(array) } else { u64::from_le_bytes(array) })
    }

    /// Returns the remaining bytes up to the first NUL.
    pub(super) fn rest_as_string(&self) -> &'a [u8] {
        self.left.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Returns bits of a word that C declares as bit fields: the first one is the lowest bit, on a big-endian machine
    /// the highest.
    pub(super) fn bit_field(&self, word: u64, first: u32, width: u32) -> u64 {
        let shift = if self.big_endian { 64 - first - width } else { first };
        (word >> shift) & ((1 << width) - 1)
    }
}
