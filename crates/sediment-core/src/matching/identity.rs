// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the cluster of a profile that belongs to a binary, or to a file that is about to be linked.
//!
//! A cluster's label is the soname if the recording machine had the file, otherwise the base name. The file to match
//! may have another version or another name, may be a debug file without a soname, or may be in a build folder under a
//! name that differs from its installed name. The rules are tried from the most reliable to the least reliable.

use crate::binary::Binary;
use crate::profile::Profile;
use std::collections::HashSet;

/// Rule by which a DSO of a profile was matched to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchRule {
    /// The cluster was recorded from exactly this file.
    BuildId,
    /// Its label is the file's soname.
    Soname,
    /// Its label is the base name of the file, or the name from which libtool or cargo derived the base name.
    FileName,
    /// Without version, architecture and ABI, its label is the soname or the base name, and no other cluster matches as
    /// closely.
    NameWithoutVersion,
    /// The user's map has the file.
    Map,
    /// It is the only cluster for which the file defines at least 60 % of the functions.
    Functions,
}

impl MatchRule {
    /// The rule in a few words for a log: "by its …".
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::BuildId => "build-id",
            Self::Soname => "soname",
            Self::FileName => "file name",
            Self::NameWithoutVersion => "name without version",
            Self::Map => "line in the map",
            Self::Functions => "functions",
        }
    }
}

/// The cluster of a profile that belongs to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Its label.
    pub label: String,
    /// Rule that matched it.
    pub rule: MatchRule,
}

/// Smallest share of a cluster's functions that the file must define, in percent.
const LEAST_SHARE: usize = 60;

/// Functions of every program, which do not distinguish any two.
const EVERYWHERE: [&str; 4] = ["main", "_start", "_init", "_fini"];

/// Finds the cluster of a binary; `file_name` is the base name of its file. `None`: the profile is of other programs,
/// which [`Profile::dsos`] lists.
#[must_use]
pub fn dso_of(profile: &Profile, binary: &Binary, file_name: &str) -> Option<Match> {
    let clusters = profile.dsos();
    let same_build = |id: &String| clusters.iter().find(|(_, cluster)| cluster.build_id.as_ref() == Some(id));
    if let Some((label, _)) = binary.build_id.as_ref().and_then(same_build) {
        return Some(Match { label: label.clone(), rule: MatchRule::BuildId });
    }
    let labels: Vec<&str> = clusters.keys().map(String::as_str).collect();
    by_name(binary.soname.as_deref(), file_name, &labels).or_else(|| {
        let defined = binary.functions.iter().map(|function| function.name.as_str()).collect();
        let label = only(dsos_defined_by(profile, &defined).into_iter())?;
        Some(Match { label: label.to_owned(), rule: MatchRule::Functions })
    })
}

/// Finds the label of a file by its names only: its soname, its base name, and both without version, architecture and
/// ABI.
#[must_use]
pub fn by_name(soname: Option<&str>, file_name: &str, labels: &[&str]) -> Option<Match> {
    let found = |label: &str, rule| Some(Match { label: label.to_owned(), rule });
    if let Some(soname) = soname.filter(|soname| labels.contains(soname)) {
        return found(soname, MatchRule::Soname);
    }
    let installed = installed_name(file_name);
    if let Some(name) = [file_name, installed].into_iter().find(|name| labels.contains(name)) {
        return found(name, MatchRule::FileName);
    }
    let of_crate =
        |label: &&&str| named_by_cargo(file_name).is_some_and(|name| label.replace('-', "_") == name);
    if let Some(label) = only(labels.iter().filter(of_crate)) {
        return found(label, MatchRule::FileName);
    }
    // The label with the longest common name wins; if two have it, neither does.
    let ours: Vec<Stems> = soname.into_iter().chain([installed]).map(Stems::of).collect();
    let mut best: Option<(usize, Vec<&str>)> = None;
    for label in labels {
        let theirs = Stems::of(label);
        let Some(length) = ours.iter().filter_map(|ours| ours.longest_in_common(&theirs)).max() else {
            continue;
        };
        match &mut best {
            Some((longest, equal)) if *longest == length => equal.push(label),
            Some((longest, _)) if *longest > length => {}
            _ => best = Some((length, vec![label])),
        }
    }
    found(only(best?.1.into_iter())?, MatchRule::NameWithoutVersion)
}

