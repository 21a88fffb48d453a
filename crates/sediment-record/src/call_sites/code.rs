// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes code in the memory of a process from outside.

use super::sites::PAGE;
use super::stubs::{Changes, SiteChange};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Way in which code changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeState {
    ToStubs,
    ToOriginal,
}

pub(super) fn memory_of(process: Pid) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/{process}/mem"))
}

/// Bytes that are read and written at once.
const AT_ONCE: u64 = 64 * PAGE;

/// Makes those changes that pass, of a file at a place in memory, whole pages at once: no change lies across two. The number of those that are not made,
/// as neither of both sorts of bytes stands there.
pub(super) fn write_changes(
    memory: &File,
    (bias, changes): (u64, &Changes),
    to: CodeState,
    passes: &dyn Fn(&SiteChange<'_>) -> bool,
) -> io::Result<u64> {
    let mut others = 0;
    let mut changes = changes.iter().filter(passes).peekable();
    while let Some(first) = changes.peek() {
        let start = first.at.wrapping_add(bias) & !(PAGE - 1);
        let mut bytes = Vec::new();
        let mut end = start;
        // Pages without a change end a run, so that they stay shared with the file.
        while let Some(SiteChange { at, original, changed, .. }) =
            changes.next_if(|change| change.at.wrapping_add(bias) < (end + PAGE).min(start + AT_ONCE))
        {
            let at = at.wrapping_add(bias);
            let page_end = (at | (PAGE - 1)) + 1;
            if page_end > end {
                let mut pages = vec![0; (page_end - end) as usize];
                memory.read_exact_at(&mut pages, end)?;
                bytes.extend(pages);
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
    }
    Ok(others)
}
