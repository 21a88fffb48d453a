// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log of first uses, callers and call counts; and the [`Recording`] made from it.

use super::block_log::ExecutedBlocks;
use super::image::MappedImage;
use super::modules::Site;
use super::modules::{CallAnswer, Modules, base_name};
use super::space::AddressSpace;
use super::step_times::StepTimes;
use crate::tracing::machine::ARCH;
use sediment_core::plural::counted;
use sediment_core::profile::source::ProfileSource;
use sediment_core::random::Generator;
use sediment_core::skipped::Reason;
use sediment_read::read::{AddressId, RecordedAddress, RecordedDso, Recording, Spot, Step, TransferKind};
use std::collections::{BTreeMap, BTreeSet};

/// Shortest time between two calls that can be measured, in nanoseconds.
const SHORTEST: u64 = 500;
/// A function's rate can be timed if the mean time between its hits is at least this, in nanoseconds. At shorter times,
/// stops take tens of microseconds of the program's own time, which cannot be separated exactly from its work.
const TOO_OFTEN: u64 = 1_000_000;
/// Smallest number of hits with which a function's rate can show how many calls a step represents.
const ENOUGH: u64 = 3;

/// Runs count as long if their mean number of calls is at least this.
const LONG: u64 = 8;

/// Limit for differences by chance, in standard deviations of a count.
const DEVIATIONS: f64 = 3.0;

/// An address in a file, as module and address; `None` for other addresses.
type InFile = Option<(u32, u64)>;

/// Caller; `None` if the return address is not in a file.
type CallerAddress = Option<CallingCode>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CallingCode {
    module: u32,
    address: u64,
    /// True if the code there is known to call.
    certain: bool,
}

/// Counts of the calls from one caller to one function.
#[derive(Debug, Clone, Copy, Default)]
struct CallCounts {
    /// Calls that were the first use of the function in a process.
    first: u64,
    /// Calls in windows for rates.
    hit: u64,
    /// Calls as steps of sequences.
    steps: u64,
}

/// Counts of one function.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FunctionLog {
    rank: u64,
    /// Processor time during which a breakpoint was set to measure its rate, in nanoseconds.
    watched: u64,
    /// Number of hits of that breakpoint.
    hits: u64,
    /// Number of executions in sequences of steps.
    steps: u64,
    /// Calls that followed a step at once, and the number of such runs that were observed to their end.
    followed: u64,
    ended: u64,
    /// Processor time of the processes after its first use in them, in nanoseconds.
    exposed: u64,
}

impl FunctionLog {
    /// Hits in windows of either kind and their time in nanoseconds, as if all windows ended by time.
    pub(super) fn seen(&self) -> (u64, u64) {
        (self.hits, self.watched.max(self.hits * SHORTEST))
    }

    /// Mean number of calls in a step: more than one if the function is called again with no other function in between.
    fn run(&self) -> f64 {
        1.0 + self.followed as f64 / self.ended.max(1) as f64
    }

    /// Number of calls in its steps.
    fn called(&self) -> f64 {
        self.steps as f64 * self.run()
    }

    /// True if hardly any of its runs were observed to their end.
    pub(super) fn has_long_runs(&self) -> bool {
        self.followed > LONG * (self.ended + 1)
    }

    /// Number of calls computed from its rate; `None` if the rate could not be timed.
    fn calls_by_rate(&self) -> Option<f64> {
        let timed = self.watched > self.hits.saturating_mul(TOO_OFTEN);
        timed.then(|| self.hits as f64 / self.watched as f64 * self.exposed as f64)
    }

    /// True if sequences contain so many fewer than `expected` steps of it that chance does not explain it: the
    /// function is called repeatedly with no other function in between, which is a single step.
    fn repeats_itself(&self, expected: f64) -> bool {
        self.hits >= ENOUGH && self.steps as f64 + DEVIATIONS * expected.sqrt() < expected
    }

    /// True if sequences contain so many more than `expected` steps of it that chance does not explain it: its calls
    /// come in bursts, and a window for rates sees only the first call of a burst.
    fn comes_in_bursts(&self, expected: f64) -> bool {
        let steps = self.steps as f64;
        steps - DEVIATIONS * steps.sqrt() > expected
    }

