// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory and mappings of a process, opened as long as this is allowed. So a process that makes itself unreadable later
//! (PR_SET_DUMPABLE) can still be restored.

use crate::tracing::mappings::{ProcessMapping, mappings_in};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Open files of a process, until it becomes another program.
#[derive(Debug)]
pub(super) struct OpenedProcess {
    pub(super) memory: File,
    mappings: File,
}

impl OpenedProcess {
    /// Opens them through a thread of the process that has not ended.
    pub(super) fn of(thread: Pid) -> io::Result<Self> {
        Ok(Self {
            memory: File::options().read(true).write(true).open(format!("/proc/{thread}/mem"))?,
            mappings: File::open(format!("/proc/{thread}/maps"))?,
        })
    }

    /// Returns all mappings, by address.
    pub(super) fn mappings(&self) -> io::Result<Vec<ProcessMapping>> {
        const AT_ONCE: usize = 1 << 16;
        let mut text = Vec::new();
        loop {
            let length = text.len();
            text.resize(length + AT_ONCE, 0);
            let read = self.mappings.read_at(&mut text[length..], length as u64)?;
            text.truncate(length + read);
            if read == 0 {
                return Ok(mappings_in(&text));
            }
        }
    }
}
