// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the time order as far as branch records have it: the branches of one sample follow each other, but branches
//! of different samples do not. Therefore, for a listener that does not need the samples in their order, they are
//! replayed in any order on all cores.
//!
//! Each worker looks up an address once and caches the result in a table of its own.

use super::attribute::SampleContent;
use super::count::recorded_dso;
use super::mappings::{FileLookup, SpaceId, When};
use super::records::{CpuMode, PerfRecord, PerfSample, kind};
use super::stream::in_order;
use super::survey::Survey;
use crate::read::replay::ReplaySampling;
use crate::read::{AddressId, DsoId, Input, Listener, ReadSettings, RecordedAddress, Recording, Spot, Step};
use sediment_core::counts::written_table;
use sediment_core::error::Result;

/// Replays the steps.
pub(super) fn steps(
    input: &dyn Input,
    _: &ReadSettings,
    recording: &Recording,
    listener: &mut dyn Listener,
) -> Result<()> {
    if listener.wants_all() {
        let survey = Survey::of(input)?;
        return match FileAddresses::of(&survey, recording) {
            Some(files) => {
                let mut teller = Teller::new(&files);
                in_order(survey.file.records(), |batch| teller.tell(batch.records(), listener))
            }
            None => Ok(()),
        };
    }
    let told = ReplaySampling::of(input.length(), TOLD, listener);
    let (survey, retained) = Survey::keeping(input, Some(told))?;
    let Some(files) = FileAddresses::of(&survey, recording) else { return Ok(()) };
    let mut listeners = listener.for_workers(retained.len());
    if listeners.len() < retained.len() {
        drop(listeners);
        let mut teller = Teller::new(&files);
        return retained.iter().try_for_each(|retained| teller.tell(retained.records(), listener));
    }
    std::thread::scope(|scope| {
        let workers = retained.iter().zip(&mut listeners);
        let telling: Vec<_> = workers
            .map(|(retained, listener)| {
                scope.spawn(|| Teller::new(&files).tell(retained.records(), *listener))
            })
            .collect();
        telling
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Number of bytes of samples that are replayed for affinity edges.
const TOLD: u64 = 16 << 20;

/// Addresses of a recording, by file.
struct FileAddresses<'a> {
    survey: &'a Survey<'a>,
    recording: &'a Recording,
    dsos: Vec<Option<DsoId>>,
}

impl<'a> FileAddresses<'a> {
    /// `None` if the samples have no order.
    fn of(survey: &'a Survey<'a>, recording: &'a Recording) -> Option<Self> {
        if survey.content != SampleContent::BranchStacks {
            return None;
        }
        let dso_of = |file| recorded_dso(survey, file).and_then(|dso| recording.find_dso(&dso));
        let dsos = survey.spaces.file_ids().map(dso_of).collect();
        Some(Self { survey, recording, dsos })
    }

    fn place(&self, space: SpaceId, address: u64) -> Option<AddressId> {
        let FileLookup::File { file, offset } = self.survey.spaces.find(space, address) else {
            return None;
        };
        let dso = self.dsos[file.index()]?;
        self.recording.find_address(&RecordedAddress { dso: Some(dso), spot: Spot::FileOffset(offset) })
    }
}

/// State of one worker.
struct Teller<'a> {
    files: &'a FileAddresses<'a>,
    known: AddressCache,
    /// Addresses of one sample, the oldest first.
    addresses: Vec<u64>,
    steps: Vec<Step>,
}

impl<'a> Teller<'a> {
    fn new(files: &'a FileAddresses<'a>) -> Self {
        let known = AddressCache::new(files.recording.addresses().len());
        Self { files, known, addresses: Vec::new(), steps: Vec::new() }
    }

    fn tell<'r>(
        &mut self,
        records: impl Iterator<Item = Result<(u64, PerfRecord<'r>)>>,
        listener: &mut dyn Listener,
    ) -> Result<()> {
        let survey = self.files.survey;
        let events = &survey.file.events;
        for record in records {
            let (sequence, record) = record?;
            if record.kind != kind::SAMPLE {
                continue;
            }
            let index = events.index_of(kind::SAMPLE, record.body);
            if !survey.read[index] {
                continue;
            }
            let sample = PerfSample::read(&events.attributes[index], &record)?;
            if sample.mode == CpuMode::Guest || sample.branches.len() == 0 {
                continue;
            }
            let space = survey.spaces.at(sample.process, When { time: sample.time, sequence });
            self.addresses.clear();
            self.addresses.extend(sample.branches.iter().rev().flat_map(|branch| [branch.from, branch.to]));
            if sample.mode == CpuMode::User {
                self.addresses.extend(sample.address);
            }
            let thread = u64::from(sample.thread);
            let Self { steps, known, files, .. } = self;
            steps.clear();
            steps.push(Step::Gap { thread });
            let mut before = None;
            known.each(
                space,
                &self.addresses,
                |address| files.place(space, address),
                |place| {
                    if before != Some(place) {
                        steps.push(Step::Run { thread, place });
                        before = Some(place);
                    }
                },
            );
            listener.steps(steps);
        }
        Ok(())
    }
}

/// Cache of addresses: a newer one replaces an older one if too many share a slot.
struct AddressCache(Vec<CachedAddress>);

/// An address of a space, and the id of the recording's address plus 1, or 0 without one. Address 0 marks an empty
/// entry.
type CachedAddress = (u64, u32, u32);

impl AddressCache {
    /// Number of entries in which an address may be: enough to find it as long as all addresses fit.
    const TRIED: usize = 16;
    const MOST: usize = 1 << 22;

    /// Makes a cache for this number of addresses.
    fn new(addresses: usize) -> Self {
        Self(written_table((0, 0, 0), (2 * addresses).next_power_of_two().clamp(1 << 10, Self::MOST)))
    }

    /// Passes on the recording's addresses for these addresses, in their order.
    ///
    /// The table is larger than the processor's caches. All first entries are loaded before the first search, so that
    /// the waits for memory overlap.
    fn each(
        &mut self,
        space: SpaceId,
        addresses: &[u64],
        find: impl Fn(u64) -> Option<AddressId>,
        mut then: impl FnMut(AddressId),
    ) {
        const AT_ONCE: usize = 64;
        let mask = self.0.len() - 1;
        let shift = 64 - self.0.len().ilog2();
        for addresses in addresses.chunks(AT_ONCE) {
            let mut homes = [0; AT_ONCE];
            let mut met = 0;
            for (home, address) in homes.iter_mut().zip(addresses) {
                let hash = (address ^ u64::from(space.0) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                *home = (hash >> shift) as usize;
                met |= self.0[*home].0;
            }
            std::hint::black_box(met);
            for (home, address) in homes.into_iter().zip(addresses) {
                let mut tried = (home..home + Self::TRIED).map(|at| at & mask);
                let fits = |at: &usize| {
                    let (known, of, _) = self.0[*at];
                    known == 0 || (known, of) == (*address, space.0)
                };
                let at = tried.find(fits).unwrap_or(home);
                let entry = &mut self.0[at];
                if (entry.0, entry.1) != (*address, space.0) {
                    *entry = (*address, space.0, find(*address).map_or(0, |place| place.0 + 1));
                }
                if entry.2 > 0 {
                    then(AddressId(entry.2 - 1));
                }
            }
        }
    }
}