    /// Number of calls, if a step represents `runs` runs of calls. It is the likeliest number for the hits in windows
    /// and the executions in sequences if calls come at random; `None` without evidence.
    fn calls(&self, runs: f64) -> Option<f64> {
        let of_a_step = runs * self.run();
        if let Some(by_rate) = self.calls_by_rate() {
            let expected = by_rate / of_a_step;
            if self.repeats_itself(expected) {
                return Some(by_rate);
            }
            if self.comes_in_bursts(expected) {
                return Some(self.steps as f64 * of_a_step);
            }
        }
        let (mut seen, mut share) = (self.steps as f64, 1.0 / of_a_step);
        if self.calls_by_rate().is_some() && self.exposed > 0 {
            seen += self.hits as f64;
            share += self.watched as f64 / self.exposed as f64;
        } else if self.steps == 0 && self.exposed > 0 {
            // Hits in zero time give no rate. A function that is called often would be in sequences.
            let (hits, time) = self.seen();
            seen += hits as f64;
            share += time as f64 / self.exposed as f64;
        }
        (seen > 0.0).then_some(seen / share)
    }
}

/// One step of a short sequence.
#[derive(Debug, Clone, Copy)]
enum Heard {
    Gap,
    Executed(u64, CallerAddress, Site),
}

#[derive(Debug, Default)]
pub(super) struct Log {
    functions: BTreeMap<Site, FunctionLog>,
    blocks: ExecutedBlocks,
    calls: BTreeMap<(CallerAddress, Site), CallCounts>,
    bursts: Vec<Heard>,
    /// Processor time of ended processes, in nanoseconds.
    retired: u64,
    step_times: StepTimes,
}

impl Log {
    /// Number of executed functions.
    pub(super) fn functions(&self) -> u64 {
        self.functions.len() as u64
    }

    /// Records the execution of a block or of a function's first block.
    pub(super) fn block(&mut self, modules: &Modules<'_>, site: Site) {
        self.blocks.add(modules, site);
    }

    /// True if the blocks of this block's function are to get breakpoints in one more process.
    pub(super) fn blocks_are_due(&mut self, modules: &Modules<'_>, site: Site) -> bool {
        self.blocks.are_due(modules, site)
    }

    /// True if a block was executed.
    pub(super) fn has_block(&self, site: Site) -> bool {
        self.blocks.has(site)
    }

    /// True if blocks inside functions were executed.
    pub(super) fn has_blocks(&self) -> bool {
        self.blocks.is_any_inside()
    }

    /// Records the execution of a block in a walk through its function.
    pub(super) fn visit(&mut self, site: Site) {
        self.blocks.visit(site);
    }

    /// Number of visits of a block in walks.
    pub(super) fn visits(&self, site: Site) -> u64 {
        self.blocks.visits(site)
    }

    /// Draws a function that made one of the calls in sequences, by the entry before the call: functions that make many
    /// calls are drawn often.
    pub(super) fn draw_caller(&self, modules: &Modules<'_>, random: &mut Generator) -> Option<Site> {
        let drawn = self.bursts.get((random.unit() * self.bursts.len() as f64) as usize)?;
        let Heard::Executed(_, Some(CallingCode { module, address, certain: true }), _) = drawn else {
            return None;
        };
        let entries = &modules.get(*module).entries;
        let entry = entries.partition_point(|entry| entry.address <= *address).checked_sub(1)?;
        Some(Site { module: *module, entry: entry as u32 })
    }

    /// Returns the blocks found after the first `known`, and updates `known`.
    pub(super) fn blocks_since(&self, known: &mut usize) -> BTreeSet<Site> {
        self.blocks.since(known)
    }

    /// Records that the blocks of this block's function have breakpoints. `all`: none of them is missing.
    pub(super) fn covers(&mut self, modules: &Modules<'_>, site: Site, all: bool) {
        self.blocks.covers(modules, site, all);
    }

    /// Records that the function of this block executed some blocks before they had breakpoints.
    pub(super) fn covers_late(&mut self, modules: &Modules<'_>, site: Site) {
        self.blocks.covers_late(modules, site);
    }

    pub(super) fn facts(&self, site: Site) -> FunctionLog {
        self.functions.get(&site).copied().unwrap_or_default()
    }

    /// Records that a breakpoint was set at a function for this time, and whether it was hit.
    pub(super) fn watched(&mut self, site: Site, time: u64, hit: bool) {
        if let Some(facts) = self.functions.get_mut(&site) {
            facts.hits += u64::from(hit);
            facts.watched += time;
        }
    }

