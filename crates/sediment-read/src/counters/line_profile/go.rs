// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a `default.pgo` for Go's compiler: a CPU profile in pprof's format, from which the compiler takes the calls
//! by line.
//!
//! Each call is a sample with two frames, whose weight is the sum that the compiler would compute from whole stacks.
//! The file is not compressed, so that equal profiles give equal bytes. Source: `proto/profile.proto` of
//! github.com/google/pprof, and Go 1.26's `cmd/internal/pgo`.

use super::CallSites;
use std::collections::BTreeMap;

/// Weights above this are scaled down together, because their sum must stay within 64 bits.
const LARGEST: u128 = 1 << 40;

/// Returns the bytes of the file.
#[must_use]
pub fn default_pgo(sites: &CallSites) -> Vec<u8> {
    let largest = sites.calls().map(|(.., weight)| weight).max().unwrap_or(0);
    let scaled =
        |weight: u128| if largest > LARGEST { (weight / (largest / LARGEST + 1)).max(1) } else { weight };
    let mut tables = GoTables::default();
    let (samples, count) = (tables.string("samples"), tables.string("count"));
    let mut file = Vec::new();
    let mut kind = Vec::new();
    put_number(&mut kind, 1, samples);
    put_number(&mut kind, 2, count);
    put_bytes(&mut file, 1, &kind);
    for (caller, line, callee, weight) in sites.calls() {
        let start = i64::from(sites.start_line(caller));
        let at_callee = tables.location(sites, callee, i64::from(sites.start_line(callee)));
        let at_caller = tables.location(sites, caller, start + line);
        let (mut sample, mut frames, mut values) = (Vec::new(), Vec::new(), Vec::new());
        put_varint(&mut frames, at_callee);
        put_varint(&mut frames, at_caller);
        put_bytes(&mut sample, 1, &frames);
        put_varint(&mut values, u64::try_from(scaled(weight)).unwrap_or(u64::MAX));
        put_bytes(&mut sample, 2, &values);
        put_bytes(&mut file, 2, &sample);
    }
    tables.put(&mut file);
    file
}

/// The tables that samples refer to; ids begin at 1, indices of strings at 0.
#[derive(Default)]
struct GoTables {
    strings: BTreeMap<String, u64>,
    in_order: Vec<String>,
    functions: BTreeMap<String, u64>,
    locations: BTreeMap<(u64, i64), u64>,
    rows: Vec<(u32, Vec<u8>)>,
}

impl GoTables {
    fn string(&mut self, text: &str) -> u64 {
        if self.in_order.is_empty() {
            // The first string is empty by definition.
            self.in_order.push(String::new());
            self.strings.insert(String::new(), 0);
        }
        if let Some(known) = self.strings.get(text) {
            return *known;
        }
        let new = self.in_order.len() as u64;
        self.in_order.push(text.to_owned());
        self.strings.insert(text.to_owned(), new);
        new
    }

    fn location(&mut self, sites: &CallSites, function: &str, line: i64) -> u64 {
        let function = self.function(sites, function);
        let new = self.locations.len() as u64 + 1;
        let id = *self.locations.entry((function, line)).or_insert(new);
        if id == new {
            let (mut row, mut lines) = (Vec::new(), Vec::new());
            put_number(&mut row, 1, id);
            put_number(&mut lines, 1, function);
            // A //line comment can move code to a negative line, which is written as two's complement.
            put_number(&mut lines, 2, line as u64);
            put_bytes(&mut row, 4, &lines);
            self.rows.push((4, row));
        }
        id
    }

    fn function(&mut self, sites: &CallSites, name: &str) -> u64 {
        if let Some(known) = self.functions.get(name) {
            return *known;
        }
        let id = self.functions.len() as u64 + 1;
        self.functions.insert(name.to_owned(), id);
        let text = self.string(name);
        let mut row = Vec::new();
        put_number(&mut row, 1, id);
        put_number(&mut row, 2, text);
        put_number(&mut row, 3, text);
        put_number(&mut row, 5, u64::from(sites.start_line(name)));
        self.rows.push((5, row));
        id
    }

    fn put(&self, file: &mut Vec<u8>) {
        for (number, row) in &self.rows {
            put_bytes(file, *number, row);
        }
        for text in &self.in_order {
            put_bytes(file, 6, text.as_bytes());
        }
    }
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn put_number(to: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(to, u64::from(field) << 3);
    put_varint(to, value);
}

fn put_bytes(to: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_varint(to, u64::from(field) << 3 | 2);
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}
