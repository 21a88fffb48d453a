// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output of `uftrace dump`: a header, then all records of the first thread, all of the second, and so on.
//!
//! ```text
//! reading 13900.dat
//! 12479.163323336  13900: [entry] main(564ea26bf2b0) depth: 0
//! 12479.163332045  13900: [exit ] main(564ea26bf2b0) depth: 0
//! ```
//!
//! To report the events of all threads in time order, the parts of the file are read simultaneously.

use super::{Aside, EventKind, EventListener, ThreadEvent};
use crate::read::input::{Input, InputLines};
use crate::read::numbers::decimal;
use sediment_core::error::Result;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Memory for all parts that are read simultaneously.
const MEMORY: usize = 32 << 20;

pub(super) fn recognises(head: &[u8]) -> bool {
    let line = head.trim_ascii_start().split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
    line.starts_with(b"uftrace file header:")
        || matches!(DumpLine::parse(line), DumpLine::Task | DumpLine::Record { .. })
}

/// Kind of a line.
enum DumpLine<'a> {
    /// Beginning of a thread's records.
    Task,
    /// Beginning of records of the kernel or of perf events.
    System,
    Record {
        thread: u64,
        time: u64,
        depth: u32,
        kind: EventKind<'a>,
    },
    /// An event other than a function's entry or exit.
    Event,
    /// The header, arguments and results of functions, or an empty line.
    Detail,
    Other,
}

impl<'a> DumpLine<'a> {
    fn parse(line: &'a [u8]) -> Self {
        if let Some(file) = line.strip_prefix(b"reading ").and_then(|rest| rest.strip_suffix(b".dat")) {
            return if decimal(file).is_some() { Self::Task } else { Self::System };
        }
        match line.first() {
            None | Some(b' ' | b'\t') => Self::Detail,
            Some(b'0'..=b'9') => Self::record(line).unwrap_or(Self::Other),
            _ if line.starts_with(b"uftrace file header:") => Self::Detail,
            _ => Self::Other,
        }
    }

    /// Parses `SECONDS.NANOSECONDS THREAD: [kind ] name(address) depth: N`.
    fn record(line: &'a [u8]) -> Option<Self> {
        let blank = memchr::memchr(b' ', line)?;
        let time = nanoseconds(&line[..blank])?;
        let rest = line[blank..].trim_ascii_start();
        let colon = memchr::memchr(b':', rest)?;
        let thread = decimal(&rest[..colon])?;
        let rest = rest[colon + 1..].strip_prefix(b" [")?;
        let end = memchr::memchr(b']', rest)?;
        let (kind, rest) = (rest[..end].trim_ascii(), rest[end + 1..].trim_ascii());
        match kind {
            b"entry" | b"exit" => {
                let at = memchr::memmem::rfind(rest, b" depth: ")?;
                let depth = u32::try_from(decimal(&rest[at + b" depth: ".len()..])?)
                    .ok()
                    .filter(|d| *d < u32::MAX)?;
                let name = &rest[..memchr::memrchr(b'(', &rest[..at])?];
                let kind = if kind == b"entry" { EventKind::Enter(name) } else { EventKind::Leave };
                Some(Self::Record { thread, time, depth, kind })
            }
            b"lost" => Some(Self::Record { thread, time, depth: 0, kind: EventKind::Lost }),
            b"event" | b"time" => Some(Self::Event),
            b"args" | b"retval" | b"data" => Some(Self::Detail),
            _ => None,
        }
    }
}

/// Parses `SECONDS.NANOSECONDS` with nine digits after the point.
fn nanoseconds(text: &[u8]) -> Option<u64> {
    let point = memchr::memchr(b'.', text)?;
    let (seconds, fraction) = (decimal(&text[..point])?, &text[point + 1..]);
    if fraction.len() != 9 {
        return None;
    }
    seconds.checked_mul(1_000_000_000)?.checked_add(decimal(fraction)?)
}

