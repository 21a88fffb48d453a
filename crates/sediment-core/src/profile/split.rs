// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extracts parts of a profile: the part of one DSO, as in a `.prof` file, and the part of some DSOs, to be sent to
//! their maintainers.

use super::{EdgeFacts, FunctionIndex, Profile, address_of_nameless};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the part of a profile for one DSO: its functions, all edges with an end in it, and the other ends of these
/// edges in their own clusters.
///
/// Unit, total, source, arch and the number of recordings stay. The other ends keep only their names, and their DSOs
/// only their labels: their own parts have the rest. So splitting a merged profile and merging the split parts of
/// shares give the same result. For an unknown DSO, the part has no functions.
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

/// Copies the attributes of the whole profile.
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

/// Returns the functions of these DSOs and the edges among them, without data of other DSOs. The total is the sum of
/// the remaining calls, so that it does not reveal the rest. Functions without a DSO stay if they have counters of a
/// compiler's instrumentation, because these belong to units.
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

/// Returns the profile without nameless functions and without their edges; `None` if it has no nameless functions.
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

/// Returns the profile with the part of each edge that `kept` returns. Edges without a remaining part are dropped.
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
    /// Copies from `whole` the build of each DSO whose functions include addresses.
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
