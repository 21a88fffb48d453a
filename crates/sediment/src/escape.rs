// SPDX-License-Identifier: MIT OR Apache-2.0
//! One function per dialect.

/// Makes text safe for a terminal.
#[must_use]
pub fn terminal(text: &str) -> String {
    text.to_owned()
}
