// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON by parts: the fields of an object and the items of a list are handed on as text of the document, so that nothing is copied
//! and every error has its offset.

use super::document::Document;
use sediment_core::error::{Error, Result};
use serde::Deserializer as _;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// True for the first bytes of a JSON object.
pub(super) fn begins(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{")
}

/// Calls `visit` with every value of a document.
pub(super) fn documents<'a>(
    document: Document<'a>,
    visit: &mut dyn FnMut(&'a str) -> Result<()>,
) -> Result<()> {
    let text = std::str::from_utf8(document.bytes).map_err(|error| {
        let rest = &document.bytes[error.valid_up_to()..];
        document.damaged(rest, "JSON that is not UTF-8")
    })?;
    for value in serde_json::Deserializer::from_str(text).into_iter::<&'a RawValue>() {
        let value = value.map_err(|error| {
            Error::at_line(error.line() as u64, format!("damaged JSON: {error}"))
                .with_hint("is the file cut off? copy it again")
        })?;
        visit(value.get())?;
    }
    Ok(())
}

/// Calls `visit` with the key and value of every field of an object, or with every item of a list and no key.
pub(super) fn parts<'a>(
    document: Document<'a>,
    text: &'a str,
    visit: &mut dyn FnMut(&str, &'a str) -> Result<()>,
) -> Result<()> {
    let mut failed = None;
    let mut from = serde_json::Deserializer::from_str(text);
    let parts = Parts { visit, failed: &mut failed };
    let read = if text.starts_with('{') { from.deserialize_map(parts) } else { from.deserialize_seq(parts) };
    match (read, failed) {
        (_, Some(error)) => Err(error),
        (Err(error), None) => Err(document.refused(text.as_bytes(), &format!("damaged JSON: {error}"))),
        (Ok(()), None) => Ok(()),
    }
}

struct Parts<'f, 'a> {
    visit: &'f mut dyn FnMut(&str, &'a str) -> Result<()>,
    failed: &'f mut Option<Error>,
}

impl<'a> Parts<'_, 'a> {
    fn part<E: serde::de::Error>(&mut self, key: &str, value: &'a RawValue) -> std::result::Result<(), E> {
        (self.visit)(key, value.get()).map_err(|error| {
            *self.failed = Some(error);
            E::custom("")
        })
    }
}

impl<'a> Visitor<'a> for Parts<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> std::result::Result<(), M::Error> {
        while let Some((key, value)) = map.next_entry::<String, &'a RawValue>()? {
            self.part::<M::Error>(&key, value)?;
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'a>>(mut self, mut items: S) -> std::result::Result<(), S::Error> {
        while let Some(value) = items.next_element::<&'a RawValue>()? {
            self.part::<S::Error>("", value)?;
        }
        Ok(())
    }
}

/// True if a key is this name of a declaration, or its form in JSON: `stack_index`, `stackIndex`.
pub(super) fn is_named(key: &str, name: &str) -> bool {
    if key == name {
        return true;
    }
    let mut upper = false;
    let mut key = key.bytes();
    for byte in name.bytes() {
        if byte == b'_' {
            upper = true;
        } else {
            let wanted = if upper { byte.to_ascii_uppercase() } else { byte };
            if key.next() != Some(wanted) {
                return false;
            }
            upper = false;
        }
    }
    key.next().is_none()
}

/// An integer, which may stand in quotation marks; a negative one as protocol buffers have it.
pub(super) fn number(document: Document<'_>, text: &str) -> Result<u64> {
    let digits = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let number = digits.parse::<u64>().or_else(|_| digits.parse::<i64>().map(|number| number as u64));
    number.map_err(|_| document.damaged(text.as_bytes(), "no integer of 64 bits"))
}

/// The content of a string.
pub(super) fn string<'a>(document: Document<'a>, text: &'a str) -> Result<Cow<'a, [u8]>> {
    let plain = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match plain {
        Some(plain) if !plain.contains('\\') => Ok(Cow::Borrowed(plain.as_bytes())),
        _ => serde_json::from_str::<String>(text)
            .map(|text| Cow::Owned(text.into_bytes()))
            .map_err(|error| document.damaged(text.as_bytes(), &format!("no string: {error}"))),
    }
}
