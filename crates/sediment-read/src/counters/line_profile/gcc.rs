// SPDX-License-Identifier: MIT OR Apache-2.0
//! GCC's sample profile, for `gcc -fauto-profile=FILE`: version 2 for GCC 12 to 15, version 3 for GCC 16. Also an order of functions in such a
//! file, as the times of their first calls: GCC 16 puts functions in their order at a link with `-flto`.
//!
//! Source: the profiles that autofdo's `create_gcov` writes, and what GCC takes of them. Little endian words of 32 bits; a *count* has two, the
//! lower one first. A string has its length in bytes with the NUL, then these bytes.
//!
//! ```text
//! file       magic, version, 0, summary (version 3), names, functions, modules (none), working set (zeros)
//! summary    tag, counts: sum, largest, largest head, positions, functions, cutoffs; of each cutoff its part of a million, least count, positions
//! names      tag, length, paths (version 3: none), number, strings; in version 3 each with its path (none)
//! functions  tag, length, number; of each its head, time (version 3), name, body
//! body       positions, inlined calls; of each position its number, targets, count, and of each target kind, name, count;
//!            of each call its position, name, body
//! ```
//!
//! GCC knows functions by their linkage name up to the first dot: local functions of one name, and all clones of a function, are one.

use super::lines::{Body, Lines, Site};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeMap, BTreeSet};

const MAGIC: u32 = 0x6763_6461;
const SUMMARY: u32 = 0xa800_0000;
const NAMES: u32 = 0xaa00_0000;
const FUNCTIONS: u32 = 0xac00_0000;
const MODULES: u32 = 0xae00_0000;
const WORKING_SET: u32 = 0xaf00_0000;
const WORKING_SETS: usize = 128;
/// Kind of a value: the callees of an indirect call.
const CALLEES: u32 = 7;
/// The path of a name, where it is unknown.
const NO_PATH: u32 = u32::MAX;
/// Parts of a million of all executions, for which the summary has the least count.
const CUTOFFS: [u32; 16] = [
    10_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000, 950_000,
    990_000, 999_000, 999_900, 999_990, 999_999,
];
/// Most levels of inlining that are written; GCC's reader descends by recursion.
const DEEPEST: usize = 64;

/// Version of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Of GCC 12 to 15.
    Two,
    /// Of GCC 16.
    Three,
}

/// The file for `-fauto-profile` of executions by line.
#[must_use]
pub fn auto_profile(lines: &Lines, version: Version) -> (Vec<u8>, Skipped) {
    let mut skipped = Skipped::default();
    let mut functions: BTreeMap<&str, Function> = BTreeMap::new();
    for (name, body) in &lines.functions {
        let total = body.total();
        if total == 0 {
            continue;
        }
        let Some(known) = known_as(name) else {
            skipped.add(Reason::UnwritableFunction, total.into(), name);
            continue;
        };
        let function = functions.entry(known).or_insert_with(|| Function { time: 0, body: Body::default() });
        function.body.absorb(&cut(body, 1, &mut skipped));
    }
    (file(&functions, version), skipped)
}

/// The file, of version 3, that gives functions an order: each was first called behind the one before it. Names that GCC knows as one have the
/// place of the first. GCC reads it with `-fauto-profile=FILE --param auto-profile-reorder-only=1`, and then takes nothing else of it.
#[must_use]
pub fn time_stamps<'a>(names: impl IntoIterator<Item = &'a str>) -> (Vec<u8>, Skipped) {
    let mut skipped = Skipped::default();
    let mut functions: BTreeMap<&str, Function> = BTreeMap::new();
    for name in names {
        let Some(known) = known_as(name) else {
            skipped.add(Reason::UnwritableFunction, 0, name);
            continue;
        };
        // The part of a function that is split off follows it.
        let time = functions.len() as u64 + 1;
        functions.entry(known).or_insert_with(|| {
            let counts = BTreeMap::from([(Site { offset: 0, discriminator: 0 }, 1)]);
            Function { time, body: Body { head: 1, counts, ..Body::default() } }
        });
    }
    (file(&functions, Version::Three), skipped)
}

/// The name by which GCC finds a function; None where it has none, or the file cannot hold it.
fn known_as(name: &str) -> Option<&str> {
    let known = name.split('.').next().unwrap_or_default();
    (!known.is_empty() && !known.contains('\0')).then_some(known)
}

