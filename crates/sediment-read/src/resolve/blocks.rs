// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps executed instructions to basic blocks of functions, if an available binary contains a block map.

use super::dsos::{At, BinaryView, Dsos};
use super::early::{self, SAMPLED_BYTES};
use super::executions::{Stretches, by_dso};
use crate::read::{Recording, Spot};
use sediment_core::binary::block_map::BlockMap;
use sediment_core::binary::gcc_early_map::EarlyMap;
use sediment_core::binary::names::split_from;
use sediment_core::binary::{Files, FilesBeside};
use sediment_core::error::{ErrorCode, Result};
use sediment_core::profile::blocks::{BlockCounts, BlockUnit, GraphCounts};
use sediment_core::profile::{FunctionKey, Profile};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Adds the counts of blocks.
///
/// # Errors
/// If debug information is damaged.
pub(super) fn add(
    profile: &mut Profile,
    recording: &Recording,
    dsos: &Dsos,
    files: &dyn Files,
    skipped: &mut Skipped,
) -> Result<()> {
    if recording.counts_by_samples {
        profile.blocks_unit = BlockUnit::Samples;
    }
    for (id, evidence) in by_dso(recording) {
        let (Some(view), Some(label)) = (dsos.view(id), dsos.label(id)) else { continue };
        let beside = FilesBeside { files, path: &recording.dsos()[id.0 as usize].path };
        let map = readable(BlockMap::read(view.bytes(), &beside), label, skipped)?;
        let early = readable(EarlyMap::read(view.bytes(), &beside), label, skipped)?;
        if map.is_none() && early.is_none() {
            continue;
        }
        let stretches = match recording.counts_by_samples {
            true => Vec::new(),
            false => Stretches::of(&evidence, recording, view, label, skipped).sums(),
        };
        if let Some(map) = &map {
            let functions = BlockFunctions { view, label, map };
            let counted = match recording.counts_by_samples {
                true => functions.sampled(&evidence.samples, least_cost(recording), skipped),
                false => functions.executed(&stretches, least_runs(recording), skipped),
            };
            for (key, counted) in counted {
                add_graph(profile, &key, counted, skipped);
            }
        }
        if let Some(map) = &early {
            let evidence = match recording.counts_by_samples {
                true => early::CodeEvidence::Sampled(&evidence.samples, least_cost(recording)),
                false => early::CodeEvidence::Executed(early::ExecutedCode {
                    stretches: &stretches,
                    least: least_runs(recording),
                    of_executed_functions: recording.tells_of_executed_functions,
                }),
            };
            early::add(profile, view, label, map, &evidence, skipped);
        }
    }
    Ok(())
}

/// Returns a map of a DSO; `None` if it has none, or one in an unsupported form.
fn readable<Map>(read: Result<Option<Map>>, label: &str, skipped: &mut Skipped) -> Result<Option<Map>> {
    match read {
        Err(error) if matches!(error.code(), ErrorCode::NewerVersion | ErrorCode::UnsupportedVariant) => {
            skipped.add(Reason::UnsupportedBlockMap, 0, label);
            Ok(None)
        }
        read => read.map_err(|error| error.with_input(label)),
    }
}

/// Adds the counts of a function.
fn add_graph(profile: &mut Profile, key: &FunctionKey, counted: FunctionBlockCounts, skipped: &mut Skipped) {
    if counted.is_sparse() {
        skipped.add(Reason::SparseBlocks, 0, &key.name);
        return;
    }
    let Some((hash, graph)) = counted.graph() else { return };
    let Some(function) = profile.find(key) else { return };
    profile.blocks_total = profile.blocks_total.saturating_add(graph.sum().unwrap_or(u128::MAX));
    let blocks = &mut profile.facts_mut(function).blocks;
    if blocks.get_or_insert_with(|| Box::new(BlockCounts::default())).add(hash, graph).is_none() {
        skipped.add(Reason::BlocksBeyond, 0, &key.name);
    }
}

