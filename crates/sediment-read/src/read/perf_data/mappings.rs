// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mapped files of every process at every time.
//!
//! One pass in time order follows the changes of address spaces. Its result is [`Spaces`], which has for each process
//! its spaces over time. A space only grows: it ends when its process executes another program, or maps something over
//! an address that denoted something else. Therefore samples may be looked up in any order by their process and time,
//! and the meaning of a branch depends only on the space.
//!
//! A process begins with its parent's mappings at the time of the fork, and adds mappings that hide older ones. perf
//! records no unmapping. Neither a fork nor a new space copies mappings: the common ones become a layer below both.
//! Layers of similar size are merged, as in a log-structured merge tree, so that a lookup searches few of them.

use crate::read::{FileEvidence, Inode};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::skipped::Nowhere;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Number of mappings that may be copied to merge layers, in addition to some for each recorded mapping. Only a
/// malicious recording, in which thousands of processes each fork from a different stack of layers, needs more.
const COPIES: usize = 1 << 19;
const COPIES_PER_MAPPING: usize = 24;

/// Time of a record (0 without a time), then its position among the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct When {
    pub(super) time: u64,
    pub(super) sequence: u64,
}

/// A file as mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MappedFile {
    pub(super) path: Box<[u8]>,
    /// Build-id recorded with the mapping.
    pub(super) build_id: Option<String>,
}

/// A mapped file of a recording, numbered in the order of appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId(u32);

impl FileId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Change of an address space.
#[derive(Debug)]
pub(super) enum AddressSpaceChange {
    Map(MappingRecord),
    /// The process now executes another program.
    Exec {
        process: u32,
    },
    Fork {
        parent: u32,
        child: u32,
    },
}

/// Mapping made by one record.
#[derive(Debug)]
pub(super) struct MappingRecord {
    pub(super) process: u32,
    pub(super) start: u64,
    pub(super) length: u64,
    /// Offset in the file of the byte at `start`.
    pub(super) file_offset: u64,
    pub(super) file: MappedFile,
    /// True for a mapping of the kernel, which all processes share.
    pub(super) kernel: bool,
    /// True for a mapping that may be executed, not only read.
    pub(super) executable: bool,
    pub(super) inode: Inode,
}

/// Number of an address space that only grew; 0 is the space of an unknown process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SpaceId(pub(super) u32);

/// Result of looking up an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileLookup {
    /// The byte at this offset of a file.
    File {
        file: FileId,
        offset: u64,
    },
    Nowhere(Nowhere),
}

/// The address spaces of all processes.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    /// Content of each space at its end, by id.
    held: Vec<Option<Arc<SharedLayer>>>,
    /// The spaces of each process with their beginnings, in time order.
    of_process: HashMap<u32, Vec<(When, SpaceId)>>,
    kernel: Layer,
    files: MappedFiles,
}

#[derive(Debug, Default)]
struct MappedFiles {
    files: Vec<MappedFile>,
    /// Kind of each file, by id.
    kinds: Vec<FileKind>,
    ids: HashMap<MappedFile, FileId>,
    /// True if it was ever mapped executable.
    executable: Vec<bool>,
    /// Recorded data on each file, other than its path and build-id.
    recorded: Vec<FileEvidence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    File,
    Vdso,
    None,
}

/// State of the pass over the changes, in time order.
#[derive(Debug, Default)]
struct Follower {
    spaces: Spaces,
    now: HashMap<u32, LayeredSpace>,
    mapped: usize,
    copied: usize,
}

/// Address space of one process: its newest mappings above the ones that it shares with relatives.
#[derive(Debug, Clone)]
struct LayeredSpace {
    id: SpaceId,
    own: Layer,
    below: Option<Arc<SharedLayer>>,
}

#[derive(Debug)]
struct SharedLayer {
    layer: Layer,
    below: Option<Arc<SharedLayer>>,
}

/// Mappings that do not overlap, by their first visible address.
#[derive(Debug, Clone, Default)]
struct Layer(BTreeMap<u64, Visible>);

#[derive(Debug, Clone, Copy)]
struct Visible {
    end: u64,
    /// Difference between an address and its offset in the file, with wrap-around.
    shift: u64,
    file: FileId,
}

