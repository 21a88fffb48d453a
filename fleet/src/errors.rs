// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of other libraries as errors of this program, warnings, and files that are written completely or not at all.

use sediment_core::{Error, ErrorCode, Result};
use std::fmt::Display;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Conversion of other libraries' errors.
pub(crate) trait ErrorContext<T> {
    /// The system refused something.
    fn io(self) -> Result<T>;

    /// The system refused something with this file or folder.
    fn at(self, path: &Path) -> Result<T>;

    /// Data does not have the form that a dataset has.
    fn damaged(self) -> Result<T>;
}

impl<T, E: Display> ErrorContext<T> for std::result::Result<T, E> {
    fn io(self) -> Result<T> {
        self.map_err(|error| Error::new(ErrorCode::Io, error.to_string()))
    }

    fn at(self, path: &Path) -> Result<T> {
        self.io().map_err(|error| error.with_input(path.display().to_string()))
    }

    fn damaged(self) -> Result<T> {
        self.map_err(|error| damaged(format!("not a table of a dataset: {error}")))
    }
}

pub(crate) fn damaged(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::Damaged, message)
}

/// Writes a warning to standard error. The program continues if it is closed, or is a file on a full disk.
pub(crate) fn warning(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "sediment-fleet: warning: {text}");
}

/// Writes a file durably, completely or not at all, with the permissions that the umask of the process allows.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mode = std::fs::Permissions::from_mode(0o666);
    let written = tempfile::Builder::new().permissions(mode).tempfile_in(folder).and_then(|mut file| {
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        std::fs::File::open(folder)?.sync_all()
    });
    written.at(path)
}
