// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Recording`], the data of one profiler, and [`READERS`], the table of its input formats.
//!
//! A reader takes an [`Input`] and returns a [`Recording`] with its skipped items, or an error with line or offset. It
//! keeps the profiler's names and does not resolve addresses; [`crate::resolve`] does both. A recording has sums, but
//! no time order. If a source has the order, its reader replays it ([`replay()`]) step by step with the recording's
//! addresses, after these are resolved.
//!
//! To add a format, add a file here, a row in [`READERS`], a folder in tests/golden/read and a page in docs/formats.

mod bolt;
mod bolt_aggregated;
mod build_ids;
mod callgrind;
mod entry_trace;
mod evidence;
mod executed;
mod folded;
mod former;
mod frame_names;
mod gmon;
pub(crate) mod input;
mod lackey;
mod locations;
mod numbers;
mod otlp;
mod perf_data;
mod perf_report;
mod perf_script;
mod perf_stacks;
pub mod pprof;
mod protobuf;
mod replay;
mod sample_profile;
mod stacks;
mod temporal_profile;
mod uftrace;

pub use build_ids::BuildIdList;
pub use evidence::{FileEvidence, Inode, RecordingOrigin};
pub use executed::{ExecutedInstruction, StraightRun};
pub use former::{FORMER_FORMATS, FormerFormat};
pub use input::Input;
pub use perf_data::check_events;
pub use replay::{Listener, Step};
use sediment_core::profile::quality::RecordingQuality;
use sediment_core::profile::source::ProfileSource;

use hashbrown::HashTable;
use sediment_core::{Error, ErrorCode, Result, Skipped};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};

/// Settings for information that is not in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadSettings {
    /// Name of the reader to use, instead of the first one that recognises the content.
    pub format: Option<String>,
    /// Path or name of the recorded program, for sources that do not contain it.
    pub program: Option<String>,
    /// Direction in which call stacks were printed, for text that does not show it.
    pub stacks: Option<StackOrder>,
    /// True for one of several parts of a recording. A part may be empty, such as the file of a thread that did
    /// nothing; a whole recording may not.
    pub part: bool,
    /// Keep the executed code inside functions, if the file has it: [`Recording::executed`],
    /// [`Recording::straight_runs`], [`Recording::counts_by_samples`]. It takes time and memory.
    pub executions: bool,
}

impl ReadSettings {
    /// The named program as a DSO, for sources that do not contain it.
    fn program_dso(&self) -> Option<RecordedDso> {
        self.program.as_ref().map(|path| RecordedDso { path: path.clone(), build_id: None })
    }
}

/// Direction of a printed call stack: which end comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackOrder {
    /// The outermost caller.
    CallerFirst,
    /// The executed function.
    CalleeFirst,
}

/// An input format of recordings.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// Short name, also of its page in docs/formats and of its folder in tests/golden/read.
    pub name: &'static str,
    /// Program that writes this format.
    pub summary: &'static str,
    /// Recognises the format by the first [`HEAD`] bytes of a file (or all bytes); must be cheap and look only at the
    /// content.
    pub recognises: fn(&[u8]) -> bool,
    /// Reads a whole file.
    pub read: fn(&dyn Input, &ReadSettings) -> Result<Recording>,
    /// Replays the time order, if the format has it.
    pub replay: Option<Replay>,
}

/// Replay of a format's time order.
#[derive(Debug, Clone, Copy)]
pub struct Replay {
    /// True if it replays the whole run from its start, so that first uses can be ranked; false for parts of a run.
    pub whole: bool,
    /// Replays the steps in order, with addresses of the recording that was read from this input (the recording may
    /// contain other inputs too). Addresses that the recording does not have are skipped.
    pub steps: ReplayFunction,
}

/// A function that reads an input again and passes each [`Step`] to a [`Listener`].
pub type ReplayFunction = fn(&dyn Input, &ReadSettings, &Recording, &mut dyn Listener) -> Result<()>;

