// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of the files of a tree: with `--in-place` its sources, otherwise the files that were copied. If one of them changed, a continued
//! run would measure an outdated program.

use super::entries;
use super::tree::{FileStamps, Stamp};
use crate::files;
use object::elf;
use sediment_core::Result;
use sediment_core::plural::counted;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Largest list that is read.
const LARGEST: u64 = 1 << 30;
/// Endings of source files.
const LANGUAGES: &[&str] = &[
    "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "inc", "inl", "s", "S", "rs", "d", "f", "f90", "m",
    "mm", "zig", "adb", "ads",
];

/// Stamp of a file that the build made.
const MADE: Stamp = (u64::MAX, 0);

/// Lists the files of a tree after a build. Files that the build made have no stamps of their own, nor do objects,
/// archives and linked files.
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
    /// The first file that was changed, removed or added, and the number of these files.
    Files {
        first: PathBuf,
        count: u64,
    },
    /// Unknown: the list cannot be read, or is damaged.
    Unknown,
}

impl SourceChange {
    /// The first file, relative to the tree, and the number of further ones, for people.
    pub(super) fn in_words(first: &Path, count: u64, tree: &Path) -> String {
        let first = crate::files::display(first.strip_prefix(tree).unwrap_or(first));
        match count.saturating_sub(1) {
            0 => first,
            more => format!("{first} and {}", counted(more, "more file")),
        }
    }
}

/// True for a file that a build may find without naming it. A new file of another kind may come from a training
/// command.
pub(super) fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ending| LANGUAGES.iter().any(|known| ending == *known))
}

/// Compares a list with the existing files. New files count only if `is_relevant` is true.
pub(super) fn change(list: &Path, now: &FileStamps, is_relevant: impl Fn(&Path) -> bool) -> SourceChange {
    let bytes = crate::files::read_at_most(list, LARGEST).unwrap_or_default();
    let Some(before) = parse(&bytes) else { return SourceChange::Unknown };
    let is_changed = |(path, stamp): &(&PathBuf, &Stamp)| **stamp != MADE && now.get(*path) != Some(*stamp);
    let is_added = |path: &&PathBuf| is_relevant(path) && !before.contains_key(*path);
    let changed = before.iter().filter(is_changed).map(|(path, _)| path);
    let mut changed = changed.chain(now.keys().filter(is_added));
    match changed.next() {
        None => SourceChange::Nothing,
        Some(first) => SourceChange::Files { first: first.clone(), count: 1 + changed.count() as u64 },
    }
}

/// Reads the files of a list; None if it is damaged.
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
        assert_eq!(change(&list, &files, is_source), SourceChange::Nothing);
        let changed = |path: &str, stamp: Option<Stamp>| {
            let mut now = files.clone();
            match stamp {
                Some(stamp) => now.insert(path.into(), stamp),
                None => now.remove(Path::new(path)),
            };
            change(&list, &now, is_source)
        };
        let file = |path: &str| SourceChange::Files { first: path.into(), count: 1 };
        assert_eq!(changed("a.c", Some((3, 5))), file("a.c"));
        assert_eq!(changed("b.h", None), file("b.h"));
        assert_eq!(changed("new.c", Some((1, 1))), file("new.c"));
        assert_eq!(changed("new.txt", Some((1, 1))), SourceChange::Nothing);
        assert_eq!(changed("made", Some((1, 1))), SourceChange::Nothing);
        let first = PathBuf::from("a.c");
        let now = [("b.h", (1, 1)), ("new.txt", (1, 1))].map(|(path, stamp)| (PathBuf::from(path), stamp));
        assert_eq!(change(&list, &now.into(), |_| true), SourceChange::Files { first, count: 3 });
        let whole = std::fs::read(&list).unwrap();
        let text = String::from_utf8(whole.clone()).unwrap();
        for damaged in [&whole[..whole.len() - 1], b"", text.replace("[\"a.c\",3", "[7,3").as_bytes()] {
            std::fs::write(&list, damaged).unwrap();
            assert_eq!(change(&list, &files, is_source), SourceChange::Unknown);
        }
        std::fs::remove_file(&list).unwrap();
        assert_eq!(change(&list, &files, is_source), SourceChange::Unknown);
    }
}
