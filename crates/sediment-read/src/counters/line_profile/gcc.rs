// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes an order of functions for `gcc -fauto-profile=FILE`, as times of first calls in a sample profile of version
//! 3: at a link with `-flto`, GCC 16 places functions in the order of these times.
//!
//! Source: the profiles written by autofdo's `create_gcov`, and GCC's reader. Words are little-endian with 32 bits; a
//! *count* has two words, the lower one first. A string is its length in bytes including the NUL, then these bytes.
//!
//! ```text
//! file       magic, version, 0, summary, names, functions, modules (none), working set (zeros)
//! summary    tag, counts: sum, largest, largest head, positions, functions, cutoffs; of each cutoff its part of a million, least count, positions
//! names      tag, length, paths (none), number, strings, each with its path (none)
//! functions  tag, length, number; of each its head, time, name, positions, inlined calls; of its only position number, targets, count
//! ```
//!
//! GCC identifies functions by their linkage name up to the first dot, so local functions with the same name, and all
//! clones of a function, are the same.

use sediment_core::skipped::{Reason, Skipped};
use std::collections::BTreeMap;

const MAGIC: u32 = 0x6763_6461;
const VERSION: u32 = 3;
const SUMMARY: u32 = 0xa800_0000;
const NAMES: u32 = 0xaa00_0000;
const FUNCTIONS: u32 = 0xac00_0000;
const MODULES: u32 = 0xae00_0000;
const WORKING_SET: u32 = 0xaf00_0000;
const WORKING_SETS: usize = 128;
/// Path of a name if it is unknown.
const NO_PATH: u32 = u32::MAX;
/// Shares of all executions, in parts per million, for which the summary has the smallest count.
const CUTOFFS: [u32; 16] = [
    10_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000, 950_000,
    990_000, 999_000, 999_900, 999_990, 999_999,
];

/// Returns the file with an order of functions: each was first called after the previous one, and ran once. Names that
/// GCC cannot distinguish get the position of the first. GCC reads it with
/// `-fauto-profile=FILE --param auto-profile-reorder-only=1`, and then uses nothing else from it.
#[must_use]
pub fn time_stamps<'a>(names: impl IntoIterator<Item = &'a str>) -> (Vec<u8>, Skipped) {
    let mut skipped = Skipped::default();
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for name in names {
        let Some(known) = known_as(name) else {
            skipped.add(Reason::UnwritableFunction, 0, name);
            continue;
        };
        // The split-off part of a function follows it.
        let time = times.len() as u64 + 1;
        times.entry(known).or_insert(time);
    }
    (file(&times), skipped)
}

/// Returns the name by which GCC finds a function; `None` if it has none, or if the file cannot hold it.
fn known_as(name: &str) -> Option<&str> {
    let known = name.split('.').next().unwrap_or_default();
    (!known.is_empty() && !known.contains('\0')).then_some(known)
}

fn file(times: &BTreeMap<&str, u64>) -> Vec<u8> {
    let mut out = GcovWriter::default();
    out.words(&[MAGIC, VERSION, 0]);
    write_summary(&mut out, times.len() as u64);
    let mut text = GcovWriter::default();
    text.word(0);
    text.length(times.len() + 1);
    for name in std::iter::once(&"").chain(times.keys()) {
        text.string(name);
        text.word(NO_PATH);
    }
    out.section(NAMES, &text);
    let mut code = GcovWriter::default();
    code.length(times.len());
    for (name, time) in (1..).zip(times.values()) {
        code.count(1);
        code.count(*time);
        code.words(&[name, 1, 0]);
        code.words(&[0, 0]);
        code.count(1);
    }
    out.section(FUNCTIONS, &code);
    out.words(&[MODULES, 0, 0]);
    let mut sets = GcovWriter::default();
    sets.words(&[0; 3 * WORKING_SETS]);
    out.section(WORKING_SET, &sets);
    out.0
}

/// Writes the summary for this number of functions, each with one position that ran once.
fn write_summary(out: &mut GcovWriter, functions: u64) {
    let any = functions.min(1);
    out.word(SUMMARY);
    for count in [functions, any, any, functions, functions, CUTOFFS.len() as u64] {
        out.count(count);
    }
    for cutoff in CUTOFFS {
        out.word(cutoff);
        out.count(any);
        out.count((u128::from(functions) * u128::from(cutoff)).div_ceil(1_000_000) as u64);
    }
}

/// The bytes of a file.
#[derive(Default)]
struct GcovWriter(Vec<u8>);

impl GcovWriter {
    fn word(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn words(&mut self, values: &[u32]) {
        values.iter().for_each(|value| self.word(*value));
    }

    fn length(&mut self, value: usize) {
        self.word(u32::try_from(value).unwrap_or(u32::MAX));
    }

    fn count(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.length(text.len() + 1);
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    /// Writes a tag, the length in words, and the content.
    fn section(&mut self, tag: u32, content: &Self) {
        self.word(tag);
        self.length(content.0.len().div_ceil(4));
        self.0.extend(&content.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn an_order_is_the_times_of_first_calls() {
        let (bytes, skipped) = time_stamps(["b", "a.constprop.0", "b.cold", "a", ".hidden"]);
        let begin = bytes.windows(4).position(|word| word == FUNCTIONS.to_le_bytes()).unwrap();
        let code = words(&bytes[begin..]);
        assert_eq!(code[2], 2);
        // For each function: its head, time, name, numbers of positions and calls, and one position.
        assert_eq!(code[3..12], [1, 0, 2, 0, 1, 1, 0, 0, 0]);
        assert_eq!(code[14..21], [1, 0, 1, 0, 2, 1, 0]);
        assert_eq!(skipped.items(Reason::UnwritableFunction), 1);
    }

    #[test]
    fn the_summary_is_of_functions_that_ran_once() {
        let names: Vec<String> = (0..150).map(|number| format!("f{number}")).collect();
        let all = words(&time_stamps(names.iter().map(String::as_str)).0);
        assert_eq!(all[..4], [MAGIC, VERSION, 0, SUMMARY]);
        assert_eq!(all[4..16], [150, 0, 1, 0, 1, 0, 150, 0, 150, 0, 16, 0]);
        assert_eq!(all[16..21], [10_000, 1, 0, 2, 0]);
        assert_eq!(all[16 + 25..16 + 30], [500_000, 1, 0, 75, 0]);
    }
}
