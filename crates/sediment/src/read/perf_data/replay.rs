// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which things ran, as far as branch records know it: each sample's branches follow each other, those of
//! different samples do not. So the samples are told in any order, on all cores, to whoever does not want them in their own.
//!
//! What an address is, each worker finds once and keeps in a table of its own.

use super::attribute::Evidence;
use super::count::recorded_dso;
use super::mappings::{SpaceId, Where};
use super::records::{Mode, Record, Sample, When, kind};
use super::stream::{Batch, in_order, on_all_cores, workers};
use super::survey::Survey;
use crate::counts::written_table;
use crate::error::Result;
use crate::read::replay::Told;
use crate::read::{DsoId, Input, Listener, Place, PlaceId, Recording, Settings, Spot, Step};
use std::sync::{Mutex, PoisonError};

/// Tells the steps.
pub(super) fn steps(
    input: &dyn Input,
    _: &Settings,
    recording: &Recording,
    listener: &mut dyn Listener,
) -> Result<()> {
    let survey = Survey::of(input)?;
    if survey.evidence != Evidence::BranchStacks {
        return Ok(());
    }
    let ids = survey.spaces.file_ids();
    let dsos: Vec<Option<DsoId>> =
        ids.map(|file| recorded_dso(&survey, file).and_then(|dso| recording.find_dso(&dso))).collect();
    let files = Files { survey: &survey, recording, dsos: &dsos };
    let told = Told::of(input.length(), TOLD, listener);
    let listeners = listener.for_workers(workers(input.length()));
    if listeners.is_empty() {
        drop(listeners);
        let mut teller = Teller::new(&files, told);
        return in_order(survey.file.records(), |batch| teller.tell(batch, listener));
    }
    let count = listeners.len();
    let listeners = Mutex::new(listeners);
    let new = || {
        let listener = listeners.lock().unwrap_or_else(PoisonError::into_inner).pop();
        (Teller::new(&files, told), listener)
    };
    on_all_cores(survey.file.records(), count, new, |(teller, listener), batch| match listener {
        Some(listener) => teller.tell(batch, *listener),
        None => Ok(()),
    })
    .map(|_| ())
}

/// What runs near is counted in as many samples as so many bytes hold.
const TOLD: u64 = 16 << 20;

/// What addresses are.
struct Files<'a> {
    survey: &'a Survey<'a>,
    recording: &'a Recording,
    dsos: &'a [Option<DsoId>],
}

impl Files<'_> {
    fn place(&self, space: SpaceId, address: u64) -> Option<PlaceId> {
        let Where::File { file, offset } = self.survey.spaces.find(space, address) else { return None };
        let dso = self.dsos[file.index()]?;
        self.recording.find_place(&Place { dso: Some(dso), spot: Spot::FileOffset(offset) })
    }
}

/// One worker.
struct Teller<'a> {
    files: &'a Files<'a>,
    told: Told,
    known: Known,
    /// Of one sample, the oldest first.
    addresses: Vec<u64>,
    steps: Vec<Step>,
}

impl<'a> Teller<'a> {
    fn new(files: &'a Files<'a>, told: Told) -> Self {
        let known = Known::new(files.recording.places().len());
        Self { files, told, known, addresses: Vec::new(), steps: Vec::new() }
    }

    fn tell(&mut self, batch: &Batch, listener: &mut dyn Listener) -> Result<()> {
        let survey = self.files.survey;
        let events = &survey.file.events;
        let mut left = batch.cursor();
        while left.len() > 0 {
            let sequence = batch.sequence_at(left.len());
            let record = Record::next(&mut left)?;
            if record.kind != kind::SAMPLE || !self.told.has(sequence) {
                continue;
            }
            let index = events.index_of(kind::SAMPLE, record.body);
            if !survey.read[index] {
                continue;
            }
            let sample = Sample::read(&events.attributes[index], &record)?;
            if sample.mode == Mode::Guest || sample.branches.len() == 0 {
                continue;
            }
            let space = survey.spaces.at(sample.process, When { time: sample.time, sequence });
            self.addresses.clear();
            self.addresses.extend(sample.branches.iter().rev().flat_map(|branch| [branch.from, branch.to]));
            if sample.mode == Mode::User {
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

/// What addresses are: a table in which a newer address takes the place of an older one where too many come together.
struct Known(Vec<Entry>);

/// An address of a space and the place there, by its id and 1, or 0 for none. Address 0 is no place, as an empty entry says.
type Entry = (u64, u32, u32);

impl Known {
    /// Entries that an address may have: enough that it is found, as long as all fit.
    const TRIED: usize = 16;
    const MOST: usize = 1 << 22;

    /// For so many addresses.
    fn new(addresses: usize) -> Self {
        Self(written_table((0, 0, 0), (2 * addresses).next_power_of_two().clamp(1 << 10, Self::MOST)))
    }

    /// Hands on the places of these addresses, in their order.
    ///
    /// The table is larger than the caches. All first entries are looked at before the first search, as these waits overlap.
    fn each(
        &mut self,
        space: SpaceId,
        addresses: &[u64],
        find: impl Fn(u64) -> Option<PlaceId>,
        mut then: impl FnMut(PlaceId),
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
                    then(PlaceId(entry.2 - 1));
                }
            }
        }
    }
}
