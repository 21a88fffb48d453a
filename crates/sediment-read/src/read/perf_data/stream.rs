// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the records of a file in batches, so that the file may be larger than memory and all cores can process
//! batches.
//!
//! ```text
//! file ──► raw ──┬─ plain records ─────────────────► batch ──► worker
//!                └─ compressed ──► unpacked records ─┘
//! ```
//!
//! One worker at a time holds the stream and fills its own batch with complete records; processing the batch does not
//! need the stream. Plain records are not copied: a batch exchanges its memory for the buffer into which they were
//! read. Data that follows a record without being part of its size (processor traces) is skipped.

use super::cursor::PerfDataCursor;
use super::records::{HEAD, Head, PerfRecord, kind};
use super::unpack::Unpacker;
use crate::read::{Input, input};
use sediment_core::error::{Error, ErrorLocation, Result};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Number of bytes that are read at once, and size of a batch; larger than the largest record.
const PIECE: usize = 1 << 19;

/// A sequence of records.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Range of the records in `bytes`.
    records: Range<usize>,
    /// Offset in the file of the first record, or of the compressed record that contains it.
    offset: u64,
    unpacked: bool,
    big_endian: bool,
    /// Number of bytes of records before it.
    sequence: u64,
    /// Number of batches before it.
    number: u64,
}

impl Batch {
    /// Returns the records, each with its position, which is the number of bytes of records before it. Nothing follows
    /// an error.
    pub(super) fn records(&self) -> impl Iterator<Item = Result<(u64, PerfRecord<'_>)>> {
        let mut left = self.cursor();
        std::iter::from_fn(move || {
            if left.len() == 0 {
                return None;
            }
            let sequence = self.sequence + (self.records.len() - left.len()) as u64;
            Some(PerfRecord::next(&mut left).map(|record| (sequence, record)))
        })
    }

    fn cursor(&self) -> PerfDataCursor<'_> {
        let records = &self.bytes[self.records.clone()];
        PerfDataCursor::new(records, if self.unpacked { 0 } else { self.offset }, self.big_endian)
    }

    /// Locates an error: unpacked data has no position in the file except its compressed record.
    fn place(&self, error: Error) -> Error {
        if self.unpacked { error.with_location(ErrorLocation::Offset(self.offset)) } else { error }
    }
}

/// Remaining records of a file.
pub(super) struct Stream<'a> {
    input: &'a dyn Input,
    big_endian: bool,
    /// Offset of the next byte to read, and of the end.
    next: u64,
    end: u64,
    raw: Vec<u8>,
    /// Number of bytes in `raw`, which end at `next`, and start of the bytes that are not taken yet.
    filled: usize,
    from: usize,
    unpacker: Option<Unpacker>,
    unpacked: Vec<u8>,
    /// Offset of the last compressed record.
    unpacked_at: u64,
    of_perf_alone: bool,
    sequence: u64,
    batches: u64,
    /// True for data of a pipe, to which other programs may also have written.
    is_pipe: bool,
    /// Number of bytes after the last record of a pipe.
    pub(super) junk: u64,
}

/// True for the message that perf prints for users after its last record, in the same pipe.
fn is_message(bytes: &[u8]) -> bool {
    bytes.starts_with(b"[ perf record: ") && bytes.iter().all(|b| matches!(b, b'\n' | b' '..=b'~'))
}

impl<'a> Stream<'a> {
    pub(super) fn new(input: &'a dyn Input, start: u64, end: u64, big_endian: bool) -> Self {
        Self {
            input,
            big_endian,
            next: start,
            end,
            raw: Vec::new(),
            filled: 0,
            from: 0,
            unpacker: None,
            unpacked: Vec::new(),
            unpacked_at: start,
            of_perf_alone: false,
            sequence: 0,
            batches: 0,
            is_pipe: false,
            junk: 0,
        }
    }

    /// Reads records from a pipe: bytes at its end that are not a record are skipped and counted.
    pub(super) fn of_pipe(self) -> Self {
        Self { is_pipe: true, ..self }
    }

    /// Skips the rest of a pipe if it does not begin with a record, and if records came before it.
    fn is_junk(&mut self) -> bool {
        let left = (self.filled - self.from) as u64;
        let read_any = self.sequence > 0 || self.from > 0;
        let is_cut = match self.left().u32("the kind of a record") {
            Ok(number) => kind::is_known(number) && (left < HEAD as u64 || Head::read(self.left()).is_ok()),
            Err(_) => true,
        };
        let at_end = self.next == self.end && left <= u64::from(u16::MAX);
        let is_junk = self.is_pipe && read_any && at_end && !is_cut;
        if is_junk {
            self.junk += left;
            self.from = self.filled;
        }
        is_junk
    }

