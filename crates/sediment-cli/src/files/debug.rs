// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds debug files by build-id: files and folders given by the user, this system's debug files and, if the user
//! requests it, files of debuginfod servers. Only this module and `collect --send` use the network.

use super::{SystemFiles, display, is_elf, read};
use sediment_core::binary::{self, Files};
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Command;
use sediment_process::command::run;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest number of files that are inspected below a folder.
const MOST_FILES: usize = 200_000;
/// Long, because a server may unpack a package first.
const TIMEOUT: Duration = Duration::from_secs(900);
/// Word that requests debuginfod.
pub(crate) const DEBUGINFOD: &str = "debuginfod";

/// Sources of debug files.
pub(crate) struct DebugSources {
    /// Files given by the user: path, build-id, contents.
    named: Vec<(PathBuf, String, Vec<u8>)>,
    folders: Vec<PathBuf>,
    ask_debuginfod: bool,
    system: SystemFiles,
    /// First failure of debuginfod-find, other than a missing file.
    failure: RefCell<Option<Error>>,
}

impl DebugSources {
    /// Makes sources from these words: an ELF file, a folder, or `debuginfod`.
    pub(crate) fn new(given: &[PathBuf]) -> Result<Self> {
        let (mut named, mut folders, mut ask_debuginfod) = (Vec::new(), Vec::new(), false);
        for path in given {
            if path.is_dir() {
                folders.push(path.clone());
            } else if path.as_os_str() == DEBUGINFOD {
                ask_debuginfod = true;
            } else {
                let bytes = read(path)?;
                let build_id = binary::build_id(&bytes).ok_or_else(|| {
                    Error::new(ErrorCode::WrongBinary, "not an ELF file with a build-id")
                        .with_input(display(path))
                        .with_hint("give the unstripped program, or its debug file")
                })?;
                named.push((path.clone(), build_id, bytes));
            }
        }
        let failure = RefCell::default();
        Ok(Self { named, folders, ask_debuginfod, system: SystemFiles::new(None, &[])?, failure })
    }

    /// Returns the given files that belong to none of these builds, with their build-ids.
    pub(crate) fn of_other_builds(&self, build_ids: &[&str]) -> Vec<(&Path, &str)> {
        let is_wanted = |own: &str| build_ids.iter().any(|wanted| binary::same_build_id(own, wanted));
        let named = self.named.iter().filter(|(_, own, _)| !is_wanted(own));
        named.map(|(path, own, _)| (path.as_path(), own.as_str())).collect()
    }

    /// Returns the failure of debuginfod-find, if there was one.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.borrow_mut().take()
    }

    fn fetched(&self, build_id: &str) -> Option<Vec<u8>> {
        let command = Command::new("debuginfod-find", "/", TIMEOUT).with_arguments(["debuginfo", build_id]);
        let ended = match run(&command, 1 << 16) {
            Ok(ended) => ended,
            Err(error) => {
                let error = error
                    .with_hint("install debuginfod-find (package debuginfod or elfutils-debuginfod-client)");
                self.failure.borrow_mut().get_or_insert(error);
                return None;
            }
        };
        // It is not a failure if a server does not have the file.
        let path = ended.successful(&command).ok()?.output;
        let path = String::from_utf8(path).ok()?;
        std::fs::read(path.trim_end()).ok()
    }
}

impl Files for DebugSources {
    fn debug_file_by_build_id(&self, build_id: &str) -> Option<Vec<u8>> {
        let named = self.named.iter().find(|(_, own, _)| binary::same_build_id(own, build_id));
        named
            .map(|(_, _, bytes)| bytes.clone())
            .or_else(|| self.folders.iter().find_map(|folder| below(folder, build_id)))
            .or_else(|| self.system.debug_file_by_build_id(build_id))
            .or_else(|| self.ask_debuginfod.then(|| self.fetched(build_id)).flatten())
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, _: &str, _: Option<&str>) -> Option<Vec<u8>> {
        None
    }
}

/// Finds the file of this build below a folder: by its name in debug packages, otherwise the first one with symbols of
/// its own.
fn below(folder: &Path, build_id: &str) -> Option<Vec<u8>> {
    let is_of_build =
        |bytes: &Vec<u8>| binary::build_id(bytes).is_some_and(|own| binary::same_build_id(&own, build_id));
    let (begin, rest) = super::system::split(build_id)?;
    let inside = Path::new(".build-id").join(begin).join(format!("{rest}.debug"));
    let by_name = ["", "usr/lib/debug"].iter().map(|root| folder.join(root).join(&inside));
    if let Some(found) = by_name.filter_map(|path| std::fs::read(path).ok()).find(is_of_build) {
        return Some(found);
    }
    let mut open = vec![folder.to_path_buf()];
    let mut seen = 0;
    while let Some(folder) = open.pop() {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(&folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        entries.sort();
        for path in entries {
            seen += 1;
            if seen > MOST_FILES {
                return None;
            }
            let kind = std::fs::symlink_metadata(&path).map(|about| about.file_type());
            match kind {
                Ok(kind) if kind.is_dir() => open.push(path),
                Ok(kind) if kind.is_file() && is_elf(&path) => {
                    let found = std::fs::read(&path).ok().filter(is_of_build);
                    let found = found.filter(|bytes| binary::has_symbols(bytes));
                    if found.is_some() {
                        return found;
                    }
                }
                _ => {}
            }
        }
    }
    None
}
