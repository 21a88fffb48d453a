// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of OpenTelemetry's profiles, with their declarations.
//!
//! A field that is not in the declaration, or has another kind, is an error with its offset, because messages do not
//! contain their version, and field numbers changed between versions.
//!
//! Source: `opentelemetry/proto/profiles/v1development/profiles.proto` of github.com/open-telemetry/opentelemetry-proto, 1.9.0 to
//! 1.11.0; "JSON Protobuf Encoding" of the OpenTelemetry protocol's specification.

use super::super::protobuf::FieldKind::{Any, Fixed, Id, Message, Number, Numbers, Text, Times, Unread};
use super::super::protobuf::{self, DamagedMessage, FieldKind, Fields, MessageShape, WireType, WireValue};
use super::document::Document;
use sediment_core::error::Result;

const fn shape(name: &'static str, fields: &'static [(&'static str, FieldKind)]) -> MessageShape {
    MessageShape { name, fields, is_whole: true }
}

/// `ProfilesData` and `ExportProfilesServiceRequest`.
pub(super) static DATA: MessageShape = shape(
    "ProfilesData",
    &[("resource_profiles", Message(&RESOURCE_PROFILES)), ("dictionary", Message(&DICTIONARY))],
);

static RESOURCE_PROFILES: MessageShape = shape(
    "ResourceProfiles",
    &[("resource", Unread), ("scope_profiles", Message(&SCOPE_PROFILES)), ("schema_url", Unread)],
);

static SCOPE_PROFILES: MessageShape =
    shape("ScopeProfiles", &[("scope", Unread), ("profiles", Message(&PROFILE)), ("schema_url", Unread)]);

static PROFILE: MessageShape = shape(
    "Profile",
    &[
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
);

static VALUE_TYPE: MessageShape = shape("ValueType", &[("type_strindex", Number), ("unit_strindex", Number)]);

/// `Sample` since 1.10.
pub(super) static SAMPLE: MessageShape = shape(
    "Sample",
    &[
        ("stack_index", Number),
        ("attribute_indices", Numbers),
        ("link_index", Number),
        ("values", Numbers),
        ("timestamps_unix_nano", Times),
    ],
);

/// `Sample` of 1.9.
pub(super) static SAMPLE_1_9: MessageShape = shape(
    "Sample",
    &[
        ("stack_index", Number),
        ("values", Numbers),
        ("attribute_indices", Numbers),
        ("link_index", Number),
        ("timestamps_unix_nano", Times),
    ],
);

static DICTIONARY: MessageShape = shape(
    "ProfilesDictionary",
    &[
        ("mapping_table", Message(&MAPPING)),
        ("location_table", Message(&LOCATION)),
        ("function_table", Message(&FUNCTION)),
        ("link_table", Unread),
        ("string_table", Text),
        ("attribute_table", Message(&ATTRIBUTE)),
        ("stack_table", Message(&STACK)),
    ],
);

static MAPPING: MessageShape = shape(
    "Mapping",
    &[
        ("memory_start", Number),
        ("memory_limit", Number),
        ("file_offset", Number),
        ("filename_strindex", Number),
        ("attribute_indices", Numbers),
    ],
);

static LOCATION: MessageShape = shape(
    "Location",
    &[
        ("mapping_index", Number),
        ("address", Number),
        ("lines", Message(&LINE)),
        ("attribute_indices", Numbers),
    ],
);

static LINE: MessageShape =
    shape("Line", &[("function_index", Number), ("line", Number), ("column", Number)]);

static FUNCTION: MessageShape = shape(
    "Function",
    &[
        ("name_strindex", Number),
        ("system_name_strindex", Number),
        ("filename_strindex", Number),
        ("start_line", Number),
    ],
);

static STACK: MessageShape = shape("Stack", &[("location_indices", Numbers)]);

static ATTRIBUTE: MessageShape = shape(
    "KeyValueAndUnit",
    &[("key_strindex", Number), ("value", Message(&ANY_VALUE)), ("unit_strindex", Number)],
);

/// `string_value_strindex` exists since 1.10.
static ANY_VALUE: MessageShape = shape(
    "AnyValue",
    &[
        ("string_value", Text),
        ("bool_value", Any),
        ("int_value", Any),
        ("double_value", Any),
        ("array_value", Any),
        ("kvlist_value", Any),
        ("bytes_value", Any),
        ("string_value_strindex", Number),
    ],
);

/// Returns the messages of a file in protocol buffers. A collector's file exporter writes several, each after its
/// length.
pub(super) fn messages(document: Document<'_>) -> Result<Vec<&[u8]>> {
    let mut rest = document.bytes;
    if rest.first() != Some(&0) {
        return Ok(vec![rest]);
    }
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let message = rest.split_first_chunk().and_then(|(length, rest)| {
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            rest.split_at_checked(length)
        });
        let Some((message, after)) = message else {
            return Err(document.damaged(rest, "the file ends inside this message"));
        };
        messages.push(message);
        rest = after;
    }
    Ok(messages)
}

/// A message.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageNode<'a> {
    pub(super) shape: &'static MessageShape,
    pub(super) bytes: &'a [u8],
}

/// Value of one field.
#[derive(Debug)]
pub(super) enum FieldValue<'a> {
    /// An integer.
    Number(u64),
    /// A list of integers.
    Numbers(&'a [u8]),
    /// Length of a list that is not read.
    Count(u64),
    /// A string.
    Text(&'a [u8]),
    /// A message.
    Message(MessageNode<'a>),
}

impl<'a> MessageNode<'a> {
    /// Calls `visit` with the name and value of every field that is read.
    pub(super) fn each(
        self,
        document: Document<'a>,
        visit: &mut dyn FnMut(&'static str, FieldValue<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut fields = Fields(self.bytes);
        loop {
            let here = fields.0;
            let Some(field) = fields.next() else { return Ok(()) };
            let name = self.shape.name;
            let (number, value) = field
                .map_err(|DamagedMessage| document.damaged(here, &format!("a damaged field of {name}")))?;
            let Some((field, kind)) = self.shape.fields.get(number as usize - 1) else {
                return Err(document.refused(here, &format!("{name} has no field {number}")));
            };
            let item = match (kind, value) {
                (Number, WireValue::Varint(number)) => FieldValue::Number(number),
                (Numbers, WireValue::Bytes(list)) => FieldValue::Numbers(list),
                (Times, WireValue::Bytes(list)) if list.len() % 8 == 0 => {
                    FieldValue::Count(list.len() as u64 / 8)
                }
                (Text, WireValue::Bytes(text)) => FieldValue::Text(text),
                (Message(shape), WireValue::Bytes(bytes)) => {
                    FieldValue::Message(MessageNode { shape, bytes })
                }
                (Id, WireValue::Bytes(id)) if matches!(id.len(), 0 | 16) => continue,
                (Unread, WireValue::Bytes(_)) | (Fixed, WireValue::Fixed) | (Any, _) => continue,
                _ => {
                    let what = format!("field {number} of {name} ({field}) has another type");
                    return Err(document.refused(here, &what));
                }
            };
            visit(field, item)?;
        }
    }
}

/// Calls `add` with each integer of a list.
pub(super) fn each_number(
    mut list: &[u8],
    document: Document<'_>,
    add: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    while !list.is_empty() {
        let here = list;
        let number = protobuf::varint(&mut list);
        add(number.map_err(|DamagedMessage| document.damaged(here, "a damaged list of integers"))?)?;
    }
    Ok(())
}

/// True for the first bytes of a message in protocol buffers, or of several after their lengths: the fields of the
/// outer levels, which are the same in all versions, match the declaration, and one of them has content.
pub(super) fn begins(head: &[u8]) -> bool {
    let mut first = head;
    if let Some((length, rest)) = head.split_first_chunk().filter(|_| head[0] == 0) {
        first = &rest[..rest.len().min(u32::from_be_bytes(*length) as usize)];
    }
    let mut told = false;
    fits(first, &DATA, 1, &mut told) && told
}

/// True if the fields of a message, which may be cut off, match the declaration down to the third level.
fn fits(mut bytes: &[u8], shape: &MessageShape, level: u32, told: &mut bool) -> bool {
    while !bytes.is_empty() {
        let Ok(tag) = protobuf::varint(&mut bytes) else { return true };
        let Ok((number, WireType::Bytes)) = protobuf::tag(tag) else { return false };
        let Some((_, kind)) = shape.fields.get(number as usize - 1) else { return false };
        let Ok(length) = protobuf::varint(&mut bytes) else { return true };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (content, rest) = bytes.split_at(length.min(bytes.len()));
        // Blank lines of a text look like fields of number 1.
        *told |= level > 1 && number > 1 && !content.is_empty();
        match kind {
            Message(shape) if level < 2 && !fits(content, shape, level + 1, told) => return false,
            _ => bytes = rest,
        }
    }
    true
}
