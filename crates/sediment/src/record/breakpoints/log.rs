// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was seen: which function ran first after which, who called it then, and how often it was called while it was watched; and
//! the [`Recording`] that this makes.

use super::machine::ARCH;
use super::modules::{Caller, Modules, base_name};
use super::space::{Image, Site, Space};
use crate::read::{Place, PlaceId, RecordedDso, Recording, Spot, Step, TransferKind};
use std::collections::BTreeMap;

/// The shortest time between two calls that can be told, in nanoseconds.
const SHORTEST: u64 = 500;

/// Who called: a place in a file by module and address, or unknown.
type CallerPlace = Option<(u32, u64)>;

/// How often a call was seen.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// As the first use of a function in a process.
    first: u64,
    /// In windows of either kind.
    watched: u64,
}

/// What is known of one function.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts {
    rank: u64,
    /// How long a trap stood at it to measure its rate and was not met, in nanoseconds of processor time.
    unmet: u64,
    /// How many traps its process met meanwhile.
    meetings: u64,
    /// How often that trap was met, and after how long in all.
    pub(super) hits: u64,
    met: u64,
    /// How often its callers were seen in windows of either kind.
    drawn: u64,
    /// How long the processes ran in which it had run, from then on, in nanoseconds of processor time.
    exposed: u64,
}

impl Facts {
    /// How long a trap stood at it, in nanoseconds of processor time.
    pub(super) fn watched(&self) -> u64 {
        self.unmet + self.met
    }

    /// As [`Self::watched`], without what the meetings themselves took.
    fn watched_less(&self, latency: u64) -> u64 {
        let unmet = self.unmet.saturating_sub(self.meetings.saturating_mul(latency));
        unmet + self.met.max(self.hits.saturating_mul(SHORTEST))
    }
}

/// One step of what ran in a short time.
#[derive(Debug, Clone, Copy)]
enum Heard {
    Gap,
    Ran(CallerPlace, Site),
}

#[derive(Debug, Default)]
pub(super) struct Log {
    functions: BTreeMap<Site, Facts>,
    calls: BTreeMap<(CallerPlace, Site), Seen>,
    bursts: Vec<Heard>,
    /// Times between two meetings in a burst, in nanoseconds.
    between: Vec<u64>,
    /// Processor time of processes that are no more, in nanoseconds.
    retired: u64,
}

impl Log {
    /// How many functions have run.
    pub(super) fn functions(&self) -> u64 {
        self.functions.len() as u64
    }

    pub(super) fn facts(&self, site: Site) -> Facts {
        self.functions.get(&site).copied().unwrap_or_default()
    }

    /// A trap stood at a function for so long, and was met or not; the process met so many traps meanwhile that are to be taken
    /// off.
    pub(super) fn watched(&mut self, site: Site, time: u64, meetings: u64, met: bool) {
        if let Some(facts) = self.functions.get_mut(&site) {
            if met {
                facts.hits += 1;
                facts.met += time;
            } else {
                facts.unmet += time;
                facts.meetings += meetings;
            }
        }
    }

    /// A function was called by the code before this place.
    pub(super) fn hit(
        &mut self,
        modules: &Modules<'_>,
        site: Site,
        returns_to: Option<(u32, u64)>,
        watched: bool,
    ) {
        let rank = self.functions.len() as u64;
        self.functions.entry(site).or_insert(Facts { rank, ..Facts::default() });
        let caller = returns_to.and_then(|(module, address)| caller(modules, site, module, address));
        self.called(caller, site, watched);
    }

    fn called(&mut self, caller: CallerPlace, site: Site, watched: bool) {
        let seen = self.calls.entry((caller, site)).or_default();
        if watched {
            seen.watched += 1;
            if let Some(facts) = self.functions.get_mut(&site) {
                facts.drawn += 1;
            }
        } else {
            seen.first += 1;
        }
    }

    /// What comes next does not follow what came before.
    pub(super) fn gap(&mut self) {
        self.bursts.push(Heard::Gap);
    }

    /// A function ran while many were watched.
    pub(super) fn ran(&mut self, modules: &Modules<'_>, site: Site, returns_to: Option<(u32, u64)>) {
        let caller = returns_to.and_then(|(module, address)| caller(modules, site, module, address));
        self.called(caller, site, true);
        self.bursts.push(Heard::Ran(caller, site));
    }

    /// An address space is no more.
    pub(super) fn retire(&mut self, space: &Space) {
        self.retired += space.worked();
        for image in space.images.iter().chain(&space.gone) {
            self.retire_image(image, space.processor_time);
        }
    }

    /// Processor time of processes that are no more, in nanoseconds.
    pub(super) fn retired(&self) -> u64 {
        self.retired
    }

