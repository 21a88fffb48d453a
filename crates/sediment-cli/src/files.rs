// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one place that opens files: inputs with their names in errors, outputs whole or not at all, and the further files
//! that the library asks for through [`Files`].

use sediment::binary::Files;
use sediment::compare::run::Journal;
use sediment::{Error, Result};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::ui::Ui;

/// The name that means standard input or output.
pub(crate) const STANDARD_STREAM: &str = "-";

/// Reads a whole file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| {
        let error = match error.kind() {
            std::io::ErrorKind::NotFound => Error::failed("there is no such file"),
            std::io::ErrorKind::IsADirectory => Error::failed("this is a folder, not a file"),
            _ => Error::failed(format!("cannot be read: {error}")),
        };
        error.with_input(display(path))
    };
    if path == Path::new(STANDARD_STREAM) {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
        return Ok(bytes);
    }
    fs::read(path).map_err(failed)
}

/// Writes a file whole or not at all; `-` is standard output. Devices and pipes are written to as they are.
pub(crate) fn write(path: &Path, data: &[u8], ui: &Ui) -> Result<()> {
    // The names that the system has for standard output mean the stream, not the file that it may lead to.
    let standard = [STANDARD_STREAM, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    if standard.iter().any(|name| path == Path::new(name)) {
        return ui.raw_result(data);
    }
    let failed = |error: std::io::Error| {
        Error::failed(format!("cannot be written: {error}")).with_input(display(path))
    };
    // Follow a link to what it stands for: the link itself is the user's.
    let target = fs::canonicalize(path).unwrap_or_else(|_| where_link_leads(path));
    let existing = fs::metadata(&target).ok();
    if let Some(found) = &existing {
        let kind = found.file_type();
        if kind.is_char_device() || kind.is_fifo() || kind.is_socket() {
            return OpenOptions::new()
                .write(true)
                .open(&target)
                .and_then(|mut file| file.write_all(data))
                .map_err(failed);
        }
    }
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".sediment-")
        .permissions(Permissions::from_mode(0o666)) // less the umask, as for any new file
        .tempfile_in(folder)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::failed("cannot be written: there is no such folder"),
            std::io::ErrorKind::PermissionDenied => {
                Error::failed("cannot be written: its folder takes no new file from this user")
            }
            kind => Error::failed(format!("cannot be written: {kind}")),
        })
        .map_err(|error| error.with_input(display(path)))?;
    file.write_all(data).map_err(failed)?;
    if let Some(found) = existing {
        file.as_file().set_permissions(found.permissions()).map_err(failed)?;
    }
    file.as_file().sync_all().map_err(failed)?;
    file.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

/// What a link to a file that is not there yet stands for.
fn where_link_leads(path: &Path) -> PathBuf {
    match fs::read_link(path) {
        Ok(next) => path.parent().unwrap_or_else(|| Path::new("")).join(next),
        Err(_) => path.to_path_buf(),
    }
}

/// A path as it stands in messages.
pub(crate) fn display(path: &Path) -> String {
    if path == Path::new(STANDARD_STREAM) { "standard input".to_owned() } else { path.display().to_string() }
}

/// The last part of a path, as text.
pub(crate) fn base_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The files of this machine, or of a copy of another machine's below a folder.
#[derive(Debug, Default)]
pub(crate) struct SystemFiles {
    /// Where recorded paths and debug files are looked for instead of `/`.
    pub(crate) root: Option<PathBuf>,
    /// Binaries that the user named, with their contents.
    pub(crate) binaries: Vec<(PathBuf, Vec<u8>)>,
}

impl SystemFiles {
    /// Files below `root` (`/` if None), and these binaries for DSOs of their base name.
    pub(crate) fn new(root: Option<PathBuf>, binaries: &[PathBuf]) -> Result<Self> {
        let binaries = binaries.iter().map(|path| Ok((path.clone(), read(path)?))).collect::<Result<_>>()?;
        Ok(Self { root, binaries })
    }

    fn below_root(&self, path: &Path) -> Option<Vec<u8>> {
        let root = self.root.as_deref().unwrap_or_else(|| Path::new("/"));
        let inside: PathBuf =
            path.components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect();
        let full = root.join(inside);
        full.is_file().then(|| fs::read(full).ok()).flatten()
    }
}

