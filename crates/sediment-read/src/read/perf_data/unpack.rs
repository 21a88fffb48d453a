// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unpacks records that perf compressed (`perf record -z`).
//!
//! perf keeps one zstd frame open for the whole recording and flushes it to one record after the other. A record may
//! end in the middle of a block, and the frame is never closed. Therefore this module assembles blocks and passes them
//! to the decoder one by one. At the end it adds an empty last block, so that the decoder outputs the data that it
//! keeps for references. Format: RFC 8878, sections 3.1.1 and 3.1.2.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sediment_core::error::{Error, Result};
use sediment_core::unpack::STREAMS;

/// Largest window in bytes: the window of zstd's highest level.
const LARGEST_WINDOW: u64 = 1 << 27;
const MAGIC: u32 = 0xfd2f_b528;

/// A decoder, and data that it has not received yet.
pub(super) struct Unpacker {
    decoder: FrameDecoder,
    packed: Vec<u8>,
    state: UnpackState,
    taken: u64,
    given: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnpackState {
    Header,
    Blocks {
        checksum: bool,
    },
    /// Number of bytes to skip: a skippable frame.
    Skip(u64),
}

impl Unpacker {
    pub(super) fn new() -> Self {
        Self {
            decoder: FrameDecoder::new(),
            packed: Vec::new(),
            state: UnpackState::Header,
            taken: 0,
            given: 0,
        }
    }

    /// Takes the packed bytes of a record at this offset, and appends the unpacked bytes.
    pub(super) fn take(&mut self, packed: &[u8], offset: u64, output: &mut Vec<u8>) -> Result<()> {
        self.taken += packed.len() as u64;
        self.packed.extend_from_slice(packed);
        let mut used = 0;
        while let Some(step) = self.step(used, offset)? {
            used += step;
            self.collect(offset, output)?;
        }
        self.packed.drain(..used);
        Ok(())
    }

    /// Appends the remaining bytes at the end of the recording.
    pub(super) fn finish(&mut self, offset: u64, output: &mut Vec<u8>) -> Result<()> {
        if !self.packed.is_empty() {
            return Err(Error::at_offset(
                offset,
                format!("the compressed records end with {} bytes of a longer block", self.packed.len()),
            )
            .with_hint("is the file complete, and unchanged since perf wrote it?"));
        }
        if let UnpackState::Blocks { .. } = self.state {
            /// An empty raw block with the flag of the last block, and a checksum, which nobody compares.
            const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];
            self.decode(&LAST_BLOCK, offset)?;
            self.collect(offset, output)?;
        }
        Ok(())
    }

    /// Processes one header or block, if all of it is there, and returns its length.
    fn step(&mut self, used: usize, offset: u64) -> Result<Option<usize>> {
        let left = &self.packed[used..];
        match self.state {
            UnpackState::Skip(count) => {
                let step = left.len().min(usize::try_from(count).unwrap_or(usize::MAX));
                let rest = count - step as u64;
                self.state = if rest == 0 { UnpackState::Header } else { UnpackState::Skip(rest) };
                Ok((step > 0).then_some(step))
            }
            UnpackState::Header => {
                let Some(header) = FrameHeader::read(left, offset)? else { return Ok(None) };
                let length = header.length;
                self.state = match header.skip {
                    Some(0) => UnpackState::Header,
                    Some(count) => UnpackState::Skip(count),
                    None => {
                        self.decoder.reset(&left[..length]).map_err(|error| damaged(&error, offset))?;
                        UnpackState::Blocks { checksum: header.checksum }
                    }
                };
                Ok(Some(length))
            }
            UnpackState::Blocks { checksum } => {
                let Some(head) = left.first_chunk::<3>() else { return Ok(None) };
                let head = u32::from_le_bytes([head[0], head[1], head[2], 0]);
                let size = (head >> 3) as usize;
                let last = head & 1 == 1;
                let run = head >> 1 & 3 == 1;
                let length = 3 + if run { 1 } else { size } + if last && checksum { 4 } else { 0 };
                if left.len() < length {
                    return Ok(None);
                }
                self.decoder
                    .decode_blocks(&self.packed[used..used + length], BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| damaged(&error, offset))?;
                if last {
                    self.state = UnpackState::Header;
                }
                Ok(Some(length))
            }
        }
    }

    fn decode(&mut self, block: &[u8], offset: u64) -> Result<()> {
        self.decoder
            .decode_blocks(block, BlockDecodingStrategy::UptoBlocks(1))
            .map(|_| ())
            .map_err(|error| damaged(&error, offset))
    }

    fn collect(&mut self, offset: u64, output: &mut Vec<u8>) -> Result<()> {
        /// Several blocks at once, because each call copies, which is expensive for small blocks.
        const WORTH_WHILE: usize = 1 << 16;
        let ready = self.decoder.can_collect();
        if ready == 0 || (ready < WORTH_WHILE && !self.decoder.is_finished()) {
            return Ok(());
        }
        self.given += ready as u64;
        if self.given > STREAMS.bytes(self.taken) {
            return Err(Error::at_offset(
                offset,
                format!("the compressed records unpack to more than {STREAMS}"),
            )
            .with_hint(STREAMS.hint()));
        }
        self.decoder.collect_to_writer(output).map_err(|error| damaged(&error, offset))?;
        Ok(())
    }
}

