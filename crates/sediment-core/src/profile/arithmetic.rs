// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact integer arithmetic of profiles: fractions rounded half to even, and decimals parsed without floats.

/// a × b / c, rounded half to even; None if the result exceeds 128 bits or `c` is 0. The product may have 256 bits.
pub(super) fn scaled(a: u128, b: u128, c: u128) -> Option<u128> {
    if c == 0 {
        return None;
    }
    let (high, low) = wide_product(a, b);
    let (quotient, remainder) = match high {
        0 => {
            let quotient = low / c;
            (quotient, low - quotient * c)
        }
        _ if high >= c => return None,
        _ => wide_quotient(high, low, c),
    };
    let rest = c - remainder;
    let up = remainder > rest || (remainder == rest && quotient % 2 == 1);
    quotient.checked_add(u128::from(up))
}

/// As [`scaled`], but at least 1 if `a` and `b` are not 0.
pub(super) fn scaled_share(a: u128, b: u128, c: u128) -> Option<u128> {
    scaled(a, b, c).map(|share| if a > 0 && b > 0 { share.max(1) } else { share })
}

/// Returns a × b as the upper and lower 128 bits.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 64);
    let other = a_low * b_high + (middle & LOW);
    (a_high * b_high + (middle >> 64) + (other >> 64), (other << 64) | (low & LOW))
}

/// Quotient and remainder of a 256-bit number. `high`, its upper half, must be below the divisor.
fn wide_quotient(high: u128, low: u128, divisor: u128) -> (u128, u128) {
    let mut remainder = high;
    let mut quotient = 0;
    for bit in (0..128).rev() {
        let carried = remainder >> 127 == 1;
        remainder = (remainder << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if carried || remainder >= divisor {
            remainder = remainder.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    (quotient, remainder)
}

/// Error in a text where a profile should have a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberFault {
    /// Not a decimal number.
    NoNumber,
    /// Below zero.
    Negative,
    /// The text `NaN`.
    NotANumber,
    /// Above the largest value.
    TooLarge,
}

impl NumberFault {
    /// Message that completes the name of the number.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::NoNumber => "is not a number",
            Self::Negative => "is negative",
            Self::NotANumber => "is not a number (NaN)",
            Self::TooLarge => "is too large",
        }
    }

    /// Error for a `text` that does not consist of digits.
    fn of(text: &[u8]) -> Self {
        match text {
            [b'-', digit, ..] if digit.is_ascii_digit() || *digit == b'.' => Self::Negative,
            _ => {
                let word = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
                if word.eq_ignore_ascii_case(b"nan") { Self::NotANumber } else { Self::NoNumber }
            }
        }
    }
}

/// Reads an unsigned integer.
pub(super) fn integer(text: &[u8]) -> Result<u128, NumberFault> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(NumberFault::of(text));
    }
    let (first, rest) = text.split_at(text.len().min(SHORT));
    let value = u128::from(short(first, 0));
    rest.iter().try_fold(value, |value, digit| append(value, *digit)).ok_or(NumberFault::TooLarge)
}

/// Number of digits that always fit into 64 bits, for which arithmetic is much faster.
const SHORT: usize = 18;

/// Appends digits to the number `before`; both together have at most [`SHORT`] digits.
fn short(digits: &[u8], before: u64) -> u64 {
    digits.iter().fold(before, |value, digit| value * 10 + u64::from(digit - b'0'))
}

/// Reads a decimal, with or without an exponent, as a multiple of 10^-`decimals`, rounded half to even.
pub(super) fn decimal(text: &[u8], decimals: i64) -> Result<u128, NumberFault> {
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(position) => {
            (&text[..position], exponent(&text[position + 1..]).ok_or_else(|| NumberFault::of(text))?)
        }
        None => (text, 0),
    };
    let (whole, fraction) = match memchr::memchr(b'.', mantissa) {
        Some(position) => (&mantissa[..position], &mantissa[position + 1..]),
        None => (mantissa, &[][..]),
    };
    let mut digits = whole.iter().chain(fraction);
    if whole.len() + fraction.len() == 0 || !digits.clone().all(u8::is_ascii_digit) {
        return Err(NumberFault::of(text));
    }
    let missing = decimals - fraction.len() as i64;
    if whole.len() + fraction.len() <= SHORT && exponent == 0 && (0..=SHORT as i64).contains(&missing) {
        let value = short(fraction, short(whole, 0));
        return Ok(u128::from(value) * u128::from(10u64.pow(missing as u32)));
    }
    // The result has the first `kept` digits; the next digit decides how it is rounded.
    let kept = whole.len() as i64 + exponent + decimals;
    let mut value = 0u128;
    for position in 0..kept.max(0) {
        let digit = match digits.next() {
            Some(digit) => *digit,
            None if value == 0 => return Ok(0),
            None if kept - position > 40 => return Err(NumberFault::TooLarge),
            None => b'0',
        };
        value = append(value, digit).ok_or(NumberFault::TooLarge)?;
    }
    if kept < 0 {
        return Ok(0);
    }
    let up = match digits.next() {
        Some(b'6'..=b'9') => true,
        Some(b'5') => value % 2 == 1 || digits.any(|digit| *digit != b'0'),
        _ => false,
    };
    value.checked_add(u128::from(up)).ok_or(NumberFault::TooLarge)
}