impl Files for SystemFiles {
    fn debug_file_by_build_id(&self, build_id: &str) -> Option<Vec<u8>> {
        let (folder, rest) = build_id.split_at_checked(2)?;
        let hex = build_id.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| {
            self.below_root(&Path::new("usr/lib/debug/.build-id").join(folder).join(format!("{rest}.debug")))
        })
        .flatten()
    }

    fn debug_file_by_link(&self, name: &[u8], _crc: u32) -> Option<Vec<u8>> {
        let name = std::str::from_utf8(name).ok()?;
        let plain = !name.is_empty() && !name.contains('/') && name != "..";
        let beside = |(path, _): &(PathBuf, Vec<u8>)| {
            let folder = path.parent()?;
            fs::read(folder.join(name)).or_else(|_| fs::read(folder.join(".debug").join(name))).ok()
        };
        plain.then(|| self.binaries.iter().find_map(beside)).flatten()
    }

    fn binary(&self, path: &str, _build_id: Option<&str>) -> Option<Vec<u8>> {
        let wanted = base_name(Path::new(path));
        let named = self.binaries.iter().find(|(given, _)| base_name(given) == wanted);
        if let Some((_, bytes)) = named {
            return Some(bytes.clone());
        }
        // A bare name says nothing of where the file is.
        path.starts_with('/').then(|| self.below_root(Path::new(path))).flatten()
    }
}

/// A folder to work in: one that is removed in the end, or one that the user wants to keep.
#[derive(Debug)]
pub(crate) struct Workshop {
    path: PathBuf,
    /// Removes the folder when it goes.
    _temporary: Option<tempfile::TempDir>,
}

impl Workshop {
    /// A new folder of this name, or a temporary one.
    pub(crate) fn new(keep: Option<&Path>) -> Result<Self> {
        let failed = |error: std::io::Error| Error::failed(format!("no folder to work in: {error}"));
        let temporary = match keep {
            Some(path) => new_folder(path).map(|()| None)?,
            None => Some(tempfile::Builder::new().prefix("sediment-").tempdir().map_err(failed)?),
        };
        let path = temporary.as_ref().map_or(keep.unwrap_or(Path::new(".")), tempfile::TempDir::path);
        Ok(Self { path: path.canonicalize().map_err(failed)?, _temporary: temporary })
    }

    /// Its absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a folder that did not exist.
pub(crate) fn new_folder(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|error| {
        Error::failed(format!("this folder cannot be made: {error}"))
            .with_input(display(path))
            .with_hint("name one that does not exist yet, in a folder that does")
    })
}

/// The file of an experiment as it grows: a line for each run, on the disk before the next run begins.
#[derive(Debug)]
pub(crate) struct JournalFile {
    path: PathBuf,
    file: File,
    whole: u64,
}

impl JournalFile {
    /// A new file; one that exists is left alone.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
            if error.kind() == std::io::ErrorKind::AlreadyExists {
                Error::failed("there is such a file already, perhaps with an experiment in it")
                    .with_input(display(path))
                    .with_hint(format!(
                        "go on with it: sediment eval resume {}; or name another by -o",
                        path.display()
                    ))
            } else {
                Error::failed(format!("cannot be made: {error}")).with_input(display(path))
            }
        })?;
        Ok(Self { path: path.to_owned(), file, whole: 0 })
    }

    /// An existing file, whose first so many bytes are whole lines; what is behind them goes.
    pub(crate) fn go_on(path: &Path, whole: u64) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::failed(format!("cannot be gone on with: {error}")).with_input(display(path))
        };
        let mut file = OpenOptions::new().write(true).open(path).map_err(failed)?;
        file.set_len(whole).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, whole })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Journal for JournalFile {
    fn append(&mut self, line: &str) -> Result<()> {
        let text = format!("{line}\n");
        match self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data()) {
            Ok(()) => {
                self.whole += text.len() as u64;
                Ok(())
            }
            // Pipes and devices have nothing to synchronise.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
            Err(error) => {
                // Half a line helps nobody.
                let _ = self.file.set_len(self.whole);
                let _ = self.file.seek(SeekFrom::Start(self.whole));
                Err(Error::failed(format!("a run cannot be kept: {error}"))
                    .with_input(display(&self.path))
                    .with_hint(format!(
                        "make room, then go on: sediment eval resume {}; the runs before are kept",
                        self.path.display()
                    )))
            }
        }
    }
}

/// Makes a folder and those above it, as far as they are missing; its absolute path.
pub(crate) fn folder(path: &Path) -> Result<PathBuf> {
    let made = fs::create_dir_all(path).and_then(|()| path.canonicalize());
    made.map_err(|error| Error::failed(format!("cannot be made: {error}")).with_input(display(path)))
}
