// SPDX-License-Identifier: MIT OR Apache-2.0
//! For `--in-place`: the source files of the tree. If one of them changed, a continued run would measure an outdated program.

use super::entries;
use super::tree::{FileStamps, Stamp};
use crate::files;
use object::elf;
use sediment_core::Result;
use serde_json::{Value, json};
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
pub(super) fn after_build(before: &FileStamps, after: &FileStamps) -> FileStamps {
    let is_made = |path: &Path| {
        path.extension().is_some_and(|ending| ending == "a")
            || files::elf_type(path).is_some_and(|kind| kind <= elf::ET_DYN.0)
    };
    let of = |(path, stamp): (&PathBuf, &Stamp)| {
        let is_same = before.get(path) == Some(stamp) && !is_made(path);
        (path.clone(), if is_same { *stamp } else { MADE })
    };
    after.iter().map(of).collect()
}

/// Writes a list of files.
pub(super) fn save(files: &FileStamps, list: &Path) -> Result<()> {
    let row = |(path, (size, modified)): (&PathBuf, &Stamp)| {
        json!([entries::to_json(path), size, modified.to_string()])
    };
    let rows: Value = files.iter().map(row).collect();
    crate::files::write_owned(list, rows.to_string().as_bytes())
}

/// A change since a list of files was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SourceChange {
    Nothing,
    /// The first file that was changed or removed, or a source that was added.
    File(PathBuf),
    /// Unknown: the list cannot be read, or is damaged.
    Unknown,
}

/// Compares a list with the files that there are now.
pub(super) fn change(list: &Path, now: &FileStamps) -> SourceChange {
    let bytes = crate::files::read_at_most(list, LARGEST).unwrap_or_default();
    let Some(before) = parse(&bytes) else { return SourceChange::Unknown };
    let is_changed = |(path, stamp): &(&PathBuf, &Stamp)| **stamp != MADE && now.get(*path) != Some(*stamp);
    let is_source =
        |path: &Path| path.extension().is_some_and(|ending| LANGUAGES.iter().any(|known| ending == *known));
    let is_added = |path: &&PathBuf| is_source(path) && !before.contains_key(*path);
    let changed = before.iter().find(is_changed).map(|(path, _)| path);
    changed.or_else(|| now.keys().find(is_added)).cloned().map_or(SourceChange::Nothing, SourceChange::File)
}

/// The files of a list; None for a damaged one.
fn parse(text: &[u8]) -> Option<FileStamps> {
    let rows: Vec<Value> = serde_json::from_slice(text).ok()?;
    let row = |row: &Value| {
        Some((entries::from_json(&row[0])?, (row[1].as_u64()?, row[2].as_str()?.parse().ok()?)))
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_list_is_no_unchanged_tree() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("sources");
        let files: FileStamps = [("a.c", (3, 4)), ("b.h", (5, u128::from(u64::MAX) + 6)), ("made", MADE)]
            .map(|(path, stamp)| (PathBuf::from(path), stamp))
            .into();
        save(&files, &list).unwrap();
        assert_eq!(change(&list, &files), SourceChange::Nothing);
        let changed = |path: &str, stamp: Option<Stamp>| {
            let mut now = files.clone();
            match stamp {
                Some(stamp) => now.insert(path.into(), stamp),
                None => now.remove(Path::new(path)),
            };
            change(&list, &now)
        };
        let file = |path: &str| SourceChange::File(path.into());
        assert_eq!(changed("a.c", Some((3, 5))), file("a.c"));
        assert_eq!(changed("b.h", None), file("b.h"));
        assert_eq!(changed("new.c", Some((1, 1))), file("new.c"));
        assert_eq!(changed("new.txt", Some((1, 1))), SourceChange::Nothing);
        assert_eq!(changed("made", Some((1, 1))), SourceChange::Nothing);
        let whole = std::fs::read(&list).unwrap();
        let text = String::from_utf8(whole.clone()).unwrap();
        for damaged in [&whole[..whole.len() - 1], b"", text.replace("[\"a.c\",3", "[7,3").as_bytes()] {
            std::fs::write(&list, damaged).unwrap();
            assert_eq!(change(&list, &files), SourceChange::Unknown);
        }
        std::fs::remove_file(&list).unwrap();
        assert_eq!(change(&list, &files), SourceChange::Unknown);
    }
}
