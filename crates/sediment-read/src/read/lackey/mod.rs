// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the log of `valgrind --tool=lackey --trace-superblocks=yes`: every executed block, in order.
//!
//! Each block has a line `SB ADDRESS` with its address in memory. With `-v -v` the log also names the files whose
//! symbols were read, with the addresses of their code, and the times at which they are unmapped. `--trace-sched=yes`
//! adds the thread. [`log`] parses the lines, [`objects`] converts memory addresses to addresses in files, [`blocks`]
//! counts which block followed which. Two consecutive blocks are a transfer of unknown kind: [`crate::resolve`] makes
//! it a call if it leads to a function's first byte.
//!
//! Source: valgrind's manual, "Lackey", and the output of valgrind 3.19 (docs/formats/lackey.md).

mod blocks;
mod log;
mod objects;

use super::{
    AddressId, Input, Listener, ReadSettings, Reader, RecordedAddress, RecordedDso, Recording, Replay, Spot,
    Step, StraightRun, TransferKind,
};
use blocks::BlockSuccessors;
use log::LogEvent;
use objects::{AddressSpaceFiles, ObjectLookup};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::plural::counted;
use sediment_core::profile::source::ProfileSource;
use sediment_core::skipped::Reason;
use std::collections::HashMap;

/// Row of this reader in the table of readers.
pub(super) const READER: Reader = Reader {
    name: "lackey",
    summary: "log of valgrind --tool=lackey --trace-superblocks=yes",
    recognises: log::recognises,
    read,
    replay: Some(Replay { whole: true, steps }),
};

/// Command that records such a log.
const COMMAND: &str = "valgrind --tool=lackey --trace-superblocks=yes --vex-guest-chase=no --trace-sched=yes -v -v \
                       --log-file=lackey.%p.out PROGRAM";
/// Limit of different blocks, plus one for each of this number of executed blocks. No program executes all of its code
/// only once, and a damaged file must not take more memory than an intact one.
const MOST_BLOCKS: u64 = 100_000;
const RUNS_PER_BLOCK: u64 = 8;

fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let mut recording = Recording {
        source: ProfileSource::new("valgrind lackey", "superblocks", &[]),
        ..Recording::default()
    };
    let mut walk = LogWalk::default();
    let known = log::each(input, &mut |event, line| {
        walk.event(event, line, |objects, address| place_of(objects.at(address), &mut recording))?;
        Ok(())
    })?;
    let LogWalk { objects, blocks, runs, unplaced, .. } = walk;
    if runs == 0 {
        return Err(Error::new(ErrorCode::EmptyRecording, "the log has no blocks (SB ADDRESS)")
            .with_hint(format!("record with: {COMMAND}")));
    }
    if objects.is_empty() {
        return Err(Error::new(ErrorCode::Unresolved,"the log does not name the programs and libraries and their addresses")
            .with_hint(format!(
                "was -v -v missing? record with: {COMMAND}. Was this process forked under valgrind? Import both logs, parent first: cat PARENT CHILD > BOTH"
            )));
    }
    recording.arch = known.arch;
    recording.total = u128::from(runs.saturating_sub(blocks.starts()));
    recording.seen =
        format!("{} executed, {} different", counted(runs, "block"), recording.addresses().len());
    for (reason, count) in
        [(Reason::UnnamedBlock, unplaced.no_object), (Reason::NotUtf8Block, unplaced.not_utf8)]
    {
        recording.skipped.add_many(reason, count, u128::from(count), "");
    }
    recording.skipped.add_many(Reason::ChasedRun, u64::from(known.chased), 0, "");
    recording.skipped.add_many(Reason::NoEnd, u64::from(!known.ended), 0, "");
    blocks.put_into(&mut recording);
    if settings.executions {
        add_straight_runs(&mut recording);
    }
    if recording.addresses().is_empty() {
        return Err(Error::new(ErrorCode::Unresolved, "no block belongs to a program or library in the log")
            .with_hint(format!("record with: {COMMAND}")));
    }
    Ok(recording)
}

/// Adds the executed blocks: each ran from its address to the next jump, once for each entry.
fn add_straight_runs(recording: &mut Recording) {
    for (from, count) in recording.samples() {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        recording.add_straight_run(StraightRun { from, to: None, count });
    }
}

fn steps(
    input: &dyn Input,
    _: &ReadSettings,
    recording: &Recording,
    listener: &mut dyn Listener,
) -> Result<()> {
    let mut walk = LogWalk::default();
    log::each(input, &mut |event, line| {
        let happened = walk.event(event, line, |objects, address| {
            let ObjectLookup::Object { path, address } = objects.at(address) else {
                return Err(Unplaced::NoObject);
            };
            let path = std::str::from_utf8(path).map_err(|_| Unplaced::NotUtf8)?;
            let dso = recording.find_dso(&RecordedDso { path: path.to_owned(), build_id: None });
            let place = RecordedAddress { dso, spot: Spot::Address(address) };
            recording.find_address(&place).ok_or(Unplaced::NoObject)
        })?;
        if let Some((thread, place)) = happened {
            listener.step(Step::Run { thread, place });
        }
        Ok(())
    })?;
    Ok(())
}

