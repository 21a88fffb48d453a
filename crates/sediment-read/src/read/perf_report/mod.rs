// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the text of perf report for branch records.
//!
//! A report is a sequence of tables, one for each event, each after comment lines with the event, the number of
//! branches and the columns. [`table`] finds the cells, [`objects`] classifies shared objects, and [`shares`] converts
//! rounded percentages back into counts if the report has no column of counts. Each row is a call from one function to
//! another.
//!
//! Source: perf's manual pages, and the output of perf 5 and 6 (docs/formats/perf-report.md).

mod objects;
mod shares;
mod table;

use super::numbers::decimal;
use super::{
    AddressId, Input, ReadSettings, Reader, RecordedAddress, RecordedDso, Recording, Spot, TransferKind,
    input,
};
use memchr::memmem;
use objects::{FullNames, ObjectMeaning, object};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::ProfileSource;
use sediment_core::skipped::Reason;
use std::collections::{BTreeMap, BTreeSet};
use table::{ColumnKind, SymbolCell, TableColumns};

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "perf-report",
    summary: "text of perf report with branch columns",
    recognises,
    read,
    replay: None,
};

const COMMANDS: &str = "record calls with `perf record -e branches:u -j any_call,u -- COMMAND` and print them with \
     `perf report -b --stdio --no-demangle -n -F +period --percent-limit 0 \
     --sort=comm,dso_from,symbol_from,dso_to,symbol_to > report.txt`";
/// Total for a report that does not have it.
const SHARES: u64 = 1_000_000_000_000_000;
const LONGEST_PATH: usize = 4096;
const LONGEST_START: usize = 1 << 16;

/// Messages that perf prints in place of a report.
const COMPLAINTS: [&[u8]; 6] = [
    b"Selected -b but no branch data",
    b"Invalid --sort key",
    b"Unknown --sort key",
    b"Unknown --fields key",
    b"data has no samples!",
    b"failed to open perf.data",
];

fn recognises(bytes: &[u8]) -> bool {
    const COMMENTS: [&[u8]; 5] = [
        b"# To display the perf.data header info",
        b"# Total Lost Samples:",
        b"# Samples: ",
        b"# Event count (approx.):",
        b"# captured on",
    ];
    let start = &bytes[..bytes.len().min(LONGEST_START)];
    if memchr::memchr(0, start).is_some() {
        return false;
    }
    let mut first_row = true;
    for line in start.split(|b| *b == b'\n').map(<[u8]>::trim_ascii) {
        let comment = line.starts_with(b"#");
        if COMMENTS.iter().any(|words| line.starts_with(words))
            || (comment
                && [&b"Source Symbol"[..], b"Target Symbol"]
                    .iter()
                    .any(|words| memmem::find(line, words).is_some()))
            || COMPLAINTS.iter().any(|words| memmem::find(line, words).is_some())
        {
            return true;
        }
        if !comment && !line.is_empty() {
            if first_row && looks_like_row(line) {
                return true;
            }
            first_row = false;
        }
    }
    false
}

/// True for a row without its header: a percentage, and the mark of a symbol.
fn looks_like_row(line: &[u8]) -> bool {
    let share = line.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
    let share = share.split_last().filter(|(last, _)| **last == b'%').map(|(_, digits)| digits);
    share.is_some_and(|digits| digits.first().is_some_and(u8::is_ascii_digit))
        && [&b"[.] "[..], b"[k] "].iter().any(|mark| memmem::find(line, mark).is_some())
}

/// One end of a printed row.
#[derive(Debug, Clone, Copy)]
struct PrintedEnd<'a> {
    object: Option<&'a [u8]>,
    /// True if the object's name is as wide as its column, so that it may be cut.
    fills: bool,
    /// True if it is certainly cut, unless a longer name is found for it.
    object_cut: bool,
    symbol: SymbolCell<'a>,
    symbol_cut: bool,
}

#[derive(Debug)]
struct BranchRow<'a> {
    from: PrintedEnd<'a>,
    to: PrintedEnd<'a>,
    /// Share in hundredths of a percent if the table has no counts.
    weight: u64,
    /// Number of its line, from 1.
    line: u64,
}

