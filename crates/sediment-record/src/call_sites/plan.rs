// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the plan of a file: the places in its code where calls are made, and the changes there that make a stub count
//! them.
//!
//! Problem: in an x86-64 file, find call sites that can lead through a stub without changing the program's behaviour.
//!
//! Steps:
//! 1. The unwind tables have the functions. Each is decoded from its first byte to its last. A function is refused if
//!    it cannot be decoded to its end, or if a branch leads between two of its instructions, because its bytes are then
//!    not what they seem. All code without unwind tables is refused, because programs copy such code, and assembler
//!    code among data looks like it.
//! 2. A direct call, or a direct jump to the first byte of another function (a tail jump), has a displacement of 4 bytes. Only it changes.
//!    A call through the global offset table becomes a direct call of the same length.
//! 3. An indirect call has too few bytes. Instructions before it move to the stub, and are replaced by a call of the
//!    stub. It ends where the old call ended, so the return address stays. No branch may lead between the moved
//!    instructions. Known targets are the targets of direct branches, jump tables, addresses in data and in `lea`, and
//!    landing pads.
//! 4. Stubs change the flags. A callee that reads a flag before it writes it is refused. Compilers keep nothing in
//!    flags across a call.
//! 5. The changed bytes of a site are in one page, so that a recorder killed in the middle leaves complete
//!    instructions.
//!
//! Ties: sites are in the order of their addresses. If two sites need the same byte, the first one gets it.

use super::elf::{FileSymbols, PlannedFile, exports, linkage_stubs, slots, words_of_data};
use super::flags::LiveFlags;
use super::frames::UnwindTables;
use super::kept_plan::{self, PlanDecisions};
use super::plan_cache::PlanCache;
use super::sites::{
    CodeAddresses, DirectForm, DirectSite, FastMap, IndirectSite, RefusedSites, SlotCallee, TextSegment,
    Trait, in_one_page,
};
use super::sweep::{DirectBranch, Sweep};
use super::windows::{FoundSite, WindowChoice};
use std::collections::BTreeSet;
use std::ops::Range;

/// The changes in a file.
#[derive(Debug, Clone, Default)]
pub(super) struct SitePlan {
    /// Addresses that the file occupies, in whole pages.
    pub(super) extent: Range<u64>,
    pub(super) text: Vec<TextSegment>,
    /// Direct sites: calls first, then the others.
    pub(super) direct: Vec<DirectSite>,
    pub(super) indirect: Vec<IndirectSite>,
    pub(super) slots: FastMap<u64, SlotCallee>,
    /// Functions that other files can call by name, with their addresses.
    pub(super) exports: FastMap<String, u64>,
    /// First bytes of functions, in ascending order.
    pub(super) functions: Vec<u64>,
    pub(super) build_id: Option<String>,
    pub(super) soname: Option<String>,
    pub(super) traits: BTreeSet<Trait>,
    /// Reason why nothing in the file changes, if so.
    pub(super) left_alone: Option<&'static str>,
    /// Number of unchanged sites, by reason.
    pub(super) refused: RefusedSites,
}

impl SitePlan {
    /// Plans a file, or uses its plan from the cache.
    pub(super) fn of(bytes: &[u8], build_id: Option<String>, cache: &PlanCache) -> Self {
        let image = match PlannedFile::parse(bytes) {
            Ok(image) => image,
            Err(why) => return Self { left_alone: Some(why), build_id, ..Self::default() },
        };
        let frames = image.section(".eh_frame");
        let mut plan = Self {
            extent: image.extent.clone(),
            text: image.text.clone(),
            build_id,
            soname: image.soname(),
            slots: slots(&image),
            exports: exports(&image),
            left_alone: image.left_alone().or(frames.is_none().then_some("no unwind tables")),
            ..Self::default()
        };
        let name = cache.name(image.parts().iter().map(|(offset, bytes)| (*offset, *bytes)));
        let name = name.filter(|_| plan.left_alone.is_none());
        let kept = name.as_ref().and_then(|name| cache.read(name));
        if kept.is_some_and(|kept| plan.take_kept(&kept, &image)) {
            return plan;
        }
        let symbols = FileSymbols::read(&image, plan.soname.is_some());
        if let Some((frames_at, frame_bytes)) = frames.filter(|_| plan.left_alone.is_none()) {
            plan.find_sites(&image, &symbols, &UnwindTables::new(frame_bytes, frames_at));
        }
        plan.traits.extend(symbols.traits);
        // The C library finds the first thread's stack there, and nothing else.
        if !plan.exports.contains_key("pthread_getattr_np") && image.mentions(b"/maps") {
            plan.traits.insert(Trait::ReadsMappings);
        }
        if let Some(name) = name {
            cache.keep(&name, &kept_plan::write(&plan.decisions()));
        }
        plan
    }

