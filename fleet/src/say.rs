// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines for whoever runs the program. A standard error stream that nobody reads any more, or a full disk behind it, stops nothing.

use std::io::Write as _;

/// Writes a warning to the standard error stream.
pub fn warning(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "sediment-fleet: warning: {text}");
}