impl Spaces {
    /// Follows the changes, which must be in time order.
    pub(super) fn follow(changes: Vec<(When, AddressSpaceChange)>) -> Result<Self> {
        let mut follower = Follower::default();
        follower.spaces.held.push(None);
        for (when, change) in changes {
            match change {
                AddressSpaceChange::Map(mapping) => follower.map(when, mapping),
                AddressSpaceChange::Exec { process } => follower.begin(process, when, None),
                AddressSpaceChange::Fork { parent, child } if parent != child => {
                    follower.fork(when, parent, child)
                }
                AddressSpaceChange::Fork { .. } => {}
            }
            if follower.copied > COPIES + COPIES_PER_MAPPING * follower.mapped {
                return Err(Error::new(
                    ErrorCode::TooLarge,
                    "too many forks of processes with many mapped files",
                )
                .with_hint("is the file unchanged since perf wrote it?"));
            }
        }
        let processes: Vec<u32> = follower.now.keys().copied().collect();
        for process in processes {
            follower.end(process);
        }
        Ok(follower.spaces)
    }

    /// Returns the space of a process at a time. Before its first record, a process has its first space.
    pub(super) fn at(&self, process: u32, when: When) -> SpaceId {
        let Some(spaces) = self.of_process.get(&process) else { return SpaceId(0) };
        match &spaces[..] {
            [(_, only)] => *only,
            _ => spaces[spaces.partition_point(|(from, _)| *from <= when).max(1) - 1].1,
        }
    }

    /// Looks up an address of a space.
    pub(super) fn find(&self, space: SpaceId, address: u64) -> FileLookup {
        // User space is the lower half of the addresses on every machine with branch records.
        if address >> 63 == 1 {
            return FileLookup::Nowhere(Nowhere::Kernel);
        }
        let mut found = None;
        let mut below = self.held[space.0 as usize].as_deref();
        while let (None, Some(shared)) = (found, below) {
            found = shared.layer.at(address);
            below = shared.below.as_deref();
        }
        let Some(visible) = found else {
            let kernel = self.kernel.at(address).is_some();
            return FileLookup::Nowhere(if kernel { Nowhere::Kernel } else { Nowhere::Unmapped });
        };
        match self.files.kinds[visible.file.index()] {
            FileKind::File => {
                FileLookup::File { file: visible.file, offset: address.wrapping_add(visible.shift) }
            }
            FileKind::Vdso => FileLookup::Nowhere(Nowhere::Vdso),
            FileKind::None => FileLookup::Nowhere(Nowhere::AnonymousCode),
        }
    }

    /// Returns all mapped files, by id.
    pub(super) fn files(&self) -> &[MappedFile] {
        &self.files.files
    }

    /// Returns the recorded data on a file, other than its path and build-id.
    pub(super) fn recorded(&self, file: FileId) -> &FileEvidence {
        &self.files.recorded[file.index()]
    }

    /// True if code of this file could have run.
    pub(super) fn could_run(&self, file: FileId) -> bool {
        self.files.executable[file.index()] && self.files.kinds[file.index()] == FileKind::File
    }

    /// The ids of the files.
    pub(super) fn file_ids(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.files.files.len() as u32).map(FileId)
    }
}

impl MappedFiles {
    fn id(&mut self, file: MappedFile, executable: bool) -> FileId {
        let id = match self.ids.get(&file) {
            Some(id) => *id,
            None => {
                let id = FileId(self.files.len() as u32);
                self.kinds.push(kind_of(&file.path));
                self.executable.push(false);
                self.recorded.push(FileEvidence::default());
                self.files.push(file.clone());
                self.ids.insert(file, id);
                id
            }
        };
        self.executable[id.index()] |= executable;
        id
    }
}

impl Follower {
    fn map(&mut self, when: When, mapping: MappingRecord) {
        let MappingRecord { process, start, length, file_offset, file, kernel, executable, inode } = mapping;
        let file = self.spaces.files.id(file, executable && !kernel);
        if executable && !kernel {
            let mut recorded = FileEvidence { inode, ..FileEvidence::default() };
            recorded.add_mapped(file_offset, length);
            self.spaces.files.recorded[file.index()].append(&recorded);
        }
        let visible =
            Visible { end: start.saturating_add(length), shift: file_offset.wrapping_sub(start), file };
        self.mapped += 1;
        if kernel {
            return self.spaces.kernel.insert(start, visible);
        }
        match self.now.get(&process) {
            None => self.begin(process, when, None),
            Some(space) if space.would_change(start, visible) => {
                let below = self.end(process);
                self.begin(process, when, below);
            }
            Some(_) => {}
        }
        if let Some(space) = self.now.get_mut(&process) {
            space.own.insert(start, visible);
        }
    }

    fn fork(&mut self, when: When, parent: u32, child: u32) {
        // The parent continues with the same space; the child does not get its later mappings.
        let below = self.share(parent);
        self.begin(child, when, below);
    }

    /// Begins a new space of a process above an existing layer.
    fn begin(&mut self, process: u32, when: When, below: Option<Arc<SharedLayer>>) {
        self.end(process);
        let id = SpaceId(self.spaces.held.len() as u32);
        self.spaces.held.push(None);
        self.now.insert(process, LayeredSpace { id, own: Layer::default(), below });
        self.spaces.of_process.entry(process).or_default().push((when, id));
    }

