// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a file one batch after the other, so that it may be larger than memory, and all cores reading batches.
//!
//! ```text
//! file ──► raw ──┬─ plain records ─────────────────► batch ──► worker
//!                └─ compressed ──► unpacked records ─┘
//! ```
//!
//! One worker at a time holds the stream and fills a batch of its own with whole records; what it does with them needs the
//! stream no more. Plain records are not copied: a batch takes the memory that they were read to, and leaves its own. Data that follows a record without being part of its size (processor traces) is passed over unread.

use super::cursor::PerfDataCursor;
use super::records::{HEAD, Head, PerfRecord, kind};
use super::unpack::Unpacker;
use crate::read::{Input, input};
use sediment_core::error::{Error, ErrorLocation, Result};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Bytes read at once, and in a batch; more than the largest record.
const PIECE: usize = 1 << 19;

/// Some records that follow each other.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Where the records stand in `bytes`.
    records: Range<usize>,
    /// Offset in the file of the first record, or of the record that they were unpacked from.
    offset: u64,
    unpacked: bool,
    big_endian: bool,
    /// Bytes of records before it.
    sequence: u64,
    /// Number of batches before it.
    number: u64,
}

impl Batch {
    /// The records, each with its position: the bytes of records before it. Nothing follows an error.
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

    /// An error in it: what was unpacked is nowhere in the file but in its compressed record.
    fn place(&self, error: Error) -> Error {
        if self.unpacked { error.with_location(ErrorLocation::Offset(self.offset)) } else { error }
    }
}

/// Remaining records of a file.
pub(super) struct Stream<'a> {
    input: &'a dyn Input,
    big_endian: bool,
    /// Offset of what is to be read next, and of the end.
    next: u64,
    end: u64,
    raw: Vec<u8>,
    /// Bytes of `raw` that are filled up to `next`, and those not taken yet.
    filled: usize,
    from: usize,
    unpacker: Option<Unpacker>,
    unpacked: Vec<u8>,
    /// Offset of the compressed record that was taken last.
    unpacked_at: u64,
    of_perf_alone: bool,
    sequence: u64,
    batches: u64,
    /// Data of a pipe, into which others may have written, too.
    is_pipe: bool,
    /// Bytes behind the last record of a pipe.
    pub(super) junk: u64,
}

/// True for the message that perf prints for people after its last record, in the same pipe.
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

    /// Records from a pipe: what is no record at its end is passed over, and counted.
    pub(super) fn of_pipe(self) -> Self {
        Self { is_pipe: true, ..self }
    }

    /// Passes over what is left of a pipe, if that does not begin as a record does, and anything came before it.
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

    /// Those records alone that perf writes for itself; nothing is unpacked.
    pub(super) fn of_perf_alone(self) -> Self {
        Self { of_perf_alone: true, ..self }
    }

    /// Offset in the file of the next byte.
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
            // As many plain records as there are in the piece.
            let start = self.from;
            let offset = self.offset();
            let mut special = None;
            while self.filled - self.from >= HEAD {
                let head = match Head::read(self.left()) {
                    Ok(head) => head,
                    // What was read before is handed out first.
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

    /// Hands out the records from `start` to `from`.
    fn hand_out(&mut self, start: usize, batch: &mut Batch) {
        let left = self.filled - self.from;
        if left > PIECE / 8 {
            // Less is copied with the records than with what stands behind them.
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

    /// Sees to it that a whole record is in memory, unless there is none.
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

    /// Takes a record that is compressed, or that more belongs to than its size says.
    fn take_special(&mut self, head: Head) -> Result<()> {
        let offset = self.offset();
        let body_at = offset + HEAD as u64;
        // What read_on saw to is here in full.
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

    /// Passes bytes over.
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

    /// Number of unpacked bytes that make whole records.
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

/// Runs `work` on every batch, in their order.
pub(super) fn in_order(mut stream: Stream, mut work: impl FnMut(&Batch) -> Result<()>) -> Result<()> {
    let mut batch = Batch::default();
    while stream.next(&mut batch)? {
        work(&batch).map_err(|error| batch.place(error))?;
    }
    Ok(())
}

/// Runs `work` on every batch, by this number of workers. Each worker has a state of its own; which batch comes to
/// which state is not fixed, but of several errors the one that comes first in the file is returned.
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

/// Number of workers that an input of this size is worth.
pub(super) fn workers(size: u64) -> usize {
    /// More would each want a table of their own.
    const MOST: usize = 8;
    let useful = (size / (8 * PIECE as u64)).saturating_add(1);
    if useful == 1 {
        // The system takes longer to say how many there are than a small input to be read.
        return 1;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.min(MOST).min(usize::try_from(useful).unwrap_or(MOST))
}
