// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output of gprof: the call graph (`-q`), the flat profile (`-p`), or both, with explanations or without
//! (`-b`).
//!
//! The call graph is a sequence of records between lines of dashes. In each, the line that begins with `[N]` is a function, the
//! lines above it are its callers, those below it whom it calls; so each pair stands twice, unless gprof was told to leave one
//! of the two records out. Functions that call each other in a circle have a further record for the circle as a whole, which
//! says nothing new. The flat profile has the time spent in each function; without a call graph beside it, it names no caller.
//!
//! Source: the manual of gprof, and what gprof 2.40 prints (docs/formats/gprof.md).

use super::numbers::decimal;
use super::{
    DsoId, Input, Reader, RecordedAddress, RecordedDso, Recording, Settings, Spot, TransferKind, input,
};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    Source,
    Unknown::{Callers, OwnCost, SharedLibraries, TimeOrder},
};
use sediment_core::skipped::Reason;
use std::collections::{BTreeMap, HashMap};

/// Its row in the table.
pub(super) const READER: Reader = Reader {
    name: "gprof",
    summary: "text of gprof: flat profile and call graph",
    recognises,
    read,
    replay: None,
};

/// No profile holds longer ones, and comparing them at each bracket of a line could take long.
const LONGEST_NAME: usize = 4096;
/// gprof's lines are some 50 bytes wide and more, and a function has several. A text with more functions, pairs or rows in so few bytes
/// is none of gprof's, and would take memory out of proportion.
const NARROWEST: usize = 48;
const SMALL: usize = 1 << 15;
const CUT_OFF: &str = "is the file cut off? print it again: gprof -b --no-demangle PROGRAM gmon.out";

fn recognises(head: &[u8]) -> bool {
    let mut lines = head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let begins = |line: &[u8]| {
        line.starts_with(b"Flat profile:")
            || matches!(line, b"call graph profile:" | b"Call graph" | b"Call graph (explanation follows)")
            || line.starts_with(b"granularity: each sample hit covers")
            || line.starts_with(b"%   cumulative ")
    };
    // Some gprofs begin with what the columns mean.
    lines.clone().next().is_some_and(begins)
        || lines.any(|line| is_flat_header(line) || is_graph_header(line))
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// `time seconds seconds calls ms/call ms/call name`, the last line above the rows; the column of times may be one of cycles.
fn is_flat_header(line: &[u8]) -> bool {
    let mut words = words(line);
    matches!(words.next(), Some(b"time" | b"%" | b"%time"))
        && matches!(words.next(), Some(b"seconds" | b"cycles" | b"cumsecs"))
        && words.any(|word| word == b"calls")
        && words.last() == Some(b"name")
}

/// `index % time self children called name`, and `index %time self descendents called+self name index`.
fn is_graph_header(line: &[u8]) -> bool {
    let mut words = words(line);
    words.next() == Some(b"index")
        && words.next().is_some_and(|word| word.starts_with(b"%"))
        && words.any(|word| word == b"self")
        && words.any(|word| word.starts_with(b"called"))
        && words.any(|word| word == b"name")
}

/// Factor of the units in a line such as `(K) (K)` below a header; None for any other line.
fn units(line: &[u8]) -> Option<u64> {
    let scales = words(line).map(|word| match word {
        b"(K)" => Some(1_000),
        b"(M)" => Some(1_000_000),
        b"(G)" => Some(1_000_000_000),
        _ => None,
    });
    scales.reduce(|first, next| if first == next { first } else { None })?
}

fn read(input: &dyn Input, settings: &Settings) -> Result<Recording> {
    let bytes = &*input::whole(input)?;
    let mut text = Text::default();
    let mut part = Part::Other;
    let mut record = Vec::new();
    // Whether the last record of a graph is behind us: an empty line follows it.
    let mut closed = true;
    let mut number = 0;
    // Nothing stands behind the last line's end.
    for line in bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|b| *b == b'\n') {
        number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let words = line.trim_ascii();
        if let Some(scale) = units(words).filter(|_| record.is_empty() && part != Part::Other) {
            text.cycles = Some(scale);
            continue;
        }
        match part {
            _ if line.starts_with(b"\x0c") => part = Part::Other,
            Part::Flat if words.is_empty() => part = Part::Other,
            _ if words.is_empty() => closed = record.is_empty() && line.is_empty(),
            Part::Graph if words.starts_with(b"This table describes the call tree") => part = Part::Other,
            Part::Graph if words.starts_with(b"called/total ") => {}
            Part::Other | Part::Graph if words.starts_with(b"Index by function name") => part = Part::Index,
            Part::Flat => text.flat_row(line).map_err(|what| bad_line(number, what, line))?,
            Part::Graph if is_ruler(words) => text.record(&std::mem::take(&mut record))?,
            Part::Graph => {
                closed = false;
                record.push((number, line));
            }
            Part::Index => text.index_line(line),
            Part::Other if is_flat_header(words) => {
                part = Part::Flat;
                text.headers += 1;
                text.cycles = memchr::memmem::find(words, b" cycles ").map(|_| 1);
            }
            Part::Other if is_graph_header(words) => {
                part = Part::Graph;
                text.headers += 1;
            }
            Part::Other => {}
        }
        let most = SMALL + bytes.len() / NARROWEST;
        if text.functions.len() + text.calls.len() / 2 + text.rows.len() + record.len() / 2 > most {
            return Err(Error::at_line(number, "more functions and calls than gprof prints in so few bytes"));
        }
        if part != Part::Graph && !record.is_empty() {
            return Err(Error::at_line(number, "the call graph ends inside a record").with_hint(CUT_OFF));
        }
    }
    if part == Part::Graph && (!record.is_empty() || !closed) {
        return Err(Error::at_line(number, "the call graph ends inside a record").with_hint(CUT_OFF));
    }
    text.finish(settings)
}

