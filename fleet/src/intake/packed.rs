// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bodies with a `Content-Encoding`: gzip and zstd. They are unpacked to at most the size limit of a submission.

use std::io::Read;

/// Compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
}

/// Maximum window of zstd, as a power of two: 8 MiB, the size that all decoders should support.
const WINDOW: u32 = 23;

impl Packing {
    /// Parses the value of the header; `None` if the encoding is not supported.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        match value.trim() {
            "" | "identity" => Some(Self::None),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Unpacks bytes. Returns the packed bytes again if the result would be longer than `limit`.
    pub(crate) fn unpacked(self, bytes: Vec<u8>, limit: usize) -> std::io::Result<Result<Vec<u8>, Vec<u8>>> {
        let unpacked = match self {
            Self::None if bytes.len() <= limit => return Ok(Ok(bytes)),
            Self::None => None,
            Self::Gzip => whole(flate2::read::MultiGzDecoder::new(&bytes[..]), limit)?,
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(&bytes[..])?;
                decoder.window_log_max(WINDOW)?;
                whole(decoder, limit)?
            }
        };
        Ok(unpacked.ok_or(bytes))
    }
}

fn whole(from: impl Read, limit: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= limit).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn packed_bodies_are_unpacked_within_the_limit() {
        let text = b"digraph {}\n".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let zstd = zstd::stream::encode_all(&text[..], 1).unwrap();
        for (packing, packed) in [(Packing::Gzip, gzip.finish().unwrap()), (Packing::Zstd, zstd)] {
            assert_eq!(packing.unpacked(packed.clone(), text.len()).unwrap(), Ok(text.clone()));
            assert_eq!(packing.unpacked(packed.clone(), text.len() - 1).unwrap(), Err(packed.clone()));
            assert!(packing.unpacked(packed[..packed.len() / 2].to_vec(), text.len()).is_err());
        }
        assert_eq!(
            ["gzip", "zstd", "br", ""].map(|value| Packing::parse(value).is_some()),
            [true, true, false, true]
        );
    }
}
