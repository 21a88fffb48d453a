// SPDX-License-Identifier: MIT OR Apache-2.0
//! The block map of sediment's plugin for GCC (`-fplugin-arg-sediment-blocks`), the section `.debug.sediment_blocks`.
//! gcc-plugin/block_map.cc is the writer.
//!
//! For each function: the version, a byte, 1 or 2; the hash of its control-flow graph, 4 bytes; in version 2 a byte, why the function stays
//! whole ([`WhyWhole`]); the number of its blocks, and for each of them, from number 1 on, its signature, 2 bytes; the number of ranges of
//! code. For each range: its address; the number of its stretches; for each of these the number of the block whose code it is, 0 where none
//! is known, and its bytes. Numbers without a stated size are ULEB128, others are in the file's order of bytes. Where a linker dropped a
//! function, the address of its range is 0 or -1.

use super::section::{SectionNumbers, unpacked};
use crate::error::{Error, ErrorCode, Result};
use crate::unpack;

pub(super) const SECTION: &str = ".debug.sediment_blocks";
/// The version whose functions say why they stay whole.
const WITH_REASON: u8 = 2;

/// Code of one block without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Address as linked.
    pub address: u64,
    /// Bytes of code.
    pub size: u64,
    /// Number of its block, from 1; `None` if it is not known.
    pub block: Option<u32>,
}

/// Why the plugin split off no blocks of a function, although some did not run: `Whole` of gcc-plugin/block_map.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyWhole {
    /// 1: GCC expects few executions of the blocks.
    FewExecutions,
    /// 2: the blocks have no more instructions than there are jumps into and out of them.
    SmallParts,
    /// 3: GCC splits no function of this kind: with a section of its own, naked, cold, or optimised for size.
    Kind,
    /// 4: its code has distances that cannot span sections.
    Distances,
    /// 5: `-fno-reorder-blocks-and-partition`.
    Option,
    /// 6: other work may execute the blocks.
    Likely,
    /// 7: the build named a file of counts that was not read, or does not have the function.
    Uncounted,
}

impl WhyWhole {
    fn of(byte: u8) -> Option<Self> {
        let all = [
            Self::FewExecutions,
            Self::SmallParts,
            Self::Kind,
            Self::Distances,
            Self::Option,
            Self::Likely,
            Self::Uncounted,
        ];
        all.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// The blocks of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFunction {
    /// Hash of its control-flow graph.
    pub graph: u32,
    /// Why it stays whole; `None` if the map has no reason, or the reason of a newer plugin.
    pub why_whole: Option<WhyWhole>,
    /// Signatures of its blocks, from number 1 on.
    pub signatures: Vec<u16>,
    /// Its code: first all of its first range, whose first stretch is the function's begin.
    pub code: Vec<Stretch>,
}

/// Reads the map of an ELF file; `None` if it has none.
///
/// # Errors
/// [`ErrorCode::Damaged`] if the map is damaged, with the offset of the function; [`ErrorCode::NewerVersion`] if it has
/// another version; and the errors of a compressed section.
pub fn read(bytes: &[u8]) -> Result<Option<Vec<MappedFunction>>> {
    let damaged =
        |why: &str| Error::new(ErrorCode::Damaged, format!("the block map {SECTION} is damaged: {why}"));
    let file = object::File::parse(bytes).map_err(|error| damaged(&error.to_string()))?;
    let mut budget = unpack::DEBUG_SECTIONS.of(bytes.len() as u64);
    let Some(data) = unpacked(&file, SECTION, &mut budget)? else { return Ok(None) };
    let mut numbers = SectionNumbers::of(&data, &file);
    let mut functions = Vec::new();
    while let Some(version) = numbers.byte() {
        let at = data.len() - numbers.rest.len() - 1;
        if !(1..=WITH_REASON).contains(&version) {
            return Err(Error::new(
                ErrorCode::NewerVersion,
                format!("unsupported version {version} of the block map {SECTION} at offset {at:#x}"),
            )
            .with_hint("update sediment to the version of the plugin for GCC that compiled this file"));
        }
        let function = function(&mut numbers, version)
            .ok_or_else(|| damaged(&format!("the entry of the function at offset {at:#x} is cut off")))?;
        functions.extend(Some(function).filter(|function| !function.code.is_empty()));
    }
    Ok(Some(functions))
}

/// Reads a function after its version; without code if the linker dropped it.
fn function(numbers: &mut SectionNumbers<'_>, version: u8) -> Option<MappedFunction> {
    let graph = u32::try_from(numbers.number(4)?).ok()?;
    let why_whole = if version == WITH_REASON { WhyWhole::of(numbers.byte()?) } else { None };
    let mut signatures = Vec::new();
    for _ in 0..numbers.uleb()? {
        signatures.push(u16::try_from(numbers.number(2)?).ok()?);
    }
    let mut code = Vec::new();
    for _ in 0..numbers.uleb()? {
        let mut address = numbers.address()?;
        let is_dropped = [0, u64::from(u32::MAX), u64::MAX].contains(&address);
        for _ in 0..numbers.uleb()? {
            let block = u32::try_from(numbers.uleb()?).ok()?;
            let size = numbers.uleb()?;
            if !is_dropped {
                code.push(Stretch { address, size, block: Some(block).filter(|block| *block > 0) });
                address = address.checked_add(size)?;
            }
        }
    }
    Some(MappedFunction { graph, why_whole, signatures, code })
}
