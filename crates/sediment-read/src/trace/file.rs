// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace file: a run as a sequence of functions, for models and layouts. It is never published, because it shows
//! step by step what somebody did.
//!
//! docs/trace-format.md describes the format: a first line with the version, then records of variable-length numbers. A
//! function is defined by its identity at its first use. [`TraceWriter`] writes the steps of a replay, [`TraceRecords`]
//! reads one record after the other, and [`load`] makes a [`Trace`] with the functions of a [`FunctionTable`].

use crate::read::{Input, Step, input};
use sediment_core::callgraph::{FunctionId, Trace};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::functions::FunctionTable;
use sediment_core::plural::counted;
use sediment_core::profile::{FunctionIndex, FunctionKey, LONGEST_NAME, Profile};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::HashMap;
use std::io::Write;

/// Beginning of a trace file; the version and a line end follow.
const FIRST_WORDS: &[u8] = b"sediment trace ";
/// The version that is written, and the newest one that can be read.
pub const VERSION: u32 = 1;

const END: u64 = 0;
const GAP: u64 = 1;
const THREAD: u64 = 2;
const DEFINITION: u64 = 3;
/// Smallest number that denotes an executed function.
const RUN: u64 = 4;

const HAS_DSO: u64 = 1;
const HAS_FILE: u64 = 2;

const NONE: u32 = u32::MAX;

/// Writes the steps of a run to a trace.
///
/// [`finish`](Self::finish) returns any error, and must be called: a file without its end is refused.
pub struct TraceWriter<'a, W> {
    out: W,
    buffer: Vec<u8>,
    failed: Option<std::io::Error>,
    profile: &'a Profile,
    functions: &'a [Option<FunctionIndex>],
    /// The same functions by their own index.
    by_index: Vec<Option<FunctionIndex>>,
    /// Number in the file by function; [`NONE`] until it is defined.
    numbers: Vec<u32>,
    defined: u32,
    /// Last event of each thread.
    threads: Vec<ThreadState>,
    by_id: HashMap<u64, u32>,
    /// Number of threads in the parts before this one.
    earlier: u64,
    current: Option<(u64, u32)>,
    /// Current thread in the file.
    said: u64,
    runs: u64,
}

/// Last event of a thread.
#[derive(Debug, Clone, Copy)]
struct ThreadState {
    /// The running function; [`NONE`] for none.
    last: u32,
    /// True if there is a gap before the next event.
    gap: bool,
}

impl<W> std::fmt::Debug for TraceWriter<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl<'a, W: Write> TraceWriter<'a, W> {
    const PIECE: usize = 1 << 16;

    /// Begins a file. `functions` are the functions of this profile by address, as in [`crate::resolve::Resolved`].
    pub fn new(out: W, profile: &'a Profile, functions: &'a [Option<FunctionIndex>]) -> Self {
        let mut buffer = Vec::with_capacity(2 * Self::PIECE);
        buffer.extend_from_slice(FIRST_WORDS);
        buffer.extend_from_slice(format!("{VERSION}\n").as_bytes());
        let mut by_index = vec![None; profile.function_count()];
        for function in functions.iter().flatten() {
            by_index[function.index()] = Some(*function);
        }
        Self {
            out,
            buffer,
            failed: None,
            profile,
            functions,
            by_index,
            numbers: vec![NONE; profile.function_count()],
            defined: 0,
            threads: Vec::new(),
            by_id: HashMap::new(),
            earlier: 0,
            current: None,
            said: 0,
            runs: 0,
        }
    }

    /// Begins another input, whose threads are new.
    pub fn begin_part(&mut self) {
        self.earlier += self.threads.len() as u64;
        self.threads.clear();
        self.by_id.clear();
        self.current = None;
    }

