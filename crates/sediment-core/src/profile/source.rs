// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source of a profile: its recorder, and the kinds of data that the recorder cannot have. Only this module writes and
//! reads the text, which is an entry of the profile's `source`.

use crate::skipped::coded;
use std::fmt;

coded! {
    /// Kind of data that a source may lack.
    Unknown {
        CallCounts "call-counts" "call counts",
        TimeOrder "time-order" "time order",
        Sizes "sizes" "sizes",
        IndirectCalls "indirect-calls" "indirect calls",
        SharedLibraries "shared-libraries" "shared libraries",
        Callers "callers" "callers",
        OwnCost "own-cost" "own cost",
    }
}

/// Recorder of a profile: `perf call stacks (cycles:u) without call counts or time order`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileSource {
    /// Profiler and type of its recording.
    pub name: String,
    /// The counted event; empty if unknown.
    pub event: String,
    /// Kinds of data that it lacks, in the order of the text.
    pub unknown: Vec<Unknown>,
}

impl ProfileSource {
    /// Event of recordings of first uses only.
    pub const FIRST_USES: &'static str = "first uses";

    /// Makes a source from its parts.
    #[must_use]
    pub fn new(name: &str, event: &str, unknown: &[Unknown]) -> Self {
        Self { name: name.to_owned(), event: event.to_owned(), unknown: unknown.to_vec() }
    }
}

impl From<&str> for ProfileSource {
    /// Parses an entry of a profile. The text after `without` is a list only if every word of it is known.
    fn from(text: &str) -> Self {
        let word = |word: &str| Unknown::ALL.iter().copied().find(|unknown| unknown.to_string() == word);
        let all = |list: &str| list.split(" or ").map(word).collect::<Option<Vec<_>>>();
        let list = text.rsplit_once(" without ").and_then(|(text, list)| Some((text, all(list)?)));
        let (text, unknown) = list.unwrap_or((text, Vec::new()));
        let event = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
        let (name, event) = event.filter(|(_, event)| !event.is_empty()).unwrap_or((text, ""));
        Self::new(name, event, &unknown)
    }
}

impl fmt::Display for ProfileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.event.is_empty() {
            write!(f, " ({})", self.event)?;
        }
        let between = std::iter::once(" without ").chain(std::iter::repeat(" or "));
        between.zip(&self.unknown).try_for_each(|(between, unknown)| write!(f, "{between}{unknown}"))
    }
}
