// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs and libraries of a package, below the folder that it was installed into: what is shipped, with the debug files beside
//! it, in place of what the linker left in the build folder.

use crate::files;
use sediment::binary::{build_id, identity};
use sediment::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where debug files lie below a system's root.
const DEBUG: &str = "usr/lib/debug";

/// The ELF files below a folder, by their base names.
pub(super) struct Installed {
    root: PathBuf,
    by_name: BTreeMap<String, Vec<PathBuf>>,
}

impl Installed {
    pub(super) fn below(root: &Path) -> Result<Self> {
        let failed = |path: &Path, error: &std::io::Error| {
            Error::failed(format!("cannot be read: {error}")).with_input(files::display(path))
        };
        let root = root.canonicalize().map_err(|error| failed(root, &error))?;
        let mut by_name: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        let (mut folders, mut seen) = (vec![root.clone()], BTreeSet::new());
        while let Some(folder) = folders.pop() {
            let mut entries = std::fs::read_dir(&folder)
                .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
                .map_err(|error| failed(&folder, &error))?;
            entries.sort_by_key(std::fs::DirEntry::path);
            for entry in entries {
                let path = entry.path();
                // Of the link itself: what it leads to is found where it is.
                let Ok(about) = entry.metadata() else { continue };
                if about.is_dir() && path.strip_prefix(&root) != Ok(Path::new(DEBUG)) {
                    folders.push(path);
                } else if about.is_file() && is_elf(&path) && seen.insert((about.dev(), about.ino())) {
                    by_name.entry(files::base_name(&path)).or_default().push(path);
                }
            }
        }
        Ok(Self { root, by_name })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// What became of a linked file: those of its name, or of its name but for a version; of several, the one of its build-id if there
    /// is one.
    pub(super) fn of(&self, output: &Path) -> Vec<&Path> {
        let labels: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        let Some(found) = identity::by_name(None, &files::base_name(output), &labels) else {
            return Vec::new();
        };
        let all: Vec<&Path> = self.by_name[&found.label].iter().map(PathBuf::as_path).collect();
        let id = |path: &Path| std::fs::read(path).ok().and_then(|bytes| build_id(&bytes));
        let Some(own) = (all.len() > 1).then(|| id(output)).flatten() else { return all };
        let same: Vec<&Path> = all.iter().copied().filter(|path| id(path).as_ref() == Some(&own)).collect();
        if same.is_empty() { all } else { same }
    }

    /// A path as it will be on the system that the package is installed on.
    pub(super) fn on_system(&self, path: &Path) -> PathBuf {
        Path::new("/").join(path.strip_prefix(&self.root).unwrap_or(path))
    }
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0_u8; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}
