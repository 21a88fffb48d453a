// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads profiles as protocol buffers, gzipped or not: either the outermost fields one by one, so that the whole is
//! never in memory, or all bytes. Data that unpacks to far more than any profile is an error.

use super::super::input::{self, Input};
use super::{WireType, tag, varint_of};
use flate2::bufread::MultiGzDecoder;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::unpack::STREAMS;
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

/// The first bytes of a gzip file.
pub(in crate::read) const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];

const PIECE: usize = 1 << 16;

/// A field of the outermost message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum Content {
    /// An integer.
    Number(u64),
    /// A string or message, which is in the buffer.
    Bytes,
    /// Four or eight bytes; no field of a profile has this kind.
    Fixed,
}

/// Reads the outermost fields one after the other.
pub(in crate::read) struct Messages<'a> {
    from: Box<dyn BufRead + 'a>,
    packed: bool,
    at: u64,
    most: u64,
    longest: u64,
    /// The last string or message.
    pub(in crate::read) buffer: Vec<u8>,
    /// Its offset in the unpacked profile.
    pub(in crate::read) offset: u64,
}

struct InputPosition<'a> {
    input: &'a dyn Input,
    at: u64,
}

impl Read for InputPosition<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read_at(self.at, buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(count) => {
                    self.at += count as u64;
                    return Ok(count);
                }
            }
        }
    }
}

impl<'a> Messages<'a> {
    /// Starts at the beginning; a field may be at most `longest` bytes long.
    pub(in crate::read) fn of(input: &'a dyn Input, longest: u64) -> Result<Self> {
        let (from, packed) = opened(input)?;
        let most = STREAMS.bytes(input.length());
        Ok(Self { from, packed, at: 0, most, longest, buffer: Vec::new(), offset: 0 })
    }

    /// Returns the next field's number and content; `None` at the end.
    pub(in crate::read) fn next(&mut self) -> Result<Option<(u32, Content)>> {
        if self.at > self.most {
            return Err(too_large());
        }
        if self.piece()?.is_empty() {
            return Ok(None);
        }
        self.offset = self.at;
        let (number, wire_type) = tag(self.varint()?).map_err(|_| self.damage("not a field of a profile"))?;
        let content = match wire_type {
            WireType::Varint => Content::Number(self.varint()?),
            WireType::Bytes => {
                let length = self.varint()?;
                self.offset = self.at;
                self.bytes(length)?;
                Content::Bytes
            }
            WireType::Fixed(length) => {
                self.bytes(length as u64)?;
                Content::Fixed
            }
        };
        Ok(Some((number, content)))
    }

    /// Error for the last field.
    pub(in crate::read) fn damage(&self, what: &str) -> Error {
        let whole = if self.packed { ", counted in the unpacked profile" } else { "" };
        Error::at_offset(self.offset, format!("{what}{whole}"))
    }

    fn piece(&mut self) -> Result<&[u8]> {
        let (at, packed) = (self.at, self.packed);
        self.from.fill_buf().map_err(|error| unreadable(packed, at, &error))
    }

    fn varint(&mut self) -> Result<u64> {
        let next = || {
            let Some(byte) = self.piece()?.first().copied() else { return Err(self.cut_off()) };
            self.from.consume(1);
            self.at += 1;
            Ok(byte)
        };
        varint_of(next)?.ok_or_else(|| self.damage("an integer of more than ten bytes"))
    }

    fn bytes(&mut self, length: u64) -> Result<()> {
        if length > self.longest {
            return Err(self.damage(&format!("a field of {length} bytes, more than the file has")));
        }
        self.buffer.clear();
        let mut missing = length as usize;
        while missing > 0 {
            let (at, packed) = (self.at, self.packed);
            let piece = self.from.fill_buf().map_err(|error| unreadable(packed, at, &error))?;
            let count = piece.len().min(missing);
            if count == 0 {
                return Err(self.cut_off());
            }
            self.buffer.extend_from_slice(&piece[..count]);
            self.from.consume(count);
            self.at += count as u64;
            missing -= count;
        }
        Ok(())
    }

    fn cut_off(&self) -> Error {
        self.damage("the profile ends inside this field").with_hint("is the file cut off? copy it again")
    }
}

/// Returns the unpacked bytes, and true if the input is compressed.
fn opened(input: &dyn Input) -> Result<(Box<dyn BufRead + '_>, bool)> {
    let packed = input::head(input, GZIP.len())?.as_ref() == GZIP;
    let source = BufReader::with_capacity(PIECE, InputPosition { input, at: 0 });
    Ok(if packed {
        (Box::new(BufReader::with_capacity(PIECE, MultiGzDecoder::new(source))), true)
    } else {
        (Box::new(source), false)
    })
}

/// Returns all bytes, unpacked; borrows them if the input has them. More than `most` bytes are an error.
pub(in crate::read) fn unpacked<'a>(input: &'a dyn Input, most: u64) -> Result<Cow<'a, [u8]>> {
    let (from, packed) = opened(input)?;
    if !packed {
        return input::whole(input);
    }
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(packed, bytes.len() as u64, &error))?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(Cow::Owned(bytes)) }
}

fn too_large() -> Error {
    let what = format!("it unpacks to more than {STREAMS}: not a profile");
    Error::new(ErrorCode::TooLarge, what).with_hint(STREAMS.hint())
}

fn unreadable(packed: bool, at: u64, error: &io::Error) -> Error {
    if packed {
        Error::new(ErrorCode::Damaged, format!("cannot be unpacked after {at} bytes: {error}"))
            .with_hint("is the file cut off or changed? copy it again")
    } else {
        Error::at_offset(at, format!("cannot be read: {error}"))
    }
}

/// Unpacks the first bytes of a gzip file as far as possible.
pub(in crate::read) fn unpacked_head(packed: &[u8]) -> Vec<u8> {
    let mut head = vec![0; PIECE];
    let mut unpacking = MultiGzDecoder::new(packed);
    let mut filled = 0;
    while let Some(count) = unpacking.read(&mut head[filled..]).ok().filter(|count| *count > 0) {
        filled += count;
    }
    head.truncate(filled);
    head
}
