// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output of `perf buildid-list`: a line with a build-id and a path for each file of a recording.
//!
//! It completes a recording whose own format has no build-ids, such as text of `perf script`. Source: tools/perf,
//! `builtin-buildid-list.c`.

use super::{Input, Recording, input};
use sediment_core::error::Result;
use std::collections::BTreeMap;

/// Build-ids of the files of a recording, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildIdList(BTreeMap<String, Option<String>>);

/// Number of hexadecimal digits of the shortest and the longest build-id.
const DIGITS: std::ops::RangeInclusive<usize> = 8..=64;

/// Longest list in bytes: a system has thousands of files, with one line each.
const LONGEST: u64 = 4 << 20;
/// Longest first line in bytes.
const LINE: usize = 4096;

impl BuildIdList {
    /// Reads the build-ids of an input that lists them; returns `None` for any other input.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn read(input: &dyn Input) -> Result<Option<Self>> {
        let head = input::head(input, LINE)?;
        let first = head.split(|byte| *byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok());
        if input.length() > LONGEST || first.and_then(Self::parse).is_none() {
            return Ok(None);
        }
        let whole = input::whole(input)?;
        Ok(std::str::from_utf8(&whole).ok().and_then(Self::parse))
    }

    /// Parses the build-ids of a text; `None` if there are none or a line is something else. A path with two ids counts
    /// as unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut found = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (id, path) = line.split_once([' ', '\t'])?;
            let is_id = DIGITS.contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            let path = path.trim_start();
            if !is_id || !path.starts_with(['/', '[']) {
                return None;
            }
            found.add(path, id);
        }
        (!found.0.is_empty()).then_some(found)
    }

    fn add(&mut self, path: &str, id: &str) {
        let id = id.to_ascii_lowercase();
        let known = self.0.entry(path.to_owned()).or_insert_with(|| Some(id.clone()));
        if known.as_ref() != Some(&id) {
            *known = None;
        }
    }

    /// Adds the build-ids of another list.
    pub fn extend(&mut self, other: &Self) {
        for (path, id) in &other.0 {
            match id {
                Some(id) => self.add(path, id),
                None => drop(self.0.insert(path.clone(), None)),
            }
        }
    }

    /// True if the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the build-ids of a recording's files that have none, and returns the number of files that got one.
    pub fn give_to(&self, recording: &mut Recording) -> usize {
        let without = recording.dsos.iter_mut().filter(|dso| dso.build_id.is_none());
        let mut count = 0;
        for dso in without {
            if let Some(Some(id)) = self.0.get(&dso.path) {
                dso.build_id = Some(id.clone());
                count += 1;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::super::RecordedDso;
    use super::*;

    #[test]
    fn a_list_of_build_ids_is_told_from_other_text() {
        let text =
            "93ac61ec5a8eb1396f9fbd350e3169a558528a40 /lib/libc.so.6\n0123456789ABCDEF     /a path/b\n\n";
        let ids = BuildIdList::parse(text).unwrap();
        assert_eq!(ids.0["/a path/b"].as_deref(), Some("0123456789abcdef"));
        for other in ["", "main;f 12\n", "abc /short\n", "0123456789abcdef name\n", "0123456789abcdef\n"] {
            assert_eq!(BuildIdList::parse(other), None, "{other}");
        }
        let twice = BuildIdList::parse("0123456789abcdef /p\nfedcba9876543210 /p\n").unwrap();
        assert_eq!(twice.0["/p"], None);
    }

    #[test]
    fn files_without_an_id_get_theirs() {
        let mut recording = Recording::default();
        let dso = |path: &str, id: Option<&str>| RecordedDso {
            path: path.to_owned(),
            build_id: id.map(str::to_owned),
        };
        recording.dso(dso("/p", None));
        recording.dso(dso("/q", Some("aa")));
        let ids = BuildIdList::parse("0123456789abcdef /p\n0123456789abcdef /q\n").unwrap();
        assert_eq!(ids.give_to(&mut recording), 1);
        let found: Vec<Option<&str>> = recording.dsos().iter().map(|dso| dso.build_id.as_deref()).collect();
        assert_eq!(found, [Some("0123456789abcdef"), Some("aa")]);
    }
}
