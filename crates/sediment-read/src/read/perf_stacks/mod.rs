// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of perf report over call stacks: one folded stack a line (`-g folded,count,caller`), or trees with counts.
//!
//! A report is a sequence of tables, one for each event. Below each row, a function with its own cost, stand the stacks that it
//! was innermost in: a count, a blank, and the frames. Which end of a stack is which is not printed, but it shows: the function
//! of its row stands at the inner end. Objects are printed for the functions of rows alone, so a frame is of the object that
//! its name has there, if that is one.
//!
//! Percentages are refused with the command that prints counts of stacks: a rounded share of a share is no count.
//!
//! Source: perf's manual pages, and what perf 6.1 prints (docs/formats/perf-stacks.md).

mod tree;

use super::frame_names::{enters_kernel, is_interpreted, is_kernel_object, is_linked_file, is_no_symbol};
use super::numbers::decimal;
use super::stacks::{self, Frame};
use super::{Input, Reader, RecordedAddress, RecordedDso, Recording, Settings, Spot, StackOrder, input};
use memchr::memmem;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{
    Source,
    Unknown::{CallCounts, TimeOrder},
};
use sediment_core::skipped::{Nowhere, Reason};
use std::collections::{BTreeMap, HashMap};
use tree::{Numbers, Trees};

/// Its row in the table.
pub(super) const READER: Reader = Reader {
    name: "perf-stacks",
    summary: "text of perf report with folded call stacks",
    recognises,
    read,
    replay: None,
};

const COMMAND: &str = "print the report with `perf report --stdio --no-children --no-demangle --no-inline \
     -g folded,count,caller,0 > stacks.txt`";
const LONGEST_START: usize = 1 << 16;

fn recognises(head: &[u8]) -> bool {
    let start = &head[..head.len().min(LONGEST_START)];
    if memchr::memchr(0, start).is_some() {
        return false;
    }
    let (mut headed, mut objects) = (false, false);
    let mut rows = false;
    for line in start.split(|b| *b == b'\n') {
        match Line::of(line) {
            Line::Comment(text) if Header::of(text).is_some() => {
                // Of branches, which have ends of their own.
                let ends = [&b"Source Sym"[..], b"Target Sym", b"Source Shared", b"Target Shared"];
                if ends.iter().any(|heading| memmem::find(text, heading).is_some()) {
                    return false;
                }
                headed = true;
                objects = memmem::find(text, b"Shared Object").is_some();
            }
            Line::Row(line) if rows && objects && is_bare_share(line) => return true,
            Line::Row(_) => rows = true,
            Line::Stack { .. } | Line::Share | Line::Tree(_) if headed && rows => return true,
            _ => {}
        }
    }
    false
}

/// A line, by how it begins.
enum Line<'a> {
    Empty,
    /// Without its `#`.
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
    /// A line of a tree that shows it is one.
    Tree(&'a [u8]),
    /// ` a`, in a tree.
    Indented(&'a [u8]),
    Stray,
}

impl<'a> Line<'a> {
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
            return Self::Tree(line);
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
            (Some(_), b"") if indented => Self::Tree(line),
            (Some(count), frames) if !frames.is_empty() && !indented => Self::Stack { count, frames },
            _ if indented => Self::Indented(line),
            _ => Self::Stray,
        }
    }
}

/// The headings of a table: its separator, or the column of objects where there is none.
#[derive(Debug, Clone, Copy, Default)]
struct Header {
    children: bool,
    /// Separator that `-t` put between cells, and between frames.
    separator: Option<u8>,
    /// Offset in the line of the column of objects.
    object: Option<usize>,
    /// Which cell has the objects, with a separator.
    object_cell: Option<usize>,
    samples: Option<Column>,
    period: Option<Column>,
    /// Rows are of symbols before all else: then perf leaves the first frame out of some trees.
    symbol_first: bool,
    /// Rows stand below rows (`--hierarchy`).
    nested: bool,
}

/// Where a number stands that is set flush right.
#[derive(Debug, Clone, Copy)]
enum Column {
    /// The offset behind it.
    End(usize),
    Cell(usize),
}

/// Headings of what rows have, not of what they are.
const QUANTITIES: [&[u8]; 8] =
    [b"Overhead", b"Self", b"Samples", b"Period", b"sys", b"usr", b"guest sys", b"guest usr"];

