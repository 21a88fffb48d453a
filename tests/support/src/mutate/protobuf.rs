// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles as protocol buffers, of pprof and OpenTelemetry: a tree of fields, of which any may change; the lengths around it are
//! written anew.

use super::{blur, number, one_of, put_varint, rearrange, varint};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use sediment_core::random::Generator;
use std::io::{Read as _, Write as _};

#[derive(Debug, Clone)]
enum Value {
    Number(u64),
    Fixed(Vec<u8>),
    Text(Vec<u8>),
    Packed(Vec<u64>),
    Message(Vec<Field>),
}

type Field = (u64, Value);

/// Messages of the formats, and lists of integers in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Profile,
    Sample,
    Location,
    Leaf,
    Data,
    Resource,
    Scope,
    OtlpProfile,
    OtlpSample,
    Dictionary,
    OtlpLocation,
    Attribute,
    /// A message whose field of this number is a list.
    Row(u64),
    List,
}

const GZIP: &[u8] = &[0x1f, 0x8b];
const LONGEST: u64 = 1 << 20;

pub fn pprof(bytes: &[u8], numbers: &mut Generator) -> Option<Vec<u8>> {
    mutate(bytes, Kind::Profile, numbers)
}

pub fn otlp(bytes: &[u8], numbers: &mut Generator) -> Option<Vec<u8>> {
    mutate(bytes, Kind::Data, numbers)
}

fn mutate(bytes: &[u8], kind: Kind, numbers: &mut Generator) -> Option<Vec<u8>> {
    let packed = bytes.starts_with(GZIP);
    let mut plain = Vec::new();
    if packed {
        MultiGzDecoder::new(bytes).take(LONGEST).read_to_end(&mut plain).ok()?;
    } else {
        plain = bytes.to_vec();
    }
    let mut fields = parse(&plain, kind)?;
    change(&mut fields, kind, numbers);
    let mut mutant = Vec::new();
    write(&fields, &mut mutant);
    if packed != (numbers.below(16) == 0) {
        let mut packing = GzEncoder::new(Vec::new(), Compression::fast());
        packing.write_all(&mutant).ok()?;
        mutant = packing.finish().ok()?;
    }
    Some(mutant)
}

/// Message kind of a field that holds bytes.
fn inside(kind: Kind, field: u64) -> Option<Kind> {
    match (kind, field) {
        (Kind::Profile, 2) => Some(Kind::Sample),
        (Kind::Profile, 4) => Some(Kind::Location),
        (Kind::Profile, 1 | 3 | 5 | 11) | (Kind::Sample, 3) | (Kind::Location, 4) => Some(Kind::Leaf),
        (Kind::Sample, _) => Some(Kind::List),
        (Kind::Data, 1) => Some(Kind::Resource),
        (Kind::Data, 2) => Some(Kind::Dictionary),
        (Kind::Resource, 2) => Some(Kind::Scope),
        (Kind::Scope, 2) => Some(Kind::OtlpProfile),
        (Kind::OtlpProfile, 2) => Some(Kind::OtlpSample),
        (Kind::Dictionary, 1) => Some(Kind::Row(5)),
        (Kind::Dictionary, 2) => Some(Kind::OtlpLocation),
        (Kind::Dictionary, 6) => Some(Kind::Attribute),
        (Kind::Dictionary, 7) => Some(Kind::Row(1)),
        (Kind::OtlpProfile, 1 | 5)
        | (Kind::Dictionary, 3 | 4)
        | (Kind::OtlpLocation, 3)
        | (Kind::Attribute, 2) => Some(Kind::Leaf),
        (Kind::OtlpSample, 2..=4) | (Kind::OtlpProfile, 11) | (Kind::OtlpLocation, 4) => Some(Kind::List),
        (Kind::Row(list), field) if list == field => Some(Kind::List),
        _ => None,
    }
}

