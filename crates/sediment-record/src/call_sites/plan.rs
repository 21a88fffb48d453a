// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the plan of a file: the places in its code where calls are made, and the changes there that make a stub count
//! them.
//!
//! The unwind tables have the functions. All code without unwind tables is refused, because programs copy such code, and
//! assembler code among data looks like it. The instructions are those of the processor: `find` in [`super::machine`].
//!
//! Ties: sites are in the order of their addresses.

use super::elf::{FileSymbols, PlannedFile, exports, linkage_stubs, slots, words_of_data};
use super::found::{FoundSites, ReadFile};
use super::frames::UnwindTables;
use super::kept_plan::{self, PlanDecisions};
use super::machine;
use super::placement::FileSites;
use super::plan_cache::PlanCache;
use super::sites::{
    DirectForm, DirectSite, FastMap, IndirectSite, RefusedSites, SlotCallee, TextSegment, Trait,
};
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
        let image = match PlannedFile::parse(bytes, machine::ELF) {
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
            let tables = UnwindTables::new(frame_bytes, frames_at, machine::BARE);
            plan.find_sites(&image, &symbols, &tables, machine::find::find);
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
        match PlannedFile::parse(bytes, machine::ELF) {
            Err(why) => Some(why),
            Ok(image) => {
                image.left_alone().or(image.section(".eh_frame").is_none().then_some("no unwind tables"))
            }
        }
    }

    fn find_sites(
        &mut self,
        image: &PlannedFile<'_>,
        symbols: &FileSymbols,
        tables: &UnwindTables<'_>,
        find: fn(&ReadFile<'_, '_>) -> FoundSites,
    ) {
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
        let file = ReadFile {
            image,
            tables,
            units: &units,
            overlaps: &overlaps,
            functions: &self.functions,
            slots: &self.slots,
            stubs: &stubs,
            words: &words,
        };
        let found = find(&file);
        self.traits.extend(found.traits);
        (self.direct, self.indirect, self.refused) = (found.direct, found.indirect, found.refused);
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

    /// Its sites.
    pub(super) fn sites(&self) -> FileSites<'_> {
        FileSites { direct: &self.direct, calls: self.calls(), indirect: &self.indirect }
    }

    /// Number of its direct and of its indirect sites.
    pub(super) fn numbers(&self) -> (usize, usize) {
        (self.direct.len(), self.indirect.len())
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
            let image = PlannedFile::parse(bytes, machine::ELF).unwrap();
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

    /// Code of AArch64 is planned on every machine. The names say which branches are sites.
    #[test]
    fn sites_of_aarch64_are_found() {
        use crate::call_sites::aarch64;
        const SOURCE: &str = ".text\n\
            .macro function name\n .globl \\name\n .type \\name, %function\n \\name: .cfi_startproc\n .endm\n\
            .macro end\n .cfi_endproc\n .endm\n\
            function leaf\n ret\n end\n\
            function calls\n sub sp, sp, 16\n .cfi_def_cfa_offset 16\n bl leaf\n blr x3\n blr x30\n blraa x3, x2\n br x3\n\
            1: b 1b\n b calls\n add sp, sp, 16\n .cfi_def_cfa_offset 0\n b leaf\n end\n\
            function onwards\n ldr x16, [x0, 8]\n br x16\n end\n\
            function chooses\n adr x1, chooses\n add x1, x1, w2, sxtb 2\n br x1\n end\n\
            function short\n cbz x0, leaf\n bl outside\n bl short\n b short\n end\n\
            outside: ret\n\
            function numbers\n bl leaf\n .word 0x1234\n end\n";
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("code.s"), folder.path().join("code"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut compiler = std::process::Command::new("aarch64-linux-gnu-gcc");
        compiler
            .args(["-march=armv8.3-a", "-nostdlib", "-static", "-Wl,-e,calls", "-o"])
            .arg(&program)
            .arg(source);
        let Ok(done) = compiler.output() else {
            return support::skip("a compiler of AArch64 is missing");
        };
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let bytes = std::fs::read(program).unwrap();
        let image = PlannedFile::parse(&bytes, aarch64::ELF).unwrap();
        let symbols = FileSymbols::read(&image, false);
        let (at, frames) = image.section(".eh_frame").unwrap();
        let mut plan = SitePlan { text: image.text.clone(), ..SitePlan::default() };
        let tables = UnwindTables::new(frames, at, aarch64::BARE);
        plan.find_sites(&image, &symbols, &tables, aarch64::find::find);
        let start = plan.functions[0];
        let direct: Vec<_> =
            plan.direct.iter().map(|site| (site.at - start, site.form, site.target - start)).collect();
        let (call, jump) = (DirectForm::BranchWithLink, DirectForm::Branch);
        assert_eq!(direct, [(8, call, 0), (40, jump, 0), (72, call, 64)]);
        let indirect: Vec<_> = plan.indirect.iter().map(|site| (site.at - start, site.is_tail)).collect();
        assert_eq!(indirect, [(12, false), (20, false), (48, true)]);
        let refused: Vec<_> = plan.refused.iter().map(|(why, count)| (why.as_ref(), *count)).collect();
        assert_eq!(
            refused,
            [
                ("calls in an unusual form", 1),
                ("calls of code outside functions", 1),
                ("functions with bytes that are not code", 1),
                ("short jumps to other functions", 1)
            ]
        );
        for site in &plan.direct {
            assert_eq!(aarch64::find::direct_again(&image, (site.at, site.form)), Some(site.target));
            assert_eq!(aarch64::find::direct_again(&image, (site.at + 4, site.form)), None);
        }
        for site in &plan.indirect {
            let again = |is_tail| aarch64::find::indirect_again(&image, site.at, &site.window, is_tail);
            assert!(again(site.is_tail).as_ref() == Some(site) && again(!site.is_tail).is_none());
        }
    }
}
