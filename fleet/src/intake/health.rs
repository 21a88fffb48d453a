// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Health`]: current faults, for `/health` and for warnings.

use crate::errors::warning;
use parking_lot::Mutex;
use sediment_core::Result;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A part of the intake that can fail while the others work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Receipt: the log is not writable.
    Log,
    /// Submissions in the log cannot be added to the dataset.
    Dataset,
    /// Combining or removing files.
    Maintenance,
    Tokens,
    BuildIds,
    Pages,
}

impl Part {
    fn text(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Dataset => "dataset",
            Self::Maintenance => "maintenance",
            Self::Tokens => "tokens",
            Self::BuildIds => "build-ids",
            Self::Pages => "pages",
        }
    }
}

/// Faults by part.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<BTreeMap<Part, String>>);

impl Health {
    /// Stores a fault until the component works again. Prints one warning for it.
    pub(crate) fn fails(&self, part: Part, why: &str) {
        let mut faults = self.0.lock();
        if faults.get(&part).is_none_or(|known| known != why) {
            warning(&format!("{}: {why}", part.text()));
            faults.insert(part, why.to_owned());
        }
    }

    /// Records the result of a component's work.
    pub(crate) fn is(&self, part: Part, done: Result<()>) {
        match done {
            Ok(()) => self.works(part),
            Err(error) => self.fails(part, &error.to_string()),
        }
    }

    /// Records that a component works.
    pub(crate) fn works(&self, part: Part) {
        self.0.lock().remove(&part);
    }

    /// One line for each faulty component; empty if all work.
    pub(crate) fn faults(&self) -> String {
        let mut text = String::new();
        for (part, why) in self.0.lock().iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} fails: {}", part.text(), why.replace('\n', " "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_told_until_it_works() {
        let health = Health::default();
        health.fails(Part::Log, "no space");
        health.fails(Part::Tokens, "no\ntoken");
        assert_eq!(health.faults(), "log fails: no space\ntokens fails: no token\n");
        health.works(Part::Log);
        health.works(Part::Tokens);
        assert_eq!(health.faults(), "");
    }
}
