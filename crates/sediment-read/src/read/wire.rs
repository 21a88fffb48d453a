// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protocol buffers as they lie in a file: the fields of one message, each a number, a kind and a value.
//!
//! Source: "Encoding" of the protocol buffers documentation. Groups, which no profile has, are damage.

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// An integer or a boolean.
    Varint(u64),
    /// Four or eight bytes; no field of a profile is of this kind.
    Fixed,
    /// A string, a message, or a list of packed integers.
    Bytes(&'a [u8]),
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damage;

/// The fields of one message, in the order in which they lie.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = b"";
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u32, Value<'a>), Damage> {
        let (number, kind) = tag(varint(&mut self.0)?)?;
        let value = match kind {
            Kind::Varint => Value::Varint(varint(&mut self.0)?),
            Kind::Bytes => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| Damage)?;
                Value::Bytes(self.take(length)?)
            }
            Kind::Fixed(length) => {
                self.take(length)?;
                Value::Fixed
            }
        };
        Ok((number, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Damage)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Wire type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Varint,
    Bytes,
    /// This number of bytes.
    Fixed(usize),
}

/// The number of a field and its kind, from the integer before its value.
pub(super) fn tag(tag: u64) -> Result<(u32, Kind), Damage> {
    let kind = match tag & 7 {
        0 => Kind::Varint,
        1 => Kind::Fixed(8),
        2 => Kind::Bytes,
        5 => Kind::Fixed(4),
        _ => return Err(Damage),
    };
    let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
    Ok((number.ok_or(Damage)?, kind))
}

/// An integer of seven bits a byte, the lowest first; moves behind it.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, Damage> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Ok(value);
        }
    }
    Err(Damage)
}

/// Adds the integers of a field that is repeated, packed or one by one.
pub(super) fn repeated(
    value: Value<'_>,
    mut add: impl FnMut(u64) -> Result<(), Damage>,
) -> Result<(), Damage> {
    match value {
        Value::Varint(one) => add(one),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                add(varint(&mut packed)?)?;
            }
            Ok(())
        }
        Value::Fixed => Err(Damage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_the_documentation_encodes_them() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 2, 3, 4];
        let fields: Vec<_> = Fields(&bytes).collect();
        assert_eq!(
            fields,
            [Ok((1, Value::Varint(150))), Ok((2, Value::Bytes(b"hi"))), Ok((3, Value::Fixed))]
        );
    }

    #[test]
    fn damage_ends_a_message() {
        for bytes in [&[0x08][..], &[0x08, 0x80], &[0x12, 5, 1], &[0x0b], &[0x00, 1], &[0x80; 12], &[0x1d, 1]]
        {
            let fields: Vec<_> = Fields(bytes).collect();
            assert_eq!(fields, [Err(Damage)], "{bytes:?}");
        }
        let mut all_bits = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..];
        assert_eq!(varint(&mut all_bits), Ok(u64::MAX));
    }
}
