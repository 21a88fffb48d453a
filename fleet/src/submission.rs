// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Submission`]: a profile that somebody sent, validated by the reader of profiles and brought to shares.

use crate::day::Day;
use sediment_core::profile::merge::into_shares;
use sediment_core::profile::rows::{Row, rows};
use sediment_core::profile::{Profile, text};
use sediment_core::{Error, ErrorCode, Result};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// Numbers of a submission lie below this: they fit 18 decimal digits. Sums of fewer than 10^10 fit the engines' 28.
pub const LARGEST_NUMBER: u128 = 1_000_000_000_000_000_000;

/// The longest name of a package, version or host class, in bytes.
pub const LONGEST_WORD: usize = 120;

/// Who sent a profile, and when. None of it stands in the profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Opaque key of the submitter, for caps: 16 hexadecimal digits.
    pub submitter: String,
    /// Class of the host, as the site names it.
    pub host_class: String,
    /// Day of receipt.
    pub day: Day,
}

/// A valid profile, in shares.
#[derive(Debug)]
pub struct Submission {
    /// The profile as merging alone makes it.
    pub profile: Profile,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Name of the package that most of its functions are of.
    pub package: String,
    /// That package's version.
    pub version: String,
    /// True if it had counters of instrumentation, which a dataset does not keep.
    pub had_counters: bool,
}

/// Name and version that a caller knows better than the profile.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// Name of the package.
    pub package: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

impl Submission {
    /// Reads and validates a profile.
    ///
    /// # Errors
    /// Those of the profile's reader; when it has no function, names no package, or holds numbers beyond [`LARGEST_NUMBER`].
    pub fn read(bytes: &[u8], named: &Named) -> Result<Self> {
        let (profile, _skipped) = text::parse(bytes)?;
        if profile.function_count() == 0 {
            return Err(Error::new(ErrorCode::EmptyProfile, "the profile has no function"));
        }
        let (package, version) = match (&named.package, &named.version) {
            (Some(package), Some(version)) => (package.clone(), version.clone()),
            (package, version) => {
                let (found, its_version) = package_of(&profile)?;
                (package.clone().unwrap_or(found), version.clone().unwrap_or(its_version))
            }
        };
        for word in [&package, &version] {
            if word.is_empty() || word.len() > LONGEST_WORD {
                return Err(Error::new(
                    ErrorCode::Damaged,
                    "the package's name or version is empty or too long",
                ));
            }
        }
        let had_counters = profile.counters_total > 0;
        let profile = into_shares(profile)?;
        let rows = rows(&profile);
        let beyond = rows.iter().any(|row| row.weight.is_some_and(|weight| weight >= LARGEST_NUMBER));
        if beyond || rows.iter().any(|row| row.first.is_some_and(|first| i64::try_from(first).is_err())) {
            return Err(Error::new(
                ErrorCode::TooLarge,
                "a number of the profile, in shares, is 10^18 or more",
            )
            .with_hint("send recordings one by one; fewer than a thousand merged ones fit"));
        }
        Ok(Self { profile, rows, package, version, had_counters })
    }
}

/// Name and version of the package of most functions; of equals the first.
fn package_of(profile: &Profile) -> Result<(String, String)> {
    let mut functions: BTreeMap<&str, usize> = BTreeMap::new();
    for function in profile.functions() {
        let dso = profile.key(function).dso.as_ref().and_then(|label| profile.dsos().get(label));
        if let Some(package) = dso.and_then(|dso| dso.package.as_deref()) {
            *functions.entry(package).or_default() += 1;
        }
    }
    let most = functions.iter().max_by_key(|(package, count)| (**count, std::cmp::Reverse(**package)));
    let (package, _) = most.ok_or_else(|| {
        Error::new(ErrorCode::NotInProfile, "the profile names no package")
            .with_hint("`sediment collect` writes profiles that do; else give --package and --version")
    })?;
    Ok(split_package(package))
}

/// Name and version of `NAME-VERSION-RELEASE`, or of `NAME-VERSION`.
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

/// Identity of a submission: the same bytes of the same submitter are one.
#[must_use]
pub fn identity(submitter: &str, bytes: &[u8]) -> u128 {
    let mut digest = Sha256::new();
    digest.update((submitter.len() as u64).to_le_bytes());
    digest.update(submitter.as_bytes());
    digest.update(bytes);
    let digest = digest.finalize();
    digest.iter().take(16).fold(0, |number, byte| (number << 8) | u128::from(*byte))
}

/// Opaque key of a submitter: of the site's salt and the name that the site gave.
#[must_use]
pub fn submitter_key(salt: &str, name: &str) -> String {
    format!("{:032x}", identity(salt, name.as_bytes())).split_off(16)
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
    fn identities_tell_submitters_apart() {
        assert_ne!(identity("a", b"bc"), identity("ab", b"c"));
        assert_eq!(submitter_key("salt", "alice").len(), 16);
        assert_ne!(submitter_key("salt", "alice"), submitter_key("pepper", "alice"));
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
