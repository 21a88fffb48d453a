// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the stubs of a file are, and what is made for that place.

use super::changes::Changes;
use super::counters::FileCounters;
use super::sites::{DirectSite, IndirectSite};

/// Place of a file, its stubs and its counters.
#[derive(Debug, Clone, Copy)]
pub(super) struct StubPlacement {
    /// Difference between addresses in memory and addresses as linked.
    pub(super) bias: u64,
    /// Address of the stubs.
    pub(super) stubs: u64,
    /// Address of the room that they are in.
    pub(super) room: u64,
    pub(super) counters: FileCounters,
    /// The function that the dynamic linker calls when libraries have been loaded or unloaded, as linked.
    pub(super) notice: Option<u64>,
    /// Address of the state that this call reports, as linked: 0 after libraries have been loaded or unloaded.
    pub(super) state: Option<u64>,
    /// True if the stubs can note calls.
    pub(super) is_traced: bool,
}

/// The sites of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSites<'a> {
    pub(super) direct: &'a [DirectSite],
    /// Number of direct sites that are calls of the first form; the others come after them.
    pub(super) calls: usize,
    pub(super) indirect: &'a [IndirectSite],
}

/// Places of the stubs, by which a noted call shows its site.
#[derive(Debug, Clone, Default)]
pub(super) struct NotingPlaces {
    /// Offsets of the stubs of direct calls, and of those of other direct sites.
    pub(super) first: [u32; 2],
    /// By indirect site: the offset to which the code that notes its call returns. Sites without stubs are left out.
    pub(super) indirect: Vec<(u32, u32)>,
}

/// Stubs of a file, and the changes that lead to them.
#[derive(Debug, Default, Clone)]
pub(super) struct MadeStubs {
    pub(super) code: Vec<u8>,
    /// Positions of distances in the stubs that lead to the file.
    pub(super) outside: Vec<u32>,
    pub(super) changes: Changes,
    pub(super) noting: NotingPlaces,
    /// Number of sites that stay unchanged because they are too far away.
    pub(super) too_far: u64,
}

/// Error: a displacement does not reach its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooFar;
