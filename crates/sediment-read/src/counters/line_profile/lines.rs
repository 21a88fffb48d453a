// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executions by source line, with what was inlined there.

use std::collections::BTreeMap;

/// A place in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePosition {
    /// Line, counted from the function's first.
    pub offset: u32,
    /// Number of the compiler for code of one line that runs apart; 0 for none.
    pub discriminator: u32,
}

impl LinePosition {
    /// The place of a line of a function. Lines are counted in 16 bits, as LLVM does: a line before the first wraps.
    #[must_use]
    pub fn of(line: u32, first: u32, discriminator: u32) -> Self {
        Self { offset: line.wrapping_sub(first) & 0xffff, discriminator }
    }
}

/// Executions of a function's code, as one copy of it: its own, or where it was inlined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body {
    /// Calls of it.
    pub head: u64,
    /// Executions of each place.
    pub counts: BTreeMap<LinePosition, u64>,
    /// Calls out of it.
    pub calls: BTreeMap<(LinePosition, String), u64>,
    /// Inlined functions, by the place of the call.
    pub inlined: BTreeMap<(LinePosition, String), Body>,
}

impl Body {
    /// Raises the executions of a place: of several instructions the one that was executed most counts.
    pub fn raise(&mut self, site: LinePosition, count: u64) {
        let known = self.counts.entry(site).or_default();
        *known = (*known).max(count);
    }

    /// Sum of all executions in it, and in what was inlined.
    #[must_use]
    pub fn total(&self) -> u64 {
        let own = self.counts.values().fold(0u64, |sum, count| sum.saturating_add(*count));
        self.inlined.values().fold(own, |sum, body| sum.saturating_add(body.total()))
    }

    fn absorb(&mut self, other: &Self) {
        self.head = self.head.saturating_add(other.head);
        for (site, count) in &other.counts {
            let sum = self.counts.entry(*site).or_default();
            *sum = sum.saturating_add(*count);
        }
        for (call, count) in &other.calls {
            let sum = self.calls.entry(call.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        for (call, body) in &other.inlined {
            self.inlined.entry(call.clone()).or_default().absorb(body);
        }
    }
}

/// Executions by function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// The functions that have code of their own, by name.
    pub functions: BTreeMap<String, Body>,
}

impl LineCounts {
    /// Adds those of another recording.
    pub fn absorb(&mut self, other: &Self) {
        for (name, body) in &other.functions {
            self.functions.entry(name.clone()).or_default().absorb(body);
        }
    }
}
