// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of GCC's instrumentation (`-fprofile-generate`). Converts the files of a training build and its runs to a
//! [`Profile`](sediment_core::profile::Profile), and a profile to the file that sediment's plugin for GCC reads.
//!
//! A unit has two files. The compiler writes `.gcno` with the names of its functions (`-ftest-coverage`), and a run of
//! the program writes or updates `.gcda` with their counts. Both identify a function by a number and two checksums, and
//! the build of the unit by a stamp. [`Units`] joins the files only by these, so they may be in any folder
//! (`GCOV_PREFIX`, `-fprofile-dir`), and several `.gcda` of one unit are added up. [`counters()`] writes a profile for
//! the compiler.
//!
//! Sources: GCC's gcov-io.h and gcov-counter.def, and files of GCC 12, 13 and 14.

mod cursor;
mod data;
mod notes;
mod units;
mod use_file;

pub use units::{GcovIdentity, Units};
pub use use_file::{HEADER, counters};

use sediment_core::error::Result;
use sediment_core::skipped::Skipped;

/// Source of profiles with counters of instrumentation.
const INSTRUMENTED: &str = "gcc -fprofile-generate";

/// One kind of file.
struct GcovFileKind {
    /// First four bytes of a file from a little-endian machine; reversed on a big-endian one.
    magic: [u8; 4],
    extension: &'static str,
    read: fn(&[u8], &str, &mut Units, &mut Skipped) -> Result<()>,
}

/// The kinds of files.
const READERS: &[GcovFileKind] = &[data::READER, notes::READER];

/// Extension of the files with the names of functions.
pub const NOTES: &str = "gcno";

/// Number of bytes that are needed to recognise a file.
pub const HEAD: usize = 4;

fn reader(head: &[u8]) -> Option<&'static GcovFileKind> {
    let head: [u8; HEAD] = head.get(..HEAD)?.try_into().ok()?;
    let is_it = |reader: &&GcovFileKind| head == reader.magic || head.iter().rev().eq(reader.magic.iter());
    READERS.iter().find(is_it)
}

/// True if a file with this beginning belongs to a unit.
#[must_use]
pub fn recognises(head: &[u8]) -> bool {
    reader(head).is_some()
}

/// True if files with this extension (without its dot) are searched for.
#[must_use]
pub fn is_extension(extension: &str) -> bool {
    READERS.iter().any(|reader| reader.extension == extension)
}
