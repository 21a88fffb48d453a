// SPDX-License-Identifier: MIT OR Apache-2.0
//! All limits on the size of decompressed data, each as a multiple of the size of the file.
//!
//! Data that stays in memory counts against one [`UnpackBudget`] per file. The budget depends on the size of the file,
//! not of the compressed section, so many sections cannot take more than one.

use crate::error::{Error, ErrorCode, Result};
use std::io::Read;
use std::rc::Rc;

/// A limit: a multiple of the size of the file, plus a number of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    times: u64,
    beside: u64,
    /// Advice for a file beyond the limit.
    hint: &'static str,
}

/// `.gnu_debugdata`, kept in memory: only a symbol table, which is smaller than its program.
pub(crate) const SYMBOLS: Limit = Limit {
    times: 2,
    beside: 4 << 20,
    hint: "no symbol table is that large; remove it: objcopy --remove-section .gnu_debugdata FILE",
};
/// Sections of debug information, kept in memory: they compress to a third, and the file also contains the program.
pub(crate) const DEBUG_SECTIONS: Limit = Limit {
    times: 8,
    beside: 32 << 20,
    hint: "no compiler writes such a file; if you trust it, unpack it first: objcopy --decompress-debug-sections FILE",
};
/// Recordings and profiles, read in pieces that are freed again. Repetitive ones compress to a fiftieth; files made to
/// exhaust memory exceed a factor of a thousand.
pub const STREAMS: Limit =
    Limit { times: 100, beside: 16 << 20, hint: "no recording compresses so well: is the file damaged?" };

impl Limit {
    /// Returns the budget of a file of this size.
    pub fn of(self, file_size: u64) -> UnpackBudget {
        UnpackBudget { limit: self, left: self.bytes(file_size) }
    }

    /// Advice for a file beyond the limit.
    pub fn hint(self) -> &'static str {
        self.hint
    }

    /// Largest size to which a file of this size may unpack, in bytes.
    pub fn bytes(self, file_size: u64) -> u64 {
        file_size.saturating_mul(self.times).saturating_add(self.beside)
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} times its size and {} MiB", self.times, self.beside >> 20)
    }
}

/// Number of bytes of memory that the sections of one file may still take.
#[derive(Debug)]
pub struct UnpackBudget {
    limit: Limit,
    left: u64,
}

impl UnpackBudget {
    fn spend(&mut self, size: u64) -> Result<()> {
        self.left = self.left.checked_sub(size).ok_or_else(|| {
            Error::new(ErrorCode::TooLarge, format!("the file unpacks to more than {}", self.limit))
                .with_hint(self.limit.hint)
        })?;
        Ok(())
    }

    /// Copies a section that is not compressed.
    pub fn copy(&mut self, data: &[u8]) -> Result<Rc<[u8]>> {
        self.spend(data.len() as u64)?;
        Ok(Rc::from(data))
    }

    /// Unpacks a section whose unpacked size is stated, into memory of that size.
    pub fn zlib(&mut self, packed: &[u8], size: u64) -> Result<Rc<[u8]>> {
        /// Largest compression ratio of deflate.
        const LARGEST_GROWTH: u64 = 1032;
        let damaged = || {
            Error::new(
                ErrorCode::Damaged,
                "the size of the unpacked section differs from the size in its header",
            )
        };
        if size > (packed.len() as u64).saturating_mul(LARGEST_GROWTH) {
            return Err(damaged());
        }
        self.spend(size)?;
        // Converting a vector to an `Rc` would need the memory twice.
        let mut unpacked: Rc<[u8]> = std::iter::repeat_n(0, size as usize).collect();
        let mut unpacking = flate2::read::ZlibDecoder::new(packed);
        let bytes = Rc::get_mut(&mut unpacked).ok_or_else(damaged)?;
        unpacking.read_exact(bytes).map_err(|_| damaged())?;
        match unpacking.read(&mut [0]) {
            Ok(0) => Ok(unpacked),
            _ => Err(damaged()),
        }
    }

    /// Unpacks xz data, whose unpacked size is not stated.
    pub fn xz(&mut self, packed: &[u8]) -> Result<Vec<u8>> {
        /// `xz -9` needs 64 MiB, the most of all presets.
        const MEMORY_KIB: u32 = 68 << 10;
        let mut unpacked = Vec::new();
        lzma_rust2::XzReader::new_mem_limit(packed, false, MEMORY_KIB)
            .take(self.left.saturating_add(1))
            .read_to_end(&mut unpacked)
            .map_err(|error| Error::new(ErrorCode::Damaged, format!("cannot be unpacked: {error}")))?;
        self.spend(unpacked.len() as u64)?;
        Ok(unpacked)
    }
}