/// Finds the label that the user's map gives to a file, by its soname, its file name, or its file name after
/// installation.
#[must_use]
pub fn by_map<'a>(soname: Option<&str>, file_name: &str, map: &'a [(String, String)]) -> Option<&'a str> {
    let names = soname.into_iter().chain([file_name, installed_name(file_name)]);
    let mut lines = names.filter_map(|name| map.iter().find(|(file, _)| file == name));
    lines.next().map(|(_, label)| label.as_str())
}

/// Reads a map with a line for each file: its name and the label of its cluster, separated by blanks or a tab. Names
/// with blanks need the tab. Lines that begin with `#` are comments. The second value is the number of lines without
/// two names.
#[must_use]
pub fn read_map(text: &str) -> (Vec<(String, String)>, usize) {
    let mut map = Vec::new();
    let mut wrong = 0;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once('\t').or_else(|| line.split_once(' ')) {
            Some((file, label)) => map.push((file.trim().to_owned(), label.trim().to_owned())),
            None => wrong += 1,
        }
    }
    (map, wrong)
}

/// True if a file that defines these functions can be the DSO of a profile: it defines at least 60 % of the DSO's
/// functions, not counting functions of every program.
#[must_use]
pub fn defines_enough<'a>(functions: impl Iterator<Item = &'a str>, defined: &HashSet<&str>) -> bool {
    let (mut all, mut there) = (0, 0);
    for name in functions.filter(|name| !EVERYWHERE.contains(name)) {
        all += 1;
        there += usize::from(defined.contains(name));
    }
    there > 0 && there * 100 >= all * LEAST_SHARE
}

/// Returns the item of an iterator that has exactly one.
pub fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

/// Returns the base name that a file of a build folder will have after installation, if libtool gave it another:
/// programs that run from the build folder are `lt-NAME`; libraries are linked again as `NAMET` for installation, and
/// kept as `NAMEU` meanwhile.
fn installed_name(file_name: &str) -> &str {
    let relinked = |name: &&str| is_library(name) && name.bytes().last().is_some_and(|b| b != b'.');
    if let Some(name) = file_name.strip_suffix(['T', 'U']).filter(relinked) {
        return name;
    }
    file_name.strip_prefix("lt-").filter(|name| !name.is_empty()).unwrap_or(file_name)
}

/// Returns the name of a crate, in which dashes are underscores, from a file name with cargo's hash: programs have such
/// names in `target/…/deps`, and their own names as links.
fn named_by_cargo(file_name: &str) -> Option<&str> {
    const DIGITS: usize = 16;
    let stem = file_name.strip_suffix(".so").unwrap_or(file_name);
    let (name, hash) = stem.rsplit_once('-')?;
    let is_hash = hash.len() == DIGITS && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    (is_hash && !name.is_empty()).then_some(name)
}

/// Returns the name of a shared library before `.so`, `.so.5` or `.so-5`.
fn library_stem(name: &str) -> Option<&str> {
    let at = name.find(".so").filter(|at| *at > 0)?;
    matches!(name.as_bytes().get(at + 3), None | Some(b'.' | b'-')).then(|| &name[..at])
}

fn is_library(name: &str) -> bool {
    library_stem(name).is_some()
}

/// A name, and its remainders without parts of the version: `python3.11`, `python3`, `python`.
struct Stems {
    library: bool,
    names: Vec<String>,
}

impl Stems {
    fn of(name: &str) -> Self {
        let name = name.strip_suffix(".debug").unwrap_or(name);
        let library = library_stem(name);
        let mut stem = without_abi(without_architecture(library.unwrap_or(name))).to_owned();
        // A release in the middle: `libbfd-2.40-system`.
        let parts: Vec<&str> = stem.split('-').collect();
        if let [first, middle @ .., last] = parts.as_slice() {
            let is_release = |part: &&&str| part.contains('.') && is_version(part);
            if middle.iter().any(|part| is_release(&part)) {
                let kept = middle.iter().filter(|part| !is_release(part)).chain([last]);
                stem = kept.fold((*first).to_owned(), |name, part| name + "-" + part);
            }
        }
        let mut names = vec![stem];
        let mut dotted = false;
        while let Some(shorter) = names.last().and_then(|name| without_last_number(name, dotted)) {
            dotted = dotted || names.last().is_some_and(|name| name[shorter.len()..].starts_with('.'));
            let shorter = shorter.to_owned();
            names.push(shorter);
        }
        Self { library: library.is_some(), names }
    }

