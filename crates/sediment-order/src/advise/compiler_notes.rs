// SPDX-License-Identifier: MIT OR Apache-2.0
//! GCC's reasons for not inlining calls, from the output of `-fopt-info-inline-missed`.
//!
//! A note is a line `FILE:LINE:COLUMN: missed: WHAT: CALLER/NUMBER -> CALLEE/NUMBER, REASON`, with or without blanks
//! around the arrow. GCC's manual ("Developer Options") does not define the form; this is the form of GCC 12 to 14.
//! Lines of other forms do not describe a single call and are skipped.

use std::collections::BTreeMap;

/// Notes from a compilation, or from a whole build.
#[derive(Debug, Clone, Default)]
pub struct CompilerNotes {
    by_names: BTreeMap<(String, String), String>,
    by_line: BTreeMap<(String, u32), String>,
}

impl CompilerNotes {
    /// Finds the notes in the output of a build.
    #[must_use]
    pub fn find(log: &str) -> Self {
        let mut notes = Self::default();
        for line in log.lines() {
            notes.add(line);
        }
        notes
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let (place, said) = line.split_once(": missed:")?;
        let (caller, rest) = said.split_once("->")?;
        let caller = caller.trim_end().rsplit([' ', ':']).next()?;
        let (callee, reason) = rest.split_once(", ")?;
        let without_number = |name: &str| Some(name.trim().rsplit_once('/')?.0.to_owned());
        let reason = reason.trim().to_owned();
        let mut parts = place.rsplitn(3, ':');
        let _column = parts.next()?;
        if let (Some(Ok(number)), Some(file)) = (parts.next().map(str::parse), parts.next()) {
            let file = file.rsplit('/').next().unwrap_or(file).to_owned();
            self.by_line.insert((file, number), reason.clone());
        }
        // The last note comes from the inliner that decides.
        self.by_names.insert((without_number(caller)?, without_number(callee)?), reason);
        Some(())
    }

    /// Returns the reason for not inlining the calls of `callee` in `caller`, or otherwise the reason for a call at one
    /// of these lines.
    pub(super) fn reason<'a>(
        &self,
        caller: &str,
        callee: &str,
        mut lines: impl Iterator<Item = (&'a str, u32)>,
    ) -> Option<&str> {
        self.by_names
            .get(&(caller.to_owned(), callee.to_owned()))
            .or_else(|| lines.find_map(|(file, line)| self.by_line.get(&(file.to_owned(), line))))
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::CompilerNotes;

    #[test]
    fn notes_of_gcc_are_parsed() {
        let log = "gcc -O2 -c a.c\n\
                   src/a.c:8:76: missed:   will not early inline: main/15->work/11, call is cold and code would grow at least by 32\n\
                   src/a.c:8:76: missed:   not inlinable: main/15 -> work/11, --param max-inline-insns-auto limit reached\n\
                   src/a.c:7:49: missed:   Not inlining: recursive call.\n\
                   x.cc:3:9: missed:   not inlinable: int f(int)/3 -> void g(int, int)/4, function body not available\n\
                   a.c:1:2: missed: -> , /\n: missed:->,\n";
        let notes = CompilerNotes::find(log);
        let limit = Some("--param max-inline-insns-auto limit reached");
        assert_eq!(notes.reason("main", "work", [].into_iter()), limit);
        assert_eq!(notes.reason("other", "other", [("a.c", 8)].into_iter()), limit);
        assert_eq!(notes.reason("other", "other", [("a.c", 7)].into_iter()), None);
        // C++ names are printed demangled, so only the line identifies the call.
        assert!(notes.reason("_Z1fi", "_Z1gii", [("x.cc", 3)].into_iter()).is_some());
    }
}
