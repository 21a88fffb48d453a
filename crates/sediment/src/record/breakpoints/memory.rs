// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of another process, read and written through `/proc/ID/mem`: also where it may not write itself, and while its
//! threads run. A trap is one instruction as the processor fetches it, so a thread sees either it or what was there before.

use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;

/// The memory of a process, as it was when it was opened: what it becomes by exec is another.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    pub(super) fn of(process: Pid) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{process}/mem")).map(Self)
    }

    pub(super) fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, address)
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }

    /// The 64-bit number at this address.
    pub(super) fn number(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// The text at this address, up to its zero, if it is no longer than a path may be.
    pub(super) fn text(&self, address: u64) -> Option<OsString> {
        const LONGEST: usize = 4096;
        let mut bytes = vec![0; LONGEST];
        // It may end just before memory that is not there.
        let read = self.0.read_at(&mut bytes, address).ok()?;
        let length = bytes[..read].iter().position(|byte| *byte == 0)?;
        bytes.truncate(length);
        Some(OsString::from_vec(bytes))
    }
}
