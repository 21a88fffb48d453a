// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses where a program maps the recorder's memory.

use super::machine;
use super::room::{find_below, find_room};
use super::sites::PAGE;
use std::ops::Range;

/// Distance of the counters below the stubs and libraries.
const BELOW_LIBRARIES: u64 = 1 << 30;
/// A program above this address has its stubs below it.
const HIGH: u64 = 1 << 30;
/// Below this address there is room for the counters of a program with a low address.
const FAR: u64 = 1 << 46;

/// Addresses of the recorder's memory in a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// Stubs near the program, and near the libraries if it can have any.
    pub(super) own_stubs: u64,
    pub(super) library_stubs: Option<u64>,
    pub(super) data: u64,
}

impl Places {
    /// Chooses them for stubs and data of these lengths; `None` if there is no room. `linker`: range of the dynamic
    /// linker, if there is one.
    pub(super) fn choose(
        mapped: &[Range<u64>],
        (program, linker): (&Range<u64>, Option<&Range<u64>>),
        (own_stubs, data): (u64, u64),
    ) -> Option<Self> {
        let mut mapped = mapped.to_vec();
        let mut find = |near: &Range<u64>, length: u64, wanted: u64| {
            let length = length + machine::TABLE;
            let at = find_room(&mapped, near, (length, wanted & !(PAGE - 1)), machine::REACH)?;
            mapped.push(at..at + length);
            Some(at + machine::TABLE)
        };
        // A part of the data segment after the file's pages belongs to the heap.
        let near_program = match program.start.checked_sub(machine::BELOW_PROGRAM + own_stubs) {
            Some(below) if below > HIGH => below,
            _ => machine::wanted_above(program),
        };
        let own_stubs = find(program, own_stubs, near_program)?;
        let library_stubs = match linker {
            Some(linker) => {
                Some(find(linker, machine::LIBRARY_STUBS, machine::wanted_near_libraries(linker))?)
            }
            None => None,
        };
        // They can be anywhere, but libraries find space below the stubs.
        let above = library_stubs.unwrap_or(own_stubs).saturating_sub(BELOW_LIBRARIES);
        let data = find_below(&mapped, data, above).or_else(|| find_below(&mapped, data, FAR))?;
        Some(Self { own_stubs, library_stubs, data })
    }
}
