// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executions by source line, including inlined functions.

use std::collections::BTreeMap;

/// A position in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePosition {
    /// Line relative to the function's first line.
    pub offset: u32,
    /// The compiler's number for a separate piece of code on the same line; 0 for none.
    pub discriminator: u32,
}

impl LinePosition {
    /// Makes the position of a line of a function. The offset has 16 bits, as in LLVM: a line before the first wraps
    /// around.
    #[must_use]
    pub fn of(line: u32, first: u32, discriminator: u32) -> Self {
        Self { offset: line.wrapping_sub(first) & 0xffff, discriminator }
    }
}

/// Executions of one copy of a function's code: its own, or an inlined one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body {
    /// Number of calls of it.
    pub head: u64,
    /// Executions of each position.
    pub counts: BTreeMap<LinePosition, u64>,
    /// Calls from it.
    pub calls: BTreeMap<(LinePosition, String), u64>,
    /// Inlined functions, by the position of the call.
    pub inlined: BTreeMap<(LinePosition, String), Body>,
}

impl Body {
    /// Raises the executions of a position to this count: the most frequent of its instructions counts.
    pub fn raise(&mut self, site: LinePosition, count: u64) {
        let known = self.counts.entry(site).or_default();
        *known = (*known).max(count);
    }

    /// Sum of all executions, including those of inlined functions.
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
    /// Functions with code of their own, by name.
    pub functions: BTreeMap<String, Body>,
}

impl LineCounts {
    /// Adds the executions of another recording.
    pub fn absorb(&mut self, other: &Self) {
        for (name, body) in &other.functions {
            self.functions.entry(name.clone()).or_default().absorb(body);
        }
    }
}
