// SPDX-License-Identifier: MIT OR Apache-2.0
//! Budget of memory for breakpoints. A page of code with a breakpoint becomes a private copy of the process until the
//! process ends.

use nix::unistd::{SysconfVar, sysconf};
use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

/// Size of the smallest page on any supported system, in bytes. Pages that are adjacent at this size are adjacent, or
/// the same page, at larger sizes.
pub(super) const PAGE: u64 = 4096;

/// Number of pages that breakpoints may make private, in all recorded processes together.
#[derive(Debug)]
pub(super) struct PageBudget {
    /// Size of a page of this system in bytes.
    page: u64,
    pages: Cell<u64>,
    used: Cell<u64>,
    peak: Cell<u64>,
    /// True if a part of the budget is reserved for estimating rates.
    has_rates: bool,
}

impl PageBudget {
    /// Makes a budget of this many bytes. `has_rates`: whether rates are estimated; a part is reserved for them.
    pub(super) fn new(bytes: u64, has_rates: bool) -> Self {
        Self::with_pages_of(page_of_the_system(), bytes, has_rates)
    }

    /// As [`Self::new`], on a system with pages of `page` bytes.
    fn with_pages_of(page: u64, bytes: u64, has_rates: bool) -> Self {
        Self { page, pages: Cell::new(bytes / page), used: Cell::new(0), peak: Cell::new(0), has_rates }
    }

    /// Limits the budget to half of the bytes that the process's control groups have left. Returns those bytes if they
    /// are less than twice the budget.
    pub(super) fn fit(&self, left: Option<u64>) -> Option<u64> {
        let left = left?;
        let pages = left / 2 / self.page;
        if self.used.get() + pages >= self.pages.get() {
            return None;
        }
        self.pages.set(self.used.get() + pages);
        Some(left)
    }

    /// Largest number of bytes in use at one time.
    pub(super) fn peak(&self) -> u64 {
        self.peak.get() * self.page
    }

    /// The bytes that may be used.
    pub(super) fn bytes(&self) -> u64 {
        self.pages.get() * self.page
    }
}

/// Purpose of a breakpoint. If rates are estimated, a quarter of the budget is reserved for them, because they measure
/// the code that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakpointPurpose {
    /// Records the first use of a function.
    FirstUse,
    /// Measures how often a function runs that has already run.
    Rate,
}

/// Pages of one address space that breakpoints have made private.
#[derive(Debug)]
pub(super) struct OwnPages {
    budget: Rc<PageBudget>,
    pages: HashSet<u64>,
    /// The page of the last write.
    last: u64,
}

impl OwnPages {
    pub(super) fn new(budget: &Rc<PageBudget>) -> Self {
        Self { budget: Rc::clone(budget), pages: HashSet::new(), last: u64::MAX }
    }

    /// True if a breakpoint may be set at this address.
    pub(super) fn has_room(&self, address: u64, purpose: BreakpointPurpose) -> bool {
        let limit = match purpose {
            BreakpointPurpose::FirstUse if self.budget.has_rates => self.budget.pages.get() / 4 * 3,
            BreakpointPurpose::FirstUse | BreakpointPurpose::Rate => self.budget.pages.get(),
        };
        let page = address / self.budget.page;
        page == self.last || self.pages.contains(&page) || self.budget.used.get() < limit
    }

    /// Records a write at this address.
    pub(super) fn wrote(&mut self, address: u64) {
        let last = std::mem::replace(&mut self.last, address / self.budget.page);
        if last != self.last && self.pages.insert(self.last) {
            let used = self.budget.used.get() + 1;
            self.budget.used.set(used);
            self.budget.peak.set(self.budget.peak.get().max(used));
        }
    }

    /// Makes the pages of a copy of the address space. A page that both share counts once, until one of them writes to
    /// it.
    pub(super) fn of_copy(&self) -> Self {
        Self::new(&self.budget)
    }
}

impl Drop for OwnPages {
    fn drop(&mut self) {
        self.budget.used.set(self.budget.used.get() - self.pages.len() as u64);
    }
}

/// Size of a page in bytes: on AArch64, systems use 4, 16 or 64 KiB.
fn page_of_the_system() -> u64 {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    page.and_then(|page| u64::try_from(page).ok()).map_or(PAGE, |page| page.max(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_once_and_are_given_back() {
        let budget = Rc::new(PageBudget::with_pages_of(PAGE, 2 * PAGE, true));
        let mut one = OwnPages::new(&budget);
        one.wrote(0x1000);
        one.wrote(0x1fff);
        assert!(one.has_room(0x2000, BreakpointPurpose::Rate), "one page of two is left");
        let mut other = one.of_copy();
        other.wrote(0x1000);
        assert!(!one.has_room(0x2000, BreakpointPurpose::Rate), "a copy's page is another");
        assert!(one.has_room(0x1234, BreakpointPurpose::FirstUse), "this one is its own already");
        drop(other);
        assert!(one.has_room(0x2000, BreakpointPurpose::Rate));
        assert_eq!(budget.peak(), 2 * PAGE);
    }

    #[test]
    fn larger_pages_cost_more() {
        const LARGE: u64 = 16 * PAGE;
        let budget = Rc::new(PageBudget::with_pages_of(LARGE, 2 * LARGE, true));
        let mut pages = OwnPages::new(&budget);
        (0..16).for_each(|part| pages.wrote(part * PAGE));
        assert_eq!(budget.peak(), LARGE, "all are of one page");
        pages.wrote(LARGE);
        assert_eq!(budget.peak(), 2 * LARGE);
        assert!(!pages.has_room(2 * LARGE, BreakpointPurpose::Rate));
        assert!(pages.has_room(2 * LARGE - 1, BreakpointPurpose::Rate));
        assert_eq!(budget.bytes(), 2 * LARGE);
    }

    #[test]
    fn a_quarter_is_kept_for_rates() {
        let budget = Rc::new(PageBudget::with_pages_of(PAGE, 8 * PAGE, true));
        let mut pages = OwnPages::new(&budget);
        (0..6).for_each(|page| pages.wrote(page * PAGE));
        assert!(!pages.has_room(6 * PAGE, BreakpointPurpose::FirstUse));
        assert!(pages.has_room(6 * PAGE, BreakpointPurpose::Rate));
        let budget = Rc::new(PageBudget::with_pages_of(PAGE, 8 * PAGE, false));
        let mut pages = OwnPages::new(&budget);
        (0..6).for_each(|page| pages.wrote(page * PAGE));
        assert!(pages.has_room(6 * PAGE, BreakpointPurpose::FirstUse), "nothing else is recorded");
    }
}
