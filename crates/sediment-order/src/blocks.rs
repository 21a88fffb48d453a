// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes block counts of functions for compilers: GCC ([`counts`]) and clang ([`clusters`]).

use sediment_core::binary::block_map::BlockMap;
use sediment_core::binary::{Binary, BinaryFunction};
use sediment_core::error::{self, Error, ErrorCode};
use sediment_core::profile::Profile;
use sediment_core::profile::blocks::{BlockCounts, BlockUnit, OF_CLANG};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

/// The first line of a file of counts.
pub const HEADER: &str = "sediment-blocks 2";

/// Counts above this are scaled down together, so that sums stay within 64 bits.
const LARGEST: u128 = 1 << 40;

/// Writes block counts for sediment's plugin for GCC (`-fplugin-arg-sediment-profile=FILE`).
///
/// After the [`HEADER`], each graph of a function has a line with name, file, hash and blocks as in the profile's
/// attribute, separated by tabs. Lines are sorted by name, file and weight. The first line has no name: its block has the
/// executions of all functions. The reader is gcc-plugin/counts.cc.
#[must_use]
pub fn counts(profile: &Profile) -> (String, Skipped) {
    counts_with(profile, &UnexecutedFunctions::default())
}

/// As [`counts`], with a line without blocks for each function that no recording executed. Their number is the count of
/// block 2 in the first line.
#[must_use]
pub fn counts_with(profile: &Profile, unexecuted: &UnexecutedFunctions) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    let functions = functions(profile, &mut skipped);
    let largest = functions.values().map(BlockCounts::largest).max().unwrap_or(0);
    let scale = |count: u128| -> Result<u128, std::convert::Infallible> {
        Ok(if largest > LARGEST { (count / (largest / LARGEST + 1)).max(1) } else { count })
    };
    // The plugin searches lines by byte order.
    let key = |name: &str, file: &str| format!("{name}\t{file}\t");
    let mut lines: BTreeMap<String, Option<&BlockCounts>> =
        unexecuted.0.iter().map(|(name, file)| (key(name, file), None)).collect();
    lines.extend(functions.iter().map(|((name, file), blocks)| (key(name, file), Some(blocks))));
    let mut text = String::new();
    let mut executions: u128 = 0;
    let mut has_counts = false;
    for (line, blocks) in &lines {
        let Some(blocks) = blocks else {
            let _ = writeln!(text, "{line}00000000\t");
            continue;
        };
        let Ok(scaled) = blocks.scaled(scale);
        for (hash, graph) in scaled.graphs().into_iter().filter(|(hash, _)| hash & OF_CLANG == 0) {
            let first = graph.seen.iter().find(|(block, _)| *block == 1);
            executions += first.map_or(0, |(_, count)| *count);
            has_counts = true;
            let _ = writeln!(text, "{line}{hash:08x}\t{graph}");
        }
    }
    if !has_counts {
        return (format!("{HEADER}\n"), skipped);
    }
    let unexecuted = match unexecuted.0.len() {
        0 => String::new(),
        count => format!(" 2={count}"),
    };
    (format!("{HEADER}\n\t\t00000000\t1={executions}{unexecuted}\n{text}"), skipped)
}

/// Functions of recorded programs that no recording executed, by name and file; the file is empty for global functions.
#[derive(Debug, Clone, Default)]
pub struct UnexecutedFunctions(BTreeSet<(String, String)>);