    /// Ends the space of a process, and returns its content.
    fn end(&mut self, process: u32) -> Option<Arc<SharedLayer>> {
        let held = self.share(process);
        if let Some(space) = self.now.remove(&process) {
            self.spaces.held[space.id.0 as usize].clone_from(&held);
        }
        held
    }

    /// Makes the mappings of a process a layer that other spaces may share.
    fn share(&mut self, process: u32) -> Option<Arc<SharedLayer>> {
        let space = self.now.get_mut(&process)?;
        if !space.own.0.is_empty() {
            let mut layer = std::mem::take(&mut space.own);
            let mut below = space.below.take();
            while let Some(shared) = below.take_if(|shared| shared.layer.0.len() <= 2 * layer.0.len()) {
                let mut one = shared.layer.clone();
                for (start, visible) in &layer.0 {
                    one.insert(*start, *visible);
                }
                self.copied += one.0.len();
                below.clone_from(&shared.below);
                layer = one;
            }
            space.below = Some(Arc::new(SharedLayer { layer, below }));
        }
        space.below.clone()
    }
}

impl LayeredSpace {
    /// True if a mapped address would denote something else. A hidden layer may cause a false positive.
    fn would_change(&self, start: u64, new: Visible) -> bool {
        let mut below = self.below.as_deref();
        let mut layers = std::iter::once(&self.own).chain(std::iter::from_fn(|| {
            let shared = below?;
            below = shared.below.as_deref();
            Some(&shared.layer)
        }));
        layers.any(|layer| layer.any_other(start, new))
    }
}