fn bad_line(number: u64, what: &'static str, line: &[u8]) -> Error {
    Error::at_line(number, what).with_found(line).with_hint(CUT_OFF)
}

/// Section that lines belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Other,
    Flat,
    Graph,
    Index,
}

fn is_ruler(line: &[u8]) -> bool {
    line.len() >= 8 && line.iter().all(|b| *b == b'-')
}

/// A function of the call graph.
struct Function<'a> {
    name: &'a [u8],
    /// Where it is defined, of local ones.
    file: Option<&'a [u8]>,
    /// Hundredths of a second spent in it.
    time: u64,
}

/// Number of calls from one function to another, by the caller's record and by the callee's.
#[derive(Default)]
struct Calls {
    by_caller: u64,
    by_callee: u64,
}

/// A row of the flat profile.
struct Row<'a> {
    name: &'a [u8],
    time: u64,
    calls: u64,
}

#[derive(Default)]
struct Text<'a> {
    functions: Vec<Function<'a>>,
    /// By name and by the number that gprof gives each.
    by_name: HashMap<(&'a [u8], u64), usize>,
    by_number: HashMap<u64, usize>,
    calls: BTreeMap<(usize, usize), Calls>,
    records: u64,
    rows: Vec<Row<'a>>,
    /// Headers of tables.
    headers: u64,
    /// Where times are cycles: how many are printed as one.
    cycles: Option<u64>,
}

