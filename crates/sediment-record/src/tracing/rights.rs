// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights that decide which processes may be traced, and rights that a traced program does not get.

use super::system;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

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
