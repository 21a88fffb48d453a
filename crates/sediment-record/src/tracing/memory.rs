// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of another process, read and written through `/proc/ID/mem`, even if the process may not write there itself,
//! and while its threads run. The processor fetches a breakpoint as one instruction, so a thread executes either the
//! breakpoint or the original instruction.

use super::mappings::all_mappings;
use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// Number of bytes that ptrace reads and writes at once.
const WORD: u64 = 8;

/// The memory of one address space.
pub(crate) trait TraceeMemory: std::fmt::Debug {
    /// Reads from this address until the buffer is full or mapped memory ends. Returns the number of bytes.
    fn read_some(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// As [`Self::read_some`], for a stopped process that has not called exec since its memory was opened.
    fn read_at_rest(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_some(address, buffer)
    }

    /// Writes exactly these bytes.
    fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()>;

    /// As [`Self::write`], for code that the program may have copied to memory that it shares with others and may not
    /// write to.
    fn restore(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(address, bytes)
    }

    /// Returns itself if several of our threads may use it at once.
    fn shared(&self) -> Option<&(dyn TraceeMemory + Sync)> {
        None
    }
}

impl dyn TraceeMemory + '_ {
    /// Fills the buffer from this address on.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self.read_some(address, buffer)? {
            read if read == buffer.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Returns the 64-bit number at this address.
    pub(crate) fn number(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// Returns the zero-terminated string at this address, if it is no longer than a path may be.
    pub(crate) fn text(&self, address: u64) -> Option<OsString> {
        const LONGEST: usize = 4096;
        let mut bytes = vec![0; LONGEST];
        // The string may end just before unmapped memory.
        let read = self.read_some(address, &mut bytes).ok()?;
        let length = bytes[..read].iter().position(|byte| *byte == 0)?;
        bytes.truncate(length);
        Some(OsString::from_vec(bytes))
    }
}

/// Memory of a process as opened: after an exec, the process has another memory.
#[derive(Debug)]
pub(crate) struct ProcessMemory {
    thread: Pid,
    file: File,
}

impl ProcessMemory {
    pub(crate) fn of(thread: Pid) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{thread}/mem"))?;
        Ok(Self { thread, file })
    }
}

impl TraceeMemory for ProcessMemory {
    fn read_some(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], address + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(_) if read > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// Uses a single system call, which the kernel handles faster than reading the file page by page.
    fn read_at_rest(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let there = RemoteIoVec { base: address as usize, len: buffer.len() };
        match process_vm_readv(self.thread, &mut [IoSliceMut::new(buffer)], &[there]) {
            Ok(read) if read == buffer.len() => Ok(read),
            // Memory that the process itself may not read is read through the file.
            _ => self.read_some(address, buffer),
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, address)
    }

    fn restore(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let Err(error) = self.write(address, bytes) else { return Ok(()) };
        let all = all_mappings(self.thread)?;
        let Some(here) = all.iter().find(|mapping| mapping.range.contains(&address)) else {
            return Err(error);
        };
        let at = here.offset + (address - here.range.start);
        // Otherwise the program, or we, may write to the same memory elsewhere.
        let same = all.iter().filter(|other| (&other.path, other.inode) == (&here.path, here.inode));
        let addresses = same.filter_map(|other| Some(other.range.start + at.checked_sub(other.offset)?));
        let written =
            addresses.filter(|other| *other != address).any(|other| self.write(other, bytes).is_ok());
        let by_file = |file: PathBuf| -> io::Result<bool> {
            let is_named = std::fs::read_link(&file)?.as_os_str() == here.path.as_str();
            let is_it = is_named && std::fs::metadata(&file)?.ino() == here.inode;
            Ok(is_it && OpenOptions::new().write(true).open(file)?.write_all_at(bytes, at).is_ok())
        };
        let mut open =
            std::fs::read_dir(format!("/proc/{}/fd", self.thread))?.flatten().map(|file| file.path());
        if written || open.any(|file| by_file(file).unwrap_or(false)) { Ok(()) } else { Err(error) }
    }

    fn shared(&self) -> Option<&(dyn TraceeMemory + Sync)> {
        Some(self)
    }
}

/// Memory of a stopped thread, accessed word by word through ptrace, even if its file may not be opened. The other
/// bytes of a word must not change meanwhile.
#[derive(Debug)]
pub(crate) struct TracedMemory(Pid);

impl TracedMemory {
    pub(crate) fn of(thread: Pid) -> Self {
        Self(thread)
    }

    fn word(&self, address: u64) -> io::Result<[u8; WORD as usize]> {
        let word = ptrace::read(self.0, address as ptrace::AddressType)?;
        Ok(word.to_ne_bytes())
    }
}

impl TraceeMemory for TracedMemory {
    fn read_some(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            let at = address + read as u64;
            let inside = (at % WORD) as usize;
            let word = match self.word(at - inside as u64) {
                Ok(word) => word,
                Err(_) if read > 0 => break,
                Err(error) => return Err(error),
            };
            let more = (word.len() - inside).min(buffer.len() - read);
            buffer[read..read + more].copy_from_slice(&word[inside..inside + more]);
            read += more;
        }
        Ok(read)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        for (at, byte) in (address..).zip(bytes) {
            let inside = (at % WORD) as usize;
            let mut word = self.word(at - inside as u64)?;
            word[inside] = *byte;
            ptrace::write(self.0, (at - inside as u64) as ptrace::AddressType, i64::from_ne_bytes(word))?;
        }
        Ok(())
    }
}
