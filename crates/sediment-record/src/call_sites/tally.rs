// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of all programs of a recording, and the recording made from them.

use super::machine;
use super::modules::{PlannedModules, base_name};
use sediment_core::plural::counted;
use sediment_core::profile::quality::RecordingQuality;
use sediment_core::profile::source::ProfileSource;
use sediment_core::skipped::{Reason, Skipped};
use sediment_read::read::{AddressId, RecordedAddress, RecordedDso, Recording, Spot, Step, TransferKind};
use std::collections::BTreeMap;

/// A file's number and an address as linked.
pub(super) type FileAddress = (usize, u64);

/// Calls and first uses.
#[derive(Debug, Default)]
pub(super) struct CallTally {
    /// By call site and callee.
    calls: BTreeMap<(FileAddress, FileAddress), u64>,
    /// Number of the first call of a function, and of the first call from a call site. A function that nothing calls, such as
    /// a handler of signals, has run before its first call.
    first: BTreeMap<FileAddress, u32>,
    first_from: BTreeMap<FileAddress, u32>,
    /// Functions that resolvers have chosen, by resolver or by the first function of the name.
    pub(super) chosen: BTreeMap<FileAddress, FileAddress>,
    /// Number of calls whose callee is in no file.
    outside: u64,
    /// Number of indirect calls for which there was no room to store the target.
    pub(super) without_target: u64,
    /// Traced parts of runs, each of one thread: numbers of the addresses that ran, in order.
    pub(super) trace: Vec<(u64, Vec<u32>)>,
    /// Addresses in traced parts of runs, by their numbers.
    traced: Vec<FileAddress>,
    numbers: BTreeMap<FileAddress, u32>,
    /// Number of calls by which the counts may be wrong.
    pub(super) uncertain: f64,
}

impl CallTally {
    pub(super) fn add(&mut self, site: FileAddress, callee: Option<FileAddress>, calls: u64, first: u32) {
        let Some(callee) = callee else {
            self.outside = self.outside.saturating_add(calls);
            return;
        };
        let sum = self.calls.entry((site, callee)).or_default();
        *sum = sum.saturating_add(calls);
        if first > 0 {
            for (all, place) in [(&mut self.first, callee), (&mut self.first_from, site)] {
                let kept = all.entry(place).or_insert(first);
                *kept = (*kept).min(first);
            }
        }
    }

    /// Returns the number of an address in traced parts of runs.
    pub(super) fn number(&mut self, place: FileAddress) -> u32 {
        *self.numbers.entry(place).or_insert_with(|| {
            self.traced.push(place);
            (self.traced.len() - 1) as u32
        })
    }

    /// Replaces the counts of a recording of first uses alone: each call that was made counts once.
    pub(super) fn forget_counts(&mut self) {
        self.calls.values_mut().for_each(|count| *count = 1);
        (self.outside, self.without_target, self.uncertain) = (0, 0, 0.0);
    }

    /// Makes the recording, and the traced parts of runs.
    pub(super) fn recording(
        &self,
        modules: &PlannedModules,
        source: ProfileSource,
        skipped: &Skipped,
    ) -> (Recording, Vec<Step>) {
        let mut recording = Recording::default();
        recording.source = source;
        recording.arch = Some(machine::NAME.to_owned());
        recording.skipped.append(skipped);
        let dsos: Vec<_> = modules
            .all()
            .iter()
            .map(|module| {
                let (path, build_id) = (module.path.clone(), module.plan.build_id.clone());
                recording.dso(RecordedDso { path, build_id })
            })
            .collect();
        let mut ids: BTreeMap<FileAddress, AddressId> = BTreeMap::new();
        let mut id = |recording: &mut Recording, (module, address): FileAddress| {
            *ids.entry((module, address)).or_insert_with(|| {
                recording.place(RecordedAddress { dso: Some(dsos[module]), spot: Spot::Address(address) })
            })
        };
        let ranked = |all: &BTreeMap<FileAddress, u32>, is_callee| -> Vec<(u32, bool, FileAddress)> {
            all.iter().map(|(place, first)| (*first, is_callee, *place)).collect()
        };
        let mut by_rank = [ranked(&self.first_from, false), ranked(&self.first, true)].concat();
        by_rank.sort_unstable();
        for (rank, (.., place)) in by_rank.into_iter().enumerate() {
            let place = id(&mut recording, place);
            recording.set_first(place, rank as u64);
        }
        let mut calls = 0u128;
        for ((site, callee), count) in &self.calls {
            let (from, to) = (id(&mut recording, *site), id(&mut recording, *callee));
            recording.add_transfer(from, to, TransferKind::Call, u128::from(*count));
            calls += u128::from(*count);
        }
        let traced: Vec<AddressId> = self.traced.iter().map(|place| id(&mut recording, *place)).collect();
        let mut steps = Vec::new();
        for (thread, places) in &self.trace {
            let thread = *thread;
            steps.push(Step::Gap { thread });
            steps.extend(places.iter().map(|place| Step::Run { thread, place: traced[*place as usize] }));
        }
        let (mut sites, mut refused) = (0u64, 0u64);
        for module in modules.all() {
            sites += (module.plan.direct.len() + module.plan.indirect.len()) as u64;
            refused += module.plan.refused.values().sum::<u64>();
            let name = base_name(&module.path);
            if let Some(why) = module.plan.left_alone {
                recording.skipped.add(Reason::LeftFile, 0, format!("{name}: {why}"));
            }
            for (why, count) in &module.plan.refused {
                recording.skipped.add_many(Reason::RefusedSite, *count, 0, format!("{why} in {name}"));
            }
        }
        recording.skipped.add_many(Reason::CallIntoMemory, self.outside.min(1), u128::from(self.outside), "");
        let without = self.without_target;
        recording.skipped.add_many(Reason::UncountedTarget, without.min(1), u128::from(without), "");
        recording.total = calls + u128::from(self.outside) + u128::from(without);
        recording.quality = RecordingQuality {
            covered: RecordingQuality::share(sites as f64 / (sites + refused) as f64),
            uncertain: RecordingQuality::share(self.uncertain / recording.total.max(1) as f64),
        };
        recording.seen = format!("{}, {}", counted(self.first.len(), "function"), counted(calls, "call"));
        (recording, steps)
    }
}
