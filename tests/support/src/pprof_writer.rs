// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of pprof, written field by field, and what they say.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io::Write as _;

/// A profile with its ids in the open, so that a test can break them.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Type and unit of each value.
    pub types: Vec<(String, String)>,
    pub default_type: String,
    pub mappings: Vec<Mapping>,
    pub functions: Vec<Function>,
    pub locations: Vec<Location>,
    pub samples: Vec<Sample>,
}

#[derive(Debug, Clone, Default)]
pub struct Mapping {
    pub id: u64,
    pub start: u64,
    pub limit: u64,
    pub file_offset: u64,
    pub path: String,
    pub build_id: String,
}

#[derive(Debug, Clone, Default)]
pub struct Function {
    pub id: u64,
    pub name: String,
    pub system_name: String,
    pub file: String,
}

#[derive(Debug, Clone, Default)]
pub struct Location {
    pub id: u64,
    pub mapping: u64,
    pub address: u64,
    /// Functions, the innermost inlined one first.
    pub lines: Vec<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The innermost first.
    pub locations: Vec<u64>,
    pub values: Vec<i64>,
}

/// Ways of writing the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Form {
    pub gzip: bool,
    /// Repeated integers each in a field of its own.
    pub unpacked: bool,
    /// Strings in front, and the samples behind all that they refer to.
    pub backwards: bool,
    /// Labels, comments and fields of times to come.
    pub further_fields: bool,
}

impl Form {
    pub fn all() -> Vec<Self> {
        let bit = |bits: u32, number: u32| bits & (1 << number) != 0;
        (0..16)
            .map(|bits| Self {
                gzip: bit(bits, 0),
                unpacked: bit(bits, 1),
                backwards: bit(bits, 2),
                further_fields: bit(bits, 3),
            })
            .collect()
    }
}

#[derive(Debug, Clone, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number; 0 is not written, as everywhere.
    pub fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub fn numbers(&mut self, field: u64, values: impl Iterator<Item = u64>, unpacked: bool) {
        let mut packed = Message::default();
        for value in values {
            if unpacked {
                self.varint(field << 3);
                self.varint(value);
            } else {
                packed.varint(value);
            }
        }
        if !unpacked {
            self.bytes(field, &packed.0);
        }
    }
}

/// Strings by the order in which they were first asked for.
struct Strings(Vec<String>, BTreeMap<String, u64>);

impl Strings {
    fn index(&mut self, text: &str) -> u64 {
        if let Some(index) = self.1.get(text) {
            return *index;
        }
        let index = self.0.len() as u64;
        self.0.push(text.to_owned());
        self.1.insert(text.to_owned(), index);
        index
    }
}

impl Profile {
    pub fn encode(&self, form: Form) -> Vec<u8> {
        let mut strings = Strings(Vec::new(), BTreeMap::new());
        strings.index("");
        // Each part is a number of whole fields: they may stand in any order.
        let (mut types, mut tables, mut samples, mut rest) =
            (Message::default(), Message::default(), Message::default(), Message::default());
        for (kind, unit) in &self.types {
            let mut row = Message::default();
            row.number(1, strings.index(kind));
            row.number(2, strings.index(unit));
            types.bytes(1, &row.0);
        }
        for sample in &self.samples {
            let mut row = Message::default();
            row.numbers(1, sample.locations.iter().copied(), form.unpacked);
            row.numbers(2, sample.values.iter().map(|value| *value as u64), form.unpacked);
            if form.further_fields {
                let mut label = Message::default();
                label.number(1, strings.index("thread"));
                label.number(3, 77);
                row.bytes(3, &label.0);
            }
            samples.bytes(2, &row.0);
        }
        for mapping in &self.mappings {
            let mut row = Message::default();
            let path = strings.index(&mapping.path);
            let build_id = strings.index(&mapping.build_id);
            let numbers = [mapping.id, mapping.start, mapping.limit, mapping.file_offset, path, build_id, 1];
            (1..).zip(numbers).for_each(|(field, value)| row.number(field, value));
            tables.bytes(3, &row.0);
        }
        for location in &self.locations {
            let mut row = Message::default();
            let numbers = [location.id, location.mapping, location.address];
            (1..).zip(numbers).for_each(|(field, value)| row.number(field, value));
            for function in &location.lines {
                let mut line = Message::default();
                line.number(1, *function);
                line.number(2, 12);
                row.bytes(4, &line.0);
            }
            tables.bytes(4, &row.0);
        }
        for function in &self.functions {
            let mut row = Message::default();
            let name = strings.index(&function.name);
            let system_name = strings.index(&function.system_name);
            let file = strings.index(&function.file);
            (1..)
                .zip([function.id, name, system_name, file, 3])
                .for_each(|(field, value)| row.number(field, value));
            tables.bytes(5, &row.0);
        }
        rest.number(14, strings.index(&self.default_type));
        if form.further_fields {
            rest.number(9, 1_700_000_000_000_000_000);
            rest.number(12, 10_000_000);
            rest.number(13, strings.index("a remark"));
        }
        let mut text = Message::default();
        strings.0.iter().for_each(|string| text.bytes(6, string.as_bytes()));
        let parts = if form.backwards {
            [text, tables, types, rest, samples]
        } else {
            [types, samples, tables, text, rest]
        };
        let bytes = parts.map(|part| part.0).concat();
        if form.gzip { gzip(&bytes) } else { bytes }
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packing = GzEncoder::new(Vec::new(), Compression::fast());
    packing.write_all(bytes).unwrap();
    packing.finish().unwrap()
}

/// A profile of named functions, one location each, and stacks of them by name, the outermost first.
pub fn of_stacks(stacks: &[(&[&str], i64)]) -> Profile {
    let mut profile = Profile {
        types: vec![("samples".into(), "count".into()), ("cpu".into(), "nanoseconds".into())],
        mappings: vec![Mapping {
            id: 1,
            start: 0x40_0000,
            limit: 0x50_0000,
            path: "/usr/bin/program".into(),
            build_id: "00c0ffee".into(),
            ..Mapping::default()
        }],
        ..Profile::default()
    };
    let mut ids: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, value) in stacks {
        let mut locations = Vec::new();
        for name in *stack {
            let next = ids.len() as u64 + 1;
            let id = *ids.entry(name).or_insert(next);
            if id == next {
                let name = (*name).to_owned();
                profile.functions.push(Function {
                    id,
                    name,
                    file: "src/file.c".into(),
                    ..Function::default()
                });
                let address = 0x40_0000 + 16 * id;
                profile.locations.push(Location { id, mapping: 1, address, lines: vec![id] });
            }
            locations.insert(0, id);
        }
        profile.samples.push(Sample { locations, values: vec![*value, 10_000_000 * value] });
    }
    profile
}