    fn decisions(&self) -> PlanDecisions<'_> {
        PlanDecisions {
            traits: &self.traits,
            functions: &self.functions,
            direct: self.direct.split_at(self.calls()),
            indirect: &self.indirect,
            refused: &self.refused,
        }
    }

    /// Uses the decisions of a cached plan; false if they do not belong to this file.
    fn take_kept(&mut self, kept: &[u8], image: &PlannedFile<'_>) -> bool {
        let (_, stubs) = linkage_stubs(image, &self.slots);
        let has_slot = |slot| self.slots.contains_key(&slot);
        let Some(kept) = kept_plan::read(kept, image, &stubs, &has_slot) else { return false };
        (self.traits, self.functions, self.refused) = (kept.traits, kept.functions, kept.refused);
        (self.direct, self.indirect) = (kept.direct, kept.indirect);
        true
    }

    /// Returns the reason why nothing in a file would change, if its headers show it.
    pub(super) fn reason_to_leave(bytes: &[u8]) -> Option<&'static str> {
        match PlannedFile::parse(bytes) {
            Err(why) => Some(why),
            Ok(image) => {
                image.left_alone().or(image.section(".eh_frame").is_none().then_some("no unwind tables"))
            }
        }
    }

    fn find_sites(&mut self, image: &PlannedFile<'_>, symbols: &FileSymbols, tables: &UnwindTables<'_>) {
        let (stub_sections, stubs) = linkage_stubs(image, &self.slots);
        let in_stubs = |address: u64| stub_sections.iter().any(|section| section.contains(&address));
        let mut units = tables.units();
        units.retain(|unit| image.is_code(unit.code.start) && !in_stubs(unit.code.start));
        let overlaps: Vec<bool> = (0..units.len())
            .map(|index| {
                let with = |other: usize| {
                    let other = units.get(other).map(|unit| &unit.code);
                    let own = &units[index].code;
                    other.is_some_and(|other| other.start < own.end && own.start < other.end)
                };
                index.checked_sub(1).is_some_and(with) || with(index + 1)
            })
            .collect();
        let parts = units.iter().filter(|unit| unit.is_part).map(|unit| unit.code.start);
        let cold: BTreeSet<u64> = parts.chain(symbols.cold.iter().copied()).collect();
        let starts = units.iter().map(|unit| unit.code.start).chain(symbols.starts.iter().copied());
        self.functions =
            starts.filter(|start| !cold.contains(start)).collect::<BTreeSet<u64>>().into_iter().collect();
        let mut words = Vec::new();
        words_of_data(image, &mut words);
        words.sort_unstable();
        words.dedup();
        let mut sweep = Sweep::of(image, (&units, tables), &overlaps, &words);
        let mut targets = CodeAddresses::none(&self.text);
        sweep.targets.iter().chain(&words).for_each(|target| targets.insert(*target));
        sweep.targets = Vec::new();
        if sweep.uses_gs {
            self.traits.insert(Trait::UsesGs);
        }
        let mut flags = LiveFlags::new(image);
        for branch in &sweep.branches {
            match self.direct_site(branch, &stubs, &mut flags) {
                Ok(Some(site)) => self.direct.push(site),
                Ok(None) => {}
                Err(why) => *self.refused.entry(why.into()).or_default() += 1,
            }
        }
        let mut chosen = WindowChoice {
            image,
            units: &units,
            tables,
            sweep: &sweep,
            targets: &targets,
            functions: &self.functions,
            bare: None,
            last: 0,
        };
        for indirect in &sweep.indirect {
            if indirect.short_to.is_some_and(|target| flags.at(target)) {
                *self.refused.entry("callees that read flags".into()).or_default() += 1;
                continue;
            }
            match chosen.site(indirect, &self.slots) {
                Ok(FoundSite::Direct(site)) => self.direct.push(site),
                Ok(FoundSite::Indirect(site)) => self.indirect.push(site),
                Ok(FoundSite::None) => {}
                Err(why) => *self.refused.entry(why.into()).or_default() += 1,
            }
        }
        for (why, count) in sweep.refused {
            *self.refused.entry(why).or_default() += count;
        }
        self.direct.sort_by_key(|site| (site.form != DirectForm::Call, site.at));
    }

    /// Changes nothing in the file.
    pub(super) fn leave_alone(&mut self, why: &'static str) {
        self.left_alone = self.left_alone.or(Some(why));
        self.direct.clear();
        self.indirect.clear();
    }

    /// Number of direct sites that are calls; the others come after them.
    pub(super) fn calls(&self) -> usize {
        self.direct.partition_point(|site| site.form == DirectForm::Call)
    }

    /// Returns the site for a branch; None if it stays inside its function.
    fn direct_site(
        &self,
        branch: &DirectBranch,
        stubs: &FastMap<u64, u64>,
        flags: &mut LiveFlags<'_, '_>,
    ) -> Result<Option<DirectSite>, &'static str> {
        let DirectBranch { at, form, target } = *branch;
        let slot = stubs.get(&target).copied();
        let is_function = self.functions.binary_search(&target).is_ok();
        if slot.is_none() && !is_function {
            // A jump between the parts of a function, or code outside of functions.
            return if form == DirectForm::Call { Err("calls of code outside functions") } else { Ok(None) };
        }
        if slot.is_none() && flags.at(target) {
            return Err("callees that read flags");
        }
        let displacement = at + form.opcode_length()..at + form.length();
        if !in_one_page(&displacement) {
            return Err("sites across two pages");
        }
        Ok(Some(DirectSite { at, form, target, slot }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans this test program itself: whatever the compiler made of it, few sites are refused, and changes never
    /// overlap.
    #[test]
    fn changes_do_not_overlap() {
        let path = std::env::var_os("SEDIMENT_PLANNED").map_or_else(
            || std::env::current_exe().expect("this program has a path"),
            std::path::PathBuf::from,
        );
        let bytes = std::fs::read(path).expect("this program can be read");
        let plan = SitePlan::of(&bytes, None, &PlanCache::none());
        println!("{:?} {:?}", plan.left_alone, plan.refused);
        let direct = plan.direct.iter().map(|site| site.at..site.at + site.form.length());
        let indirect = plan.indirect.iter().map(|site| site.window.clone());
        let mut all: Vec<Range<u64>> = direct.chain(indirect).collect();
        all.sort_by_key(|range| (range.start, range.end));
        assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert!(all.len() > 100);
        let refused: u64 = plan.refused.values().sum();
        assert!(refused * 20 < all.len() as u64, "{:?}", plan.refused);
    }

    /// A cached plan equals the original, and is refused if the file has other bytes at one of its sites.
    #[test]
    fn a_kept_plan_is_of_these_bytes() {
        let bytes = std::fs::read(std::env::current_exe().expect("this program has a path")).unwrap();
        let plan = SitePlan::of(&bytes, None, &PlanCache::none());
        let kept = kept_plan::write(&plan.decisions());
        let take = |kept: &[u8], bytes: &[u8]| {
            let mut again = SitePlan { slots: plan.slots.clone(), ..SitePlan::default() };
            let image = PlannedFile::parse(bytes).unwrap();
            again.take_kept(kept, &image).then_some(again)
        };
        let again = take(&kept, &bytes).expect("it is of these bytes");
        assert!(again.direct == plan.direct && again.indirect == plan.indirect);
        assert!(again.functions == plan.functions && again.refused == plan.refused);
        assert_eq!(again.traits, plan.traits);
        for site in [plan.direct[0].at, plan.indirect[0].at, plan.direct[plan.direct.len() / 2].at] {
            let segment = plan.text.iter().find(|segment| segment.code.contains(&site)).unwrap();
            let mut other = bytes.clone();
            other[(site - segment.code.start + segment.file_offset) as usize] = 0x90;
            assert!(take(&kept, &other).is_none(), "{site:#x}");
        }
        for place in (0..kept.len()).step_by(kept.len() / 100) {
            assert!(take(&kept[..place], &bytes).is_none());
            let mut other = kept.clone();
            other[place] ^= 0x11;
            // Whatever the damaged plan contains now, its sites have the right form, and do not overlap.
            take(&other, &bytes);
        }
    }
}
