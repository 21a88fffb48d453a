// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stubs of a file at one place in memory, and the changed bytes of its code that lead to them.

use super::code::PreparedPages;
use super::copies::CodeCopy;
use super::machine;
use super::placement::{MadeStubs, StubPlacement};
use super::plan::SitePlan;
use std::cell::{Cell, OnceCell};

/// Stubs of a file, and what their processes share.
#[derive(Debug, Default)]
pub(super) struct Stubs {
    pub(super) made: MadeStubs,
    /// True after the changes were made in a process.
    pub(super) was_used: Cell<bool>,
    /// Pages of the file with all changes, after they were written to a second process.
    pub(super) prepared: OnceCell<Option<PreparedPages>>,
    /// The file's code with all changes in the shared memory, after a third process has needed it.
    pub(super) copy: OnceCell<Option<CodeCopy>>,
}

/// Largest number of bytes of stubs that a plan needs.
pub(super) fn size(plan: &SitePlan) -> u64 {
    machine::stubs::size(&plan.sites()).next_multiple_of(4096)
}

impl Stubs {
    /// Emits the stubs of a file.
    pub(super) fn emit(plan: &SitePlan, placement: &StubPlacement) -> Self {
        let made = machine::stubs::emit(&plan.sites(), size(plan), placement);
        Self { made, ..Self::default() }
    }

    /// Returns the same stubs for this further distance from their file; `None` if they cannot be moved so far.
    pub(super) fn moved(&self, by: i64) -> Option<Self> {
        Some(Self { made: machine::stubs::moved(&self.made, by)?, ..Self::default() })
    }

    /// Returns the site whose stub noted a call, by the offset to which the noting code returned: direct sites come
    /// first, then indirect ones.
    pub(super) fn noting_site(&self, plan: &SitePlan, offset: u32) -> Option<usize> {
        let calls = plan.calls();
        let noting = &self.made.noting;
        let [first_call, first_other] = noting.first;
        let numbered = |first: u32, bytes: u64| Some((offset.checked_sub(first)? / bytes as u32) as usize);
        let [call_bytes, other_bytes] = machine::stubs::traced_bytes();
        if let Some(other) = numbered(first_other, other_bytes) {
            let direct = Some(calls + other).filter(|site| *site < plan.direct.len());
            return direct.or_else(|| {
                let found = noting.indirect.binary_search_by_key(&offset, |(at, _)| *at).ok()?;
                Some(plan.direct.len() + noting.indirect[found].1 as usize)
            });
        }
        numbered(first_call, call_bytes).filter(|site| *site < calls)
    }

    /// Bytes on the stack of a noted call between the stack pointer that it has and the caller's at the call or jump.
    pub(super) fn noted_depth(plan: &SitePlan, site: usize) -> u32 {
        match plan.direct.get(site) {
            Some(site) => machine::stubs::depth_of_direct(site),
            None => {
                let site = plan.indirect.get(site - plan.direct.len());
                machine::stubs::depth_of_indirect(site.is_some_and(|site| site.is_tail))
            }
        }
    }
}
