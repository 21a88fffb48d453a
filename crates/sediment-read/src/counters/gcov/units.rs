// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Units`] joins the files of a training build and its runs to a profile.
//!
//! Counts belong to the names of the compilation with the same stamp. With `-frandom-seed`, and in parallel builds,
//! several compilations may have the same stamp; then the names with the most matching functions are used. A function
//! is global if its number is the one that GCC computes from its name; the numbers of local functions also depend on
//! paths.

use super::cursor::GcovCursor;
use crate::static_graph::LinkedSymbols;
use sediment_core::binary::Binary;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::profile::counters::{CounterVariant, VariantCounts};
use sediment_core::profile::source::{ProfileSource, Unknown};
use sediment_core::profile::{FunctionKey, Profile, base_name};
use sediment_core::skipped::{Reason, Skipped};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Identity of a function in both kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GcovIdentity {
    /// Number of the function.
    ident: u32,
    /// Checksum of its position in the source file.
    line: u32,
    /// Checksum of its control-flow graph.
    graph: u32,
}

impl GcovIdentity {
    /// Reads the first words of a function's record.
    pub(super) fn read(content: &mut GcovCursor<'_>) -> Result<Self> {
        let mut word = || content.word("the identity of a function");
        Ok(Self { ident: word()?, line: word()?, graph: word()? })
    }
}

/// A function and its counts.
pub(super) struct GcdaFunction {
    pub(super) place: GcovIdentity,
    /// `None` if they overflowed.
    pub(super) counted: Option<VariantCounts>,
}

/// A function and its name.
pub(super) struct GcnoFunction {
    pub(super) place: GcovIdentity,
    pub(super) name: Vec<u8>,
    pub(super) source: Vec<u8>,
}

/// Names of the functions of one compilation.
struct Notes {
    functions: BTreeMap<GcovIdentity, Vec<u8>>,
    unit: Vec<u8>,
    checksum: u32,
}

/// Counts of one file.
struct GcdaCounts {
    name: String,
    stamp: u32,
    functions: Vec<GcdaFunction>,
}

impl GcdaCounts {
    fn counted(&self) -> impl Iterator<Item = (&GcovIdentity, &VariantCounts)> {
        self.functions.iter().filter_map(|function| Some((&function.place, function.counted.as_ref()?)))
    }
}

/// Files of units, in any order.
#[derive(Default)]
pub struct Units {
    notes: BTreeMap<u32, Vec<Notes>>,
    data: Vec<GcdaCounts>,
}

impl Units {
    /// Reads a file of a unit; `name` is used in messages and, without its last extension, as the name of the unit.
    ///
    /// # Errors
    /// If the file is of an unknown kind, of another version of GCC, or damaged.
    pub fn read(&mut self, name: &str, bytes: &[u8], skipped: &mut Skipped) -> Result<()> {
        let Some(reader) = super::reader(bytes) else {
            return Err(Error::new(ErrorCode::UnknownFormat, "neither .gcda nor .gcno"));
        };
        (reader.read)(bytes, name, self, skipped)
    }

    pub(super) fn add_notes(&mut self, name: &str, stamp: u32, functions: Vec<GcnoFunction>) {
        let unit = unit_of(name, &functions);
        let mut names: Vec<&[u8]> = functions.iter().map(|function| plain(&function.name)).collect();
        names.sort_unstable();
        let checksum = checksum(&names);
        let functions = functions.iter().map(|function| (function.place, plain(&function.name).to_vec()));
        let notes = Notes { functions: functions.collect(), unit, checksum };
        self.notes.entry(stamp).or_default().push(notes);
    }

    pub(super) fn add_data(&mut self, name: &str, stamp: u32, functions: Vec<GcdaFunction>) {
        self.data.push(GcdaCounts { name: name.to_owned(), stamp, functions });
    }

    /// Number of files with counts.
    #[must_use]
    pub fn counted(&self) -> usize {
        self.data.len()
    }

