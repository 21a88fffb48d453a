// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a profile: one DSO's, as a `.prof` holds it, and that of some DSOs alone, as it is sent to their maintainers.

use super::{EdgeFacts, FunctionIndex, Profile, address_of_nameless};
use std::collections::{BTreeMap, BTreeSet};

/// The part of a profile that concerns one DSO: its functions, the edges with an end in it, and the other ends of those in
/// clusters of their own.
///
/// Unit, total, source, arch and the number of recordings stay. Of the other ends only the names stay, and of their DSOs only
/// the labels: what else is known of them stands in their own part. So splitting a merged profile, and merging what was split
/// from shares, give the same. A profile that does not know the DSO gives one without functions.
#[must_use]
pub fn split(profile: &Profile, dso: &str) -> Profile {
    let mut part = without_functions(profile);
    if let Some(facts) = profile.dsos.get(dso) {
        part.dsos = BTreeMap::from([(dso.to_owned(), facts.clone())]);
    }
    let within = |function: FunctionIndex| profile.key(function).dso.as_deref() == Some(dso);
    for function in profile.functions().into_iter().filter(|function| within(*function)) {
        let index = part.function(profile.key(function).clone());
        part.facts[index.index()] = profile.facts[function.index()].clone();
    }
    for (caller, callee, facts) in profile.edges() {
        if within(caller) || within(callee) {
            let caller = part.function(profile.key(caller).clone());
            let callee = part.function(profile.key(callee).clone());
            *part.edge_mut(caller, callee) = *facts;
        }
    }
    part.keep_builds_of_addresses(profile);
    part
}

/// The attributes of the whole profile.
fn without_functions(profile: &Profile) -> Profile {
    Profile {
        source: profile.source.clone(),
        unit: profile.unit,
        total: profile.total,
        arch: profile.arch.clone(),
        inputs: profile.inputs,
        quality: profile.quality,
        blocks_unit: profile.blocks_unit,
        blocks_total: profile.blocks_total,
        counters_total: profile.counters_total,
        ..Profile::default()
    }
}

/// The functions of these DSOs and the edges among them, and nothing of any other. The total is that of the calls
/// that are left, so that it does not reveal the rest. Counters of a compiler's instrumentation are of units: those of functions
/// without a DSO stay.
#[must_use]
pub fn only(profile: &Profile, dsos: &BTreeSet<&str>) -> Profile {
    let mut part = Profile { total: 0, ..without_functions(profile) };
    let within =
        |function: FunctionIndex| profile.key(function).dso.as_deref().is_some_and(|dso| dsos.contains(dso));
    for function in profile.functions().into_iter().filter(|function| within(*function)) {
        let index = part.function(profile.key(function).clone());
        part.facts[index.index()] = profile.facts[function.index()].clone();
    }
    for function in profile.functions().into_iter().filter(|function| profile.key(*function).dso.is_none()) {
        if let Some(counters) = &profile.facts(function).counters {
            let index = part.function(profile.key(function).clone());
            part.facts_mut(index).counters = Some(counters.clone());
        }
    }
    for (caller, callee, facts) in profile.edges() {
        if within(caller) && within(callee) {
            let caller = part.function(profile.key(caller).clone());
            let callee = part.function(profile.key(callee).clone());
            *part.edge_mut(caller, callee) = *facts;
            part.total = part.total.saturating_add(facts.count.unwrap_or(0));
        }
    }
    for (label, facts) in &mut part.dsos {
        let Some(known) = profile.dsos.get(label) else { continue };
        facts.build_id.clone_from(&known.build_id);
    }
    part.keep_builds_of_addresses(profile);
    part
}

/// The profile without its functions without names, and without their edges; None where it has none.
#[must_use]
pub fn named(profile: &Profile) -> Option<Profile> {
    let functions = profile.functions();
    if !functions.iter().any(|function| profile.is_nameless(*function)) {
        return None;
    }
    let mut part = without_functions(profile);
    for function in functions.into_iter().filter(|function| !profile.is_nameless(*function)) {
        let index = part.function(profile.key(function).clone());
        part.facts[index.index()] = profile.facts[function.index()].clone();
    }
    for (caller, callee, facts) in profile.edges() {
        if !profile.is_nameless(caller) && !profile.is_nameless(callee) {
            let caller = part.function(profile.key(caller).clone());
            let callee = part.function(profile.key(callee).clone());
            *part.edge_mut(caller, callee) = *facts;
        }
    }
    for (label, facts) in &mut part.dsos {
        if let Some(known) = profile.dsos.get(label) {
            *facts = super::DsoFacts { unresolved: false, ..known.clone() };
        }
    }
    Some(part)
}

/// The profile with what `kept` leaves of each edge. Edges of which nothing is left go.
#[must_use]
pub fn with_edges(
    profile: &Profile,
    kept: &dyn Fn(FunctionIndex, FunctionIndex, &EdgeFacts) -> EdgeFacts,
) -> Profile {
    let mut part = without_functions(profile);
    part.dsos.clone_from(&profile.dsos);
    for function in profile.functions() {
        let index = part.function(profile.key(function).clone());
        part.facts[index.index()] = profile.facts[function.index()].clone();
    }
    for (caller, callee, facts) in profile.edges() {
        let rest = kept(caller, callee, facts);
        if rest != EdgeFacts::NOTHING {
            let caller = part.function(profile.key(caller).clone());
            let callee = part.function(profile.key(callee).clone());
            *part.edge_mut(caller, callee) = rest;
        }
    }
    part
}

impl Profile {
    /// Says of each DSO whose addresses are among the functions which build they are of, as the whole does.
    fn keep_builds_of_addresses(&mut self, whole: &Self) {
        let keys = self.functions().into_iter().map(|function| self.key(function));
        let addresses: BTreeSet<String> = keys
            .filter(|key| address_of_nameless(&key.name).is_some())
            .filter_map(|key| key.dso.clone())
            .collect();
        for label in addresses {
            if let Some(known) = whole.dsos.get(&label).filter(|known| known.unresolved) {
                let facts = self.dso_mut(&label);
                facts.unresolved = true;
                facts.build_id.clone_from(&known.build_id);
            }
        }
    }
}
