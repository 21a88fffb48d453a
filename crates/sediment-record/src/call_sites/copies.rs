// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps code of files with all changes in the shared memory. A program that begins maps such a copy in place of a
//! library's code, and needs no changed pages of its own. Writing these is most of the cost of a short process.
//!
//! A copy is made for the third process that has the file at the same distance from its stubs, and mapped only
//!
//! - by the only thread of a program that has just begun, in the stub of the dynamic linker's first notice: the program
//!   itself has not run yet, so it cannot have a filter of system calls
//! - if no file of the program contains words that suggest that it looks for its mappings
//! - in place of a mapping of the same part of the same file, without private pages of the process
//! - while the file has its old times, and, once in a while, its old bytes

use super::code::{NewCode, PreparedPages, is_of_file};
use super::shared::SharedMemory;
use super::sites::{PAGE, TextSegment};
use crate::tracing::mappings::ProcessMapping;
use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A file's code with all changes.
#[derive(Debug)]
pub(super) struct CodeCopy {
    segments: Vec<CopiedSegment>,
    /// Time when its bytes were last compared with the file.
    compared: Cell<Instant>,
    /// Times of the file's last change.
    changed: [i64; 4],
}

/// A segment of it, in whole pages.
#[derive(Debug, Clone)]
struct CopiedSegment {
    /// Addresses as linked.
    pages: Range<u64>,
    file_offset: u64,
    /// Offset in the shared memory.
    offset: u64,
}

/// A copy for a process to map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappedCopy {
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) offset: u64,
}

/// Largest number of bytes of all copies.
const ALL_COPIED: u64 = 64 << 20;
/// Number of bytes of the existing copies.
static COPIED: AtomicU64 = AtomicU64::new(0);
/// If a file changed less than this time before a copy is made, it may change again within the same tick of its clock.
const SETTLED: i64 = 2;
/// The bytes of the file are compared again after this time.
const COMPARED: Duration = Duration::from_secs(1);

impl CodeCopy {
    /// Makes a copy from prepared pages; None if there is no room, or the file has changed.
    pub(super) fn of(
        prepared: (&PreparedPages, &File),
        text: &[TextSegment],
        shared: &mut SharedMemory,
        memory_left: &mut Option<u64>,
    ) -> Option<Self> {
        let changed = times(prepared.1)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_secs() as i64;
        if changed[0].max(changed[2]) > now - SETTLED {
            return None;
        }
        let mut segments = Vec::new();
        for TextSegment { code, file_offset } in text {
            let pages = code.start & !(PAGE - 1)..code.end.checked_next_multiple_of(PAGE)?;
            let file_offset = file_offset.checked_sub(code.start - pages.start)?;
            segments.push(CopiedSegment { pages, file_offset, offset: 0 });
        }
        let length = segments.iter().map(CopiedSegment::length).sum::<u64>();
        let is_too_much = memory_left.is_some_and(|left| left < length);
        if is_too_much || COPIED.load(Ordering::Relaxed) + length > ALL_COPIED {
            return None;
        }
        let contents: Option<Vec<Vec<u8>>> =
            segments.iter().map(|segment| segment.content(prepared)).collect();
        for (segment, bytes) in segments.iter_mut().zip(contents?) {
            segment.offset = shared.take(segment.length()).ok()?;
            shared.write(segment.offset, &bytes).ok()?;
        }
        COPIED.fetch_add(length, Ordering::Relaxed);
        if let Some(left) = memory_left {
            *left -= length;
        }
        Some(Self { segments, compared: Cell::new(Instant::now()), changed })
    }

    /// Returns the copies to map in a process that has mapped the file with this bias; `None` if the file is not the
    /// same.
    pub(super) fn mapped(
        &self,
        code: &NewCode<'_>,
        mapped: &[ProcessMapping],
        prepared: (&PreparedPages, &File),
        shared: &SharedMemory,
    ) -> Option<Vec<MappedCopy>> {
        if times(prepared.1)? != self.changed {
            return None;
        }
        if self.compared.get().elapsed() > COMPARED {
            let is_same = |segment: &CopiedSegment| {
                let copied = shared.read(segment.offset..segment.offset + segment.length());
                segment.content(prepared).is_some_and(|bytes| bytes == copied)
            };
            if !self.segments.iter().all(is_same) {
                return None;
            }
            self.compared.set(Instant::now());
        }
        let pages = File::open(format!("/proc/{}/pagemap", code.process)).ok()?;
        let copies = self.segments.iter().map(|segment| {
            let range =
                segment.pages.start.wrapping_add(code.bias)..segment.pages.end.wrapping_add(code.bias);
            let there = mapped.iter().find(|mapping| mapping.range == range)?;
            let is_it = there.executable
                && !there.writable
                && there.inode == code.inode
                && there.offset == segment.file_offset;
            (is_it && is_of_file(&pages, range.start, segment.length())).then_some(MappedCopy {
                address: range.start,
                length: segment.length(),
                offset: segment.offset,
            })
        });
        copies.collect()
    }

    /// Releases its memory, which no process has mapped or will map.
    pub(super) fn give_back(&self, shared: &SharedMemory) {
        for segment in &self.segments {
            shared.give_back(&(segment.offset..segment.offset + segment.length()));
            COPIED.fetch_sub(segment.length(), Ordering::Relaxed);
        }
    }
}

impl CopiedSegment {
    fn length(&self) -> u64 {
        self.pages.end - self.pages.start
    }

    /// Returns the bytes of the file with all changes; None if they are not the bytes for which the changes were made.
    fn content(&self, (prepared, file): (&PreparedPages, &File)) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.length() as usize];
        let mut done = 0;
        while done < bytes.len() {
            match file.read_at(&mut bytes[done..], self.file_offset + done as u64) {
                // After its end, the last page contains zeros.
                Ok(0) => break,
                Ok(read) => done += read,
                Err(_) => return None,
            }
        }
        for run in prepared.runs.iter().filter(|run| self.pages.contains(&run.start)) {
            let place = (run.start - self.pages.start) as usize;
            let there = bytes.get_mut(place..place + run.before.len())?;
            if *there != run.before[..] {
                return None;
            }
            there.copy_from_slice(&run.after);
        }
        Some(bytes)
    }
}

/// Returns when a file was last changed: the modification time, and the system's change time.
fn times(file: &File) -> Option<[i64; 4]> {
    use std::os::unix::fs::MetadataExt as _;
    let about = file.metadata().ok()?;
    Some([about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()])
}
