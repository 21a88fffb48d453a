// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which file was mapped where, in every process, at the moment that the records have been followed to.
//!
//! A process begins with what its parent had when it forked, loses all of it when it starts another program, and gains
//! mappings that hide older ones. perf records no unmapping. A fork copies nothing: what both have in common becomes a layer
//! under each, so that memory stays in proportion to the recording. Layers that pile up are made one.

use crate::error::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// From this many layers on they are made one: looking an address up goes through them all.
const DEEPEST: usize = 64;
/// Mappings that may be copied for that, on top of a few for each that was recorded. Only a recording made to do harm, in which
/// every one of thousands of processes forks from a pile of its own, needs more.
const COPIES: usize = 1 << 18;
const COPIES_PER_MAPPING: usize = 4;

/// What was mapped by one record.
#[derive(Debug, Clone)]
pub(super) struct Mapping<'a> {
    pub(super) start: u64,
    pub(super) length: u64,
    /// Offset in the file of the byte at `start`.
    pub(super) file_offset: u64,
    pub(super) path: &'a [u8],
    pub(super) build_id: Option<String>,
    /// Recorded for the kernel, whose mappings all processes share.
    pub(super) kernel: bool,
    /// Mapped to be run, not to be read alone.
    pub(super) executable: bool,
}

impl Mapping<'_> {
    /// Whether it maps a file of a process, not memory that none holds.
    pub(super) fn is_file(&self) -> bool {
        !self.kernel && is_file(self.path)
    }
}

/// What lies at an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Where<'m> {
    /// The byte at this offset of the file of a mapping; mappings are numbered from 0 as they came.
    File {
        mapping: usize,
        path: &'m [u8],
        build_id: Option<&'m String>,
        offset: u64,
    },
    Kernel,
    NoFile,
    Unmapped,
}

/// The mappings of every process.
#[derive(Debug, Default)]
pub(super) struct Processes<'a> {
    processes: HashMap<u32, Space<'a>>,
    kernel: Layer<'a>,
    mapped: usize,
    copied: usize,
}

/// The address space of one process: its newest mappings over those it shares with relatives.
#[derive(Debug, Clone, Default)]
struct Space<'a> {
    own: Layer<'a>,
    below: Option<Rc<Shared<'a>>>,
}

#[derive(Debug)]
struct Shared<'a> {
    layer: Layer<'a>,
    below: Option<Rc<Shared<'a>>>,
    /// How many layers this is, with those below.
    depth: usize,
}

/// Mappings that do not overlap, by the first address at which each shows.
#[derive(Debug, Clone, Default)]
struct Layer<'a>(BTreeMap<u64, Visible<'a>>);

#[derive(Debug, Clone)]
struct Visible<'a> {
    end: u64,
    mapping: Rc<Mapping<'a>>,
    number: usize,
}

impl<'a> Processes<'a> {
    pub(super) fn map(&mut self, process: u32, mapping: Mapping<'a>) {
        let layer = if mapping.kernel {
            &mut self.kernel
        } else {
            &mut self.processes.entry(process).or_default().own
        };
        let (start, end) = (mapping.start, mapping.start.saturating_add(mapping.length));
        layer.insert(start, Visible { end, mapping: Rc::new(mapping), number: self.mapped });
        self.mapped += 1;
    }

    pub(super) fn exec(&mut self, process: u32) {
        self.processes.insert(process, Space::default());
    }

    pub(super) fn fork(&mut self, parent: u32, child: u32) -> Result<()> {
        if parent == child {
            return Ok(());
        }
        let copy = match self.processes.get_mut(&parent) {
            None => Space::default(),
            Some(space) => {
                if !space.own.0.is_empty() {
                    let layer = std::mem::take(&mut space.own);
                    let below = space.below.take();
                    let depth = 1 + below.as_ref().map_or(0, |shared| shared.depth);
                    let mut shared = Shared { layer, below, depth };
                    if depth >= DEEPEST {
                        shared = shared.as_one_layer();
                        self.copied += shared.layer.0.len();
                    }
                    space.below = Some(Rc::new(shared));
                }
                space.clone()
            }
        };
        if self.copied > COPIES + COPIES_PER_MAPPING * self.mapped {
            return Err(Error::failed(
                "the processes of this recording fork and map files in a nest too deep to follow",
            )
            .with_hint("is the file unchanged since perf wrote it?"));
        }
        self.processes.insert(child, copy);
        Ok(())
    }

    pub(super) fn find(&self, process: u32, address: u64) -> Where<'_> {
        // User space is the lower half of the addresses on every machine that has branch records.
        if address >> 63 == 1 {
            return Where::Kernel;
        }
        let space = self.processes.get(&process);
        let mut found = space.and_then(|space| space.own.at(address));
        let mut below = space.and_then(|space| space.below.as_deref());
        while let (None, Some(shared)) = (found, below) {
            found = shared.layer.at(address);
            below = shared.below.as_deref();
        }
        let Some(Visible { mapping, number, .. }) = found else {
            let kernel = self.kernel.at(address).is_some();
            return if kernel { Where::Kernel } else { Where::Unmapped };
        };
        if !mapping.is_file() {
            return Where::NoFile;
        }
        match mapping.file_offset.checked_add(address - mapping.start) {
            Some(offset) => Where::File {
                mapping: *number,
                path: mapping.path,
                build_id: mapping.build_id.as_ref(),
                offset,
            },
            None => Where::Unmapped,
        }
    }
}

