// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts counters of LLVM's instrumentation (clang, rustc), in the text form of LLVM's profiles, to a [`Profile`]
//! and back.
//!
//! `llvm-profdata` converts between this text and the other forms, `.profraw` from a run and `.profdata` for a
//! compiler. These depend on the version of LLVM; the text does not. A function is identified by its name, with the
//! source file in front if it is local, and the hash of its control-flow graph. Paths of source files are cut to the
//! last part.
//!
//! Two kinds of values are kept: callees of indirect calls, and sizes of copies. Callees without instrumentation have
//! no names, so they are executions without a value. Bitmaps of conditions and types of objects are not kept.
//!
//! Source: LLVM's InstrProfReader.cpp and InstrProfWriter.cpp, and files of LLVM 19 and of rustc.

use crate::static_graph::LinkedSymbols;
use sediment_core::binary::Binary;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::profile::counters::{ArcCounters, CounterVariant, LLVM_KINDS, VariantCounts};
use sediment_core::profile::source::{ProfileSource, Unknown};
use sediment_core::profile::values::{CalleeName, MeasuredValues, Top, Tops};
use sediment_core::profile::{FunctionKey, Profile, base_name};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Source of profiles with these counters.
const INSTRUMENTED: &str = "LLVM's instrumentation";
/// Line that opens a file with counters of a kind, in the order of [`LLVM_KINDS`].
const HEADS: [&str; 3] = [":ir", ":csir", ":fe"];
/// Lines that state how the counters were placed; each is a bit in a variant's marks.
const MARKS: [&str; 2] = [":entry_first", ":instrument_loop_entries"];
/// Mark of a local function whose file name is followed by a colon: in LLVM 18 a semicolon follows, except in clang's
/// front end.
const COLON: u32 = 1 << 16;
/// Counts from here on are special marks of LLVM.
const MOST: u64 = u64::MAX - 1;
/// Largest number of counters of a function that are written, because a profile is untrusted.
const MOST_COUNTERS: u32 = 1 << 22;
/// Largest number of counters and statements of all functions that are written: a few bytes of a profile can represent
/// millions of lines.
const MOST_LINES: u64 = 1 << 27;
/// Largest count that is written.
const LARGEST: u128 = 1 << 62;
/// Largest number of values of a statement that are written: LLVM stores their number in a byte.
const MOST_VALUES: usize = 255;
/// Kinds of values.
const CALLEES: u64 = 0;
const SIZES: u64 = 1;
/// Name in place of a callee without instrumentation.
const EXTERNAL: &str = "** External Symbol **";

/// Counters from any number of files.
#[derive(Default)]
pub struct LlvmCounters {
    /// By name in the file, and source file without folders.
    functions: BTreeMap<(String, Option<String>), ArcCounters>,
}

/// True for text of this form, by its first bytes. Traces of first uses have the same headers, but are separate
/// recordings.
#[must_use]
pub fn recognises(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).take(8);
    !lines.clone().any(|line| line == b":temporal_prof_traces")
        && lines.any(|line| line == b"# Func Hash:" || HEADS.iter().any(|head| line == head.as_bytes()))
}

/// Iterates over the lines of a file with content.
struct ProftextLines<'t> {
    rest: &'t [u8],
    /// Number of the last returned line.
    at: u64,
    peeked: Option<(&'t [u8], u64)>,
}

impl<'t> ProftextLines<'t> {
    fn of(text: &'t [u8]) -> Self {
        Self { rest: text, at: 0, peeked: None }
    }

    fn peek(&mut self) -> Option<(&'t [u8], u64)> {
        while self.peeked.is_none() && !self.rest.is_empty() {
            let end = memchr::memchr(b'\n', self.rest);
            let line = self.rest[..end.unwrap_or(self.rest.len())].trim_ascii();
            self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
            self.at += 1;
            let says = !line.is_empty() && !line.starts_with(b"#");
            self.peeked = says.then_some((line, self.at));
        }
        self.peeked
    }

