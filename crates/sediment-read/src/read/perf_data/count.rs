// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second pass over the records: every sample of the events that are read, in no order, on all cores; each
//! becomes counts of branches between addresses of a space ([`KeyCounts`]) and skipped items. Addresses are resolved at
//! the end, once each.

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
    /// Branches, or calls that lasted in stacks.
    pub(super) passages: u64,
    /// Branches that are no calls, by [`NoCall`].
    no_calls: [u64; NoCall::ALL.len()],
    /// Samples of guests and in the kernel.
    skipped: Skipped,
    /// Times of the first and the last sample; 0 where they have none.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// One worker's counts.
struct WorkerCounts<'a> {
    survey: &'a Survey<'a>,
    /// Straight runs between branches are counted.
    between_branches: bool,
    seen: SampleCounts,
    table: KeyCounts,
    /// Of one sample.
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
            // Also those that are not used are to be whole.
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
                    // In the kernel: the newest branch led into the function that called it.
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

    /// Counts the code between each branch and the one before it.
    fn straight_runs(&mut self, space: SpaceId, sample: &PerfSample) {
        // A branch record that was lost in between leaves a stretch that no program has.
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

    /// Neighbours in a stack (innermost first) are calls that lasted when the sample was taken. One that stands there several
    /// times counts once.
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

/// The instruction that the program itself was at, if the sample says.
fn running(sample: &PerfSample) -> Option<u64> {
    match sample.mode {
        CpuMode::User => sample.address,
        _ => user_chain(sample.chain, sample.mode).next(),
    }
}

/// The part of a call chain that lies in the program, innermost first: where it was, then where it was called from, which is
/// the byte before the one that it returns to.
fn user_chain(chain: RecordWords<'_>, mode: CpuMode) -> impl Iterator<Item = u64> {
    /// PERF_CONTEXT_*: the next addresses are of user space; the lowest of them.
    const USER: u64 = -512i64 as u64;
    const FIRST_CONTEXT: u64 = -4095i64 as u64;
    let mut in_user = mode == CpuMode::User;
    let mut innermost = true;
    chain.iter().filter_map(move |word| {
        if word >= FIRST_CONTEXT {
            in_user = word == USER;
            return None;
        }
        // A chain by frame pointers may end in the 0 that the first frame holds.
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
    /// The DSO of each file, by its id; None where its name cannot be one.
    dsos: Vec<Option<DsoId>>,
}

/// Address of a recording, or the reason why there is none.
type Lookup = std::result::Result<AddressId, Nowhere>;

/// The DSO that a mapped file is: its build-id comes with the mapping or from the table of the file.
pub(super) fn recorded_dso(survey: &Survey, file: super::mappings::FileId) -> Option<RecordedDso> {
    let mapped = &survey.spaces.files()[file.index()];
    let path = std::str::from_utf8(&mapped.path).ok()?.to_owned();
    let build_id = mapped.build_id.clone().or_else(|| survey.file.build_ids.get(&*mapped.path).cloned());
    Some(RecordedDso { path, build_id })
}

/// Adds the DSO that a mapped file is, with what was recorded of the file.
fn add_dso(survey: &Survey<'_>, file: super::mappings::FileId, recording: &mut Recording) -> Option<DsoId> {
    let dso = recording.dso(recorded_dso(survey, file)?);
    recording.file_mut(dso).append(survey.spaces.recorded(file));
    Some(dso)
}

impl<'a> AddressResolver<'a> {
    /// A library may be called through a linkage stub and leave no other trace: whatever could have run is a DSO of the
    /// recording, so that the stub's function is found in it.
    fn new(survey: &'a Survey<'a>, recording: &mut Recording) -> Self {
        let could_run = |file: &_| survey.spaces.could_run(*file);
        let mut dsos = vec![None; survey.spaces.files().len()];
        for file in survey.spaces.file_ids().filter(could_run) {
            dsos[file.index()] = add_dso(survey, file, recording);
        }
        Self { survey, dsos }
    }

    /// Puts the counts into the recording, or into its skipped items where an end is in no file. Sorted by space.
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

    /// The byte of a file at an address of a space, or why there is none.
    fn find(&mut self, space: SpaceId, address: u64, recording: &mut Recording) -> Lookup {
        // Branches without one end have 0 there; nothing is ever mapped so low.
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
            // The ends of a branch that is no call are places by now, and that is all.
            CountKind::Passed => return,
            CountKind::Call => TransferKind::Call,
            CountKind::Branch => TransferKind::Branch,
        };
        recording.total = recording.total.saturating_add(weight);
        // A call in a stack weighs its samples' periods, and how many there were is not kept.
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
