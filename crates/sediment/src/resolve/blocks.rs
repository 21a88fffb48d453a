// SPDX-License-Identifier: MIT OR Apache-2.0
//! From instructions that ran to blocks of functions, where a binary at hand says which block its code is of.

use super::dsos::{At, Dsos, View};
use crate::binary::Files;
use crate::binary::block_map::BlockMap;
use crate::binary::names::split_from;
use crate::error::Result;
use crate::profile::blocks::{Blocks, GraphCounts};
use crate::profile::{FunctionKey, Profile};
use crate::read::{DsoId, Executed, Recording, Spot};
use crate::skipped::{Reason, Skipped};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Adds the counts of blocks.
///
/// # Errors
/// When debug information is damaged.
pub(super) fn add(
    profile: &mut Profile,
    recording: &Recording,
    dsos: &Dsos,
    files: &dyn Files,
    skipped: &mut Skipped,
) -> Result<()> {
    let mut by_dso: BTreeMap<DsoId, Vec<&Executed>> = BTreeMap::new();
    for executed in recording.executed() {
        if let Some(dso) = recording.addresses()[executed.function.0 as usize].dso {
            by_dso.entry(dso).or_default().push(executed);
        }
    }
    for (id, executed) in by_dso {
        let (Some(view), Some(label)) = (dsos.view(id), dsos.label(id)) else { continue };
        let Some(map) = BlockMap::read(view.bytes(), files).map_err(|error| error.with_input(label))? else {
            continue;
        };
        let Some(bias) = bias(recording, view, &executed) else {
            skipped.add(Reason::UnknownBias, 0, label);
            continue;
        };
        // One that several functions or parts list ran for each of them.
        let mut counts: BTreeMap<u64, u128> = BTreeMap::new();
        for executed in executed {
            let sum = counts.entry(executed.address.wrapping_sub(bias)).or_default();
            *sum = sum.saturating_add(u128::from(executed.count));
        }
        for (key, counted) in counted(view, label, &map, counts.into_iter()) {
            if counted.is_sparse() {
                skipped.add(Reason::SparseBlocks, 0, &key.name);
                continue;
            }
            let Some((hash, graph)) = counted.graph() else { continue };
            let Some(function) = profile.find(&key) else { continue };
            profile.blocks_total = profile.blocks_total.saturating_add(graph.sum().unwrap_or(u128::MAX));
            let blocks = &mut profile.facts_mut(function).blocks;
            let added = blocks.get_or_insert_with(|| Box::new(Blocks::default())).add(hash, graph);
            if added.is_none() {
                skipped.add(Reason::BlocksBeyond, 0, &key.name);
            }
        }
    }
    Ok(())
}

/// How far from its addresses in the file a DSO was loaded: most functions begin at the lowest address that ran of them, and programs are
/// loaded in whole pages.
fn bias(recording: &Recording, view: &View<'_>, executed: &[&Executed]) -> Option<u64> {
    const PAGE: u64 = 4096;
    let mut lowest: HashMap<&[u8], u64> = HashMap::new();
    for executed in executed {
        if let Spot::Symbol { name, .. } = &recording.addresses()[executed.function.0 as usize].spot {
            let address = lowest.entry(name).or_insert(executed.address);
            *address = executed.address.min(*address);
        }
    }
    let mut votes: BTreeMap<u64, u64> = BTreeMap::new();
    for (name, lowest) in lowest {
        let function = std::str::from_utf8(name).ok().and_then(|name| view.only(name));
        let bias = function.map(|function| lowest.wrapping_sub(function.address));
        if let Some(bias) = bias.filter(|bias| bias % PAGE == 0) {
            *votes.entry(bias).or_default() += 1;
        }
    }
    let all: u64 = votes.values().sum();
    let best = votes.into_iter().max_by_key(|(bias, votes)| (*votes, std::cmp::Reverse(*bias)))?;
    (best.1 > all / 2).then_some(best.0)
}

/// What is counted of a function.
#[derive(Default)]
struct Counted {
    hash: Option<u32>,
    counts: BTreeMap<u32, u128>,
    /// Blocks of which the line table has a row.
    told: BTreeSet<u32>,
}

impl Counted {
    /// The largest number of a block.
    fn last(&self) -> Option<u32> {
        self.counts.keys().chain(&self.told).max().copied()
    }

    /// True if the numbers of blocks are so far apart that no compiler wrote them: most blocks have a line.
    fn is_sparse(&self) -> bool {
        self.last() > u32::try_from(1000 + 16 * (self.told.len() + self.counts.len())).ok()
    }

    /// The hash of its graph and its counts; None where it did not run, or its graph is not known. What no row tells of cannot be known.
    fn graph(self) -> Option<(u32, GraphCounts)> {
        let last = self.last()?;
        let is_unknown = |block: &u32| !self.told.contains(block) && !self.counts.contains_key(block);
        let unknown = (1..=last).filter(is_unknown).collect();
        let graph = GraphCounts { seen: self.counts.iter().map(|(b, c)| (*b, *c)).collect(), unknown };
        (!self.counts.is_empty()).then_some((self.hash?, graph))
    }
}

/// The counts of each function: a block ran as often as its most frequent instruction. A cold part is of its function.
fn counted(
    view: &View<'_>,
    label: &str,
    map: &BlockMap,
    executed: impl Iterator<Item = (u64, u128)>,
) -> HashMap<FunctionKey, Counted> {
    let key_of = |name: &str, file: Option<&str>| {
        let whole = split_from(name).unwrap_or(name);
        FunctionKey::new(Some(label.as_bytes()), whole.as_bytes(), file.map(str::as_bytes))
    };
    let mut functions: HashMap<FunctionKey, Counted> = HashMap::new();
    for (address, count) in executed {
        let Ok(At::Function { function, file, .. }) = view.at_address(address) else { continue };
        let is_cold_part = split_from(&function.name).is_some();
        let block = map.block_at(function.address, address, is_cold_part);
        if let (Some(key), Some(block)) = (key_of(&function.name, file), block) {
            let sum = functions.entry(key).or_default().counts.entry(block).or_default();
            *sum = count.max(*sum);
        }
    }
    for (function, file) in view.functions() {
        let Some(counted) = key_of(&function.name, file).and_then(|key| functions.get_mut(&key)) else {
            continue;
        };
        let (start, end) = (function.address, function.address.saturating_add(function.size));
        counted.told.extend(map.blocks(start, end));
        if split_from(&function.name).is_none() {
            counted.hash = counted.hash.or(map.graph(start, end));
        }
    }
    functions
}
