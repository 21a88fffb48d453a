// SPDX-License-Identifier: MIT OR Apache-2.0
//! Escapes names inside an attribute: all bytes except letters, digits and `._+-` become a per cent sign and two
//! hexadecimal digits.

use std::fmt::Write as _;

/// Returns a name as text.
pub(super) fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Returns the bytes of a name; `None` if [`escaped`] cannot have written the text.
pub(super) fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            plain if is_plain(plain) => plain,
            _ => return None,
        });
    }
    Some(name)
}

/// True for a byte that is not escaped.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._+-".contains(&byte)
}
