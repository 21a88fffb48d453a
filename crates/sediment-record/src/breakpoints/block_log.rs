// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log of the executed blocks of functions.

use super::modules::{FunctionWithBlocks, Module, Modules, Site};
use sediment_core::plural::counted;
use sediment_read::read::{DsoId, RecordedAddress, Recording, Spot, StraightRun};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Knowledge of a function's blocks.
#[derive(Debug, Clone, Copy, Default)]
struct BlockState {
    /// True if some had no breakpoint because memory for breakpoints was used up.
    in_part: bool,
    /// True if it had run before they had breakpoints.
    late: bool,
    /// Number of processes in which the function ran, and the number of these processes after which its blocks get
    /// breakpoints again.
    processes: u32,
    next: u32,
}

/// Executed blocks.
#[derive(Debug, Default)]
pub(super) struct ExecutedBlocks {
    executed: HashSet<Site>,
    in_order: Vec<Site>,
    /// Visits in walks, by block.
    visits: HashMap<Site, u64>,
    /// By module and number of the mapped function.
    covered: BTreeMap<(u32, u32), BlockState>,
}

impl ExecutedBlocks {
    pub(super) fn add(&mut self, modules: &Modules<'_>, site: Site) {
        if self.executed.insert(site) {
            self.in_order.push(site);
            if let Some(covered) = self.of(modules, site) {
                covered.next = 0;
            }
        }
    }

    /// True if the blocks of this block's function are to get breakpoints in one more process. They get them in every
    /// process while further processes execute new blocks, then less and less often.
    pub(super) fn are_due(&mut self, modules: &Modules<'_>, site: Site) -> bool {
        let Some(covered) = self.of(modules, site) else { return false };
        covered.processes += 1;
        let due = covered.processes >= covered.next;
        if due {
            covered.next = covered.processes * 2;
        }
        due
    }

    pub(super) fn has(&self, site: Site) -> bool {
        self.executed.contains(&site)
    }

    /// Returns the blocks found after the first `known`, and updates `known`.
    pub(super) fn since(&self, known: &mut usize) -> BTreeSet<Site> {
        let from = std::mem::replace(known, self.in_order.len());
        self.in_order[from..].iter().copied().collect()
    }

    fn of(&mut self, modules: &Modules<'_>, site: Site) -> Option<&mut BlockState> {
        let owner = modules.get(site.module).entries[site.entry as usize].owner?;
        Some(self.covered.entry((site.module, owner)).or_default())
    }

    pub(super) fn covers(&mut self, modules: &Modules<'_>, site: Site, all: bool) {
        if let Some(covered) = self.of(modules, site) {
            covered.in_part |= !all;
        }
    }

    pub(super) fn covers_late(&mut self, modules: &Modules<'_>, site: Site) {
        if let Some(covered) = self.of(modules, site) {
            covered.late = true;
        }
    }

    /// True if a block was executed in a function whose blocks have breakpoints.
    pub(super) fn is_any_inside(&self) -> bool {
        !self.executed.is_empty()
    }

    pub(super) fn visit(&mut self, site: Site) {
        *self.visits.entry(site).or_default() += 1;
    }

    pub(super) fn visits(&self, site: Site) -> u64 {
        self.visits.get(&site).copied().unwrap_or(0)
    }