    /// Records the first call of a function in a process, made by the code before this address.
    pub(super) fn first(&mut self, modules: &Modules<'_>, site: Site, returns_to: InFile) {
        let rank = self.functions.len() as u64;
        self.functions.entry(site).or_insert(FunctionLog { rank, ..FunctionLog::default() });
        self.seen(modules, site, returns_to).1.first += 1;
    }

    /// Records a hit of a function in a window for rates.
    pub(super) fn add_hit(&mut self, modules: &Modules<'_>, site: Site, returns_to: InFile) {
        self.seen(modules, site, returns_to).1.hit += 1;
    }

    fn seen(
        &mut self,
        modules: &Modules<'_>,
        site: Site,
        returns_to: InFile,
    ) -> (CallerAddress, &mut CallCounts) {
        let caller = returns_to.map(|(module, address)| caller(modules, site, module, address));
        (caller, self.calls.entry((caller, site)).or_default())
    }

    /// Records another call of a function with no other function since its step.
    pub(super) fn again(&mut self, site: Site) {
        if let Some(facts) = self.functions.get_mut(&site) {
            facts.followed += 1;
        }
    }

    /// Records the end of the run of calls of this function: another function was called.
    pub(super) fn run_ended(&mut self, site: Site) {
        if let Some(facts) = self.functions.get_mut(&site) {
            facts.ended += 1;
        }
    }

    /// Processor time from one step of a sequence to the next.
    pub(super) fn step_times(&mut self) -> &mut StepTimes {
        &mut self.step_times
    }

    /// Records a gap: the next step does not follow the one before.
    pub(super) fn gap(&mut self) {
        self.bursts.push(Heard::Gap);
    }

    /// Records a step of a sequence.
    pub(super) fn add_step(&mut self, modules: &Modules<'_>, thread: u64, site: Site, returns_to: InFile) {
        let (caller, seen) = self.seen(modules, site, returns_to);
        seen.steps += 1;
        if let Some(facts) = self.functions.get_mut(&site) {
            facts.steps += 1;
        }
        self.bursts.push(Heard::Executed(thread, caller, site));
    }

    /// Adds the times of an address space that has ended.
    pub(super) fn retire(&mut self, space: &AddressSpace) {
        self.retired += space.worked();
        for image in space.images.iter().chain(&space.gone) {
            self.retire_image(image, space.processor_time);
        }
    }

    /// Processor time of ended processes, in nanoseconds.
    pub(super) fn retired(&self) -> u64 {
        self.retired
    }

    /// Adds the times of a file that is no longer mapped, at this processor time of its process.
    pub(super) fn retire_image(&mut self, image: &MappedImage, now: u64) {
        for (entry, since) in &image.seen {
            let site = Site { module: image.module, entry: *entry };
            if let Some(facts) = self.functions.get_mut(&site) {
                facts.exposed += now.saturating_sub(*since);
            }
        }
    }

