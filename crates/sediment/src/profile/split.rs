// SPDX-License-Identifier: MIT OR Apache-2.0
//! One DSO's part of a profile: what a `.prof` holds.

use super::{FunctionIndex, Profile};
use std::collections::BTreeMap;

/// The part of a profile that concerns one DSO: its functions, the edges with an end in it, and the other ends of those in
/// clusters of their own.
///
/// Unit, total, source, arch and the number of recordings stay. Of the other ends only the names stay, and of their DSOs only
/// the labels: what else is known of them stands in their own part. So splitting a merged profile, and merging what was split
/// from shares, give the same. A profile that does not know the DSO gives one without functions.
#[must_use]
pub fn split(profile: &Profile, dso: &str) -> Profile {
    let mut part = Profile {
        source: profile.source.clone(),
        unit: profile.unit,
        total: profile.total,
        arch: profile.arch.clone(),
        inputs: profile.inputs,
        ..Profile::default()
    };
    if let Some(cluster) = profile.clusters.get(dso) {
        part.clusters = BTreeMap::from([(dso.to_owned(), cluster.clone())]);
    }
    let within = |function: FunctionIndex| profile.key(function).dso.as_deref() == Some(dso);
    for function in profile.functions().into_iter().filter(|function| within(*function)) {
        let index = part.function(profile.key(function).clone());
        part.facts[index.index()] = profile.facts(function).clone();
    }
    for (caller, callee, facts) in profile.edges() {
        if within(caller) || within(callee) {
            let caller = part.function(profile.key(caller).clone());
            let callee = part.function(profile.key(callee).clone());
            *part.edge_mut(caller, callee) = *facts;
        }
    }
    part
}
