// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds recorded programs and their debug files in all places where a Linux system has them.
//!
//! Programs are searched in this order: files given by the user, by base name or build-id; the recorded path; if that
//! file is another build, the copies that perf and debuginfod keep by build-id, and the program of a process that still
//! runs it. Debug files are searched as in GDB: by build-id below /usr/lib/debug and in debuginfod's cache; by debug
//! link next to the program, in its folder `.debug`, and below /usr/lib/debug. Nothing is downloaded. If a folder has
//! another machine's files, these take precedence, and recorded paths refer only to this folder.

use super::{base_name, read};
use sediment_core::Result;
use sediment_core::binary::{self, FileFacts, Files};
use sediment_read::read::RecordedDso;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// The files of this machine, or a copy of another machine's files in a folder.
#[derive(Debug, Default)]
pub(crate) struct SystemFiles {
    /// Folder that replaces `/` in recorded paths and for debug files.
    root: Option<PathBuf>,
    /// Binaries given by the user, with their contents.
    binaries: Vec<(PathBuf, Vec<u8>)>,
    /// True to use only these binaries.
    only_named: bool,
    /// Folder of debuginfod's downloads, with a folder for each build-id.
    debuginfod: Option<PathBuf>,
    /// Folder in which perf keeps recorded files.
    perf: Option<PathBuf>,
}

impl SystemFiles {
    /// Makes it for the files below `root` (`/` if `None`), and these binaries for DSOs with their base name or
    /// build-id.
    pub(crate) fn new(root: Option<PathBuf>, binaries: &[PathBuf]) -> Result<Self> {
        let binaries = binaries.iter().map(|path| Ok((path.clone(), read(path)?))).collect::<Result<_>>()?;
        let folder = |variable: &str| std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = folder("HOME");
        let caches = folder("XDG_CACHE_HOME").or_else(|| Some(home.as_ref()?.join(".cache")));
        let debuginfod = folder("DEBUGINFOD_CACHE_PATH").or_else(|| Some(caches?.join("debuginfod_client")));
        let perf = home.map(|home| home.join(".debug"));
        Ok(Self { root, binaries, only_named: false, debuginfod, perf })
    }

    /// Returns it without other binaries than the given ones, if there are any.
    pub(crate) fn named_alone(self) -> Self {
        Self { only_named: !self.binaries.is_empty(), ..self }
    }

    /// Returns the folder that replaces `/`, if there is one.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Returns the contents of a file that must be below the root, even if its path contains `..`.
    fn below_root(&self, path: &Path) -> Option<Vec<u8>> {
        self.below(self.root.as_deref().unwrap_or_else(|| Path::new("/")), path)
    }

    fn below(&self, root: &Path, path: &Path) -> Option<Vec<u8>> {
        let inside: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        contents(&root.join(inside))
    }

    /// Returns the given binary for a DSO with this path and build-id: by its base name, otherwise by its build-id.
    fn named(&self, path: &str, build_id: Option<&str>) -> Option<&(PathBuf, Vec<u8>)> {
        let wanted = base_name(Path::new(undeleted(path)));
        let of_that_build = |bytes: &[u8]| {
            build_id
                .zip(binary::build_id(bytes))
                .is_some_and(|(one, other)| binary::same_build_id(one, &other))
        };
        let by_name = self.binaries.iter().find(|(given, _)| undeleted(&base_name(given)) == wanted);
        by_name.or_else(|| self.binaries.iter().find(|(_, bytes)| of_that_build(bytes)))
    }

    /// Returns the given binaries that match none of these recorded files.
    pub(crate) fn not_recorded(&self, dsos: &[RecordedDso]) -> Vec<&Path> {
        let used: Vec<&Path> = dsos
            .iter()
            .filter_map(|dso| self.named(&dso.path, dso.build_id.as_deref()))
            .map(|(path, _)| path.as_path())
            .collect();
        let given = self.binaries.iter().map(|(path, _)| path.as_path());
        given.filter(|path| !used.contains(path)).collect()
    }

