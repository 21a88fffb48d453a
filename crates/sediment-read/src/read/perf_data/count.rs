// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second pass over the records. It reads every sample of the chosen events in any order, on all cores, and counts
//! branches between addresses of a space ([`KeyCounts`]) and skipped items. Each address is resolved once at the end.

use super::attribute::{Attribute, SampleContent};
use super::mappings::{FileLookup, SpaceId, When};
use super::records::{BranchEntry, BranchType, CpuMode, PerfSample, RecordWords, kind};
use super::stream::{Batch, on_all_cores, workers};
use super::survey::Survey;
use super::table::{CountKind, Key, KeyCounts};
use crate::read::{
    AddressId, DsoId, Input, RecordedAddress, RecordedDso, Recording, Spot, StraightRun, TransferKind,
};
use sediment_core::error::Result;
use sediment_core::skipped::{Amount, NoCall, Nowhere, Reason, Skipped, both};

/// Counts of samples and their parts.
#[derive(Debug, Default)]
pub(super) struct SampleCounts {
    pub(super) samples: u64,
    /// Number of branches, or of calls in stacks that had not returned.
    pub(super) passages: u64,
    /// Number of branches that are not calls, by [`NoCall`].
    no_calls: [u64; NoCall::ALL.len()],
    /// Samples of guests and in the kernel.
    skipped: Skipped,
    /// Times of the first and the last sample; 0 without times.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// One worker's counts.
struct WorkerCounts<'a> {
    survey: &'a Survey<'a>,
    /// True if straight runs between branches are counted.
    between_branches: bool,
    seen: SampleCounts,
    table: KeyCounts,
    /// Keys of one sample.
    keys: Vec<Key>,
    stack: Vec<u64>,
    pairs: Vec<(u64, u64)>,
}

/// Counts all samples into the recording.
pub(super) fn count(
    survey: &Survey,
    input: &dyn Input,
    between_branches: bool,
    recording: &mut Recording,
) -> Result<SampleCounts> {
    let new = || WorkerCounts {
        survey,
        between_branches,
        seen: SampleCounts::default(),
        table: KeyCounts::default(),
        keys: Vec::new(),
        stack: Vec::new(),
        pairs: Vec::new(),
    };
    let mut all =
        on_all_cores(survey.file.records(), workers(input.length()), new, WorkerCounts::take)?.into_iter();
    let (mut seen, mut table) = all.next().map(|first| (first.seen, first.table)).unwrap_or_default();
    for counts in all {
        seen.add(&counts.seen);
        table.append(counts.table);
    }
    AddressResolver::new(survey, recording).settle(table.into_sorted(), recording);
    seen.add_skipped(recording);
    Ok(seen)
}

impl SampleCounts {
    fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.passages += other.passages;
        self.no_calls.iter_mut().zip(other.no_calls).for_each(|(sum, more)| *sum += more);
        self.skipped.append(&other.skipped);
        self.first = [self.first, other.first].into_iter().filter(|time| *time != 0).min().unwrap_or(0);
        self.last = self.last.max(other.last);
    }

    fn add_skipped(&self, recording: &mut Recording) {
        for (why, count) in NoCall::ALL.iter().zip(self.no_calls) {
            recording.skipped.add_many(Reason::NoCall(*why), count, u128::from(count), "");
        }
        recording.skipped.append(&self.skipped);
    }
}