    fn next(&mut self, what: &str) -> Result<(&'t [u8], u64)> {
        let line = self.peek();
        self.peeked = None;
        line.ok_or_else(|| {
            Error::new(ErrorCode::Damaged, format!("the file ends before {what}"))
                .with_hint("is the file cut off? copy it again")
        })
    }

    fn number(&mut self, what: &str) -> Result<u64> {
        let (line, at) = self.next(what)?;
        number(line).ok_or_else(|| Error::at_line(at, format!("not {what}")).with_found(line))
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?,
    }
}

impl LlvmCounters {
    /// Adds the counters of a file in LLVM's text form.
    ///
    /// # Errors
    /// If the text is damaged or of an unknown kind, or if counts exceed their range.
    pub fn read(&mut self, text: &[u8], skipped: &mut Skipped) -> Result<()> {
        let mut lines = ProftextLines::of(text);
        // Without a line that states the kind, it is clang's front end.
        let (mut kind, mut marks) = (LLVM_KINDS.len() - 1, 0);
        while let Some((line, at)) = lines.peek().filter(|(line, _)| line.starts_with(b":")) {
            lines.peeked = None;
            let is_it = |head: &&str| line.eq_ignore_ascii_case(head.as_bytes());
            if let Some(known) = HEADS.iter().position(is_it) {
                kind = known;
            } else if let Some(mark) = MARKS.iter().position(is_it) {
                marks |= 1 << mark;
            } else if line != b":not_entry_first" {
                return Err(Error::new(ErrorCode::UnsupportedVariant, "counters of an unknown kind")
                    .with_location(sediment_core::error::ErrorLocation::Line(at))
                    .with_found(line)
                    .with_hint("supported: counters of -fprofile-generate, -fcs-profile-generate, -fprofile-instr-generate, and -Cprofile-generate of rustc"));
            }
        }
        while let Some((name, _)) = lines.peek() {
            lines.peeked = None;
            self.read_function(name, kind, marks, &mut lines, skipped)?;
        }
        Ok(())
    }

    fn read_function(
        &mut self,
        name: &[u8],
        kind: usize,
        mut marks: u32,
        lines: &mut ProftextLines<'_>,
        skipped: &mut Skipped,
    ) -> Result<()> {
        let hash = lines.number("the hash of a function")?;
        let count = lines.number("the number of counters")?;
        let mut counted = VariantCounts::default();
        let mut is_marked = false;
        for _ in 0..count {
            let value = lines.number("a counter")?;
            is_marked |= value >= MOST;
            counted.arcs.extend(value.into(), 1).ok_or_else(beyond)?;
        }
        counted.values = read_values(lines)?;
        if is_marked {
            skipped.add(Reason::WrappedCounters, 0, name);
            return Ok(());
        }
        let (file, name, is_colon) = parted(name);
        marks |= if is_colon { COLON } else { 0 };
        let key = FunctionKey::new(None, name, file.map(base_name));
        let Some((key, variant)) = key.zip(CounterVariant::of_llvm(kind, file, marks, hash)) else {
            skipped.add(Reason::UnacceptableName, 0, name);
            return Ok(());
        };
        let counters = self.functions.entry((key.name, key.file)).or_default();
        counters.add(variant, &counted).ok_or_else(beyond)
    }

