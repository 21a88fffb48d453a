// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the file of an experiment line by line, so that no measurement is lost.

use super::display;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::run::Journal;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The growing file of an experiment, with a line for each run, which is on disk before the next run begins.
#[derive(Debug)]
pub(crate) struct JournalFile {
    path: PathBuf,
    file: File,
    whole: u64,
}

impl JournalFile {
    /// Creates a file; fails if it exists.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
            if error.kind() == std::io::ErrorKind::AlreadyExists {
                let hint = if is_of_experiment(path) {
                    format!(
                        "to continue it: sediment eval resume {}; or write to another file with -o",
                        path.display()
                    )
                } else {
                    "the file is not an experiment: write to another file with -o".to_owned()
                };
                Error::new(ErrorCode::Io, "the file exists already").with_input(display(path)).with_hint(hint)
            } else {
                Error::new(ErrorCode::Io, format!("cannot be created: {error}")).with_input(display(path))
            }
        })?;
        Ok(Self { path: path.to_owned(), file, whole: 0 })
    }

    /// Opens an existing file and truncates it to its first `whole` bytes, which are complete lines.
    pub(crate) fn go_on(path: &Path, whole: u64) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorCode::Io, format!("cannot be continued: {error}")).with_input(display(path))
        };
        let mut file = OpenOptions::new().write(true).open(path).map_err(failed)?;
        file.set_len(whole).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, whole })
    }

    /// Removes the file if it contains nothing worth keeping.
    pub(crate) fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// True if a file begins as an experiment file.
fn is_of_experiment(path: &Path) -> bool {
    const BEGINNING: &[u8] = b"{\"sediment-eval\":";
    let mut first = [0; BEGINNING.len()];
    std::fs::metadata(path).is_ok_and(|found| found.is_file())
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok())
        && first == BEGINNING
}

impl Journal for JournalFile {
    fn append(&mut self, line: &str) -> Result<()> {
        let text = format!("{line}\n");
        match self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data()) {
            Ok(()) => {
                self.whole += text.len() as u64;
                Ok(())
            }
            // Pipes and devices cannot be synchronised.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
            Err(error) => {
                // An incomplete line is useless.
                let _ = self.file.set_len(self.whole);
                let _ = self.file.seek(SeekFrom::Start(self.whole));
                Err(Error::new(ErrorCode::Io, format!("cannot write a run: {error}"))
                    .with_input(display(&self.path))
                    .with_hint(format!(
                        "free some space, then: sediment eval resume {}; earlier runs are kept",
                        self.path.display()
                    )))
            }
        }
    }
}