/// Reason why a block has no address in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unplaced {
    NoObject,
    NotUtf8,
}

fn place_of(found: ObjectLookup<'_>, recording: &mut Recording) -> std::result::Result<AddressId, Unplaced> {
    let ObjectLookup::Object { path, address } = found else { return Err(Unplaced::NoObject) };
    let path = std::str::from_utf8(path).map_err(|_| Unplaced::NotUtf8)?;
    let dso = recording.dso(RecordedDso { path: path.to_owned(), build_id: None });
    Ok(recording.place(RecordedAddress { dso: Some(dso), spot: Spot::Address(address) }))
}

/// Number of executed blocks without an address in a file.
#[derive(Debug, Default)]
struct UnplacedRuns {
    no_object: u64,
    not_utf8: u64,
}

/// Walks through a log, and keeps the state at each line.
#[derive(Debug, Default)]
struct LogWalk {
    objects: AddressSpaceFiles,
    blocks: BlockSuccessors,
    /// Last executed block of each thread that is not running now.
    waiting: HashMap<u64, Option<u32>>,
    /// Process and thread in one number: the processes of a log come one after the other.
    thread: u64,
    previous: Option<u32>,
    process: u64,
    runs: u64,
    unplaced: UnplacedRuns,
}

impl LogWalk {
    /// Handles the next event. Returns thread and address of an executed block that has an address.
    #[inline]
    fn event(
        &mut self,
        event: LogEvent<'_>,
        line: u64,
        place: impl FnOnce(&AddressSpaceFiles, u64) -> std::result::Result<AddressId, Unplaced>,
    ) -> Result<Option<(u64, AddressId)>> {
        match event {
            LogEvent::Block(address) => {
                self.runs += 1;
                let (block, place) = match self.blocks.follow(self.previous, address) {
                    Some(found) => found,
                    None => self.new_block(address, line, place)?,
                };
                self.previous = Some(block);
                match place {
                    Ok(place) => return Ok(Some((self.thread, place))),
                    Err(Unplaced::NoObject) => self.unplaced.no_object += 1,
                    Err(Unplaced::NotUtf8) => self.unplaced.not_utf8 += 1,
                }
            }
            LogEvent::Thread(number) => self.switch_to(self.process << 32 | u64::from(number)),
            LogEvent::Started => {
                self.process += 1;
                self.objects.process_started();
                self.switch_to(self.process << 32 | 1);
            }
            LogEvent::Object(path) => self.objects.named(path),
            LogEvent::Loaded { linked, loaded } => {
                if self.objects.loaded(linked, loaded, line)? {
                    self.blocks.forget_addresses();
                }
            }
            LogEvent::Discarded { code } => {
                if self.objects.discarded(code) {
                    self.blocks.forget_addresses();
                }
            }
        }
        Ok(None)
    }

    #[cold]
    fn new_block(
        &mut self,
        address: u64,
        line: u64,
        place: impl FnOnce(&AddressSpaceFiles, u64) -> std::result::Result<AddressId, Unplaced>,
    ) -> Result<(u32, std::result::Result<AddressId, Unplaced>)> {
        if self.blocks.len() as u64 >= MOST_BLOCKS + self.runs / RUNS_PER_BLOCK {
            return Err(Error::at_line(
                line,
                format!(
                    "{} different blocks in {} executed: not the run of a program",
                    self.blocks.len(),
                    self.runs
                ),
            ));
        }
        self.objects.touch(address);
        let place = place(&self.objects, address);
        Ok((self.blocks.add(self.previous, address, place), place))
    }

    #[cold]
    fn switch_to(&mut self, thread: u64) {
        if thread == self.thread {
            return;
        }
        self.waiting.insert(self.thread, self.previous.take());
        self.thread = thread;
        self.previous = self.waiting.remove(&thread).flatten();
    }
}

impl BlockSuccessors {
    /// Adds the counts to a recording, to which the addresses belong.
    fn put_into(self, recording: &mut Recording) {
        let (addresses, passages, starts) = self.into_counts();
        recording.transfers.reserve(passages.len());
        let place = |block: u32| addresses[block as usize];
        for block in starts {
            if let Ok(place) = place(block) {
                recording.add_samples(place, 1);
            }
        }
        for (from, to, count) in passages {
            let count = u128::from(count);
            if let Ok(to) = place(to) {
                recording.add_samples(to, count);
            }
            match (place(from), place(to)) {
                (Ok(from), Ok(to)) => recording.add_transfer(from, to, TransferKind::Branch, count),
                _ => recording.skipped.add(Reason::UnnamedPassage, count, ""),
            }
        }
    }
}