impl Header {
    /// Of a comment without its `#`.
    fn of(text: &[u8]) -> Option<Self> {
        let heading = text.trim_ascii();
        let name = [&b"Overhead"[..], b"Children"].into_iter().find(|name| heading.starts_with(name))?;
        let separator = heading
            .get(name.len())
            .copied()
            .filter(|b| !b.is_ascii_whitespace() && !b.is_ascii_alphanumeric());
        let object = memmem::find(text, b"Shared Object");
        let cells = |separator| heading.split(move |b| *b == separator);
        let column = |name: &[u8]| match separator {
            Some(separator) => cells(separator).position(|cell| cell.trim_ascii() == name).map(Column::Cell),
            // One more for the `#`.
            None => memmem::find(text, name).map(|at| Column::End(at + name.len() + 1)),
        };
        let mut rest = heading;
        while let Some(name) = QUANTITIES.iter().find(|name| rest.starts_with(name)) {
            rest = rest[name.len()..].trim_ascii_start();
            rest =
                separator.and_then(|separator| rest.strip_prefix(&[separator])).unwrap_or(rest).trim_ascii();
        }
        Some(Self {
            samples: column(b"Samples"),
            period: column(b"Period"),
            symbol_first: rest.starts_with(b"Symbol"),
            nested: memmem::find(heading, b" / ").is_some(),
            children: name == b"Children",
            separator,
            object: object.filter(|_| separator.is_none()).map(|at| at + 1),
            object_cell: separator
                .and_then(|s| cells(s).position(|cell| cell.trim_ascii() == b"Shared Object")),
        })
    }
}

impl Column {
    fn number(self, line: &[u8], header: Header) -> Option<u64> {
        let cell = match (self, header.separator) {
            (Self::Cell(cell), Some(separator)) => line.split(|b| *b == separator).nth(cell)?,
            (Self::End(end), _) if line.get(end).is_none_or(|b| *b == b' ') => {
                line.get(..end)?.rsplit(|b| *b == b' ').next()?
            }
            _ => return None,
        };
        decimal(cell.trim_ascii())
    }
}

/// The function of a row.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    /// Empty where the report has no column of symbols.
    symbol: &'a [u8],
    object: Option<&'a [u8]>,
    /// Of the kernel, a hypervisor or a guest.
    system: bool,
}

impl<'a> Row<'a> {
    fn of(line: &'a [u8], header: Header) -> Self {
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

/// A row whose stacks are being read.
struct Pending<'a> {
    row: Row<'a>,
    numbers: Numbers,
    /// Folded ones.
    stacks: bool,
}

struct Stack<'a> {
    /// Which of the rows it stands below.
    row: u32,
    count: u64,
    frames: &'a [u8],
}

/// All that a report says.
#[derive(Default)]
struct Report<'a> {
    rows: Vec<Row<'a>>,
    stacks: Vec<Stack<'a>>,
    trees: Trees<'a>,
    /// Rows that nothing stands below, by events.
    bare: BTreeMap<&'a [u8], (u64, Numbers)>,
    separator: u8,
    event: &'a [u8],
    arch: Option<String>,
    other_events: BTreeMap<&'a [u8], u64>,
}

fn read(input: &dyn Input, settings: &Settings) -> Result<Recording> {
    let bytes = &*input::whole(input)?;
    let mut report = Report::parse(bytes)?;
    let order = report.order(settings)?;
    let event = String::from_utf8_lossy(report.event);
    let recording = Recording {
        source: Source::new("perf call stacks", &event, &[CallCounts, TimeOrder]),
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
        adding.add(&report.rows[stack.row as usize], &names, stack.count, false);
    }
    adding.add_trees(&mut report, order, bytes.len())?;
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

/// Target of stacks: recording and counters.
struct Adding<'a> {
    recording: Recording,
    objects: HashMap<&'a [u8], Option<&'a [u8]>>,
    known: HashMap<&'a [u8], Frame>,
    frames: Vec<Frame>,
    stacks: u64,
}

