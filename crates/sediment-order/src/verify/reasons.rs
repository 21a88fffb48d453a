// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds in the linked file why a function is not placed as ordered.

use super::input::{InputSections, ObjectSection};
use super::symbols::{BinarySymbols, NameWeights, is_cold_part};
use super::{PlacedFunctions, Reason, WantedFunction};
use sediment_core::binary::names::{self, SectionGroup};
use sediment_core::binary::{BinaryFunction, SymbolSource};
use sediment_core::profile::Heat;
use std::collections::{BTreeSet, HashSet};

/// Functions of `crt1.o` and `crti.o`, of glibc and musl.
const OF_CRT1: [&str; 5] = ["_start", START_OF_MUSL, "_init", "_fini", "_dl_relocate_static_pie"];
/// Function of musl's `crt1.o` right after `_start`.
const START_OF_MUSL: &str = "_start_c";
/// Sections of `_init` and `_fini`, which are local in shared libraries.
const INIT_SECTIONS: [&str; 2] = [".init", ".fini"];
/// Local functions of `crtbegin.o`, of GCC and LLVM, and of `crti.o` on AArch64, and their source files.
const OF_CRTBEGIN: [&str; 7] = [
    "deregister_tm_clones",
    "register_tm_clones",
    "__do_global_dtors_aux",
    "frame_dummy",
    "__do_init",
    "__do_fini",
    "call_weak_fn",
];
const CRTBEGIN: [&str; 3] = ["crtstuff.c", "crtbegin.c", "crti.o"];

/// The evidence for reasons.
pub(super) struct ReasonEvidence<'a> {
    pub(super) symbols: &'a BinarySymbols<'a>,
    pub(super) weights: &'a NameWeights<'a>,
    pub(super) placed_functions: &'a PlacedFunctions,
    /// The same, with cold parts ignored.
    pub(super) without_cold: &'a PlacedFunctions,
    pub(super) asked: &'a HashSet<&'a str>,
    pub(super) sections: &'a InputSections<'a>,
    /// True if the order shows in the binary.
    pub(super) in_force: bool,
    /// True if the functions have the sequence of the inputs.
    pub(super) as_linked_without: bool,
}

impl ReasonEvidence<'_> {
    /// Finds why a listed function is not placed as ordered.
    pub(super) fn reason(&self, function: &WantedFunction<'_>) -> Reason {
        let symbols = self.symbols;
        let Some(address) =
            function.candidates.first().copied().filter(|_| !symbols.named(function.name).is_empty())
        else {
            return absent(function.name, symbols, self.weights);
        };
        let here = symbols.at(address);
        if let Some(other) = here.first().filter(|there| !there.section.starts_with(".text")) {
            if is_of_start_files(function.name, address, symbols) {
                return Reason::OfStartFiles;
            }
            return Reason::OtherOutputSection(other.section.clone());
        }
        let file =
            here.iter().find(|there| there.name == function.name).and_then(|there| there.file.as_deref());
        let input = self.sections.of(function.name, file);
        match &input {
            ObjectSection::Unknown if is_of_start_files(function.name, address, symbols) => {
                return Reason::OfStartFiles;
            }
            ObjectSection::Shared(section) => return Reason::NoOwnSection(section.clone()),
            ObjectSection::OfAnother(name) if !self.asked.contains(name.as_str()) => {
                return Reason::NamedAfter(vec![name.clone()]);
            }
            // Profile-guided compilers split functions into sections that no order lists for the function itself.
            ObjectSection::Own(section, SectionGroup::Split) if !self.in_force => {
                return Reason::NamedAfter(vec![section.name.clone()]);
            }
            ObjectSection::Own(section, _) if !self.in_force => return Reason::NotPassed(section.clone()),
            ObjectSection::Unknown | ObjectSection::OfAnother(_) if !self.in_force => {
                return Reason::AmongUnlisted;
            }
            _ => {}
        }
        self.reason_in_force(function, address, &input)
    }

    /// Finds the reason if the order shows in the binary, and the function may have a section of its own.
    fn reason_in_force(&self, function: &WantedFunction<'_>, address: u64, input: &ObjectSection) -> Reason {
        let symbols = self.symbols;
        if function.candidates.len() > 1 {
            let same_named: BTreeSet<u64> =
                symbols.named(function.name).iter().map(|other| other.address).collect();
            if same_named.len() > 1 {
                return Reason::SameNamedLocal(same_named.len() as u64);
            }
        }
        let aliases: BTreeSet<&str> = symbols
            .at(address)
            .iter()
            .map(|there| there.name.as_str())
            .filter(|name| {
                *name != function.name && names::symbol(name.as_bytes()).name != function.name.as_bytes()
            })
            .collect();
        let unlisted = !aliases.is_empty() && aliases.iter().all(|alias| !self.asked.contains(alias));
        if unlisted && matches!(input, ObjectSection::Unknown) {
            return Reason::NamedAfter(aliases.into_iter().map(str::to_owned).collect());
        }
        // The linker's cold functions are among cold parts, too.
        let group = match input {
            ObjectSection::Own(_, SectionGroup::Plain) => None,
            ObjectSection::Own(_, group) => Some(Some(*group)),
            _ => group_of(function, address, symbols, self.weights),
        };
        if group.is_none() && self.without_cold.has(function) {
            if let Some(part) = cold_part_next_to(address, symbols) {
                return Reason::PartedByCold(part);
            }
        }
        if self.placed_functions.ordered_stretches.contains(&address) {
            return Reason::OutOfOrder;
        }
        match (group, input) {
            (Some(group), _) => Reason::OtherGroup(group),
            (None, ObjectSection::Own(section, _)) => Reason::NotPassed(section.clone()),
            (None, _) => Reason::AmongUnlisted,
        }
    }
}

