// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which things ran, as far as branch records know it: each sample's branches follow each other, those of
//! different samples do not.
//!
//! Workers turn batches of records into steps, in whatever order they come; the steps are told in the order of the file. What
//! an address is, each worker finds once and keeps in a table of its own.

use super::attribute::Evidence;
use super::count::recorded_dso;
use super::mappings::{SpaceId, Where};
use super::records::{Mode, Record, Sample, When, kind};
use super::stream::{Batch, workers};
use super::survey::Survey;
use crate::error::Result;
use crate::read::{DsoId, Input, Place, PlaceId, Recording, Settings, Spot, Step};
use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Tells the steps.
pub(super) fn steps(
    input: &dyn Input,
    _: &Settings,
    recording: &Recording,
    step: &mut dyn FnMut(Step),
) -> Result<()> {
    let survey = Survey::of(input)?;
    if survey.evidence != Evidence::BranchStacks {
        return Ok(());
    }
    let ids = survey.spaces.file_ids();
    let dsos: Vec<Option<DsoId>> =
        ids.map(|file| recorded_dso(&survey, file).and_then(|dso| recording.find_dso(&dso))).collect();
    let teller = Teller { survey: &survey, recording, dsos: &dsos };
    let count = workers(input.length());
    let stream = Mutex::new(survey.file.records());
    // So many batches may be under way at once: who takes one needs a permit, which comes back when its steps have been told.
    let most = 4 * count;
    let (sender, receiver) = sync_channel::<(u64, Result<Vec<Step>>)>(most);
    let (permit, permits) = sync_channel::<()>(most);
    let permits = Mutex::new(permits);
    let worker = |sender: SyncSender<(u64, Result<Vec<Step>>)>| {
        let mut batch = Batch::default();
        let mut known = Known::default();
        loop {
            if permits.lock().unwrap_or_else(PoisonError::into_inner).recv().is_err() {
                return;
            }
            let more = stream.lock().unwrap_or_else(PoisonError::into_inner).next(&mut batch);
            let told = match more {
                Ok(false) => return,
                Ok(true) => teller.tell(&batch, &mut known),
                Err(error) => Err(error),
            };
            let failed = told.is_err();
            // Nobody listens once something has failed.
            if sender.send((batch.number, told)).is_err() || failed {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..count {
            let sender = sender.clone();
            scope.spawn(|| worker(sender));
        }
        drop(sender);
        for _ in 0..most {
            let _ = permit.try_send(());
        }
        let mut early: BTreeMap<u64, Result<Vec<Step>>> = BTreeMap::new();
        let mut next = 0;
        let mut result: Result<()> = Ok(());
        // All is received, so that no worker waits for ever. What comes early is at most what is under way.
        for (number, told) in receiver {
            early.insert(number, told);
            while let Some(told) = early.remove(&next) {
                next += 1;
                let _ = permit.try_send(());
                match told {
                    Ok(steps) if result.is_ok() => steps.into_iter().for_each(&mut *step),
                    Err(error) if result.is_ok() => result = Err(error),
                    _ => {}
                }
            }
        }
        result
    })
}

struct Teller<'a> {
    survey: &'a Survey<'a>,
    recording: &'a Recording,
    dsos: &'a [Option<DsoId>],
}

impl Teller<'_> {
    fn tell(&self, batch: &Batch, known: &mut Known) -> Result<Vec<Step>> {
        let events = &self.survey.file.events;
        let mut steps = Vec::new();
        let mut left = batch.cursor();
        while left.len() > 0 {
            let sequence = batch.sequence_at(left.len());
            let record = Record::next(&mut left)?;
            if record.kind != kind::SAMPLE {
                continue;
            }
            let index = events.index_of(kind::SAMPLE, record.body);
            if !self.survey.read[index] {
                continue;
            }
            let sample = Sample::read(&events.attributes[index], &record)?;
            if sample.mode == Mode::Guest || sample.branches.len() == 0 {
                continue;
            }
            let space = self.survey.spaces.at(sample.process, When { time: sample.time, sequence });
            let thread = u64::from(sample.thread);
            steps.push(Step::Gap { thread });
            let mut before = None;
            let mut run = |address: u64| {
                let place = known.get_or(space, address, || self.place(space, address));
                if place.is_some() && place != before {
                    steps.extend(place.map(|place| Step::Run { thread, place }));
                    before = place;
                }
            };
            for branch in sample.branches.iter().rev() {
                run(branch.from);
                run(branch.to);
            }
            if let (Mode::User, Some(address)) = (sample.mode, sample.address) {
                run(address);
            }
        }
        Ok(steps)
    }

    fn place(&self, space: SpaceId, address: u64) -> Option<PlaceId> {
        let Where::File { file, offset } = self.survey.spaces.find(space, address) else { return None };
        let dso = self.dsos[file.index()]?;
        self.recording.find_place(&Place { dso: Some(dso), spot: Spot::FileOffset(offset) })
    }
}

/// What addresses are: a cache in which a newer address takes the place of an older one.
struct Known(Vec<(SpaceId, u64, Option<PlaceId>)>);

impl Default for Known {
    fn default() -> Self {
        // Address 0 of no space is no place, as is said here.
        Self(vec![(SpaceId(0), 0, None); Self::SIZE])
    }
}

impl Known {
    const SIZE: usize = 1 << 18;

    fn get_or(
        &mut self,
        space: SpaceId,
        address: u64,
        find: impl FnOnce() -> Option<PlaceId>,
    ) -> Option<PlaceId> {
        let hash = (address ^ u64::from(space.0) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = &mut self.0[(hash >> (64 - Self::SIZE.ilog2())) as usize];
        if (entry.0, entry.1) != (space, address) {
            *entry = (space, address, find());
        }
        entry.2
    }
}
