// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of OpenTelemetry's profiles by their declaration, and how one is read from protocol buffers and from JSON alike.
//!
//! A field that the declaration does not have, or of another kind, is refused with its offset: messages carry no version, and
//! numbers changed from version to version.
//!
//! Source: `opentelemetry/proto/profiles/v1development/profiles.proto` of github.com/open-telemetry/opentelemetry-proto, 1.9.0 to
//! 1.11.0; "JSON Protobuf Encoding" of the OpenTelemetry protocol's specification.

use super::super::wire::{self, Damage, Fields, Value};
use super::document::Document;
use super::json;
use sediment_core::error::Result;
use std::borrow::Cow;

/// Content of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// An integer.
    Number,
    /// Integers; protocol buffers have them packed.
    Numbers,
    /// Numbers of 64 bits, packed, of which only the number counts.
    Times,
    /// A string, or several.
    Text,
    /// A message, or several.
    Message(&'static Shape),
    /// 64 bits, not read.
    Fixed,
    /// 16 bytes or none, not read.
    Id,
    /// Text, bytes or messages that are not read.
    Unread,
    /// A field of any kind, not read.
    Any,
}

use Kind::{Any, Fixed, Id, Message, Number, Numbers, Text, Times, Unread};

/// Declaration of a message: names and kinds of its fields, by their numbers from 1.
#[derive(Debug)]
pub(super) struct Shape {
    name: &'static str,
    fields: &'static [(&'static str, Kind)],
}

/// `ProfilesData` and `ExportProfilesServiceRequest`.
pub(super) static DATA: Shape = Shape {
    name: "ProfilesData",
    fields: &[("resource_profiles", Message(&RESOURCE_PROFILES)), ("dictionary", Message(&DICTIONARY))],
};

static RESOURCE_PROFILES: Shape = Shape {
    name: "ResourceProfiles",
    fields: &[("resource", Unread), ("scope_profiles", Message(&SCOPE_PROFILES)), ("schema_url", Unread)],
};

static SCOPE_PROFILES: Shape = Shape {
    name: "ScopeProfiles",
    fields: &[("scope", Unread), ("profiles", Message(&PROFILE)), ("schema_url", Unread)],
};

static PROFILE: Shape = Shape {
    name: "Profile",
    fields: &[
        ("sample_type", Message(&VALUE_TYPE)),
        ("samples", Message(&SAMPLE)),
        ("time_unix_nano", Fixed),
        ("duration_nano", Number),
        ("period_type", Message(&VALUE_TYPE)),
        ("period", Number),
        ("profile_id", Id),
        ("dropped_attributes_count", Number),
        ("original_payload_format", Unread),
        ("original_payload", Unread),
        ("attribute_indices", Numbers),
    ],
};

static VALUE_TYPE: Shape =
    Shape { name: "ValueType", fields: &[("type_strindex", Number), ("unit_strindex", Number)] };

/// `Sample` since 1.10.
pub(super) static SAMPLE: Shape = Shape {
    name: "Sample",
    fields: &[
        ("stack_index", Number),
        ("attribute_indices", Numbers),
        ("link_index", Number),
        ("values", Numbers),
        ("timestamps_unix_nano", Times),
    ],
};

/// `Sample` of 1.9.
pub(super) static SAMPLE_1_9: Shape = Shape {
    name: "Sample",
    fields: &[
        ("stack_index", Number),
        ("values", Numbers),
        ("attribute_indices", Numbers),
        ("link_index", Number),
        ("timestamps_unix_nano", Times),
    ],
};

static DICTIONARY: Shape = Shape {
    name: "ProfilesDictionary",
    fields: &[
        ("mapping_table", Message(&MAPPING)),
        ("location_table", Message(&LOCATION)),
        ("function_table", Message(&FUNCTION)),
        ("link_table", Unread),
        ("string_table", Text),
        ("attribute_table", Message(&ATTRIBUTE)),
        ("stack_table", Message(&STACK)),
    ],
};

static MAPPING: Shape = Shape {
    name: "Mapping",
    fields: &[
        ("memory_start", Number),
        ("memory_limit", Number),
        ("file_offset", Number),
        ("filename_strindex", Number),
        ("attribute_indices", Numbers),
    ],
};

