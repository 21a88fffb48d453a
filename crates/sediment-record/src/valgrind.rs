// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records every call of a program with callgrind. It works without hardware counters, in containers and in virtual
//! machines, and misses nothing. The program runs about fifty times slower, one thread at a time.
//!
//! Callgrind writes one file for each process that the program forks, but none for programs that it executes.

use super::attend::attend;
use super::{RecordSettings, Recorded, RecordedData, Recorder, RecordingJob, RecordingTarget, Until};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::VALGRIND_HINT;
use sediment_process::command::Outcome;
use sediment_process::command::{Command, argument, probe, run};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Row of this recorder in the table of recorders.
pub(crate) const RECORDER: Recorder = Recorder {
    name: "valgrind",
    summary: "every call, by callgrind; no hardware counters; about 50 times slower",
    lacks: "speed, and child processes",
    traces: false,
    counts_all: true,
    tells_addresses: true,
    available,
    suits,
    serves_best: crate::always,
    record,
};

/// Recording of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFile {
    /// Its file name, without a folder.
    pub name: String,
    /// Its content, in a format of [`sediment_read::read::READERS`].
    pub bytes: Vec<u8>,
}

fn available() -> Result<()> {
    probe("valgrind", &["--version"], VALGRIND_HINT).map(drop)
}

fn suits(target: &RecordingTarget, settings: &RecordSettings) -> Result<()> {
    let usage = |message: &str| Err(Error::new(ErrorCode::Usage, message.to_owned()));
    match (target, settings.until) {
        (RecordingTarget::Processes(_) | RecordingTarget::System, _) => {
            usage("valgrind records only programs that it starts")
        }
        (_, Until::Output | Until::After(_)) => usage("valgrind records only until the program exits"),
        _ => Ok(()),
    }
}

fn record(job: &mut RecordingJob<'_>) -> Result<Recorded> {
    suits(job.target, job.settings)?;
    let RecordingTarget::Program(words) = job.target else {
        return Err(Error::new(ErrorCode::Usage, "valgrind records only programs that it starts"));
    };
    let mut valgrind = std::process::Command::new("valgrind");
    valgrind.arg("--quiet").args(options(job.folder));
    if job.settings.addresses {
        valgrind.arg("--dump-instr=yes");
    }
    valgrind.args(words);
    let outcome = attend(valgrind, job, false)?;
    let files: Vec<PathBuf> = recorded_files(job.folder)
        .map_err(|error| Error::new(ErrorCode::Io, format!("cannot read the recording: {error}")))?
        .into_iter()
        .map(|file| job.folder.join(file.name))
        .collect();
    if files.is_empty() {
        let started = outcome != Outcome::Exited(127);
        let message =
            if started { "valgrind wrote no recording" } else { "valgrind could not start the program" };
        return Err(Error::new(ErrorCode::ProgramFailed, message).with_hint("its messages are above"));
    }
    Ok(Recorded { kept: RecordedData::Files(files), outcome: Some(outcome) })
}

fn options(folder: &Path) -> [OsString; 3] {
    [
        "--tool=callgrind".into(),
        // Linkage names, as the linker uses them.
        "--demangle=no".into(),
        argument("--callgrind-out-file=", folder.join("callgrind.out.%p").as_os_str()),
    ]
}

/// Runs a command to its end and returns the recorded files: one for each process that left one, and at least one. Its
/// own files are created in the folder and removed.
///
/// # Errors
/// If valgrind is missing, or the command fails; the error has its exit code.
pub fn calls_of(command: &Command, folder: &Path) -> Result<Vec<RecordedFile>> {
    available()?;
    // Valgrind creates its files with the mask of the process; nobody else can access this folder.
    let private = folder.join("callgrind");
    let in_folder = |error: io::Error| {
        Error::new(ErrorCode::Io, format!("cannot store the recording: {error}"))
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
    let wrapped = command.under("valgrind", options(folder));
    run(&wrapped, 0)?.successful(command)?;
    let files = recorded_files(folder).map_err(|error| {
        Error::new(ErrorCode::ProgramFailed, format!("cannot read the recording: {error}"))
            .with_input(folder.display().to_string())
    })?;
    if files.is_empty() {
        return Err(Error::new(
            ErrorCode::ProgramFailed,
            format!("valgrind wrote no recording of {}", command.name()),
        )
        .with_hint("valgrind does not follow a program that replaces itself by exec: record the program that it becomes"));
    }
    Ok(files)
}

/// Returns the non-empty files, sorted by name.
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
