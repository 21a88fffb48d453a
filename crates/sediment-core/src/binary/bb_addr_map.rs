// SPDX-License-Identifier: MIT OR Apache-2.0
//! LLVM's basic block address map, `SHT_LLVM_BB_ADDR_MAP`, of versions 1 to 5 (clang 19 writes 2, LLVM 22 writes 5):
//! `-fbasic-block-address-map`.
//!
//! Source: LLVM's Extensions.rst, "SHT_LLVM_BB_ADDR_MAP Section". For each function:
//!
//! - the version, a byte, and the features, a byte or, from version 5 on, two;
//! - with feature 8, the number of ranges;
//! - for each range, its address, the number of its blocks, and its blocks.
//!
//! For each block:
//!
//! - from version 2 on, its id;
//! - its distance from the end of the previous block;
//! - with feature 32, the number of its calls, and the distance of the end of each from the end of the one before it;
//! - its size, counted from the end of the last call;
//! - its properties, and with feature 64 a hash of 8 bytes.
//!
//! Then the compiler's own estimates follow, which are skipped here.

use super::section::SectionNumbers;
use crate::error::{Error, ErrorCode, Result};
use object::{Object as _, ObjectSection as _};

pub(super) const SECTION: &str = ".llvm_bb_addr_map";
const HAS_ENTRY_COUNT: u16 = 1;
const HAS_FREQUENCIES: u16 = 2;
const HAS_PROBABILITIES: u16 = 4;
const HAS_RANGES: u16 = 8;
const HAS_CALLS: u16 = 32;
const HAS_HASHES: u16 = 64;
const READ: u16 = HAS_ENTRY_COUNT | HAS_FREQUENCIES | HAS_PROBABILITIES | HAS_RANGES | HAS_CALLS | HAS_HASHES;

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
pub type BlockAddresses = Vec<MappedBlock>;

/// Reads the map of an ELF file; `None` if it has none.
///
/// # Errors
/// [`ErrorCode::Damaged`] when the map is damaged, with the offset of the function; [`ErrorCode::NewerVersion`] when it is of another
/// version.
pub fn read(bytes: &[u8]) -> Result<Option<Vec<BlockAddresses>>> {
    let damaged = |why: &str| {
        Error::new(ErrorCode::Damaged, format!("the block address map {SECTION} is damaged: {why}"))
    };
    let file = object::File::parse(bytes).map_err(|error| damaged(&error.to_string()))?;
    let Some(section) = file.section_by_name(SECTION) else { return Ok(None) };
    let data = section.data().map_err(|error| damaged(&error.to_string()))?;
    let mut rest = SectionNumbers::of(data, &file);
    let mut functions = Vec::new();
    while !rest.rest.is_empty() {
        let at = data.len() - rest.rest.len();
        let cut = || damaged(&format!("the entry of the function at offset {at:#x} is cut off"));
        let version = rest.byte().ok_or_else(cut)?;
        let features = rest.features(version).ok_or_else(cut)?;
        let is_known = (1..=5).contains(&version);
        if !is_known || features & !READ != 0 {
            let what = format!(
                "unsupported block address map {SECTION} at offset {at:#x}: version {version}, features {features:#x}"
            );
            let hint = if is_known {
                format!("compile without the options that add the features {:#x}", features & !READ)
            } else {
                "compile with a clang that writes version 5 or older, such as clang 19".to_owned()
            };
            return Err(Error::new(ErrorCode::NewerVersion, what).with_hint(hint));
        }
        functions.push(rest.function(version, features).ok_or_else(cut)?);
    }
    Ok(Some(functions))
}

impl SectionNumbers<'_> {
    fn features(&mut self, version: u8) -> Option<u16> {
        let bits = self.number(if version < 5 { 1 } else { 2 })?;
        u16::try_from(bits).ok()
    }

    fn block(&mut self, id: u64, front: u64, features: u16) -> Option<MappedBlock> {
        let address = front.checked_add(self.uleb()?)?;
        let mut size = 0u64;
        if features & HAS_CALLS != 0 {
            for _ in 0..self.uleb()? {
                size = size.checked_add(self.uleb()?)?;
            }
        }
        size = size.checked_add(self.uleb()?)?;
        let properties = u32::try_from(self.uleb()?).ok()?;
        if features & HAS_HASHES != 0 {
            self.number(8)?;
        }
        Some(MappedBlock { id: u32::try_from(id).ok()?, address, size, properties })
    }

    fn function(&mut self, version: u8, features: u16) -> Option<BlockAddresses> {
        let ranges = if features & HAS_RANGES != 0 { self.uleb()? } else { 1 };
        let mut blocks = Vec::new();
        for _ in 0..ranges {
            let mut end = self.address()?;
            for place in 0..self.uleb()? {
                let id = if version >= 2 { self.uleb()? } else { place };
                let block = self.block(id, end, features)?;
                end = block.address.checked_add(block.size)?;
                blocks.push(block);
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
