// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads answers of query APIs: a pprof profile inside JSON. Parca's answer has the compressed file as base64
//! (`{"pprof": "H4sI…"}`); Pyroscope's has the message itself with the names in its declaration
//! (`{"sampleType": [{"type": "1", …`). Unknown keys are skipped.

use super::super::protobuf::FieldKind::{Message, Number, Numbers, Packed, Text};
use super::super::protobuf::{FieldKind, MessageShape, json};
use sediment_core::error::{Error, Result};

const fn shape(name: &'static str, fields: &'static [(&'static str, FieldKind)]) -> MessageShape {
    MessageShape { name, fields, is_whole: false }
}

static PROFILE: MessageShape = shape(
    "Profile",
    &[
        ("sampleType", Message(&VALUE_TYPE)),
        ("sample", Message(&SAMPLE)),
        ("mapping", Message(&MAPPING)),
        ("location", Message(&LOCATION)),
        ("function", Message(&FUNCTION)),
        ("stringTable", Text),
        ("dropFrames", Number),
        ("keepFrames", Number),
        ("timeNanos", Number),
        ("durationNanos", Number),
        ("periodType", Message(&VALUE_TYPE)),
        ("period", Number),
        ("comment", Numbers),
        ("defaultSampleType", Number),
        ("pprof", Packed),
    ],
);
static VALUE_TYPE: MessageShape = shape("ValueType", &[("type", Number), ("unit", Number)]);
static SAMPLE: MessageShape = shape("Sample", &[("locationId", Numbers), ("value", Numbers)]);
static MAPPING: MessageShape = shape(
    "Mapping",
    &[
        ("id", Number),
        ("memoryStart", Number),
        ("memoryLimit", Number),
        ("fileOffset", Number),
        ("filename", Number),
        ("buildId", Number),
    ],
);
static LOCATION: MessageShape = shape(
    "Location",
    &[("id", Number), ("mappingId", Number), ("address", Number), ("line", Message(&LINE))],
);
static LINE: MessageShape = shape("Line", &[("functionId", Number), ("line", Number)]);
static FUNCTION: MessageShape = shape(
    "Function",
    &[("id", Number), ("name", Number), ("systemName", Number), ("filename", Number), ("startLine", Number)],
);

/// True for the first bytes of such an answer.
pub(super) fn begins(head: &[u8]) -> bool {
    json::first_key(head).is_some_and(|key| PROFILE.field_named(key).is_some())
}

/// Returns the bytes of the profile in an answer.
pub(super) fn profile(bytes: &[u8]) -> Result<Vec<u8>> {
    json::messages(bytes, &PROFILE).map(|messages| messages.concat()).map_err(|error| {
        Error::at_line(error.line() as u64, format!("damaged answer of a query API: {error}"))
            .with_hint("is the file cut off? ask again")
    })
}
