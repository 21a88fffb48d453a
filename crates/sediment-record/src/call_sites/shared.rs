// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that the recorder shares with what it records: a file without a name, of which programs map parts. What a program has
//! counted stays there, however it ends.

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{Pid, Whence, lseek};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// The file, and how much of it is in use.
#[derive(Debug)]
pub(super) struct SharedMemory {
    file: File,
    length: u64,
}

/// Bytes at the beginning that the whole recording shares.
pub(super) const SHARED_PAGE: u64 = 4096;

impl SharedMemory {
    pub(super) fn new() -> io::Result<Self> {
        let file = File::from(memfd_create(c"sediment", MFdFlags::MFD_CLOEXEC)?);
        file.set_len(SHARED_PAGE)?;
        Ok(Self { file, length: SHARED_PAGE })
    }

    /// Path by which a process that may read what we have open opens it.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", Pid::this(), self.file.as_raw_fd())
    }

    /// Takes a part of whole pages, all of it zeros; its offset.
    pub(super) fn take(&mut self, length: u64) -> io::Result<u64> {
        let offset = self.length;
        let end = offset.checked_add(length).ok_or(io::ErrorKind::OutOfMemory)?;
        self.file.set_len(end)?;
        self.length = end;
        Ok(offset)
    }

    /// Gives the memory of a part back.
    pub(super) fn give_back(&self, part: &Range<u64>) {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        // What stays is in memory for longer, and nothing else.
        let _ = fallocate(&self.file, flags, part.start as i64, (part.end - part.start) as i64);
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    pub(super) fn number(&self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, offset).map_or(0, |()| u32::from_le_bytes(bytes))
    }

    /// Bytes of a part; zeros where nobody has written.
    pub(super) fn read(&self, part: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (part.end - part.start) as usize];
        if self.has_data(&part) {
            // What cannot be read counts as nothing.
            let _ = self.file.read_exact_at(&mut bytes, part.start);
        }
        bytes
    }

    /// True if somebody may have written to a part.
    pub(super) fn has_data(&self, part: &Range<u64>) -> bool {
        lseek(&self.file, part.start as i64, Whence::SeekData).is_ok_and(|at| (at as u64) < part.end)
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