/// Least number of samples of a function, or of its blocks in branch records, to decide which of its code is cold. With
/// this many samples, code with 2 % of the executions is expected once.
const SAMPLES: u128 = 50;

/// Least number of executions of a function's blocks to decide which of its code is cold; 0 if all executions were
/// counted.
fn least_runs(recording: &Recording) -> u128 {
    if recording.samples_taken > 0 { SAMPLES } else { 0 }
}

/// Least cost of a function's samples to decide which of its code is cold.
fn least_cost(recording: &Recording) -> u128 {
    let cost = recording.samples().iter().fold(0u128, |sum, (_, cost)| sum.saturating_add(*cost));
    let taken = if recording.samples_taken == 0 { cost } else { u128::from(recording.samples_taken) };
    (cost / taken.max(1)).max(1).saturating_mul(SAMPLES)
}

/// Counts of a function.
#[derive(Default)]
struct FunctionBlockCounts {
    hash: Option<u32>,
    counts: BTreeMap<u32, u128>,
    /// Bytes of the blocks that have code.
    bytes: BTreeMap<u32, u128>,
    signatures: BTreeMap<u32, u16>,
    /// Blocks without a known count.
    unknown: BTreeSet<u32>,
}

impl FunctionBlockCounts {
    /// The largest number of a block.
    fn last(&self) -> Option<u32> {
        self.counts.keys().chain(self.bytes.keys()).chain(self.signatures.keys()).max().copied()
    }

    /// True if the numbers of blocks are so far apart that no compiler wrote them.
    fn is_sparse(&self) -> bool {
        let known = self.bytes.len() + self.counts.len() + self.signatures.len();
        self.last() > u32::try_from(1000 + 16 * known).ok()
    }

    /// Returns the hash of its graph, and its counts; `None` if it did not run, or its graph is unknown. Nothing is
    /// known about blocks without code.
    fn graph(self) -> Option<(u32, GraphCounts)> {
        let last = self.last()?;
        let is_unknown = |block: &u32| {
            !self.counts.contains_key(block)
                && (!self.bytes.contains_key(block) || self.unknown.contains(block))
        };
        let unknown = (1..=last).filter(is_unknown).collect();
        let graph = GraphCounts {
            seen: self.counts.iter().map(|(b, c)| (*b, *c)).collect(),
            unknown,
            signatures: self.signatures.into_iter().collect(),
        };
        (!self.counts.is_empty()).then_some((self.hash?, graph))
    }
}

/// Drops functions with a smaller sum of counts.
fn drop_rarely_seen(
    functions: &mut HashMap<FunctionKey, FunctionBlockCounts>,
    least: u128,
    skipped: &mut Skipped,
) {
    functions.retain(|key, counted| {
        let sum = counted.counts.values().fold(0u128, |sum, count| sum.saturating_add(*count));
        if sum < least {
            skipped.add(Reason::FewSamples, sum, &key.name);
        }
        sum >= least
    });
}

/// The functions of a DSO whose blocks are numbered. A cold part belongs to its function.
struct BlockFunctions<'a> {
    view: &'a BinaryView<'a>,
    label: &'a str,
    map: &'a BlockMap,
}

