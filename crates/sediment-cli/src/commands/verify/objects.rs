// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches the objects of a link, which show the input sections of misplaced functions, in the usual folders of
//! builds.

use crate::files;
use sediment_core::Result;
use sediment_core::binary::objects::{ArchiveUse, InputObjects};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Most files and folders to inspect below a default folder, which may be a home folder.
const MOST_ENTRIES: usize = 20_000;
/// Largest object or archive to read, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Extensions of objects and archives.
const ENDS: [&str; 4] = ["o", "obj", "a", "rlib"];

/// Returns the objects below a given folder.
pub(super) fn below(folder: &Path) -> Result<InputObjects> {
    std::fs::read_dir(folder).map_err(|error| files::unreadable(folder, &error))?;
    Ok(found(folder, usize::MAX))
}

/// Returns the objects next to a program, or below its folder.
pub(super) fn beside(program: &Path) -> InputObjects {
    let folder = program.parent().filter(|folder| !folder.as_os_str().is_empty());
    found(folder.unwrap_or(Path::new(".")), MOST_ENTRIES)
}

/// Reads the objects below a folder. Skips objects that cannot be read.
fn found(folder: &Path, most: usize) -> InputObjects {
    let mut objects = InputObjects::default();
    let (mut folders, mut seen) = (vec![folder.to_path_buf()], 0);
    while let Some(next) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            seen += 1;
            if seen > most {
                return objects;
            }
            // Symbolic links may lead anywhere; their targets in the build are found at their own paths.
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file()
                && path.extension().and_then(OsStr::to_str).is_some_and(|end| ENDS.contains(&end))
            {
                let Ok(bytes) = files::read_at_most(&path, MOST_BYTES) else { continue };
                let name = path.strip_prefix(folder).unwrap_or(&path);
                let beside = path.parent().unwrap_or(folder);
                let member = |name: &str| files::read_at_most(&beside.join(name), MOST_BYTES).ok();
                objects.add_with_members(&name.to_string_lossy(), &bytes, true, ArchiveUse::Whole, &member);
            }
        }
    }
    objects
}
