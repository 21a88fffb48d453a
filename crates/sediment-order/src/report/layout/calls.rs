// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of a profile, between functions of a program, and from and to functions of other DSOs.

use sediment_core::profile::{FunctionIndex, FunctionKey, Profile};
use std::collections::HashMap;

/// An end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// Index in the functions of the program's heat.
    Ours(u32),
    /// Index in [`ProfileCalls::elsewhere`].
    Elsewhere(u32),
}

/// A function of another DSO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Elsewhere<'a> {
    pub(super) name: &'a str,
    pub(super) dso: &'a str,
    /// Size in bytes, if the profile has it.
    pub(super) size: u64,
    /// Calls into it.
    pub(super) weight: u128,
}

/// Calls of a profile.
#[derive(Debug, Clone, Default)]
pub struct ProfileCalls<'a> {
    /// Functions of other DSOs, by key.
    pub(super) elsewhere: Vec<Elsewhere<'a>>,
    /// Caller, callee and count, heaviest first.
    pub(super) edges: Vec<(CallEnd, CallEnd, u128)>,
    /// Calls into each function of the program.
    pub(super) weights: Vec<u128>,
    /// Sum of the counts of all edges.
    pub(super) total: u128,
}

/// More calls would make a page slow to load; only the heaviest matter.
const MOST_EDGES: usize = 80_000;

impl<'a> ProfileCalls<'a> {
    /// Makes the calls of a profile. `ours` are the functions of the program's heat, in the same order.
    #[must_use]
    pub fn of(profile: &'a Profile, ours: &[FunctionKey]) -> Self {
        let ids: HashMap<FunctionIndex, u32> =
            ours.iter().zip(0..).filter_map(|(key, id)| Some((profile.find(key)?, id))).collect();
        let mut calls = Self { weights: vec![0; ours.len()], ..Self::default() };
        let mut others: HashMap<FunctionIndex, u32> = HashMap::new();
        for function in profile.functions().into_iter().filter(|function| !ids.contains_key(function)) {
            let key = profile.key(function);
            others.insert(function, calls.elsewhere.len() as u32);
            calls.elsewhere.push(Elsewhere {
                name: &key.name,
                dso: key.dso.as_deref().unwrap_or_default(),
                size: profile.facts(function).size.unwrap_or(0),
                weight: 0,
            });
        }
        let end = |function: FunctionIndex| match ids.get(&function) {
            Some(id) => Some(CallEnd::Ours(*id)),
            None => others.get(&function).copied().map(CallEnd::Elsewhere),
        };
        for (caller, callee, facts) in profile.edges() {
            let (Some(count), Some(from), Some(to)) = (facts.count, end(caller), end(callee)) else {
                continue;
            };
            if count == 0 {
                continue;
            }
            let weight = match to {
                CallEnd::Ours(id) => &mut calls.weights[id as usize],
                CallEnd::Elsewhere(at) => &mut calls.elsewhere[at as usize].weight,
            };
            *weight = weight.saturating_add(count);
            calls.total = calls.total.saturating_add(count);
            calls.edges.push((from, to, count));
        }
        // The sort is stable: calls with the same count stay sorted by caller and callee.
        calls.edges.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
        calls.edges.truncate(MOST_EDGES);
        calls
    }
}

/// Returns a part of a whole in parts per billion; above 0 for a part above 0.
pub(super) fn parts(part: u128, whole: u128) -> u64 {
    if part == 0 || whole == 0 {
        return 0;
    }
    ((part as f64 / whole as f64 * 1e9) as u64).clamp(1, 1_000_000_000)
}
