// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds functions of a profile that have another name in the current build, such as the next version of a program.
//!
//! Old functions are functions of the profile that the build does not define, under their names or as clones.
//! Candidates are functions of the build that the profile does not have. The profile has callers and callees of a
//! function; the build ([`BuildCode`]) has the references in each function's code. Points are given for
//!
//! - each caller of the old function whose code refers to the new one, and each function that both call: 2 if few
//!   functions refer to it, 1 if more do, 0 if nearly all do;
//! - an object, or a source file, that contains at least half of the old function's known callers and callees: 1;
//! - names with a long common beginning and end, which together are most of the name: 2;
//! - sizes that differ by less than a third: 1.
//!
//! A candidate is the renamed function if it has at least [`LEAST`] points, some of them for calls; if half of the
//! existing callers refer to it, and it refers to two thirds of the existing callees (or no caller refers to it,
//! because calls go through pointers, but it refers to all of at least three callees); if both are each other's best
//! match; and if no other candidate is within one point of it. Matches then count as known, and the search is repeated,
//! because callers and callees may have been renamed too.
//!
//! Matches are likely but not certain. A wrong match puts one unprofiled function among the hot ones.

use crate::binary::code::BuildCode;
use crate::binary::names;
use crate::profile::{FunctionIndex, Profile};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Smallest number of points for a match.
pub const LEAST: u32 = 5;

/// A function that was renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renaming {
    /// The function of the profile.
    pub function: FunctionIndex,
    /// Its name in the profile.
    pub old: String,
    /// Its name in the build.
    pub new: String,
}

/// Number of functions up to which references to a name give two points, and one point.
const FEW: usize = 4;
const SOME: usize = 48;

/// Number of repetitions of the search.
const ROUNDS: usize = 6;

/// True if the build lacks a function of a DSO, so that a search makes sense.
#[must_use]
pub fn lacks_any<'a>(profile: &Profile, label: Option<&str>, defined: impl Iterator<Item = &'a str>) -> bool {
    let stems: HashSet<&str> = defined.map(names::stem).collect();
    functions_of(profile, label).any(|function| is_gone(profile, function, &stems))
}

fn functions_of<'a>(
    profile: &'a Profile,
    label: Option<&'a str>,
) -> impl Iterator<Item = FunctionIndex> + use<'a> {
    profile.functions().into_iter().filter(move |function| profile.key(*function).dso.as_deref() == label)
}

/// True if the build has neither the function nor a clone.
fn is_gone(profile: &Profile, function: FunctionIndex, stems: &HashSet<&str>) -> bool {
    let name = &profile.key(function).name;
    names::split_from(name).is_none() && !stems.contains(names::stem(name))
}

/// Returns the renamed functions of a cluster, in the order of their old names.
#[must_use]
pub fn renamings(profile: &Profile, label: Option<&str>, code: &BuildCode<'_>) -> Vec<Renaming> {
    let mut search = RenameSearch::new(profile, label, code);
    let mut found: BTreeMap<FunctionIndex, usize> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let more = search.round();
        if more.is_empty() {
            break;
        }
        for (old, new) in more {
            search.accept(old, new);
            found.insert(old, new);
        }
    }
    let mut renamings: Vec<Renaming> = found
        .into_iter()
        .map(|(function, new)| Renaming {
            function,
            old: profile.key(function).name.clone(),
            new: code.functions[new].name.to_owned(),
        })
        .collect();
    renamings.sort_by(|a, b| a.old.cmp(&b.old).then_with(|| a.new.cmp(&b.new)));
    renamings
}

/// State of the search. Names of the build are numbers: indices of the names in its code.
struct RenameSearch<'a> {
    profile: &'a Profile,
    code: &'a BuildCode<'a>,
    /// By name: functions that define it.
    defined: HashMap<&'a str, Vec<usize>>,
    number: HashMap<&'a str, u32>,
    /// By function of the build: names that its code refers to.
    mentions: Vec<BTreeSet<u32>>,
    /// By name: functions that refer to it.
    mentioned_by: Vec<Vec<usize>>,
    /// Functions of the profile that the build lacks.
    gone: Vec<FunctionIndex>,
    /// Functions of the build that the profile lacks.
    fresh: HashSet<usize>,
    callers: HashMap<FunctionIndex, Vec<FunctionIndex>>,
    callees: HashMap<FunctionIndex, Vec<FunctionIndex>>,
    /// Functions of the profile that the build has under another name.
    accepted: HashMap<FunctionIndex, usize>,
}

/// Candidate for a renamed function with its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ScoredCandidate {
    points: u32,
    new: usize,
}

