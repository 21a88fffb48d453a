// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`RECORDERS`]: each starts a program and leaves what one profiler saw of it, as bytes for [`crate::read::read`]. Starts
//! processes, in a folder that it is handed.
//!
//! A recording holds paths and command lines: its files are readable by their owner alone, and are removed once read.
//! To add a recorder: one file here, one row in [`RECORDERS`], a case in tests/toolchain.

pub mod breakpoints;
pub mod valgrind;

use crate::error::Result;
use crate::measure::Command;
use std::path::Path;

/// One way to record a program.
#[derive(Debug, Clone, Copy)]
pub struct Recorder {
    /// The name the user chooses it by.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Whether it works on this machine; otherwise an error of kind [`crate::ErrorKind::Unsupported`] with what to install.
    pub available: fn() -> Result<()>,
    /// Runs the command to its end and gives what was recorded, one file for each process that left one: at least one. Its
    /// own files are made in the folder and removed. A command that fails is an error that names its exit code.
    pub record: fn(&Command, &Path) -> Result<Vec<RecordedFile>>,
}

/// What a profiler wrote of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFile {
    /// Its file name, without a folder.
    pub name: String,
    /// Its content, in a format of [`crate::read::READERS`].
    pub bytes: Vec<u8>,
}

/// Every recorder there is, the best first.
pub const RECORDERS: &[Recorder] = &[valgrind::RECORDER];

/// The recorder of this name.
#[must_use]
pub fn recorder(name: &str) -> Option<&'static Recorder> {
    RECORDERS.iter().find(|recorder| recorder.name == name)
}
