// SPDX-License-Identifier: MIT OR Apache-2.0
//! Agreement of two profiles, and their differences.
//!
//! Here a profile is a distribution: each function's share of all calls to named functions, or of all samples if no
//! calls were counted. The agreement of two distributions is their overlap: the sum over all functions of the smaller
//! share, which is 1 minus their total variation distance.

use super::arithmetic::scaled;
use super::{FunctionKey, Profile, SHARE_TOTAL};
use std::collections::{BTreeMap, BTreeSet};

/// Weight of each function: calls into it, or samples if no calls were counted, or its arc counts if there are neither.
#[must_use]
pub fn weights(profile: &Profile) -> BTreeMap<&FunctionKey, u128> {
    let mut weights: BTreeMap<&FunctionKey, u128> = profile.keys.iter().map(|key| (key, 0)).collect();
    let counted = profile.edges.iter().any(|edge| edge.facts().count.is_some_and(|count| count > 0));
    if counted {
        for edge in &profile.edges {
            let weight = weights.entry(profile.key(edge.callee)).or_default();
            *weight = weight.saturating_add(edge.facts().count.unwrap_or(0));
        }
        return weights;
    }
    let sampled =
        profile.facts.iter().flatten().any(|facts| facts.samples.is_some_and(|samples| samples > 0));
    for (key, facts) in profile.keys.iter().zip(&profile.facts) {
        let Some(facts) = facts.as_deref() else { continue };
        let arcs = || facts.counters.as_ref().map(|counters| counters.sum());
        let own = if sampled { facts.samples } else { arcs() };
        let weight = weights.entry(key).or_default();
        *weight = weight.saturating_add(own.unwrap_or(0));
    }
    weights
}

/// Weights as shares in units of 10^-15; all zero if their sum is 0.
#[must_use]
pub fn shares<'a>(weights: &BTreeMap<&'a FunctionKey, u128>) -> BTreeMap<&'a FunctionKey, u128> {
    let sum = weights.values().fold(0u128, |sum, weight| sum.saturating_add(*weight));
    weights.iter().map(|(key, weight)| (*key, scaled(*weight, SHARE_TOTAL, sum).unwrap_or(0))).collect()
}

/// Overlap of two distributions of shares, in parts per million; `None` if one of them is empty.
#[must_use]
pub fn agreement(one: &BTreeMap<&FunctionKey, u128>, other: &BTreeMap<&FunctionKey, u128>) -> Option<u64> {
    let empty = |shares: &BTreeMap<&FunctionKey, u128>| shares.values().all(|share| *share == 0);
    if empty(one) || empty(other) {
        return None;
    }
    let lesser = |(key, share): (&&FunctionKey, &u128)| other.get(*key).map_or(0, |there| *share.min(there));
    Some(parts_per_million(one.iter().map(lesser).sum()))
}

/// A share in units of 10^-15 as parts per million.
#[must_use]
pub fn parts_per_million(share: u128) -> u64 {
    let parts = share.saturating_add(SHARE_TOTAL / 2_000_000) / (SHARE_TOTAL / 1_000_000);
    u64::try_from(parts.min(1_000_000)).unwrap_or(1_000_000)
}

/// A function with its share before and after, in units of 10^-15.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The function.
    pub key: FunctionKey,
    /// Its share in the first profile; `None` if it is not there.
    pub before: Option<u128>,
    /// Its share in the second.
    pub after: Option<u128>,
}

impl Moved {
    /// Change of the share in units of 10^-15.
    #[must_use]
    pub fn distance(&self) -> u128 {
        self.before.unwrap_or(0).abs_diff(self.after.unwrap_or(0))
    }
}

/// Differences between two profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Agreement in parts per million; `None` if one of them has no counts.
    pub agreement: Option<u64>,
    /// All functions of either profile, the largest change of share first; equal ones in the order of their keys.
    pub functions: Vec<Moved>,
    /// Share of each DSO before and after, in units of 10^-15, by label; `None` for functions without a DSO.
    pub dsos: Vec<(Option<String>, u128, u128)>,
}

/// Compares two profiles.
#[must_use]
pub fn difference(before: &Profile, after: &Profile) -> Difference {
    let (before, after) = (weights(before), weights(after));
    let (before, after) = (shares(&before), shares(&after));
    let keys: BTreeSet<&FunctionKey> = before.keys().chain(after.keys()).copied().collect();
    let mut dsos: BTreeMap<Option<&str>, (u128, u128)> = BTreeMap::new();
    let mut functions: Vec<Moved> = Vec::with_capacity(keys.len());
    for key in keys {
        let (was, is) = (before.get(key).copied(), after.get(key).copied());
        let dso = dsos.entry(key.dso.as_deref()).or_default();
        dso.0 += was.unwrap_or(0);
        dso.1 += is.unwrap_or(0);
        functions.push(Moved { key: key.clone(), before: was, after: is });
    }
    // A stable sort keeps the order of the keys.
    functions.sort_by_key(|moved| std::cmp::Reverse(moved.distance()));
    Difference {
        agreement: agreement(&before, &after),
        functions,
        dsos: dsos.into_iter().map(|(label, (was, is))| (label.map(str::to_owned), was, is)).collect(),
    }
}
