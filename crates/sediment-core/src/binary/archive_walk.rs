// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ArchiveWalk`]: the members that a link takes from an archive, in the order in which GNU ld and gold take them.
//!
//! These linkers walk through the archive's index of symbols. They take each member that defines a symbol that is
//! needed by then, and start over until nothing more is needed (`elf_link_add_archive_symbols` of BFD). Their code is
//! in that order, not in the archive's order. lld also takes members when they are needed. If it has already seen a
//! member, it takes the member at once, so its order can differ.

use object::read::archive::{ArchiveFile, ArchiveOffset};
use object::{ObjectSymbol as _, Symbol};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Global symbols of the objects that a link has taken so far.
#[derive(Debug, Clone, Default)]
pub(super) struct GlobalSymbols {
    /// True if defined, false if needed.
    defined: HashMap<Arc<[u8]>, bool>,
    /// Symbols needed since the last step of a walk.
    newly_needed: Vec<Arc<[u8]>>,
}

impl GlobalSymbols {
    /// Adds a symbol that a link needs.
    pub(super) fn require(&mut self, name: &[u8]) {
        if !self.defined.contains_key(name) {
            let name: Arc<[u8]> = name.into();
            self.newly_needed.push(Arc::clone(&name));
            self.defined.insert(name, false);
        }
    }

    /// Adds a symbol of an object that is linked.
    pub(super) fn add(&mut self, symbol: &Symbol<'_, '_>) {
        if !symbol.is_global() {
            return;
        }
        let Ok(name) = symbol.name_bytes() else { return };
        if !symbol.is_undefined() {
            match self.defined.get_mut(name) {
                Some(is_defined) => *is_defined = true,
                None => drop(self.defined.insert(name.into(), true)),
            }
        } else if !symbol.is_weak() {
            self.require(name);
        }
    }

    fn is_needed(&self, name: &[u8]) -> bool {
        self.defined.get(name) == Some(&false)
    }
}

/// A walk through the index of an archive.
pub(super) struct ArchiveWalk<'a> {
    index: Vec<(&'a [u8], ArchiveOffset)>,
    /// Entries of the index, by name.
    entries: HashMap<&'a [u8], Vec<usize>>,
    /// Entries of symbols that were needed when they were added.
    needed: BTreeSet<usize>,
    /// The entry to look at next.
    next: usize,
}

impl<'a> ArchiveWalk<'a> {
    /// Starts a walk; an archive without an index has no members to take.
    pub(super) fn new(archive: &ArchiveFile<'a>, globals: &mut GlobalSymbols) -> Self {
        let symbols = archive.symbols().ok().flatten().into_iter().flatten();
        let index: Vec<(&[u8], ArchiveOffset)> =
            symbols.map_while(|symbol| symbol.ok().map(|symbol| (symbol.name(), symbol.offset()))).collect();
        let needed: BTreeSet<usize> =
            (0..index.len()).filter(|entry| globals.is_needed(index[*entry].0)).collect();
        let mut entries: HashMap<&[u8], Vec<usize>> = HashMap::new();
        // If nothing is taken, nothing more is needed.
        if !needed.is_empty() {
            for (entry, (name, _)) in index.iter().enumerate() {
                entries.entry(*name).or_default().push(entry);
            }
        }
        globals.newly_needed.clear();
        Self { index, entries, needed, next: 0 }
    }

    /// Returns the next member to take, before its symbols are added. If the member lacks the symbol that the index
    /// promises, it is returned again.
    pub(super) fn next_member(&mut self, globals: &mut GlobalSymbols) -> Option<ArchiveOffset> {
        for name in globals.newly_needed.drain(..) {
            self.needed.extend(self.entries.get(&*name).into_iter().flatten());
        }
        while let Some(entry) = self.needed.range(self.next..).next().or(self.needed.first()).copied() {
            self.needed.remove(&entry);
            self.next = entry + 1;
            let (name, member) = self.index[entry];
            if globals.is_needed(name) {
                return Some(member);
            }
        }
        None
    }
}
