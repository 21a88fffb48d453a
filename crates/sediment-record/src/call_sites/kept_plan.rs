// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes the decisions of a plan for the cache: which sites change, and where functions begin.
//!
//! The change at a site and the code of its stub are always made from the bytes of the file. A plan is refused
//! completely if the bytes at one of its sites are not a site of this form. Facts that the bytes cannot show (for
//! example that no branch leads between moved instructions) are trusted, because only the user can write to the folder,
//! and a checksum protects the file.
//!
//! ```text
//! traits, functions, direct calls, other direct sites, indirect sites, refused sites
//! ```
//!
//! All numbers are LEB128; each address is stored as the distance from the one before.

use super::elf::PlannedFile;
use super::machine;
use super::machine::find::FORMS;
use super::sites::{DirectForm, DirectSite, FastMap, IndirectSite, RefusedSites, Trait};
use std::collections::BTreeSet;
use std::ops::Range;

const TRAITS: [Trait; 4] = [Trait::Traces, Trait::UsesGs, Trait::LocksMemory, Trait::ReadsMappings];

/// The decisions of a plan, as read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct KeptPlan {
    pub(super) traits: BTreeSet<Trait>,
    pub(super) functions: Vec<u64>,
    pub(super) direct: Vec<DirectSite>,
    pub(super) indirect: Vec<IndirectSite>,
    pub(super) refused: RefusedSites,
}

/// The decisions of a plan, to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanDecisions<'a> {
    pub(super) traits: &'a BTreeSet<Trait>,
    pub(super) functions: &'a [u64],
    /// Calls, and other direct sites.
    pub(super) direct: (&'a [DirectSite], &'a [DirectSite]),
    pub(super) indirect: &'a [IndirectSite],
    pub(super) refused: &'a RefusedSites,
}

/// Writes numbers.
#[derive(Default)]
struct NumberWriter {
    bytes: Vec<u8>,
    last: u64,
}

impl NumberWriter {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Writes an address that is not lower than the last one.
    fn address(&mut self, address: u64) {
        self.number(address.wrapping_sub(self.last));
        self.last = address;
    }

    /// Writes the number of addresses that follow.
    fn list(&mut self, length: usize) {
        self.number(length as u64);
        self.last = 0;
    }
}

/// Reads numbers.
struct NumberReader<'a> {
    bytes: &'a [u8],
    last: u64,
}

impl NumberReader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (first, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(first & 0x7f).checked_shl(shift)?;
            if first & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }

    fn address(&mut self) -> Option<u64> {
        self.last = self.last.checked_add(self.number()?)?;
        Some(self.last)
    }

    /// Reads the length of a list. Each entry takes at least one byte.
    fn list(&mut self) -> Option<usize> {
        self.last = 0;
        usize::try_from(self.number()?).ok().filter(|length| *length <= self.bytes.len())
    }
}

/// Writes the decisions of a plan.
pub(super) fn write(plan: &PlanDecisions<'_>) -> Vec<u8> {
    let mut to = NumberWriter::default();
    let traits = TRAITS.iter().enumerate().filter(|(_, its)| plan.traits.contains(its));
    to.number(traits.map(|(bit, _)| 1 << bit).sum());
    to.list(plan.functions.len());
    plan.functions.iter().for_each(|start| to.address(*start));
    for sites in [plan.direct.0, plan.direct.1] {
        to.list(sites.len());
        for site in sites {
            to.address(site.at);
            to.number(FORMS.iter().position(|form| *form == site.form).unwrap_or_default() as u64);
        }
    }
    to.list(plan.indirect.len());
    for site in plan.indirect {
        to.address(site.window.start);
        to.number(site.at - site.window.start);
        to.number(site.window.end - site.at);
        to.number(site.is_tail.into());
    }
    to.list(plan.refused.len());
    for (why, count) in plan.refused {
        to.number(why.len() as u64);
        to.bytes.extend_from_slice(why.as_bytes());
        to.number(*count);
    }
    to.bytes
}