    /// Returns the recording and the steps of its sequences.
    pub(super) fn recording(&self, modules: &Modules<'_>, source: ProfileSource) -> (Recording, Vec<Step>) {
        let runs = self.runs_of_a_step();
        let mut recording = Recording::default();
        recording.source = source;
        recording.arch = Some(ARCH.to_owned());
        recording.skipped.append(&modules.skipped);
        let dsos: Vec<_> = modules
            .all()
            .iter()
            .map(|module| {
                recording.dso(RecordedDso { path: module.path.clone(), build_id: module.build_id.clone() })
            })
            .collect();
        let place = |recording: &mut Recording, module: u32, address: u64| {
            recording
                .place(RecordedAddress { dso: Some(dsos[module as usize]), spot: Spot::Address(address) })
        };
        let address_of = |site: Site| modules.get(site.module).entries[site.entry as usize].address;
        let mut addresses: BTreeMap<Site, AddressId> = BTreeMap::new();
        for (site, facts) in &self.functions {
            let id = place(&mut recording, site.module, address_of(*site));
            recording.set_first(id, facts.rank);
            addresses.insert(*site, id);
        }
        let mut calls = 0u128;
        let mut calls_of: BTreeMap<Site, u128> = BTreeMap::new();
        let mut calls_from: BTreeMap<(u32, u64), u128> = BTreeMap::new();
        for ((caller, site), seen) in &self.calls {
            let count = self.count(*site, *seen, runs);
            recording.total = recording.total.saturating_add(count);
            *calls_of.entry(*site).or_default() += count;
            calls += u128::from(seen.first + seen.hit + seen.steps);
            match caller {
                Some(CallingCode { module, address, certain }) => {
                    if *certain {
                        *calls_from.entry((*module, *address)).or_default() += count;
                    }
                    let from = place(&mut recording, *module, *address);
                    let kind = if *certain { TransferKind::Call } else { TransferKind::Uncertain };
                    recording.add_transfer(from, addresses[site], kind, count);
                }
                None => {
                    let example =
                        format!("{} at {:#x}", base_name(&modules.get(site.module).path), address_of(*site));
                    recording.skipped.add(Reason::UnknownCaller, count, &example);
                }
            }
        }
        recording.seen = format!("{}, {}", counted(self.functions.len(), "function"), counted(calls, "call"));
        self.blocks.put_into(&mut recording, modules, &dsos, &calls_of, &calls_from);
        let mut steps = Vec::new();
        let mut in_a_burst: BTreeSet<u64> = BTreeSet::new();
        for heard in &self.bursts {
            match heard {
                Heard::Gap => {
                    let gaps = std::mem::take(&mut in_a_burst);
                    steps.extend(gaps.into_iter().map(|thread| Step::Gap { thread }));
                }
                Heard::Executed(thread, caller, site) => {
                    let thread = *thread;
                    in_a_burst.insert(thread);
                    if let Some(CallingCode { module, address, certain: true }) = caller {
                        let place = place(&mut recording, *module, *address);
                        steps.push(Step::Run { thread, place });
                    }
                    steps.push(Step::Run { thread, place: addresses[site] });
                }
            }
        }
        (recording, steps)
    }

    /// Number of runs of calls that a step of a sequence represents: the larger of two estimates. One compares calls by
    /// rate with steps, for the functions whose rate could be timed; it is too low if windows see only the first call
    /// of a burst. The other divides the program's time by its own time per step.
    fn runs_of_a_step(&self) -> f64 {
        let all: u64 = self.functions.values().map(|facts| facts.steps).sum();
        if all == 0 {
            return 1.0;
        }
        let called: f64 = self.functions.values().map(FunctionLog::called).sum();
        let own = self.step_times.own(called / all as f64);
        let by_time = self.retired as f64 / own / all as f64;
        let (mut calls, mut steps) = (0.0, 0.0);
        for facts in self.functions.values().filter(|facts| facts.hits >= ENOUGH) {
            if let Some(by_rate) = facts.calls_by_rate() {
                calls += by_rate;
                steps += facts.called();
            }
        }
        let by_rates = if steps == 0.0 { 1.0 } else { calls / steps };
        by_rates.max(by_time).max(1.0)
    }

    /// Estimated number of calls from one caller: the larger of the observed calls and this caller's share of the
    /// function's calls.
    fn count(&self, site: Site, seen: CallCounts, runs: f64) -> u128 {
        let facts = self.facts(site);
        let observed = seen.first + seen.hit + seen.steps;
        // A hit in a window is the first call in a while. The callers of a frequently called function are different
        // from the callers of those hits.
        let (all, from_here) = if facts.steps >= facts.hits {
            (facts.steps, seen.steps)
        } else {
            (facts.steps + facts.hits, seen.steps + seen.hit)
        };
        let calls = facts.calls(runs).filter(|_| all > 0).unwrap_or(0.0);
        let estimate = (calls * from_here as f64 / all.max(1) as f64).round() as u128;
        estimate.max(u128::from(observed))
    }
}

