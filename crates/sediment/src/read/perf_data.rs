// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf.data of perf record, with branch records (LBR and its kin).
//!
//! Steps: read the header (`file`), sort the records by time, keep every process's mappings as they change (`mappings`), and
//! turn each branch of each sample's stack (`records`) into a passage between two bytes of files.
//! Format: perf.data-file-format.txt of the kernel's tools/perf and include/uapi/linux/perf_event.h; what is read of it and
//! what is not: docs/formats/perf-data.md.
//!
//! The container is read here rather than by a crate: the one there is skips branch stacks, takes grouped read values for
//! plain ones and the other way round, and hides the offsets that an error needs.

mod cursor;
mod file;
mod mappings;
mod records;

use super::{
    DsoId, Input, Place, PlaceId, Reader, RecordedDso, Recording, Settings, Spot, TransferKind, input,
};
use crate::error::{Error, Result};
use file::{Attribute, PerfFile};
use mappings::{Processes, Where};
use records::{Branch, BranchType, Record, Sample};
use std::collections::{BTreeMap, HashMap};

/// Its row in the table.
pub const READER: Reader = Reader {
    name: "perf-data",
    summary: "perf.data of perf record",
    recognises: file::recognises,
    read,
    replay: None,
};

fn read(input: &dyn Input, _: &Settings) -> Result<Recording> {
    let bytes = &*input::whole(input)?;
    let file = PerfFile::read(bytes)?;
    if !file.attributes.iter().any(Attribute::has_branches) {
        return Err(no_branch_records("this perf.data has no branch records"));
    }
    if file.attributes.iter().any(Attribute::has_call_stacks_for_branches) {
        return Err(no_branch_records(
            "the branch records of this perf.data are call stacks (--call-graph lbr), which do not say how often a call was made",
        ));
    }
    let mut reading = Reading {
        file: &file,
        processes: Processes::default(),
        recording: Recording::default(),
        seen: Seen::default(),
        dso_of_mapping: HashMap::new(),
        pending: HashMap::new(),
        no_calls: BTreeMap::new(),
    };
    for position in records::in_time_order(&file)? {
        reading.take(records::parse(&file, position)?)?;
    }
    reading.settle();
    let Reading { mut recording, seen, no_calls, .. } = reading;
    for (why, count) in no_calls {
        recording.losses.add_many(
            &format!("branches that are no calls: {why}"),
            count,
            u128::from(count),
            "",
        );
    }
    if seen.samples == 0 {
        return Err(Error::failed("this perf.data holds no sample").with_hint(
            "did the recorded program run long enough? record it again, or with a lower period (-c)",
        ));
    }
    if seen.branches == 0 {
        return Err(no_branch_records(&format!(
            "none of the {} samples of this perf.data holds a branch",
            seen.samples
        )));
    }
    recording.source = format!("perf branch records ({})", file.event_names());
    recording.arch = file.arch.clone();
    recording.seen = format!("{} samples, {} branches", seen.samples, seen.branches);
    Ok(recording)
}

fn no_branch_records(message: &str) -> Error {
    Error::failed(message).with_hint(
        "record with: perf record -e branches:u -j any_call,u -- PROGRAM; where the machine has no branch records (most \
         virtual machines), use valgrind --tool=callgrind PROGRAM",
    )
}

/// What was met so far.
#[derive(Default)]
struct Seen {
    samples: u64,
    branches: u64,
}

struct Reading<'a> {
    file: &'a PerfFile<'a>,
    processes: Processes<'a>,
    recording: Recording,
    seen: Seen,
    dso_of_mapping: HashMap<usize, DsoId>,
    /// Branches since the address spaces last changed, which mean the same as long as they stay; most come back often.
    pending: HashMap<(u32, u64, u64, TransferKind), u64>,
    no_calls: BTreeMap<&'static str, u64>,
}

impl<'a> Reading<'a> {
    fn take(&mut self, record: Record<'a>) -> Result<()> {
        if matches!(record, Record::Mapping { .. } | Record::Exec { .. } | Record::Fork { .. }) {
            self.settle();
        }
        match record {
            Record::Mapping { process, mapping } => {
                // A library may be called through a linkage stub and leave no other trace: whatever could have run is a
                // DSO of the recording, so that the stub's function is found in it.
                if mapping.executable && mapping.is_file() {
                    dso(&mut self.recording, self.file, mapping.path, mapping.build_id.as_ref());
                }
                self.processes.map(process, mapping);
            }
            Record::Exec { process } => self.processes.exec(process),
            Record::Fork { parent, child } => self.processes.fork(parent, child)?,
            Record::Lost(count) => {
                self.recording.losses.add_many("records that the kernel had no room for", count, 0, "");
            }
            Record::Sample(sample) => self.sample(&sample),
            Record::Other => {}
        }
        Ok(())
    }