/// Reads the kept decisions, if they belong to this file. `stubs`: its linkage stubs with their slots.
pub(super) fn read(
    kept: &[u8],
    image: &PlannedFile<'_>,
    stubs: &FastMap<u64, u64>,
    has_slot: &dyn Fn(u64) -> bool,
) -> Option<KeptPlan> {
    let mut from = NumberReader { bytes: kept, last: 0 };
    let bits = from.number().filter(|bits| *bits < 1 << TRAITS.len())?;
    let traits = TRAITS.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, its)| *its);
    let mut plan = KeptPlan { traits: traits.collect(), ..KeptPlan::default() };
    let functions = from.list()?;
    plan.functions.reserve(functions);
    for _ in 0..functions {
        plan.functions.push(from.address()?);
    }
    let is_ascending = |pair: &[u64]| pair[0] < pair[1];
    if !plan.functions.windows(2).all(is_ascending) {
        return None;
    }
    for is_call in [true, false] {
        let sites = from.list()?;
        // Each site takes at least two bytes.
        plan.direct.reserve(sites.min(from.bytes.len() / 2));
        for _ in 0..sites {
            let (at, form) = (from.address()?, *FORMS.get(usize::try_from(from.number()?).ok()?)?);
            if (form == DirectForm::Call) != is_call {
                return None;
            }
            let site = direct_site(image, (at, form), stubs, has_slot)?;
            let leads_to_function = || plan.functions.binary_search(&site.target).is_ok();
            if site.slot.is_none() && !leads_to_function() {
                return None;
            }
            plan.direct.push(site);
        }
    }
    for _ in 0..from.list()? {
        let start = from.address()?;
        let at = start.checked_add(from.number()?)?;
        let window = start..at.checked_add(from.number()?)?;
        let is_tail = from.number()? != 0;
        plan.indirect.push(machine::find::indirect_again(image, at, &window, is_tail)?);
    }
    for _ in 0..from.list()? {
        let length = usize::try_from(from.number()?).ok()?;
        let (why, rest) = from.bytes.split_at_checked(length)?;
        from.bytes = rest;
        plan.refused.insert(std::str::from_utf8(why).ok()?.to_owned().into(), from.number()?);
    }
    (from.bytes.is_empty() && are_apart(&plan)).then_some(plan)
}

/// Returns the direct site of this form at an address, if the file has one there.
fn direct_site(
    image: &PlannedFile<'_>,
    (at, form): (u64, DirectForm),
    stubs: &FastMap<u64, u64>,
    has_slot: &dyn Fn(u64) -> bool,
) -> Option<DirectSite> {
    let target = machine::find::direct_again(image, (at, form))?;
    let slot = if form.is_through_slot() {
        Some(target).filter(|slot| has_slot(*slot))
    } else {
        stubs.get(&target).copied()
    };
    (slot.is_some() || !form.is_through_slot()).then_some(DirectSite { at, form, target, slot })
}

/// True if no byte belongs to two sites.
fn are_apart(plan: &KeptPlan) -> bool {
    // The sites come in three runs, each in ascending order.
    let calls = plan.direct.partition_point(|site| site.form == DirectForm::Call);
    let bytes_of = |site: &DirectSite| site.at..site.at + site.form.length();
    let mut runs = [
        &mut plan.direct[..calls].iter().map(bytes_of) as &mut dyn Iterator<Item = Range<u64>>,
        &mut plan.direct[calls..].iter().map(bytes_of),
        &mut plan.indirect.iter().map(|site| site.window.clone()),
    ];
    let mut next = [0, 1, 2].map(|run| runs[run].next());
    let mut end = 0;
    while let Some(run) = (0..3)
        .filter(|run| next[*run].is_some())
        .min_by_key(|run| next[*run].as_ref().map(|bytes| bytes.start))
    {
        let Some(bytes) = std::mem::replace(&mut next[run], runs[run].next()) else { return false };
        if bytes.start < end {
            return false;
        }
        end = bytes.end;
    }
    true
}
