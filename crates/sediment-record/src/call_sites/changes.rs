// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a file's code that are changed so that calls lead to stubs.

/// Changed bytes of code, one change after the other.
#[derive(Debug, Default, Clone)]
pub(super) struct Changes {
    /// Address as linked, number of bytes, place of the distance among them, and site of each change, in ascending order.
    places: Vec<(u64, u8, u8, u32)>,
    original: Vec<u8>,
    changed: Vec<u8>,
}

/// One change.
#[derive(Debug, Clone, Copy)]
pub(super) struct SiteChange<'a> {
    /// Address as linked.
    pub(super) at: u64,
    /// Index among the direct sites; indirect sites are numbered after them.
    pub(super) site: u32,
    pub(super) original: &'a [u8],
    pub(super) changed: &'a [u8],
}

impl Changes {
    /// Adds a change, with the place of the distance in it.
    pub(super) fn add(&mut self, SiteChange { at, site, original, changed }: SiteChange<'_>, distance: u8) {
        self.places.push((at, changed.len() as u8, distance, site));
        self.original.extend_from_slice(original);
        self.changed.extend_from_slice(changed);
    }

    /// Reserves room for this many changes; most of them are distances.
    pub(super) fn reserve(&mut self, changes: usize) {
        const USUAL: usize = 5;
        self.places.reserve(changes);
        self.original.reserve(changes * USUAL);
        self.changed.reserve(changes * USUAL);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = SiteChange<'_>> {
        let mut offset = 0;
        self.places.iter().map(move |(at, length, _, site)| {
            let bytes = offset..offset + usize::from(*length);
            offset = bytes.end;
            SiteChange {
                at: *at,
                site: *site,
                original: &self.original[bytes.clone()],
                changed: &self.changed[bytes],
            }
        })
    }

    /// Finds the start of a change of several instructions that contains this address after its first byte.
    pub(super) fn window_at(&self, address: u64) -> Option<u64> {
        let behind = self.places.partition_point(|(at, ..)| *at < address);
        let (at, length, ..) = *self.places.get(behind.checked_sub(1)?)?;
        (address < at + u64::from(length)).then_some(at)
    }

    /// Returns the changes in ascending order.
    pub(super) fn sorted(&self) -> Self {
        let mut starts = Vec::with_capacity(self.places.len());
        let mut end = 0;
        for (_, length, ..) in &self.places {
            starts.push(end);
            end += usize::from(*length);
        }
        let mut order: Vec<u32> = (0..self.places.len() as u32).collect();
        // The changes come in three ascending runs.
        order.sort_by_key(|place| self.places[*place as usize].0);
        let mut sorted = Self {
            places: Vec::with_capacity(self.places.len()),
            original: Vec::with_capacity(end),
            changed: Vec::with_capacity(end),
        };
        for place in order {
            let (place, start) = (self.places[place as usize], starts[place as usize]);
            let bytes = start..start + usize::from(place.1);
            sorted.places.push(place);
            sorted.original.extend_from_slice(&self.original[bytes.clone()]);
            sorted.changed.extend_from_slice(&self.changed[bytes]);
        }
        sorted
    }

    /// Returns the same changes for stubs that are further away by this distance; `None` if they would be too far.
    pub(super) fn moved(&self, by: i64, shift: fn(&mut [u8], i64) -> Option<()>) -> Option<Self> {
        let mut changes = self.clone();
        let mut end = 0;
        for (_, length, distance, _) in &changes.places {
            let start = end;
            end += usize::from(*length);
            shift(changes.changed.get_mut(start + usize::from(*distance)..end)?, by)?;
        }
        Some(changes)
    }
}