    /// Returns only the records that perf writes for itself; unpacks nothing.
    pub(super) fn of_perf_alone(self) -> Self {
        Self { of_perf_alone: true, ..self }
    }

    /// Offset in the file of the next byte to take.
    fn offset(&self) -> u64 {
        self.next - (self.filled - self.from) as u64
    }

    fn left(&self) -> PerfDataCursor<'_> {
        PerfDataCursor::new(&self.raw[self.from..self.filled], self.offset(), self.big_endian)
    }

    /// Fills a batch; false at the end.
    pub(super) fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.big_endian = self.big_endian;
        batch.number = self.batches;
        batch.sequence = self.sequence;
        batch.records = 0..0;
        self.fill(batch)?;
        self.batches += 1;
        self.sequence += batch.records.len() as u64;
        Ok(!batch.records.is_empty())
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<()> {
        loop {
            if self.unpacked.len() >= PIECE {
                return self.hand_out_unpacked(batch);
            }
            self.read_on()?;
            if self.from == self.filled {
                self.finish_unpacking()?;
                return self.hand_out_unpacked(batch);
            }
            // Takes as many plain records as the piece contains.
            let start = self.from;
            let offset = self.offset();
            let mut special = None;
            while self.filled - self.from >= HEAD {
                let head = match Head::read(self.left()) {
                    Ok(head) => head,
                    // The records that were already read are returned first.
                    Err(_) if start < self.from => break,
                    Err(_) if self.is_junk() => break,
                    Err(error) => return Err(error),
                };
                if self.filled - self.from < head.size {
                    break;
                }
                let apart = matches!(
                    head.kind,
                    kind::COMPRESSED | kind::COMPRESSED2 | kind::AUXTRACE | kind::HEADER_TRACING_DATA
                );
                if apart || (self.of_perf_alone && head.kind < kind::HEADER_ATTR) {
                    special = Some(head);
                    break;
                }
                self.from += head.size;
            }
            if start < self.from {
                batch.offset = offset;
                batch.unpacked = false;
                self.hand_out(start, batch);
                return Ok(());
            }
            if let Some(head) = special {
                self.take_special(head)?;
            }
        }
    }

    /// Returns the records from `start` to `from`.
    fn hand_out(&mut self, start: usize, batch: &mut Batch) {
        let left = self.filled - self.from;
        if left > PIECE / 8 {
            // Copying the records is cheaper than copying the bytes after them.
            batch.bytes.clear();
            batch.bytes.extend_from_slice(&self.raw[start..self.from]);
            batch.records = 0..batch.bytes.len();
            return;
        }
        std::mem::swap(&mut self.raw, &mut batch.bytes);
        batch.records = start..self.from;
        self.raw.resize(self.raw.len().max(left), 0);
        self.raw[..left].copy_from_slice(&batch.bytes[self.from..self.filled]);
        self.from = 0;
        self.filled = left;
    }

    /// Ensures that a whole record is in memory, unless there is none.
    fn read_on(&mut self) -> Result<()> {
        let have = self.filled - self.from;
        let whole = have >= HEAD && Head::read(self.left()).is_ok_and(|head| have >= head.size);
        if whole {
            return Ok(());
        }
        self.raw.copy_within(self.from..self.filled, 0);
        self.from = 0;
        let wanted = (self.end - self.next).min(PIECE as u64) as usize;
        self.raw.resize(self.raw.len().max(have + wanted), 0);
        let count = input::fill(self.input, self.next, &mut self.raw[have..have + wanted])?;
        self.filled = have + count;
        self.next += count as u64;
        if self.next == self.end && is_message(&self.raw[self.from..self.filled]) {
            self.from = self.filled;
        }
        let left = self.left();
        if left.len() == 0 {
            return Ok(());
        }
        let found =
            Head::read(left).and_then(|head| left.clone().bytes(head.size as u64, "a record").map(|_| ()));
        if found.is_err() && self.is_junk() { Ok(()) } else { found }
    }

    /// Takes a compressed record, or a record with more data than its size states.
    fn take_special(&mut self, head: Head) -> Result<()> {
        let offset = self.offset();
        let body_at = offset + HEAD as u64;
        // `read_on` has read it completely.
        let body = &self.raw[self.from + HEAD..self.from + head.size];
        let mut body = PerfDataCursor::new(body, body_at, self.big_endian);
        let mut behind = 0;
        match head.kind {
            kind::AUXTRACE => behind = body.u64("the size of a trace")?,
            kind::HEADER_TRACING_DATA => {
                behind = u64::from(body.u32("the size of tracing data")?).next_multiple_of(8);
            }
            kind::COMPRESSED | kind::COMPRESSED2 if !self.of_perf_alone => {
                let mut packed = body.left();
                if head.kind == kind::COMPRESSED2 {
                    let size = body.u64("the size of compressed records")?;
                    packed = body.bytes(size, "compressed records")?;
                }
                let unpacker = self.unpacker.get_or_insert_with(Unpacker::new);
                unpacker.take(packed, offset, &mut self.unpacked)?;
                self.unpacked_at = offset;
            }
            _ => {}
        }
        self.from += head.size;
        self.skip(behind)
    }

    /// Skips bytes.
    fn skip(&mut self, count: u64) -> Result<()> {
        let offset = self.offset();
        if count > self.end - offset {
            return Err(Error::at_offset(
                offset,
                format!("a processor trace needs {count} bytes, but only {} are left", self.end - offset),
            )
            .with_hint("is the file complete, and unchanged since perf wrote it?"));
        }
        let have = (self.filled - self.from) as u64;
        if count <= have {
            self.from += count as usize;
        } else {
            self.from = self.filled;
            self.next += count - have;
        }
        Ok(())
    }

    fn finish_unpacking(&mut self) -> Result<()> {
        if let Some(mut unpacker) = self.unpacker.take() {
            unpacker.finish(self.unpacked_at, &mut self.unpacked)?;
            self.unpacked_whole_records(true)?;
        }
        Ok(())
    }

    /// Number of unpacked bytes that are complete records.
    fn unpacked_whole_records(&self, at_end: bool) -> Result<usize> {
        let placed = |error: Error| error.with_location(ErrorLocation::Offset(self.unpacked_at));
        let mut left = PerfDataCursor::new(&self.unpacked, 0, self.big_endian);
        while left.len() >= HEAD {
            let size = Head::read(left).map_err(placed)?.size;
            if size > left.len() {
                break;
            }
            left.bytes(size as u64, "a record")?;
        }
        if at_end && left.len() > 0 {
            return Err(Error::at_offset(
                self.unpacked_at,
                format!("the compressed records end with {} bytes of a longer record", left.len()),
            )
            .with_hint("is the file complete, and unchanged since perf wrote it?"));
        }
        Ok(self.unpacked.len() - left.len())
    }

    fn hand_out_unpacked(&mut self, batch: &mut Batch) -> Result<()> {
        let whole = self.unpacked_whole_records(false)?;
        batch.bytes.clear();
        batch.bytes.extend_from_slice(&self.unpacked[..whole]);
        batch.records = 0..whole;
        batch.offset = self.unpacked_at;
        batch.unpacked = true;
        self.unpacked.drain(..whole);
        Ok(())
    }
}

