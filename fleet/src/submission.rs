// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Submission`]: a received profile, validated by the profile reader and converted to shares.

use crate::day::Day;
use crate::errors::damaged;
use sediment_core::profile::merge::into_shares;
use sediment_core::profile::rows::{ProfileRow, RowKind, rows};
use sediment_core::profile::{FunctionIndex, Profile, SHARE_TOTAL, text};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashMap};

/// Numbers of a submission are below this limit, so they fit 18 decimal digits. Sums of fewer than 10^10 numbers fit the engines' 28 digits.
pub(crate) const LARGEST_NUMBER: u128 = 1_000_000_000_000_000_000;

/// Maximum length of the name of a package, version, host class, recorder or architecture, in bytes.
pub(crate) const LONGEST_WORD: usize = 120;
/// Maximum number of recordings in one submission.
pub(crate) const MOST_INPUTS: u128 = 1_000_000_000;
/// Maximum number of rows in one submission: functions, calls, affinities and blocks together.
pub(crate) const MOST_ROWS: usize = 4_000_000;
/// Maximum size of a function, in bytes.
const LARGEST_FUNCTION: u64 = 1 << 30;
/// Maximum number of shares that rounding adds to one number of a merged profile.
const MOST_ROUNDED: u128 = 1000;

/// Submitter and day of a profile. The profile itself does not contain them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Opaque key of the submitter, for caps: 16 hexadecimal digits.
    pub submitter: String,
    /// Host class, named by the site.
    pub host_class: String,
    /// Day of receipt.
    pub day: Day,
}

/// A valid profile, in shares.
#[derive(Debug)]
pub struct Submission {
    /// The profile after a merge of this profile alone.
    pub(crate) profile: Profile,
    pub(crate) rows: Vec<ProfileRow>,
    /// Name of the package with most functions.
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) sums: Sums,
    /// True if the profile had counters of instrumentation, which a dataset does not store.
    pub(crate) had_counters: bool,
}

/// Sums of a submission's counts, independent of the totals that it claims. A policy in which submitters count alike divides by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sums {
    pub(crate) calls: u128,
    pub(crate) near: u128,
    /// Samples of functions.
    pub(crate) samples: u128,
    /// Counts of blocks: their claimed total. The checks of a submission limit it by the counts.
    pub(crate) blocks: u128,
}

impl Sums {
    /// Sums the rows.
    fn of(rows: &[ProfileRow]) -> Self {
        let mut sums = Self::default();
        for row in rows {
            let sum = match row.kind {
                RowKind::Call => &mut sums.calls,
                RowKind::Near => &mut sums.near,
                RowKind::Function => &mut sums.samples,
                RowKind::BlocksTotal => &mut sums.blocks,
                _ => continue,
            };
            // Cannot overflow: the checks of a submission allow fewer than 2^23 numbers, each below 2^104.
            *sum = sum.saturating_add(row.weight.unwrap_or(0));
        }
        sums
    }

    /// Adds the counts of another submission.
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.near += other.near;
        self.samples += other.samples;
        self.blocks += other.blocks;
    }

    fn largest(&self) -> u128 {
        self.calls.max(self.near).max(self.samples).max(self.blocks)
    }
}

/// Name and version that the caller gives in place of the profile's.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Named {
    /// Package, in place of the profile's
    #[arg(long, value_name = "PACKAGE")]
    pub package: Option<String>,
    /// Version, in place of the profile's
    #[arg(long, value_name = "VERSION", requires = "package")]
    pub version: Option<String>,
}

impl Submission {
    /// Parses and validates a profile.
    pub fn read(bytes: impl AsRef<[u8]>, named: &Named) -> Result<Self> {
        let (profile, _skipped) = text::parse(bytes.as_ref())?;
        // The text of a large profile would take much memory beside its rows.
        drop(bytes);
        if profile.function_count() == 0 {
            return Err(Error::new(ErrorCode::EmptyProfile, "the profile has no function"));
        }
        let had_counters = profile.counters_total > 0;
        let profile = into_shares(profile)?;
        let rows = rows(&profile);
        let (package, version) = match (&named.package, &named.version) {
            (Some(package), Some(version)) => (package.clone(), version.clone()),
            (package, version) => {
                let (found, its_version) = package_of(&profile, &rows)?;
                (package.clone().unwrap_or(found), version.clone().unwrap_or(its_version))
            }
        };
        for word in [&package, &version] {
            if word.is_empty() || word.len() > LONGEST_WORD {
                return Err(damaged(format!(
                    "the package's name or version is empty, or longer than {LONGEST_WORD} bytes"
                )));
            }
        }
        check_names(&profile, &rows)?;
        check_claims(&profile, &rows)?;
        let sums = Sums::of(&rows);
        let beyond = rows.iter().any(|row| row.weight.is_some_and(|weight| weight >= LARGEST_NUMBER));
        let beyond = beyond || sums.largest() >= LARGEST_NUMBER;
        if beyond || rows.iter().any(|row| row.first.is_some_and(|first| i64::try_from(first).is_err())) {
            return Err(Error::new(
                ErrorCode::TooLarge,
                "a number of the profile, in shares, is 10^18 or more",
            )
            .with_hint("send recordings one by one; fewer than a thousand merged ones fit"));
        }
        Ok(Self { profile, rows, package, version, sums, had_counters })
    }
}

