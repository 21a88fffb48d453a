// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input of readers, which is read at offsets, so that a file may be larger than memory.

use memchr::memchr;
use sediment_core::error::{Error, Result};
use std::borrow::Cow;

/// Bytes for a reader, in memory or in a file that must not change meanwhile.
pub trait Input: Sync {
    /// Length in bytes.
    fn length(&self) -> u64;

    /// Reads from an offset into the buffer. Returns the number of bytes, which is 0 only at the end.
    ///
    /// # Errors
    /// When the system cannot read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize>;

    /// All bytes, if they are in memory.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }
}

impl Input for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl Input for Vec<u8> {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.as_slice().read_at(offset, buffer)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// Reads until the buffer is full or the input ends, and returns how many bytes were read.
///
/// # Errors
/// When the system cannot read.
pub(crate) fn fill(input: &dyn Input, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read_at(offset + filled as u64, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Error::at_offset(offset + filled as u64, format!("cannot be read: {error}")));
            }
        }
    }
    Ok(filled)
}

/// Returns the first bytes, at most `most`.
///
/// # Errors
/// When the system cannot read.
pub(crate) fn head(input: &dyn Input, most: usize) -> Result<Cow<'_, [u8]>> {
    if let Some(bytes) = input.bytes() {
        return Ok(Cow::Borrowed(&bytes[..bytes.len().min(most)]));
    }
    let mut bytes = vec![0; usize::try_from(input.length()).unwrap_or(most).min(most)];
    let count = fill(input, 0, &mut bytes)?;
    bytes.truncate(count);
    Ok(Cow::Owned(bytes))
}

/// Returns all bytes in memory, for formats whose files are small, or whose readers must go back.
///
/// # Errors
/// When the system cannot read.
pub(crate) fn whole(input: &dyn Input) -> Result<Cow<'_, [u8]>> {
    head(input, usize::MAX)
}

/// Reads the lines of an input one after the other, in a buffer of bounded size.
pub(crate) struct InputLines<'a> {
    input: &'a dyn Input,
    buffer: Vec<u8>,
    /// Offset of the buffer in the input.
    base: u64,
    /// Start in the buffer of the lines that were not returned yet.
    from: usize,
    number: u64,
    ended: bool,
    /// Smallest number of bytes to read at once.
    piece: usize,
}

impl std::fmt::Debug for InputLines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<'a> InputLines<'a> {
    /// Longest line in bytes.
    pub(crate) const LONGEST: usize = 16 << 20;
    const PIECE: usize = 1 << 18;

    /// Starts at the beginning.
    #[must_use]
    pub(crate) fn of(input: &'a dyn Input) -> Self {
        Self::in_pieces(input, Self::PIECE)
    }

    /// Starts at the beginning and reads in pieces of about `piece` bytes: small ones if many inputs are read at the
    /// same time.
    #[must_use]
    pub(crate) fn in_pieces(input: &'a dyn Input, piece: usize) -> Self {
        let piece = piece.max(1);
        Self { input, buffer: Vec::new(), base: 0, from: 0, number: 0, ended: false, piece }
    }

    /// Number of the last returned line, from 1.
    #[must_use]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Offset in the input of the next line.
    #[must_use]
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.from as u64
    }

    /// Returns the next line without its end (`\n` or `\r\n`); `None` at the end.
    ///
    /// # Errors
    /// When the system cannot read, or a line is longer than [`Self::LONGEST`].
    // No Iterator: a line lies in the buffer, until the next one is asked for.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
        let mut searched = 0;
        let end = loop {
            let rest = &self.buffer[self.from..];
            if let Some(found) = memchr(b'\n', &rest[searched..]) {
                break self.from + searched + found;
            }
            searched = rest.len();
            if self.ended {
                if rest.is_empty() {
                    return Ok(None);
                }
                break self.buffer.len();
            }
            if searched > Self::LONGEST {
                return Err(Error::at_line(
                    self.number + 1,
                    format!("a line longer than {} bytes", Self::LONGEST),
                ));
            }
            self.read_on()?;
        };
        let line = self.from..end;
        self.from = (end + 1).min(self.buffer.len());
        self.number += 1;
        let line = &self.buffer[line];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    fn read_on(&mut self) -> Result<()> {
        self.buffer.drain(..self.from);
        self.base += self.from as u64;
        self.from = 0;
        let kept = self.buffer.len();
        // A long line doubles the amount that is read at once, so that the search takes linear time.
        let piece = self.piece.max(kept);
        self.buffer.resize(kept + piece, 0);
        let count = fill(self.input, self.base + kept as u64, &mut self.buffer[kept..])?;
        self.buffer.truncate(kept + count);
        self.ended = count < piece;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input that returns few bytes at a time and has none in memory.
    struct Trickle<'a>(&'a [u8]);

    impl Input for Trickle<'_> {
        fn length(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
            let few = buffer.len().min(7);
            self.0.read_at(offset, &mut buffer[..few])
        }
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let long = "x".repeat(600_000);
        let text = format!("one\r\n\n{long}\nlast");
        let input = Trickle(text.as_bytes());
        let mut lines = InputLines::of(&input);
        for expected in ["one", "", &long, "last"] {
            assert_eq!(lines.next().unwrap(), Some(expected.as_bytes()));
        }
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!(lines.number(), 4);
        assert_eq!(head(&input, 3).unwrap().as_ref(), b"one");
        assert_eq!(whole(&input).unwrap().len(), text.len());
    }
}
