// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is read of a file before its sites are searched, and the sites that were found.

use super::elf::PlannedFile;
use super::frames::{CodeUnit, UnwindTables};
use super::sites::{DirectSite, FastMap, IndirectSite, RefusedSites, SlotCallee, Trait};
use std::collections::BTreeSet;

/// A file whose sites are searched.
pub(super) struct ReadFile<'a, 'b> {
    pub(super) image: &'b PlannedFile<'a>,
    pub(super) tables: &'b UnwindTables<'a>,
    /// The code that its unwind tables describe, in ascending order.
    pub(super) units: &'b [CodeUnit],
    /// By unit: true if it shares bytes with another one.
    pub(super) overlaps: &'b [bool],
    /// First bytes of functions, in ascending order.
    pub(super) functions: &'b [u64],
    pub(super) slots: &'b FastMap<u64, SlotCallee>,
    /// Linkage stubs: their first bytes, and the slots that they read.
    pub(super) stubs: &'b FastMap<u64, u64>,
    /// Words of data that may be addresses of code, in ascending order.
    pub(super) words: &'b [u64],
}

impl ReadFile<'_, '_> {
    pub(super) fn is_function(&self, address: u64) -> bool {
        self.functions.binary_search(&address).is_ok()
    }
}

/// The sites of a file.
#[derive(Debug, Default)]
pub(super) struct FoundSites {
    pub(super) direct: Vec<DirectSite>,
    pub(super) indirect: Vec<IndirectSite>,
    pub(super) refused: RefusedSites,
    pub(super) traits: BTreeSet<Trait>,
}

impl FoundSites {
    pub(super) fn refuse(&mut self, why: &'static str, count: u64) {
        if count > 0 {
            *self.refused.entry(why.into()).or_default() += count;
        }
    }
}