impl Layer {
    /// Adds a mapping, visible from `start` on, above the existing ones.
    fn insert(&mut self, start: u64, visible: Visible) {
        let end = visible.end;
        if start >= end {
            return;
        }
        let before = self.0.range(..start).next_back().map(|(first, visible)| (*first, *visible));
        if let Some((first, old)) = before.filter(|(_, old)| old.end > start) {
            self.0.insert(first, Visible { end: start, ..old });
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

    fn at(&self, address: u64) -> Option<Visible> {
        let (_, visible) = self.0.range(..=address).next_back()?;
        (address < visible.end).then_some(*visible)
    }

    /// True if something else is mapped in the range of a new mapping. Looks at the mappings that the new one hides,
    /// and one more.
    fn any_other(&self, start: u64, new: Visible) -> bool {
        let other = |old: &Visible| old.file != new.file || old.shift != new.shift;
        let before = self.0.range(..start).next_back().is_some_and(|(_, old)| old.end > start && other(old));
        before || (start < new.end && self.0.range(start..new.end).any(|(_, old)| other(old)))
    }
}

/// Returns the kind of a path: a file, or a name by the kernel or perf for anonymous memory.
fn kind_of(path: &[u8]) -> FileKind {
    const NONE: [&[u8]; 7] = [b"[", b"//", b"/dev/", b"/memfd:", b"/SYSV", b"/anon_hugepage", b"anon_inode:"];
    if path.starts_with(b"[vdso") || path.starts_with(b"[vsyscall") {
        FileKind::Vdso
    } else if path.is_empty() || NONE.iter().any(|start| path.starts_with(start)) || is_compiled_code(path) {
        FileKind::None
    } else {
        FileKind::File
    }
}

/// True for `/tmp/perf-PID.map` and `jit-PID.dump`, with which perf marks the memory of a run-time compiler.
fn is_compiled_code(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let number_between = |start: &[u8], end: &[u8]| {
        let number = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    number_between(b"perf-", b".map") || number_between(b"jit-", b".dump")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapping(process: u32, start: u64, length: u64, path: &str) -> AddressSpaceChange {
        let file = MappedFile { path: path.as_bytes().into(), build_id: None };
        AddressSpaceChange::Map(MappingRecord {
            process,
            start,
            length,
            file_offset: 0x1000,
            file,
            kernel: false,
            executable: true,
            inode: Inode::Unknown,
        })
    }

    fn follow(changes: Vec<AddressSpaceChange>) -> Result<Spaces> {
        Spaces::follow(changes.into_iter().enumerate().map(|(i, change)| (at(i), change)).collect())
    }

    fn at(time: usize) -> When {
        When { time: time as u64, sequence: 0 }
    }

    fn path_at(spaces: &Spaces, process: u32, when: When, address: u64) -> Option<&str> {
        match spaces.find(spaces.at(process, when), address) {
            FileLookup::File { file, .. } => std::str::from_utf8(&spaces.files()[file.index()].path).ok(),
            FileLookup::Nowhere(_) => None,
        }
    }

    #[test]
    fn a_child_keeps_what_its_parent_had_and_an_exec_starts_anew() {
        let spaces = follow(vec![
            mapping(1, 100, 50, "/a"),
            AddressSpaceChange::Fork { parent: 1, child: 2 },
            mapping(1, 120, 10, "/parent"),
            mapping(2, 140, 10, "/child"),
            AddressSpaceChange::Fork { parent: 2, child: 3 },
            AddressSpaceChange::Exec { process: 2 },
        ])
        .unwrap();
        let path = |process, time, address| path_at(&spaces, process, at(time), address);
        assert_eq!(
            (path(1, 1, 125), path(1, 9, 125), path(2, 4, 125)),
            (Some("/a"), Some("/parent"), Some("/a"))
        );
        assert_eq!(
            (path(1, 9, 145), path(2, 2, 145), path(2, 4, 145)),
            (Some("/a"), Some("/a"), Some("/child"))
        );
        assert_eq!((path(3, 9, 145), path(2, 9, 145)), (Some("/child"), None));
        let find = |process, address| spaces.find(spaces.at(process, at(9)), address);
        assert_eq!(find(1, 101), FileLookup::File { file: FileId(0), offset: 0x1001 });
        assert_eq!(find(9, 101), FileLookup::Nowhere(Nowhere::Unmapped));
        assert_eq!(find(1, 99), FileLookup::Nowhere(Nowhere::Unmapped));
        assert_eq!(find(1, u64::MAX), FileLookup::Nowhere(Nowhere::Kernel));
    }

    #[test]
    fn a_space_lasts_until_an_address_means_something_else() {
        let same = |start| mapping(1, start, 10, "/a");
        let spaces =
            follow(vec![same(0), mapping(1, 100, 10, "/b"), same(0), mapping(1, 5, 10, "/c")]).unwrap();
        assert_eq!(spaces.of_process[&1].len(), 2);
        assert_eq!(path_at(&spaces, 1, at(0), 105), Some("/b"), "mapped a little late");
        assert_eq!(path_at(&spaces, 1, at(2), 7), Some("/a"));
        assert_eq!(path_at(&spaces, 1, at(3), 7), Some("/c"));
    }

    #[test]
    fn long_chains_of_forks_and_of_new_mappings_are_followed() {
        let mut changes = Vec::new();
        for process in 0..20_000 {
            changes.push(mapping(process, u64::from(process % 100) * 10, 10, "/a"));
            changes.push(AddressSpaceChange::Fork { parent: process, child: process + 1 });
        }
        for round in 0..100_000 {
            changes.push(mapping(1, round % 5_000 * 10, 20, ["/x", "/y"][round as usize % 2]));
        }
        let last = changes.len();
        let spaces = follow(changes).unwrap();
        assert_eq!(path_at(&spaces, 20_000, at(last), 995), Some("/a"));
        let deepest = spaces
            .held
            .iter()
            .flatten()
            .map(|shared| std::iter::successors(Some(shared), |shared| shared.below.as_ref()).count());
        assert!(deepest.max() < Some(40));
    }

    #[test]
    fn memory_that_no_file_holds_is_told_from_files() {
        let kinds = [
            ("/usr/bin/x", FileKind::File),
            ("/usr/share/perf-1.map.so", FileKind::File),
            ("/tmp/jitted-12-3.so", FileKind::File),
            ("/tmp/perf-12.map", FileKind::None),
            ("/home/user/.debug/jit/jit-12.dump", FileKind::None),
            ("//anon", FileKind::None),
            ("[heap]", FileKind::None),
            ("[vdso]", FileKind::Vdso),
            ("", FileKind::None),
        ];
        for (path, kind) in kinds {
            assert_eq!(kind_of(path.as_bytes()), kind, "{path}");
        }
    }

    proptest! {
        #[test]
        fn the_newest_mapping_shows(parts in proptest::collection::vec((0u64..60, 0u64..20), 0..20)) {
            const NAMES: [&str; 4] = ["/0", "/1", "/2", "/3"];
            let mut changes = Vec::new();
            let mut expected = [None; 80];
            let mut states = Vec::new();
            for (i, (start, length)) in parts.iter().enumerate() {
                changes.push(mapping(1, *start, *length, NAMES[i % 4]));
                expected[*start as usize..(start + length) as usize].fill(Some(NAMES[i % 4]));
                states.push(expected);
            }
            let spaces = follow(changes).unwrap();
            for (time, expected) in states.iter().enumerate() {
                for (address, name) in expected.iter().enumerate().filter(|(_, name)| name.is_some()) {
                    prop_assert_eq!(path_at(&spaces, 1, at(time), address as u64), *name);
                }
            }
        }
    }
}
