// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads text of perf report for call stacks, one folded stack per line (`-g folded,count,caller`).
//!
//! A report is a sequence of tables, one for each event. Each row is a function with its own cost, followed by the
//! stacks that end in this function: a count, a blank, and the frames. The report does not state the direction of
//! stacks, but the function of the row is always at the inner end. Objects are printed only for the functions of rows,
//! so a frame gets the object that its name has in a row, if there is only one.
//!
//! Percentages and trees are refused, with the command that prints counts of stacks: a rounded share of a share cannot
//! be converted to a count, and trees omit stacks.
//!
//! Source: perf's manual pages, and the output of perf 6.1 (docs/formats/perf-stacks.md).

use super::frame_names::{enters_kernel, is_interpreted, is_kernel_object, is_linked_file, is_no_symbol};
use super::numbers::decimal;
use super::stacks::{self, StackFrame};
use super::{Input, ReadSettings, Reader, RecordedAddress, RecordedDso, Recording, Spot, StackOrder, input};
use memchr::memmem;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, TimeOrder},
};
use sediment_core::skipped::{Nowhere, Reason};
use std::collections::{BTreeMap, HashMap};

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "perf-stacks",
    summary: "text of perf report with folded call stacks",
    recognises,
    read,
    replay: None,
};

const COMMAND: &str = "print the report with `perf report --stdio --no-children --no-demangle --no-inline \
     -g folded,count,caller,0 > stacks.txt`";
const SHARES: &str = "rounded shares of stacks instead of counts";
const LONGEST_START: usize = 1 << 16;