/// All formats, the more specific ones first.
pub const READERS: &[Reader] = &[
    perf_data::READER,
    gmon::READER,
    pprof::READER,
    otlp::READER,
    callgrind::READER,
    lackey::READER,
    perf_script::READER,
    perf_stacks::READER,
    perf_report::READER,
    bolt::READER,
    bolt_aggregated::READER,
    sample_profile::READER,
    temporal_profile::READER,
    uftrace::READER,
    folded::READER,
    entry_trace::READER,
];

/// Number of first bytes of a file that decide its format.
pub const HEAD: usize = 1 << 16;

/// Magic numbers of compressed files, and the commands that decompress them to standard output.
const PACKED: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "gzip -dc"),
    (b"\xfd7zXZ\0", "xz -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    (b"BZh", "bzip2 -dc"),
    (b"\x04\x22\x4d\x18", "lz4 -dc"),
    (b"PK\x03\x04", "unzip -p"),
];

/// Reads a recording in the format that the content shows.
///
/// # Errors
/// If the input is empty, no reader recognises it, or its reader refuses it.
pub fn read(input: &dyn Input, settings: &ReadSettings) -> Result<Recording> {
    let mut recording = (find(input, settings)?.read)(input, settings)?;
    let counted = !recording.executed.is_empty() || !recording.straight_runs.is_empty();
    recording.counts_by_samples = settings.executions && !counted;
    Ok(recording)
}

/// Replays the steps of a recording that was read before; false if the format does not have them.
///
/// # Errors
/// As [`read`].
pub fn replay(
    input: &dyn Input,
    settings: &ReadSettings,
    recording: &Recording,
    listener: &mut dyn Listener,
) -> Result<bool> {
    match find(input, settings)?.replay {
        Some(replay) => (replay.steps)(input, settings, recording, listener).map(|()| true),
        None => Ok(false),
    }
}

/// Returns the reader for an input: the one named in the settings, otherwise the first one that recognises the content.
///
/// # Errors
/// If the input is empty, no reader recognises it, or no reader has the name.
pub fn find(input: &dyn Input, settings: &ReadSettings) -> Result<&'static Reader> {
    if let Some(name) = &settings.format {
        if let Some(former) = FormerFormat::named(name) {
            return Err(former.error());
        }
        return READERS.iter().find(|reader| reader.name == name).ok_or_else(|| {
            let names: Vec<&str> = READERS.iter().map(|reader| reader.name).collect();
            Error::new(ErrorCode::UnknownFormat, format!("unknown format {name}"))
                .with_hint(format!("supported: {}", names.join(", ")))
        });
    }
    let head = input::head(input, HEAD)?;
    if head.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::new(ErrorCode::EmptyInput, "empty file")
            .with_hint(
                "did the recorder write elsewhere, or end before it wrote anything? callgrind leaves NAME empty next to NAME.1 (dumps) or NAME-01 (threads): import those",
            ));
    }
    if let Some(former) = FormerFormat::recognise(&head) {
        return Err(former.error());
    }
    READERS.iter().find(|reader| (reader.recognises)(&head)).ok_or_else(|| {
        let first = &head[..head.len().min(4096)];
        if memchr::memmem::find(first, b"digraph").is_some() {
            // pprof draws its legend with this id.
            if memchr::memmem::find(first, b"subgraph cluster_L").is_some() {
                return Error::new(
                    ErrorCode::NotARecording,
                    "a picture by pprof with rounded numbers, not a profile",
                )
                .with_hint("import the original profile: pprof -proto -output=profile.pb.gz FILE");
            }
            return Error::new(ErrorCode::NotARecording, "this is a profile already, not a recording")
                .with_hint("use it directly: sediment show, merge, order");
        }
        if head.starts_with(&object::elf::ELFMAG) {
            return Error::new(ErrorCode::NotARecording, "a program or library, not a recording")
                .with_hint("give it with --binary, together with the profiler's file");
        }
        if head.starts_with(b"PERFFILE") {
            return Error::new(
                ErrorCode::UnknownFormat,
                "perf.data version 1, which perf wrote until Linux 3.0",
            )
            .with_hint("print it with perf from that time (perf script > script.txt), and import the text");
        }
        if let Some((_, unpack)) = PACKED.iter().find(|(magic, _)| head.starts_with(magic)) {
            return Error::new(ErrorCode::NotARecording, "a compressed file")
                .with_hint(format!("unpack it first: {unpack} FILE | sediment import -"));
        }
        if entry_trace::is_list(&head) {
            return Error::new(ErrorCode::UnknownFormat, "a list of words in an unknown format")
                .with_hint("if they are functions in the order of their entries: --format entry-trace");
        }
        let known: Vec<&str> = READERS.iter().map(|reader| reader.summary).collect();
        Error::new(ErrorCode::UnknownFormat, "unknown file format")
            .with_found(head.split(|b| *b == b'\n').next().unwrap_or_default())
            .with_hint(format!("supported: {}", known.join("; ")))
    })
}