    /// Writes one step, if the running function changes. Addresses without a function are ignored.
    #[inline]
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Run { thread, place } => {
                let Some(Some(function)) = self.functions.get(place.0 as usize) else { return };
                let slot = self.slot(thread);
                let function = function.index() as u32;
                if self.threads[slot as usize].last != function {
                    self.run(slot, function);
                }
            }
            Step::Gap { thread } => {
                let slot = self.slot(thread);
                let thread = &mut self.threads[slot as usize];
                thread.gap |= thread.last != NONE;
                thread.last = NONE;
            }
        }
    }

    #[inline]
    fn slot(&mut self, thread: u64) -> u32 {
        match self.current {
            Some((current, slot)) if current == thread => slot,
            _ => {
                let next = self.threads.len() as u32;
                let slot = *self.by_id.entry(thread).or_insert(next);
                if slot == next {
                    self.threads.push(ThreadState { last: NONE, gap: false });
                }
                self.current = Some((thread, slot));
                slot
            }
        }
    }

    fn run(&mut self, slot: u32, function: u32) {
        let thread = &mut self.threads[slot as usize];
        let gap = std::mem::take(&mut thread.gap);
        thread.last = function;
        let number = self.earlier + u64::from(slot);
        if self.said != number {
            self.said = number;
            self.number(THREAD);
            self.number(number);
        }
        if gap {
            self.number(GAP);
        }
        if self.numbers[function as usize] == NONE {
            self.define(function);
        }
        self.number(RUN + u64::from(self.numbers[function as usize]));
        self.runs += 1;
        if self.buffer.len() >= Self::PIECE {
            self.flush();
        }
    }

    fn define(&mut self, function: u32) {
        let Some(found) = self.by_index[function as usize] else { return };
        let key = self.profile.key(found);
        let flags =
            if key.dso.is_some() { HAS_DSO } else { 0 } | if key.file.is_some() { HAS_FILE } else { 0 };
        self.number(DEFINITION);
        self.number(flags);
        for text in [key.dso.as_deref(), Some(key.name.as_str()), key.file.as_deref()].into_iter().flatten() {
            self.number(text.len() as u64);
            self.buffer.extend_from_slice(text.as_bytes());
        }
        self.numbers[function as usize] = self.defined;
        self.defined += 1;
    }

    /// Writes seven bits per byte, the lowest first; all bytes except the last have the highest bit set.
    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.buffer.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.buffer.push(number as u8);
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// Ends the file, and returns the number of runs of functions in it.
    ///
    /// # Errors
    /// If something could not be written, now or before.
    pub fn finish(mut self) -> std::io::Result<u64> {
        self.number(END);
        self.number(self.runs);
        self.flush();
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.runs),
        }
    }
}

/// One record of a trace file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceRecord {
    /// The next function, numbered from 0 in the order of these records.
    Definition(FunctionKey),
    /// The function with this number begins to run, or continues, in the current thread.
    Run(u32),
    /// Gap in the current thread: the next event does not follow the previous one.
    Gap,
    /// Switches to this thread; thread 0 is current at the beginning.
    Thread(u64),
}

/// Reads the records of a trace file one after the other, in a buffer of bounded size.
pub struct TraceRecords<'a> {
    input: &'a dyn Input,
    buffer: Vec<u8>,
    /// Offset of the buffer in the input.
    base: u64,
    at: usize,
    ended: bool,
    defined: u32,
    runs: u64,
    complete: bool,
}

impl std::fmt::Debug for TraceRecords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl<'a> TraceRecords<'a> {
    const PIECE: usize = 1 << 18;