    /// Returns os-release of the machine whose files are used.
    pub(crate) fn os_release(&self) -> Option<String> {
        let text = ["etc/os-release", "usr/lib/os-release"]
            .iter()
            .find_map(|path| self.below_root(Path::new(path)))?;
        String::from_utf8(text).ok()
    }

    /// Returns a copy of the program itself, stored by its build-id.
    fn program_by_build_id(&self, build_id: &str) -> Option<Vec<u8>> {
        let (folder, rest) = split(build_id)?;
        let by_perf = || contents(&self.perf.as_ref()?.join(".build-id").join(folder).join(rest).join("elf"));
        let by_debuginfod = || contents(&self.debuginfod.as_ref()?.join(build_id).join("executable"));
        let found = by_perf().or_else(by_debuginfod)?;
        binary::build_id(&found).is_some_and(|own| binary::same_build_id(&own, build_id)).then_some(found)
    }

    /// Returns the program with this path and build-id from a process that still runs it, although its file was
    /// replaced.
    fn running_program(&self, path: &str, build_id: &str) -> Option<Vec<u8>> {
        if self.root.is_some() || !path.starts_with('/') {
            return None;
        }
        let is_process = |name: &std::ffi::OsStr| name.to_string_lossy().bytes().all(|b| b.is_ascii_digit());
        let processes = fs::read_dir("/proc").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let programs =
            processes.filter(|path| path.file_name().is_some_and(is_process)).map(|p| p.join("exe"));
        let same_path = |exe: &PathBuf| {
            fs::read_link(exe)
                .is_ok_and(|target| target.to_str().is_some_and(|target| undeleted(target) == path))
        };
        let of_that_build = |bytes: &Vec<u8>| {
            binary::build_id(bytes).is_some_and(|own| binary::same_build_id(&own, build_id))
        };
        programs.filter(same_path).filter_map(|exe| fs::read(exe).ok()).find(of_that_build)
    }

    /// Returns the first debug file with this name and checksum in the places for a program in `folder`.
    fn linked(
        &self,
        folder: &Path,
        name: &str,
        crc: u32,
        read: &dyn Fn(&Path) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let fits = |bytes: &Vec<u8>| binary::debug_link_checksum(bytes) == crc;
        let beside = [folder.join(name), folder.join(".debug").join(name)];
        if let Some(found) = beside.iter().find_map(|path| read(path).filter(fits)) {
            return Some(found);
        }
        // /lib and /usr/lib are the same folder on many systems, and debug packages may use either name.
        let inside: PathBuf =
            folder.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let other = match inside.strip_prefix("usr") {
            Ok(rest) => rest.to_path_buf(),
            Err(_) => Path::new("usr").join(&inside),
        };
        let global = |inside: &Path| self.below_root(&Path::new("usr/lib/debug").join(inside).join(name));
        global(&inside).filter(fits).or_else(|| global(&other).filter(fits))
    }
}

impl Files for SystemFiles {
    fn debug_file_by_build_id(&self, build_id: &str) -> Option<Vec<u8>> {
        let (folder, rest) = split(build_id)?;
        let inside = Path::new("usr/lib/debug/.build-id").join(folder).join(format!("{rest}.debug"));
        let of_system = || self.root.as_ref().and_then(|_| self.below(Path::new("/"), &inside));
        let by_debuginfod = || contents(&self.debuginfod.as_ref()?.join(build_id).join("debuginfo"));
        let by_perf =
            || contents(&self.perf.as_ref()?.join(".build-id").join(folder).join(rest).join("debug"));
        self.below_root(&inside).or_else(of_system).or_else(by_debuginfod).or_else(by_perf)
    }

    fn debug_file_by_link(&self, name: &[u8], crc: u32) -> Option<Vec<u8>> {
        let name = plain(name)?;
        self.binaries.iter().find_map(|(path, _)| {
            let full = fs::canonicalize(path).ok()?;
            let folder = full.parent()?;
            let inside = || {
                // Below the root, a debug file has the same relative path as its program.
                let inside = folder.strip_prefix(self.root.as_deref()?).ok()?;
                self.linked(inside, name, crc, &|path| self.below_root(path))
            };
            self.linked(folder, name, crc, &contents).or_else(inside)
        })
    }

