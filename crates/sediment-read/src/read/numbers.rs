// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses numbers in the notation of profilers.

/// Parses decimal digits without a sign. `None` for anything else, no digits, or 2^64 and above.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    /// Number of digits that always fit.
    const SAFE: usize = 19;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = |digit: &u8| u64::from(digit - b'0');
    if digits.len() <= SAFE {
        return Some(digits.iter().fold(0, |number, digit| number * 10 + value(digit)));
    }
    digits.iter().try_fold(0u64, |number, digit| number.checked_mul(10)?.checked_add(value(digit)))
}

/// Parses hexadecimal digits without a prefix or sign. `None` for anything else, or 2^64 and above.
pub(super) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{decimal, hexadecimal};

    #[test]
    fn hexadecimal_digits_are_a_number() {
        for (text, number) in [("0", Some(0)), ("fF", Some(255)), ("+1", None), ("", None), ("0x1", None)] {
            assert_eq!(hexadecimal(text.as_bytes()), number, "{text}");
        }
        assert_eq!(hexadecimal(b"10000000000000000"), None);
    }

    #[test]
    fn only_digits_are_a_number() {
        for (text, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("9999999999999999999", Some(9_999_999_999_999_999_999)),
            ("18446744073709551615", Some(u64::MAX)),
            ("00000000000000000000000000000001", Some(1)),
            ("18446744073709551616", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("0x1", None),
            ("1.0", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), number, "{text}");
        }
    }
}
