// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the linked ELF with the block counts that it was compiled with: which functions were split, and the share
//! of the recorded weight in cold parts.
//!
//! The file, or its debug file, needs a map of its blocks (`-fplugin-arg-sediment-blocks`). The **weight** of a block
//! is its count times the bytes of its code, approximately the number of executed bytes.

use sediment_core::binary::block_map::BlockMap;
use sediment_core::binary::gcc_block_map::WhyWhole;
use sediment_core::binary::names::{split_from, without_lto_number};
use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::matching::identity;
use sediment_core::profile::blocks::GraphCounts;
use sediment_core::profile::{FunctionIndex, Profile};
use std::collections::HashMap;

/// State of a function whose blocks were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockLayout {
    /// Compiled with its counts, and split.
    Split,
    /// Compiled with its counts; all of its blocks were executed.
    AllExecuted,
    /// Compiled with its counts, but not split: too few executions to decide which blocks are cold.
    TooFewExecutions,
    /// Compiled with its counts, but not split, although some of its blocks did not run.
    Whole,
    /// The profile has no counts for its control-flow graph. It was split nevertheless, with counts matched from
    /// another graph or with the compiler's estimates.
    SplitOtherGraph,
    /// The profile has no counts for its control-flow graph, and it was not split: another version, or another compiler.
    OtherGraph,
    /// It was compiled without counts: the build's file of counts was not read, or does not have it.
    Uncounted,
    /// Its blocks have no numbers.
    Unnumbered,
    /// The file has no such function.
    NotInBinary,
}

impl BlockLayout {
    /// Every state, and its name for programs.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Split, "split"),
        (Self::AllExecuted, "all-ran"),
        (Self::TooFewExecutions, "too-few-executions"),
        (Self::Whole, "whole"),
        (Self::SplitOtherGraph, "split-other-graph"),
        (Self::OtherGraph, "other-graph"),
        (Self::Uncounted, "uncounted"),
        (Self::Unnumbered, "unnumbered"),
        (Self::NotInBinary, "not-in-binary"),
    ];

    /// True if the function was compiled with its own counts, for exactly its graph.
    fn is_by_counts(self) -> bool {
        matches!(self, Self::Split | Self::AllExecuted | Self::TooFewExecutions | Self::Whole)
    }
}

/// Least number of executions that the plugin must expect of a block before it treats a count of zero as cold:
/// `least_expected` of gcc-plugin/flow.cc.
const LEAST_EXPECTED: u128 = 4;

/// A function whose blocks were counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedFunction {
    /// Linkage name.
    pub name: String,
    /// State in the binary.
    pub layout: BlockLayout,
    /// Why it is [`BlockLayout::Whole`]; None for other states, and if its map has no reason.
    pub why_whole: Option<WhyWhole>,
    /// Executions of its blocks in the profile, in all of its graphs.
    pub executions: u128,
    /// Weight of all its blocks; 0 if the counts are for another graph.
    pub weight: u128,
    /// Weight of the blocks in its cold part; 0 if the counts are for another graph.
    pub cold_weight: u128,
    /// Bytes outside its cold part.
    pub bytes: u64,
    /// Bytes of its cold part.
    pub cold_bytes: u64,
}

/// States of the functions of a program whose blocks were counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlocksReport {
    /// Functions with counts, by name.
    pub functions: Vec<CountedFunction>,
}

impl BlocksReport {
    /// Returns the functions in a state.
    pub fn of(&self, layout: BlockLayout) -> impl Iterator<Item = &CountedFunction> {
        self.functions.iter().filter(move |function| function.layout == layout)
    }

    /// Share of the weight in cold parts, in parts per million; None without a weight.
    #[must_use]
    pub fn cold_parts_per_million(&self) -> Option<u64> {
        share(self.sum(|function| function.weight), self.sum(|function| function.cold_weight))
    }

    /// Coverage: share of the executions of blocks in functions that were compiled with exactly these counts, in parts
    /// per million; None without executions.
    #[must_use]
    pub fn coverage_per_million(&self) -> Option<u64> {
        let by_counts =
            |function: &CountedFunction| if function.layout.is_by_counts() { function.executions } else { 0 };
        share(self.sum(|function| function.executions), self.sum(by_counts))
    }

    fn sum(&self, of: impl Fn(&CountedFunction) -> u128) -> u128 {
        self.functions.iter().map(of).fold(0u128, u128::saturating_add)
    }
}

/// A part of a whole, in parts per million; None if the whole is 0.
fn share(whole: u128, part: u128) -> Option<u64> {
    // A million times the part must fit, so the lowest bits are dropped.
    let shift = 20u32.saturating_sub(whole.leading_zeros());
    let (whole, part) = (whole >> shift, part >> shift);
    (whole > 0).then(|| u64::try_from(part * 1_000_000 / whole).unwrap_or(1_000_000))
}

