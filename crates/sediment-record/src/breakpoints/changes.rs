// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes to code in runs of pages, while nobody executes it or writes to it.

use super::budget::PAGE;
use crate::tracing::memory::TraceeMemory;

/// Pages that are read or written at once.
pub(super) const PAGES_AT_ONCE: u64 = 64;
/// Largest number of bytes of a [`CodeChange`]: a jump after a landing pad for indirect calls.
pub(super) const LONGEST_CHANGE: usize = 12;

/// Replacement of some bytes by others.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeChange {
    address: u64,
    length: usize,
    /// New bytes: the first `length` are valid.
    pub(super) bytes: [u8; LONGEST_CHANGE],
    /// Bytes that must be in memory before the change: their address (at most the address of the change), the bytes,
    /// and their number.
    expected: Option<(u64, [u8; LONGEST_CHANGE], usize)>,
}

impl CodeChange {
    /// Change to these bytes.
    pub(super) fn new(address: u64, bytes: &[u8]) -> Self {
        Self { address, length: bytes.len(), bytes: padded(bytes), expected: None }
    }

    /// Makes the change conditional: nothing is written unless these bytes are at this address.
    pub(super) fn expects(&mut self, address: u64, bytes: &[u8]) {
        self.expected = Some((address, padded(bytes), bytes.len()));
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn end(&self) -> u64 {
        self.address + self.length as u64
    }

    /// First byte that it reads or writes, and the end of those bytes.
    fn looks_at(&self) -> (u64, u64) {
        let own = (self.address, self.end());
        let (address, length) = self.expected.map_or((own.0, self.length), |(at, _, length)| (at, length));
        (own.0.min(address), own.1.max(address + length as u64))
    }

    /// True if memory has the expected bytes. `start` is the address of the first byte of `now`.
    fn may_replace(&self, start: u64, now: &[u8]) -> bool {
        self.expected.is_none_or(|(address, expected, length)| {
            let inside = (address - start) as usize;
            now.get(inside..inside + length) == Some(&expected[..length])
        })
    }
}

fn padded<const LENGTH: usize>(bytes: &[u8]) -> [u8; LENGTH] {
    let mut all = [0; LENGTH];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}

/// Makes changes, in ascending order of addresses, in memory that nobody executes or writes to now. With `together`,
/// neighbouring pages are written at once; if this fails, each change is written by itself. Returns for each change
/// whether it was made.
pub(super) fn write_at_rest(memory: &dyn TraceeMemory, changes: &[CodeChange], together: bool) -> Vec<bool> {
    let one_by_one = |change: &CodeChange| {
        let (start, end) = change.looks_at();
        let mut now = [0; 2 * LONGEST_CHANGE];
        let now = &mut now[..(end - start) as usize];
        let fits = change.expected.is_none() || memory.read(start, now).is_ok();
        fits && change.may_replace(start, now) && memory.write(change.address, change.bytes()).is_ok()
    };
    if !together {
        return changes.iter().map(one_by_one).collect();
    }
    let mut made = Vec::with_capacity(changes.len());
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let mut page = first.address / PAGE;
        let near = rest.iter().take_while(|change| {
            let here = change.address / PAGE;
            let near = here <= page + 1 && here < first.address / PAGE + PAGES_AT_ONCE;
            page = if near { here } else { page };
            near
        });
        let (run, others) = rest.split_at(near.count());
        let start = run.iter().map(|change| change.looks_at().0).min().unwrap_or(first.address);
        let end = run.iter().map(CodeChange::end).max().unwrap_or(start);
        let looked = run.iter().map(|change| change.looks_at().1).max().unwrap_or(end);
        let mut bytes = vec![0; (looked - start) as usize];
        let read = memory.read(start, &mut bytes).is_ok();
        let begun = made.len();
        for change in run {
            let fits = change.may_replace(start, &bytes);
            made.push(fits);
            if fits {
                let inside = (change.address - start) as usize;
                bytes[inside..inside + change.length].copy_from_slice(change.bytes());
            }
        }
        let (from, to) = ((first.address - start) as usize, (end - start) as usize);
        if !read || memory.write(first.address, &bytes[from..to]).is_err() {
            made.truncate(begun);
            made.extend(run.iter().map(one_by_one));
        }
        rest = others;
    }
    made
}