impl<'a> RenameSearch<'a> {
    fn new(profile: &'a Profile, label: Option<&'a str>, code: &'a BuildCode<'a>) -> Self {
        let mut defined: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut stems: HashSet<&str> = HashSet::new();
        for (index, function) in code.functions.iter().enumerate() {
            defined.entry(function.name).or_default().push(index);
            stems.insert(names::stem(function.name));
        }
        let mut mentions = vec![BTreeSet::new(); code.functions.len()];
        let mut mentioned_by = vec![Vec::new(); code.mentioned.len()];
        for (from, name) in &code.references {
            if mentions[*from as usize].insert(*name) {
                mentioned_by[*name as usize].push(*from as usize);
            }
        }
        let number = code.mentioned.iter().copied().zip(0..).collect();
        let ours: Vec<FunctionIndex> = functions_of(profile, label).collect();
        let known: HashSet<&str> =
            ours.iter().map(|function| names::stem(&profile.key(*function).name)).collect();
        let gone: Vec<FunctionIndex> =
            ours.iter().copied().filter(|function| is_gone(profile, *function, &stems)).collect();
        let is_fresh = |index: &usize| {
            let name = code.functions[*index].name;
            names::split_from(name).is_none() && !known.contains(names::stem(name))
        };
        let fresh = (0..code.functions.len()).filter(is_fresh).collect();
        let looked_for: HashSet<FunctionIndex> = gone.iter().copied().collect();
        let mut callers: HashMap<FunctionIndex, Vec<FunctionIndex>> = HashMap::new();
        let mut callees: HashMap<FunctionIndex, Vec<FunctionIndex>> = HashMap::new();
        for (caller, callee, _) in profile.edges() {
            if caller == callee {
                continue;
            }
            if looked_for.contains(&callee) {
                callers.entry(callee).or_default().push(caller);
            }
            if looked_for.contains(&caller) {
                callees.entry(caller).or_default().push(callee);
            }
        }
        Self {
            profile,
            code,
            defined,
            number,
            mentions,
            mentioned_by,
            gone,
            fresh,
            callers,
            callees,
            accepted: HashMap::new(),
        }
    }

    fn accept(&mut self, old: FunctionIndex, new: usize) {
        self.gone.retain(|function| *function != old);
        let name = self.code.functions[new].name;
        let all = self.defined.get(name).cloned().unwrap_or_default();
        all.iter().for_each(|index| {
            self.fresh.remove(index);
        });
        self.accepted.insert(old, new);
    }

    /// Returns the name in the build of a function of the profile.
    fn name_of(&self, function: FunctionIndex) -> &str {
        match self.accepted.get(&function) {
            Some(new) => self.code.functions[*new].name,
            None => &self.profile.key(function).name,
        }
    }

    /// Returns the definitions of a function; none for functions of other files.
    fn indices(&self, function: FunctionIndex) -> &[usize] {
        self.defined.get(self.name_of(function)).map_or(&[], Vec::as_slice)
    }

    /// Returns pairs of functions that are each other's best match.
    fn round(&self) -> Vec<(FunctionIndex, usize)> {
        let mut best: Vec<(FunctionIndex, ScoredCandidate)> = Vec::new();
        let mut wanted_by: HashMap<&str, Vec<(u32, FunctionIndex)>> = HashMap::new();
        for old in &self.gone {
            let mut candidates = self.candidates(*old);
            candidates.sort_by(|a, b| b.points.cmp(&a.points).then(a.new.cmp(&b.new)));
            let Some(first) = candidates.first().copied() else { continue };
            let near = |other: &&ScoredCandidate| {
                let same = self.code.functions[other.new].name == self.code.functions[first.new].name;
                !same && other.points + 1 >= first.points
            };
            if first.points >= LEAST && !candidates.iter().any(|other| near(&other)) {
                best.push((*old, first));
            }
            for candidate in candidates {
                let name = self.code.functions[candidate.new].name;
                wanted_by.entry(name).or_default().push((candidate.points, *old));
            }
        }
        let wanted_most = |old: FunctionIndex, evidence: ScoredCandidate| {
            let name = self.code.functions[evidence.new].name;
            let others = wanted_by.get(name).into_iter().flatten();
            others.filter(|(_, other)| *other != old).all(|(points, _)| points + 1 < evidence.points)
        };
        best.into_iter()
            .filter(|(old, evidence)| wanted_most(*old, *evidence))
            .map(|(old, evidence)| (old, evidence.new))
            .collect()
    }

