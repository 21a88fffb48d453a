// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a whole input, to which the offsets of errors refer.

use sediment_core::error::{Error, ErrorCode};

/// Supported versions, for hints.
pub(super) const VERSIONS: &str =
    "supported: opentelemetry-proto 1.9 to 1.11. Update the exporter, or export pprof";

/// The unpacked bytes of a whole input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a> {
    pub(super) bytes: &'a [u8],
    /// True if the input is packed.
    pub(super) packed: bool,
    /// True if the input was JSON, so that these bytes have no offset in it.
    pub(super) from_json: bool,
}

impl Document<'_> {
    /// Error for damage at the start of these bytes.
    pub(super) fn damaged(self, part: &[u8], what: &str) -> Error {
        const HINT: &str = "is the file cut off? copy it again";
        if self.from_json {
            return Error::new(ErrorCode::Damaged, what).with_hint(HINT);
        }
        let whole = if self.packed { ", counted in the unpacked file" } else { "" };
        let offset = (part.as_ptr() as usize).saturating_sub(self.bytes.as_ptr() as usize);
        Error::at_offset(offset as u64, format!("{what}{whole}")).with_hint(HINT)
    }

    /// Error for the start of these bytes, which no supported version has.
    pub(super) fn refused(self, part: &[u8], what: &str) -> Error {
        self.damaged(part, what).with_code(ErrorCode::UnsupportedVariant).with_hint(VERSIONS)
    }
}
