// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers of query APIs: a profile of pprof inside JSON. Parca's has the packed file as base64 (`{"pprof": "H4sI…"}`), Pyroscope's the
//! message itself with the names of its declaration (`{"sampleType": [{"type": "1", …`).
//!
//! Both become the bytes of a profile, which the reader takes like any other. Integers of 64 bits stand in quotation marks, as protocol
//! buffers have them in JSON; keys are in either spelling; unknown ones are passed over.

use sediment_core::error::{Error, Result};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;

/// A field of a declaration.
struct Field {
    /// Name in JSON.
    name: &'static str,
    number: u32,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Integers,
    Texts,
    Message(&'static [Field]),
    Messages(&'static [Field]),
}

use Kind::{Integer, Integers, Message, Messages, Texts};

const fn field(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { name, number, kind }
}

const PROFILE: &[Field] = &[
    field(1, "sampleType", Messages(VALUE_TYPE)),
    field(2, "sample", Messages(SAMPLE)),
    field(3, "mapping", Messages(MAPPING)),
    field(4, "location", Messages(LOCATION)),
    field(5, "function", Messages(FUNCTION)),
    field(6, "stringTable", Texts),
    field(7, "dropFrames", Integer),
    field(8, "keepFrames", Integer),
    field(9, "timeNanos", Integer),
    field(10, "durationNanos", Integer),
    field(11, "periodType", Message(VALUE_TYPE)),
    field(12, "period", Integer),
    field(13, "comment", Integers),
    field(14, "defaultSampleType", Integer),
];
const VALUE_TYPE: &[Field] = &[field(1, "type", Integer), field(2, "unit", Integer)];
const SAMPLE: &[Field] = &[field(1, "locationId", Integers), field(2, "value", Integers)];
const MAPPING: &[Field] = &[
    field(1, "id", Integer),
    field(2, "memoryStart", Integer),
    field(3, "memoryLimit", Integer),
    field(4, "fileOffset", Integer),
    field(5, "filename", Integer),
    field(6, "buildId", Integer),
];
const LOCATION: &[Field] = &[
    field(1, "id", Integer),
    field(2, "mappingId", Integer),
    field(3, "address", Integer),
    field(4, "line", Messages(LINE)),
];
const LINE: &[Field] = &[field(1, "functionId", Integer), field(2, "line", Integer)];
const FUNCTION: &[Field] = &[
    field(1, "id", Integer),
    field(2, "name", Integer),
    field(3, "systemName", Integer),
    field(4, "filename", Integer),
    field(5, "startLine", Integer),
];

/// Key of Parca's answer.
const PACKED: &str = "pprof";

/// True for the first bytes of such an answer.
pub(super) fn begins(head: &[u8]) -> bool {
    let Some(after) = head.trim_ascii_start().strip_prefix(b"{") else { return false };
    let mut words = after.trim_ascii_start().split(|byte| *byte == b'"');
    let key = words.next().filter(|blank| blank.is_empty()).and_then(|_| words.next());
    let key = key.and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
    key == PACKED || find(PROFILE, key).is_some()
}

/// The bytes of the profile in an answer.
pub(super) fn profile(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len() / 2);
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let read = Answer(&mut out).deserialize(&mut from).and_then(|()| from.end());
    read.map_err(|error| {
        Error::at_line(error.line() as u64, format!("damaged answer of a query API: {error}"))
            .with_hint("is the file cut off? ask again")
    })?;
    Ok(out)
}

/// The field of a key, in either spelling.
fn find(fields: &'static [Field], key: &str) -> Option<&'static Field> {
    let plain = |byte: u8| (byte != b'_').then_some(byte.to_ascii_lowercase());
    fields.iter().find(|field| key.bytes().filter_map(plain).eq(field.name.bytes().filter_map(plain)))
}

fn fault<E: serde::de::Error>(what: impl std::fmt::Display) -> E {
    E::custom(what)
}

/// The outermost object.
struct Answer<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Answer<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> std::result::Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Answer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == PACKED {
                let text: String = map.next_value()?;
                let packed =
                    base64(text.as_bytes()).ok_or_else(|| fault::<M::Error>("`pprof` is no base64"))?;
                self.0.extend(packed);
            } else if let Some(field) = find(PROFILE, &key) {
                map.next_value_seed(Part { field, out: &mut *self.0 })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The value of a field, which is appended as protocol buffers have it.
struct Part<'o> {
    field: &'static Field,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> std::result::Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl Part<'_> {
    fn integer<E: serde::de::Error>(self, value: u64) -> std::result::Result<(), E> {
        match self.field.kind {
            Integer | Integers => {
                varint(self.out, u64::from(self.field.number) << 3);
                varint(self.out, value);
                Ok(())
            }
            _ => Err(fault(format_args!("`{}` is a number", self.field.name))),
        }
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the value of `{}`", self.field.name)
    }

    fn visit_unit<E: serde::de::Error>(self) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> std::result::Result<(), E> {
        self.integer(u64::from(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> std::result::Result<(), E> {
        self.integer(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> std::result::Result<(), E> {
        self.integer(value as u64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<(), E> {
        if matches!(self.field.kind, Texts) {
            bytes(self.out, self.field.number, text.as_bytes());
            return Ok(());
        }
        let name = self.field.name;
        let number = text.parse::<u64>().or_else(|_| text.parse::<i64>().map(|number| number as u64));
        let number = number.map_err(|_| fault::<E>(format_args!("`{name}` is no integer of 64 bits")))?;
        self.integer(number)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> std::result::Result<(), S::Error> {
        if matches!(self.field.kind, Integer | Message(_)) {
            return Err(fault(format_args!("`{}` is a list", self.field.name)));
        }
        while items.next_element_seed(Part { field: self.field, out: &mut *self.out })?.is_some() {}
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<(), M::Error> {
        let (Message(fields) | Messages(fields)) = self.field.kind else {
            return Err(fault(format_args!("`{}` is an object", self.field.name)));
        };
        let mut out = Vec::new();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match find(fields, &key) {
                Some(field) => map.next_value_seed(Part { field, out: &mut out })?,
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        bytes(self.out, self.field.number, &out);
        Ok(())
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Bytes of base64, in either alphabet, with or without padding.
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
