// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds DSO labels that may be one library under two names.
//!
//! Some profilers use the soname of a library, others the name of its file; a file that was replaced while in use has
//! ` (deleted)` after its name. Such labels are reported, but never joined automatically.

use super::Profile;
use std::collections::{BTreeMap, BTreeSet};

/// Returns pairs of labels that look like one library. Each pair, and the list of pairs, is in the order of the labels.
///
/// Two labels look alike if their build-ids are equal, if they differ only in ` (deleted)`, or if both are shared
/// objects with the same name and one version is the beginning of the other: `libz.so.1` and `libz.so.1.2.13`, but not
/// `libz.so.2`. A version before `.so`, as in `libc-2.31.so`, matches every version after it.
#[must_use]
pub fn similar_labels(profile: &Profile) -> Vec<(String, String)> {
    let mut groups: BTreeMap<(By, &str), Vec<&str>> = BTreeMap::new();
    for (label, cluster) in profile.dsos() {
        let spelling = Spelling::of(label);
        groups.entry((spelling.kind, spelling.stem)).or_default().push(label);
        if let Some(build_id) = &cluster.build_id {
            groups.entry((By::BuildId, build_id)).or_default().push(label);
        }
    }
    let mut pairs = BTreeSet::new();
    for ((by, _), labels) in groups {
        for (position, one) in labels.iter().enumerate() {
            for other in &labels[position + 1..] {
                if by == By::BuildId || Spelling::of(one).agrees(&Spelling::of(other)) {
                    pairs.insert(((*one).to_owned(), (*other).to_owned()));
                }
            }
        }
    }
    pairs.into_iter().collect()
}

/// Similarity of two labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    BuildId,
    FileName,
    SharedObject,
}

/// The parts of a label.
struct Spelling<'a> {
    kind: By,
    /// Name of a library without its version.
    stem: &'a str,
    /// Version after `.so.`; `None` if it is before `.so`.
    version: Option<&'a str>,
}

impl<'a> Spelling<'a> {
    fn of(label: &'a str) -> Self {
        let label = label.strip_suffix(" (deleted)").unwrap_or(label);
        let file_name = Self { kind: By::FileName, stem: label, version: Some("") };
        let Some((name, behind)) = label.split_once(".so") else { return file_name };
        let version = match behind.strip_prefix('.') {
            Some(version) => version,
            None if behind.is_empty() => "",
            None => return file_name,
        };
        let begins_with_digit = |tail: &str| tail.starts_with(|c: char| c.is_ascii_digit());
        match name.rsplit_once('-').filter(|(_, tail)| begins_with_digit(tail)) {
            Some((stem, _)) if version.is_empty() => Self { kind: By::SharedObject, stem, version: None },
            _ => Self { kind: By::SharedObject, stem: name, version: Some(version) },
        }
    }

    fn agrees(&self, other: &Self) -> bool {
        let (Some(one), Some(other)) = (self.version, other.version) else { return true };
        one.is_empty() || other.is_empty() || one.split('.').zip(other.split('.')).all(|(a, b)| a == b)
    }
}
