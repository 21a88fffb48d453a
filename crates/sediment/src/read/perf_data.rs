// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf.data of perf record.

use super::{Reader, Recording};
use crate::error::{Error, Result};

/// Its row in the table.
pub const READER: Reader =
    Reader { name: "perf-data", summary: "perf.data of perf record", recognises, read };

fn recognises(bytes: &[u8]) -> bool {
    let _ = bytes;
    false
}

fn read(bytes: &[u8]) -> Result<Recording> {
    let _ = bytes;
    Err(Error::failed("not written"))
}