impl<'a> Adding<'a> {
    /// Adds a stack, outermost caller first; of one that was cut, the function of its row is all that is known to come.
    fn add(&mut self, row: &Row<'a>, names: &[&'a [u8]], count: u64, cut: bool) {
        self.stacks += 1;
        let entered = names.iter().any(|&name| is_system(name, self.object(name)));
        if row.system && !entered && !cut {
            self.recording.skipped.add(Reason::KernelStack, u128::from(count), row.symbol);
            return;
        }
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        for &name in names {
            if name.ends_with(b" (inlined)") {
                self.recording.skipped.add(Reason::InlinedFrame, 0, "");
                continue;
            }
            if name == b"0" || name == b"0x0" {
                // How a chain of frame pointers ends.
                continue;
            }
            if is_system(name, self.object(name)) {
                // All that the kernel called is the kernel.
                frames.push(Frame::System);
                break;
            }
            frames.push(self.frame(name));
        }
        if cut && !entered {
            let own = if row.system { Frame::System } else { self.frame(row.symbol) };
            frames.extend([Frame::Unknown(Nowhere::Unprinted), own]);
        }
        stacks::add_stack(&mut self.recording, &frames, u128::from(count));
        self.frames = frames;
    }

    fn add_trees(&mut self, report: &mut Report<'a>, order: StackOrder, bytes: usize) -> Result<()> {
        if report.trees.is_empty() {
            return Ok(());
        }
        let (rows, event) = (&report.rows, report.event);
        let refused = |(number, what)| Error::at_line(number, what).with_hint(COMMAND);
        let bare = report.bare.get(event).copied().unwrap_or_default();
        let (left_out, bare_weight) = report.trees.settle(bare.1).map_err(refused)?;
        for (row, count) in left_out {
            self.recording.skipped.add(Reason::UnprintedStack, count.into(), rows[row as usize].symbol);
        }
        if bare.0 > 0 {
            self.recording.skipped.add_many(Reason::UnprintedStack, bare.0, bare_weight.into(), "");
        }
        let mut outward = Vec::new();
        let mut add = |row: u32, names: &[&'a [u8]], count: u64, goes_on: bool| {
            let row = &rows[row as usize];
            let mut cut = false;
            let mut perhaps = goes_on;
            outward.clear();
            outward.extend_from_slice(names);
            if order == StackOrder::CalleeFirst {
                outward.reverse();
            } else if !row.symbol.is_empty() {
                let last = names.iter().rfind(|name| !name.ends_with(b" (inlined)"));
                let unnamed = is_no_symbol(row.symbol);
                let ended = |name: &[u8]| name == row.symbol || unnamed && (is_no_symbol(name) || !goes_on);
                cut = last.is_none_or(|last| !ended(last));
                perhaps = false;
            }
            if perhaps {
                self.recording.skipped.add(Reason::CutStack, count.into(), row.symbol);
            }
            self.add(row, &outward, count, cut);
        };
        report.trees.stacks(bytes, &mut add).map_err(refused)
    }

    fn object(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.objects.get(name).copied().flatten()
    }

    fn frame(&mut self, name: &'a [u8]) -> Frame {
        if let Some(frame) = self.known.get(name) {
            return *frame;
        }
        let object = self.object(name);
        let frame = frame(&mut self.recording, name, object);
        self.known.insert(name, frame);
        frame
    }
}

fn is_system(name: &[u8], object: Option<&[u8]>) -> bool {
    enters_kernel(name) || object.is_some_and(is_kernel_object)
}

/// Frame of a name, with the object of the row of this name.
fn frame(recording: &mut Recording, name: &[u8], object: Option<&[u8]>) -> Frame {
    if is_interpreted(name) {
        return Frame::Unknown(Nowhere::Interpreted);
    }
    if is_no_symbol(name) {
        return Frame::Unknown(Nowhere::NoSymbol);
    }
    let object = object.filter(|object| *object != b"[unknown]");
    if object.is_some_and(|object| !is_linked_file(object) && object != b"[vdso]") {
        return Frame::Unknown(Nowhere::AnonymousObject);
    }
    let dso = object
        .and_then(|object| std::str::from_utf8(object).ok())
        .map(|path| recording.dso(RecordedDso { path: path.to_owned(), build_id: None }));
    Frame::Known(
        recording.place(RecordedAddress { dso, spot: Spot::Symbol { name: name.to_vec(), file: None } }),
    )
}

