// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records every call of a program by callgrind. Works without hardware counters, in containers and virtual machines, and
//! misses nothing; the program runs some fifty times slower, one thread at a time.
//!
//! Callgrind writes one file for each process that the program forks (not for programs that it executes).

use super::{RecordedFile, Recorder};
use crate::error::{Error, Result};
use crate::measure::VALGRIND_HINT;
use crate::measure::command::{Command, argument, probe, run};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Its row in the table.
pub const RECORDER: Recorder = Recorder {
    name: "valgrind",
    summary: "every call, by callgrind: needs no hardware counter; the program runs some fifty times slower",
    available,
    record,
};

fn available() -> Result<()> {
    probe("valgrind", &["--version"], VALGRIND_HINT).map(drop)
}

fn record(command: &Command, folder: &Path) -> Result<Vec<RecordedFile>> {
    available()?;
    // Valgrind creates its files as the process's mask says; in this folder nobody else can reach them.
    let private = folder.join("callgrind");
    let in_folder = |error: io::Error| {
        Error::failed(format!("the recording has no place to go: {error}"))
            .with_input(private.display().to_string())
    };
    std::fs::DirBuilder::new().mode(0o700).create(&private).map_err(in_folder)?;
    let files = record_into(command, &private);
    let removed = std::fs::remove_dir_all(&private).map_err(in_folder);
    let files = files?;
    removed?;
    Ok(files)
}

fn record_into(command: &Command, folder: &Path) -> Result<Vec<RecordedFile>> {
    let wrapped = command.under(
        "valgrind",
        [
            "--tool=callgrind".into(),
            // Linkage names, as the linker knows them.
            "--demangle=no".into(),
            argument("--callgrind-out-file=", folder.join("callgrind.out.%p").as_os_str()),
        ],
    );
    run(&wrapped, 0)?.successful(command)?;
    let files = recorded_files(folder).map_err(|error| {
        Error::failed(format!("the recording cannot be read: {error}"))
            .with_input(folder.display().to_string())
    })?;
    if files.is_empty() {
        return Err(Error::failed(format!("valgrind left no recording of {}", command.name()))
            .with_hint("a program that replaces itself by another is not followed: record that other one"));
    }
    Ok(files)
}

/// The files that are not empty, by name.
fn recorded_files(folder: &Path) -> io::Result<Vec<RecordedFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let bytes = std::fs::read(&path)?;
        if !bytes.is_empty() {
            files.push(RecordedFile { name, bytes });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}