/// Finds the call of a function that returns to an address of a module.
fn caller(modules: &Modules<'_>, site: Site, module: u32, returns_to: u64) -> CallingCode {
    let same = site.module == module;
    let callee = same.then(|| modules.get(module).entries[site.entry as usize].address);
    let (address, certain) = match modules.get(module).calls_before(returns_to, callee) {
        CallAnswer::There => (returns_to - 1, true),
        CallAnswer::Jumped(function) => (function, true),
        CallAnswer::Not => (returns_to, false),
    };
    CallingCode { module, address, certain }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Log of a function that was watched for a tenth of its time.
    fn watched(hits: u64, steps: u64) -> FunctionLog {
        FunctionLog { watched: 1_000_000_000, hits, steps, exposed: 10_000_000_000, ..FunctionLog::default() }
    }

    fn is_near(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found / expected - 1.0).abs() < 0.1)
    }

    #[test]
    fn repeated_calls_are_counted_by_their_rate() {
        // 1000 calls; a step represents 10 of them.
        assert!(is_near(watched(100, 100).calls(10.0), 1000.0));
        assert!(is_near(watched(100, 93).calls(10.0), 965.0), "by chance");
        assert!(is_near(watched(100, 9).calls(10.0), 1000.0), "eleven calls are a step");
    }

    #[test]
    fn calls_come_in_runs() {
        let log = |of_runs: FunctionLog| {
            let other =
                FunctionLog { steps: 500, exposed: 1_000_000_000, ended: 60, ..FunctionLog::default() };
            let site = |entry| Site { module: 0, entry };
            let functions = BTreeMap::from([(site(0), of_runs), (site(1), other)]);
            // One call in 10 ns.
            let log = Log { functions, retired: 1_000_000_000, ..Log::default() };
            let runs = log.runs_of_a_step();
            [0, 1].map(|entry| log.facts(site(entry)).calls(runs).unwrap())
        };
        let of_runs = FunctionLog { steps: 500, exposed: 1_000_000_000, ..FunctionLog::default() };
        let [runs, other] = log(of_runs);
        assert!((runs / other - 1.0).abs() < 0.01, "not followed");
        // 60 runs, with 900 calls that followed.
        let [runs, other] = log(FunctionLog { followed: 900, ended: 60, ..of_runs });
        assert!((runs / other - 16.0).abs() < 0.1, "{runs}, {other}");
        assert!((runs + other - 1e8).abs() < 1e5, "as many calls as the time has room for");
        let unended = FunctionLog { followed: 100, ended: 0, ..of_runs };
        assert!(unended.has_long_runs() && (unended.run() - 101.0).abs() < 0.1);
    }

    #[test]
    fn bursts_are_counted_by_steps() {
        // 1000 calls in bursts of 20: windows for rates see bursts, sequences see calls.
        assert!(is_near(watched(5, 100).calls(10.0), 1000.0));
    }

    /// The program calls every 25 ns: one function often, others rarely. Hits inflate the watched time of the frequent
    /// function.
    #[test]
    fn rare_functions_are_not_overestimated_beside_frequent_ones() {
        const SECONDS: u64 = 20;
        let exposed = SECONDS * 1_000_000_000;
        let site = |entry| Site { module: 0, entry };
        let mut log = Log { retired: exposed, ..Log::default() };
        let frequent =
            FunctionLog { watched: 200 * 100_000, hits: 200, steps: 3900, exposed, ..FunctionLog::default() };
        log.functions.insert(site(0), frequent);
        for entry in 1..=100 {
            // Called fifty times in a second, and watched for a fifth of a second.
            let rare = FunctionLog { watched: 200_000_000, hits: 10, exposed, ..FunctionLog::default() };
            log.functions.insert(site(entry), rare);
        }
        let of_a_step = log.runs_of_a_step();
        let calls = |entry| log.facts(site(entry)).calls(of_a_step).unwrap();
        let truth = 40_000_000.0 / 50.0;
        let found = calls(0) / calls(1);
        assert!(found > truth / 4.0 && found < truth * 4.0, "{found} beside {truth}");
    }

    #[test]
    fn few_hits_do_not_outweigh_steps() {
        assert!(is_near(watched(2, 1).calls(10.0), 15.0));
        assert!(is_near(watched(0, 8).calls(10.0), 40.0), "half of its time was watched in vain");
        assert_eq!(watched(0, 0).calls(10.0), None);
    }

    #[test]
    fn hits_in_no_time_tell_no_rate() {
        // In a program that had a processor for only 60 ms, windows end before it has done any work.
        let starved = |hits| FunctionLog { hits, exposed: 60_000_000, ..FunctionLog::default() };
        assert!(is_near(starved(1).calls(1.0), 1.0), "{:?}", starved(1).calls(1.0));
        assert!(is_near(starved(2).calls(1.0), 2.0));
        assert!(is_near(starved(1).calls(100.0), 100.0), "no more than a step stands for");
        assert!(is_near(starved(30).calls(100.0), 2857.0), "a function that sequences do not meet");
    }
}
