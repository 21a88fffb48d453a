// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequences of executions: a kind of window, for the rates of frequent functions.
//!
//! Some executed functions are armed. A hit is a step: the breakpoint is removed, and set again as soon as another
//! function is hit. Calls of the same function that follow at once form a run. They are counted only for some steps:
//! the thread executes one instruction, and the function is armed again before the thread goes on. The mean length of
//! runs is the number of counted calls divided by the number of runs observed to their end, which is the likeliest
//! length if any call may be the last. Some breakpoints are hit twice with nothing in between, to measure the time of a
//! hit ([`super::step_times`]).

use super::log::Log;
use super::modules::Modules;
use super::modules::Site;
use super::space::AddressSpace;
use nix::unistd::Pid;
use sediment_core::random::Generator;
use std::collections::BTreeSet;

/// Share of steps whose runs are counted.
const FOLLOWED: f64 = 1.0 / 8.0;
/// Share of steps whose breakpoint is hit again at once, and this share until the time of a hit is known.
const EMPTY: f64 = 1.0 / 16.0;
const EMPTY_AT_FIRST: f64 = 1.0 / 4.0;
/// Largest number of counted calls in a run, and in a run of a function with long runs.
const IN_A_RUN: u32 = 16;
const IN_A_LONG_RUN: u32 = 128;

/// Purpose for which a window armed the function that was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowHit {
    /// None: the window did not arm the function.
    NotArmed,
    /// Second hit of a breakpoint that was left in place.
    Repeat,
    /// For its rate.
    Rate,
    /// As a step of a sequence.
    Step,
    /// As another call of the last step's function.
    Again,
    /// As a step through the blocks of a function.
    Block,
}

/// A sequence in progress.
pub(super) struct Sequence {
    /// Number of hits still to come.
    left: usize,
    /// Processor time at the last step.
    at: Option<u64>,
    /// Last executed function, which is not armed unless its run is followed.
    last: Option<Site>,
    run: Option<FollowedRun>,
    /// Thread that is to hit the breakpoint of the last step again at once, and its processor time then.
    again: Option<(Pid, u64)>,
}

/// A run of calls that is being counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FollowedRun {
    /// Number of calls that may still be counted.
    left: u32,
    /// Thread that stopped at the function and is to execute one instruction; `None` once it has.
    thread: Option<Pid>,
}

impl Sequence {
    /// Makes a sequence of this many hits.
    pub(super) fn of(left: usize) -> Self {
        Self { left, at: None, last: None, run: None, again: None }
    }

    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Handles a hit of a function that is armed for it.
    pub(super) fn hit(
        &mut self,
        (space, modules, log): (&mut AddressSpace, &Modules<'_>, &mut Log),
        random: &mut Generator,
        site: Site,
        thread: Pid,
    ) -> WindowHit {
        self.left = self.left.saturating_sub(1);
        let run = self.run.take().filter(|run| run.thread.is_none());
        if let Some(FollowedRun { left, .. }) = run.filter(|_| self.last == Some(site)) {
            log.again(site);
            self.run =
                (left > 1).then_some(FollowedRun { left: left.saturating_sub(1), thread: Some(thread) });
            return WindowHit::Again;
        }
        space.look_at_clock();
        let now = space.processor_time;
        if let Some((by, before)) = self.again.take().filter(|_| self.last == Some(site)) {
            if by == thread {
                log.step_times().add_empty(now - before);
            }
            self.at = Some(now);
            return WindowHit::Repeat;
        }
        if let Some(before) = self.at.replace(now) {
            log.step_times().add(now - before);
        }
        let last = self.last.replace(site);
        match last {
            Some(last) if run.is_some() => log.run_ended(last),
            Some(last) => drop(space.arm_again(modules, &BTreeSet::from([last]))),
            None => {}
        }
        // The beginning of the first run may have been missed.
        let drawn = if last.is_some() { random.unit() } else { 0.5 };
        let empty = if log.step_times().knows_hits() { EMPTY } else { EMPTY_AT_FIRST };
        if drawn > 1.0 - empty {
            let armed = space.arm_again(modules, &BTreeSet::from([site]));
            self.again = (!armed.is_empty()).then_some((thread, now));
        } else if drawn < FOLLOWED && modules.get(site.module).steps(site.entry) {
            let left = if log.facts(site).has_long_runs() { IN_A_LONG_RUN } else { IN_A_RUN };
            self.run = Some(FollowedRun { left, thread: Some(thread) });
            // The time to the next step contains the time of later calls of the run.
            self.at = None;
        }
        WindowHit::Step
    }

    /// Returns the function whose next call must be seen, if this thread is at its beginning.
    pub(super) fn follows(&self, thread: Pid) -> Option<Site> {
        self.last.filter(|_| self.run.is_some_and(|run| run.thread == Some(thread)))
    }

    /// Continues after the thread has executed one instruction. `armed`: true if the function is armed again.
    pub(super) fn has_stepped(&mut self, armed: bool) {
        self.run = self.run.filter(|_| armed).map(|run| FollowedRun { thread: None, ..run });
    }
}