/// The table of one event.
#[derive(Debug, Default)]
struct EventTable<'a> {
    event: &'a [u8],
    /// Number of branches of the event, including rows that were not printed. `None` for a group: perf prints the sum
    /// of its events.
    event_count: Option<u64>,
    /// True if each row has figures for several events; only the first is read.
    grouped: bool,
    columns: Option<TableColumns<'a>>,
    rows: Vec<BranchRow<'a>>,
}

/// All data of a report.
#[derive(Debug, Default)]
struct BranchReport<'a> {
    tables: Vec<EventTable<'a>>,
    arch: Option<String>,
    /// True if the header shows that jumps and returns were recorded in addition to calls.
    all_branches: bool,
    /// Line of a header without branch columns.
    other_header: Option<(u64, &'a [u8])>,
    /// Line of a row before any header.
    stray_row: Option<(u64, &'a [u8])>,
    complaint: Option<(u64, &'a [u8])>,
    tree_lines: u64,
    group_counts: u64,
}

fn read(input: &dyn Input, _: &ReadSettings) -> Result<Recording> {
    let bytes = &*input::whole(input)?;
    let report = BranchReport::parse(bytes)?;
    let first = report.first_with_branches()?;
    let event = report.tables[first].event;
    let (chosen, others): (Vec<_>, Vec<_>) =
        report.tables.iter().filter(|table| !table.rows.is_empty()).partition(|table| table.event == event);

    let rows: usize = chosen.iter().map(|table| table.rows.len()).sum();
    let mut recording = Recording {
        source: ProfileSource::new("perf branch records", &String::from_utf8_lossy(event), &[]),
        arch: report.arch.clone(),
        seen: counted(rows, "row"),
        ..Recording::default()
    };
    let mut reading = PerfReportConversion {
        full: FullNames::of(report.objects()),
        owners: Owners::of(&chosen),
        addresses: BTreeSet::new(),
        all_branches: report.all_branches,
        recording: &mut recording,
    };
    for table in chosen {
        reading.add(table);
    }
    let addresses: Vec<_> = reading.addresses.iter().copied().collect();
    let example = addresses.first().map_or(&b""[..], |(_, address)| address);
    recording.skipped.add_many(Reason::UnresolvedAddress, addresses.len() as u64, 0, example);
    recording.skipped.add_many(Reason::CallTree, report.tree_lines, 0, "");
    recording.skipped.add_many(Reason::GroupCount, report.group_counts, 0, "");
    for table in others {
        recording.skipped.add_many(Reason::LaterEventRow, table.rows.len() as u64, 0, table.event);
    }
    if recording.addresses().is_empty() {
        return Err(Error::new(
            ErrorCode::Unresolved,
            "no row of this perf report names a function to order",
        )
        .with_hint("run perf report where the programs and their debug symbols are installed"));
    }
    Ok(recording)
}

impl<'a> BranchReport<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut report = Self::default();
        let mut lines =
            bytes.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).peekable();
        let mut number = 0;
        while let Some(line) = lines.next() {
            number += 1;
            if line.first() == Some(&b'#') {
                let next = lines.peek().copied().unwrap_or_default();
                report.comment(line, next, number)?;
            } else if !line.trim_ascii().is_empty() {
                report.row(line, number)?;
                let unfinished = lines.peek().is_none();
                if unfinished && report.ends_without_target() {
                    return Err(Error::at_line(number, "the last row ends before its target")
                        .with_found(line)
                        .with_hint("is the file cut off? print the report again"));
                }
            }
        }
        Ok(report)
    }

    /// True if the last row has no target: perf ends every row with a line end, so a row without one may be cut off.
    fn ends_without_target(&self) -> bool {
        let row = self.tables.last().and_then(|table| table.rows.last());
        row.is_some_and(|row| matches!(row.to.symbol, SymbolCell::Nothing))
    }

    fn comment(&mut self, line: &'a [u8], next: &[u8], number: u64) -> Result<()> {
        let text = line[1..].trim_ascii();
        if text.starts_with(b"Samples:") {
            let grouped = memmem::find(text, b" of events '").is_some();
            self.tables.push(EventTable { event: event(text, grouped), grouped, ..EventTable::default() });
        } else if let Some(count) = text.strip_prefix(b"Event count (approx.):") {
            let count = decimal(count.trim_ascii()).ok_or_else(|| {
                Error::at_line(number, "an event count outside 0 to 2^64 - 1").with_found(line)
            })?;
            let table = self.table();
            table.event_count = (!table.grouped).then_some(count);
        } else if let Some(arch) = text.strip_prefix(b"arch :") {
            let name = String::from_utf8_lossy(arch.trim_ascii());
            self.arch =
                name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then(|| name.into_owned());
        } else if let Some(at) = memmem::find(text, b"branch_sample_type = ") {
            let kinds =
                text[at + b"branch_sample_type = ".len()..].split(|b| *b == b',').next().unwrap_or_default();
            self.all_branches |= kinds.split(|b| *b == b'|').any(|kind| kind.trim_ascii() == b"ANY");
        } else if let Some(columns) = TableColumns::of_header(line, next, number)? {
            if columns.find(ColumnKind::SourceSymbol).is_some()
                && columns.find(ColumnKind::TargetSymbol).is_some()
            {
                if self.tables.last().is_none_or(|table| table.columns.is_some()) {
                    self.tables.push(EventTable::default());
                }
                self.table().columns = Some(columns);
            } else {
                self.other_header.get_or_insert((number, line));
                if self.tables.last().is_some_and(|table| table.columns.is_some()) {
                    self.tables.push(EventTable::default());
                }
            }
        }
        Ok(())
    }

    fn table(&mut self) -> &mut EventTable<'a> {
        if self.tables.is_empty() {
            self.tables.push(EventTable::default());
        }
        let last = self.tables.len() - 1;
        &mut self.tables[last]
    }

    fn row(&mut self, line: &'a [u8], number: u64) -> Result<()> {
        let Some(table) = self.tables.last_mut() else {
            self.stray(line, number);
            return Ok(());
        };
        let Some(columns) = &table.columns else {
            self.stray(line, number);
            return Ok(());
        };
        if columns.is_tree(line) {
            self.tree_lines += 1;
            return Ok(());
        }
        let cells = columns.cells(line).map_err(|misfit| {
            Error::at_line(number, misfit.0)
                .with_found(line)
                .with_hint("print the report with -t '|', or without -g, and keep its lines unchanged")
        })?;
        let fills = |column: usize| cells[column].trim_ascii().len() == columns.width(column);
        let cut = |column: usize| fills(column) && columns.is_narrow(column);
        let end = |symbol, object| {
            let (symbol, object) = (columns.find(symbol), columns.find(object));
            PrintedEnd {
                object: object.map(|column| cells[column].trim_ascii()),
                fills: object.is_some_and(fills),
                object_cut: object.is_some_and(cut),
                symbol: symbol.map_or(SymbolCell::Nothing, |column| SymbolCell::parse(cells[column])),
                symbol_cut: symbol.is_some_and(cut),
            }
        };
        let (from, to) = (
            end(ColumnKind::SourceSymbol, ColumnKind::SourceObject),
            end(ColumnKind::TargetSymbol, ColumnKind::TargetObject),
        );
        let (kind, column) = weight_column(columns).ok_or_else(|| {
            Error::at_line(number, "no column of shares or counts (Overhead, Samples, Period)")
                .with_hint(COMMANDS)
        })?;
        let mut figures =
            cells[column].split(|b| b.is_ascii_whitespace()).filter(|figure| !figure.is_empty());
        let figure = figures.next().unwrap_or_default();
        let weight = if kind == ColumnKind::Overhead { hundredths(figure) } else { decimal(figure) };
        let weight = weight.ok_or_else(|| {
            let what = if kind == ColumnKind::Overhead {
                "a share outside 0.00% to 100.00%"
            } else {
                "a count that is not a number"
            };
            Error::at_line(number, what).with_found(figure)
        })?;
        self.group_counts += figures.count() as u64;
        table.rows.push(BranchRow { from, to, weight, line: number });
        Ok(())
    }

    fn stray(&mut self, line: &'a [u8], number: u64) {
        if self.complaint.is_none() && COMPLAINTS.iter().any(|words| memmem::find(line, words).is_some()) {
            self.complaint = Some((number, line));
        } else if self.stray_row.is_none() && looks_like_row(line.trim_ascii()) {
            self.stray_row = Some((number, line));
        }
    }

    fn first_with_branches(&self) -> Result<usize> {
        if let Some(first) = self.tables.iter().position(|table| !table.rows.is_empty()) {
            return Ok(first);
        }
        let failure = if self.tables.iter().any(|table| table.columns.is_some()) {
            Error::new(ErrorCode::EmptyRecording, "branch columns without rows: no branch was recorded")
        } else if let Some((line, header)) = self.other_header {
            Error::at_line(line, "no branch columns in this perf report").with_found(header)
        } else if let Some((line, words)) = self.complaint {
            Error::at_line(line, "perf printed no report").with_found(words)
        } else if let Some((line, row)) = self.stray_row {
            return Err(Error::at_line(line, "a row before the header with the columns")
                .with_found(row)
                .with_hint("print the report without -q, and keep the lines that begin with #"));
        } else {
            Error::new(
                ErrorCode::EmptyRecording,
                "no table in this perf report: nothing was recorded, or perf failed (its message is on standard error)",
            )
        };
        Err(failure.with_hint(COMMANDS))
    }

    fn objects(&self) -> impl Iterator<Item = (&'a [u8], bool)> {
        let ends = self.tables.iter().flat_map(|table| &table.rows).flat_map(|row| [row.from, row.to]);
        ends.filter_map(|end| Some((end.object?, end.fills)))
    }
}

