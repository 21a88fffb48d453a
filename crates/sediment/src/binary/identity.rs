// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which cluster of a profile belongs to a binary.
//!
//! A cluster's label is the soname where the recording machine had the file, else its base name; the binary at hand may be of
//! another version, under another name, or a debug file without a soname. The rules go from what cannot mislead to what may.

use super::Binary;
use crate::profile::Profile;
use std::collections::HashSet;

/// How a cluster was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The cluster was recorded from this very file.
    BuildId,
    /// Its label is the binary's soname.
    Soname,
    /// Its label is the base name of the binary's file.
    FileName,
    /// Its label is the soname or the base name but for version numbers, and no other cluster's is.
    NameWithoutVersion,
    /// It is the only cluster at least 60 % of whose functions the binary defines.
    Functions,
}

/// The cluster of a profile that belongs to a binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Its label.
    pub label: String,
    /// How it was found.
    pub rule: Rule,
}

/// The least share of a cluster's functions that the binary must define, in percent.
const LEAST_SHARE: usize = 60;

/// Functions that any program has: they tell no two apart.
const EVERYWHERE: [&str; 4] = ["main", "_start", "_init", "_fini"];

/// Finds it; `file_name` is the base name of the binary's file. None: the profile is of other programs, which
/// [`Profile::clusters`] names.
#[must_use]
pub fn cluster_of(profile: &Profile, binary: &Binary, file_name: &str) -> Option<Match> {
    let clusters = profile.clusters();
    let found = |label: &str, rule| Some(Match { label: label.to_owned(), rule });
    let same_build = |id: &String| clusters.iter().find(|(_, cluster)| cluster.build_id.as_ref() == Some(id));
    if let Some((label, _)) = binary.build_id.as_ref().and_then(same_build) {
        return found(label, Rule::BuildId);
    }
    if let Some(soname) = binary.soname.as_deref().filter(|soname| clusters.contains_key(*soname)) {
        return found(soname, Rule::Soname);
    }
    if clusters.contains_key(file_name) {
        return found(file_name, Rule::FileName);
    }
    let stems: Vec<&str> =
        binary.soname.as_deref().into_iter().chain([file_name]).map(without_version).collect();
    let alike = clusters.keys().filter(|label| stems.contains(&without_version(label)));
    if let Some(label) = only(alike) {
        return found(label, Rule::NameWithoutVersion);
    }
    let label = only(clusters_defined_by(profile, binary).into_iter())?;
    found(label, Rule::Functions)
}

/// The item of an iterator that has one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

/// `libpq.so.5.16` and `libpq-5.16.so` are `libpq`, `postgres-16` is `postgres`, `x.debug` is `x`.
fn without_version(name: &str) -> &str {
    let mut stem = name.strip_suffix(".debug").unwrap_or(name);
    let library =
        stem.find(".so").filter(|at| matches!(stem.as_bytes().get(at + 3), None | Some(b'.' | b'-')));
    if let Some(end) = library {
        stem = &stem[..end];
    }
    while let Some((before, number)) = stem.rsplit_once(['-', '.']) {
        if before.is_empty() || number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            break;
        }
        stem = before;
    }
    stem
}

