// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a function is not placed as ordered, from what the linked file tells.

use super::symbols::{Symbols, Weights};
use super::{PlacedFunctions, Reason, Wanted};
use crate::binary::SymbolSource;
use crate::binary::names::{self, SectionGroup};
use crate::profile::Heat;
use std::collections::{BTreeSet, HashSet};

/// Why a function that is asked for is not placed as ordered.
pub(super) fn reason(
    function: &Wanted<'_>,
    symbols: &Symbols<'_>,
    weights: &Weights<'_>,
    placed_functions: &PlacedFunctions,
    asked: &HashSet<&str>,
) -> Reason {
    let Some(address) =
        function.candidates.first().copied().filter(|_| !symbols.named(function.name).is_empty())
    else {
        return absent(function.name, symbols, weights);
    };
    if function.candidates.len() > 1 {
        let same_named: BTreeSet<u64> =
            symbols.named(function.name).iter().map(|other| other.address).collect();
        if same_named.len() > 1 {
            return Reason::SameNamedLocal(same_named.len() as u64);
        }
    }
    let here = symbols.at(address);
    if let Some(other) = here.first().filter(|there| !there.section.starts_with(".text")) {
        return Reason::OtherOutputSection(other.section.clone());
    }
    let aliases: BTreeSet<&str> = here
        .iter()
        .map(|there| there.name.as_str())
        .filter(|name| {
            *name != function.name && names::symbol(name.as_bytes()).name != function.name.as_bytes()
        })
        .collect();
    if !aliases.is_empty() && aliases.iter().all(|alias| !asked.contains(alias)) {
        return Reason::NamedAfter(aliases.into_iter().map(str::to_owned).collect());
    }
    if placed_functions.ordered_stretches.contains(&address) {
        return Reason::OutOfOrder;
    }
    if let Some(group) = group_of(function, address, symbols, weights) {
        return Reason::OtherGroup(group);
    }
    Reason::NoOwnSection(here.iter().find_map(|there| there.file.clone()))
}

/// Why a function is not in the binary.
pub(super) fn absent(name: &str, symbols: &Symbols<'_>, weights: &Weights<'_>) -> Reason {
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

/// Finds the linker's own group in which an address lies, as far as known.
fn group_of(
    function: &Wanted<'_>,
    address: u64,
    symbols: &Symbols<'_>,
    weights: &Weights<'_>,
) -> Option<Option<SectionGroup>> {
    let section = symbols.at(address).first().map(|there| there.section.as_str())?;
    // lld's -z keep-text-section-prefix, and gold, make output sections of the groups.
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