impl<'a> Text<'a> {
    /// `share cumulative self [calls self-per-call total-per-call] name`
    fn flat_row(&mut self, line: &'a [u8]) -> std::result::Result<(), &'static str> {
        const WHAT: &str = "not a row of a flat profile";
        let (_, rest) = figure(line).ok_or(WHAT)?;
        let (_, rest) = figure(rest).ok_or(WHAT)?;
        let (time, rest) = figure(rest).ok_or(WHAT)?;
        let counted = number(rest).and_then(|(calls, rest)| {
            let (_, rest) = figure(rest)?;
            let (_, rest) = figure(rest)?;
            Some((calls, rest))
        });
        let (calls, rest) = counted.unwrap_or((0, rest));
        let printed = rest.trim_ascii();
        // The numbers of the call graph, as -T prints them here too.
        let name = if printed.ends_with(b"]") {
            numbered(printed).map_or(printed, |(name, _)| name)
        } else {
            printed
        };
        let name = without_line(without_cycle(name));
        if name.is_empty() {
            return Err(WHAT);
        }
        self.rows.push(Row { name, time, calls });
        Ok(())
    }

    /// The lines of one record.
    fn record(&mut self, lines: &[(u64, &'a [u8])]) -> Result<()> {
        let Some(own) = lines.iter().position(|(_, line)| line.starts_with(b"[")) else {
            let Some((number, line)) = lines.first() else { return Ok(()) };
            return Err(bad_line(*number, "a record without its function", line));
        };
        self.records += 1;
        let (number, line) = lines[own];
        let Some((time, name)) = own_line(line) else {
            return Err(bad_line(number, "not a function of a call graph", line));
        };
        if name.starts_with(b"<cycle ") {
            return Ok(());
        }
        let named = |this: &mut Self, number, name, line| {
            this.function(name).ok_or_else(|| bad_line(number, "a name without its number in brackets", line))
        };
        let function = named(self, number, name, line)?;
        self.functions[function].time = time;
        for (at, &(number, line)) in lines.iter().enumerate() {
            if at == own || line.trim_ascii() == b"<spontaneous>" {
                continue;
            }
            let Some((count, name)) = other_line(line) else {
                return Err(bad_line(number, "neither a caller nor a callee", line));
            };
            let other = named(self, number, name, line)?;
            if at < own {
                add(&mut self.calls.entry((other, function)).or_default().by_callee, count);
            } else {
                add(&mut self.calls.entry((function, other)).or_default().by_caller, count);
            }
        }
        Ok(())
    }

    /// The function that is printed as `name <cycle N> [number]`, or with the number in parentheses where it has no record.
    fn function(&mut self, printed: &'a [u8]) -> Option<usize> {
        let (name, number) = numbered(printed)?;
        let name = without_line(without_cycle(name));
        if name.is_empty() {
            return None;
        }
        let next = self.functions.len();
        let function = *self.by_name.entry((name, number)).or_insert(next);
        if function == next {
            self.functions.push(Function { name, file: None, time: 0 });
            self.by_number.insert(number, function);
        }
        Some(function)
    }

    /// Entries `[number] name`, or `[number] name (file)` for a local function, several in a line.
    fn index_line(&mut self, line: &'a [u8]) {
        for at in memchr::memchr_iter(b'[', line) {
            let rest = &line[at + 1..];
            let Some(end) = rest.iter().position(|b| !b.is_ascii_digit()) else { continue };
            let Some(entry) = rest[end..].strip_prefix(b"] ") else { continue };
            let function = decimal(&rest[..end]).and_then(|number| self.by_number.get(&number));
            let Some(function) = function.map(|function| &mut self.functions[*function]) else { continue };
            if function.name.len() > LONGEST_NAME {
                continue;
            }
            let file = entry.strip_prefix(function.name).and_then(|rest| rest.strip_prefix(b" ("));
            if let Some(file) = file.and_then(|file| file.split(|b| *b == b')').next()) {
                if !file.is_empty() && !file.contains(&b' ') {
                    function.file = Some(file);
                }
            }
        }
    }

    fn finish(self, settings: &Settings) -> Result<Recording> {
        const PRINT: &str = "print it with: gprof -b --no-demangle PROGRAM gmon.out";
        if self.headers == 0 {
            return Err(Error::new(ErrorCode::UnsupportedVariant,
                "no table of gprof: neither `index % time self children called name` nor `time seconds seconds calls ms/call ms/call name`",
            )
            .with_hint(PRINT));
        }
        if self.records == 0 && self.rows.is_empty() {
            return Err(Error::new(
                ErrorCode::EmptyRecording,
                "gprof text without rows and records: no calls, no time",
            )
            .with_hint(PRINT));
        }
        let unit = if self.cycles.is_some() { "cycles" } else { "centiseconds" };
        let timed = self.functions.iter().any(|function| function.time > 0)
            || self.rows.iter().any(|row| row.time > 0);
        let source = match (self.records > 0, timed) {
            (true, true) => Source::new("gprof call graph", unit, &[TimeOrder, SharedLibraries]),
            (true, false) => Source::new("gprof call graph", "", &[OwnCost, TimeOrder, SharedLibraries]),
            (false, true) => Source::new("gprof flat profile", unit, &[Callers, TimeOrder, SharedLibraries]),
            (false, false) => {
                Source::new("gprof flat profile", "calls", &[Callers, OwnCost, TimeOrder, SharedLibraries])
            }
        };
        let seen = match (self.records, self.rows.len()) {
            (records, 0) => counted(records, "record"),
            (0, rows) => counted(rows, "row"),
            (records, rows) => format!("{}, {}", counted(rows, "row"), counted(records, "record")),
        };
        let mut recording = Recording { source, seen, ..Recording::default() };
        let dso = settings
            .program
            .as_ref()
            .map(|program| recording.dso(RecordedDso { path: program.clone(), build_id: None }));
        self.add_graph(&mut recording, dso);
        self.add_rows(&mut recording, dso, timed);
        if recording.addresses().is_empty() {
            return Err(Error::new(ErrorCode::EmptyRecording, "no function was called and none took time")
                .with_hint("let the program do its work while it is recorded"));
        }
        Ok(recording)
    }

    fn add_graph(&self, recording: &mut Recording, dso: Option<DsoId>) {
        for (&(caller, callee), calls) in &self.calls {
            let count = u128::from(calls.by_caller.max(calls.by_callee));
            if count > 0 {
                let from = recording.place(self.functions[caller].place(dso));
                let to = recording.place(self.functions[callee].place(dso));
                recording.total = recording.total.saturating_add(count);
                recording.add_transfer(from, to, TransferKind::Call, count);
            }
        }
        // The flat profile has the same times.
        if self.rows.is_empty() {
            for function in self.functions.iter().filter(|function| function.time > 0) {
                let place = recording.place(function.place(dso));
                recording.add_samples(place, self.cost(function.time));
            }
        }
    }

    /// Cost of hundredths of the printed unit, in centiseconds or cycles.
    fn cost(&self, hundredths: u64) -> u128 {
        let hundredths = u128::from(hundredths);
        self.cycles.map_or(hundredths, |scale| (hundredths * u128::from(scale)).div_ceil(100))
    }

    fn add_rows(&self, recording: &mut Recording, dso: Option<DsoId>, timed: bool) {
        // A row does not say which of several functions of one name it is of.
        let mut by_name: HashMap<&[u8], Option<&Function<'_>>> = HashMap::new();
        for function in &self.functions {
            by_name.entry(function.name).and_modify(|one| *one = None).or_insert(Some(function));
        }
        let alone = self.records == 0;
        for row in &self.rows {
            let (calls, time) = (u128::from(row.calls), self.cost(row.time));
            let cost = if alone && !timed { calls } else { time };
            if row.name.starts_with(b"<") {
                recording.skipped.add(Reason::TimeOfNoFunction, cost, row.name);
                continue;
            }
            if alone && calls > 0 {
                recording.total = recording.total.saturating_add(calls);
                recording.skipped.add(Reason::CallerlessCall, calls, row.name);
            }
            if cost > 0 || calls > 0 {
                let nameless = Function { name: row.name, file: None, time: 0 };
                let function = by_name.get(row.name).copied().flatten().unwrap_or(&nameless);
                let place = recording.place(function.place(dso));
                if cost > 0 {
                    recording.add_samples(place, cost);
                }
            }
        }
    }
}

impl Function<'_> {
    fn place(&self, dso: Option<DsoId>) -> RecordedAddress {
        let (name, file) = (self.name.to_vec(), self.file.map(<[u8]>::to_vec));
        RecordedAddress { dso, spot: Spot::Symbol { name, file } }
    }
}

fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

/// `[number] share self children [called[+recursive]] name [number]`: the time in hundredths of a second, and the name.
fn own_line(line: &[u8]) -> Option<(u64, &[u8])> {
    let end = line.iter().position(|b| *b == b']')?;
    let (_, rest) = figure(&line[end + 1..])?;
    let (time, rest) = figure(rest)?;
    let (_, rest) = figure(rest)?;
    let (word, after) = first_word(rest);
    let called = !word.is_empty() && word.iter().all(|b| b.is_ascii_digit() || *b == b'+');
    Some((time, if called { after.trim_ascii() } else { rest.trim_ascii() }))
}

/// `self children called/total name [number]`, or `called name [number]` for a call to itself or within a cycle.
fn other_line(line: &[u8]) -> Option<(u64, &[u8])> {
    let counts = match figure(line) {
        Some((_, rest)) => figure(rest)?.1,
        None => line,
    };
    let (word, name) = first_word(counts);
    let called = word.split(|b| *b == b'/').next()?;
    Some((decimal(called)?, name.trim_ascii()))
}

/// The first word of a text, and what follows it.
fn first_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    text.split_at(text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len()))
}