    /// Starts at the beginning.
    ///
    /// # Errors
    /// If it is not a trace file, or has a newer version.
    pub fn of(input: &'a dyn Input) -> Result<Self> {
        const LONGEST_VERSION: usize = 10;
        let head = input::head(input, FIRST_WORDS.len() + LONGEST_VERSION + 1)?;
        let version = head.strip_prefix(FIRST_WORDS).and_then(|rest| {
            let digits = &rest[..rest.iter().position(|byte| *byte == b'\n')?];
            std::str::from_utf8(digits).ok()?.parse::<u32>().ok().map(|version| (version, digits.len()))
        });
        let Some((version, digits)) = version else {
            return Err(Error::new(ErrorCode::UnknownFormat, "not a trace of sediment")
                .with_hint("write one with: sediment import RECORDING -o PROFILE --trace TRACE"));
        };
        if version != VERSION {
            return Err(Error::new(
                ErrorCode::NewerVersion,
                format!("the trace has version {version}, but this program reads version {VERSION}"),
            )
            .with_hint("write it again from the recording, or use the program that wrote it"));
        }
        let base = (FIRST_WORDS.len() + digits + 1) as u64;
        Ok(Self {
            input,
            buffer: Vec::new(),
            base,
            at: 0,
            ended: false,
            defined: 0,
            runs: 0,
            complete: false,
        })
    }

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    /// When the system cannot read, the file is cut off or damaged: with the offset.
    // No Iterator: an error ends it, and must not be passed over.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<TraceRecord>> {
        if self.complete {
            return Ok(None);
        }
        // Room for a record with names of maximal length, so that a record is always complete in the buffer.
        if self.buffer.len() - self.at < 4 * LONGEST_NAME {
            self.read_on()?;
        }
        let start = self.base + self.at as u64;
        let record = match self.number()? {
            END => {
                let announced = self.number()?;
                self.read_on()?;
                if announced != self.runs || self.at != self.buffer.len() {
                    return Err(Error::at_offset(
                        start,
                        format!(
                            "the trace has a wrong length: it announces {announced} runs of functions, but {} were read, and {} are left",
                            self.runs,
                            counted(self.input.length().saturating_sub(self.base + self.at as u64), "byte")
                        ),
                    ));
                }
                self.complete = true;
                return Ok(None);
            }
            GAP => TraceRecord::Gap,
            THREAD => TraceRecord::Thread(self.number()?),
            DEFINITION => self.definition(start)?,
            run => {
                let number = run - RUN;
                if number >= u64::from(self.defined) {
                    return Err(Error::at_offset(
                        start,
                        format!(
                            "function {number} runs, but only {} are defined: the trace is damaged",
                            self.defined
                        ),
                    ));
                }
                self.runs += 1;
                TraceRecord::Run(number as u32)
            }
        };
        Ok(Some(record))
    }

    fn definition(&mut self, start: u64) -> Result<TraceRecord> {
        let flags = self.number()?;
        if flags > (HAS_DSO | HAS_FILE) || self.defined == u32::MAX {
            return Err(Error::at_offset(start, "an unknown type of function: the trace is damaged"));
        }
        let dso = if flags & HAS_DSO != 0 { Some(self.text()?) } else { None };
        let name = self.text()?;
        let file = if flags & HAS_FILE != 0 { Some(self.text()?) } else { None };
        let key = FunctionKey::new(dso.as_deref(), &name, file.as_deref());
        self.defined += 1;
        key.map(TraceRecord::Definition).ok_or_else(|| {
            Error::at_offset(start, "a function whose name or DSO a profile cannot hold").with_found(&name)
        })
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let start = self.base + self.at as u64;
        let length = self.number()?;
        if length > LONGEST_NAME as u64 {
            return Err(Error::at_offset(
                start,
                format!("a name of {length} bytes; the limit is {LONGEST_NAME}"),
            ));
        }
        match self.buffer.get(self.at..self.at + length as usize) {
            Some(text) => {
                self.at += length as usize;
                Ok(text.to_vec())
            }
            None => Err(self.cut_off()),
        }
    }

    #[inline]
    fn number(&mut self) -> Result<u64> {
        let start = self.at;
        let mut number = 0u64;
        let mut shift = 0;
        loop {
            let Some(&byte) = self.buffer.get(self.at) else { return Err(self.cut_off()) };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 || shift > 63 {
                return Err(Error::at_offset(self.base + start as u64, "a number of more than 64 bits"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    fn cut_off(&self) -> Error {
        Error::at_offset(self.base + self.buffer.len() as u64, "the trace ends too early")
            .with_hint("was the disk full, or the copy interrupted? write it again from the recording")
    }

    fn read_on(&mut self) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        self.buffer.drain(..self.at);
        self.base += self.at as u64;
        self.at = 0;
        let kept = self.buffer.len();
        self.buffer.resize(kept + Self::PIECE, 0);
        let count = input::fill(self.input, self.base + kept as u64, &mut self.buffer[kept..])?;
        self.buffer.truncate(kept + count);
        self.ended = count < Self::PIECE;
        Ok(())
    }
}

/// Loads a trace with the ids of a table. Functions that are not in the table are skipped and counted, and so is a
/// function that only continues after such a function.
///
/// # Errors
/// As [`TraceRecords::of`] and [`TraceRecords::next`].
pub fn load(input: &dyn Input, table: &FunctionTable) -> Result<(Trace, Skipped)> {
    load_as(input, table, Others::LeftOut)
}

/// Loads a trace with the ids of a table. Functions that are not in the table, such as library functions, get numbers
/// from the table's length on, in order of first use: they also take space in caches and TLBs, which models count.
///
/// # Errors
/// As [`TraceRecords::of`] and [`TraceRecords::next`].
pub fn load_with_others(input: &dyn Input, table: &FunctionTable) -> Result<Trace> {
    load_as(input, table, Others::Numbered).map(|(trace, _)| trace)
}

/// Treatment of functions that are not in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    LeftOut,
    Numbered,
}

fn load_as(input: &dyn Input, table: &FunctionTable, others: Others) -> Result<(Trace, Skipped)> {
    let by_key: HashMap<&FunctionKey, FunctionId> = table.names().collect();
    let mut records = TraceRecords::of(input)?;
    let mut ids: Vec<Option<FunctionId>> = Vec::new();
    let mut next_other = table.keys.len() as u32;
    let mut trace = Trace::default();
    let mut broken = false;
    let mut left_out = (0u64, String::new());
    while let Some(record) = records.next()? {
        match record {
            TraceRecord::Definition(key) => {
                let mut id = by_key.get(&key).copied();
                if id.is_none() && others == Others::Numbered {
                    id = Some(FunctionId(next_other));
                    next_other = next_other.saturating_add(1);
                }
                if id.is_none() && left_out.1.is_empty() {
                    left_out.1 = key.name;
                }
                ids.push(id);
            }
            TraceRecord::Gap | TraceRecord::Thread(_) => broken = true,
            TraceRecord::Run(number) => match ids[number as usize] {
                None => left_out.0 += 1,
                Some(id) => {
                    let repeated = trace.functions.last() == Some(&id);
                    if broken && !trace.functions.is_empty() {
                        trace.breaks.push(trace.functions.len());
                    } else if repeated {
                        continue;
                    }
                    broken = false;
                    trace.functions.push(id);
                }
            },
        }
    }
    let mut skipped = Skipped::default();
    skipped.add_many(Reason::RunOutside, left_out.0, 0, &left_out.1);
    Ok((trace, skipped))
}