fn recognises(head: &[u8]) -> bool {
    let start = &head[..head.len().min(LONGEST_START)];
    if memchr::memchr(0, start).is_some() {
        return false;
    }
    let (mut headed, mut objects) = (false, false);
    let mut rows = false;
    for line in start.split(|b| *b == b'\n') {
        match StackReportLine::of(line) {
            StackReportLine::Comment(text) if TableHeadings::of(text).is_some() => {
                // Columns of branches, which have two ends.
                let ends = [&b"Source Sym"[..], b"Target Sym", b"Source Shared", b"Target Shared"];
                if ends.iter().any(|heading| memmem::find(text, heading).is_some()) {
                    return false;
                }
                headed = true;
                objects = memmem::find(text, b"Shared Object").is_some();
            }
            StackReportLine::Row(line) if rows && objects && is_bare_share(line) => return true,
            StackReportLine::Row(_) => rows = true,
            StackReportLine::Stack { .. } | StackReportLine::Share | StackReportLine::Tree
                if headed && rows =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// A line, classified by its beginning.
enum StackReportLine<'a> {
    Empty,
    /// A comment without its `#`.
    Comment(&'a [u8]),
    /// `    79.55%  command  object  [.] symbol`
    Row(&'a [u8]),
    /// `21 a;b;c`
    Stack {
        count: u64,
        frames: &'a [u8],
    },
    /// `47.73% a;b;c`
    Share,
    /// A line that can occur only in a tree.
    Tree,
    Stray,
}

impl<'a> StackReportLine<'a> {
    fn of(line: &'a [u8]) -> Self {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = line.trim_ascii_start();
        if text.is_empty() {
            return Self::Empty;
        }
        if let Some(comment) = line.strip_prefix(b"#") {
            return Self::Comment(comment);
        }
        if text.starts_with(b"|") || text.starts_with(b"--") {
            return Self::Tree;
        }
        let indented = text.len() != line.len();
        let end = text.iter().position(|b| *b == b' ').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        if let Some(share) = word.strip_suffix(b"%") {
            let digits = share.iter().all(|b| b.is_ascii_digit() || *b == b'.');
            match (digits, line.first() == Some(&b' ')) {
                (true, true) => return Self::Row(line),
                (true, false) if !rest.is_empty() => return Self::Share,
                _ => {}
            }
        }
        match (decimal(word), rest.trim_ascii()) {
            (Some(_), b"") if indented => Self::Tree,
            (Some(count), frames) if !frames.is_empty() && !indented => Self::Stack { count, frames },
            _ => Self::Stray,
        }
    }
}

/// Headings of a table: its separator or, without one, the column of objects.
#[derive(Debug, Clone, Copy, Default)]
struct TableHeadings {
    children: bool,
    /// Separator that `-t` printed between cells and between frames.
    separator: Option<u8>,
    /// Offset of the column of objects in the line.
    object: Option<usize>,
    /// Index of the cell with the objects, in tables with a separator.
    object_cell: Option<usize>,
}

impl TableHeadings {
    /// Parses a comment without its `#`.
    fn of(text: &[u8]) -> Option<Self> {
        let heading = text.trim_ascii();
        let name = [&b"Overhead"[..], b"Children"].into_iter().find(|name| heading.starts_with(name))?;
        let separator = heading
            .get(name.len())
            .copied()
            .filter(|b| !b.is_ascii_whitespace() && !b.is_ascii_alphanumeric());
        let object = memmem::find(text, b"Shared Object");
        let cells = |separator| heading.split(move |b| *b == separator);
        Some(Self {
            children: name == b"Children",
            separator,
            object: object.filter(|_| separator.is_none()).map(|at| at + 1),
            object_cell: separator
                .and_then(|s| cells(s).position(|cell| cell.trim_ascii() == b"Shared Object")),
        })
    }
}

/// The function of a row.
#[derive(Debug, Clone, Copy)]
struct FunctionRow<'a> {
    /// Empty if the report has no column of symbols.
    symbol: &'a [u8],
    object: Option<&'a [u8]>,
    /// True for the kernel, a hypervisor or a guest.
    system: bool,
}

impl<'a> FunctionRow<'a> {
    fn of(line: &'a [u8], header: TableHeadings) -> Self {
        let separator = header.separator.unwrap_or(b' ');
        let mark = memchr::memchr_iter(b'[', line).find(|at| {
            matches!(&line[*at..], [b'[', b'.' | b'k' | b'g' | b'u' | b'H', b']', b' ', ..])
                && at.checked_sub(1).is_none_or(|before| line[before] == separator || line[before] == b' ')
        });
        let Some(mark) = mark else { return Self { symbol: b"", object: None, system: false } };
        let symbol = &line[mark + 4..];
        let symbol = match header.separator {
            Some(separator) => symbol.split(|b| *b == separator).next().unwrap_or_default(),
            None => symbol,
        };
        let object = match (header.object, header.object_cell) {
            (Some(at), _) if at < mark && line.get(at - 1) == Some(&b' ') => {
                Some(line[at..mark].trim_ascii())
            }
            (_, Some(cell)) => line.split(|b| *b == separator).nth(cell).map(<[u8]>::trim_ascii),
            _ => None,
        };
        Self {
            symbol: symbol.trim_ascii(),
            object: object.filter(|object| !object.is_empty()),
            system: line[mark + 1] != b'.',
        }
    }
}

struct Stack<'a> {
    /// Number of its row.
    row: u32,
    count: u64,
    frames: &'a [u8],
}

/// All data of a report.
#[derive(Default)]
struct StackReport<'a> {
    rows: Vec<FunctionRow<'a>>,
    stacks: Vec<Stack<'a>>,
    separator: u8,
    event: &'a [u8],
    arch: Option<String>,
    other_events: BTreeMap<&'a [u8], u64>,
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let bytes = &*input::whole(input)?;
    let report = StackReport::parse(bytes)?;
    let order = report.order(settings)?;
    let event = String::from_utf8_lossy(report.event);
    let recording = Recording {
        source: ProfileSource::new("perf call stacks", &event, &[CallCounts, TimeOrder]),
        arch: report.arch.clone(),
        ..Recording::default()
    };
    let mut adding =
        Adding { recording, objects: report.objects(), known: HashMap::new(), frames: Vec::new(), stacks: 0 };
    let mut names = Vec::new();
    for stack in &report.stacks {
        names.clear();
        names.extend(stack.frames.split(|b| *b == report.separator).map(<[u8]>::trim_ascii));
        if order == StackOrder::CalleeFirst {
            names.reverse();
        }
        adding.add(&report.rows[stack.row as usize], &names, stack.count);
    }
    let Adding { mut recording, stacks, .. } = adding;
    recording.seen = counted(stacks, "stack");
    for (event, count) in &report.other_events {
        recording.skipped.add_many(Reason::LaterEventStack, *count, 0, event);
    }
    if recording.addresses().is_empty() {
        return Err(Error::new(ErrorCode::Unresolved, "no stack names a function to order")
            .with_hint("run perf report where the programs and their debug symbols are installed"));
    }
    Ok(recording)
}

/// The recording and counters that stacks are added to.
struct Adding<'a> {
    recording: Recording,
    objects: HashMap<&'a [u8], Option<&'a [u8]>>,
    known: HashMap<&'a [u8], StackFrame>,
    frames: Vec<StackFrame>,
    stacks: u64,
}