    fn candidates(&self, old: FunctionIndex) -> Vec<ScoredCandidate> {
        let list =
            |of: &HashMap<FunctionIndex, Vec<FunctionIndex>>| of.get(&old).cloned().unwrap_or_default();
        let callers: Vec<FunctionIndex> =
            list(&self.callers).into_iter().filter(|caller| !self.indices(*caller).is_empty()).collect();
        let callees: Vec<u32> = list(&self.callees)
            .into_iter()
            .filter_map(|callee| self.number.get(self.name_of(callee)).copied())
            .collect();
        let mut reached: BTreeSet<usize> = BTreeSet::new();
        for place in callers.iter().flat_map(|caller| self.indices(*caller)) {
            let named = self.mentions[*place].iter();
            let defined = named.filter_map(|name| self.defined.get(self.code.mentioned[*name as usize]));
            reached.extend(defined.flatten().filter(|place| self.fresh.contains(place)));
        }
        for callee in &callees {
            let by = &self.mentioned_by[*callee as usize];
            if by.len() <= SOME {
                reached.extend(by.iter().filter(|place| self.fresh.contains(place)));
            }
        }
        reached.into_iter().filter_map(|new| self.evidence(old, new, &callers, &callees)).collect()
    }

    fn evidence(
        &self,
        old: FunctionIndex,
        new: usize,
        callers: &[FunctionIndex],
        callees: &[u32],
    ) -> Option<ScoredCandidate> {
        let worth = |mentions: usize| u32::from(mentions <= FEW) + u32::from(mentions <= SOME);
        let function = &self.code.functions[new];
        let own_number = self.number.get(function.name).copied();
        let calling = callers.iter().filter(|caller| {
            let mut indices = self.indices(**caller).iter();
            own_number.is_some_and(|own| indices.any(|place| self.mentions[*place].contains(&own)))
        });
        let calling = calling.count();
        let called: Vec<u32> =
            callees.iter().copied().filter(|callee| self.mentions[new].contains(callee)).collect();
        // Code does not refer to a function that is called through a pointer. Then its callees must be sufficient.
        let through_pointers = calling == 0 && called.len() >= 3 && called.len() == callees.len();
        let by_similar_callers = 2 * calling >= callers.len() && 3 * called.len() >= 2 * callees.len();
        if !through_pointers && !by_similar_callers {
            return None;
        }
        let by_callers = own_number.map_or(0, |own| worth(self.mentioned_by[own as usize].len()));
        let by_callees: u32 =
            called.iter().map(|callee| worth(self.mentioned_by[*callee as usize].len())).sum();
        let by_calls = by_callers * calling as u32 + by_callees;
        if by_calls == 0 {
            return None;
        }
        let (size, old_size) = (function.size, self.profile.facts(old).size.unwrap_or(0));
        let by_size = u32::from(3 * size.abs_diff(old_size) < size.max(old_size));
        let by_name = 2 * u32::from(are_similar(&self.profile.key(old).name, function.name));
        let points = by_calls
            + by_size
            + by_name
            + u32::from(self.is_among_neighbours(function.unit, callers, callees));
        Some(ScoredCandidate { points, new })
    }

    /// True if at least half of these callers and callees were compiled in the same unit.
    fn is_among_neighbours(&self, unit: Option<usize>, callers: &[FunctionIndex], callees: &[u32]) -> bool {
        let of_caller = callers.iter().map(|caller| self.indices(*caller));
        let of_callee = callees
            .iter()
            .filter_map(|callee| self.defined.get(self.code.mentioned[*callee as usize]).map(Vec::as_slice));
        let (mut all, mut here) = (0, 0);
        for indices in of_caller.chain(of_callee) {
            all += 1;
            here += usize::from(
                unit.is_some() && indices.iter().any(|place| self.code.functions[*place].unit == unit),
            );
        }
        here > 0 && 2 * here >= all
    }
}

/// True if the common beginning and end of two names are at least two thirds of the longer name.
fn are_similar(a: &str, b: &str) -> bool {
    let (a, b) = (names::stem(a).as_bytes(), names::stem(b).as_bytes());
    let least = a.len().min(b.len());
    let beginning = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    3 * (beginning + end).min(least) >= 2 * a.len().max(b.len())
}

#[cfg(test)]
mod tests {
    use super::are_similar;

    #[test]
    fn names_that_share_their_ends_are_similar() {
        for (a, b, expected) in [
            ("mdread", "mdreadv", true),
            ("pg_strtoint32", "pg_strtoint32_safe", true),
            ("FileRead", "FileReadV", true),
            ("heapgetpage", "heap_prepare_pagescan", false),
            ("a", "b", false),
            ("", "b", false),
        ] {
            assert_eq!(are_similar(a, b), expected, "{a} {b}");
        }
    }
}
