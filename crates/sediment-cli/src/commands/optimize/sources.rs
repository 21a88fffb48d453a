// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a tree that is built in place which the build did not make: a run that continues after one of them changed would measure
//! a program that is no longer that of the sources.

use super::tree::{Files, Stamp};
use crate::files;
use sediment::Result;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Largest list that is read.
const LARGEST: u64 = 1 << 30;
/// Endings of files that a build may find without being told of them. A new file of another kind may come from a training command.
const LANGUAGES: &[&str] = &[
    "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "inc", "inl", "s", "S", "rs", "d", "f", "f90", "m",
    "mm", "zig", "adb", "ads",
];

/// Stamp of a file that the build made.
const MADE: Stamp = (u64::MAX, 0);

/// The files of a tree after a build. Those that it made have no stamps of their own, nor have objects, archives and linked files.
pub(super) fn after_build(before: &Files, after: &Files) -> Files {
    let is_made = |path: &Path| {
        path.extension().is_some_and(|ending| ending == "a")
            || files::elf_type(path).is_some_and(|kind| kind <= 3)
    };
    let of = |(path, stamp): (&PathBuf, &Stamp)| {
        let is_same = before.get(path) == Some(stamp) && !is_made(path);
        (path.clone(), if is_same { *stamp } else { MADE })
    };
    after.iter().map(of).collect()
}

/// Writes a list of files.
pub(super) fn save(files: &Files, list: &Path) -> Result<()> {
    let mut text = Vec::new();
    for (path, (size, modified)) in files {
        text.extend_from_slice(format!("{size} {modified} ").as_bytes());
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(0);
    }
    crate::files::write_owned(list, &text)
}

/// The first file that was changed or removed since a list was written, or a source that was added; None where there is no list.
pub(super) fn first_change(list: &Path, now: &Files) -> Option<PathBuf> {
    let before = parse(&crate::files::read_at_most(list, LARGEST).ok()?);
    let is_changed = |(path, stamp): &(&PathBuf, &Stamp)| **stamp != MADE && now.get(*path) != Some(*stamp);
    let is_source =
        |path: &Path| path.extension().is_some_and(|ending| LANGUAGES.iter().any(|known| ending == *known));
    let is_added = |path: &&PathBuf| is_source(path) && !before.contains_key(*path);
    let changed = before.iter().find(is_changed).map(|(path, _)| path);
    changed.or_else(|| now.keys().find(is_added)).cloned()
}

fn parse(text: &[u8]) -> Files {
    let rows = text.split(|byte| *byte == 0).filter_map(|row| {
        let mut parts = row.splitn(3, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u128>().ok();
        let stamp = (u64::try_from(number()?).ok()?, number()?);
        Some((PathBuf::from(OsString::from_vec(parts.next()?.to_vec())), stamp))
    });
    rows.collect()
}