impl<'a> Adding<'a> {
    /// Adds a stack, outermost caller first.
    fn add(&mut self, row: &FunctionRow<'a>, names: &[&'a [u8]], count: u64) {
        self.stacks += 1;
        let callee = |at: usize| names.get(at + 1).copied();
        let entered =
            names.iter().enumerate().any(|(at, &name)| is_system(name, callee(at), self.object(name)));
        if row.system && !entered {
            self.recording.skipped.add(Reason::KernelStack, u128::from(count), row.symbol);
            return;
        }
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        for (at, &name) in names.iter().enumerate() {
            if name.ends_with(b" (inlined)") {
                self.recording.skipped.add(Reason::InlinedFrame, 0, "");
                continue;
            }
            if name == b"0" || name == b"0x0" {
                // The end of a chain of frame pointers.
                continue;
            }
            if is_system(name, callee(at), self.object(name)) {
                // All callees of the kernel belong to the kernel.
                frames.push(StackFrame::System);
                break;
            }
            frames.push(self.frame(name));
        }
        stacks::add_stack(&mut self.recording, &frames, u128::from(count));
        self.frames = frames;
    }

    fn object(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.objects.get(name).copied().flatten()
    }

    fn frame(&mut self, name: &'a [u8]) -> StackFrame {
        if let Some(frame) = self.known.get(name) {
            return *frame;
        }
        let object = self.object(name);
        let frame = frame(&mut self.recording, name, object);
        self.known.insert(name, frame);
        frame
    }
}

fn is_system(name: &[u8], callee: Option<&[u8]>, object: Option<&[u8]>) -> bool {
    enters_kernel(name, callee) || object.is_some_and(is_kernel_object)
}

/// Makes the frame of a name, with the object of the row of this name.
fn frame(recording: &mut Recording, name: &[u8], object: Option<&[u8]>) -> StackFrame {
    if is_interpreted(name) {
        return StackFrame::Unknown(Nowhere::Interpreted);
    }
    if is_no_symbol(name) {
        return StackFrame::Unknown(Nowhere::NoSymbol);
    }
    let object = object.filter(|object| *object != b"[unknown]");
    if object.is_some_and(|object| !is_linked_file(object) && object != b"[vdso]") {
        return StackFrame::Unknown(Nowhere::AnonymousObject);
    }
    let dso = object
        .and_then(|object| std::str::from_utf8(object).ok())
        .map(|path| recording.dso(RecordedDso { path: path.to_owned(), build_id: None }));
    StackFrame::Known(
        recording.place(RecordedAddress { dso, spot: Spot::Symbol { name: name.to_vec(), file: None } }),
    )
}