/// A first word with a point in it, as hundredths; `nan` and `inf`, which gprof prints for shares of nothing, are 0.
fn figure(text: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = first_word(text);
    if matches!(word, b"nan" | b"-nan" | b"inf") {
        return Some((0, rest));
    }
    let point = word.iter().position(|b| matches!(b, b'.' | b','))?;
    let (whole, decimals) = (&word[..point], word[point + 1..].get(..2).unwrap_or(&word[point + 1..]));
    let whole = decimal(whole)?;
    if !word[point + 1..].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let hundredths = match decimals.len() {
        0 => 0,
        1 => decimal(decimals)? * 10,
        _ => decimal(decimals)?,
    };
    Some((whole.checked_mul(100)?.checked_add(hundredths)?, rest))
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = first_word(text);
    Some((decimal(word)?, rest))
}

/// A name and the number behind it: ` [N]`, or ` (N)`.
fn numbered(printed: &[u8]) -> Option<(&[u8], u64)> {
    let (last, rest) = printed.split_last()?;
    let open = match last {
        b']' => b'[',
        b')' => b'(',
        _ => return None,
    };
    let at = memchr::memrchr(open, rest)?;
    let name = rest[..at].strip_suffix(b" ")?;
    Some((name.trim_ascii(), decimal(&rest[at + 1..])?))
}

/// A name without the ` <cycle N>` behind it.
fn without_cycle(name: &[u8]) -> &[u8] {
    let Some(at) = memchr::memmem::rfind(name, b" <cycle ") else { return name };
    let number = name[at + b" <cycle ".len()..].strip_suffix(b">");
    if number.and_then(decimal).is_some() { name[..at].trim_ascii() } else { name }
}

/// A name without the ` (file:line @ address)` behind it that `-l` gives.
fn without_line(name: &[u8]) -> &[u8] {
    let Some(at) = memchr::memmem::rfind(name, b" (") else { return name };
    let inside = &name[at..];
    if name.ends_with(b")") && memchr::memmem::find(inside, b" @ ").is_some() {
        name[..at].trim_ascii()
    } else {
        name
    }
}