/// Column of weights: period, otherwise samples, otherwise rounded shares.
fn weight_column(columns: &TableColumns<'_>) -> Option<(ColumnKind, usize)> {
    [ColumnKind::Period, ColumnKind::Samples, ColumnKind::Overhead]
        .into_iter()
        .find_map(|kind| Some((kind, columns.find(kind)?)))
}

/// Object that defines a function, for reports that have objects only for one end: the only object in the other column
/// for this name.
struct Owners<'a>(BTreeMap<&'a [u8], Option<&'a [u8]>>);

impl<'a> Owners<'a> {
    fn of(tables: &[&EventTable<'a>]) -> Self {
        let mut owners: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
        let one_sided = |table: &&&EventTable<'a>| {
            let has = |kind| table.columns.as_ref().is_some_and(|columns| columns.find(kind).is_some());
            has(ColumnKind::SourceObject) != has(ColumnKind::TargetObject)
        };
        for end in
            tables.iter().filter(one_sided).flat_map(|table| &table.rows).flat_map(|row| [row.from, row.to])
        {
            if let (SymbolCell::Named(name, _), Some(object)) = (end.symbol, end.object) {
                let owner = owners.entry(name).or_insert(Some(object));
                if *owner != Some(object) {
                    *owner = None;
                }
            }
        }
        Self(owners)
    }
}

