// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies a source tree. If the file system can, the copies share their disk blocks with the originals
//! (`copy_file_range`). They keep their times, because make compares them.
//!
//! These are not copied: the working folder itself, and those of other runs; build folders that contain their own path
//! (CMake's, Meson's) or are marked as caches (CACHEDIR.TAG, such as cargo's `target`); and objects of earlier builds,
//! because they have no function sections.

use super::entries;
use crate::files;
use object::elf;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Stop;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// Files that show that a build folder contains its own path, or is a cache.
const MARKS_OF_BUILDS: &[&str] = &["CMakeCache.txt", "meson-private", "CACHEDIR.TAG"];

/// Entries that were not copied.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Build folders, relative to the tree.
    pub(super) folders: Vec<PathBuf>,
    /// Number of objects.
    pub(super) objects: u64,
}

/// Copies a tree into a new folder; `work` is a folder in it that is skipped.
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

/// Copies a file or a symbolic link; sockets, pipes and devices do not belong to a source tree. A link to a path in the
/// tree becomes a link into the copy.
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

/// Returns the target of a link in the copy: the same file of the copy if the target is in the tree, otherwise the
/// target itself.
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

/// Gives a file the modification time of another.
pub(super) fn same_times(from: &Path, to: &Path) -> std::io::Result<()> {
    let found = fs::metadata(from)?;
    let times = fs::FileTimes::new().set_modified(found.modified()?);
    let opened = fs::File::open(to)?;
    if found.is_dir() {
        opened.set_permissions(fs::Permissions::from_mode(found.permissions().mode() | 0o700))?;
    }
    // The owner can set the times even of a file without write permission.
    opened.set_times(times)
}

/// True for an object left by a compiler: a relocatable ELF file with such a name.
fn is_object(path: &Path) -> bool {
    let named = path.extension().is_some_and(|ending| ending == "o" || ending == "lo" || ending == "obj");
    named
        && (files::elf_type(path) == Some(elf::ET_REL.0)
            || path.extension().is_some_and(|ending| ending == "lo"))
}

/// Key that identifies the state of a working folder.
pub(super) const KEY: &str = "sediment-optimize";
/// Largest state that is read.
pub(super) const LARGEST_STATE: u64 = 1 << 20;

/// True for the working folder of another run, for example one with another `--work`.
fn is_work_of_another(folder: &Path) -> bool {
    let path = folder.join(entries::STATE);
    path.is_file()
        && files::read_at_most(&path, LARGEST_STATE)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
            .is_some_and(|state| state.get(KEY).is_some())
}

/// Removes a folder, including read-only folders that a build made in it.
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

/// Finds a file that shows that a build tool has stored the tree's own path, and will write there wherever it runs.
pub(super) fn mark_of_own_path(tree: &Path) -> Option<&'static str> {
    MARKS_OF_BUILDS[..2].iter().find(|mark| tree.join(mark).exists()).copied()
}

/// Size of a file, and its modification time in nanoseconds.
pub(super) type Stamp = (u64, u128);
/// Files with their stamps.
pub(super) type FileStamps = BTreeMap<PathBuf, Stamp>;

/// The stamp of a file.
pub(super) fn stamp_of(found: &fs::Metadata) -> Stamp {
    let modified = found.modified().ok();
    let age = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    (found.len(), age.map_or(0, |age| age.as_nanos()))
}

/// Lists the files of a tree, without those in build folders, in the folder `work`, and the file `own`. git's index is
/// left out, too, because it changes when a tree is only looked at.
pub(super) fn files(tree: &Path, work: &Path, own: Option<&Path>) -> FileStamps {
    let mut files = FileStamps::new();
    let mut folders = vec![tree.to_path_buf()];
    let index = tree.join(".git/index");
    // Its content is compared separately.
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

/// A number that changes with the names, sizes and times of files.
pub(super) fn stamp(files: &FileStamps) -> u64 {
    let mut stamp = 0xcbf2_9ce4_8422_2325_u64;
    for (path, (size, modified)) in files {
        for byte in format!("{}\0{size}\0{modified}\0", path.display()).bytes() {
            stamp = (stamp ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    stamp
}

/// Lists the programs and shared libraries in a tree, sorted.
pub(super) fn linked_files(tree: &Path, work: &Path) -> Vec<PathBuf> {
    linked(tree, work, fs::FileType::is_file)
}

/// Lists the symbolic links to these, sorted.
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

/// True for a path in the tree that does not lead out of it by a link. Folders may be missing.
pub(super) fn is_inside(path: &Path, tree: &Path) -> bool {
    let is_plain = path.components().all(|part| !matches!(part, Component::ParentDir));
    let place = path.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    is_plain && path.starts_with(tree) && place.is_some_and(|place| place.starts_with(tree))
}