/// Runs `work` on every batch, in order.
pub(super) fn in_order(mut stream: Stream, mut work: impl FnMut(&Batch) -> Result<()>) -> Result<()> {
    let mut batch = Batch::default();
    while stream.next(&mut batch)? {
        work(&batch).map_err(|error| batch.place(error))?;
    }
    Ok(())
}

/// Runs `work` on every batch with this number of workers. Each worker has its own state. The assignment of batches to
/// workers is not fixed, but if there are several errors, the first one in the file is returned.
pub(super) fn on_all_cores<S: Send>(
    stream: Stream,
    workers: usize,
    new: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &Batch) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let shared = Mutex::new((stream, None::<(u64, Error)>));
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let worker = || {
        let mut state = new();
        let mut batch = Batch::default();
        loop {
            {
                let mut guard = lock();
                let (stream, failed) = &mut *guard;
                let number = stream.batches;
                match stream.next(&mut batch) {
                    _ if failed.is_some() => return state,
                    Ok(true) => {}
                    Ok(false) => return state,
                    Err(error) => {
                        *failed = Some((number, error));
                        return state;
                    }
                }
            }
            if let Err(error) = work(&mut state, &batch) {
                let mut guard = lock();
                let failed = &mut guard.1;
                if failed.as_ref().is_none_or(|(number, _)| batch.number < *number) {
                    *failed = Some((batch.number, batch.place(error)));
                }
                return state;
            }
        }
    };
    let states: Vec<S> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(worker)).collect();
        let own = worker();
        let others = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(others).collect()
    });
    match shared.into_inner().unwrap_or_else(PoisonError::into_inner).1 {
        Some((_, error)) => Err(error),
        None => Ok(states),
    }
}

/// Number of workers that is useful for an input of this size.
pub(super) fn workers(size: u64) -> usize {
    /// More workers would each need a table of their own.
    const MOST: usize = 8;
    let useful = (size / (8 * PIECE as u64)).saturating_add(1);
    if useful == 1 {
        // Asking the system for the number of cores takes longer than reading a small input.
        return 1;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.min(MOST).min(usize::try_from(useful).unwrap_or(MOST))
}