/// State of the conversion of rows to a recording.
struct PerfReportConversion<'a, 'r> {
    full: FullNames<'a>,
    owners: Owners<'a>,
    addresses: BTreeSet<(&'a [u8], &'a [u8])>,
    all_branches: bool,
    recording: &'r mut Recording,
}

impl<'a> PerfReportConversion<'a, '_> {
    fn add(&mut self, table: &EventTable<'a>) {
        let rounded = table
            .columns
            .as_ref()
            .and_then(weight_column)
            .is_some_and(|(kind, _)| kind == ColumnKind::Overhead);
        let counts: Vec<u128> = if rounded {
            // The shares are known to be at most 100 %.
            let hundredths: Vec<u32> = table.rows.iter().map(|row| row.weight as u32).collect();
            shares::counts(table.event_count.unwrap_or(SHARES), &hundredths)
        } else {
            table.rows.iter().map(|row| u128::from(row.weight)).collect()
        };
        // perf counts each branch record as one event, so the event count has the same unit as either column of counts.
        let sum: u128 = counts.iter().fold(0, |sum, count| sum.saturating_add(*count));
        let without_count = if rounded { u128::from(SHARES) } else { 0 };
        let total = table.event_count.map_or(without_count, u128::from).max(sum);
        self.recording.total = self.recording.total.saturating_add(total);
        for (row, count) in table.rows.iter().zip(counts) {
            self.add_row(row, count);
        }
    }

    fn add_row(&mut self, row: &BranchRow<'a>, count: u128) {
        let from = self.place(&row.from);
        let to = self.place(&row.to);
        match (from, to) {
            (Ok(from), Ok(to)) if from == to && self.all_branches => {
                self.recording.add_samples(from, 0);
                self.recording.skipped.add(Reason::InnerBranch, count, example(row));
            }
            (Ok(from), Ok(to)) => self.recording.add_transfer(from, to, TransferKind::Call, count),
            (Ok(named), Err(why)) | (Err(why), Ok(named)) => {
                self.recording.add_samples(named, 0);
                self.recording.skipped.add(why, count, example(row));
            }
            (Err(first), Err(second)) => {
                // An end outside programs is not a failure to find a symbol.
                let why = if first == Reason::UnresolvedEnd { second } else { first };
                self.recording.skipped.add(why, count, example(row));
            }
        }
    }

    /// Returns the address of an end, or the reason why it has none.
    fn place(&mut self, end: &PrintedEnd<'a>) -> std::result::Result<AddressId, Reason> {
        let (name, mark) = match end.symbol {
            SymbolCell::Nothing => return Err(Reason::NoBranch),
            SymbolCell::Address(address, mark) => {
                let object_name = end.object.map(|name| self.full.of_name(name));
                self.addresses.insert((object_name.unwrap_or_default(), address));
                return Err(match object(object_name, mark) {
                    ObjectMeaning::Kernel => Reason::KernelEnd,
                    ObjectMeaning::Memory => Reason::MemoryEnd,
                    ObjectMeaning::Unknown if objects::is_kernel_address(address) => Reason::KernelEnd,
                    ObjectMeaning::File(_) | ObjectMeaning::Unknown => Reason::UnresolvedEnd,
                });
            }
            SymbolCell::Named(_, _) if end.symbol_cut => return Err(Reason::CutEnd),
            SymbolCell::Named(name, mark) => (name, mark),
        };
        let complete = |name| !end.object_cut || self.full.of_name(name) != name;
        let printed =
            end.object.filter(|name| complete(*name)).or_else(|| self.owners.0.get(name).copied().flatten());
        let dso = match object(printed.map(|name| self.full.of_name(name)), mark) {
            ObjectMeaning::Kernel => return Err(Reason::KernelEnd),
            ObjectMeaning::Memory => return Err(Reason::MemoryEnd),
            ObjectMeaning::Unknown => None,
            ObjectMeaning::File(path) => {
                let path = path_of(path).ok_or(Reason::PathlessEnd)?.to_owned();
                Some(self.recording.dso(RecordedDso { path, build_id: None }))
            }
        };
        Ok(self
            .recording
            .place(RecordedAddress { dso, spot: Spot::Symbol { name: name.to_vec(), file: None } }))
    }
}

