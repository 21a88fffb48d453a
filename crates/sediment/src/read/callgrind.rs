// SPDX-License-Identifier: MIT OR Apache-2.0
//! callgrind.out of valgrind --tool=callgrind.

use super::{Reader, Recording};
use crate::error::{Error, Result};

/// Its row in the table.
pub const READER: Reader =
    Reader { name: "callgrind", summary: "callgrind.out of valgrind --tool=callgrind", recognises, read };

fn recognises(bytes: &[u8]) -> bool {
    let _ = bytes;
    false
}

fn read(bytes: &[u8]) -> Result<Recording> {
    let _ = bytes;
    Err(Error::failed("not written"))
}