/// Compares a linked file with the counts of a profile. `map`: the blocks of the file, `None` if it numbers none;
/// `file_name`: its base name, by which its profile is found.
///
/// # Errors
/// If the profile has no block counts of this program.
pub fn blocks(
    binary: &Binary,
    map: Option<&BlockMap>,
    profile: &Profile,
    file_name: &str,
) -> Result<BlocksReport> {
    let cluster = identity::dso_of(profile, binary, file_name);
    let label = cluster.as_ref().map(|found| found.label.as_str());
    let is_ours = |function: &FunctionIndex| {
        profile.key(*function).dso.as_deref() == label && profile.facts(*function).blocks.is_some()
    };
    let mut by_name: HashMap<&str, Vec<&BinaryFunction>> = HashMap::new();
    for function in &binary.functions {
        let name = without_lto_number(split_from(&function.name).unwrap_or(&function.name));
        by_name.entry(name).or_default().push(function);
    }
    let functions: Vec<CountedFunction> = profile
        .functions()
        .into_iter()
        .filter(is_ours)
        .map(|function| {
            let key = profile.key(function);
            let found = by_name.get(without_lto_number(&key.name)).map(Vec::as_slice).unwrap_or_default();
            judged(profile, function, &parts_of(profile, function, found, map), map)
        })
        .collect();
    if functions.is_empty() {
        return Err(Error::new(
            ErrorCode::NotInProfile,
            format!("the profile has no block counts of {file_name}"),
        )
        .with_hint(
            "record a program with numbered blocks, or import its recording with --blocks: docs/beyond-functions.md",
        ));
    }
    Ok(BlocksReport { functions })
}

/// Chooses the parts that belong to a function from the candidates. Link-time optimisation numbers local functions of
/// the same name in the order of the units, which may differ in another build. So the function with a counted graph
/// comes first, then the one of the same name.
fn parts_of<'a>(
    profile: &Profile,
    function: FunctionIndex,
    found: &[&'a BinaryFunction],
    map: Option<&BlockMap>,
) -> Vec<&'a BinaryFunction> {
    let key = profile.key(function);
    let graphs = profile.facts(function).blocks.as_ref().map(|blocks| blocks.graphs()).unwrap_or_default();
    let whole_name = |part: &'a BinaryFunction| split_from(&part.name).unwrap_or(&part.name);
    let is_counted = |part: &BinaryFunction| {
        let hash = map.and_then(|map| map.graph(part.address, end_of(part)));
        hash.is_some_and(|hash| graphs.iter().any(|(graph, _)| *graph == hash))
    };
    let of_file = |part: &&&'a BinaryFunction| key.file.is_none() || part.file == key.file;
    let parts: Vec<&'a BinaryFunction> = found.iter().filter(of_file).copied().collect();
    let is_own = |part: &&&'a BinaryFunction| whole_name(part) == key.name;
    let chosen = parts
        .iter()
        .find(|part| is_own(part) && is_counted(part))
        .or_else(|| parts.iter().find(|part| is_counted(part)))
        .or_else(|| parts.iter().find(is_own));
    let Some(chosen) = chosen.map(|part| whole_name(part)) else { return Vec::new() };
    parts.into_iter().filter(|part| whole_name(part) == chosen).collect()
}

fn end_of(part: &BinaryFunction) -> u64 {
    part.address.saturating_add(part.size)
}

/// Computes the state of one function from its parts in the file.
fn judged(
    profile: &Profile,
    function: FunctionIndex,
    parts: &[&BinaryFunction],
    map: Option<&BlockMap>,
) -> CountedFunction {
    let (cold, whole): (Vec<&BinaryFunction>, Vec<&BinaryFunction>) =
        parts.iter().partition(|part| split_from(&part.name).is_some());
    let bytes =
        |parts: &[&BinaryFunction]| parts.iter().map(|part| part.size).fold(0u64, u64::saturating_add);
    let graphs = profile.facts(function).blocks.as_ref().map(|blocks| blocks.graphs()).unwrap_or_default();
    let executions = graphs.iter().map(|(_, counts)| counts.sum().unwrap_or(u128::MAX));
    let mut found = CountedFunction {
        name: profile.key(function).name.clone(),
        layout: BlockLayout::NotInBinary,
        why_whole: None,
        executions: executions.fold(0, u128::saturating_add),
        weight: 0,
        cold_weight: 0,
        bytes: bytes(&whole),
        cold_bytes: bytes(&cold),
    };
    let Some(first) = whole.first() else { return found };
    let Some((map, hash)) = map.and_then(|map| Some((map, map.graph(first.address, end_of(first))?))) else {
        found.layout = BlockLayout::Unnumbered;
        return found;
    };
    let Some((_, counts)) = graphs.into_iter().find(|(graph, _)| *graph == hash) else {
        found.layout = if cold.is_empty() { BlockLayout::OtherGraph } else { BlockLayout::SplitOtherGraph };
        return found;
    };
    let why_whole = map.why_whole(first.address, end_of(first));
    if why_whole == Some(WhyWhole::Uncounted) {
        found.layout = BlockLayout::Uncounted;
        return found;
    }
    let weight = |part: &BinaryFunction| weight(map, counts, part.address, end_of(part));
    found.cold_weight = cold.iter().map(|part| weight(part)).fold(0, u128::saturating_add);
    found.weight = whole.iter().map(|part| weight(part)).fold(found.cold_weight, u128::saturating_add);
    let mut extents = map.extents(first.address, end_of(first));
    let is_zero = |block: u32| counts.is_zero(block);
    found.layout = match cold.is_empty() {
        false => BlockLayout::Split,
        true if !extents.any(|(block, bytes)| bytes > 0 && is_zero(block)) => BlockLayout::AllExecuted,
        true if counts.seen.iter().all(|(_, count)| *count < LEAST_EXPECTED) => BlockLayout::TooFewExecutions,
        true => BlockLayout::Whole,
    };
    if found.layout == BlockLayout::Whole {
        found.why_whole = why_whole;
    }
    found
}

/// Returns count times bytes, summed over the blocks between two addresses.
fn weight(map: &BlockMap, counts: &GraphCounts, start: u64, end: u64) -> u128 {
    let weights =
        map.extents(start, end).map(|(block, bytes)| counts.count(block).saturating_mul(bytes.into()));
    weights.fold(0, u128::saturating_add)
}
