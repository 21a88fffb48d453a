// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gaps of a profile: data that its sources could not record, and interpreters that it profiled.

use super::Profile;
use super::source::{ProfileSource, Unknown};
use std::collections::BTreeMap;

/// Kinds of data that a source lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotKnown {
    /// The source, without the list of data that it lacks; `None` for the profile as a whole.
    pub source: Option<String>,
    /// Kinds of data that are missing.
    pub what: Vec<Unknown>,
}

/// Returns the gaps of a profile in the order of [`Unknown::ALL`]: gaps that its sources state, and gaps found in its
/// data.
///
/// A profile with one source has at most one entry for both. A profile with several sources has an entry for each
/// source that lacks something, and one for the data that the whole profile lacks.
#[must_use]
pub fn not_known(profile: &Profile) -> Vec<NotKnown> {
    let absent = absent(profile);
    let mut all: Vec<NotKnown> = Vec::new();
    for source in &profile.source {
        let mut source = ProfileSource::from(source.as_str());
        let mut what = std::mem::take(&mut source.unknown);
        what.extend(if profile.source.len() == 1 { absent.as_slice() } else { &[] });
        all.push(NotKnown { source: Some(source.to_string()), what });
    }
    if profile.source.len() != 1 {
        all.push(NotKnown { source: None, what: absent });
    }
    for entry in &mut all {
        entry.what.sort_unstable();
        entry.what.dedup();
    }
    all.retain(|entry| !entry.what.is_empty());
    all
}

/// Kinds of data that are absent from all functions and edges of a profile.
fn absent(profile: &Profile) -> Vec<Unknown> {
    let functions = profile.functions();
    let of_functions = |has: &dyn Fn(&super::FunctionFacts) -> bool| {
        functions.iter().any(|function| has(profile.facts(*function)))
    };
    let edges = profile.edges();
    let affinity = edges.iter().any(|(_, _, facts)| facts.affinity.is_some());
    [
        (Unknown::CallCounts, edges.iter().any(|(_, _, facts)| facts.count.is_some())),
        (Unknown::TimeOrder, affinity || of_functions(&|facts| facts.first.is_some())),
        (Unknown::Sizes, of_functions(&|facts| facts.size.is_some())),
        (Unknown::OwnCost, of_functions(&|facts| facts.samples.is_some())),
    ]
    .into_iter()
    .filter_map(|(unknown, known)| (!known).then_some(unknown))
    .collect()
}

/// A program that runs programs in another language, and its share of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// Label of its heaviest DSO.
    pub label: String,
    /// Language that it interprets, or `emulated`.
    pub runs: &'static str,
    /// Its own cost, or the calls into it if there is no cost; and the total.
    pub weight: (u128, u128),
}

/// Programs and libraries that run other programs, by the part of the name before their version, and the language that
/// they run.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("Erlang", &["beam", "beam.smp"]),
    ("Guile", &["guile", "libguile"]),
    ("Java", &["java", "libjvm", "libj9vm"]),
    ("JavaScript", &["node", "nodejs", "libnode", "d8", "deno", "bun", "qjs", "libmozjs", "gjs", "libv8"]),
    ("Julia", &["julia", "libjulia", "libjulia-internal"]),
    ("Lua", &["lua", "liblua", "luajit", "libluajit"]),
    (".NET", &["mono", "mono-sgen", "libmono", "libmonosgen", "dotnet", "libcoreclr"]),
    ("Octave", &["octave-cli", "octave-gui", "liboctinterp"]),
    ("Perl", &["perl", "libperl"]),
    ("PHP", &["php", "php-fpm", "php-cgi", "libphp"]),
    ("Python", &["python", "libpython", "pypy", "libpypy"]),
    ("R", &["R", "libR"]),
    ("Ruby", &["ruby", "libruby"]),
    ("shell", &["bash", "dash", "sh", "ksh", "mksh", "zsh", "fish", "busybox"]),
    ("Tcl", &["tclsh", "libtcl", "wish"]),
    ("awk", &["gawk", "mawk", "awk"]),
    (
        "emulated",
        &[
            "qemu-system-x86_64",
            "qemu-system-aarch64",
            "qemu-x86_64",
            "qemu-aarch64",
            "qemu-arm",
            "qemu-i386",
            "qemu-riscv64",
            "qemu-ppc64le",
            "qemu-s390x",
            "box64",
        ],
    ),
];

/// Returns the interpreter that makes up more than half of a profile, by own cost or, if there is none, by calls.
#[must_use]
pub fn interpreter(profile: &Profile) -> Option<Interpreter> {
    let mut by_label: BTreeMap<&str, u128> = BTreeMap::new();
    let mut all: u128 = 0;
    let functions = profile.functions();
    let has_cost = functions.iter().any(|function| profile.facts(*function).samples.is_some());
    let mut add = |function, weight: u128| {
        all = all.saturating_add(weight);
        if let Some(label) = &profile.key(function).dso {
            let sum = by_label.entry(label).or_default();
            *sum = sum.saturating_add(weight);
        }
    };
    if has_cost {
        functions.iter().for_each(|function| add(*function, profile.facts(*function).samples.unwrap_or(0)));
    } else {
        profile.edges().iter().for_each(|(_, callee, facts)| add(*callee, facts.count.unwrap_or(0)));
    }
    let of = |stems: &[&str]| {
        let labels = by_label.iter().filter(|(label, _)| stems.iter().any(|stem| is_version_of(label, stem)));
        let labels: Vec<(&str, u128)> = labels.map(|(label, weight)| (*label, *weight)).collect();
        let weight = labels.iter().fold(0u128, |sum, (_, weight)| sum.saturating_add(*weight));
        let heaviest = labels.iter().rev().max_by_key(|(_, weight)| *weight)?.0;
        Some((heaviest.to_owned(), weight))
    };
    INTERPRETERS.iter().find_map(|(runs, stems)| {
        let (label, weight) = of(stems)?;
        (weight > all / 2).then_some(Interpreter { label, runs, weight: (weight, all) })
    })
}

/// True if a label is a stem, optionally with a version or the extension of a library.
fn is_version_of(label: &str, stem: &str) -> bool {
    let Some(rest) = label.strip_prefix(stem) else { return false };
    let digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    rest.is_empty()
        || digit(rest)
        || rest.starts_with(".so")
        || rest == "-static"
        || rest.strip_prefix(['-', '.', '_']).is_some_and(digit)
}