/// The functions of a profile: each has one row of this kind.
fn functions(rows: &[ProfileRow]) -> impl Iterator<Item = FunctionIndex> {
    rows.iter().filter(|row| row.kind == RowKind::Function).filter_map(|row| row.function)
}

/// Rejects sizes and recorder names that cannot be real. The reader already leaves out long names of functions and libraries.
fn check_names(profile: &Profile, rows: &[ProfileRow]) -> Result<()> {
    let sizes = functions(rows).filter_map(|function| profile.facts(function).size);
    if sizes.max().is_some_and(|size| size > LARGEST_FUNCTION) {
        return Err(damaged("a function is larger than 1 GiB"));
    }
    if profile.source.iter().chain(&profile.arch).any(|word| word.len() > LONGEST_WORD) {
        return Err(damaged(format!(
            "the name of a recorder or architecture is longer than {LONGEST_WORD} bytes"
        )));
    }
    Ok(())
}

/// Rejects claims that contradict the counts. The rows are in shares.
fn check_claims(profile: &Profile, rows: &[ProfileRow]) -> Result<()> {
    if rows.len() > MOST_ROWS {
        return Err(damaged(format!(
            "{} functions, calls and blocks; a submission has at most {MOST_ROWS}",
            rows.len()
        )));
    }
    let inputs = u128::from(profile.inputs.unwrap_or(1));
    if inputs > MOST_INPUTS {
        return Err(damaged(format!("inputs={inputs}; a submission is of at most {MOST_INPUTS} recordings"))
            .with_hint("send recordings one by one"));
    }
    // Each number was rounded once for each recording, and is at least 1.
    let rounded = inputs.clamp(1, MOST_ROUNDED);
    for (kind, total, what) in [
        (RowKind::Call, profile.total, "counts of calls add up to more than total"),
        (RowKind::Block, profile.blocks_total, "counts of blocks add up to more than blocks_total"),
    ] {
        let counted = rows.iter().filter(|row| row.kind == kind).filter_map(|row| row.weight);
        let (number, sum) =
            counted.fold((0u128, 0u128), |(number, sum), count| (number + 1, sum.saturating_add(count)));
        if sum > total.saturating_add(number * rounded) {
            let hundredths = sum.saturating_mul(100).checked_div(total).unwrap_or(u128::MAX);
            return Err(damaged(format!("{what} says: {}.{:02} times", hundredths / 100, hundredths % 100))
                .with_hint("the total must include everything that was counted; the recorder is broken"));
        }
    }
    // Submissions of many recordings must contain their number, because caps and coverage count by it.
    if profile.total > inputs.saturating_mul(SHARE_TOTAL).saturating_mul(MOST_ROUNDED) {
        return Err(damaged("the total belongs to more recordings than `inputs` contains"));
    }
    Ok(())
}

/// Name and version of the package with most functions; if several have equally many, the first.
fn package_of(profile: &Profile, rows: &[ProfileRow]) -> Result<(String, String)> {
    let mut of_labels: HashMap<&str, usize> = HashMap::new();
    for label in functions(rows).filter_map(|function| profile.key(function).dso.as_deref()) {
        *of_labels.entry(label).or_default() += 1;
    }
    let mut of_packages: BTreeMap<&str, usize> = BTreeMap::new();
    for (label, count) in of_labels {
        if let Some(package) = profile.dsos().get(label).and_then(|dso| dso.package.as_deref()) {
            *of_packages.entry(package).or_default() += count;
        }
    }
    let most = of_packages.iter().max_by_key(|(package, count)| (**count, std::cmp::Reverse(**package)));
    let (package, _) = most.ok_or_else(|| {
        Error::new(ErrorCode::NotInProfile, "the profile names no package")
            .with_hint("`sediment collect` writes profiles that do; else give --package and --version")
    })?;
    Ok(split_package(package))
}

