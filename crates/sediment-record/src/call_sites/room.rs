// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds free memory near the code of a program.

use super::sites::PAGE;
use std::ops::Range;

/// How far branches reach.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// Largest distance between the two ends of code and its stubs.
    pub(super) most: u64,
    /// Distance between the places that are tried.
    pub(super) step: u64,
    /// End of the memory of programs.
    pub(super) highest: u64,
}

/// Free memory between the room for stubs and other mappings.
pub(super) const GUARD: u64 = 1 << 20;

/// Finds free memory near code, from the mapped ranges: `wanted` is tried first, then addresses further away, on both
/// sides.
pub(super) fn find_room(
    mapped: &[Range<u64>],
    near: &Range<u64>,
    (length, wanted): (u64, u64),
    Reach { most, step, highest }: Reach,
) -> Option<u64> {
    const LOWEST: u64 = 1 << 20;
    let fits = |at: u64| {
        let range = at..at.checked_add(length)?;
        let reaches = range.end.max(near.end) - range.start.min(near.start) < most;
        let is_free = !mapped.iter().any(|other| {
            other.start < range.end.saturating_add(GUARD) && range.start < other.end.saturating_add(GUARD)
        });
        (at >= LOWEST && range.end <= highest && reaches && is_free).then_some(at)
    };
    let steps = (0..most / step).map(|number| number * step);
    let below = steps.clone().filter_map(|step| fits(wanted.checked_sub(step)?));
    let above = steps.filter_map(|step| fits(wanted.checked_add(step)?));
    below.chain(above).next()
}

/// Finds free memory anywhere below an address, from the mapped ranges.
pub(super) fn find_below(mapped: &[Range<u64>], length: u64, below: u64) -> Option<u64> {
    const LOWEST: u64 = 1 << 32;
    let mut at = below.checked_sub(length)? & !(PAGE - 1);
    loop {
        if at < LOWEST {
            return None;
        }
        let overlaps = |other: &&Range<u64>| {
            other.start < (at + length).saturating_add(GUARD) && at < other.end.saturating_add(GUARD)
        };
        let Some(lowest) = mapped.iter().filter(overlaps).map(|other| other.start).min() else {
            return Some(at);
        };
        at = lowest.checked_sub(length + GUARD)? & !(PAGE - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: Reach =
        Reach { most: (1 << 31) - (64 << 20), step: 64 << 20, highest: (1 << 47) - (1 << 30) };

    #[test]
    fn room_is_found_in_reach() {
        const MIB: u64 = 1 << 20;
        let code = 0x5555_5555_4000..0x5555_5555_9000;
        let wanted = (code.start - 64 * MIB) & !0xfff;
        assert_eq!(find_room(std::slice::from_ref(&code), &code, (MIB, wanted), REACH), Some(wanted));
        let below = 0..code.end;
        let above = find_room(std::slice::from_ref(&below), &code, (MIB, wanted), REACH).unwrap();
        assert!(above > code.end && above < code.end + (1 << 31));
        assert_eq!(find_room(std::slice::from_ref(&(0..u64::MAX)), &code, (MIB, wanted), REACH), None);
        let low = 0x40_0000..0x50_0000;
        assert_eq!(
            find_room(std::slice::from_ref(&low), &low, (MIB, low.end + 1024 * MIB), REACH),
            Some(low.end + 1024 * MIB)
        );
    }

    #[test]
    fn room_without_reach_lies_below() {
        const GIB: u64 = 1 << 30;
        let mapped = [0x55 * GIB..0x56 * GIB, 0x7f00 * GIB..0x7f01 * GIB];
        let found = find_below(&mapped, 4 * GIB, 0x7f02 * GIB).unwrap();
        assert!(found + 4 * GIB < mapped[1].start && found > 0x7ef0 * GIB);
        assert_eq!(find_below(&mapped, 4 * GIB, 0x7e00 * GIB), Some(0x7dfc * GIB));
        assert_eq!(find_below(std::slice::from_ref(&(0..u64::MAX)), GIB, 8 * GIB), None);
    }
}
