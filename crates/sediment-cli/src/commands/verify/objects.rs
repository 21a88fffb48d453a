// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects of a link, looked for where builds leave them: they show the input sections of misplaced functions.

use crate::files;
use sediment_core::Result;
use sediment_core::binary::objects::{ArchiveUse, InputObjects};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Most files and folders to look at below a folder that nobody named, such as a home folder.
const MOST_ENTRIES: usize = 20_000;
/// Most bytes of an object or archive to read.
const MOST_BYTES: u64 = 1 << 30;
/// Ends of the names of objects and archives.
const ENDS: [&str; 4] = ["o", "obj", "a", "rlib"];

/// The objects below the folder that was named.
pub(super) fn below(folder: &Path) -> Result<InputObjects> {
    std::fs::read_dir(folder).map_err(|error| files::unreadable(folder, &error))?;
    Ok(found(folder, usize::MAX))
}

/// The objects beside a program, or below its folder.
pub(super) fn beside(program: &Path) -> InputObjects {
    let folder = program.parent().filter(|folder| !folder.as_os_str().is_empty());
    found(folder.unwrap_or(Path::new(".")), MOST_ENTRIES)
}

/// Reads the objects below a folder. What cannot be read is passed over: it shows nothing.
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
            // Links may lead anywhere; what they lead to in the build is found where it is.
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