/// Name and version from `NAME-VERSION-RELEASE` or `NAME-VERSION`.
fn split_package(package: &str) -> (String, String) {
    let is_number = |part: &str| part.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    let parts: Vec<(usize, &str)> =
        package.match_indices('-').map(|(at, _)| (at, &package[at + 1..])).collect();
    let last = |back: usize| parts.len().checked_sub(back).and_then(|at| parts.get(at));
    let cut = match (last(1), last(2)) {
        (Some((_, one)), Some((at, two))) if is_number(one) && is_number(two) && *at > 0 => Some(*at),
        (Some((at, _)), _) if *at > 0 => Some(*at),
        _ => None,
    };
    match cut {
        Some(at) => (package[..at].to_owned(), package[at + 1..].to_owned()),
        None => (package.to_owned(), "unknown".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_split_into_name_and_version() {
        for (package, name, version) in [
            ("postgresql-server-16.3-3.fc41", "postgresql-server", "16.3-3.fc41"),
            ("libsqlite3-0-3.40.1-2+deb12u1", "libsqlite3-0", "3.40.1-2+deb12u1"),
            ("apt-2.6.1", "apt", "2.6.1"),
            ("lua5.4-5.4.4-3+deb12u1", "lua5.4", "5.4.4-3+deb12u1"),
            ("plain", "plain", "unknown"),
            ("-1-2", "-1", "2"),
        ] {
            assert_eq!(split_package(package), (name.to_owned(), version.to_owned()));
        }
    }

    #[test]
    fn claims_that_contradict_the_counts_are_refused_with_a_reason() {
        let named = Named { package: Some("p".to_owned()), version: Some("1".to_owned()) };
        let said = |text: &str| {
            Submission::read(text.as_bytes(), &named).map(drop).map_err(|error| error.to_string())
        };
        let of = |graph: &str, edges: &str| format!("digraph {{ graph [sediment=3, {graph}]; {edges} }}");
        let of_calls = of("unit=calls, total=1", "a -> b [count=999];");
        assert!(said(&of_calls).unwrap_err().contains("more than total says: 999.00 times"));
        let many = of("unit=calls, total=1, inputs=1000000001", "a -> b [count=1];");
        assert!(said(&many).unwrap_err().contains("at most 1000000000 recordings"));
        let huge = of("unit=calls, total=1", "a [size=9999999999]; a -> b [count=1];");
        assert!(said(&huge).unwrap_err().contains("larger than 1 GiB"));
        let long = of("unit=calls, total=1", &format!("\"{}\" -> b [count=1];", "x".repeat(5000)));
        assert_eq!(said(&long), Ok(()), "the reader leaves it out");
        let of_blocks =
            of("unit=calls, total=1, blocks_total=3", "a [blocks=\"8f3a90c1:1=2 2=2\"]; a -> b [count=1];");
        assert!(said(&of_blocks).unwrap_err().contains("more than blocks_total says"));
        // The total includes calls into other files.
        assert_eq!(said(&of("unit=calls, total=100", "a -> b [count=1];")), Ok(()));
        // Tolerance for rounding in merged recordings.
        assert_eq!(said(&of("unit=share, total=3, inputs=2", "a -> b [count=2]; a -> c [count=2];")), Ok(()));
    }

    #[test]
    fn profiles_without_package_or_beyond_the_numbers_are_refused() {
        let of = |graph: &str| format!("digraph {{ graph [sediment=2, {graph}]; a -> b [count=1]; }}");
        let named = Named { package: Some("p".to_owned()), version: Some("1".to_owned()) };
        let read = |text: String, named: &Named| {
            Submission::read(text.as_bytes(), named).map_err(|error| error.code())
        };
        assert_eq!(read(of("unit=calls, total=1"), &Named::default()).err(), Some(ErrorCode::NotInProfile));
        assert!(read(of("unit=calls, total=1"), &named).is_ok());
        let large = of("unit=share, total=1000000000000000000");
        assert_eq!(read(large, &named).err(), Some(ErrorCode::TooLarge));
        assert_eq!(read("digraph {".to_owned(), &named).err(), Some(ErrorCode::Damaged));
    }
}
