// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts: calls are counted for a part of the time, so that the programs' time stays within a bound.
//!
//! All calls are counted at the beginning. After that, call sites that have counted lead to stubs for a moment of each period, and are the
//! file's own otherwise; a site that has never counted costs nothing and stays as it is, so that the first use of a function is seen at any
//! time. Periods are of time, whatever the programs do in it: a call in a burst stands for all calls of that time, so it weighs as much as
//! the time over that of bursts. Counting is taken to cost as much as the program itself, which few programs exceed; stopping the threads of
//! a process and changing its code is measured.

use super::image::ProgramImage;
use super::standstill::Standstill;
use super::supervisor::{Supervisor, TICK};
use super::switch::{CodeState, Switched, SwitchedSites};
use crate::Settings;
use crate::tracing::mappings::all_mappings;
use crate::tracing::system::{self, Resume, Status};
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use sediment_core::plural::counted;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time of the beginning in which all calls are counted, and the share of the time after it, where nobody gives a bound.
const BEGINNING: Duration = Duration::from_secs(10);
const USUAL_OVERHEAD: f64 = 0.05;
/// Shortest and longest period. The longest one counts where switching takes more than the bound, as of very many processes.
const PERIOD: Duration = Duration::from_millis(200);
const LONGEST_PERIOD: Duration = Duration::from_secs(5);
/// Share of the bound that beginning and ending a burst takes, where the period can be long enough for that.
const SWITCHING: f64 = 0.25;
/// Time for the threads of a process to stop; one that waits for a disk goes on as it was.
const STOPPING: Duration = Duration::from_millis(20);

/// When calls are counted.
#[derive(Debug)]
pub(super) struct Bursts {
    /// Share of the time; None if all calls are counted.
    overhead: Option<f64>,
    /// True while calls are counted.
    counting: bool,
    /// When the recording began, and when its beginning was over.
    started: Instant,
    begun: Option<Instant>,
    /// When the last burst began or ended, and the time from there to the next turn.
    turned: Instant,
    rest: Duration,
    /// Time of all bursts that have ended.
    counted: Duration,
    /// Time that the last begin and the last end of a burst took.
    cost: [Duration; 2],
    /// Processes whose code is still to be switched, as a thread stood in the way, and when that was tried last. Such sites are frequent
    /// ones, which would be missed.
    unswitched: BTreeSet<Pid>,
    next_try: Instant,
    number: u64,
}

