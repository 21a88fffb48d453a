// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the text that `uftrace dump` prints for a recording.
//!
//! uftrace records the time of each function's entry and return, by thread. [`dump`] finds these events in the lines.
//! Here they are converted to calls, own cost (the time between two events of a thread belongs to the function running
//! then) and the order of the run.
//!
//! Source: uftrace's manual pages, and the output of uftrace 0.13 (docs/formats/uftrace.md).

mod dump;
mod other_forms;

use super::{
    AddressId, DsoId, Input, Listener, ReadSettings, Reader, RecordedAddress, RecordedDso, Recording, Replay,
    Spot, Step, TransferKind, input,
};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::{ProfileSource, Unknown::SharedLibraries};
use sediment_core::skipped::Reason;
use std::collections::HashMap;

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "uftrace",
    summary: "text of uftrace dump",
    recognises,
    read,
    replay: Some(Replay { whole: true, steps }),
};

/// Limit of the number of functions for a small text.
const MOST_FUNCTIONS: usize = 1 << 16;
const HINT: &str = "print the recording with: uftrace dump --demangle=no > dump.txt";

fn recognises(head: &[u8]) -> bool {
    dump::recognises(head) || other_forms::fault(head).is_some()
}

/// Refuses a text that is not the output of `uftrace dump`.
fn expect_dump(input: &dyn Input) -> Result<()> {
    let head = input::head(input, super::HEAD)?;
    if dump::recognises(&head) {
        return Ok(());
    }
    let fault = other_forms::fault(&head).unwrap_or("not the output of uftrace dump");
    Err(Error::new(ErrorCode::UnsupportedVariant, fault).with_hint(HINT))
}

/// Event of a thread.
#[derive(Debug, Clone, Copy)]
struct ThreadEvent<'a> {
    thread: u64,
    /// Time in nanoseconds.
    time: u64,
    /// Depth of the entered or left function in the thread's stack.
    depth: u32,
    kind: EventKind<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventKind<'a> {
    /// A function of this name begins.
    Enter(&'a [u8]),
    /// A function returns.
    Leave,
    /// Gap: the next event does not follow the previous one.
    Lost,
}

/// Receiver of events.
type EventListener<'l> = &'l mut dyn FnMut(ThreadEvent<'_>) -> Result<()>;

/// Data other than events.
#[derive(Debug, Default)]
struct Aside {
    /// Number of records that are not functions.
    events: u64,
    other_lines: u64,
    other_line: Vec<u8>,
}

impl Aside {
    fn other(&mut self, line: &[u8]) {
        self.other_lines += 1;
        if self.other_line.is_empty() {
            self.other_line = line[..line.len().min(100)].to_vec();
        }
    }
}

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    expect_dump(input)?;
    let source = ProfileSource::new("uftrace function trace", "ns", &[SharedLibraries]);
    let mut reading = UftraceConversion::new(Recording { source, ..Recording::default() }, settings);
    reading.most = MOST_FUNCTIONS + usize::try_from(input.length() / 80).unwrap_or(usize::MAX / 2);
    let aside = dump::tell(input, false, &mut |event| {
        reading.hear(event);
        Ok(())
    })?;
    reading.finish(&aside)
}