    /// Returns the profile of all counters. Functions that only one of the binaries defines belong to its DSO, with the
    /// binary's label.
    ///
    /// # Errors
    /// If there are no functions, or if counts exceed their range.
    pub fn profile(&self, binaries: &[(String, Binary)]) -> Result<Profile> {
        let mut profile = Profile::default();
        profile.source.insert(
            ProfileSource::new(INSTRUMENTED, "", &[Unknown::CallCounts, Unknown::TimeOrder]).to_string(),
        );
        let symbols: Vec<_> =
            binaries.iter().map(|(label, binary)| LinkedSymbols::new(binary, label)).collect();
        for (label, binary) in binaries {
            profile.arch.extend(binary.arch.clone());
            profile.dso_mut(label).build_id.clone_from(&binary.build_id);
        }
        for ((name, file), counters) in &self.functions {
            let meant = FunctionKey { dso: None, name: name.clone(), file: file.clone() };
            let mut found = symbols.iter().filter_map(|symbols| symbols.find(&meant));
            let key = found.next().filter(|_| found.next().is_none());
            let function = profile.function(key.unwrap_or(meant));
            profile.counters_total = profile.counters_total.checked_add(counters.sum()).ok_or_else(beyond)?;
            let known = profile.facts_mut(function).counters.get_or_insert_default();
            known.absorb(counters).ok_or_else(beyond)?;
        }
        if profile.function_count() == 0 {
            return Err(Error::new(ErrorCode::EmptyRecording, "no function with counters").with_hint(
                "compile with -fprofile-generate (rustc: -Cprofile-generate), run the program, and import its .profraw",
            ));
        }
        Ok(profile)
    }
}

fn beyond() -> Error {
    Error::new(ErrorCode::Overflow, "counters add up to more than 2^128")
}

/// Reads the values with their counts that may follow the counters, and skips the bytes of a bitmap.
fn read_values(lines: &mut ProftextLines<'_>) -> Result<MeasuredValues> {
    let mut values = MeasuredValues::default();
    if let Some((line, at)) = lines.peek().filter(|(line, _)| line.starts_with(b"$")) {
        lines.peeked = None;
        let bytes = number(&line[1..])
            .ok_or_else(|| Error::at_line(at, "not a number of bytes of a bitmap").with_found(line))?;
        for _ in 0..bytes {
            lines.number("a byte of a bitmap")?;
        }
    }
    let Some(kinds) = lines.peek().and_then(|(line, _)| number(line)) else { return Ok(values) };
    lines.peeked = None;
    for _ in 0..kinds {
        match lines.number("a kind of values")? {
            CALLEES => {
                values.callees = read_statements(lines, |text| {
                    let (file, name, _) = parted(text);
                    Some(CalleeName::new(file, name).filter(|_| text != EXTERNAL.as_bytes()))
                })?;
            }
            SIZES => values.tops = read_statements(lines, |text| number(text).map(Some))?,
            _ => drop(read_statements(lines, |_| Some(None::<u64>))?),
        }
    }
    Ok(values)
}

/// Reads the values of statements: `read` returns `None` for an invalid text, and `Some(None)` for a value that is not
/// kept.
fn read_statements<V: Ord>(
    lines: &mut ProftextLines<'_>,
    read: impl Fn(&[u8]) -> Option<Option<V>>,
) -> Result<Tops<V>> {
    let mut tops = Tops::default();
    for _ in 0..lines.number("the number of statements with values")? {
        let number_of_values = lines.number("the number of values")?;
        let place = tops.statements;
        tops.statements = place.checked_add(1).ok_or_else(beyond)?;
        for _ in 0..number_of_values {
            let (line, at) = lines.next("a value and its count")?;
            let known = memchr::memrchr(b':', line)
                .and_then(|end| Some((read(&line[..end])?, u128::from(number(&line[end + 1..])?))));
            let (value, count) =
                known.ok_or_else(|| Error::at_line(at, "not a value and its count").with_found(line))?;
            let top = tops.executed.entry(place).or_default();
            top.total = top.total.checked_add(count).ok_or_else(beyond)?;
            if let Some(value) = value {
                let sum = top.values.entry(value).or_default();
                *sum = sum.checked_add(count).ok_or_else(beyond)?;
            }
        }
    }
    Ok(tops)
}

/// Splits the name of a function into its file and name; the flag is true if a colon separates them.
fn parted(name: &[u8]) -> (Option<&[u8]>, &[u8], bool) {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$.".contains(byte);
    let split = |at: usize| (Some(&name[..at]), &name[at + 1..]);
    match (memchr::memrchr(b';', name), memchr::memrchr(b':', name)) {
        (Some(at), _) => (split(at).0, split(at).1, false),
        (None, Some(at)) if at > 0 && name[at + 1..].iter().all(is_plain) => (split(at).0, split(at).1, true),
        _ => (None, name, false),
    }
}