/// A body by the names that GCC knows, without those that cannot be written.
fn cut(body: &Body, depth: usize, skipped: &mut Skipped) -> Body {
    let mut kept = Body { head: body.head, counts: body.counts.clone(), ..Body::default() };
    for ((site, callee), calls) in &body.calls {
        if let Some(known) = known_as(callee) {
            let sum = kept.calls.entry((*site, known.to_owned())).or_default();
            *sum = sum.saturating_add(*calls);
        }
    }
    for ((site, name), inlined) in &body.inlined {
        match known_as(name).filter(|_| depth < DEEPEST) {
            Some(known) => {
                let inlined = cut(inlined, depth + 1, skipped);
                kept.inlined.entry((*site, known.to_owned())).or_default().absorb(&inlined);
            }
            None => skipped.add(Reason::UnwritableFunction, inlined.total().into(), name),
        }
    }
    kept
}

/// A function that has code of its own.
struct Function {
    /// Turn of its first call; 0 where unknown.
    time: u64,
    body: Body,
}

fn file(functions: &BTreeMap<&str, Function>, version: Version) -> Vec<u8> {
    let mut names = BTreeSet::from([""]);
    for (name, function) in functions {
        names.insert(name);
        add_names(&function.body, &mut names);
    }
    let numbers: BTreeMap<&str, u32> = names.iter().copied().zip(0..).collect();
    let mut out = Words::default();
    out.words(&[MAGIC, if version == Version::Two { 2 } else { 3 }, 0]);
    if version == Version::Three {
        write_summary(&mut out, functions);
    }
    let mut text = Words::default();
    if version == Version::Three {
        text.word(0);
    }
    text.length(names.len());
    for name in names {
        text.string(name);
        if version == Version::Three {
            text.word(NO_PATH);
        }
    }
    out.section(NAMES, &text);
    let mut code = Words::default();
    code.length(functions.len());
    for (name, function) in functions {
        code.count(function.body.head);
        if version == Version::Three {
            code.count(function.time);
        }
        code.word(numbers[name]);
        write_body(&mut code, &function.body, &numbers);
    }
    out.section(FUNCTIONS, &code);
    out.words(&[MODULES, 0, 0]);
    let mut sets = Words::default();
    sets.words(&[0; 3 * WORKING_SETS]);
    out.section(WORKING_SET, &sets);
    out.0
}

fn add_names<'a>(body: &'a Body, names: &mut BTreeSet<&'a str>) {
    names.extend(body.calls.keys().map(|(_, callee)| callee.as_str()));
    for ((_, name), inlined) in &body.inlined {
        names.insert(name);
        add_names(inlined, names);
    }
}

fn write_body(out: &mut Words, body: &Body, numbers: &BTreeMap<&str, u32>) {
    let mut positions: BTreeMap<u32, (u64, BTreeMap<u32, u64>)> = BTreeMap::new();
    for (site, count) in &body.counts {
        let place = positions.entry(position(*site)).or_default();
        place.0 = place.0.max(*count);
    }
    for ((site, callee), calls) in &body.calls {
        if let Some(place) = positions.get_mut(&position(*site)) {
            *place.1.entry(numbers[callee.as_str()]).or_default() += calls;
        }
    }
    out.length(positions.len());
    out.length(body.inlined.len());
    for (position, (count, targets)) in positions {
        out.word(position);
        out.length(targets.len());
        out.count(count);
        for (callee, calls) in targets {
            out.word(CALLEES);
            out.count(callee.into());
            out.count(calls);
        }
    }
    for ((site, name), inlined) in &body.inlined {
        out.words(&[position(*site), numbers[name.as_str()]]);
        write_body(out, inlined, numbers);
    }
}

/// Line and discriminator, 16 bits each.
fn position(site: Site) -> u32 {
    (site.offset & 0xffff) << 16 | site.discriminator & 0xffff
}

fn write_summary(out: &mut Words, functions: &BTreeMap<&str, Function>) {
    let mut counts = Vec::new();
    for function in functions.values() {
        add_counts(&function.body, &mut counts);
    }
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let sum: u128 = counts.iter().map(|count| u128::from(*count)).sum();
    let heads = functions.values().map(|function| function.body.head);
    out.word(SUMMARY);
    out.count(u64::try_from(sum).unwrap_or(u64::MAX));
    out.count(counts.first().copied().unwrap_or(0));
    out.count(heads.max().unwrap_or(0));
    out.count(counts.len() as u64);
    out.count(functions.len() as u64);
    out.count(CUTOFFS.len() as u64);
    let (mut reached, mut counted) = (0u128, 0);
    for cutoff in CUTOFFS {
        while counted < counts.len() && reached * 1_000_000 < sum * u128::from(cutoff) {
            reached += u128::from(counts[counted]);
            counted += 1;
        }
        out.word(cutoff);
        out.count(counted.checked_sub(1).map_or(0, |last| counts[last]));
        out.count(counted as u64);
    }
}

