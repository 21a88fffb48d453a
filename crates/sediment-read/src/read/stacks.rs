// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts call stacks to calls and own cost.
//!
//! A sampled stack does not count calls. Each pair of neighbouring frames shows that one function called the other, and
//! that the call had not returned when the sample was taken. So a pair gets the weight of the stacks that contain it.
//! The rules are the same for all stack profilers:
//!
//! - A pair that occurs in a stack several times (recursion) counts once, so that no pair has more weight than its
//!   samples. A function that calls itself is such a pair.
//! - The innermost frame gets the own cost.
//! - A frame without a name breaks the stack: the frames around it are not a pair. Its own pairs are skipped, with the
//!   reason why it has no name.
//! - The kernel is cut off: entering it is not a call, and its cost does not count as own cost of any function.
//!
//! Pairs consist of addresses, so two call sites in one function are two addresses.

use super::{AddressId, Recording, TransferKind};
use sediment_core::skipped::{Amount, Nowhere};

/// One frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum StackFrame {
    /// An address of the recording.
    Known(AddressId),
    /// A callee that cannot be named.
    Unknown(Nowhere),
    /// The kernel, a hypervisor or a guest system.
    System,
}

/// Adds a stack that was sampled `count` times. `frames` begins with the outermost caller; `count` has the unit of the
/// source (samples, or the sampled event).
///
/// Each pair, even a skipped one, adds `count` to the recording's total. A stack without frames adds nothing.
pub(super) fn add_stack(recording: &mut Recording, frames: &[StackFrame], count: u128) {
    let Some(innermost) = frames.last() else { return };
    match *innermost {
        StackFrame::Known(place) => recording.add_samples(place, count),
        StackFrame::Unknown(why) => recording.skipped.add(why.of(Amount::OwnCost), count, ""),
        StackFrame::System => recording.skipped.add(Nowhere::System.of(Amount::OwnCost), count, ""),
    }
    let pairs = frames.windows(2).map(|pair| (pair[0], pair[1]));
    let mut pairs: Vec<(StackFrame, StackFrame)> =
        pairs.filter(|pair| pair.0 != StackFrame::System && pair.1 != StackFrame::System).collect();
    pairs.sort_unstable();
    pairs.dedup();
    for pair in pairs {
        recording.total = recording.total.saturating_add(count);
        match pair {
            (StackFrame::Known(from), StackFrame::Known(to)) => {
                recording.add_transfer(from, to, TransferKind::Call, count);
            }
            (StackFrame::Unknown(why), _) | (_, StackFrame::Unknown(why)) => {
                recording.skipped.add(why.of(Amount::Calls), count, "");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RecordedAddress, Spot};
    use super::*;

    /// Adds stacks with one letter per frame, outermost first: `?` has no name, `k` is the kernel.
    fn recording(stacks: &[(&str, u128)]) -> Recording {
        let mut recording = Recording::default();
        for (stack, count) in stacks {
            let frames: Vec<StackFrame> = stack
                .bytes()
                .map(|name| match name {
                    b'?' => StackFrame::Unknown(Nowhere::NoName),
                    b'k' => StackFrame::System,
                    _ => {
                        let spot = Spot::Symbol { name: vec![name], file: None };
                        StackFrame::Known(recording.place(RecordedAddress { dso: None, spot }))
                    }
                })
                .collect();
            add_stack(&mut recording, &frames, *count);
        }
        recording
    }

    fn said(recording: &Recording) -> Vec<String> {
        let name = |id: AddressId| match &recording.addresses()[id.0 as usize].spot {
            Spot::Symbol { name, .. } => String::from_utf8_lossy(name).into_owned(),
            _ => String::new(),
        };
        let calls = recording
            .transfers()
            .into_iter()
            .map(|(from, to, kind, count)| format!("{}{} {kind:?} {count}", name(from), name(to)));
        let costs = recording.samples().into_iter().map(|(place, cost)| format!("{} {cost}", name(place)));
        let skipped =
            recording.skipped.iter().map(|(why, entry)| format!("{why}: {} {}", entry.items, entry.weight));
        calls.chain(costs).chain(skipped).collect()
    }

    #[test]
    fn neighbours_are_calls_and_the_innermost_pays() {
        let recording = recording(&[("abc", 5), ("ab", 2), ("a", 1), ("", 9)]);
        assert_eq!(said(&recording), ["ab Call 7", "bc Call 5", "a 1", "b 2", "c 5"]);
        assert_eq!(recording.total, 12);
    }

    #[test]
    fn a_pair_counts_once_in_each_stack() {
        assert_eq!(
            said(&recording(&[("abababb", 3)])),
            ["ab Call 3", "ba Call 3", "bb Call 3", "b 3"],
            "a calls b three times in this stack, b itself once"
        );
        assert_eq!(said(&recording(&[("aaaa", 3), ("aa", 4)])), ["aa Call 7", "a 7"]);
        assert_eq!(recording(&[("aaaa", 3), ("aa", 4)]).total, 7);
    }

    #[test]
    fn nothing_leads_across_a_frame_without_a_name() {
        let seen = recording(&[("a??bc", 3), ("a?", 2)]);
        assert_eq!(
            said(&seen),
            [
                "bc Call 3",
                "c 3",
                "calls at an address without a name for the profiler: 4 11",
                "own cost at an address without a name for the profiler: 1 2"
            ],
            "into it, within it, out of it; into it again"
        );
        assert_eq!(seen.total, 14);
    }

    #[test]
    fn the_kernel_is_cut_off() {
        let seen = recording(&[("abkkk", 3), ("k", 1)]);
        assert_eq!(said(&seen), ["ab Call 3", "own cost in the kernel, a hypervisor or a guest: 2 4"]);
        assert_eq!(seen.total, 3);
    }

    #[test]
    fn a_deep_stack_takes_no_time_to_speak_of() {
        let frames: String = (0..200_000).map(|number| if number % 2 == 0 { 'a' } else { 'b' }).collect();
        assert_eq!(said(&recording(&[(&frames, 1)])), ["ab Call 1", "ba Call 1", "b 1"]);
    }
}
