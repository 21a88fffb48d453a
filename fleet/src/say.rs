// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages to the user. The program continues if standard error is closed, or is a file on a full disk.

use std::io::Write as _;

/// Writes a warning to standard error.
pub fn warning(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "sediment-fleet: warning: {text}");
}
