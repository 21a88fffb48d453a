// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared parts of the tests of a reader: goldens, damage, and the bounds that hold for any input.

use crate::describe::{describe, place};
use proptest::prelude::*;
use sediment_read::read::{self, AddressId, ReadSettings, Recording, Step};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Result of a reader for a file, or its error.
pub fn outcome(bytes: &[u8]) -> String {
    match crate::read(bytes) {
        Ok(recording) => {
            let mut text = describe(&recording);
            writeln!(text, "seen: {}", recording.seen).unwrap();
            for (id, rank) in recording.first_uses() {
                writeln!(text, "first: {} {rank}", place(&recording, id)).unwrap();
            }
            for build_id in recording.dsos().iter().filter_map(|dso| dso.build_id.as_ref()) {
                writeln!(text, "build-id: {build_id}").unwrap();
            }
            text
        }
        Err(error) => format!("error: {error}\nhint: {}\n", error.hint().unwrap_or("none")),
    }
}

/// Every golden of a format: recognised as that format, and read as expected.
pub fn goldens(format: &str) {
    let cases = crate::golden_cases(&format!("read/{format}"));
    assert!(!cases.is_empty());
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        assert!(case.join("how.txt").is_file(), "{name}: how was its input made?");
        let input = std::fs::read(case.join("input")).unwrap();
        assert_eq!(read::find(&&*input, &ReadSettings::default()).unwrap().name, format, "{name}");
        crate::golden(&format!("read/{format}/{name}/expected"), &outcome(&input));
    }
}

/// Calls by the names of their ends, of all kinds together.
pub fn calls(recording: &Recording) -> BTreeMap<(String, String), u128> {
    let mut calls = BTreeMap::new();
    for (from, to, _, count) in recording.transfers() {
        *calls.entry((place(recording, from), place(recording, to))).or_default() += count;
    }
    calls
}

/// Own cost by name.
pub fn costs(recording: &Recording) -> BTreeMap<String, u128> {
    recording.samples().into_iter().map(|(id, cost)| (place(recording, id), cost)).collect()
}

/// Names of all places.
pub fn addresses(recording: &Recording) -> Vec<String> {
    let mut names: Vec<String> =
        (0..recording.addresses().len() as u32).map(|id| place(recording, AddressId(id))).collect();
    names.sort();
    names
}

/// Files and a few blows to each.
pub fn damaged(whole: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    crate::damage::damaged(whole, b"(0129xX:@[]!'|\n =.-,/")
}

/// The inputs of all goldens of a format.
pub fn inputs(format: &str) -> Vec<Vec<u8>> {
    let cases = crate::golden_cases(&format!("read/{format}"));
    cases.iter().map(|case| std::fs::read(case.join("input")).unwrap()).collect()
}

/// Reads by the reader of this name, whatever the bytes look like: something, or an error, in proportion to the input.
pub fn stays_in_proportion(format: &str, bytes: &[u8], most: usize) {
    let settings = ReadSettings { format: Some(format.to_owned()), ..ReadSettings::default() };
    if bytes.is_empty() {
        return;
    }
    let reader = read::READERS.iter().find(|reader| reader.name == format).unwrap();
    let _ = (reader.recognises)(bytes);
    match read::read(&bytes, &settings) {
        Ok(recording) => {
            assert!(!recording.addresses().is_empty() || !recording.skipped.is_empty(), "an empty success");
            assert!(recording.addresses().len() + recording.transfers().len() <= most);
            read::replay(&bytes, &settings, &recording, &mut |_: Step| {}).unwrap();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