    /// Length of the longest common name.
    fn longest_in_common(&self, other: &Self) -> Option<usize> {
        let shared = self.names.iter().find(|name| other.names.contains(name))?;
        (self.library == other.library).then_some(shared.len())
    }
}

/// True for digits with dots in between.
fn is_version(text: &str) -> bool {
    text.split('.').all(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns a name without the number at its end. Digits after a letter count as a number only if they were followed by
/// a dotted number (`python3` of `python3.11`); otherwise they belong to the name (`bzip2`).
fn without_last_number(name: &str, dotted: bool) -> Option<&str> {
    // `python3.7m`: letters for the build configuration of Python.
    let plain = name.trim_end_matches(['d', 'm', 'u', 't']);
    let end = |name: &str| name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (name, begin) = match end(plain) {
        begin if plain.len() < name.len() && plain[..begin].ends_with('.') => (plain, begin),
        _ => (name, end(name)),
    };
    let (before, number) = name.split_at(begin);
    let shorter = match before.strip_suffix(['-', '.', '_']) {
        Some(shorter) if !number.is_empty() => shorter,
        None if dotted && !number.is_empty() => before,
        _ => return None,
    };
    (!shorter.is_empty()).then_some(shorter)
}

/// Returns a name without the architecture that multiarch systems add: `x86_64-linux-gnu-gcc-12`,
/// `libx-x86_64-linux-gnu`.
fn without_architecture(name: &str) -> &str {
    const ARCHITECTURES: [&str; 18] = [
        "x86_64",
        "i386",
        "i486",
        "i586",
        "i686",
        "aarch64",
        "arm",
        "armv7hl",
        "armv7l",
        "s390x",
        "riscv64",
        "powerpc64le",
        "powerpc64",
        "powerpc",
        "ppc64le",
        "loongarch64",
        "mips64el",
        "sparc64",
    ];
    fn after_system(text: &str) -> Option<&str> {
        let at = text.find("-linux")?;
        let arch = text[..at].split('-').next()?;
        let rest = ARCHITECTURES.contains(&arch).then(|| &text[at + "-linux".len()..])?;
        let abi = rest.strip_prefix("-gnu").or_else(|| rest.strip_prefix("-musl"));
        Some(abi.map_or(rest, |abi| abi.trim_start_matches(|c: char| c.is_ascii_alphanumeric())))
    }
    if let Some(rest) = after_system(name).and_then(|rest| rest.strip_prefix('-')) {
        return if rest.is_empty() { name } else { rest };
    }
    for (at, _) in name.match_indices(['-', '.']).filter(|(at, _)| *at > 0) {
        if after_system(&name[at + 1..]) == Some("") {
            return &name[..at];
        }
    }
    name
}

/// Returns the name of an interpreter's module without the ABI: `_ssl.cpython-311`, `_x.abi3`, `_y.pypy39-pp73`.
fn without_abi(name: &str) -> &str {
    let end = [".cpython-", ".pypy", ".graalpy"].into_iter().filter_map(|mark| name.find(mark)).min();
    let name = end.filter(|end| *end > 0).map_or(name, |end| &name[..end]);
    name.strip_suffix(".abi3").filter(|name| !name.is_empty()).unwrap_or(name)
}

fn dsos_defined_by<'a>(profile: &'a Profile, defined: &HashSet<&str>) -> Vec<&'a str> {
    let mut reached = Vec::new();
    // Functions are sorted by their DSO first.
    for cluster in profile.functions().chunk_by(|a, b| profile.key(*a).dso == profile.key(*b).dso) {
        let Some(label) = cluster.first().and_then(|function| profile.key(*function).dso.as_deref()) else {
            continue;
        };
        let names = cluster.iter().map(|function| profile.key(*function).name.as_str());
        if defines_enough(names, defined) {
            reached.push(label);
        }
    }
    reached
}
