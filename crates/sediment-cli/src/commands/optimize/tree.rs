// SPDX-License-Identifier: MIT OR Apache-2.0
//! The copy of a source tree. Files share their blocks with those of the tree where the file system can (`copy_file_range`), and keep their
//! times, by which make decides.
//!
//! Not copied: the working folder itself, and those of other runs; build folders that know their own path (CMake's,
//! Meson's) or are marked as caches (CACHEDIR.TAG, such as cargo's `target`); and objects of earlier builds, because
//! they have no function sections.

use super::entries;
use crate::files;
use object::elf;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Stop;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// Files in a build folder by which it knows its own path, or declares itself a cache.
const MARKS_OF_BUILDS: &[&str] = &["CMakeCache.txt", "meson-private", "CACHEDIR.TAG"];

/// Entries that were not copied.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Build folders, relative to the tree.
    pub(super) folders: Vec<PathBuf>,
    /// Number of objects.
    pub(super) objects: u64,
}

/// Copies a tree into a new folder; `work` is a folder in it that is passed over.
pub(super) fn copy(tree: &Path, work: &Path, copy: &Path, stop: &Stop) -> Result<LeftOut> {
    let mut left_out = LeftOut::default();
    let mut folders = vec![PathBuf::new()];
    let mut made = Vec::new();
    while let Some(folder) = folders.pop() {
        let (from, to) = (tree.join(&folder), copy.join(&folder));
        fs::create_dir_all(&to).map_err(|error| failed(&to, &error))?;
        made.push((from.clone(), to));
        for entry in fs::read_dir(&from).map_err(|error| failed(&from, &error))? {
            stop.check()?;
            let entry = entry.map_err(|error| failed(&from, &error))?;
            let (path, name) = (entry.path(), folder.join(entry.file_name()));
            let kind = entry.file_type().map_err(|error| failed(&path, &error))?;
            if kind.is_dir() {
                if path == work || is_work_of_another(&path) {
                } else if MARKS_OF_BUILDS.iter().any(|mark| path.join(mark).exists()) {
                    left_out.folders.push(name);
                } else {
                    folders.push(name);
                }
            } else if kind.is_file() && is_object(&path) {
                left_out.objects += 1;
            } else {
                copy_entry(&path, kind, &copy.join(&name), [tree, copy])
                    .map_err(|error| failed(&path, &error))?;
            }
        }
    }
    // The times of folders are set last, because each new entry changes them.
    for (from, to) in made.iter().rev() {
        same_times(from, to).map_err(|error| failed(to, &error))?;
    }
    left_out.folders.sort();
    Ok(left_out)
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    let hint = "to build in the tree itself: --in-place; to copy to another disk: --work DIR";
    Error::new(ErrorCode::Io, format!("cannot copy the tree: {error}"))
        .with_input(files::display(path))
        .with_hint(hint)
}

/// Copies a file or a symbolic link; sockets, pipes and devices are no part of a source tree. A link to a path in the tree becomes one
/// into the copy.
fn copy_entry(from: &Path, kind: fs::FileType, to: &Path, [tree, copy]: [&Path; 2]) -> std::io::Result<()> {
    if kind.is_symlink() {
        let target = fs::read_link(from)?;
        return std::os::unix::fs::symlink(target_in_copy(from, &target, [tree, copy]), to);
    }
    if !kind.is_file() {
        return Ok(());
    }
    fs::copy(from, to)?;
    same_times(from, to)
}

/// Returns the target of a link in the copy: the same file of the copy if the target is in the tree, else the target
/// itself.
fn target_in_copy(from: &Path, target: &Path, [tree, copy]: [&Path; 2]) -> PathBuf {
    if target.is_absolute() {
        return target.strip_prefix(tree).map_or(target.to_path_buf(), |inside| copy.join(inside));
    }
    let mut whole = from.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in target.components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    if whole.starts_with(tree) { target.to_path_buf() } else { whole }
}

/// Gives a file the time of change of another.
pub(super) fn same_times(from: &Path, to: &Path) -> std::io::Result<()> {
    let found = fs::metadata(from)?;
    let times = fs::FileTimes::new().set_modified(found.modified()?);
    let opened = fs::File::open(to)?;
    if found.is_dir() {
        opened.set_permissions(fs::Permissions::from_mode(found.permissions().mode() | 0o700))?;
    }
    // The owner can set the times of a file without write permission, too.
    opened.set_times(times)
}