    fn debug_file_beside(&self, path: &str, name: &[u8], crc: u32) -> Option<Vec<u8>> {
        let named = plain(name)?;
        let recorded = Path::new(path);
        let below_root = |path: &Path| self.below_root(path);
        let beside = || self.linked(recorded.parent()?, named, crc, &below_root);
        let absolute = path.starts_with('/');
        self.debug_file_by_link(name, crc).or_else(|| absolute.then(beside).flatten())
    }

    fn binary(&self, path: &str, build_id: Option<&str>) -> Option<Vec<u8>> {
        if let Some((_, bytes)) = self.named(path, build_id) {
            return Some(bytes.clone());
        }
        if self.only_named {
            return None;
        }
        // A bare name does not show where the file is.
        let at_path = |path: &str| path.starts_with('/').then(|| self.below_root(Path::new(path))).flatten();
        // The kernel marks a file that was replaced; if its build-id matches, the file may have been restored.
        let found = at_path(path).or_else(|| build_id.and_then(|_| at_path(undeleted(path))));
        let of_that_build = |bytes: &Vec<u8>| match (build_id, binary::build_id(bytes)) {
            (Some(recorded), Some(own)) => binary::same_build_id(recorded, &own),
            _ => true,
        };
        if found.as_ref().is_some_and(of_that_build) {
            return found;
        }
        let by_build_id = |build_id: &str| {
            self.program_by_build_id(build_id).or_else(|| self.running_program(undeleted(path), build_id))
        };
        build_id.and_then(by_build_id).or(found)
    }

    fn is_chosen(&self, path: &str, build_id: Option<&str>) -> bool {
        self.named(path, build_id).is_some() || self.root.is_some() && !self.names_some()
    }

    fn names_some(&self) -> bool {
        !self.binaries.is_empty()
    }

    fn file_name(&self, path: &str, build_id: Option<&str>) -> Option<String> {
        self.named(path, build_id).map(|(given, _)| base_name(given))
    }

    fn facts(&self, path: &str, build_id: Option<&str>) -> Option<FileFacts> {
        let recorded = self.root.is_none().then(|| fs::canonicalize(path).ok()).flatten();
        let used = match self.named(path, build_id) {
            Some((given, _)) => fs::canonicalize(given).ok()?,
            None => recorded.clone()?,
        };
        let about = fs::metadata(&used).ok()?;
        let changed = i128::from(about.ctime()) * 1_000_000_000 + i128::from(about.ctime_nsec());
        let device = about.dev();
        Some(FileFacts {
            at_recorded_path: recorded.is_some_and(|recorded| recorded == used),
            changed: u128::try_from(changed).unwrap_or(0),
            inode: (major(device) << 32 | minor(device), about.ino()),
        })
    }

    fn host(&self) -> Option<String> {
        let name = self.root.is_none().then(|| fs::read_to_string("/proc/sys/kernel/hostname").ok())??;
        Some(name.trim_end().to_owned()).filter(|name| !name.is_empty())
    }
}

/// The parts of a device number, as combined by Linux.
fn major(device: u64) -> u64 {
    device >> 32 & 0xffff_f000 | device >> 8 & 0xfff
}

fn minor(device: u64) -> u64 {
    device >> 12 & 0xffff_ff00 | device & 0xff
}

/// Returns the path of a file without the kernel's mark for a file that was replaced while in use.
fn undeleted(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}

fn contents(path: &Path) -> Option<Vec<u8>> {
    path.is_file().then(|| fs::read(path).ok()).flatten()
}

/// Splits a build-id as in names of folders: its first byte, and the rest. `None` if it is invalid, because it may be
/// untrusted.
pub(super) fn split(build_id: &str) -> Option<(&str, &str)> {
    let hex = build_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    build_id.split_at_checked(2).filter(|(_, rest)| hex && !rest.is_empty())
}

/// Returns the name in a debug link if it is not a path.
fn plain(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    (!name.is_empty() && !name.contains('/') && name != ".." && name != ".").then_some(name)
}
