// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common steps of tracing recorders at the beginning and the end of a program.

use super::system::{self, Status};
use super::{refusal, rights::has_other_rights};
use nix::unistd::Pid;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::command::Outcome;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) fn not_started(words: &[OsString], error: &std::io::Error) -> Error {
    let name = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorCode::ProgramFailed, format!("{name}: program not found"))
        }
        _ => Error::new(ErrorCode::ProgramFailed, format!("{name}: cannot start: {error}")),
    }
}

/// Waits for a child that is no longer traced; `None` if another part of this process has waited for it.
pub(crate) fn wait_for_end(process: Pid) -> Option<Outcome> {
    loop {
        match system::wait_for(process) {
            Ok(Status::Exited(code)) => return Some(Outcome::Exited(code)),
            Ok(Status::Killed(signal)) => return Some(Outcome::Signalled(signal)),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// Refuses a program that gets another user's rights from its file: traced, it would not get them, and would behave
/// differently.
pub(crate) fn refuse_other_rights(program: &OsString) -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let Some(path) = found_on_search_path(program) else { return Ok(()) };
    if !has_other_rights(path.clone()) {
        return Ok(());
    }
    Err(refusal::other_rights(&path))
}

/// Finds the file of a program by its name.
pub(crate) fn found_on_search_path(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_path_buf());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}
