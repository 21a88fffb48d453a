// SPDX-License-Identifier: MIT OR Apache-2.0
//! LLVM's basic block address map, `SHT_LLVM_BB_ADDR_MAP`, of versions 1 and 2 (clang 19): `-fbasic-block-address-map`.
//!
//! Source: LLVM's Extensions.rst, "SHT_LLVM_BB_ADDR_MAP Section". For each function: version and features, a byte each; with feature 8
//! the number of ranges; for each range its address and its blocks, each with id (version 2), distance from the end
//! of the block in front, size and properties; then the compiler's own estimates, which are skipped here.

use crate::error::{Error, ErrorCode, Result};
use object::{Object as _, ObjectSection as _};

const SECTION: &str = ".llvm_bb_addr_map";
const HAS_ENTRY_COUNT: u8 = 1;
const HAS_FREQUENCIES: u8 = 2;
const HAS_PROBABILITIES: u8 = 4;
const HAS_RANGES: u8 = 8;

/// Block of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedBlock {
    /// LLVM's id, from 0, the function's entry.
    pub id: u32,
    /// Address as linked.
    pub address: u64,
    /// Bytes of code.
    pub size: u64,
    /// Properties: 1 returns, 2 tail call, 4 landing pad, 8 falls through, 16 indirect branch.
    pub properties: u32,
}

/// The blocks of one function, in the order of its ranges and, within these, by address.
pub type MappedFunction = Vec<MappedBlock>;

/// Reads the map of an ELF file; None where it has none.
///
/// # Errors
/// [`ErrorCode::Damaged`] when the map is damaged, with the offset of the function; [`ErrorCode::NewerVersion`] when it is of another
/// version.
pub fn read(bytes: &[u8]) -> Result<Option<Vec<MappedFunction>>> {
    let damaged = |why: &str| {
        Error::new(ErrorCode::Damaged, format!("the block address map {SECTION} is damaged: {why}"))
    };
    let file = object::File::parse(bytes).map_err(|error| damaged(&error.to_string()))?;
    let Some(section) = file.section_by_name(SECTION) else { return Ok(None) };
    let data = section.data().map_err(|error| damaged(&error.to_string()))?;
    let mut rest = Reader { rest: data, is_little_endian: file.is_little_endian(), is_64: file.is_64() };
    let mut functions = Vec::new();
    while !rest.rest.is_empty() {
        let at = data.len() - rest.rest.len();
        let cut = || damaged(&format!("the function at offset {at:#x} has no end"));
        let (Some(version), Some(features)) = (rest.byte(), rest.byte()) else { return Err(cut()) };
        let all = HAS_ENTRY_COUNT | HAS_FREQUENCIES | HAS_PROBABILITIES | HAS_RANGES;
        if !(1..=2).contains(&version) || features & !all != 0 {
            let what = format!(
                "the block address map {SECTION} is of version {version}, features {features}, at offset {at:#x}"
            );
            return Err(Error::new(ErrorCode::NewerVersion, what)
                .with_hint("compile with clang 19, or another whose map is of version 2"));
        }
        functions.push(rest.function(version, features).ok_or_else(cut)?);
    }
    Ok(Some(functions))
}

struct Reader<'a> {
    rest: &'a [u8],
    is_little_endian: bool,
    is_64: bool,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn uleb(&mut self) -> Option<u64> {
        let (mut sum, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            sum |= bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
            if byte & 0x80 == 0 {
                return Some(sum);
            }
            shift += 7;
        }
    }

    fn address(&mut self) -> Option<u64> {
        let (bytes, rest) = self.rest.split_at_checked(if self.is_64 { 8 } else { 4 })?;
        self.rest = rest;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.is_little_endian { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) })
    }

    fn function(&mut self, version: u8, features: u8) -> Option<MappedFunction> {
        let ranges = if features & HAS_RANGES != 0 { self.uleb()? } else { 1 };
        let mut blocks = Vec::new();
        for _ in 0..ranges {
            let mut end = self.address()?;
            for place in 0..self.uleb()? {
                let id = if version >= 2 { self.uleb()? } else { place };
                let address = end.checked_add(self.uleb()?)?;
                let size = self.uleb()?;
                let properties = u32::try_from(self.uleb()?).ok()?;
                end = address.checked_add(size)?;
                blocks.push(MappedBlock { id: u32::try_from(id).ok()?, address, size, properties });
            }
        }
        if features & HAS_ENTRY_COUNT != 0 {
            self.uleb()?;
        }
        for _ in &blocks {
            if features & HAS_FREQUENCIES != 0 {
                self.uleb()?;
            }
            if features & HAS_PROBABILITIES != 0 {
                for _ in 0..self.uleb()? {
                    self.uleb()?;
                    self.uleb()?;
                }
            }
        }
        Some(blocks)
    }
}