impl Bursts {
    pub(super) fn new(settings: &Settings) -> Self {
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

    /// The recording begins.
    pub(super) fn start(&mut self) {
        self.started = Instant::now();
        self.turned = self.started;
    }

    fn is_beginning(&self) -> bool {
        self.begun.is_none()
    }

    fn is_due(&self) -> bool {
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

    /// A burst begins or ends.
    fn turn(&mut self) {
        if self.is_beginning() {
            self.begun = Some(Instant::now());
        } else if self.counting {
            self.counted += self.turned.elapsed();
            self.number += 1;
        }
        self.counting = !self.counting;
        self.cost[usize::from(self.counting)] = Duration::ZERO;
    }

    /// Code was switched, or could not be, in this time, by the first attempt or a later one.
    fn has_tried(&mut self, cost: Duration, is_first: bool) {
        let now = Instant::now();
        if is_first {
            self.turned = now;
        }
        self.next_try = now + TICK;
        self.cost[usize::from(self.counting)] += cost;
        let (burst, rest) = self.lengths();
        self.rest = if self.counting { burst } else { rest };
    }

    /// Weight of a call in a burst.
    pub(super) fn weight(&self) -> f64 {
        let Some(begun) = self.begun else { return 1.0 };
        let current = if self.counting { self.turned.elapsed() } else { Duration::ZERO };
        let counted = self.counted + current;
        if counted.is_zero() { 1.0 } else { begun.elapsed().as_secs_f64() / counted.as_secs_f64() }
    }

    /// What of the time was counted, in words; None if all of it.
    pub(super) fn said(&self) -> Option<String> {
        let begun = self.begun?;
        let time = begun.elapsed().as_secs_f64();
        Some(format!(
            "all calls of the first {:.1} s, then {} of {:.1} s in all in {time:.1} s",
            begun.duration_since(self.started).as_secs_f64(),
            counted(self.number, "burst"),
            self.counted.as_secs_f64()
        ))
    }
}

impl Supervisor<'_> {
    /// Begins or ends a burst if it is time.
    pub(super) fn take_turn(&mut self) {
        let begun = Instant::now();
        let is_due = self.bursts.is_due();
        if is_due {
            if self.bursts.counting {
                for image in self.images.iter_mut().flatten() {
                    image.sample(&self.shared);
                }
            }
            let recorded = self.threads.values().filter(|thread| thread.place.is_some());
            self.bursts.unswitched = recorded.map(|thread| thread.process).collect();
            self.bursts.turn();
        } else if self.bursts.unswitched.is_empty() || begun < self.bursts.next_try {
            return;
        }
        let mut longest = Duration::ZERO;
        for process in self.bursts.unswitched.clone() {
            let stopped = Instant::now();
            if !self.is_switchable(process) || self.switch_running(process) != Switched::InPart {
                self.bursts.unswitched.remove(&process);
            }
            longest = longest.max(stopped.elapsed());
        }
        // One process stands still for its own switch; all of it takes time of one processor.
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        self.bursts.has_tried(longest.max(begun.elapsed() / processors), is_due);
    }

    /// Stops a process for a moment and switches its code.
    fn switch_running(&mut self, process: Pid) -> Switched {
        let to = if self.bursts.counting { CodeState::ToStubs } else { CodeState::ToOriginal };
        let mut threads = self.halt(Some(process), STOPPING);
        if to == CodeState::ToStubs {
            self.step_out_of_windows(&mut threads);
        }
        let switched = self.switch(process, &threads, (to, SwitchedSites::Sampled));
        self.proceed(&threads);
        switched
    }

    /// True if no other process has the same memory.
    fn is_switchable(&self, process: Pid) -> bool {
        let in_vfork = |thread: &Pid| self.vforks.contains_key(thread) || self.waits_in_vfork(*thread);
        let mut own = self.threads.iter().filter(|(_, thread)| thread.process == process);
        !self.sharing.contains(&process) && !own.any(|(id, _)| in_vfork(id))
    }

    /// Lets threads go on that stand among the instructions before a call which are to move: the call would not be counted in this burst, and
    /// it is the frequent ones that are met so.
    fn step_out_of_windows(&mut self, threads: &mut Standstill) {
        let trapped = threads.stopped.iter().filter(|(_, status)| **status == Status::Trapped);
        let trapped: Vec<Pid> = trapped.map(|(id, _)| *id).collect();
        for thread in trapped {
            let place = self.threads.get(&thread).and_then(|found| found.place);
            let Some(image) = place.and_then(|(image, _)| self.images[image].as_ref()) else { continue };
            match step_out(thread, image) {
                Some(status @ Status::Signal(_)) => drop(threads.stopped.insert(thread, status)),
                Some(status) => {
                    threads.stopped.remove(&thread);
                    self.handle(thread, status);
                }
                None => {}
            }
        }
    }

    /// Switches the code of a process if all its threads stand still.
    pub(super) fn switch(
        &self,
        process: Pid,
        threads: &Standstill,
        (to, which): (CodeState, SwitchedSites),
    ) -> Switched {
        let own: Vec<(Pid, Option<(usize, u32)>)> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.process == process && !thread.is_ending)
            .map(|(id, thread)| (*id, thread.place))
            .collect();
        let stands = |id: &Pid| threads.stopped.contains_key(id) || self.waits_in_vfork(*id);
        let Some((image, _)) = own.iter().find_map(|(_, place)| *place) else { return Switched::Whole };
        let Some(image) = &self.images[image] else { return Switched::Whole };
        // One that does not stop soon is not waited for again and again.
        if !own.iter().all(|(id, _)| stands(id)) {
            return Switched::Failed;
        }
        let ids: Vec<Pid> = own.iter().map(|(id, _)| *id).collect();
        let Ok(mapped) = all_mappings(ids[0]) else { return Switched::Failed };
        image.switch((ids[0], &ids), &mapped, &self.modules, (to, which)).unwrap_or(Switched::Failed)
    }
}

/// Executes single instructions until a thread stands outside windows; what else stopped it, if anything did.
fn step_out(thread: Pid, image: &ProgramImage) -> Option<Status> {
    /// Instructions of a window, at most.
    const MOST: usize = 32;
    for _ in 0..MOST {
        if !ptrace::getregs(thread).is_ok_and(|registers| image.has_window_at(registers.rip)) {
            return None;
        }
        system::resume(thread, Resume::Step, 0).ok()?;
        let status = system::wait_for(thread).ok()?;
        if status != Status::Signal(libc::SIGTRAP) || !system::is_step(thread) {
            return Some(status);
        }
    }
    None
}