impl UnexecutedFunctions {
    /// Adds the functions of a recorded program whose blocks GCC's plugin numbered, and that the profile does not have.
    /// A function stays out if the profile has any clone of it, or any function of its name, and if another symbol at
    /// its address was executed. A local function needs a file.
    ///
    /// # Errors
    /// If the profile has none of the program's functions: it was not recorded, so nothing is known about it.
    pub fn add(&mut self, profile: &Profile, binary: &Binary, map: &BlockMap) -> error::Result<()> {
        let known: HashSet<&str> = profile
            .functions()
            .into_iter()
            .map(|function| without_clones(profile.key(function).name.as_ref()))
            .collect();
        let has = |function: &&BinaryFunction| known.contains(without_clones(&function.name));
        let executed: HashSet<u64> =
            binary.functions.iter().filter(has).map(|function| function.address).collect();
        if executed.is_empty() {
            return Err(Error::new(ErrorCode::NotInProfile, "the profile has none of its functions")
                .with_hint("give the program that was recorded"));
        }
        for function in &binary.functions {
            let file = function.file.as_deref().unwrap_or_default();
            let is_of_gcc =
                map.graph(function.address, function.end()).is_some_and(|hash| hash & OF_CLANG == 0);
            let is_found_again = function.local != file.is_empty() && !function.name.contains(['\t', '\n']);
            if is_of_gcc && is_found_again && !has(&function) && !executed.contains(&function.address) {
                let file = if function.local { file } else { "" };
                self.0.insert((function.name.clone(), file.to_owned()));
            }
        }
        Ok(())
    }

    /// Number of functions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Name of a function without the suffixes of compilers, such as `.constprop.0`.
fn without_clones(name: &str) -> &str {
    match name.find('.') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

/// Block counts by name and file; the file is empty if it is not known. A unit does not know which program it becomes
/// part of. Therefore functions with the same name and file are one, whatever their DSO.
fn functions<'a>(profile: &'a Profile, skipped: &mut Skipped) -> BTreeMap<(&'a str, &'a str), BlockCounts> {
    let mut functions: BTreeMap<(&str, &str), BlockCounts> = BTreeMap::new();
    for function in profile.functions() {
        let Some(blocks) = &profile.facts(function).blocks else { continue };
        let key = profile.key(function);
        let identity = (key.name.as_ref(), key.file.as_deref().unwrap_or_default());
        if functions.entry(identity).or_default().absorb(blocks).is_none() {
            skipped.add(Reason::BlocksBeyond, 0, &key.name);
        }
    }
    functions
}

/// Writes the executed blocks as clang's and lld's list of basic block sections (`-fbasic-block-sections=list=FILE`), version 1.
///
/// The executed blocks of each function are one cluster, in their order in the code; all other blocks become the
/// function's cold part. The list has no hashes: for a function with several graphs the heaviest is used, and in
/// another version of the source, blocks are matched by the same ids. Local functions with the same name in several
/// files cannot be distinguished in it, and are skipped. Source: clang's user's manual and
/// `BasicBlockSectionsProfileReader`.
///
/// # Errors
/// If the counts are samples: these do not show which blocks were never executed.
pub fn clusters(profile: &Profile) -> error::Result<(String, Skipped)> {
    if profile.blocks_unit == BlockUnit::Samples {
        return Err(Error::new(
            ErrorCode::NotInProfile,
            "the block counts are samples, which do not show the blocks that never ran",
        )
        .with_hint("record with callgrind --dump-instr=yes or lackey: docs/beyond-functions.md"));
    }
    let mut skipped = Skipped::default();
    let mut text = String::from("v1\n");
    let mut by_name: BTreeMap<&str, Vec<BlockCounts>> = BTreeMap::new();
    for ((name, _), blocks) in functions(profile, &mut skipped) {
        by_name.entry(name).or_default().push(blocks);
    }
    for (name, same) in by_name {
        let mut graphs = same.iter().flat_map(|blocks| blocks.graphs());
        let Some((_, graph)) = graphs.find(|(hash, _)| hash & OF_CLANG != 0) else { continue };
        if same.len() > 1 || name.contains(' ') {
            skipped.add(Reason::AmbiguousBlocks, 0, name);
            continue;
        }
        let place_of: BTreeMap<u32, u16> = graph.signatures.iter().copied().collect();
        let mut cluster: Vec<u32> = graph.seen.iter().map(|(block, _)| *block).collect();
        // Every cluster contains the entry, as its first block.
        cluster.retain(|block| *block > 1);
        cluster.sort_by_key(|block| (place_of.get(block).copied().unwrap_or(u16::MAX), *block));
        let ids: String = cluster.iter().map(|block| format!(" {}", block - 1)).collect();
        let _ = writeln!(text, "f {name}\nc 0{ids}");
    }
    Ok((text, skipped))
}