/// Many rows that were cut off may have the same long name, so its length is limited to that of a path in Linux.
fn path_of(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name).ok().filter(|name| name.len() <= LONGEST_PATH)
}

fn example(row: &BranchRow<'_>) -> String {
    let name = |end: &PrintedEnd<'_>| match end.symbol {
        SymbolCell::Named(name, _) | SymbolCell::Address(name, _) => {
            String::from_utf8_lossy(name).into_owned()
        }
        SymbolCell::Nothing => "-".to_owned(),
    };
    format!("{} -> {} in line {}", name(&row.from), name(&row.to), row.line)
}

/// Returns the quoted event, or the first one of a group, which perf writes as `'a, b'` or `'name { a, b }'`.
fn event(text: &[u8], grouped: bool) -> &[u8] {
    let quoted = text.split(|b| *b == b'\'').nth(1).unwrap_or_default();
    if !grouped {
        return quoted;
    }
    let first = quoted.split(|b| *b == b'{').next_back().unwrap_or_default();
    first.split(|b| *b == b',').next().unwrap_or_default().trim_ascii()
}

/// Parses a share as perf prints it, with two decimals after a point or, in some languages, a comma.
fn hundredths(text: &[u8]) -> Option<u64> {
    let digits = text.strip_suffix(b"%")?;
    let (whole, rest) = digits.split_at(digits.iter().position(|b| matches!(b, b'.' | b','))?);
    let decimals = &rest[1..];
    if decimals.len() != 2 {
        return None;
    }
    let share = decimal(whole)?.checked_mul(100)?.checked_add(decimal(decimals)?)?;
    (share <= 10_000).then_some(share)
}
