// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that the recorder shares with the recorded programs: a file without a name, of which programs map parts.
//! The counts of a program stay there, however it ends.

use crate::tracing::mappings::user_of;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{Pid, Whence, lseek};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// The file, and the size of its used part.
#[derive(Debug)]
pub(super) struct SharedMemory {
    file: File,
    length: u64,
    /// Path at which another user's processes find it.
    path: Option<PathBuf>,
}

/// Bytes at the beginning that the whole recording shares.
pub(super) const SHARED_PAGE: u64 = 4096;

impl SharedMemory {
    pub(super) fn new() -> io::Result<Self> {
        let file = File::from(memfd_create(c"sediment", MFdFlags::MFD_CLOEXEC)?);
        file.set_len(SHARED_PAGE)?;
        Ok(Self { file, length: SHARED_PAGE, path: None })
    }

    /// Makes it for processes of other users, who may not open the recorder's files: a file that only the user of the process
    /// of [`Self::show_to`] can open, until [`Self::hide`].
    pub(super) fn for_others() -> io::Result<Self> {
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let path = PathBuf::from(format!("/dev/shm/sediment-{:016x}", u64::from_ne_bytes(random)));
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let shared = Self { file, length: SHARED_PAGE, path: Some(path) };
        shared.file.set_len(SHARED_PAGE)?;
        Ok(shared)
    }

    /// Lets a process open it.
    ///
    /// # Errors
    /// If the process does not find it, because it has other mounts.
    pub(super) fn show_to(&self, process: Pid) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let user = user_of(process).ok_or(io::ErrorKind::NotFound)?;
        fchown(&self.file, Some(user), None)?;
        let inside = Path::new("/proc")
            .join(process.to_string())
            .join("root")
            .join(path.strip_prefix("/").unwrap_or(path));
        let (found, own) = (std::fs::metadata(inside)?, self.file.metadata()?);
        if (found.dev(), found.ino()) != (own.dev(), own.ino()) {
            return Err(io::Error::other("the process is in a container with a /dev/shm of its own"));
        }
        Ok(())
    }

    /// From now on, only processes that may read the recorder's open files can open it.
    pub(super) fn hide(&mut self) {
        if let Some(path) = self.path.take() {
            // If this fails, another process has removed it.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Path by which processes open it.
    pub(super) fn path(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => format!("/proc/{}/fd/{}", Pid::this(), self.file.as_raw_fd()),
        }
    }

    /// Takes a part of whole pages, which contains zeros, and returns its offset.
    pub(super) fn take(&mut self, length: u64) -> io::Result<u64> {
        let offset = self.length;
        let end = offset.checked_add(length).ok_or(io::ErrorKind::OutOfMemory)?;
        self.file.set_len(end)?;
        self.length = end;
        Ok(offset)
    }

    /// Releases the memory of a part.
    pub(super) fn give_back(&self, part: &Range<u64>) {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        // If this fails, the part only stays in memory longer.
        let _ = fallocate(&self.file, flags, part.start as i64, (part.end - part.start) as i64);
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    pub(super) fn number(&self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, offset).map_or(0, |()| u32::from_le_bytes(bytes))
    }

    /// Reads the bytes of a part; zeros if nothing was written there.
    pub(super) fn read(&self, part: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (part.end - part.start) as usize];
        if self.has_data(&part) {
            // A part that cannot be read counts as zeros.
            let _ = self.file.read_exact_at(&mut bytes, part.start);
        }
        bytes
    }

    /// True if something may have been written to a part.
    pub(super) fn has_data(&self, part: &Range<u64>) -> bool {
        lseek(&self.file, part.start as i64, Whence::SeekData).is_ok_and(|at| (at as u64) < part.end)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.hide();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_zeros_until_they_are_written() {
        let mut shared = SharedMemory::new().unwrap();
        let first = shared.take(8192).unwrap();
        let second = shared.take(4096).unwrap();
        assert_eq!((first, second), (SHARED_PAGE, SHARED_PAGE + 8192));
        assert!(!shared.has_data(&(first..second)));
        shared.write(first + 4096, &7u32.to_le_bytes()).unwrap();
        assert!(shared.has_data(&(first..second)) && !shared.has_data(&(second..second + 4096)));
        assert_eq!(shared.number(first + 4096), 7);
        assert_eq!(shared.read(first + 4096..first + 4100), 7u32.to_le_bytes());
        shared.give_back(&(first..second));
        assert_eq!(shared.number(first + 4096), 0);
    }
}