static LOCATION: Shape = Shape {
    name: "Location",
    fields: &[
        ("mapping_index", Number),
        ("address", Number),
        ("lines", Message(&LINE)),
        ("attribute_indices", Numbers),
    ],
};

static LINE: Shape =
    Shape { name: "Line", fields: &[("function_index", Number), ("line", Number), ("column", Number)] };

static FUNCTION: Shape = Shape {
    name: "Function",
    fields: &[
        ("name_strindex", Number),
        ("system_name_strindex", Number),
        ("filename_strindex", Number),
        ("start_line", Number),
    ],
};

static STACK: Shape = Shape { name: "Stack", fields: &[("location_indices", Numbers)] };

static ATTRIBUTE: Shape = Shape {
    name: "KeyValueAndUnit",
    fields: &[("key_strindex", Number), ("value", Message(&ANY_VALUE)), ("unit_strindex", Number)],
};

/// `string_value_strindex` is there since 1.10.
static ANY_VALUE: Shape = Shape {
    name: "AnyValue",
    fields: &[
        ("string_value", Text),
        ("bool_value", Any),
        ("int_value", Any),
        ("double_value", Any),
        ("array_value", Any),
        ("kvlist_value", Any),
        ("bytes_value", Any),
        ("string_value_strindex", Number),
    ],
};

/// Calls `visit` with every message of a file. A collector's file exporter writes several, as lines of JSON or as protocol buffers,
/// each behind its length.
pub(super) fn each_message<'a>(
    document: Document<'a>,
    visit: &mut dyn FnMut(Node<'a>) -> Result<()>,
) -> Result<()> {
    let mut rest = document.bytes;
    if json::begins(rest) {
        let data = |text| Node { shape: &DATA, content: Content::Json(text) };
        return json::documents(document, &mut |text| visit(data(text)));
    }
    let data = |bytes| Node { shape: &DATA, content: Content::Protobuf(bytes) };
    if rest.first() != Some(&0) {
        return visit(data(rest));
    }
    while !rest.is_empty() {
        let message = rest.split_first_chunk().and_then(|(length, rest)| {
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            rest.split_at_checked(length)
        });
        let Some((message, after)) = message else {
            return Err(document.damaged(rest, "the file ends inside this message"));
        };
        visit(data(message))?;
        rest = after;
    }
    Ok(())
}

/// A message, in either encoding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) shape: &'static Shape,
    pub(super) content: Content<'a>,
}

/// Bytes or text of a message or list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    Protobuf(&'a [u8]),
    Json(&'a str),
}

impl<'a> Content<'a> {
    /// The bytes in the document.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Protobuf(bytes) => bytes,
            Self::Json(text) => text.as_bytes(),
        }
    }

    /// Calls `add` with each integer of a list.
    pub(super) fn numbers(
        self,
        document: Document<'a>,
        add: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Protobuf(mut bytes) => {
                while !bytes.is_empty() {
                    let here = bytes;
                    let number = wire::varint(&mut bytes);
                    add(number.map_err(|Damage| document.damaged(here, "a damaged list of integers"))?)?;
                }
                Ok(())
            }
            Self::Json(text) => {
                json::parts(document, text, &mut |_, item| add(json::number(document, item)?))
            }
        }
    }
}

