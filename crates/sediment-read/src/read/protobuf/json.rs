// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts messages in JSON to protocol buffers by their declaration, so that readers need only one form.
//!
//! 64-bit integers may be in quotation marks, as usual for protocol buffers in JSON; keys may have either spelling
//! (`stackIndex`, `stack_index`).
//!
//! Source: "ProtoJSON Format" of the protocol buffers documentation.

use super::{FieldKind, MessageShape};
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;

/// Returns the first key of an object that begins with these bytes; `None` if it is not an object.
pub(in crate::read) fn first_key(head: &[u8]) -> Option<&str> {
    let after = head.trim_ascii_start().strip_prefix(b"{")?;
    let key = after.trim_ascii_start().strip_prefix(b"\"")?.split(|byte| *byte == b'"').next()?;
    std::str::from_utf8(key).ok()
}

/// Converts the messages of a text, one after the other.
///
/// # Errors
/// If the text is damaged, or does not match the declaration.
pub(in crate::read) fn messages(
    text: &[u8],
    shape: &'static MessageShape,
) -> serde_json::Result<Vec<Vec<u8>>> {
    let mut messages = Vec::new();
    let mut from = serde_json::Deserializer::from_slice(text);
    while messages.is_empty() || from.end().is_err() {
        let mut message = Vec::new();
        MessageSeed { shape, out: &mut message }.deserialize(&mut from)?;
        messages.push(message);
    }
    Ok(messages)
}

/// Reads an object, and appends its fields.
struct MessageSeed<'o> {
    shape: &'static MessageShape,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an object of {}", self.shape.name)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match self.shape.field_named(&key) {
                Some((number, name, kind)) => {
                    map.next_value_seed(FieldSeed {
                        number,
                        name,
                        kind,
                        in_list: false,
                        out: &mut *self.out,
                    })?;
                }
                None if self.shape.is_whole => {
                    let shown: String = key.chars().take(40).collect();
                    return Err(M::Error::custom(format_args!("{} has no field {shown:?}", self.shape.name)));
                }
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }
}

/// Reads the value of a field, or an item of it.
struct FieldSeed<'o> {
    number: u32,
    name: &'static str,
    kind: FieldKind,
    in_list: bool,
    out: &'o mut Vec<u8>,
}

impl FieldSeed<'_> {
    fn put_integer<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        match self.kind {
            FieldKind::Number => {
                put_varint(self.out, u64::from(self.number) << 3);
                put_varint(self.out, value);
            }
            FieldKind::Numbers if self.in_list => put_varint(self.out, value),
            FieldKind::Times if self.in_list => self.out.extend_from_slice(&value.to_le_bytes()),
            _ => return Err(E::custom(format_args!("`{}` is a number", self.name))),
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self.kind {
            FieldKind::Fixed | FieldKind::Id | FieldKind::Unread | FieldKind::Any => {
                from.deserialize_ignored_any(IgnoredAny).map(drop)
            }
            _ => from.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the value of `{}`", self.name)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.put_integer(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.put_integer(value as u64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let name = self.name;
        match self.kind {
            FieldKind::Text => put_bytes(self.out, self.number, text.as_bytes()),
            FieldKind::Packed => self.out.extend(
                base64(text.as_bytes()).ok_or_else(|| E::custom(format_args!("`{name}` is not base64")))?,
            ),
            _ => {
                let number = text.parse::<u64>().or_else(|_| text.parse::<i64>().map(|number| number as u64));
                let fault = |_| E::custom(format_args!("`{name}` is not an integer of 64 bits"));
                return self.put_integer(number.map_err(fault)?);
            }
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<(), S::Error> {
        let Self { number, name, kind, in_list, out } = self;
        if in_list || matches!(kind, FieldKind::Number | FieldKind::Packed) {
            return Err(S::Error::custom(format_args!("`{name}` is a list")));
        }
        let mut each =
            |out: &mut Vec<u8>| items.next_element_seed(FieldSeed { number, name, kind, in_list: true, out });
        if matches!(kind, FieldKind::Numbers | FieldKind::Times) {
            let mut packed = Vec::new();
            while each(&mut packed)?.is_some() {}
            put_bytes(out, number, &packed);
        } else {
            while each(out)?.is_some() {}
        }
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<(), M::Error> {
        let FieldKind::Message(shape) = self.kind else {
            return Err(M::Error::custom(format_args!("`{}` is an object", self.name)));
        };
        let mut inner = Vec::new();
        MessageSeed { shape, out: &mut inner }.visit_map(map)?;
        put_bytes(self.out, self.number, &inner);
        Ok(())
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Decodes base64 in either alphabet, with or without padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for byte in group {
            let six = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' | b'-' => 62,
                b'/' | b'_' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(six);
        }
        let count = match group.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        let bits = bits << (6 * (4 - group.len()));
        out.extend_from_slice(&bits.to_be_bytes()[1..=count]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg==", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("+/-_", b"\xfb\xff\xbf")]
        {
            assert_eq!(base64(text.as_bytes()).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zm9*", "Zg==Zg=="] {
            assert!(base64(text.as_bytes()).is_none(), "{text}");
        }
    }
}
