// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mapped files of every process, at the last line that was read.
//!
//! A process begins with its parent's mappings at the fork, and loses all of them when it executes another program. If
//! perf did not print the process of a sample, its address is looked up in all processes, and must denote the same in
//! each that has a mapping there.

use super::lines::PrintedMapping;
use crate::read::DsoId;
use sediment_core::error::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Number of mappings that forked processes may copy, in addition to one for each byte of the input.
const COPIES: u64 = 1 << 16;
/// Number of processes that are searched for an address without a printed process.
const LOOKED_THROUGH: usize = 64;

/// A mapped part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MappedPart {
    end: u64,
    /// Offset in the file of the first byte.
    file_offset: u64,
    /// The file; `None` for memory without a file.
    dso: Option<DsoId>,
}

/// Result of looking up an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressLookup {
    File(DsoId, u64),
    NoFile,
    Unmapped,
    /// Different in several processes.
    Several,
}

#[derive(Debug)]
pub(super) struct ProcessMappings {
    spaces: HashMap<u32, Rc<BTreeMap<u64, MappedPart>>>,
    copied: u64,
    most_copied: u64,
}

impl ProcessMappings {
    /// Makes it for an input of this many bytes.
    pub(super) fn new(length: u64) -> Self {
        Self { spaces: HashMap::new(), copied: 0, most_copied: length.saturating_add(COPIES) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    pub(super) fn map(&mut self, mapping: &PrintedMapping, dso: Option<DsoId>) -> Result<()> {
        let (start, end) = (mapping.start, mapping.start.saturating_add(mapping.length));
        if start >= end {
            return Ok(());
        }
        let shared = self.spaces.entry(mapping.process).or_default();
        if Rc::strong_count(shared) > 1 {
            self.copied += shared.len() as u64;
            if self.copied > self.most_copied {
                return Err(Error::new(
                    ErrorCode::TooLarge,
                    "more forking processes than a recording can hold",
                ));
            }
        }
        let space = Rc::make_mut(shared);
        let covered: Vec<(u64, MappedPart)> = space
            .range(..end)
            .rev()
            .take_while(|(_, part)| part.end > start)
            .map(|(start, part)| (*start, *part))
            .collect();
        for (old, part) in covered {
            space.remove(&old);
            if old < start {
                space.insert(old, MappedPart { end: start, ..part });
            }
            if part.end > end {
                let file_offset = part.file_offset.saturating_add(end - old);
                space.insert(end, MappedPart { file_offset, ..part });
            }
        }
        space.insert(start, MappedPart { end, file_offset: mapping.file_offset, dso });
        Ok(())
    }

    pub(super) fn exec(&mut self, process: u32) {
        self.spaces.insert(process, Rc::default());
    }

    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        if let Some(space) = self.spaces.get(&parent).filter(|_| parent != child) {
            let space = Rc::clone(space);
            self.spaces.insert(child, space);
        }
    }

    pub(super) fn find(&self, process: Option<u32>, address: u64) -> AddressLookup {
        match process.and_then(|process| self.spaces.get(&process)) {
            Some(space) => find(space, address),
            None if process.is_some() && self.spaces.len() > 1 => AddressLookup::Unmapped,
            None if self.spaces.len() > LOOKED_THROUGH => AddressLookup::Several,
            None => {
                let mut found = AddressLookup::Unmapped;
                for space in self.spaces.values() {
                    match find(space, address) {
                        AddressLookup::Unmapped => {}
                        other if found == AddressLookup::Unmapped || found == other => found = other,
                        _ => return AddressLookup::Several,
                    }
                }
                found
            }
        }
    }
}

fn find(space: &BTreeMap<u64, MappedPart>, address: u64) -> AddressLookup {
    match space.range(..=address).next_back() {
        Some((start, part)) if address < part.end => match part.dso {
            Some(dso) => AddressLookup::File(dso, part.file_offset.saturating_add(address - start)),
            None => AddressLookup::NoFile,
        },
        _ => AddressLookup::Unmapped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(process: u32, start: u64, length: u64, file_offset: u64) -> PrintedMapping<'static> {
        PrintedMapping {
            process,
            start,
            length,
            file_offset,
            build_id: None,
            executable: true,
            kernel: false,
            path: b"/x",
        }
    }

    #[test]
    fn newer_mappings_hide_older_ones_and_forks_part() {
        let (a, b) = (DsoId(0), DsoId(1));
        let mut processes = ProcessMappings::new(0);
        processes.map(&mapping(1, 0x1000, 0x3000, 0x100), Some(a)).unwrap();
        processes.fork(1, 2);
        processes.map(&mapping(2, 0x2000, 0x1000, 0), Some(b)).unwrap();
        let at = |process, address| processes.find(process, address);
        assert_eq!(at(Some(1), 0x2010), AddressLookup::File(a, 0x1110));
        assert_eq!(at(Some(2), 0x1010), AddressLookup::File(a, 0x110));
        assert_eq!(at(Some(2), 0x2010), AddressLookup::File(b, 0x10));
        assert_eq!(at(Some(2), 0x3010), AddressLookup::File(a, 0x2110));
        assert_eq!(at(Some(2), 0x4000), AddressLookup::Unmapped);
        assert_eq!(at(None, 0x1010), AddressLookup::File(a, 0x110), "the same in both");
        assert_eq!(at(None, 0x2010), AddressLookup::Several);
        assert_eq!(at(Some(3), 0x1010), AddressLookup::Unmapped);
        processes.exec(2);
        assert_eq!(processes.find(None, 0x2010), AddressLookup::File(a, 0x1110));
    }
}