/// A DSO of one [`Recording`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsoId(pub u32);

/// Id of an address in one [`Recording`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressId(pub u32);

/// An executable or shared library as named by the profiler.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordedDso {
    /// Recorded path or name; private, and reduced to a label by [`crate::resolve`].
    pub path: String,
    /// Build-id in lower-case hex, if recorded.
    pub build_id: Option<String>,
}

/// A place in a DSO.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Spot {
    /// A function by the profiler's name, unchanged: it may have `@plt` and `@VERSION`.
    Symbol {
        /// The name.
        name: Vec<u8>,
        /// Source file in the profiler's notation, if it has one.
        file: Option<Vec<u8>>,
    },
    /// A byte of the DSO's file, by its offset in the file.
    FileOffset(u64),
    /// A byte of the DSO, by its virtual address in the ELF file.
    Address(u64),
}

/// A [`Spot`] in a DSO.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordedAddress {
    /// The DSO, if known.
    pub dso: Option<DsoId>,
    /// The place in it.
    pub spot: Spot,
}

/// Kind of a transfer from one address to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransferKind {
    /// A call.
    Call,
    /// The target will return to the source, but there is no call instruction.
    Uncertain,
    /// A branch of unknown type: a call if it leads to the first byte of a function and its source is not a return.
    Branch,
    /// The target began to run while the source was among the last 8 distinct executed functions.
    Affinity,
}

/// Data that one profiler recorded.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// Recorder.
    pub source: ProfileSource,
    /// Architecture as `uname -m` spells it, if recorded.
    pub arch: Option<String>,
    /// Amount of data read, to compare with the profiler's output: `3740 samples, 119424 branches`.
    pub seen: String,
    /// All recorded calls, including those that could not be kept.
    pub total: u128,
    /// Skipped items, by reason.
    pub skipped: Skipped,
    /// Quality, if the recorder measured it.
    pub quality: RecordingQuality,
    /// True if the target of every call is a return address in the callee, of its call to a counting function (`-pg`):
    /// [`crate::resolve`] recognises the executed binary by these addresses.
    pub return_addresses: bool,
    dsos: Vec<RecordedDso>,
    by_dso: HashMap<RecordedDso, DsoId>,
    addresses: Vec<RecordedAddress>,
    /// Ids of the addresses by their hash. Each address is kept once, because a hostile file can contain many.
    by_address: HashTable<AddressId>,
    hashing: RandomState,
    transfers: HashMap<(AddressId, AddressId, TransferKind), u128>,
    samples: HashMap<AddressId, u128>,
    first: HashMap<AddressId, u64>,
    executed: Vec<ExecutedInstruction>,
    straight_runs: Vec<StraightRun>,
    /// Code inside functions is counted by the addresses of samples, because there is nothing better.
    pub counts_by_samples: bool,
    /// True if it has no data on code inside functions other than the executed ones.
    pub tells_of_executed_functions: bool,
    /// Number of samples; 0 if the source counts calls or does not have the number.
    pub samples_taken: u64,
    /// Machine and time of the recording.
    pub origin: RecordingOrigin,
    files: BTreeMap<DsoId, FileEvidence>,
}