    /// Returns the profile of all counts. Functions that only one of the binaries defines belong to its DSO, with the
    /// binary's label.
    ///
    /// # Errors
    /// If no function has both counts and a name, or if counts exceed their range.
    pub fn profile(&self, binaries: &[(String, Binary)], skipped: &mut Skipped) -> Result<Profile> {
        let mut profile = Profile::default();
        let unknown = [Unknown::CallCounts, Unknown::TimeOrder];
        profile.source.insert(ProfileSource::new(super::INSTRUMENTED, "", &unknown).to_string());
        let symbols: Vec<_> =
            binaries.iter().map(|(label, binary)| LinkedSymbols::new(binary, label)).collect();
        for (label, binary) in binaries {
            profile.arch.extend(binary.arch.clone());
            profile.dso_mut(label).build_id.clone_from(&binary.build_id);
        }
        for data in &self.data {
            let Some(notes) = self.notes_of(data) else {
                skipped.add(Reason::NoNotes, 0, &data.name);
                continue;
            };
            for (place, counted) in data.counted() {
                let Some(name) = notes.functions.get(place) else {
                    skipped.add(Reason::UnnamedCounters, 0, &data.name);
                    continue;
                };
                let local = (ident_of(name) != place.ident).then_some(&notes.unit[..]);
                let Some(meant) = FunctionKey::new(None, name, local) else {
                    skipped.add(Reason::UnacceptableName, 0, name);
                    continue;
                };
                let mut found = symbols.iter().filter_map(|symbols| symbols.find(&meant));
                let key = found.next().filter(|_| found.next().is_none());
                let Some(unit) = CounterVariant::new(&notes.unit, notes.checksum, place.line, place.graph)
                else {
                    skipped.add(Reason::UnacceptableName, 0, &notes.unit);
                    continue;
                };
                let function = profile.function(key.unwrap_or(meant));
                let sum = counted.arcs.sum().and_then(|sum| profile.counters_total.checked_add(sum));
                let counters = profile.facts_mut(function).counters.get_or_insert_default();
                let (Some(()), Some(sum)) = (counters.add(unit, counted), sum) else {
                    return Err(Error::new(ErrorCode::Overflow, "counters add up to more than 2^128"));
                };
                profile.counters_total = sum;
            }
        }
        if profile.function_count() == 0 {
            return Err(Error::new(ErrorCode::EmptyRecording, "no function with counters and a name").with_hint(
                "compile with -fprofile-generate -ftest-coverage, run the program, and import its .gcda together with the .gcno of the same build (docs/beyond-functions.md)",
            ));
        }
        Ok(profile)
    }

    /// Returns the names of the compilation that these counts belong to.
    fn notes_of(&self, data: &GcdaCounts) -> Option<&Notes> {
        let fitting = |notes: &Notes| {
            data.functions.iter().filter(|function| notes.functions.contains_key(&function.place)).count()
        };
        let all = self.notes.get(&data.stamp)?;
        all.iter().min_by_key(|notes| (Reverse(fitting(notes)), notes.checksum, &notes.unit))
    }
}

/// Returns a name without the star that tells GCC not to change it.
fn plain(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"*").unwrap_or(name)
}

/// Base name of the source file of a unit: the one from which the name of its notes was made (`sort.gcno`,
/// `prog-sort.gcno`, `sort.c.gcno`), otherwise the one with the most functions, headers last.
fn unit_of(notes: &str, functions: &[GcnoFunction]) -> Vec<u8> {
    let notes = base_name(notes.as_bytes());
    let stem = notes.strip_suffix(b".gcno").unwrap_or(notes);
    let mut sources: BTreeMap<&[u8], usize> = BTreeMap::new();
    for function in functions {
        *sources.entry(base_name(&function.source)).or_default() += 1;
    }
    let without_extension = |name: &'_ [u8]| memchr::memrchr(b'.', name).map_or(name.len(), |dot| dot);
    let is_from = |source: &[u8]| {
        let own = &source[..without_extension(source)];
        stem.ends_with(source) || stem.ends_with(own)
    };
    let is_header = |source: &[u8]| {
        let extension = source.get(without_extension(source) + 1..).unwrap_or_default();
        extension.is_empty() || extension.starts_with(b"h") || extension == b"tcc" || extension == b"def"
    };
    let best = sources
        .iter()
        .min_by_key(|(source, number)| (is_header(source), !is_from(source), Reverse(**number), **source));
    best.map_or(stem, |(source, _)| source).to_vec()
}

/// FNV-1a hash of names, each followed by a line end. gcc-plugin/counters.cc computes the same.
fn checksum(names: &[&[u8]]) -> u32 {
    let bytes = names.iter().flat_map(|name| name.iter().chain(b"\n"));
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Number of a global function: a CRC of its name and the zero after it, without the highest bit, never 0.
fn ident_of(name: &[u8]) -> u32 {
    let mut crc = 0u32;
    for byte in name.iter().chain(&[0]) {
        crc ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            crc = if crc >> 31 != 0 { crc << 1 ^ 0x04c1_1db7 } else { crc << 1 };
        }
    }
    (crc & 0x7fff_ffff).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_the_name() {
        // The number that GCC 12 gives it.
        assert_eq!(ident_of(b"main"), 108_032_747);
    }

    #[test]
    fn a_unit_has_the_name_of_its_source() {
        let of = |notes: &str, sources: &[&str]| {
            let place = GcovIdentity { ident: 1, line: 1, graph: 1 };
            let named = |source: &&str| GcnoFunction {
                place,
                name: b"f".to_vec(),
                source: source.as_bytes().to_vec(),
            };
            let functions: Vec<GcnoFunction> = sources.iter().map(named).collect();
            String::from_utf8(unit_of(notes, &functions)).unwrap_or_default()
        };
        assert_eq!(
            of("build/prog-sort.gcno", &["../src/sort.c", "../src/list.h", "../src/list.h"]),
            "sort.c"
        );
        assert_eq!(of("sort.cc.gcno", &["sort.cc", "x.cc", "x.cc"]), "sort.cc");
        assert_eq!(of("main.o.gcno", &["a.h", "a.h", "other.c"]), "other.c");
        assert_eq!(of("empty.gcno", &[]), "empty");
    }
}