impl<'a> StackReport<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut report = Self { separator: b';', ..Self::default() };
        let mut event: &[u8] = b"";
        let mut header: Option<TableHeadings> = None;
        let mut row: Option<FunctionRow<'a>> = None;
        let refuse = |number: u64, what: &str, line: &[u8]| {
            Err(Error::at_line(number, what).with_found(line.trim_ascii()).with_hint(COMMAND))
        };
        for (number, line) in (1..).zip(bytes.split(|b| *b == b'\n')) {
            match StackReportLine::of(line) {
                StackReportLine::Empty => {}
                StackReportLine::Comment(text) => {
                    let text = text.strip_suffix(b"\r").unwrap_or(text);
                    if let Some(found) = TableHeadings::of(text) {
                        (header, row) = (Some(found), None);
                    } else if text.trim_ascii().starts_with(b"Samples:") {
                        (event, row) = (event_of(text), None);
                    } else if let Some(arch) = text.trim_ascii().strip_prefix(b"arch :") {
                        let arch = String::from_utf8_lossy(arch.trim_ascii()).into_owned();
                        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                        report.arch = Some(arch).filter(|arch| arch.bytes().all(plain));
                    }
                }
                StackReportLine::Row(line) => {
                    let Some(header) = header else {
                        return refuse(number, "a row before the header with the columns", line);
                    };
                    if header.children {
                        let what =
                            "rows with the cost of their callees: each stack appears below several rows";
                        return refuse(number, what, line);
                    }
                    if header.object.is_some() && is_bare_share(line) {
                        return refuse(number, SHARES, line);
                    }
                    report.separator = header.separator.unwrap_or(b';');
                    row = Some(FunctionRow::of(line, header));
                }
                StackReportLine::Stack { count, frames } => {
                    let Some(row) = row else {
                        return refuse(number, "a stack without a row above it", line);
                    };
                    if let Some(row) = report.kept(row, event) {
                        report.stacks.push(Stack { row, count, frames });
                    }
                }
                StackReportLine::Share => return refuse(number, SHARES, line),
                StackReportLine::Tree => return refuse(number, "a call tree instead of folded stacks", line),
                StackReportLine::Stray => {
                    return refuse(number, "neither a row nor a folded stack: is the file cut off?", line);
                }
            }
        }
        report.with_stacks()
    }

    /// Returns itself if it has any stack.
    fn with_stacks(self) -> Result<Self> {
        if self.stacks.is_empty() {
            return Err(Error::new(ErrorCode::EmptyRecording, "no call stack in this perf report")
                .with_hint(format!("record with `perf record -g -- COMMAND` and {COMMAND}")));
        }
        Ok(self)
    }

    /// Returns the index of a row with stacks, if it belongs to the first event with data.
    fn kept(&mut self, row: FunctionRow<'a>, event: &'a [u8]) -> Option<u32> {
        if self.rows.is_empty() {
            self.event = event;
        }
        if event != self.event {
            *self.other_events.entry(event).or_default() += 1;
            return None;
        }
        if self.rows.last().is_none_or(|last| !last.is(&row)) {
            self.rows.push(row);
        }
        Some(self.rows.len() as u32 - 1)
    }

    /// Determines the end of the stacks at which the functions of their rows are.
    fn order(&self, settings: &ReadSettings) -> Result<StackOrder> {
        let (mut first, mut last, mut several) = (true, true, false);
        for stack in &self.stacks {
            let symbol = self.rows[stack.row as usize].symbol;
            if is_no_symbol(symbol) || symbol.is_empty() {
                continue;
            }
            let frames = || stack.frames.split(|b| *b == self.separator).map(<[u8]>::trim_ascii);
            if frames().count() > 1 {
                several = true;
                first &= frames().next() == Some(symbol);
                last &= frames().next_back() == Some(symbol);
            }
        }
        let shown = match (first, last) {
            (true, false) => Some(StackOrder::CalleeFirst),
            (false, true) => Some(StackOrder::CallerFirst),
            // As far as can be seen, every stack is symmetric, or none has two frames.
            (true, true) if several => Some(StackOrder::CallerFirst),
            _ => None,
        };
        match (shown, settings.stacks) {
            (Some(shown), Some(said)) if shown != said && first != last => Err(Error::new(
                ErrorCode::Usage,
                "the functions of the rows are at the other end of their stacks, contrary to --stacks",
            )
            .with_hint("remove --stacks: the report shows the direction of its stacks")),
            (Some(shown), None) => Ok(shown),
            (_, Some(said)) => Ok(said),
            (None, None) => {
                Err(Error::new(ErrorCode::Ambiguous, "unclear which end of the stacks is the caller")
                    .with_hint(format!(
                        "give it: --stacks caller-first or --stacks callee-first; or {COMMAND}"
                    )))
            }
        }
    }

    /// Object of each name in rows; `None` if there are several.
    fn objects(&self) -> HashMap<&'a [u8], Option<&'a [u8]>> {
        let mut objects: HashMap<&[u8], Option<&[u8]>> = HashMap::new();
        for row in &self.rows {
            let object = row.object;
            objects
                .entry(row.symbol)
                .and_modify(|known| {
                    if *known != object {
                        *known = None;
                    }
                })
                .or_insert(object);
        }
        objects
    }
}

impl FunctionRow<'_> {
    fn is(&self, other: &Self) -> bool {
        self.symbol == other.symbol && self.object == other.object && self.system == other.system
    }
}

/// Parses ` Samples: 44 of event 'cpu-clock:u'`.
fn event_of(text: &[u8]) -> &[u8] {
    let mut quoted = text.split(|b| *b == b'\'');
    quoted.nth(1).unwrap_or_default()
}

/// True for ` 17.03%` alone, before a stack of the flat form.
fn is_bare_share(line: &[u8]) -> bool {
    !line.trim_ascii().contains(&b' ')
}