/// Writes the counters of the heaviest kind in a profile as LLVM's text form; `None` if it has none. If counts are too
/// large for LLVM, all are scaled down; counts above 0 stay above 0.
#[must_use]
pub fn text(profile: &Profile) -> Option<(String, Skipped)> {
    let mut skipped = Skipped::default();
    // A unit does not know which program it becomes part of. Therefore functions with the same name and file are one,
    // whatever their DSO.
    let mut functions: BTreeMap<&str, ArcCounters> = BTreeMap::new();
    for function in profile.functions() {
        let Some(counters) = &profile.facts(function).counters else { continue };
        let mut counters = ArcCounters::clone(counters);
        counters.retain(|variant| variant.llvm().is_some());
        let name = profile.key(function).name.as_str();
        if functions.entry(name).or_default().absorb(&counters).is_none() {
            skipped.add(Reason::CountersBeyond, 0, name);
        }
    }
    let kind_of = |variant: &CounterVariant| Some((variant.llvm()?.0, variant.functions & !COLON));
    let weight = |counted: &VariantCounts| counted.arcs.sum().unwrap_or(u128::MAX);
    let mut weights: BTreeMap<(usize, u32), u128> = BTreeMap::new();
    for (variant, counted) in functions.values().flat_map(ArcCounters::variants) {
        let sum = weights.entry(kind_of(variant)?).or_default();
        *sum = sum.saturating_add(weight(counted));
    }
    // The first of equally heavy ones.
    let (&heaviest, _) = weights.iter().rev().max_by_key(|(_, weight)| **weight)?;
    let largest = functions.values().map(ArcCounters::largest).max().unwrap_or(0);
    let divisor = largest.div_ceil(LARGEST).max(1);
    let mut lines_left = MOST_LINES;
    let mut text = format!("{}\n", HEADS[heaviest.0]);
    for (_, mark) in MARKS.iter().enumerate().filter(|(bit, _)| heaviest.1 >> bit & 1 != 0) {
        let _ = writeln!(text, "{mark}");
    }
    for (name, counters) in &functions {
        for (variant, counted) in counters.variants() {
            if kind_of(variant) != Some(heaviest) {
                skipped.add(Reason::OtherInstrumentation, weight(counted), name);
                continue;
            }
            let between = if variant.functions & COLON == 0 { ';' } else { ':' };
            let file = variant.llvm().and_then(|(_, file)| file);
            let whole = file.map_or_else(|| (*name).to_owned(), |file| format!("{file}{between}{name}"));
            let values = &counted.values;
            let numbers = [counted.arcs.number(), values.callees.statements, values.tops.statements];
            let left = lines_left.checked_sub(numbers.into_iter().map(u64::from).sum());
            let is_small = numbers.into_iter().all(|number| number <= MOST_COUNTERS);
            let Some(left) = left.filter(|_| is_small && numbers[0] > 0 && can_be_written(&whole)) else {
                skipped.add(Reason::UnwritableFunction, weight(counted), name);
                continue;
            };
            lines_left = left;
            let _ = writeln!(text, "{whole}\n{}\n{}", variant.hash(), counted.arcs.number());
            let scaled = |count: u128| (count / divisor).max(count.min(1)).min(LARGEST);
            for count in counted.arcs.iter() {
                let _ = writeln!(text, "{}", scaled(count));
            }
            write_values(&mut text, values, scaled);
            text.push('\n');
        }
    }
    Some((text, skipped))
}