impl BlockFunctions<'_> {
    /// Identity of the function at an address.
    fn at(&self, address: u64) -> Option<FunctionKey> {
        let Ok(At::Function { function, file, .. }) = self.view.at_address(address) else { return None };
        self.key(&function.name, file)
    }

    fn key(&self, name: &str, file: Option<&str>) -> Option<FunctionKey> {
        let whole = split_from(name).unwrap_or(name);
        FunctionKey::new(Some(self.label.as_bytes()), whole.as_bytes(), file.map(str::as_bytes))
    }

    /// Returns the counts of executed code. The count of a block is the median count of its instructions, because
    /// compilers merge equal instructions of several blocks, and callgrind adds the executions of a linkage stub to the
    /// call. Functions with
    /// fewer executions of blocks than `least` get no counts.
    fn executed(
        &self,
        stretches: &[(u64, u64, u128)],
        least: u128,
        skipped: &mut Skipped,
    ) -> HashMap<FunctionKey, FunctionBlockCounts> {
        let mut instructions: HashMap<FunctionKey, BTreeMap<u32, Vec<u128>>> = HashMap::new();
        for (begin, end, count) in stretches.iter().copied() {
            let Some(key) = self.at(begin) else { continue };
            let first = self.map.block_at(begin);
            let blocks = instructions.entry(key).or_default();
            for block in first.into_iter().chain(self.map.blocks(begin.saturating_add(1), end)) {
                blocks.entry(block).or_default().push(count);
            }
        }
        let middle = |(block, mut counts): (u32, Vec<u128>)| {
            counts.sort_unstable();
            (block, counts[counts.len() / 2])
        };
        let counted = |(key, blocks): (FunctionKey, BTreeMap<u32, Vec<u128>>)| {
            (
                key,
                FunctionBlockCounts {
                    counts: blocks.into_iter().map(middle).collect(),
                    ..FunctionBlockCounts::default()
                },
            )
        };
        let mut functions: HashMap<FunctionKey, FunctionBlockCounts> =
            instructions.into_iter().map(counted).collect();
        drop_rarely_seen(&mut functions, least, skipped);
        self.tell(&mut functions, skipped);
        functions
    }

    /// Returns the counts of sampled code: the cost of a block per [`SAMPLED_BYTES`] of its code, because a sampler
    /// hits larger blocks more often.
    fn sampled(
        &self,
        samples: &[(&Spot, u128)],
        least: u128,
        skipped: &mut Skipped,
    ) -> HashMap<FunctionKey, FunctionBlockCounts> {
        let mut functions: HashMap<FunctionKey, FunctionBlockCounts> = HashMap::new();
        for (spot, cost) in samples {
            let Some(address) = self.view.address_of(spot) else { continue };
            let Some(key) = self.at(address) else { continue };
            let Some(block) = self.map.block_at(address) else { continue };
            let sum = functions.entry(key).or_default().counts.entry(block).or_default();
            *sum = sum.saturating_add(*cost);
        }
        drop_rarely_seen(&mut functions, least, skipped);
        self.tell(&mut functions, skipped);
        for counted in functions.values_mut() {
            for (block, cost) in &mut counted.counts {
                let bytes = counted.bytes.get(block).copied().unwrap_or(SAMPLED_BYTES);
                *cost = (cost.saturating_mul(SAMPLED_BYTES) / bytes.max(1)).max(1);
            }
        }
        functions
    }

    /// Adds the map's data about functions. Counts of several functions that share their identity are removed.
    fn tell(&self, functions: &mut HashMap<FunctionKey, FunctionBlockCounts>, skipped: &mut Skipped) {
        let mut start_of: HashMap<FunctionKey, u64> = HashMap::new();
        for (function, file) in self.view.functions() {
            let Some(key) = self.key(&function.name, file) else { continue };
            let Some(counted) = functions.get_mut(&key) else { continue };
            let (start, end) = (function.address, function.address.saturating_add(function.size));
            for (block, bytes) in self.map.extents(start, end) {
                let sum = counted.bytes.entry(block).or_default();
                *sum = sum.saturating_add(u128::from(bytes));
            }
            counted.signatures.extend(self.map.signatures(start, end));
            if split_from(&function.name).is_some() {
                continue;
            }
            counted.hash = counted.hash.or(self.map.graph(start, end));
            if start_of.get(&key).is_some_and(|first| *first != start) {
                skipped.add(Reason::AmbiguousBlocks, 0, &key.name);
                functions.remove(&key);
            } else {
                start_of.insert(key, start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_far_beyond_those_known_are_sparse() {
        let counted = |numbers: &[u32]| FunctionBlockCounts {
            counts: numbers.iter().map(|number| (*number, 1)).collect(),
            ..FunctionBlockCounts::default()
        };
        assert!(!counted(&[]).is_sparse() && !counted(&[2, 3, 1000]).is_sparse());
        assert!(counted(&[2, 3, 1_000_000]).is_sparse());
    }
}
