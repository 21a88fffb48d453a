// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the sequence of functions that ran from the calls that a thread has noted.
//!
//! A noted call shows its call site, its callee and the caller's stack pointer at the call. A function has returned once a
//! later call has a stack pointer that is not below the one at its own call. So the functions that were returned to
//! between two calls are known, except for functions that were called by sites without stubs.

use super::machine::{LEAST_FRAME, RETURN_ADDRESS};

/// A noted call, as in the memory of a program: the low halves of the address in its stub, of its target if it is
/// indirect, and of the stack pointer in the noting code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallEvent {
    pub(super) stub: u32,
    pub(super) target: u32,
    stack: u32,
}

impl CallEvent {
    /// Reads it from its bytes.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            let rest = bytes.get(at..).and_then(|rest| rest.first_chunk());
            rest.map_or(0, |number| u32::from_le_bytes(*number))
        };
        Self { stub: number(0), target: number(4), stack: number(8) }
    }
}

/// A call in a sequence. Call site and callee are numbers of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotedCall {
    pub(super) site: u32,
    pub(super) callee: u32,
    pub(super) is_jump: bool,
    /// Bytes between the stack pointer in the noting code and the caller's.
    pub(super) depth: u32,
}

/// A function that runs, or will continue: an address in it.
#[derive(Debug, Clone, Copy)]
struct Frame {
    place: u32,
    /// Low half of the stack pointer at its call.
    stack: u32,
}

/// Returns the addresses that ran, in their order: for each call, the functions that were returned to since the last
/// one, the call site, and the callee. `noted` finds the call of an event.
pub(super) fn sequence(
    events: &[CallEvent],
    mut noted: impl FnMut(&CallEvent) -> Option<NotedCall>,
) -> Vec<u32> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut ran = Vec::with_capacity(2 * events.len());
    for event in events {
        let Some(call) = noted(event) else { continue };
        let stack = event.stack.wrapping_add(call.depth);
        // A jump leaves its function, which has only the return address on the stack.
        let callee_stack = if call.is_jump { stack.wrapping_add(RETURN_ADDRESS) } else { stack };
        let is_over = |frame: &Frame| stack.wrapping_sub(frame.stack) as i32 >= 0;
        while frames.last().is_some_and(is_over) {
            frames.pop();
            ran.extend(frames.last().map(|frame| frame.place));
        }
        if call.is_jump && frames.last().is_some_and(|frame| frame.stack == callee_stack) {
            frames.pop();
        } else if frames.is_empty() && !call.is_jump {
            frames.push(Frame { place: call.site, stack: stack.wrapping_add(LEAST_FRAME) });
        }
        ran.extend([call.site, call.callee]);
        frames.push(Frame { place: call.callee, stack: callee_stack });
    }
    ran
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions are numbers below 10, and the site of a call of 2 in 1 is 12.
    fn call(caller: u32, callee: u32, stack: u32, is_jump: bool) -> (CallEvent, NotedCall) {
        let stub = 10 * caller + callee;
        let noted = NotedCall { site: stub, callee, is_jump, depth: 4 };
        (CallEvent { stub, target: 0, stack: stack - 4 }, noted)
    }

    fn ran(calls: &[(CallEvent, NotedCall)]) -> Vec<u32> {
        let events: Vec<CallEvent> = calls.iter().map(|(event, _)| *event).collect();
        let noted =
            |event: &CallEvent| calls.iter().find(|(own, _)| own.stub == event.stub).map(|(_, call)| *call);
        sequence(&events, noted)
    }

    #[test]
    fn functions_continue_after_their_callees() {
        // 1 calls 2, which calls 3; both return, and 1 calls 4.
        let calls = [call(1, 2, 1000, false), call(2, 3, 900, false), call(1, 4, 1000, false)];
        assert_eq!(ran(&calls), [12, 2, 23, 3, 2, 12, 14, 4]);
        // 2 calls itself: only the inner one has returned.
        let calls = [call(1, 2, 1000, false), call(2, 2, 900, false), call(2, 3, 900, false)];
        assert_eq!(ran(&calls), [12, 2, 22, 2, 2, 23, 3]);
    }

    #[test]
    fn a_function_that_was_jumped_to_takes_the_place_of_another() {
        // 1 calls 2, which jumps to 3; 3 calls 4 and returns to 1.
        let calls =
            [call(1, 2, 1000, false), call(2, 3, 992, true), call(3, 4, 900, false), call(1, 5, 1000, false)];
        assert_eq!(ran(&calls), [12, 2, 23, 3, 34, 4, 3, 12, 15, 5]);
    }

    #[test]
    fn the_low_half_of_the_stack_pointer_may_wrap() {
        let calls = [call(1, 2, 8, false), call(2, 3, 0u32.wrapping_sub(90), false), call(1, 4, 8, false)];
        assert_eq!(ran(&calls), [12, 2, 23, 3, 2, 12, 14, 4]);
    }
}