impl Recording {
    /// Returns the DSO with this path and build-id; adds it if it is new.
    pub fn dso(&mut self, dso: RecordedDso) -> DsoId {
        if let Some(&found) = self.by_dso.get(&dso) {
            return found;
        }
        let id = DsoId(self.dsos.len() as u32);
        self.dsos.push(dso.clone());
        self.by_dso.insert(dso, id);
        id
    }

    /// Returns the recorded data on the file of a DSO, mutable.
    pub(crate) fn file_mut(&mut self, dso: DsoId) -> &mut FileEvidence {
        self.files.entry(dso).or_default()
    }

    /// Returns the recorded data on the file of a DSO.
    #[must_use]
    pub fn file(&self, dso: DsoId) -> Option<&FileEvidence> {
        self.files.get(&dso)
    }

    /// Returns the id of this address; adds it if it is new.
    pub fn place(&mut self, place: RecordedAddress) -> AddressId {
        let Self { addresses, by_address, hashing, .. } = self;
        let hash = hashing.hash_one(&place);
        let same = |id: &AddressId| addresses[id.0 as usize] == place;
        if let Some(&found) = by_address.find(hash, same) {
            return found;
        }
        let id = AddressId(addresses.len() as u32);
        addresses.push(place);
        by_address.insert_unique(hash, id, |id| hashing.hash_one(&addresses[id.0 as usize]));
        id
    }

    /// Reserves space for `more` addresses.
    fn reserve_addresses(&mut self, more: usize) {
        let Self { addresses, by_address, hashing, .. } = self;
        addresses.reserve(more);
        by_address.reserve(more, |id| hashing.hash_one(&addresses[id.0 as usize]));
    }

    /// Returns the id of this address, if the recording has it.
    #[must_use]
    pub(crate) fn find_address(&self, place: &RecordedAddress) -> Option<AddressId> {
        let same = |id: &AddressId| self.addresses[id.0 as usize] == *place;
        self.by_address.find(self.hashing.hash_one(place), same).copied()
    }

    /// Returns the id of this DSO, if the recording has it.
    #[must_use]
    pub(crate) fn find_dso(&self, dso: &RecordedDso) -> Option<DsoId> {
        self.by_dso.get(dso).copied()
    }