impl<'a> Report<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut report = Self { separator: b';', ..Self::default() };
        let mut event: &[u8] = b"";
        let mut header: Option<Header> = None;
        let mut row: Option<Pending> = None;
        let refuse = |number: u64, what: &str, line: &[u8]| {
            Err(Error::at_line(number, what).with_found(line.trim_ascii()).with_hint(COMMAND))
        };
        for (number, line) in (1..).zip(bytes.split(|b| *b == b'\n')) {
            match Line::of(line) {
                Line::Empty => {
                    if line.is_empty() || line == b"\r" {
                        report.trees.empty_line();
                    }
                }
                Line::Comment(text) => {
                    let text = text.strip_suffix(b"\r").unwrap_or(text);
                    if let Some(found) = Header::of(text) {
                        header = Some(found);
                        report.close(row.take(), event);
                    } else if text.trim_ascii().starts_with(b"Samples:") {
                        report.close(row.take(), event);
                        event = event_of(text);
                    } else if let Some(arch) = text.trim_ascii().strip_prefix(b"arch :") {
                        let arch = String::from_utf8_lossy(arch.trim_ascii()).into_owned();
                        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                        report.arch = Some(arch).filter(|arch| arch.bytes().all(plain));
                    }
                }
                Line::Row(line) => {
                    let Some(header) = header else {
                        return refuse(number, "a row before the header with the columns", line);
                    };
                    if header.children {
                        let what =
                            "rows with the cost of their callees: each stack appears below several rows";
                        return refuse(number, what, line);
                    }
                    if header.object.is_some() && is_bare_share(line) {
                        return refuse(number, tree::SHARES, line);
                    }
                    report.separator = header.separator.unwrap_or(b';');
                    report.close(row.take(), event);
                    let numbers = Numbers {
                        samples: header.samples.and_then(|column| column.number(line, header)),
                        period: header.period.and_then(|column| column.number(line, header)),
                    };
                    row = Some(Pending { row: Row::of(line, header), numbers, stacks: false });
                }
                Line::Stack { count, frames } => {
                    let Some(found) = &mut row else {
                        return refuse(number, "a stack without a row above it", line);
                    };
                    found.stacks = true;
                    if let Some(row) = report.kept(found.row, event) {
                        report.stacks.push(Stack { row, count, frames });
                    }
                }
                Line::Share => return refuse(number, tree::SHARES, line),
                Line::Tree(line) | Line::Indented(line) => {
                    let (Some(_), Some(header)) = (&row, header) else {
                        return refuse(number, "a call tree without a row above it", line);
                    };
                    if header.nested || header.symbol_first {
                        let what = "a tree below rows sorted by symbols first, or nested: frames are missing";
                        return refuse(number, what, line);
                    }
                    if let Err(what) = report.trees.line(number, line) {
                        return refuse(number, what, line);
                    }
                }
                Line::Stray => {
                    return refuse(number, "neither a row nor a folded stack: is the file cut off?", line);
                }
            }
        }
        report.close(row.take(), event);
        report.with_stacks()
    }

    /// The same, if it has any stack.
    fn with_stacks(self) -> Result<Self> {
        if self.stacks.is_empty() && self.trees.is_empty() {
            return Err(Error::new(ErrorCode::EmptyRecording, "no call stack in this perf report")
                .with_hint(format!("record with `perf record -g -- COMMAND` and {COMMAND}")));
        }
        Ok(self)
    }

    /// The address of a row that something stands below, if that is of the first event that has anything.
    fn kept(&mut self, row: Row<'a>, event: &'a [u8]) -> Option<u32> {
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

    /// All of a row has been read.
    fn close(&mut self, pending: Option<Pending<'a>>, event: &'a [u8]) {
        let Some(Pending { row, numbers, stacks }) = pending else { return };
        if self.trees.has_begun() {
            let row = self.kept(row, event);
            self.trees.close(numbers, row);
        } else if !stacks {
            let (rows, sum) = self.bare.entry(event).or_default();
            *rows += 1;
            sum.add(numbers);
        }
    }

    /// Which end of the stacks the functions of their rows stand at.
    fn order(&self, settings: &Settings) -> Result<StackOrder> {
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
        let named = |row: u32| {
            let symbol = self.rows[row as usize].symbol;
            Some(symbol).filter(|symbol| !is_no_symbol(symbol))
        };
        let ends = self.trees.ends(named);
        (first, last, several) = (first & ends.0, last & ends.1, several | ends.2);
        let shown = match (first, last) {
            (true, false) => Some(StackOrder::CalleeFirst),
            (false, true) => Some(StackOrder::CallerFirst),
            // Each stack reads the same from both ends, as far as it can be told; or there is none of two frames.
            (true, true) if several => Some(StackOrder::CallerFirst),
            _ => None,
        };
        match (shown, settings.stacks) {
            (Some(shown), Some(said)) if shown != said && first != last => Err(Error::new(
                ErrorCode::Usage,
                "the functions of the rows are at the other end of their stacks than --stacks says",
            )
            .with_hint("remove --stacks: the report shows the direction of its stacks")),
            (Some(shown), None) => Ok(shown),
            (_, Some(said)) => Ok(said),
            (None, None) => {
                Err(Error::new(ErrorCode::Ambiguous, "nothing shows which end of the stacks is the caller's")
                    .with_hint(format!(
                        "give it: --stacks caller-first or --stacks callee-first; or {COMMAND}"
                    )))
            }
        }
    }

    /// The object of each name that stands in rows; None where that is several.
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

impl Row<'_> {
    fn is(&self, other: &Self) -> bool {
        self.symbol == other.symbol && self.object == other.object && self.system == other.system
    }
}

/// ` Samples: 44  of event 'cpu-clock:u'`
fn event_of(text: &[u8]) -> &[u8] {
    let mut quoted = text.split(|b| *b == b'\'');
    quoted.nth(1).unwrap_or_default()
}

/// `           17.03%` alone, above a stack of the flat form.
fn is_bare_share(line: &[u8]) -> bool {
    !line.trim_ascii().contains(&b' ')
}