/// True for an object that a compiler left: a relocatable ELF file of that name.
fn is_object(path: &Path) -> bool {
    let named = path.extension().is_some_and(|ending| ending == "o" || ending == "lo" || ending == "obj");
    named
        && (files::elf_type(path) == Some(elf::ET_REL.0)
            || path.extension().is_some_and(|ending| ending == "lo"))
}

/// Key by which the state of a working folder is known.
pub(super) const KEY: &str = "sediment-optimize";
/// Largest state that is read.
pub(super) const LARGEST_STATE: u64 = 1 << 20;

/// True for a working folder, such as that of a run with another `--work`.
fn is_work_of_another(folder: &Path) -> bool {
    let path = folder.join(entries::STATE);
    path.is_file()
        && files::read_at_most(&path, LARGEST_STATE)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
            .is_some_and(|state| state.get(KEY).is_some())
}

/// Removes a folder, and what a build made read-only in it.
pub(super) fn remove(folder: &Path) -> std::io::Result<()> {
    if fs::remove_dir_all(folder).is_ok() {
        return Ok(());
    }
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            folders.extend(entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path()));
        }
    }
    fs::remove_dir_all(folder)
}

/// A file in a tree by which a build tool knows the tree's own path: it writes there, wherever it runs.
pub(super) fn mark_of_own_path(tree: &Path) -> Option<&'static str> {
    MARKS_OF_BUILDS[..2].iter().find(|mark| tree.join(mark).exists()).copied()
}

/// Size and time of change of a file, in nanoseconds.
pub(super) type Stamp = (u64, u128);
/// Files with their stamps.
pub(super) type FileStamps = BTreeMap<PathBuf, Stamp>;

/// The stamp of a file.
pub(super) fn stamp_of(found: &fs::Metadata) -> Stamp {
    let modified = found.modified().ok();
    let age = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    (found.len(), age.map_or(0, |age| age.as_nanos()))
}

/// The files of a tree, but for those of build folders, of the folder `work`, and a file `own`. git's index changes where a tree is only
/// looked at.
pub(super) fn files(tree: &Path, work: &Path, own: Option<&Path>) -> FileStamps {
    let mut files = FileStamps::new();
    let mut folders = vec![tree.to_path_buf()];
    let index = tree.join(".git/index");
    // What it asks for is compared by itself.
    let settings = tree.join(entries::PROJECT_FILE);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, Ok(found)) = (entry.path(), entry.metadata()) else { continue };
            let is_build = || MARKS_OF_BUILDS.iter().any(|mark| path.join(mark).exists());
            if own == Some(path.as_path()) || path == index || path == settings {
            } else if found.is_file() || found.is_symlink() {
                files.insert(path, stamp_of(&found));
            } else if found.is_dir() && path != work && !is_build() && !is_work_of_another(&path) {
                folders.push(path);
            }
        }
    }
    files
}

/// Number that changes with the names, sizes and times of files.
pub(super) fn stamp(files: &FileStamps) -> u64 {
    let mut stamp = 0xcbf2_9ce4_8422_2325_u64;
    for (path, (size, modified)) in files {
        for byte in format!("{}\0{size}\0{modified}\0", path.display()).bytes() {
            stamp = (stamp ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    stamp
}

/// The programs and shared libraries in a tree, sorted.
pub(super) fn linked_files(tree: &Path, work: &Path) -> Vec<PathBuf> {
    linked(tree, work, fs::FileType::is_file)
}

/// The symbolic links to such, sorted.
pub(super) fn links_to_linked_files(tree: &Path, work: &Path) -> Vec<PathBuf> {
    linked(tree, work, fs::FileType::is_symlink)
}

fn linked(tree: &Path, work: &Path, is_wanted: impl Fn(&fs::FileType) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![tree.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if path != work && !is_work_of_another(&path) {
                    folders.push(path);
                }
            } else if is_wanted(&kind) && files::is_linked(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// True for a path in the tree that leads out of it by no link. Folders may be missing.
pub(super) fn is_inside(path: &Path, tree: &Path) -> bool {
    let is_plain = path.components().all(|part| !matches!(part, Component::ParentDir));
    let place = path.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    is_plain && path.starts_with(tree) && place.is_some_and(|place| place.starts_with(tree))
}