fn parse(mut rest: &[u8], kind: Kind) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (tag, after) = varint(rest)?;
        let field = tag >> 3;
        let (value, after) = match tag & 7 {
            0 => varint(after).map(|(number, after)| (Value::Number(number), after))?,
            wire @ (1 | 5) => {
                let (bytes, after) = after.split_at_checked(if wire == 1 { 8 } else { 4 })?;
                (Value::Fixed(bytes.to_vec()), after)
            }
            2 => {
                let (length, after) = varint(after)?;
                let (bytes, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
                let value = match inside(kind, field) {
                    Some(Kind::List) => Value::Packed(unpack(bytes)?),
                    Some(kind) => Value::Message(parse(bytes, kind)?),
                    None => Value::Text(bytes.to_vec()),
                };
                (value, after)
            }
            _ => return None,
        };
        fields.push((field, value));
        rest = after;
    }
    Some(fields)
}

fn unpack(mut bytes: &[u8]) -> Option<Vec<u64>> {
    let mut unpacked = Vec::new();
    while !bytes.is_empty() {
        let (number, rest) = varint(bytes)?;
        unpacked.push(number);
        bytes = rest;
    }
    Some(unpacked)
}

fn write(fields: &[Field], out: &mut Vec<u8>) {
    for (field, value) in fields {
        let mut bytes = Vec::new();
        let wire = match value {
            Value::Number(number) => {
                put_varint(out, field << 3);
                put_varint(out, *number);
                continue;
            }
            Value::Fixed(fixed) => {
                put_varint(out, field << 3 | if fixed.len() == 8 { 1 } else { 5 });
                out.extend_from_slice(fixed);
                continue;
            }
            Value::Text(text) => {
                bytes.extend_from_slice(text);
                2
            }
            Value::Packed(packed) => {
                packed.iter().for_each(|number| put_varint(&mut bytes, *number));
                2
            }
            Value::Message(fields) => {
                write(fields, &mut bytes);
                2
            }
        };
        put_varint(out, field << 3 | wire);
        put_varint(out, bytes.len() as u64);
        out.extend_from_slice(&bytes);
    }
}

/// Numbers that stand somewhere in the fields: ids, and places of strings.
fn known(fields: &[Field], into: &mut Vec<u64>) {
    for (_, value) in fields {
        match value {
            Value::Number(number) => into.push(*number),
            Value::Packed(packed) => into.extend(packed),
            Value::Message(fields) => known(fields, into),
            Value::Fixed(_) | Value::Text(_) => {}
        }
    }
}

/// Changes one field, here or further inside.
fn change(fields: &mut Vec<Field>, kind: Kind, numbers: &mut Generator) {
    if fields.is_empty() || numbers.below(4) == 0 {
        match numbers.below(3) {
            0 => fields.push((1 + numbers.scaled(15), Value::Number(numbers.scaled(8)))),
            1 => rearrange(fields, numbers),
            // Another of the same kind, to be changed further.
            _ => fields.extend(one_of(&fields.clone(), numbers).cloned()),
        }
        return;
    }
    let mut others = Vec::new();
    known(fields, &mut others);
    let at = numbers.below(fields.len());
    let other = |old, numbers: &mut Generator| match one_of(&others, numbers) {
        Some(known) if numbers.below(2) == 0 => *known,
        _ => number(old, numbers),
    };
    let (field, value) = &mut fields[at];
    match value {
        _ if numbers.below(24) == 0 => *field = 1 + numbers.scaled(16),
        Value::Number(old) => *old = other(*old, numbers),
        Value::Fixed(bytes) => {
            let at = numbers.below(bytes.len());
            bytes[at] ^= numbers.draw() as u8;
        }
        Value::Text(text) => blur(text, numbers),
        Value::Packed(packed) if packed.is_empty() || numbers.below(2) == 0 => {
            packed.push(other(1, numbers));
            rearrange(packed, numbers);
        }
        Value::Packed(packed) => {
            let at = numbers.below(packed.len());
            packed[at] = other(packed[at], numbers);
        }
        Value::Message(inner) => {
            let kind = inside(kind, *field).unwrap_or(Kind::Leaf);
            change(inner, kind, numbers);
        }
    }
}
