// SPDX-License-Identifier: MIT OR Apache-2.0
//! text of perf report with branch columns.

use super::{Reader, Recording};
use crate::error::{Error, Result};

/// Its row in the table.
pub const READER: Reader =
    Reader { name: "perf-report", summary: "text of perf report with branch columns", recognises, read };

fn recognises(bytes: &[u8]) -> bool {
    let _ = bytes;
    false
}

fn read(bytes: &[u8]) -> Result<Recording> {
    let _ = bytes;
    Err(Error::failed("not written"))
}
