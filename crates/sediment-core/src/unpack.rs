// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of what anything compressed may unpack to: all of them stand here, each as a multiple of the file that it comes in.
//!
//! What is kept in memory counts byte for byte against one [`UnpackBudget`] per file, in the file's own size and not in that of the packed
//! section, so that many sections grow no further than one.

use crate::error::{Error, ErrorCode, Result};
use std::io::Read;
use std::rc::Rc;

/// A limit: a multiple of the size of the file, and a number of bytes beside.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    times: u64,
    beside: u64,
    /// Advice on a file beyond it.
    hint: &'static str,
}

/// `.gnu_debugdata`, kept in memory: a symbol table alone, which is smaller than its program.
pub(crate) const SYMBOLS: Limit = Limit {
    times: 2,
    beside: 4 << 20,
    hint: "no symbol table is that large; remove it: objcopy --remove-section .gnu_debugdata FILE",
};
/// Sections of debug information, kept in memory: compressed ones shrink to a third, and the program is beside them.
pub(crate) const DEBUG_SECTIONS: Limit = Limit {
    times: 8,
    beside: 32 << 20,
    hint: "no compiler writes such a file; if you trust it, unpack it first: objcopy --decompress-debug-sections FILE",
};
/// Recordings and profiles, read in pieces that are dropped again. They shrink to a fiftieth where they say the same over and
/// over; what is made to fill a memory goes beyond a thousandth.
pub const STREAMS: Limit =
    Limit { times: 100, beside: 16 << 20, hint: "no recording compresses so well: is the file damaged?" };

impl Limit {
    /// The budget of a file of this size.
    pub fn of(self, file_size: u64) -> UnpackBudget {
        UnpackBudget { limit: self, left: self.bytes(file_size) }
    }

    /// Advice on a file beyond it.
    pub fn hint(self) -> &'static str {
        self.hint
    }

    /// Bytes that a file of this size may unpack to.
    pub fn bytes(self, file_size: u64) -> u64 {
        file_size.saturating_mul(self.times).saturating_add(self.beside)
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} times its size and {} MiB", self.times, self.beside >> 20)
    }
}

/// Bytes of memory that the sections of one file may still take.
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

    /// A copy of a section that is not compressed.
    pub fn copy(&mut self, data: &[u8]) -> Result<Rc<[u8]>> {
        self.spend(data.len() as u64)?;
        Ok(Rc::from(data))
    }

    /// Unpacks a section that says how large it is, into memory of that size.
    pub fn zlib(&mut self, packed: &[u8], size: u64) -> Result<Rc<[u8]>> {
        /// Deflate packs nothing better than this.
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
        // A vector turned into an `Rc` would be there twice.
        let mut unpacked: Rc<[u8]> = std::iter::repeat_n(0, size as usize).collect();
        let mut unpacking = flate2::read::ZlibDecoder::new(packed);
        let bytes = Rc::get_mut(&mut unpacked).ok_or_else(damaged)?;
        unpacking.read_exact(bytes).map_err(|_| damaged())?;
        match unpacking.read(&mut [0]) {
            Ok(0) => Ok(unpacked),
            _ => Err(damaged()),
        }
    }

    /// Unpacks xz, which does not say how large it is.
    pub fn xz(&mut self, packed: &[u8]) -> Result<Vec<u8>> {
        /// `xz -9` asks for 64 MiB, the most that any preset does.
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