    /// Adds the executed blocks to a recording. Estimates their executions from the calls of functions and from the
    /// calls that instructions make. Skips functions if only some of their blocks had breakpoints.
    pub(super) fn put_into(
        &self,
        recording: &mut Recording,
        modules: &Modules<'_>,
        dsos: &[DsoId],
        calls_of: &BTreeMap<Site, u128>,
        calls_from: &BTreeMap<(u32, u64), u128>,
    ) {
        recording.tells_of_executed_functions = true;
        let mut found = 0u64;
        for ((id, owner), covered) in &self.covered {
            let module = modules.get(*id);
            let function = &module.mapped[*owner as usize];
            let executed: Vec<usize> = function.blocks.iter().map(|entry| *entry as usize).collect();
            let site = |entry: usize| Site { module: *id, entry: entry as u32 };
            let executed: Vec<usize> =
                executed.into_iter().filter(|entry| self.executed.contains(&site(*entry))).collect();
            let inside = executed.iter().any(|entry| !module.entries[*entry].is_function);
            if covered.in_part || covered.late && !inside {
                add_unwatched(recording, module, dsos[*id as usize], function);
                continue;
            }
            let place = |recording: &mut Recording, address: u64| {
                let dso = Some(dsos[*id as usize]);
                recording.place(RecordedAddress { dso, spot: Spot::Address(address) })
            };
            let begin = function.begin(module);
            let seen = |entry: usize| {
                let entries = &module.entries;
                let from = entries[entry].address;
                // Up to the next block, even if it belongs to another function.
                let end = entries.get(entry + 1).map_or(u64::MAX, |next| next.address);
                let made = calls_from.range((*id, from)..(*id, end)).map(|(_, count)| *count).max();
                // The beginning of a cold part is a function only in the symbol table: nobody calls it.
                let calls = calls_of.get(&site(entry)).copied().filter(|_| entry == begin);
                Seen { calls, made, visits: self.visits(site(entry)) }
            };
            let blocks: Vec<Seen> = executed.iter().map(|entry| seen(*entry)).collect();
            let first = executed.iter().position(|entry| *entry == begin);
            for (entry, count) in executed.iter().zip(estimates(&blocks, first)) {
                let from = place(recording, module.entries[*entry].address);
                recording.add_straight_run(StraightRun { from, to: Some(from), count });
                found += 1;
            }
            for address in &function.unwatched {
                let unwatched = place(recording, *address);
                recording.add_unwatched(unwatched);
            }
        }
        // A function that ran without breakpoints inside has unknown blocks, not unexecuted ones.
        for site in calls_of.keys() {
            let module = modules.get(site.module);
            let Some(owner) = module.entries[site.entry as usize].owner else { continue };
            if !self.covered.contains_key(&(site.module, owner)) {
                let function = &module.mapped[owner as usize];
                add_unwatched(recording, module, dsos[site.module as usize], function);
            }
        }
        if found > 0 {
            recording.seen += &format!(", {}", counted(found, "block"));
        }
    }
}

/// Adds all blocks of a function as unwatched.
fn add_unwatched(recording: &mut Recording, module: &Module, dso: DsoId, function: &FunctionWithBlocks) {
    let begins = function.blocks.iter().map(|entry| module.entries[*entry as usize].address);
    for address in begins.chain(function.unwatched.iter().copied()) {
        let place = recording.place(RecordedAddress { dso: Some(dso), spot: Spot::Address(address) });
        recording.add_unwatched(place);
    }
}

/// Evidence of an executed block.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Calls of its function, if it is the first block.
    calls: Option<u128>,
    /// Number of calls made by the block's instruction that makes most calls.
    made: Option<u128>,
    /// Visits in walks.
    visits: u64,
}

/// Visits that are assumed for each block in advance: without further visits, each block is executed as often as the
/// function is called.
const ASSUMED: f64 = 1.0;
/// A block repeats itself if it makes more calls than its visits suggest, by this factor.
const REPEATED: f64 = 4.0;

/// Estimates the executions of a function's blocks; `first` is the index of its first block. The visits of a block
/// divided by the visits of the first block are its executions in a call. The assumed visits weigh less the more visits
/// there are. The number of calls of the function is the scale, or the number of calls that its blocks make if these
/// imply more, as in a loop that began before the recording. A block that repeats itself counts one visit for all
/// repetitions, so the calls that it makes count instead.
fn estimates(blocks: &[Seen], first: Option<usize>) -> Vec<u64> {
    let first = first.and_then(|first| blocks.get(first));
    let of_first = first.map_or(0, |block| block.visits) as f64 + ASSUMED;
    let in_a_call = |block: &Seen| (block.visits as f64 + ASSUMED) / of_first;
    let by_calls_made = blocks.iter().filter(|block| block.visits > 0).filter_map(|block| {
        let made = block.made? as f64;
        Some((made / in_a_call(block), block.visits))
    });
    let calls = first.and_then(|block| block.calls).unwrap_or(1) as f64;
    let scale = calls.max(median(by_calls_made.collect()).unwrap_or(0.0));
    let executions = |block: &Seen| {
        let expected = scale * in_a_call(block);
        let made = block.made.unwrap_or(0) as f64;
        let repeats_itself = block.visits > 0 && made > REPEATED * expected;
        if repeats_itself { made } else { expected }
    };
    blocks.iter().map(|block| executions(block).round().max(1.0) as u64).collect()
}

