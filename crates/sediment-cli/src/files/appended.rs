// SPDX-License-Identifier: MIT OR Apache-2.0
//! Appends lines to a file that several processes use; each line is written completely or not at all.

use super::display;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use sediment_core::{Error, ErrorCode, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for another process that has locked the file.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Appends a line to a file; creates the file if it is missing. Does not follow a link or open a pipe, and removes an
/// incomplete line.
pub(crate) fn append_line(path: &Path, line: &str) -> Result<()> {
    append(path, line).map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot be written: {error}")).with_input(display(path))
    })
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let there = std::fs::symlink_metadata(path).ok();
    if there.is_some_and(|found| !found.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    // It may have become a link or a pipe meanwhile.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file =
        OpenOptions::new().read(true).append(true).create(true).custom_flags(flags.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut file = locked(file)?;
    let length = file.seek(SeekFrom::End(0))?;
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)?;
    }
    // An incomplete line of a killed process stays a line of its own.
    let begin = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{begin}{line}\n").as_bytes()).inspect_err(|_| {
        let _ = file.set_len(length);
    })
}

/// Locks the file for this process.
fn locked(mut file: File) -> io::Result<Flock<File>> {
    let began = Instant::now();
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((back, Errno::EWOULDBLOCK)) if began.elapsed() < LONGEST_WAIT => file = back,
            Err((_, error)) => return Err(error.into()),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
