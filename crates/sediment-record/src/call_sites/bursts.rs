// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts: calls are counted for part of the time, so that the programs' CPU time stays within a bound.
//!
//! All calls are counted at the beginning. After that, call sites that have counted lead to stubs for a moment of each
//! period; the rest of the time they have the file's own code. A site that has never counted costs nothing and keeps
//! its stub, so that the first use of a function is seen at any time. Periods are measured in wall time, independent of
//! the programs' activity. A call in a burst represents all calls of the period, so its weight is the total time
//! divided by the time of the bursts. Counting is assumed to cost as much as the program itself, which few programs
//! exceed. The cost of stopping the threads of a process and changing its code is measured.

use super::counters::BurstWeight;
use crate::RecordSettings;
use nix::unistd::Pid;
use sediment_core::plural::counted;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Initial time in which all calls are counted, and the share of the time after it if no bound is given.
const BEGINNING: Duration = Duration::from_secs(10);
const USUAL_OVERHEAD: f64 = 0.05;
/// Shortest and longest period. The longest period is used if switching costs more than the bound, for example with
/// very many processes.
const PERIOD: Duration = Duration::from_millis(200);
const LONGEST_PERIOD: Duration = Duration::from_secs(5);
/// Share of the overhead bound for beginning and ending bursts, if the longest period allows it.
const SWITCHING: f64 = 0.25;
/// Time between attempts to switch a process.
const AGAIN: Duration = Duration::from_millis(1);

/// When calls are counted.
#[derive(Debug)]
pub(super) struct Bursts {
    /// Share of the time; None if all calls are counted.
    overhead: Option<f64>,
    /// True while calls are counted.
    pub(super) counting: bool,
    /// Time when the recording began, and time when its beginning ended.
    started: Instant,
    begun: Option<Instant>,
    /// Time when the last burst began or ended, and the time from then to the next turn.
    turned: Instant,
    rest: Duration,
    /// Time of all bursts that have ended.
    counted: Duration,
    /// Cost of the last beginning and of the last end of a burst.
    cost: [Duration; 2],
    /// Processes that must still be switched, because a thread was among the bytes that change, and time of the next
    /// attempt. Such sites are frequently executed, and would be missed otherwise.
    pub(super) unswitched: BTreeSet<Pid>,
    pub(super) next_try: Instant,
    number: u64,
}

impl Bursts {
    pub(super) fn new(settings: &RecordSettings) -> Self {
        let now = Instant::now();
        let mut bursts = Self {
            overhead: (!settings.exact).then_some(settings.overhead.unwrap_or(USUAL_OVERHEAD)),
            counting: true,
            started: now,
            begun: None,
            turned: now,
            rest: BEGINNING,
            counted: Duration::ZERO,
            cost: [Duration::ZERO; 2],
            unswitched: BTreeSet::new(),
            next_try: now,
            number: 0,
        };
        if settings.overhead.is_some() {
            bursts.rest = bursts.lengths().0;
        }
        bursts
    }

    /// Begins the time of the recording.
    pub(super) fn start(&mut self) {
        self.started = Instant::now();
        self.turned = self.started;
    }

    fn is_beginning(&self) -> bool {
        self.begun.is_none()
    }

    pub(super) fn is_due(&self) -> bool {
        self.overhead.is_some() && self.turned.elapsed() >= self.rest
    }

    /// Length of a burst, and of the rest of the period.
    fn lengths(&self) -> (Duration, Duration) {
        let share = self.overhead.unwrap_or(1.0).min(1.0);
        let cost = self.cost[0] + self.cost[1];
        let period = PERIOD.max(cost.div_f64(share * SWITCHING)).min(LONGEST_PERIOD);
        let burst = period.mul_f64(share).saturating_sub(cost).max(cost / 2);
        (burst, period.saturating_sub(burst))
    }

    /// Begins or ends a burst.
    pub(super) fn turn(&mut self) {
        if self.is_beginning() {
            self.begun = Some(Instant::now());
        } else if self.counting {
            self.counted += self.turned.elapsed();
            self.number += 1;
        }
        self.counting = !self.counting;
        self.cost[usize::from(self.counting)] = Duration::ZERO;
    }

    /// Records that an attempt to switch code took this time, whether it succeeded or not. `is_first`: the first attempt of this switch.
    /// `one_runs`: a process did not stop, so the next attempt waits longer.
    pub(super) fn has_tried(&mut self, cost: Duration, is_first: bool, one_runs: bool) {
        let now = Instant::now();
        if is_first {
            self.turned = now;
        }
        self.next_try = now + AGAIN.max(if one_runs { 10 * cost } else { Duration::ZERO });
        self.cost[usize::from(self.counting)] += cost;
        let (burst, rest) = self.lengths();
        self.rest = if self.counting { burst } else { rest };
    }

    /// Weight of a call in a burst.
    pub(super) fn weight(&self) -> BurstWeight {
        let Some(begun) = self.begun else { return BurstWeight { weight: 1.0, bursts: 0 } };
        let current = if self.counting { self.turned.elapsed() } else { Duration::ZERO };
        let counted = self.counted + current;
        let weight =
            if counted.is_zero() { 1.0 } else { begun.elapsed().as_secs_f64() / counted.as_secs_f64() };
        BurstWeight { weight, bursts: self.number + u64::from(self.counting) }
    }

    /// Text for the share of time in which calls were counted; `None` if this is all of the time.
    pub(super) fn said(&self) -> Option<String> {
        let begun = self.begun?;
        let time = begun.elapsed().as_secs_f64();
        Some(format!(
            "all calls of the first {:.1} s, then {} with {:.1} s in total, in {time:.1} s",
            begun.duration_since(self.started).as_secs_f64(),
            counted(self.number, "burst"),
            self.counted.as_secs_f64()
        ))
    }
}
