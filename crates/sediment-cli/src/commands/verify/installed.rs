// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the installed file of each linked output, and its debug file, below the folder into which a package was
//! installed.
//!
//! A build may install an output under another name. Packaging strips it, and may change its build-id. Therefore the
//! installed file is found by these rules in turn: the same build-id; the same code and name; the same code; the same
//! name. A file with the code of several outputs and the name of another output does not match.

use crate::files;
use sediment_core::binary::{build_id, code_sections};
use sediment_core::matching::identity;
use sediment_core::{Error, ErrorCode, Result};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folder of debug files below a system's root.
const DEBUG: &str = "usr/lib/debug";

/// ELF files below a folder, by base name.
pub(super) struct Installed {
    root: PathBuf,
    by_name: BTreeMap<String, Vec<PathBuf>>,
    /// Outputs in the build log.
    outputs: Vec<PathBuf>,
    build_ids: OnceCell<BTreeMap<PathBuf, String>>,
    codes: OnceCell<BTreeMap<PathBuf, u64>>,
}

impl Installed {
    /// Finds the ELF files below `root`. `outputs`: paths of all linked outputs in the build folder.
    pub(super) fn below(root: &Path, outputs: Vec<PathBuf>) -> Result<Self> {
        let failed = |path: &Path, error: &std::io::Error| {
            Error::new(ErrorCode::Io, format!("cannot be read: {error}")).with_input(files::display(path))
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
                // `metadata` does not follow symbolic links: their targets are found in their own folders.
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() && path.strip_prefix(&root) != Ok(Path::new(DEBUG)) {
                    folders.push(path);
                } else if metadata.is_file()
                    && files::is_elf(&path)
                    && seen.insert((metadata.dev(), metadata.ino()))
                {
                    by_name.entry(files::base_name(&path)).or_default().push(path);
                }
            }
        }
        Ok(Self { root, by_name, outputs, build_ids: OnceCell::new(), codes: OnceCell::new() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns installed files of an output, and true if their build-id or code identifies them: a match by name only
    /// may be another build.
    pub(super) fn identified(&self, output: &Path) -> (Vec<&Path>, bool) {
        let named = self.named(output);
        let by_build_id = || {
            let known = self.build_ids.get_or_init(|| self.facts(id_of));
            self.agreeing(output, &named, known, id_of)
        };
        let by_code = || {
            let known = self.codes.get_or_init(|| self.facts(code_of));
            self.agreeing(output, &named, known, code_of)
        };
        match by_build_id().or_else(by_code) {
            Some(found) => (found, true),
            None => (named, false),
        }
    }

    /// Returns installed files of an output.
    pub(super) fn of(&self, output: &Path) -> Vec<&Path> {
        self.identified(output).0
    }

    /// Returns files with the output's name, or with its name apart from a version.
    fn named(&self, output: &Path) -> Vec<&Path> {
        let labels: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        let found = identity::by_name(None, &files::base_name(output), &labels);
        found.map_or_else(Vec::new, |found| self.by_name[&found.label].iter().map(PathBuf::as_path).collect())
    }

    /// Returns the build-id or the hash of the code (`fact`) of each file; reads each file once.
    fn facts<F>(&self, fact: fn(&[u8]) -> Option<F>) -> BTreeMap<PathBuf, F> {
        let files = self.by_name.values().flatten();
        files.filter_map(|path| Some((path.clone(), fact(&std::fs::read(path).ok()?)?))).collect()
    }

    /// Returns the files with the same build-id or code (`fact`) as the output: preferably with its name, otherwise
    /// without the name of another output with the same fact. `None` if there is no such file.
    fn agreeing<F: PartialEq>(
        &self,
        output: &Path,
        named: &[&Path],
        known: &'_ BTreeMap<PathBuf, F>,
        fact: fn(&[u8]) -> Option<F>,
    ) -> Option<Vec<&Path>> {
        let read = |path: &Path| std::fs::read(path).ok().and_then(|bytes| fact(&bytes));
        let own = read(output)?;
        let files = self.by_name.values().flatten().map(PathBuf::as_path);
        let same: Vec<&Path> = files.filter(|path| known.get(*path) == Some(&own)).collect();
        let of_name: Vec<&Path> = same.iter().copied().filter(|path| named.contains(path)).collect();
        if !of_name.is_empty() {
            return Some(of_name);
        }
        let is_others = |path: &Path| {
            let mut others = self.outputs.iter().filter(|other| *other != output);
            others.any(|other| {
                other.file_name() == path.file_name()
                    && read(other).is_none_or(|fact_of_other| fact_of_other == own)
            })
        };
        let free: Vec<&Path> = same.into_iter().filter(|path| !is_others(path)).collect();
        (!free.is_empty()).then_some(free)
    }

    /// Path of the file on a system where the package is installed.
    pub(super) fn on_system(&self, path: &Path) -> PathBuf {
        Path::new("/").join(path.strip_prefix(&self.root).unwrap_or(path))
    }
}

fn id_of(bytes: &[u8]) -> Option<String> {
    build_id(bytes)
}

/// Hash of a file's code sections and their names.
fn code_of(bytes: &[u8]) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    code_sections(bytes)?.hash(&mut hasher);
    Some(hasher.finish())
}