    fn sample(&mut self, sample: &Sample<'a>) {
        self.seen.samples += 1;
        let count = sample.branches.len() as u64;
        self.seen.branches += count;
        if sample.guest {
            self.recording.losses.add_many("branches of a guest system", count, u128::from(count), "");
            return;
        }
        if !sample.attribute.has_branches() {
            self.recording.losses.add("samples of an event without branch records", 0, "");
            return;
        }
        if let Some(address) = sample.address {
            match self.place(sample.process, address) {
                Ok(place) => self.recording.add_samples(place, u128::from(sample.period)),
                Err(why) => self.recording.losses.add(
                    &format!("own cost of samples {why}"),
                    u128::from(sample.period),
                    "",
                ),
            }
        }
        for branch in sample.branches.iter() {
            self.branch(sample.process, sample.attribute, &branch);
        }
    }

    /// One branch: to be settled if it may be a call, counted if not.
    fn branch(&mut self, process: u32, attribute: &Attribute, branch: &Branch) {
        let kind = match branch.kind {
            _ if branch.aborted => Err("transaction aborts"),
            BranchType::Call => Ok(TransferKind::Call),
            BranchType::Untyped if attribute.records_calls_only() => Ok(TransferKind::Call),
            BranchType::Untyped => Ok(TransferKind::Branch),
            BranchType::Other(name) => Err(name),
        };
        match kind {
            Ok(kind) => *self.pending.entry((process, branch.from, branch.to, kind)).or_default() += 1,
            Err(why) => *self.no_calls.entry(why).or_default() += 1,
        }
    }

    /// Puts what is pending into the recording, or into the ledger where an end is in no file.
    fn settle(&mut self) {
        let mut pending: Vec<_> = self.pending.drain().collect();
        pending.sort_unstable();
        for ((process, from, to, kind), count) in pending {
            let weight = u128::from(count);
            self.recording.total += weight;
            if from == 0 || to == 0 {
                self.recording.losses.add_many("branches without an address", count, weight, "");
                continue;
            }
            let lost = match (self.place(process, from), self.place(process, to)) {
                (Ok(from), Ok(to)) => {
                    self.recording.add_transfer(from, to, kind, weight);
                    continue;
                }
                (Err(why), _) => format!("branches {why} (from there)"),
                (_, Err(why)) => format!("branches {why} (to there)"),
            };
            self.recording.losses.add_many(&lost, count, weight, "");
        }
    }

    /// The byte of a file at an address of a process, or why there is none.
    fn place(&mut self, process: u32, address: u64) -> std::result::Result<PlaceId, &'static str> {
        let (mapping, path, build_id, offset) = match self.processes.find(process, address) {
            Where::File { mapping, path, build_id, offset } => (mapping, path, build_id, offset),
            Where::Kernel => return Err("in the kernel"),
            Where::NoFile => {
                return Err("in code that no file holds (compiled while running, [vdso], anonymous)");
            }
            Where::Unmapped => return Err("at an address that was not mapped when it ran"),
        };
        let dso = match self.dso_of_mapping.get(&mapping) {
            Some(dso) => *dso,
            None => {
                let Ok(text) = std::str::from_utf8(path) else {
                    return Err("in a file whose name is not UTF-8");
                };
                let build_id = build_id.or_else(|| self.file.build_ids.get(path)).cloned();
                let dso = self.recording.dso(RecordedDso { path: text.to_owned(), build_id });
                self.dso_of_mapping.insert(mapping, dso);
                dso
            }
        };
        Ok(self.recording.place(Place { dso: Some(dso), spot: Spot::FileOffset(offset) }))
    }
}

/// The DSO of a mapped file: its build-id comes with the mapping or from the file's table. None for a name that is not UTF-8.
fn dso(recording: &mut Recording, file: &PerfFile, path: &[u8], build_id: Option<&String>) -> Option<DsoId> {
    let text = std::str::from_utf8(path).ok()?;
    let build_id = build_id.or_else(|| file.build_ids.get(path)).cloned();
    Some(recording.dso(RecordedDso { path: text.to_owned(), build_id }))
}