/// Finds the reason why the order has no place for a function that the profile and the file have.
pub(super) fn not_asked(name: &str, symbols: &BinarySymbols<'_>) -> Reason {
    let mut there = symbols.named(name).iter();
    if there.all(|function| is_of_start_files(name, function.address, symbols)) {
        return Reason::OfStartFiles;
    }
    Reason::NotAsked
}

/// True for a function of the compiler's start files, which are linked together. If a program defines its own `_start`,
/// it has no `crtbegin.o`, and functions of such names are its own, as are local ones of another source file.
fn is_of_start_files(name: &str, address: u64, symbols: &BinarySymbols<'_>) -> bool {
    let is_of_crtbegin = |function: &&BinaryFunction| {
        function.local && function.file.as_deref().is_none_or(|file| CRTBEGIN.contains(&file))
    };
    let there = || symbols.at(address).iter().filter(|function| function.name == name).copied();
    if OF_CRTBEGIN.contains(&name) {
        return there().any(|function| is_of_crtbegin(&function));
    }
    let mut crtbegin = OF_CRTBEGIN.iter().flat_map(|name| symbols.named(name));
    let is_after_start = || {
        let before = symbols.by_address.range(..address).next_back();
        before.is_some_and(|(_, there)| there.iter().any(|function| function.name == "_start"))
    };
    OF_CRT1.contains(&name)
        && there().all(|function| !function.local || INIT_SECTIONS.contains(&function.section.as_str()))
        && crtbegin.any(is_of_crtbegin)
        && (name != START_OF_MUSL || is_after_start())
}

/// Finds the cold part right before or right after the function at this address.
fn cold_part_next_to(address: u64, symbols: &BinarySymbols<'_>) -> Option<String> {
    let before = symbols.by_address.range(..address).next_back();
    let after = symbols.by_address.range(address + 1..).next();
    let mut neighbours = [before, after].into_iter().flatten();
    neighbours
        .find_map(|(_, there)| there.first().filter(|_| is_cold_part(there)).map(|part| part.name.clone()))
}

/// Finds the reason why a function is not in the binary.
pub(super) fn absent(name: &str, symbols: &BinarySymbols<'_>, weights: &NameWeights<'_>) -> Reason {
    let clones = symbols.clones(name);
    if !clones.is_empty() {
        Reason::OnlyAsClone(clones)
    } else if symbols.binary.symbols_from == SymbolSource::DynamicSymbols {
        Reason::NoSymbol
    } else if weights.cluster.is_some() && weights.by_name.contains_key(name) {
        Reason::InlinedOrRemoved
    } else {
        Reason::NotInBinary
    }
}

/// Finds the linker's own group that contains an address, if it is known.
fn group_of(
    function: &WantedFunction<'_>,
    address: u64,
    symbols: &BinarySymbols<'_>,
    weights: &NameWeights<'_>,
) -> Option<Option<SectionGroup>> {
    let section = symbols.at(address).first().map(|there| there.section.as_str())?;
    // lld's -z keep-text-section-prefix, and gold, make an output section of each group.
    let kept = SectionGroup::ALL.into_iter().find(|group| {
        section.strip_prefix(".text.").is_some_and(|word| word == group.word())
            && *group != SectionGroup::Plain
    });
    if kept.is_some() {
        return Some(kept);
    }
    if section != ".text" || symbols.groups_end.is_none_or(|end| address >= end) {
        return None;
    }
    if symbols.last_cold.is_some_and(|last| address <= last) {
        return Some(Some(SectionGroup::Unlikely));
    }
    let heat = weights.by_name.get(function.name).and_then(|weighed| weighed.heat);
    let by_heat = match heat {
        Some(Heat::Hot) => Some(SectionGroup::Hot),
        Some(Heat::Startup) => Some(SectionGroup::Startup),
        Some(Heat::Exit) => Some(SectionGroup::Exit),
        Some(Heat::Cold) => Some(SectionGroup::Unlikely),
        None if function.name == "main" || function.name.starts_with("_GLOBAL__sub_I_") => {
            Some(SectionGroup::Startup)
        }
        None => None,
    };
    Some(by_heat)
}