fn damaged(error: &dyn std::fmt::Display, offset: u64) -> Error {
    Error::at_offset(offset, format!("cannot unpack the compressed records: {error}"))
        .with_hint("is the file complete, and unchanged since perf wrote it?")
}

/// Header of a frame.
struct FrameHeader {
    length: usize,
    checksum: bool,
    /// For a frame to skip: the number of bytes that follow.
    skip: Option<u64>,
}

impl FrameHeader {
    /// `None` if bytes are missing.
    fn read(bytes: &[u8], offset: u64) -> Result<Option<Self>> {
        let word = |at: usize| {
            bytes.get(at..at + 4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        };
        let Some(magic) = word(0) else { return Ok(None) };
        if magic & 0xffff_fff0 == 0x184d_2a50 {
            let Some(size) = word(4) else { return Ok(None) };
            return Ok(Some(Self { length: 8, checksum: false, skip: Some(u64::from(size)) }));
        }
        if magic != MAGIC {
            return Err(Error::at_offset(
                offset,
                format!("a compressed record begins with {magic:#010x}, not with zstd's {MAGIC:#x}"),
            )
            .with_hint("is the file unchanged since perf wrote it?"));
        }
        let Some(&descriptor) = bytes.get(4) else { return Ok(None) };
        let single_segment = descriptor >> 5 & 1 == 1;
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let content = match descriptor >> 6 {
            0 => usize::from(single_segment),
            1 => 2,
            2 => 4,
            _ => 8,
        };
        let window = usize::from(!single_segment);
        let length = 5 + window + dictionary + content;
        if bytes.len() < length {
            return Ok(None);
        }
        let size = if single_segment {
            let mut word = [0; 8];
            word[..content].copy_from_slice(&bytes[length - content..length]);
            u64::from_le_bytes(word) + if content == 2 { 256 } else { 0 }
        } else {
            let base = 1u64 << (10 + (bytes[5] >> 3));
            base + base / 8 * u64::from(bytes[5] & 7)
        };
        if size > LARGEST_WINDOW {
            return Err(Error::at_offset(
                offset,
                format!("compressed records need a window of {size} bytes"),
            )
            .with_hint("is the file unchanged since perf wrote it? zstd's own limit is 128 MB"));
        }
        Ok(Some(Self { length, checksum: descriptor >> 2 & 1 == 1, skip: None }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(packed: &[u8], piece: usize) -> Result<Vec<u8>> {
        let (mut unpacker, mut output) = (Unpacker::new(), Vec::new());
        for piece in packed.chunks(piece) {
            unpacker.take(piece, 8, &mut output)?;
        }
        unpacker.finish(8, &mut output)?;
        Ok(output)
    }

    /// Makes a frame with a window of 128 KiB, which is closed if `last`.
    fn frame(blocks: &[(u32, u32, &[u8])], last: bool) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([0, 7 << 3]);
        for (index, (kind, size, content)) in blocks.iter().enumerate() {
            let is_last = last && index + 1 == blocks.len();
            bytes.extend(&(size << 3 | kind << 1 | u32::from(is_last)).to_le_bytes()[..3]);
            bytes.extend(*content);
        }
        bytes
    }

    #[test]
    fn pieces_of_any_size_of_a_frame_that_is_never_closed_are_unpacked() {
        let open = frame(&[(0, 5, b"hello"), (1, 4, b"!"), (0, 3, b"end")], false);
        let closed = frame(&[(0, 5, b"hello"), (1, 4, b"!"), (0, 3, b"end")], true);
        let skipped = [&0x184d_2a53u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"???"].concat();
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(unpack(&open, piece).unwrap(), b"hello!!!!end");
            assert_eq!(
                unpack(&[&closed[..], &skipped, &open].concat(), piece).unwrap(),
                b"hello!!!!endhello!!!!end"
            );
        }
    }

    #[test]
    fn real_compression_is_undone() {
        let text: Vec<u8> = (0..400_000u32).flat_map(|number| (number / 7 % 1000).to_le_bytes()).collect();
        let packed =
            ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
        assert!(packed.len() < text.len() / 2);
        assert!(unpack(&packed, 60_000).unwrap() == text);
    }

    #[test]
    fn decompression_bombs_are_refused() {
        let bomb = frame(&vec![(1, 131_072, &b"0"[..]); 16_000], false);
        assert!(unpack(&bomb, 60_000).unwrap_err().to_string().contains("more than 100 times"));
        let mut wide = frame(&[], false);
        wide[5] = 31 << 3;
        assert!(unpack(&wide, 60_000).unwrap_err().to_string().contains("need a window"));
        assert!(unpack(b"this is no zstd", 60_000).unwrap_err().to_string().contains("zstd"));
        let open = frame(&[(0, 5, b"hello"), (2, 4, b"????")], false);
        assert!(unpack(&open, 60_000).unwrap_err().to_string().contains("cannot unpack"));
        assert!(unpack(&open[..9], 60_000).unwrap_err().to_string().contains("a longer block"));
    }
}
