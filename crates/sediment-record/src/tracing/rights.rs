// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights that decide which processes may be traced, and rights that a traced program does not get.

use super::mappings::status_field;
use super::system;
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// True if we have the capability CAP_SYS_PTRACE.
pub(crate) fn may_trace_everything() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let ours = status_field(Pid::this(), "CapEff").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    ours.is_some_and(|mask| mask >> CAP_SYS_PTRACE & 1 == 1)
}

/// True if a program runs with the rights of its owner or group, or with capabilities of its file, instead of its
/// caller's rights. False if this cannot be found out quickly, because a traced program may serve the file, and wait
/// for the recorder.
pub(crate) fn has_other_rights(path: PathBuf) -> bool {
    const SOON: Duration = Duration::from_millis(500);
    let (answer, answers) = channel();
    let ask = move || answer.send(file_has_other_rights(&path)).unwrap_or_default();
    let asked = std::thread::Builder::new().spawn(ask).is_ok();
    asked && answers.recv_timeout(SOON).unwrap_or(false)
}

fn file_has_other_rights(path: &Path) -> bool {
    let Ok(file) = std::fs::metadata(path) else { return false };
    let mode = file.permissions().mode();
    file.is_file() && mode & 0o111 != 0 && (mode & 0o6000 != 0 || system::has_capabilities(path))
}