/// Reports the events: in time order, or thread by thread if `in_order` is false and that is less work.
pub(super) fn tell(input: &dyn Input, in_order: bool, listener: EventListener<'_>) -> Result<Aside> {
    if in_order {
        let parts = parts(input)?;
        if parts.len() > 1 {
            return tell_side_by_side(&parts, listener);
        }
    }
    let mut aside = Aside::default();
    let mut of_task = true;
    let mut lines = InputLines::of(input);
    while let Some(line) = lines.next()? {
        match DumpLine::parse(line) {
            DumpLine::Task => of_task = true,
            DumpLine::System => of_task = false,
            DumpLine::Record { thread, time, depth, kind } if of_task => {
                listener(ThreadEvent { thread, time, depth, kind })?;
            }
            DumpLine::Record { .. } | DumpLine::Event => aside.events += 1,
            DumpLine::Detail => {}
            DumpLine::Other => aside.other(line),
        }
    }
    Ok(aside)
}

/// Records of one thread.
struct ThreadRecords<'a> {
    input: &'a dyn Input,
    start: u64,
    length: u64,
}

impl Input for ThreadRecords<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let rest = self.length.saturating_sub(offset);
        let most = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 { Ok(0) } else { self.input.read_at(self.start + offset, &mut buffer[..most]) }
    }
}

fn parts(input: &dyn Input) -> Result<Vec<ThreadRecords<'_>>> {
    let mut parts = Vec::new();
    let mut start = Some(0);
    let mut lines = InputLines::of(input);
    loop {
        let here = lines.offset();
        let line = lines.next()?.map(DumpLine::parse);
        if !matches!(line, None | Some(DumpLine::Task | DumpLine::System)) {
            continue;
        }
        if let Some(start) = start.filter(|start| *start < here) {
            parts.push(ThreadRecords { input, start, length: here - start });
        }
        match line {
            None => return Ok(parts),
            Some(DumpLine::Task) => start = Some(here),
            Some(_) => start = None,
        }
    }
}

/// Next record of a part.
struct NextRecord {
    thread: u64,
    time: u64,
    depth: u32,
    /// `None` for a return.
    name: Option<Vec<u8>>,
    lost: bool,
}

fn next(lines: &mut InputLines<'_>) -> Result<Option<NextRecord>> {
    while let Some(line) = lines.next()? {
        if let DumpLine::Record { thread, time, depth, kind } = DumpLine::parse(line) {
            let name = match kind {
                EventKind::Enter(name) => Some(name.to_vec()),
                EventKind::Leave | EventKind::Lost => None,
            };
            return Ok(Some(NextRecord { thread, time, depth, name, lost: kind == EventKind::Lost }));
        }
    }
    Ok(None)
}

fn tell_side_by_side(parts: &[ThreadRecords<'_>], listener: EventListener<'_>) -> Result<Aside> {
    let piece = (MEMORY / parts.len()).clamp(512, 1 << 18);
    let mut readers: Vec<InputLines<'_>> = parts
        .iter()
        .map(|part| InputLines::in_pieces(part, piece.min(usize::try_from(part.length).unwrap_or(piece))))
        .collect();
    let mut waiting: Vec<Option<NextRecord>> = Vec::with_capacity(parts.len());
    let mut queue = BinaryHeap::with_capacity(parts.len());
    for (number, lines) in readers.iter_mut().enumerate() {
        let record = next(lines)?;
        if let Some(record) = &record {
            queue.push(Reverse((record.time, number)));
        }
        waiting.push(record);
    }
    while let Some(Reverse((_, number))) = queue.pop() {
        let Some(NextRecord { thread, time, depth, name, lost }) = waiting[number].take() else { continue };
        let kind = match &name {
            Some(name) => EventKind::Enter(name),
            None if lost => EventKind::Lost,
            None => EventKind::Leave,
        };
        listener(ThreadEvent { thread, time, depth, kind })?;
        let record = next(&mut readers[number])?;
        if let Some(record) = &record {
            queue.push(Reverse((record.time, number)));
        }
        waiting[number] = record;
    }
    Ok(Aside::default())
}