/// Weighted median of values.
fn median(mut weighed: Vec<(f64, u64)>) -> Option<f64> {
    weighed.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let half = weighed.iter().map(|(_, weight)| weight).sum::<u64>() / 2;
    let mut before = 0;
    weighed.into_iter().find_map(|(value, weight)| {
        before += weight;
        (before > half).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileFilter;
    use crate::breakpoints::modules::{KnownBlocks, ModuleLimits};
    use sediment_core::binary::NoFiles;
    use sediment_core::binary::gcc_block_map::Stretch;

    fn seen(calls: impl Into<Option<u128>>, made: impl Into<Option<u128>>, visits: u64) -> Seen {
        Seen { calls: calls.into(), made: made.into(), visits }
    }

    #[test]
    fn blocks_get_breakpoints_more_and_more_seldom() {
        let code = [0x90; 16];
        let mut module = Module::of_code("/program", &code, &[0], None);
        let block = |address, block| Stretch { address, size: 4, block: Some(block) };
        module.add_blocks(vec![vec![block(0, 1), block(4, 2)]]);
        let (excluded, recorded) = (BTreeSet::new(), FileFilter::default());
        let mut modules = Modules::new(
            &NoFiles,
            ModuleLimits {
                excluded: &excluded,
                recorded: &recorded,
                blocks: KnownBlocks::Mapped,
                trampolines: false,
            },
        );
        modules.put("/program", 1, module);
        let [function, inner] = [0, 1].map(|entry| Site { module: 0, entry });
        let mut blocks = ExecutedBlocks::default();
        let due =
            |blocks: &mut ExecutedBlocks| (0..10).filter(|_| blocks.are_due(&modules, function)).count();
        assert_eq!(due(&mut blocks), 4, "with the first, second, fourth and eighth process");
        assert_eq!(due(&mut blocks), 1, "and the sixteenth");
        blocks.add(&modules, inner);
        assert!(blocks.are_due(&modules, function));
    }

    #[test]
    fn visits_give_proportions_and_calls_the_scale() {
        let function = [seen(1000, None, 99), seen(None, None, 399), seen(None, 1, 0), seen(None, 3000, 299)];
        assert_eq!(estimates(&function, Some(0)), [1000, 4000, 10, 3000]);
        let with_loop = [seen(1000, None, 9), seen(None, 10_000, 9), seen(None, 900, 8), seen(None, 1000, 9)];
        let expected = [1000, 10_000, 900, 1000];
        assert_eq!(estimates(&with_loop, Some(0)), expected, "a block that repeats itself is one visit");
    }

    #[test]
    fn few_visits_weigh_little() {
        let once = [seen(1000, None, 1), seen(None, None, 0), seen(None, None, 2)];
        assert_eq!(estimates(&once, Some(0)), [1000, 500, 1500]);
        let often = [seen(1000, None, 100), seen(None, None, 0), seen(None, None, 200)];
        assert_eq!(estimates(&often, Some(0)), [1000, 10, 1990]);
    }

    #[test]
    fn without_visits_blocks_are_executed_as_often_as_the_function_is_called() {
        assert_eq!(estimates(&[seen(12, None, 0), seen(None, None, 0), seen(None, 7, 0)], Some(0)), [12; 3]);
        assert_eq!(estimates(&[seen(None, None, 0)], None), [1], "it was executed");
        assert_eq!(estimates(&[], None), [0u64; 0]);
    }

    #[test]
    fn a_loop_that_runs_for_ever_is_known_by_its_calls() {
        // The function with the loop is called once; each visit of it is a visit of a call that the loop makes.
        let function =
            [seen(1, None, 0), seen(None, 500_000, 50), seen(None, None, 49), seen(None, 480_000, 48)];
        let found = estimates(&function, Some(0));
        assert!(found[1..].iter().all(|count| (450_000..550_000).contains(count)), "{found:?}");
        assert!(found[0] < 20_000, "{found:?}");
    }
}