impl<'a> Shared<'a> {
    fn as_one_layer(&self) -> Self {
        let mut layers = vec![&self.layer];
        let mut below = self.below.as_deref();
        while let Some(shared) = below {
            layers.push(&shared.layer);
            below = shared.below.as_deref();
        }
        let mut one = Layer::default();
        for layer in layers.into_iter().rev() {
            for (start, visible) in &layer.0 {
                one.insert(*start, visible.clone());
            }
        }
        Self { layer: one, below: None, depth: 1 }
    }
}

impl<'a> Layer<'a> {
    /// Puts a mapping that shows from `start` on over those that are there.
    fn insert(&mut self, start: u64, visible: Visible<'a>) {
        let end = visible.end;
        if start >= end {
            return;
        }
        let before = self.0.range(..start).next_back().map(|(first, visible)| (*first, visible.clone()));
        if let Some((first, old)) = before.filter(|(_, old)| old.end > start) {
            self.0.insert(first, Visible { end: start, ..old.clone() });
            if old.end > end {
                self.0.insert(end, old);
            }
        }
        while let Some((&first, _)) = self.0.range(start..end).next() {
            if let Some(old) = self.0.remove(&first).filter(|old| old.end > end) {
                self.0.insert(end, old);
            }
        }
        self.0.insert(start, visible);
    }

    fn at(&self, address: u64) -> Option<&Visible<'a>> {
        let (_, visible) = self.0.range(..=address).next_back()?;
        (address < visible.end).then_some(visible)
    }
}

/// Whether this is the path of a file, not the kernel's or perf's word for memory that none holds.
fn is_file(path: &[u8]) -> bool {
    const NONE: [&[u8]; 7] = [b"[", b"//", b"/dev/", b"/memfd:", b"/SYSV", b"/anon_hugepage", b"anon_inode:"];
    !path.is_empty() && !NONE.iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapping(start: u64, length: u64, path: &'static [u8]) -> Mapping<'static> {
        Mapping { start, length, file_offset: 0x1000, path, build_id: None, kernel: false, executable: true }
    }

    fn path_at<'m>(processes: &'m Processes, process: u32, address: u64) -> Option<&'m [u8]> {
        match processes.find(process, address) {
            Where::File { path, .. } => Some(path),
            _ => None,
        }
    }

    #[test]
    fn a_child_keeps_what_its_parent_had_and_an_exec_starts_anew() {
        let mut p = Processes::default();
        p.map(1, mapping(100, 50, b"/a"));
        p.fork(1, 2).unwrap();
        p.map(1, mapping(120, 10, b"/parent"));
        p.map(2, mapping(140, 10, b"/child"));
        p.fork(2, 3).unwrap();
        assert_eq!((path_at(&p, 1, 125), path_at(&p, 2, 125)), (Some(&b"/parent"[..]), Some(&b"/a"[..])));
        assert_eq!((path_at(&p, 1, 145), path_at(&p, 2, 145)), (Some(&b"/a"[..]), Some(&b"/child"[..])));
        assert_eq!(path_at(&p, 3, 145), Some(&b"/child"[..]));
        p.exec(2);
        assert_eq!((path_at(&p, 2, 145), path_at(&p, 3, 145)), (None, Some(&b"/child"[..])));
        assert_eq!(p.find(1, 101), Where::File { mapping: 0, path: b"/a", build_id: None, offset: 0x1001 });
        assert_eq!(
            (p.find(9, 101), p.find(1, 99), p.find(1, u64::MAX)),
            (Where::Unmapped, Where::Unmapped, Where::Kernel)
        );
    }

    #[test]
    fn twenty_thousand_forks_in_a_row_are_followed() {
        let mut p = Processes::default();
        for process in 0..20_000 {
            p.exec(process + 1);
            p.map(process, mapping(u64::from(process % 100) * 10, 10, b"/a"));
            p.fork(process, process + 1).unwrap();
        }
        assert_eq!(path_at(&p, 20_000, 995), Some(&b"/a"[..]));
    }

    #[test]
    fn forks_that_pile_up_beyond_measure_are_refused() {
        let mut p = Processes::default();
        let refused = (0..100_000).find(|process| {
            p.map(*process, mapping(u64::from(*process) * 10, 10, b"/a"));
            p.fork(*process, process + 1).is_err()
        });
        assert!(refused.is_some_and(|process| process > 1_000), "{refused:?}");
    }

    proptest! {
        #[test]
        fn the_newest_mapping_shows(parts in proptest::collection::vec((0u64..60, 0u64..20), 0..20)) {
            const NAMES: [&[u8]; 4] = [b"/0", b"/1", b"/2", b"/3"];
            let mut p = Processes::default();
            let mut expected = [None; 80];
            for (i, (start, length)) in parts.iter().enumerate() {
                p.map(1, mapping(*start, *length, NAMES[i % 4]));
                expected[*start as usize..(start + length) as usize].fill(Some(NAMES[i % 4]));
            }
            for (address, name) in expected.iter().enumerate() {
                prop_assert_eq!(path_at(&p, 1, address as u64), *name);
            }
        }
    }
}