    /// Adds to the count of transfers from one address to another.
    pub fn add_transfer(&mut self, from: AddressId, to: AddressId, kind: TransferKind, count: u128) {
        let sum = self.transfers.entry((from, to, kind)).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Adds to the own cost at an address, in the event of the source.
    pub fn add_samples(&mut self, place: AddressId, cost: u128) {
        let sum = self.samples.entry(place).or_default();
        *sum = sum.saturating_add(cost);
    }

    /// Sets the rank (from 0) at which this address was first executed; the lowest rank stays.
    pub fn set_first(&mut self, place: AddressId, rank: u64) {
        let kept = self.first.entry(place).or_insert(rank);
        *kept = (*kept).min(rank);
    }

    /// Adds executions of instructions.
    pub(crate) fn add_executed(&mut self, executed: impl Iterator<Item = ExecutedInstruction>) {
        self.executed.extend(executed);
    }

    /// Executions of instructions, in no particular order; an instruction that belongs to several functions or parts
    /// occurs several times.
    #[must_use]
    pub fn executed(&self) -> &[ExecutedInstruction] {
        &self.executed
    }

    /// Adds code executed without a jump.
    pub(crate) fn add_straight_run(&mut self, run: StraightRun) {
        self.straight_runs.push(run);
    }

    /// Code executed without a jump, in no particular order.
    #[must_use]
    pub fn straight_runs(&self) -> &[StraightRun] {
        &self.straight_runs
    }

    /// True if it already has affinity edges or ranks of first use: the reader has added the order itself, with weights
    /// that the steps of a replay do not have.
    #[must_use]
    pub fn tells_order(&self) -> bool {
        !self.first.is_empty() || self.transfers.keys().any(|(_, _, kind)| *kind == TransferKind::Affinity)
    }

    /// Adds another part of the same recording, such as the file of another thread.
    ///
    /// # Errors
    /// If the other part was recorded in another way, so that their counts are not comparable.
    pub fn append(&mut self, part: &Self) -> Result<()> {
        if self.source != part.source {
            return Err(Error::new(
                ErrorCode::IncompatibleInputs,
                format!(
                    "not a part of the same recording: recorded by {}, the files before it by {}",
                    part.source, self.source
                ),
            )
            .with_hint("import each file to its own profile, then use `sediment merge`"));
        }
        if self.arch != part.arch {
            self.arch = None;
        }
        self.return_addresses &= part.return_addresses;
        self.total = self.total.saturating_add(part.total);
        self.seen = format!("{}; {}", self.seen, part.seen);
        self.skipped.append(&part.skipped);
        self.quality.append(&part.quality);
        let dsos: Vec<DsoId> = part.dsos.iter().map(|dso| self.dso(dso.clone())).collect();
        let addresses: Vec<AddressId> = part
            .addresses
            .iter()
            .map(|place| {
                let dso = place.dso.map(|id| dsos[id.0 as usize]);
                self.place(RecordedAddress { dso, spot: place.spot.clone() })
            })
            .collect();
        let here = |place: AddressId| addresses[place.0 as usize];
        for (from, to, kind, count) in part.transfers() {
            self.add_transfer(here(from), here(to), kind, count);
        }
        for (place, cost) in part.samples() {
            self.add_samples(here(place), cost);
        }
        for (place, rank) in part.first_uses() {
            self.set_first(here(place), rank);
        }
        let executed =
            part.executed.iter().map(|one| ExecutedInstruction { function: here(one.function), ..*one });
        self.executed.extend(executed);
        let runs = part.straight_runs.iter().map(|run| StraightRun {
            from: here(run.from),
            to: run.to.map(here),
            ..*run
        });
        self.straight_runs.extend(runs);
        self.counts_by_samples &= part.counts_by_samples;
        self.tells_of_executed_functions |= part.tells_of_executed_functions;
        self.samples_taken = self.samples_taken.saturating_add(part.samples_taken);
        self.origin.append(&part.origin);
        for (dso, file) in &part.files {
            self.file_mut(dsos[dso.0 as usize]).append(file);
        }
        Ok(())
    }

    /// The DSOs, by id.
    #[must_use]
    pub fn dsos(&self) -> &[RecordedDso] {
        &self.dsos
    }

    /// The addresses, by id.
    #[must_use]
    pub fn addresses(&self) -> &[RecordedAddress] {
        &self.addresses
    }

    /// Returns all transfers, sorted.
    #[must_use]
    pub fn transfers(&self) -> Vec<(AddressId, AddressId, TransferKind, u128)> {
        let mut all: Vec<_> =
            self.transfers.iter().map(|(&(from, to, kind), &count)| (from, to, kind, count)).collect();
        all.sort_unstable();
        all
    }

    /// Number of transfers; each pair of addresses and kind counts once.
    #[must_use]
    pub(crate) fn transfer_count(&self) -> usize {
        self.transfers.len()
    }

    /// Returns the own cost by address, sorted by address.
    #[must_use]
    pub fn samples(&self) -> Vec<(AddressId, u128)> {
        let mut all: Vec<_> = self.samples.iter().map(|(&place, &cost)| (place, cost)).collect();
        all.sort_unstable();
        all
    }

    /// Returns the ranks of first use by address, sorted by address.
    #[must_use]
    pub fn first_uses(&self) -> Vec<(AddressId, u64)> {
        let mut all: Vec<_> = self.first.iter().map(|(&place, &rank)| (place, rank)).collect();
        all.sort_unstable();
        all
    }
}