    /// So long after another was a trap met in a burst, in nanoseconds of processor time.
    pub(super) fn took(&mut self, time: u64) {
        self.between.push(time);
    }

    /// What meeting a trap takes of the program's processor time, in nanoseconds: what lies between two meetings of a burst at
    /// least, a quarter of them taken for disturbed the other way; but no more than five times `twice`, the time after which a
    /// trap is met again that was left in place.
    fn latency(&self, twice: u64) -> u64 {
        let mut between = self.between.clone();
        between.sort_unstable();
        between.get(between.len() / 4).map_or(twice, |time| (*time).min(5 * twice))
    }

    /// A file is no longer mapped, at this processor time of its process.
    pub(super) fn retire_image(&mut self, image: &Image, now: u64) {
        for (entry, since) in &image.seen {
            let site = Site { module: image.module, entry: *entry };
            if let Some(facts) = self.functions.get_mut(&site) {
                facts.exposed += now.saturating_sub(*since);
            }
        }
    }

    /// The recording, and the steps of what ran in short times. `twice` is the processor time after which a trap was met
    /// again that was left in place, in nanoseconds.
    pub(super) fn recording(
        &self,
        modules: &Modules<'_>,
        source: &str,
        twice: u64,
    ) -> (Recording, Vec<Step>) {
        let latency = self.latency(twice);
        let mut recording = Recording::default();
        recording.source = source.to_owned();
        recording.arch = Some(ARCH.to_owned());
        recording.losses.append(&modules.losses);
        let dsos: Vec<_> = modules
            .all()
            .iter()
            .map(|module| {
                recording.dso(RecordedDso { path: module.path.clone(), build_id: module.build_id.clone() })
            })
            .collect();
        let place = |recording: &mut Recording, module: u32, address: u64| {
            recording.place(Place { dso: Some(dsos[module as usize]), spot: Spot::Address(address) })
        };
        let address_of = |site: Site| modules.get(site.module).entries[site.entry as usize].address;
        let mut places: BTreeMap<Site, PlaceId> = BTreeMap::new();
        for (site, facts) in &self.functions {
            let id = place(&mut recording, site.module, address_of(*site));
            recording.set_first(id, facts.rank);
            places.insert(*site, id);
        }
        let mut calls = 0u128;
        for ((caller, site), seen) in &self.calls {
            let count = self.count(*site, *seen, latency);
            recording.total = recording.total.saturating_add(count);
            calls += u128::from(seen.first + seen.watched);
            match caller {
                Some((module, address)) => {
                    let from = place(&mut recording, *module, *address);
                    recording.add_transfer(from, places[site], TransferKind::Call, count);
                }
                None => {
                    let example =
                        format!("{} at {:#x}", base_name(&modules.get(site.module).path), address_of(*site));
                    let reason = "callers that cannot be told, as the code that is returned to does not call";
                    recording.losses.add(reason, count, &example);
                }
            }
        }
        recording.seen = format!("{} functions, {calls} of their calls", self.functions.len());
        let mut steps = Vec::new();
        let thread = 0;
        for heard in &self.bursts {
            match heard {
                Heard::Gap => steps.push(Step::Gap { thread }),
                Heard::Ran(caller, site) => {
                    if let Some((module, address)) = caller {
                        let place = place(&mut recording, *module, *address);
                        steps.push(Step::Run { thread, place });
                    }
                    steps.push(Step::Run { thread, place: places[site] });
                }
            }
        }
        (recording, steps)
    }

    /// How often a call happened: as often as it was seen, or as its rate says for the time that the function could run.
    fn count(&self, site: Site, seen: Seen, latency: u64) -> u128 {
        let facts = self.facts(site);
        let watched = facts.watched_less(latency);
        if watched == 0 || facts.drawn == 0 {
            return u128::from(seen.first + seen.watched);
        }
        // Calls of the function by its rate, and of these the share of the callers that were seen.
        let calls = u128::from(facts.hits) * u128::from(facts.exposed);
        let (whole, share) = (u128::from(watched) * u128::from(facts.drawn), u128::from(seen.watched));
        let by_rate = (calls.saturating_mul(share) + whole / 2) / whole;
        by_rate.max(share) + u128::from(seen.first)
    }
}

/// Where a call of a function that returns to an address of a module was made.
fn caller(modules: &Modules<'_>, site: Site, module: u32, returns_to: u64) -> CallerPlace {
    let same = site.module == module;
    let callee = same.then(|| modules.get(module).entries[site.entry as usize].address);
    match modules.get(module).caller(returns_to, callee) {
        Caller::ReturnAddress => Some((module, returns_to - 1)),
        Caller::Jumped(function) => Some((module, function)),
        Caller::Unknown => None,
    }
}