/// Value of one field.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// An integer.
    Number(u64),
    /// A list of integers.
    Numbers(Content<'a>),
    /// Length of a list that is not read.
    Count(u64),
    /// A string.
    Text(Cow<'a, [u8]>),
    /// A message.
    Message(Node<'a>),
}

impl<'a> Node<'a> {
    /// Calls `visit` with the name and value of every field that is read.
    pub(super) fn each(
        self,
        document: Document<'a>,
        visit: &mut dyn FnMut(&'static str, Item<'a>) -> Result<()>,
    ) -> Result<()> {
        let bytes = match self.content {
            Content::Protobuf(bytes) => bytes,
            Content::Json(text) => return self.each_of_json(document, text, visit),
        };
        let mut fields = Fields(bytes);
        loop {
            let here = fields.0;
            let Some(field) = fields.next() else { return Ok(()) };
            let name = self.shape.name;
            let (number, value) =
                field.map_err(|Damage| document.damaged(here, &format!("a damaged field of {name}")))?;
            let Some((field, kind)) = self.shape.fields.get(number as usize - 1) else {
                return Err(document.refused(here, &format!("{name} has no field {number}")));
            };
            let item = match (kind, value) {
                (Number, Value::Varint(number)) => Item::Number(number),
                (Numbers, Value::Bytes(list)) => Item::Numbers(Content::Protobuf(list)),
                (Times, Value::Bytes(list)) if list.len() % 8 == 0 => Item::Count(list.len() as u64 / 8),
                (Text, Value::Bytes(text)) => Item::Text(Cow::Borrowed(text)),
                (Message(shape), Value::Bytes(bytes)) => {
                    Item::Message(Node { shape, content: Content::Protobuf(bytes) })
                }
                (Id, Value::Bytes(id)) if matches!(id.len(), 0 | 16) => continue,
                (Unread, Value::Bytes(_)) | (Fixed, Value::Fixed) | (Any, _) => continue,
                _ => {
                    let what = format!("field {number} of {name} ({field}) is of another kind");
                    return Err(document.refused(here, &what));
                }
            };
            visit(field, item)?;
        }
    }

    fn each_of_json(
        self,
        document: Document<'a>,
        text: &'a str,
        visit: &mut dyn FnMut(&'static str, Item<'a>) -> Result<()>,
    ) -> Result<()> {
        if !text.starts_with('{') {
            return Err(document.refused(text.as_bytes(), &format!("{} is no object", self.shape.name)));
        }
        json::parts(document, text, &mut |key, value| {
            let Some((field, kind)) = self.shape.fields.iter().find(|(name, _)| json::is_named(key, name))
            else {
                let shown: String = key.chars().take(40).collect();
                let what = format!("{} has no field {shown:?}", self.shape.name);
                return Err(document.refused(value.as_bytes(), &what));
            };
            let mut one = |text: &'a str| match kind {
                Text => visit(field, Item::Text(json::string(document, text)?)),
                Message(shape) => visit(field, Item::Message(Node { shape, content: Content::Json(text) })),
                _ => Ok(()),
            };
            match kind {
                _ if value == "null" => Ok(()),
                Text | Message(_) if value.starts_with('[') => {
                    json::parts(document, value, &mut |_, item| one(item))
                }
                Text | Message(_) => one(value),
                Number => visit(field, Item::Number(json::number(document, value)?)),
                Numbers => visit(field, Item::Numbers(Content::Json(value))),
                Times => {
                    let mut count = 0;
                    json::parts(document, value, &mut |_, item| {
                        json::number(document, item).map(|_| count += 1)
                    })?;
                    visit(field, Item::Count(count))
                }
                Fixed | Id | Unread | Any => Ok(()),
            }
        })
    }
}

/// True for the first bytes of a message in protocol buffers, or of several behind their lengths: of the outer levels, which no
/// version has changed, the fields are as declared, and one of them has content.
pub(super) fn begins(head: &[u8]) -> bool {
    let mut first = head;
    if let Some((length, rest)) = head.split_first_chunk().filter(|_| head[0] == 0) {
        first = &rest[..rest.len().min(u32::from_be_bytes(*length) as usize)];
    }
    let mut told = false;
    fits(first, &DATA, 1, &mut told) && told
}

/// True if the fields of a message that may be cut off are as declared, down to the third level.
fn fits(mut bytes: &[u8], shape: &Shape, level: u32, told: &mut bool) -> bool {
    while !bytes.is_empty() {
        let Ok(tag) = wire::varint(&mut bytes) else { return true };
        let Ok((number, wire::Kind::Bytes)) = wire::tag(tag) else { return false };
        let Some((_, kind)) = shape.fields.get(number as usize - 1) else { return false };
        let Ok(length) = wire::varint(&mut bytes) else { return true };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (content, rest) = bytes.split_at(length.min(bytes.len()));
        // Blank lines of a text are fields of number 1.
        *told |= level > 1 && number > 1 && !content.is_empty();
        match kind {
            Message(shape) if level < 2 && !fits(content, shape, level + 1, told) => return false,
            _ => bytes = rest,
        }
    }
    true
}