fn steps(
    input: &dyn Input,
    settings: &ReadSettings,
    recording: &Recording,
    listener: &mut dyn Listener,
) -> Result<()> {
    expect_dump(input)?;
    let program = settings.program_dso();
    let find = |printed: &[u8]| {
        let dso = match &program {
            Some(program) => Some(recording.find_dso(program)?),
            None => None,
        };
        recording.find_address(&place(printed, dso)?)
    };
    let mut addresses: HashMap<Vec<u8>, Option<AddressId>> = HashMap::new();
    let mut stacks = Stacks::default();
    let mut running: HashMap<u64, AddressId> = HashMap::new();
    dump::tell(input, true, &mut |event| {
        let now = match event.kind {
            EventKind::Enter(printed) => {
                let known = addresses.get(printed).copied().unwrap_or_else(|| {
                    let place = find(printed);
                    if place.is_some() {
                        addresses.insert(printed.to_vec(), place);
                    }
                    place
                });
                stacks.enter(event.thread, event.depth, known);
                known
            }
            EventKind::Leave => stacks.leave(event.thread, event.depth),
            EventKind::Lost => {
                stacks.forget(event.thread);
                None
            }
        };
        let thread = event.thread;
        match now {
            Some(place) => {
                if running.insert(thread, place) != Some(place) {
                    listener.step(Step::Run { thread, place });
                }
            }
            None => {
                if running.remove(&thread).is_some() {
                    listener.step(Step::Gap { thread });
                }
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Returns the address of a printed name in this DSO; `None` if it is an address without a symbol.
fn place(printed: &[u8], dso: Option<DsoId>) -> Option<RecordedAddress> {
    let hexadecimal = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit);
    let address = printed.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">"));
    if printed.is_empty() || address.is_some_and(hexadecimal) {
        return None;
    }
    Some(RecordedAddress { dso, spot: Spot::Symbol { name: printed.to_vec(), file: None } })
}

/// Running functions of each thread, the innermost last, with their depths.
#[derive(Default)]
struct Stacks(HashMap<u64, Vec<(u32, Option<AddressId>)>>);

/// Caller of an entered function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryCaller {
    Known(AddressId),
    Unnamed,
    Outside,
}

impl Stacks {
    /// Returns the function that is running, if it has a name.
    fn top(&self, thread: u64) -> Option<AddressId> {
        self.0.get(&thread)?.last()?.1
    }

    /// Enters a function; returns its caller. A function without a recorded return (because of exceptions or longjmp)
    /// has ended if its depth was the same or greater.
    fn enter(&mut self, thread: u64, depth: u32, place: Option<AddressId>) -> EntryCaller {
        let stack = self.0.entry(thread).or_default();
        while stack.last().is_some_and(|(there, _)| *there >= depth) {
            stack.pop();
        }
        let caller = match stack.last() {
            Some((there, caller)) if there + 1 == depth => {
                caller.map_or(EntryCaller::Unnamed, EntryCaller::Known)
            }
            _ => EntryCaller::Outside,
        };
        stack.push((depth, place));
        caller
    }

    /// Leaves the function at this depth; returns the one that continues, if it is known.
    fn leave(&mut self, thread: u64, depth: u32) -> Option<AddressId> {
        let stack = self.0.get_mut(&thread)?;
        while stack.last().is_some_and(|(there, _)| *there >= depth) {
            stack.pop();
        }
        stack.last().filter(|(there, _)| there + 1 == depth)?.1
    }

    fn forget(&mut self, thread: u64) {
        self.0.remove(&thread);
    }
}

/// State of the conversion to a recording.
struct UftraceConversion {
    recording: Recording,
    program: Option<RecordedDso>,
    addresses: HashMap<Vec<u8>, Option<AddressId>>,
    stacks: Stacks,
    /// Time of the last event in each thread.
    times: HashMap<u64, u64>,
    entries: u128,
    /// Limit of the number of functions.
    most: usize,
}

impl UftraceConversion {
    fn new(recording: Recording, settings: &ReadSettings) -> Self {
        Self {
            recording,
            program: settings.program_dso(),
            addresses: HashMap::new(),
            stacks: Stacks::default(),
            times: HashMap::new(),
            entries: 0,
            most: MOST_FUNCTIONS,
        }
    }

    fn place(&mut self, printed: &[u8]) -> Option<AddressId> {
        if let Some(known) = self.addresses.get(printed) {
            return *known;
        }
        if self.addresses.len() >= self.most {
            self.recording.skipped.add(Reason::FunctionBeyondMemory, 0, "");
            return None;
        }
        let place = place(printed, None).map(|place| {
            let dso = self.program.clone().map(|program| self.recording.dso(program));
            self.recording.place(RecordedAddress { dso, ..place })
        });
        self.addresses.insert(printed.to_vec(), place);
        place
    }

    fn hear(&mut self, event: ThreadEvent<'_>) {
        let thread = event.thread;
        let before = self.times.insert(thread, event.time);
        if let (Some(place), Some(before)) = (self.stacks.top(thread), before) {
            self.recording.add_samples(place, u128::from(event.time.saturating_sub(before)));
        }
        match event.kind {
            EventKind::Enter(printed) => {
                let place = self.place(printed);
                let caller = self.stacks.enter(thread, event.depth, place);
                self.add(caller, place);
            }
            EventKind::Leave => {
                self.stacks.leave(thread, event.depth);
            }
            EventKind::Lost => {
                self.recording.skipped.add(Reason::UftraceLost, 0, "");
                self.stacks.forget(thread);
                self.times.remove(&thread);
            }
        }
    }

    /// Counts a call of a function.
    fn add(&mut self, caller: EntryCaller, callee: Option<AddressId>) {
        self.entries += 1;
        match (caller, callee) {
            (EntryCaller::Known(from), Some(to)) => {
                self.recording.add_transfer(from, to, TransferKind::Call, 1)
            }
            (EntryCaller::Outside, Some(_)) => self.recording.skipped.add(Reason::UntracedCaller, 1, ""),
            (EntryCaller::Unnamed, _) | (_, None) => self.recording.skipped.add(Reason::UntracedEnd, 1, ""),
        }
    }

    fn finish(self, aside: &Aside) -> Result<Recording> {
        let mut recording = self.recording;
        if self.entries == 0 {
            let error = Error::new(ErrorCode::EmptyRecording, "no function entry in this uftrace output");
            return Err(if aside.other_lines > 0 { error.with_found(&aside.other_line) } else { error }
                .with_hint(
                    "was the program compiled with -pg or -finstrument-functions, or recorded with -P .?",
                ));
        }
        recording.total = self.entries;
        recording.seen = counted(self.entries, "function entry");
        let skipped = &mut recording.skipped;
        skipped.add_many(Reason::NoFunctionRecord, aside.events, 0, "");
        skipped.add_many(Reason::RecordlessLine, aside.other_lines, 0, &aside.other_line);
        Ok(recording)
    }
}