fn add_counts(body: &Body, counts: &mut Vec<u64>) {
    counts.extend(body.counts.values());
    for inlined in body.inlined.values() {
        add_counts(inlined, counts);
    }
}

/// Bytes of a file.
#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
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

    /// A tag, the length in words, and what follows.
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

    fn site(offset: u32, discriminator: u32) -> Site {
        Site { offset, discriminator }
    }

    #[test]
    fn clones_are_one_function() {
        let mut lines = Lines::default();
        let body = |head, count| Body { head, counts: [(site(2, 3), count)].into(), ..Body::default() };
        lines.functions.insert("abc".to_owned(), body(1, 5));
        lines.functions.insert("abc.part.0".to_owned(), body(2, 7));
        lines.functions.insert(".x".to_owned(), body(0, 4));
        lines.functions.insert("never".to_owned(), Body::default());
        let (bytes, skipped) = auto_profile(&lines, Version::Two);
        let all = words(&bytes);
        // The strings "" and "abc" take 13 bytes, so what follows is three bytes off.
        assert_eq!(all[..6], [MAGIC, 2, 0, NAMES, 5, 2]);
        let code = words(&bytes[24 + 5 + 8..]);
        assert_eq!(code[..12], [FUNCTIONS, 10, 1, 3, 0, 1, 1, 0, 2 << 16 | 3, 0, 12, 0]);
        assert_eq!(code[12..16], [MODULES, 0, 0, WORKING_SET]);
        assert_eq!(skipped.weight(|reason| reason == Reason::UnwritableFunction), 4);
    }

    #[test]
    fn inlined_functions_and_callees_are_written() {
        let inner = Body { counts: [(site(1, 0), 9)].into(), ..Body::default() };
        let mut outer = Body { head: 2, counts: [(site(3, 0), 2)].into(), ..Body::default() };
        outer.calls.insert((site(3, 0), "work".to_owned()), 2);
        outer.inlined.insert((site(4, 1), "inner.constprop.0".to_owned()), inner);
        let lines = Lines { functions: [("out".to_owned(), outer)].into() };
        let (bytes, _) = auto_profile(&lines, Version::Two);
        // Names: "", inner, out, work.
        let code = words(&bytes[24 + 5 + 10 + 8 + 9..]);
        assert_eq!(code[..8], [FUNCTIONS, 23, 1, 2, 0, 2, 1, 1]);
        assert_eq!(code[8..17], [3 << 16, 1, 2, 0, CALLEES, 3, 0, 2, 0]);
        assert_eq!(code[17..25], [4 << 16 | 1, 1, 1, 0, 1 << 16, 0, 9, 0]);
    }

    #[test]
    fn the_summary_has_least_counts() {
        let counts = (0..100).map(|offset| (site(offset, 0), u64::from(offset) + 1)).collect();
        let lines =
            Lines { functions: [("f".to_owned(), Body { head: 3, counts, ..Body::default() })].into() };
        let all = words(&auto_profile(&lines, Version::Three).0);
        assert_eq!(all[..4], [MAGIC, 3, 0, SUMMARY]);
        assert_eq!(all[4..16], [5050, 0, 100, 0, 3, 0, 100, 0, 1, 0, 16, 0]);
        // One per cent of the sum is 50.5: the largest count alone. Half of it is 2525: the 30 largest have 2565.
        assert_eq!(all[16..21], [10_000, 100, 0, 1, 0]);
        assert_eq!(all[16 + 25..16 + 30], [500_000, 71, 0, 30, 0]);
    }

    #[test]
    fn an_order_is_the_times_of_first_calls() {
        let (bytes, skipped) = time_stamps(["b", "a.constprop.0", "b.cold", "a", ".hidden"]);
        let begin = bytes.windows(4).position(|word| word == FUNCTIONS.to_le_bytes()).unwrap();
        let code = words(&bytes[begin..]);
        assert_eq!(code[2], 2);
        // Of each its head, time, name, numbers of positions and calls, and one position.
        assert_eq!(code[3..12], [1, 0, 2, 0, 1, 1, 0, 0, 0]);
        assert_eq!(code[14..21], [1, 0, 1, 0, 2, 1, 0]);
        assert_eq!(skipped.items(Reason::UnwritableFunction), 1);
    }
}