fn clusters_defined_by<'a>(profile: &'a Profile, binary: &Binary) -> Vec<&'a str> {
    let defined: HashSet<&str> = binary.functions.iter().map(|function| function.name.as_str()).collect();
    let mut reached = Vec::new();
    // Functions come sorted by their DSO first.
    for cluster in profile.functions().chunk_by(|a, b| profile.key(*a).dso == profile.key(*b).dso) {
        let Some(label) = cluster.first().and_then(|function| profile.key(*function).dso.as_deref()) else {
            continue;
        };
        let names: Vec<&str> = cluster
            .iter()
            .map(|function| profile.key(*function).name.as_str())
            .filter(|name| !EVERYWHERE.contains(name))
            .collect();
        let there = names.iter().filter(|name| defined.contains(*name)).count();
        if there > 0 && there * 100 >= names.len() * LEAST_SHARE {
            reached.push(label);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::{BinaryFunction, SymbolSource};
    use crate::profile::FunctionKey;

    fn binary(soname: Option<&str>, build_id: Option<&str>, functions: &[&str]) -> Binary {
        let function = |(i, name): (usize, &&str)| BinaryFunction {
            name: (*name).to_owned(),
            address: 0x1000 + 16 * i as u64,
            size: 16,
            section: ".text".to_owned(),
            file: None,
            local: false,
            ifunc: false,
        };
        Binary {
            functions: functions.iter().enumerate().map(function).collect(),
            symbols_from: SymbolSource::SymbolTable,
            build_id: build_id.map(str::to_owned),
            soname: soname.map(str::to_owned),
            arch: None,
            segments: Vec::new(),
            code_sections: Vec::new(),
            plt_stubs: Vec::new(),
        }
    }

    fn profile(clusters: &[(&str, &[&str])]) -> Profile {
        let mut profile = Profile::default();
        for (label, names) in clusters {
            profile.cluster_mut(label);
            for name in *names {
                let key = FunctionKey::new(Some(label.as_bytes()), name.as_bytes(), None).unwrap();
                profile.function(key);
            }
        }
        profile
    }

    #[test]
    fn each_rule_finds_its_cluster() {
        type Row<'a> = (
            &'a str,
            Option<&'a str>,
            &'a str,
            &'a [&'a str],
            &'a [(&'a str, &'a [&'a str])],
            Option<(&'a str, Rule)>,
        );
        let rows: &[Row] = &[
            (
                "soname before file name",
                Some("libpq.so.5"),
                "libpq.so.5.16",
                &[],
                &[("libpq.so.5", &[]), ("libpq.so.5.16", &[])],
                Some(("libpq.so.5", Rule::Soname)),
            ),
            (
                "file name",
                None,
                "postgres",
                &[],
                &[("libc.so.6", &[]), ("postgres", &[])],
                Some(("postgres", Rule::FileName)),
            ),
            (
                "file name of a library with an unknown soname",
                Some("libx.so.2"),
                "libx.so",
                &[],
                &[("libx.so", &[])],
                Some(("libx.so", Rule::FileName)),
            ),
            (
                "another version of a library",
                Some("libpq.so.6"),
                "libpq.so.6.0",
                &[],
                &[("libpq.so.5", &[])],
                Some(("libpq.so.5", Rule::NameWithoutVersion)),
            ),
            (
                "the old way to put a version",
                None,
                "libc-2.31.so",
                &[],
                &[("libc.so.6", &[]), ("libcrypt.so.1", &[])],
                Some(("libc.so.6", Rule::NameWithoutVersion)),
            ),
            (
                "another version of a program",
                None,
                "python3.13",
                &[],
                &[("python3.11", &[])],
                Some(("python3.11", Rule::NameWithoutVersion)),
            ),
            ("digits that are no version", None, "bzip3", &[], &[("bzip2", &["a"])], None),
            (
                "a debug file",
                None,
                "postgres.debug",
                &[],
                &[("postgres", &[])],
                Some(("postgres", Rule::NameWithoutVersion)),
            ),
            (
                "two versions in one profile",
                None,
                "gcc-12",
                &["x"],
                &[("gcc-11", &["a"]), ("gcc-13", &["b"])],
                None,
            ),
            (
                "most functions",
                None,
                "a.out",
                &["a", "b", "c"],
                &[("libc.so.6", &["read"]), ("prog", &["a", "b", "c", "d", "e"])],
                Some(("prog", Rule::Functions)),
            ),
            ("too few functions", None, "a.out", &["a", "b"], &[("prog", &["a", "b", "c", "d"])], None),
            (
                "only functions that every program has",
                None,
                "a.out",
                &["main", "_start"],
                &[("prog", &["main", "_start"])],
                None,
            ),
            (
                "main and functions of its own",
                None,
                "a.out",
                &["main", "a"],
                &[("prog", &["main", "b"])],
                None,
            ),
            (
                "two clusters with the same functions",
                None,
                "a.out",
                &["a", "b"],
                &[("prog", &["a", "b"]), ("prog-new", &["a", "b"])],
                None,
            ),
            (
                "a profile of another program",
                None,
                "a.out",
                &["a"],
                &[("postgres", &["palloc", "pfree"])],
                None,
            ),
            ("an empty profile", None, "a.out", &["a"], &[], None),
            ("clusters without functions", None, "a.out", &["a"], &[("prog", &[])], None),
        ];
        for (what, soname, file_name, functions, clusters, expected) in rows {
            let found = cluster_of(&profile(clusters), &binary(*soname, None, functions), file_name);
            let expected = expected.map(|(label, rule)| Match { label: label.to_owned(), rule });
            assert_eq!(found, expected, "{what}");
        }
    }

    #[test]
    fn the_very_file_is_known_by_its_build_id() {
        let mut profile = profile(&[("a.out", &[]), ("prog", &["a"])]);
        profile.cluster_mut("prog").build_id = Some("4c0f".to_owned());
        let found = cluster_of(&profile, &binary(None, Some("4c0f"), &[]), "a.out");
        assert_eq!(found, Some(Match { label: "prog".to_owned(), rule: Rule::BuildId }));
        let other = cluster_of(&profile, &binary(None, Some("77"), &[]), "a.out");
        assert_eq!(other, Some(Match { label: "a.out".to_owned(), rule: Rule::FileName }));
    }
}