/// Reads the exponent of a decimal. Exponents are clamped to ±2^40: beyond this limit only the number 0 is in range.
fn exponent(text: &[u8]) -> Option<i64> {
    const ENOUGH: i64 = 1 << 40;
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0, |value: i64, digit| (value * 10 + i64::from(digit - b'0')).min(ENOUGH));
    Some(sign * size)
}

fn append(value: u128, digit: u8) -> Option<u128> {
    value.checked_mul(10)?.checked_add(u128::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIFTEEN: u128 = 1_000_000_000_000_000;

    #[test]
    fn fractions_round_half_to_even() {
        assert_eq!(scaled(1, 1, 2), Some(0));
        assert_eq!(scaled(3, 1, 2), Some(2));
        assert_eq!(scaled(5, 1, 2), Some(2));
        assert_eq!(scaled(2, 1, 3), Some(1));
        assert_eq!(scaled(1, 1, 0), None);
    }

    #[test]
    fn products_of_256_bits_are_exact() {
        let large = u128::MAX;
        assert_eq!(scaled(large, large, large), Some(large));
        assert_eq!(scaled(large, 2, 4), Some(1 << 127));
        assert_eq!(scaled(large - 1, large, large - 1), Some(large));
        assert_eq!(scaled(large, large - 1, large), Some(large - 1));
        assert_eq!(scaled(large, 2, 1), None);
        assert_eq!(scaled((1 << 78) - 1, FIFTEEN, (1 << 78) - 1), Some(FIFTEEN));
    }

    #[test]
    fn counts_never_round_to_zero() {
        assert_eq!(scaled_share(1, 1, 1000), Some(1));
        assert_eq!(scaled_share(0, 1, 1000), Some(0));
        assert_eq!(scaled_share(1, 0, 1000), Some(0));
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal(b"0.115600", 15), Ok(115_600_000_000_000));
        assert_eq!(decimal(b".5", 0), Ok(0));
        assert_eq!(decimal(b"1.5", 0), Ok(2));
        assert_eq!(decimal(b"2.5", 0), Ok(2));
        assert_eq!(decimal(b"2.50001", 0), Ok(3));
        assert_eq!(decimal(b"0.0000000000000005", 15), Ok(0));
        assert_eq!(decimal(b"0.00000000000000051", 15), Ok(1));
        assert_eq!(decimal(b"0.05", 0), Ok(0));
        assert_eq!(decimal(b"1e-05", 15), Ok(10_000_000_000));
        assert_eq!(decimal(b"12.5e+1", 0), Ok(125));
        assert_eq!(decimal(b"1e99999999999999999999", 0), Err(NumberFault::TooLarge));
        assert_eq!(decimal(b"1e-99999999999999999999", 15), Ok(0));
        assert_eq!(decimal(b"0e99999999999999999999", 15), Ok(0));
        assert_eq!(decimal(b"340282366920938463463374607431768211455", 0), Ok(u128::MAX));
        assert_eq!(decimal(b"340282366920938463463374607431768211455.5", 0), Err(NumberFault::TooLarge));
        assert_eq!(decimal(b"340282366920938463463374607431768211456", 0), Err(NumberFault::TooLarge));
    }

    #[test]
    fn a_text_that_is_no_number_says_why() {
        for (text, fault) in [
            ("", NumberFault::NoNumber),
            (".", NumberFault::NoNumber),
            ("1e", NumberFault::NoNumber),
            ("0x10", NumberFault::NoNumber),
            ("inf", NumberFault::NoNumber),
            ("1.2.3", NumberFault::NoNumber),
            ("-1", NumberFault::Negative),
            ("-.5", NumberFault::Negative),
            ("nan", NumberFault::NotANumber),
            ("-NaN", NumberFault::NotANumber),
        ] {
            assert_eq!(decimal(text.as_bytes(), 15), Err(fault), "{text:?}");
            assert_eq!(integer(text.as_bytes()), Err(fault), "{text:?}");
        }
        assert_eq!(integer(b"1.0"), Err(NumberFault::NoNumber));
    }
}
