// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protocol buffers in a file: the fields of one message, each with a number, a kind and a value; the outermost fields
//! of a compressed file ([`stream`]); and messages in JSON ([`json`]), which are read by their declarations.
//!
//! Source: "Encoding" of the protocol buffers documentation. No profile has groups, so they count as damage.

pub(super) mod json;
pub(super) mod stream;

/// Kind of a declared field.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldKind {
    /// An integer.
    Number,
    /// Integers, which protocol buffers pack.
    Numbers,
    /// Packed 64-bit numbers, which are counted but not read.
    Times,
    /// A string, or several.
    Text,
    /// A message, or several.
    Message(&'static MessageShape),
    /// A whole message as base64, only in JSON.
    Packed,
    /// 64 bits that are not read.
    Fixed,
    /// 16 bytes or none, which are not read.
    Id,
    /// Text, bytes or messages that are not read.
    Unread,
    /// A field of any kind that is not read.
    Any,
}

/// Declaration of a message: names and kinds of its fields, numbered from 1.
#[derive(Debug)]
pub(super) struct MessageShape {
    pub(super) name: &'static str,
    pub(super) fields: &'static [(&'static str, FieldKind)],
    /// True if a message has no other fields.
    pub(super) is_whole: bool,
}

impl MessageShape {
    /// Returns the field with this name in either spelling, with its number.
    pub(super) fn field_named(&self, key: &str) -> Option<(u32, &'static str, FieldKind)> {
        let plain = |byte: u8| (byte != b'_').then_some(byte.to_ascii_lowercase());
        let is_it = |name: &str| key.bytes().filter_map(plain).eq(name.bytes().filter_map(plain));
        let (number, (name, kind)) = (1..).zip(self.fields).find(|(_, (name, _))| is_it(name))?;
        Some((number, name, *kind))
    }
}

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireValue<'a> {
    /// An integer or a boolean.
    Varint(u64),
    /// Four or eight bytes; no field of a profile has this kind.
    Fixed,
    /// A string, a message, or a list of packed integers.
    Bytes(&'a [u8]),
}

/// Error for bytes that are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DamagedMessage;

/// Iterates over the fields of one message, in the order of the bytes.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, WireValue<'a>), DamagedMessage>;

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
    fn field(&mut self) -> Result<(u32, WireValue<'a>), DamagedMessage> {
        let (number, wire_type) = tag(varint(&mut self.0)?)?;
        let value = match wire_type {
            WireType::Varint => WireValue::Varint(varint(&mut self.0)?),
            WireType::Bytes => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| DamagedMessage)?;
                WireValue::Bytes(self.take(length)?)
            }
            WireType::Fixed(length) => {
                self.take(length)?;
                WireValue::Fixed
            }
        };
        Ok((number, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DamagedMessage> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DamagedMessage)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Wire type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireType {
    Varint,
    Bytes,
    /// This number of bytes.
    Fixed(usize),
}

/// Returns the number of a field and its wire type, from the integer before its value.
pub(super) fn tag(tag: u64) -> Result<(u32, WireType), DamagedMessage> {
    let kind = match tag & 7 {
        0 => WireType::Varint,
        1 => WireType::Fixed(8),
        2 => WireType::Bytes,
        5 => WireType::Fixed(4),
        _ => return Err(DamagedMessage),
    };
    let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
    Ok((number.ok_or(DamagedMessage)?, kind))
}

/// Reads an integer of seven bits per byte, the lowest first, and moves after it.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, DamagedMessage> {
    let next = || {
        let (first, rest) = bytes.split_first().ok_or(DamagedMessage)?;
        *bytes = rest;
        Ok(*first)
    };
    varint_of(next)?.ok_or(DamagedMessage)
}

/// Reads an integer whose bytes `next` returns; `None` if it has more than ten.
fn varint_of<E>(mut next: impl FnMut() -> Result<u8, E>) -> Result<Option<u64>, E> {
    let mut value = 0u64;
    for place in 0..10 {
        let byte = next()?;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Adds the integers of a repeated field, packed or one by one.
pub(super) fn repeated(
    value: WireValue<'_>,
    mut add: impl FnMut(u64) -> Result<(), DamagedMessage>,
) -> Result<(), DamagedMessage> {
    match value {
        WireValue::Varint(one) => add(one),
        WireValue::Bytes(mut packed) => {
            while !packed.is_empty() {
                add(varint(&mut packed)?)?;
            }
            Ok(())
        }
        WireValue::Fixed => Err(DamagedMessage),
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
            [Ok((1, WireValue::Varint(150))), Ok((2, WireValue::Bytes(b"hi"))), Ok((3, WireValue::Fixed))]
        );
    }

    #[test]
    fn damage_ends_a_message() {
        for bytes in [&[0x08][..], &[0x08, 0x80], &[0x12, 5, 1], &[0x0b], &[0x00, 1], &[0x80; 12], &[0x1d, 1]]
        {
            let fields: Vec<_> = Fields(bytes).collect();
            assert_eq!(fields, [Err(DamagedMessage)], "{bytes:?}");
        }
        let mut all_bits = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..];
        assert_eq!(varint(&mut all_bits), Ok(u64::MAX));
    }
}
