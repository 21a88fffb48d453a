// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes code in the memory of a process from outside.

use super::changes::{Changes, SiteChange};
use super::sites::{PAGE, TextSegment};
use nix::unistd::Pid;
use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Direction in which code changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeState {
    ToStubs,
    ToOriginal,
}

/// Number of bytes that are read and written at once.
const AT_ONCE: u64 = 64 * PAGE;

/// Makes the changes of a file for which the filter is true, at a place in memory, whole pages at once: no change spans
/// two pages. Returns the number of changes that were not made because the memory contained neither the old nor the new
/// bytes.
pub(super) fn write_changes(
    memory: &File,
    (bias, changes): (u64, &Changes),
    to: CodeState,
    passes: &dyn Fn(&SiteChange<'_>) -> bool,
) -> io::Result<u64> {
    change_pages(memory, (bias, changes), to, passes, None)
}

/// Receives the address of each run of pages, with its bytes before and after.
type KeepPages<'a> = &'a mut dyn FnMut(u64, Vec<u8>, Vec<u8>);

/// Does the same; `keep` gets the pages.
fn change_pages(
    memory: &File,
    (bias, changes): (u64, &Changes),
    to: CodeState,
    passes: &dyn Fn(&SiteChange<'_>) -> bool,
    mut keep: Option<KeepPages<'_>>,
) -> io::Result<u64> {
    let mut others = 0;
    let (mut bytes, mut before) = (Vec::new(), Vec::new());
    let mut changes = changes.iter().filter(passes).peekable();
    while let Some(first) = changes.peek() {
        let start = first.at.wrapping_add(bias) & !(PAGE - 1);
        bytes.clear();
        let mut end = start;
        // Pages without a change end a run, so that they stay shared with the file.
        while let Some(SiteChange { at, original, changed, .. }) =
            changes.next_if(|change| change.at.wrapping_add(bias) < (end + PAGE).min(start + AT_ONCE))
        {
            let at = at.wrapping_add(bias);
            let page_end = (at | (PAGE - 1)) + 1;
            if page_end > end {
                let length = bytes.len();
                bytes.resize(length + (page_end - end) as usize, 0);
                memory.read_exact_at(&mut bytes[length..], end)?;
                if keep.is_some() {
                    before.extend_from_slice(&bytes[length..]);
                }
                end = page_end;
            }
            let there = &mut bytes[(at - start) as usize..][..changed.len()];
            let (expected, wanted) = match to {
                CodeState::ToStubs => (original, changed),
                CodeState::ToOriginal => (changed, original),
            };
            if there == expected {
                there.copy_from_slice(wanted);
            } else if there != wanted {
                others += 1;
            }
        }
        memory.write_all_at(&bytes, start)?;
        if let Some(keep) = &mut keep {
            keep(start.wrapping_sub(bias), std::mem::take(&mut before), std::mem::take(&mut bytes));
        }
    }
    Ok(others)
}

/// Pages of a file without changes and with all changes, for the next process that maps the file in the same way.
#[derive(Debug)]
pub(super) struct PreparedPages {
    pub(super) runs: Vec<PreparedRun>,
    length: usize,
}

impl Drop for PreparedPages {
    fn drop(&mut self) {
        PREPARED.fetch_sub(self.length, Ordering::Relaxed);
    }
}

/// Consecutive pages.
#[derive(Debug)]
pub(super) struct PreparedRun {
    /// Address as linked.
    pub(super) start: u64,
    pub(super) before: Vec<u8>,
    pub(super) after: Vec<u8>,
}

/// Largest number of bytes of prepared pages, of one file and of all; each page is stored twice.
const MOST_PREPARED: usize = 16 << 20;
const ALL_PREPARED: usize = 48 << 20;
/// Number of bytes of all prepared pages.
static PREPARED: AtomicUsize = AtomicUsize::new(0);

/// A file that a process has just mapped.
pub(super) struct NewCode<'a> {
    pub(super) process: Pid,
    pub(super) memory: &'a File,
    pub(super) bias: u64,
    pub(super) path: &'a str,
    pub(super) inode: u64,
    pub(super) text: &'a [TextSegment],
}

impl NewCode<'_> {
    /// Makes all changes. In the second process, prepares the pages for the next ones. Returns the number of changes
    /// that were not made.
    pub(super) fn change(
        &self,
        changes: &Changes,
        (is_second, prepared_pages): (bool, &OnceCell<Option<PreparedPages>>),
    ) -> io::Result<u64> {
        if let Some(Some(prepared)) = prepared_pages.get() {
            if self.write_prepared(prepared)? {
                return Ok(0);
            }
        }
        let mut runs = Vec::new();
        let mut length = 0;
        let mut keep = |start, before: Vec<u8>, after| {
            length += before.len();
            if length <= MOST_PREPARED {
                runs.push(PreparedRun { start, before, after });
            }
        };
        let changes = (self.bias, changes);
        if !is_second {
            return change_pages(self.memory, changes, CodeState::ToStubs, &|_| true, None);
        }
        let others = change_pages(self.memory, changes, CodeState::ToStubs, &|_| true, Some(&mut keep))?;
        prepared_pages.get_or_init(|| {
            let is_same = self.file().is_some();
            let fits = length <= MOST_PREPARED && PREPARED.load(Ordering::Relaxed) + length <= ALL_PREPARED;
            (is_same && others == 0 && fits).then(|| {
                PREPARED.fetch_add(length, Ordering::Relaxed);
                PreparedPages { runs, length }
            })
        });
        Ok(others)
    }

    /// Opens the file; None if there is another file at its path. It must not stay open: nobody could unmount its file
    /// system.
    pub(super) fn file(&self) -> Option<File> {
        let file = File::open(format!("/proc/{}/root{}", self.process, self.path)).ok()?;
        file.metadata().is_ok_and(|about| about.is_file() && about.ino() == self.inode).then_some(file)
    }

    /// Writes prepared pages; false if the file or the memory of the process has changed.
    fn write_prepared(&self, prepared: &PreparedPages) -> io::Result<bool> {
        let Ok(pages) = File::open(format!("/proc/{}/pagemap", self.process)) else { return Ok(false) };
        let Some(file) = self.file() else { return Ok(false) };
        let mut now = Vec::new();
        for run in &prepared.runs {
            let Some(offset) = self.offset(run.start) else { return Ok(false) };
            now.resize(run.before.len(), 0);
            let read = file.read_exact_at(&mut now, offset);
            let at = run.start.wrapping_add(self.bias);
            if read.is_err() || now != run.before || !is_of_file(&pages, at, now.len() as u64) {
                return Ok(false);
            }
        }
        for run in &prepared.runs {
            self.memory.write_all_at(&run.after, run.start.wrapping_add(self.bias))?;
        }
        Ok(true)
    }

    /// Offset of a page of code in the file.
    fn offset(&self, page: u64) -> Option<u64> {
        let has_it =
            |segment: &&TextSegment| (segment.code.start & !(PAGE - 1)..segment.code.end).contains(&page);
        let segment = self.text.iter().find(has_it)?;
        segment.file_offset.checked_add_signed(page.wrapping_sub(segment.code.start) as i64)
    }
}

/// True if all these pages are the file's own: the process has no private copies.
pub(super) fn is_of_file(pages: &File, address: u64, length: u64) -> bool {
    /// Bits of an entry in /proc/ID/pagemap: in memory, in swap, of a file.
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const OF_FILE: u64 = 1 << 61;
    let mut entries = vec![0; (length / PAGE * 8) as usize];
    pages.read_exact_at(&mut entries, address / PAGE * 8).is_ok()
        && entries.chunks_exact(8).filter_map(|entry| entry.first_chunk()).all(|entry| {
            let bits = u64::from_ne_bytes(*entry);
            bits & SWAPPED == 0 && bits & (PRESENT | OF_FILE) != PRESENT
        })
}
