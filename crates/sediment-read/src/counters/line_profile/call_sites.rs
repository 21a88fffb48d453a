// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of calls by the caller's line.

use sediment_core::profile::merge::Weight;
use std::collections::BTreeMap;

/// Total of an input with weight 1 in a sum of several, whatever its length.
const SHARE: u128 = 1_000_000_000_000;

/// A line of a calling function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallingLine<'a> {
    /// Its name in the notation of the compiler's own profiles.
    pub name: &'a str,
    /// Its first line; 0 if unknown.
    pub start_line: u32,
    /// Line of the call.
    pub line: u32,
}

/// Weights of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSites {
    /// Functions with their first lines.
    functions: BTreeMap<String, u32>,
    /// By caller, line of the call relative to the caller's first line, and callee.
    calls: BTreeMap<(String, i64, String), u128>,
}

impl CallSites {
    /// Adds calls. Calls whose caller has no first line could not be found again, and are not kept.
    pub fn add(
        &mut self,
        caller: CallingLine<'_>,
        callee: &str,
        callee_start_line: u32,
        weight: u128,
    ) -> bool {
        if caller.start_line == 0 || weight == 0 {
            return false;
        }
        for (name, line) in [(caller.name, caller.start_line), (callee, callee_start_line)] {
            match self.functions.get_mut(name) {
                Some(known) => *known = (*known).max(line),
                None => drop(self.functions.insert(name.to_owned(), line)),
            }
        }
        let offset = i64::from(caller.line) - i64::from(caller.start_line);
        let sum = self.calls.entry((caller.name.to_owned(), offset, callee.to_owned())).or_default();
        *sum = sum.saturating_add(weight);
        true
    }

    /// Sum of all weights.
    #[must_use]
    pub fn total(&self) -> u128 {
        self.calls.values().fold(0, |sum, weight| sum.saturating_add(*weight))
    }

    /// True if there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the calls: caller, line relative to the caller's first line, callee, weight; sorted by all except the
    /// weight.
    pub fn calls(&self) -> impl Iterator<Item = (&str, i64, &str, u128)> {
        self.calls
            .iter()
            .map(|((caller, line, callee), weight)| (caller.as_str(), *line, callee.as_str(), *weight))
    }

    /// Returns the first line of a function; 0 if unknown.
    pub(super) fn start_line(&self, function: &str) -> u32 {
        self.functions.get(function).copied().unwrap_or(0)
    }

    /// Returns the sum of several: the total of each becomes its weight. A count above 0 stays above 0 unless its
    /// weight is 0.
    #[must_use]
    pub fn merged(all: &[(Self, Weight)]) -> Self {
        if let [(only, _)] = all {
            return only.clone();
        }
        let mut sum = Self::default();
        for (one, of_all) in all.iter().filter(|(_, of_all)| *of_all != Weight::ZERO) {
            let total = one.total().max(1);
            let of_all = u128::from(of_all.billionths());
            for (name, line) in &one.functions {
                let known = sum.functions.entry(name.clone()).or_default();
                *known = (*known).max(*line);
            }
            for (call, weight) in &one.calls {
                let share = (weight.saturating_mul(SHARE) / total).saturating_mul(of_all)
                    / u128::from(Weight::ONE.billionths());
                let kept = sum.calls.entry(call.clone()).or_default();
                *kept = kept.saturating_add(share.max(1));
            }
        }
        sum
    }

    /// Returns the heaviest calls that make up this share (in thousandths) of the weight; of calls with equal weight,
    /// all or none.
    #[must_use]
    pub fn trimmed(&self, thousandths: u32) -> Self {
        let mut weights: Vec<u128> = self.calls.values().copied().collect();
        weights.sort_unstable_by(|one, other| other.cmp(one));
        let wanted = self.total().saturating_mul(u128::from(thousandths)) / 1000;
        let mut sum = 0u128;
        let reaches = |weight: &&u128| {
            sum = sum.saturating_add(**weight);
            sum >= wanted
        };
        let least = weights.iter().find(reaches).copied().unwrap_or(0);
        let calls: BTreeMap<_, _> = self
            .calls
            .iter()
            .filter(|(_, weight)| **weight >= least)
            .map(|(call, weight)| (call.clone(), *weight))
            .collect();
        let is_kept =
            |name: &String| calls.keys().any(|(caller, _, callee)| caller == name || callee == name);
        let functions = self.functions.iter().filter(|(name, _)| is_kept(name));
        let functions = functions.map(|(name, line)| (name.clone(), *line)).collect();
        Self { functions, calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(calls: &[(&str, u32, &str, u128)]) -> CallSites {
        let mut sites = CallSites::default();
        for (caller, line, callee, weight) in calls {
            let caller = CallingLine { name: caller, start_line: 10, line: *line };
            assert!(sites.add(caller, callee, 20, *weight));
        }
        sites
    }

    #[test]
    fn inputs_count_alike() {
        let small = sites(&[("a", 12, "b", 1), ("a", 13, "c", 1)]);
        let large = sites(&[("a", 12, "b", 3_000_000), ("a", 9, "d", 1_000_000)]);
        let alike = |sites: &CallSites| (sites.clone(), Weight::ONE);
        let both = CallSites::merged(&[alike(&small), alike(&large)]);
        assert_eq!(both, CallSites::merged(&[alike(&large), alike(&small)]));
        let found: Vec<_> =
            both.calls().map(|(_, line, callee, weight)| (line, callee, weight * 4 / SHARE)).collect();
        assert_eq!(found, [(-1, "d", 1), (2, "b", 5), (3, "c", 2)]);
        assert_eq!(CallSites::merged(&[alike(&small)]), small);
        let weighed = CallSites::merged(&[(small.clone(), Weight::parse("3").unwrap()), alike(&large)]);
        assert_eq!(weighed.total(), 4 * SHARE);
        let without = CallSites::merged(&[(small, Weight::ZERO), alike(&large)]);
        assert_eq!(without.total(), SHARE);
    }

    #[test]
    fn the_heaviest_are_kept() {
        let all = sites(&[("a", 11, "b", 900), ("a", 12, "c", 90), ("a", 13, "d", 5), ("a", 14, "e", 5)]);
        let kept = |thousandths| {
            all.trimmed(thousandths).calls().map(|(_, _, callee, _)| callee.to_owned()).collect::<String>()
        };
        assert_eq!([900, 901, 990, 991, 1000].map(kept), ["b", "bc", "bc", "bcde", "bcde"]);
        assert_eq!(all.trimmed(900).start_line("c"), 0);
    }

    #[test]
    fn a_caller_without_a_first_line_is_not_kept() {
        let mut sites = CallSites::default();
        assert!(!sites.add(CallingLine { name: "a", start_line: 0, line: 3 }, "b", 1, 7));
        assert!(sites.is_empty());
    }
}
