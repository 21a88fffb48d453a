// SPDX-License-Identifier: MIT OR Apache-2.0
//! Temporary folders for their owner only, independent of the umask.

use super::new_folder;
use sediment_core::{Error, ErrorCode, Result};
use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A folder below TMPDIR that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryFolder(tempfile::TempDir);

impl TemporaryFolder {
    pub(crate) fn new() -> Result<Self> {
        let made =
            tempfile::Builder::new().prefix("sediment-").permissions(Permissions::from_mode(0o700)).tempdir();
        made.map(Self).map_err(|error| {
            Error::new(ErrorCode::Io, format!("cannot create a temporary folder: {error}"))
                .with_hint("set TMPDIR to a writable folder with enough space")
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a new file in it that only its owner can read.
    pub(crate) fn write(&self, name: &str, data: &[u8]) -> Result<PathBuf> {
        let path = self.path().join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(data)).map_err(|error| {
            Error::new(ErrorCode::Io, format!("cannot write a temporary file: {error}"))
                .with_input(super::display(&path))
        })?;
        Ok(path)
    }

    /// Keeps the folder.
    pub(crate) fn keep(self) -> PathBuf {
        self.0.keep()
    }
}

/// A working folder: a temporary one, or one that the user wants to keep.
#[derive(Debug)]
pub(crate) struct Workshop {
    path: PathBuf,
    /// Removes the folder when it is dropped.
    _temporary: Option<TemporaryFolder>,
}

impl Workshop {
    /// Makes a new folder with this name, or a temporary one.
    pub(crate) fn new(keep: Option<&Path>) -> Result<Self> {
        let failed = |error: std::io::Error| Error::new(ErrorCode::Io, format!("no working folder: {error}"));
        let temporary = match keep {
            Some(path) => new_folder(path).map(|()| None)?,
            None => Some(TemporaryFolder::new()?),
        };
        let path = temporary.as_ref().map_or(keep.unwrap_or(Path::new(".")), TemporaryFolder::path);
        Ok(Self { path: path.canonicalize().map_err(failed)?, _temporary: temporary })
    }

    /// Returns its absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