/// Writes the values of a function if statements in it were measured.
fn write_values(text: &mut String, values: &MeasuredValues, scaled: impl Fn(u128) -> u128) {
    let kinds =
        [values.callees.statements, values.tops.statements].iter().filter(|number| **number > 0).count();
    if kinds > 0 {
        let _ = writeln!(text, "{kinds}");
    }
    write_statements(
        text,
        CALLEES,
        &values.callees,
        |callee| can_be_written(callee.as_str()).then(|| callee.as_str().to_owned()),
        &scaled,
    );
    write_statements(text, SIZES, &values.tops, |size| Some(size.to_string()), &scaled);
}

/// Writes the values of all statements; `print` returns `None` for a value that cannot be written. Executions without a
/// written value get a callee without a name.
fn write_statements<V: Ord>(
    text: &mut String,
    kind: u64,
    tops: &Tops<V>,
    print: impl Fn(&V) -> Option<String>,
    scaled: impl Fn(u128) -> u128,
) {
    if tops.statements == 0 {
        return;
    }
    let _ = writeln!(text, "{kind}\n{}", tops.statements);
    for place in 0..tops.statements {
        let top = tops.executed.get(&place);
        let heaviest = top.map(Top::heaviest).unwrap_or_default();
        let written = heaviest.into_iter().filter_map(|(value, count)| Some((print(value)?, count)));
        let mut written: Vec<_> = written.filter(|(_, count)| *count > 0).take(MOST_VALUES - 1).collect();
        if kind == CALLEES {
            let named = written.iter().fold(0u128, |sum, (_, count)| sum.saturating_add(*count));
            let rest = top.map_or(0, |top| top.total).saturating_sub(named);
            written.extend((rest > 0).then(|| (EXTERNAL.to_owned(), rest)));
        }
        let _ = writeln!(text, "{}", written.len());
        for (value, count) in written {
            let _ = writeln!(text, "{value}:{}", scaled(count));
        }
    }
}