impl WorkerCounts<'_> {
    fn take(&mut self, batch: &Batch) -> Result<()> {
        let survey = self.survey;
        let events = &survey.file.events;
        for record in batch.records() {
            let (sequence, record) = record?;
            if record.kind != kind::SAMPLE {
                continue;
            }
            let index = events.index_of(kind::SAMPLE, record.body);
            let attribute = &events.attributes[index];
            // Unused samples must be complete, too.
            let sample = PerfSample::read(attribute, &record)?;
            if survey.read[index] {
                self.sample(attribute, &sample, sequence);
            }
        }
        Ok(())
    }

    fn sample(&mut self, attribute: &Attribute, sample: &PerfSample, sequence: u64) {
        self.seen.samples += 1;
        if sample.time != 0 {
            let first = &mut self.seen.first;
            *first = if *first == 0 { sample.time } else { (*first).min(sample.time) };
            self.seen.last = self.seen.last.max(sample.time);
        }
        if sample.mode == CpuMode::Guest {
            self.seen.skipped.add(Reason::GuestSample, 0, "");
            return;
        }
        let space = self.survey.spaces.at(sample.process, When { time: sample.time, sequence });
        match self.survey.content {
            SampleContent::BranchStacks => {
                self.own_cost(space, sample);
                self.seen.passages += sample.branches.len() as u64;
                let untyped =
                    if attribute.records_calls_only() { CountKind::Call } else { CountKind::Branch };
                self.keys.clear();
                for branch in sample.branches.iter() {
                    self.branch(space, branch, untyped);
                }
                if self.between_branches && attribute.records_all_branches() {
                    self.straight_runs(space, sample);
                }
                self.table.add_each(&self.keys);
            }
            SampleContent::SingleBranches => {
                self.seen.passages += 1;
                let from = sample.address.unwrap_or(0);
                self.table.add(Key::new(space, CountKind::Branch, from, sample.other_address), 1);
            }
            SampleContent::BranchesAsStack => {
                self.own_cost(space, sample);
                self.stack.clear();
                match running(sample) {
                    Some(address) => self.stack.push(address),
                    // In the kernel: the newest branch led to the function that called the kernel.
                    None => self.stack.extend(sample.branches.iter().next().map(|newest| newest.to)),
                }
                self.stack.extend(sample.branches.iter().map(|branch| branch.from));
                self.calls_of_stack(space, sample.period);
            }
            SampleContent::CallChains => {
                self.own_cost(space, sample);
                self.stack.clear();
                self.stack.extend(user_chain(sample.chain, sample.mode));
                self.calls_of_stack(space, sample.period);
            }
            SampleContent::AddressResolver | SampleContent::StackCopies | SampleContent::Nothing => {
                self.own_cost(space, sample)
            }
        }
    }

    fn own_cost(&mut self, space: SpaceId, sample: &PerfSample) {
        let Some(address) = sample.address else { return };
        if sample.mode == CpuMode::System || address >> 63 == 1 {
            self.seen.skipped.add(Nowhere::System.of(Amount::OwnCost), sample.period.into(), "");
        } else {
            self.table.add(Key::new(space, CountKind::Own, address, 0), sample.period);
        }
    }

    /// Counts the code between each branch and the previous one.
    fn straight_runs(&mut self, space: SpaceId, sample: &PerfSample) {
        // If a branch record was lost, the code between two branches is longer than in any program.
        const LONGEST: u64 = 1 << 16;
        let mut newer: Option<BranchEntry> = None;
        for older in sample.branches.iter() {
            if let Some(newer) = newer.filter(|newer| newer.from.wrapping_sub(older.to) < LONGEST) {
                self.keys.push(Key::new(space, CountKind::Straight, older.to, newer.from));
            }
            newer = Some(older);
        }
    }

    fn branch(&mut self, space: SpaceId, branch: BranchEntry, untyped: CountKind) {
        let kind = match branch.kind {
            BranchType::Call => CountKind::Call,
            BranchType::Untyped => untyped,
            BranchType::No(why) => {
                self.seen.no_calls[why as usize] += 1;
                match why {
                    NoCall::Return | NoCall::Jump | NoCall::IndirectJump => CountKind::Passed,
                    _ => return,
                }
            }
        };
        self.keys.push(Key::new(space, kind, branch.from, branch.to));
    }

    /// Counts neighbours in a stack (innermost first) as calls that had not returned when the sample was taken. A
    /// repeated pair counts once.
    fn calls_of_stack(&mut self, space: SpaceId, period: u64) {
        self.pairs.clear();
        self.pairs.extend(self.stack.windows(2).map(|pair| (pair[1], pair[0])));
        self.pairs.sort_unstable();
        self.pairs.dedup();
        self.seen.passages += self.pairs.len() as u64;
        for (from, to) in &self.pairs {
            self.table.add(Key::new(space, CountKind::Call, *from, *to), period);
        }
    }
}

/// Returns the executed instruction of the program itself, if the sample has it.
fn running(sample: &PerfSample) -> Option<u64> {
    match sample.mode {
        CpuMode::User => sample.address,
        _ => user_chain(sample.chain, sample.mode).next(),
    }
}

/// Returns the program's part of a call chain, innermost first: the executed address, then the call sites, which are
/// one byte before the return addresses.
fn user_chain(chain: RecordWords<'_>, mode: CpuMode) -> impl Iterator<Item = u64> {
    /// PERF_CONTEXT_*: the next addresses are in user space. This is the lowest of the markers.
    const USER: u64 = -512i64 as u64;
    const FIRST_CONTEXT: u64 = -4095i64 as u64;
    let mut in_user = mode == CpuMode::User;
    let mut innermost = true;
    chain.iter().filter_map(move |word| {
        if word >= FIRST_CONTEXT {
            in_user = word == USER;
            return None;
        }
        // A chain by frame pointers may end in the 0 of the first frame.
        if !in_user || word == 0 {
            return None;
        }
        let called_from = word.saturating_sub(u64::from(!innermost));
        innermost = false;
        Some(called_from)
    })
}

/// Resolves the addresses of a recording.
struct AddressResolver<'a> {
    survey: &'a Survey<'a>,
    /// The DSO of each file, by its id; `None` if its name is not a file's.
    dsos: Vec<Option<DsoId>>,
}

/// Address in a recording, or the reason why there is none.
type Lookup = std::result::Result<AddressId, Nowhere>;

