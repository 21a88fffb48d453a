// SPDX-License-Identifier: MIT OR Apache-2.0
//! `show --cross-dso`: lists the calls between DSOs, and ways to avoid them.

use sediment_core::demangle::demangled;
use sediment_core::profile::{FunctionIndex, Profile};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Ways to avoid calls between DSOs.
const ADVICE: &str = "\
Each of these calls goes through the PLT and the GOT. Caller and callee are in different files, so no order can place them side by
side. Ways to avoid such calls:
  - link a library, or its hot functions, statically into the only program that uses it: one order then places both;
  - within a library, use -Wl,-Bsymbolic-functions, -fvisibility=hidden for functions that are not exported, or
    -fno-semantic-interposition: calls of its own functions then bypass the PLT (a profile does not show which calls use it);
  - -fno-plt removes the PLT stub; all symbols are then bound at start.
";

/// The calls between two DSOs.
pub(super) struct CrossCalls<'a> {
    pub(super) profile: &'a Profile,
    /// All calls with both ends in a DSO.
    pub(super) total: u128,
    pub(super) pairs: Vec<((&'a str, &'a str), u128)>,
    pub(super) calls: Vec<(FunctionIndex, FunctionIndex, u128)>,
}

impl<'a> CrossCalls<'a> {
    pub(super) fn of(profile: &'a Profile, top: usize) -> Self {
        let mut total = 0u128;
        let mut pairs: BTreeMap<(&str, &str), u128> = BTreeMap::new();
        let mut calls = Vec::new();
        for (caller, callee, facts) in profile.edges() {
            let ends = (profile.key(caller).dso.as_deref(), profile.key(callee).dso.as_deref());
            let (Some(count), (Some(from), Some(to))) = (facts.count, ends) else { continue };
            total = total.saturating_add(count);
            if from != to {
                let sum = pairs.entry((from, to)).or_default();
                *sum = sum.saturating_add(count);
                calls.push((caller, callee, count));
            }
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        // Both lists are sorted by name; a stable sort keeps this order for equal counts.
        pairs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        calls.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
        calls.truncate(top);
        Self { profile, total, pairs, calls }
    }

    pub(super) fn crossing(&self) -> u128 {
        self.pairs.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Formats a share for display; the quotient of two floats is exact enough.
    fn share(&self, count: u128) -> String {
        if self.total == 0 {
            "-".to_owned()
        } else {
            format!("{:.2} %", 100.0 * count as f64 / self.total as f64)
        }
    }

    pub(super) fn text(&self, name: &str) -> String {
        let mut text = format!(
            "{name}: {} of the calls between known programs and libraries cross DSOs\n",
            self.share(self.crossing())
        );
        if self.pairs.is_empty() {
            return text;
        }
        text += "\nBetween DSOs:\n";
        for ((from, to), count) in &self.pairs {
            let _ = writeln!(text, "{:>10}  {from} -> {to}", self.share(*count));
        }
        text += "\nMost frequent calls:\n";
        for (caller, callee, count) in &self.calls {
            let (caller, callee) = (self.profile.key(*caller), self.profile.key(*callee));
            let place = callee.dso.as_deref().unwrap_or_default();
            let _ = writeln!(
                text,
                "{:>10}  {} -> {} in {place}",
                self.share(*count),
                demangled(&caller.name),
                demangled(&callee.name)
            );
        }
        text.push('\n');
        text + ADVICE
    }
}