/// True for a name that LLVM does not read as another kind of line.
fn can_be_written(name: &str) -> bool {
    !name.starts_with(['#', ':', '$', ' ']) && !name.ends_with(' ') && number(name.as_bytes()).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_core::profile::text::{parse, print};

    /// As LLVM 19 writes it, with callees of an indirect call and sizes of copies.
    const TEXT: &str = "# IR level Instrumentation Flag
:ir
d/w.c;rare
# Func Hash:
382993475055910911
# Num Counters:
2
# Counter Values:
5
5

main
# Func Hash:
728453322402006344
# Num Counters:
3
# Counter Values:
5000
1
1
# Num Value Kinds:
2
# ValueKind = IPVK_IndirectCallTarget:
0
# NumValueSites:
1
2
** External Symbol **:7
d/w.c;step:5000
# ValueKind = IPVK_MemOPSize:
1
# NumValueSites:
2
0
2
8:30
16:400

";

    fn profile(texts: &[&str]) -> Result<Profile> {
        let mut counters = LlvmCounters::default();
        let mut skipped = Skipped::default();
        texts.iter().try_for_each(|text| counters.read(text.as_bytes(), &mut skipped))?;
        assert!(skipped.is_empty(), "{skipped:?}");
        counters.profile(&[])
    }

    #[test]
    fn text_becomes_a_profile_and_the_same_counters() {
        assert!(recognises(TEXT.as_bytes()));
        let profile = profile(&[TEXT]).unwrap();
        let shown = print(&profile);
        assert!(shown.contains("counters=\"llvm-ir+w.c@00000000 "), "{shown}");
        assert!(!shown.contains("d/w.c"), "a path: {shown}");
        let again = parse(shown.as_bytes()).unwrap().0;
        assert_eq!(again, profile);
        let written = text(&again).unwrap().0;
        assert_eq!(
            written,
            ":ir\nmain\n728453322402006344\n3\n5000\n1\n1\n2\n0\n1\n2\nw.c;step:5000\n** External Symbol **:7\n1\n2\n0\n2\n16:400\n8:30\n\nw.c;rare\n382993475055910911\n2\n5\n5\n\n"
        );
        assert!(shown.contains("| top 2 1=430:16=400,8=30 | callees 1 0=5007:w.c%3Bstep=5000\""), "{shown}");
        // The other family of compilers gets none of them.
        assert!(!crate::counters::gcov::counters(&profile).0.contains("llvm"));
    }

    /// LLVM writes -1 and -2 for a function that is only known to be hot or warm.
    #[test]
    fn marks_are_no_counters() {
        for (value, is_mark) in [(u64::MAX, true), (u64::MAX - 1, true), (u64::MAX - 2, false)] {
            let mut skipped = Skipped::default();
            let text = format!("f\n12\n1\n{value}\n");
            let result = LlvmCounters::default().read(text.as_bytes(), &mut skipped);
            assert_eq!(skipped.items(Reason::WrappedCounters), u64::from(is_mark), "{value}: {result:?}");
        }
    }

    #[test]
    fn runs_add_up_and_kinds_stay_apart() {
        let twice = profile(&[TEXT, TEXT]).unwrap();
        assert_eq!(twice.counters_total, 2 * profile(&[TEXT]).unwrap().counters_total);
        // clang's front end: no header, and a colon after the file.
        let front = "w.c:rare\n12\n1\n7\n";
        let both = profile(&[TEXT, front]).unwrap();
        let (written, skipped) = text(&both).unwrap();
        assert!(written.starts_with(":ir\n"), "{written}");
        assert_eq!(skipped.items(Reason::OtherInstrumentation), 1);
        assert_eq!(text(&profile(&[front]).unwrap()).unwrap().0, ":fe\nw.c:rare\n12\n1\n7\n\n");
    }

    #[test]
    fn damage_is_an_error_with_its_line() {
        for length in 0..TEXT.len() {
            let _ = profile(&[&TEXT[..length]]);
        }
        let error = profile(&[&TEXT.replace("5000\n1\n", "5000\nmany\n")]).unwrap_err();
        assert_eq!(
            (error.code(), error.location()),
            (ErrorCode::Damaged, Some(sediment_core::error::ErrorLocation::Line(19)))
        );
        let error = profile(&[&TEXT.replace("16:400", "16")]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Damaged);
        let cut = &TEXT[..TEXT.find("5000").unwrap()];
        assert_eq!(profile(&[cut]).unwrap_err().code(), ErrorCode::Damaged);
        let other = TEXT.replace(":ir", ":temporal_prof_traces");
        assert_eq!(profile(&[&other]).unwrap_err().code(), ErrorCode::UnsupportedVariant);
        assert_eq!(profile(&[":ir\n"]).unwrap_err().code(), ErrorCode::EmptyRecording);
    }

    #[test]
    fn names_and_numbers_of_strangers_are_not_written() {
        let forged = [
            ("\":ir\"", "7"),
            ("\"#main\"", "7"),
            ("\"12\"", "7"),
            ("\"main\"", "0*4000000000"),
            ("\"main\"", "7 | top 4000000000 1=2:3=2"),
        ];
        for (name, counts) in forged {
            let shown = format!(
                "digraph {{ graph [sediment=3, counters_total=7]; {name} [counters=\"llvm-ir@00000000 00000000.00000001: {counts}\"]; }}"
            );
            let (profile, _) = parse(shown.as_bytes()).unwrap();
            let (written, skipped) = text(&profile).unwrap();
            assert_eq!(written, ":ir\n", "{name}");
            assert_eq!(skipped.items(Reason::UnwritableFunction), 1);
        }
        // A callee whose name would be a comment gets no name, and no path is kept.
        let shown = "digraph { graph [sediment=3, counters_total=7]; main [counters=\"llvm-ir@00000000 00000000.00000001: 7 | callees 1 0=9:%23x=4,%2Fhome%2Fw.c%3Bf=5\"]; }";
        let (profile, _) = parse(shown.as_bytes()).unwrap();
        let written = text(&profile).unwrap().0;
        assert_eq!(written, ":ir\nmain\n1\n1\n7\n1\n0\n1\n2\nw.c;f:5\n** External Symbol **:4\n\n");
    }
}