/// Returns the DSO of a mapped file, with the build-id from the mapping or from the table of the file.
pub(super) fn recorded_dso(survey: &Survey, file: super::mappings::FileId) -> Option<RecordedDso> {
    let mapped = &survey.spaces.files()[file.index()];
    let path = std::str::from_utf8(&mapped.path).ok()?.to_owned();
    let build_id = mapped.build_id.clone().or_else(|| survey.file.build_ids.get(&*mapped.path).cloned());
    Some(RecordedDso { path, build_id })
}

/// Adds the DSO of a mapped file, with the recorded data on the file.
fn add_dso(survey: &Survey<'_>, file: super::mappings::FileId, recording: &mut Recording) -> Option<DsoId> {
    let dso = recording.dso(recorded_dso(survey, file)?);
    recording.file_mut(dso).append(survey.spaces.recorded(file));
    Some(dso)
}

impl<'a> AddressResolver<'a> {
    /// A library may be called through a linkage stub without leaving another trace. Therefore every file that could
    /// have run becomes a DSO of the recording, so that the stub's function is found there.
    fn new(survey: &'a Survey<'a>, recording: &mut Recording) -> Self {
        let could_run = |file: &_| survey.spaces.could_run(*file);
        let mut dsos = vec![None; survey.spaces.files().len()];
        for file in survey.spaces.file_ids().filter(could_run) {
            dsos[file.index()] = add_dso(survey, file, recording);
        }
        Self { survey, dsos }
    }

    /// Adds the counts to the recording, or to its skipped items if an end is not in a file. They are sorted by space.
    fn settle(&mut self, counts: Vec<(Key, u64)>, recording: &mut Recording) {
        let mut addresses: Vec<u64> = Vec::new();
        for of_space in counts.chunk_by(|a, b| a.0.space() == b.0.space()) {
            addresses.clear();
            addresses.extend(of_space.iter().flat_map(|(key, _)| [key.from, key.to]));
            addresses.sort_unstable();
            addresses.dedup();
            let space = of_space[0].0.space();
            let found: Vec<Lookup> =
                addresses.iter().map(|address| self.find(space, *address, recording)).collect();
            let at = |address: u64| match addresses.binary_search(&address) {
                Ok(index) => found[index],
                Err(_) => Err(Nowhere::Unmapped),
            };
            for (key, count) in of_space {
                self.settle_one(*key, *count, &at, recording);
            }
        }
    }

    /// Returns the byte of a file for an address of a space, or the reason why there is none.
    fn find(&mut self, space: SpaceId, address: u64, recording: &mut Recording) -> Lookup {
        // Branches without one end have 0 there; nothing is mapped at such low addresses.
        if address == 0 {
            return Err(Nowhere::NoAddress);
        }
        let (file, offset) = match self.survey.spaces.find(space, address) {
            FileLookup::File { file, offset } => (file, offset),
            FileLookup::Nowhere(why) => return Err(why),
        };
        let slot = &mut self.dsos[file.index()];
        if slot.is_none() {
            *slot = add_dso(self.survey, file, recording);
        }
        let Some(dso) = *slot else { return Err(Nowhere::NotUtf8) };
        Ok(recording.place(RecordedAddress { dso: Some(dso), spot: Spot::FileOffset(offset) }))
    }

    fn settle_one(&self, key: Key, count: u64, at: &impl Fn(u64) -> Lookup, recording: &mut Recording) {
        let weight = u128::from(count);
        let kind = match key.kind() {
            CountKind::Own => {
                match at(key.from) {
                    Ok(place) => recording.add_samples(place, weight),
                    Err(why) => recording.skipped.add(why.of(Amount::SampleCost), weight, ""),
                }
                return;
            }
            CountKind::Straight => {
                if let (Ok(from), Ok(to)) = (at(key.from), at(key.to)) {
                    recording.add_straight_run(StraightRun { from, to: Some(to), count });
                }
                return;
            }
            // The ends of a branch that is not a call are now addresses of the recording, and it has no further effect.
            CountKind::Passed => return,
            CountKind::Call => TransferKind::Call,
            CountKind::Branch => TransferKind::Branch,
        };
        recording.total = recording.total.saturating_add(weight);
        // A call in a stack has the sum of its samples' periods as its weight; the number of samples is not kept.
        let (amount, items) = match self.survey.content {
            SampleContent::BranchStacks | SampleContent::SingleBranches => (Amount::Branches, count),
            _ => (Amount::Calls, 1),
        };
        let reason = match both(amount, at(key.from), at(key.to)) {
            _ if key.from == 0 || key.to == 0 => Nowhere::NoAddress.of(amount),
            Ok((from, to)) => return recording.add_transfer(from, to, kind, weight),
            Err(reason) => reason,
        };
        recording.skipped.add_many(reason, items, weight, "");
    }
}
