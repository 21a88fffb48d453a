// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log of the executed blocks of functions.

use super::modules::Modules;
use super::modules::Site;
use crate::plural::counted;
use crate::read::{DsoId, RecordedAddress, Recording, Spot, StraightRun};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Knowledge of a function's blocks.
#[derive(Debug, Clone, Copy, Default)]
struct Covered {
    /// True if some had no breakpoint for want of memory.
    in_part: bool,
    /// True if it had run before they had breakpoints.
    late: bool,
    /// Processes that it has run in, and the number of these with which its blocks get breakpoints again.
    processes: u32,
    next: u32,
}

/// Executed blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    executed: HashSet<Site>,
    in_order: Vec<Site>,
    /// Visits in walks.
    visits: HashMap<Site, u64>,
    /// By module and number of the mapped function.
    covered: BTreeMap<(u32, u32), Covered>,
}

impl Blocks {
    pub(super) fn add(&mut self, modules: &Modules<'_>, site: Site) {
        if self.executed.insert(site) {
            self.in_order.push(site);
            if let Some(covered) = self.of(modules, site) {
                covered.next = 0;
            }
        }
    }

    /// True if the blocks of the function of which this is one are to get breakpoints in one more process: in all of them while others
    /// bring new ones to light, and then more and more seldom.
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

    /// The blocks that were found since this many were.
    pub(super) fn since(&self, known: &mut usize) -> BTreeSet<Site> {
        let from = std::mem::replace(known, self.in_order.len());
        self.in_order[from..].iter().copied().collect()
    }

    fn of(&mut self, modules: &Modules<'_>, site: Site) -> Option<&mut Covered> {
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

    /// True if one was executed in a function whose blocks have breakpoints.
    pub(super) fn is_any_inside(&self) -> bool {
        !self.executed.is_empty()
    }

    pub(super) fn visit(&mut self, site: Site) {
        *self.visits.entry(site).or_default() += 1;
    }

    pub(super) fn visits(&self, site: Site) -> u64 {
        self.visits.get(&site).copied().unwrap_or(0)
    }

    /// Adds the executed blocks to a recording, with estimates of their executions from the calls of functions, and from the calls
    /// that addresses of modules make. Functions of which not all blocks had breakpoints are skipped.
    pub(super) fn put_into(
        &self,
        recording: &mut Recording,
        modules: &Modules<'_>,
        dsos: &[DsoId],
        calls_of: &BTreeMap<Site, u128>,
        calls_from: &BTreeMap<(u32, u64), u128>,
    ) {
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
                continue;
            }
            let place = |recording: &mut Recording, address: u64| {
                let dso = Some(dsos[*id as usize]);
                recording.place(RecordedAddress { dso, spot: Spot::Address(address) })
            };
            let known = |entry: usize| {
                let entries = &module.entries;
                let begin = entries[entry].address;
                // Up to the next block, whatever its function.
                let end = entries.get(entry + 1).map_or(u64::MAX, |next| next.address);
                let made = calls_from.range((*id, begin)..(*id, end)).map(|(_, count)| *count).max();
                // The beginning of a cold part is a function in the symbol table alone, and is not called.
                let calls = calls_of.get(&site(entry)).filter(|_| entry == function.begin(module));
                calls.copied().or(made)
            };
            let blocks: Vec<Seen> = executed
                .iter()
                .map(|entry| Seen { known: known(*entry), visits: self.visits(site(*entry)) })
                .collect();
            for (entry, count) in executed.iter().zip(estimates(&blocks)) {
                let from = place(recording, module.entries[*entry].address);
                recording.add_straight_run(StraightRun { from, to: Some(from), count });
                found += 1;
            }
            for address in &function.unwatched {
                let unwatched = place(recording, *address);
                recording.add_unwatched(unwatched);
            }
        }
        if found > 0 {
            recording.seen += &format!(", {}", counted(found, "block"));
        }
    }
}

/// Evidence of an executed block.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Executions by the calls of its function, or by those that it makes.
    known: Option<u128>,
    /// Visits in walks.
    visits: u64,
}

/// Visits of a function's blocks below which their proportions say nothing.
const ENOUGH: u64 = 16;

/// Executions of the blocks of a function. Visits give proportions, and the first block whose executions are known otherwise gives the scale:
/// that of the calls of the function, where it was visited. A block that repeats itself is visited once for all of its repetitions, so the calls
/// that it makes may be more. Without visits each block is executed as often as the function is called.
fn estimates(blocks: &[Seen]) -> Vec<u64> {
    let visits: u64 = blocks.iter().map(|block| block.visits).sum();
    let known = blocks.iter().filter(|block| block.visits > 0);
    let scale = known.filter_map(|block| Some(block.known? as f64 / block.visits as f64)).next();
    let calls = blocks.iter().find_map(|block| block.known).unwrap_or(1) as f64;
    let scale = scale.filter(|_| visits >= ENOUGH);
    let of_visits = |block: &Seen| match (scale, block.visits, block.known) {
        (None, _, known) => known.map_or(calls, |known| known as f64),
        (Some(_), 0, Some(known)) => known as f64,
        // Rarer than what was visited.
        (Some(scale), 0, None) => scale / 2.0,
        (Some(scale), visits, known) => (visits as f64 * scale).max(known.unwrap_or(0) as f64),
    };
    blocks.iter().map(|block| of_visits(block).round().max(1.0) as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::NoFiles;
    use crate::binary::gcc_block_map::Stretch;
    use crate::record::breakpoints::modules::{Module, Wanted};

    fn seen(known: impl Into<Option<u128>>, visits: u64) -> Seen {
        Seen { known: known.into(), visits }
    }

    #[test]
    fn blocks_get_breakpoints_more_and_more_seldom() {
        let code = [0x90; 16];
        let mut module = Module::of_code("/program", &code, &[0], None);
        let block = |address, block| Stretch { address, size: 4, block: Some(block) };
        module.add_blocks(vec![vec![block(0, 1), block(4, 2)]]);
        let excluded = BTreeSet::new();
        let mut modules =
            Modules::new(&NoFiles, Wanted { excluded: &excluded, blocks: true, trampolines: false });
        modules.put("/program", 1, module);
        let [function, inner] = [0, 1].map(|entry| Site { module: 0, entry });
        let mut blocks = Blocks::default();
        let due = |blocks: &mut Blocks| (0..10).filter(|_| blocks.are_due(&modules, function)).count();
        assert_eq!(due(&mut blocks), 4, "with the first, second, fourth and eighth process");
        assert_eq!(due(&mut blocks), 1, "and the sixteenth");
        blocks.add(&modules, inner);
        assert!(blocks.are_due(&modules, function));
    }

    #[test]
    fn visits_give_proportions_and_calls_the_scale() {
        let function = [seen(1000, 10), seen(None, 40), seen(None, 0), seen(4000, 0), seen(3000, 30)];
        assert_eq!(estimates(&function), [1000, 4000, 50, 4000, 3000]);
        let with_loop = [seen(1000, 10), seen(10_000, 10)];
        assert_eq!(estimates(&with_loop), [1000, 10_000], "a block that repeats itself is one visit");
    }

    #[test]
    fn without_visits_blocks_are_executed_as_often_as_the_function_is_called() {
        assert_eq!(estimates(&[seen(12, 1), seen(None, 2), seen(7, 0)]), [12, 12, 7]);
        assert_eq!(estimates(&[seen(None, 0)]), [1], "it was executed");
        assert_eq!(estimates(&[]), [0u64; 0]);
    }
}
