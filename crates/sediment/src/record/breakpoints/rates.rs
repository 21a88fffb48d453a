// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short windows in which some of the functions that have run are armed again: how often they are met, over how long they were
//! armed, estimates how often they are called.
//!
//! A trap fires once, so a function gives at most one meeting in a window: calls that come at random with rate r are met after
//! 1/r on average, and meetings over armed time, as long as the function was armed and not met, is the likeliest rate (that of
//! censored exponential times). Time is processor time of the process, so that neither waiting nor being stopped counts.
//!
//! Meeting a trap takes processor time of the program itself, until it is stopped and after it goes on. How much is seen in the
//! bursts below, where traps are met one after the other, and by leaving some traps in place when they are first met, to be met again
//! at once. It is taken off for every trap that the process met while a function was armed ([`super::log`]).
//!
//! Now and then a window arms all functions that have run, until some have been met: each such burst is a short sequence of what
//! runs after what, in which every function stands once.
//!
//! Half of the functions of a window are drawn evenly, half with a weight that grows with the square root of their rate: what is
//! called often has many callers to be told apart. How a function was chosen does not change its estimate.

use super::log::Log;
use super::modules::Modules;
use super::space::{Site, Space};
use crate::random::Generator;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How call rates are estimated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// The share of the program's processor time that may be spent on it, such as 0.05.
    pub overhead: f64,
    /// What the functions of the windows are drawn by.
    pub seed: u64,
}

/// How long a window is open.
const WINDOW: Duration = Duration::from_millis(4);
/// Functions that are armed in one.
const FUNCTIONS: usize = 40;
/// How often it is looked whether a window is to be opened or closed.
const TURN: Duration = Duration::from_millis(1);
/// Windows after which the weights of the draw are looked at again.
const REVIEW: u32 = 64;
/// How many traps are met twice, to see what meeting one costs.
const REPEATED: usize = 16;
/// What is taken for it before that is known.
const STOP: Duration = Duration::from_micros(10);
/// More is not taken for it: then others had the processor meanwhile.
const LONGEST_STOP: Duration = Duration::from_micros(60);

/// Functions that are armed in a burst, and after how many meetings it ends.
const IN_A_BURST: usize = 4096;
const MET_IN_A_BURST: usize = 64;
/// The share of the cost that bursts may have: one in so many.
const BURSTS: u32 = 8;
/// Arming takes our time while the program runs on another processor: of it, one in so many counts as the program's.
const ARMING: u32 = 4;

/// A function in the draw: its image, and its entry there.
type Candidate = (usize, u32);

pub(super) struct Windows {
    rates: Rates,
    random: Generator,
    /// When it was last looked how much may be spent, and how much that was.
    looked: Instant,
    allowed: Duration,
    /// What first uses and arming cost, which is not to be helped.
    fixed: Duration,
    /// What windows cost, and bursts among them.
    spent: Duration,
    spent_on_bursts: Duration,
    open: Option<Open>,
    /// Processor time by space when a window was last opened.
    times: BTreeMap<u32, u64>,
    draw: Option<Draw>,
    /// The trap that is to be met again at once.
    repeat: Option<Repeat>,
    /// What it took: processor time of the program in nanoseconds, and time by the clock.
    repeats: Vec<(u64, Duration)>,
}

struct Repeat {
    space: u32,
    site: Site,
    thread: Pid,
    time: u64,
    since: Instant,
}

struct Open {
    space: u32,
    /// The functions that were not met yet.
    waiting: Vec<Waiting>,
    /// How many traps the process has met since it was opened.
    meetings: u64,
    /// Processor time when it last met one in a burst.
    last: Option<u64>,
    /// How long it was stopped since.
    stopped: Duration,
    until: Instant,
    /// How many are yet to be met in a burst; None in a window for rates.
    burst: Option<usize>,
}

/// A function that is armed, and when it was: by the processor time of the process, which the kernel brings up to date only when
/// the process stops or a tick comes, and by the clock.
struct Waiting {
    site: Site,
    since: u64,
    armed: Instant,
}

/// How a window took the meeting of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was none of the window's: the function was not armed by it.
    Not,
    /// For its rate.
    ForRate,
    /// As a step of a burst.
    AsStep,
}

/// What windows of one space draw from.
struct Draw {
    space: u32,
    from: Vec<Candidate>,
    /// Sums of the weights up to each.
    sums: Vec<f64>,
    used: u32,
}

impl Windows {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            rates,
            random: Generator::new(rates.seed),
            looked: Instant::now(),
            allowed: Duration::ZERO,
            fixed: Duration::ZERO,
            spent: Duration::ZERO,
            spent_on_bursts: Duration::ZERO,
            open: None,
            times: BTreeMap::new(),
            draw: None,
            repeat: None,
            repeats: Vec::new(),
        }
    }

    /// Leaves a trap that was met for the first time in place, if it is to be met twice.
    pub(super) fn leave_for_repeat(
        &mut self,
        id: u32,
        space: &mut Space,
        modules: &Modules<'_>,
        site: Site,
        thread: Pid,
    ) {
        if self.repeat.is_some() || self.repeats.len() >= REPEATED {
            return;
        }
        let Some(image) = space.images.iter().position(|image| image.module == site.module) else { return };
        if space.arm_again(modules, image, site.entry) {
            let time = space.processor_time;
            self.repeat = Some(Repeat { space: id, site, thread, time, since: Instant::now() });
        }
    }

    /// Whether this was the second meeting of a trap that was left in place.
    pub(super) fn is_repeat(&mut self, id: u32, space: &Space, site: Site, thread: Pid) -> bool {
        let Some(repeat) = self.repeat.take_if(|repeat| repeat.space == id && repeat.site == site) else {
            return false;
        };
        if repeat.thread == thread {
            self.repeats.push((space.processor_time.saturating_sub(repeat.time), repeat.since.elapsed()));
        }
        true
    }

    /// What meeting a trap takes: processor time of the program in nanoseconds, and time by the clock beside its handling.
    pub(super) fn cost_of_meeting(&self) -> (u64, Duration) {
        let middle = |mut all: Vec<u64>| {
            all.sort_unstable();
            all.get(all.len() / 2).copied()
        };
        let default = STOP.as_nanos() as u64;
        let time = middle(self.repeats.iter().map(|(time, _)| *time).collect()).unwrap_or(default);
        let stop = middle(self.repeats.iter().map(|(_, stop)| stop.as_nanos() as u64).collect());
        (time, Duration::from_nanos(stop.unwrap_or(default)).min(LONGEST_STOP))
    }

    pub(super) fn period(&self) -> Duration {
        TURN
    }

    /// Counts what handling one stop took.
    pub(super) fn spend(&mut self, handling: Duration) {
        let (_, stop) = self.cost_of_meeting();
        match &mut self.open {
            Some(open) => {
                open.stopped += handling + stop;
                let burst = open.burst.is_some();
                self.spend_in(burst, handling + stop);
            }
            None => self.fixed += handling + stop,
        }
    }

    fn spend_in(&mut self, burst: bool, time: Duration) {
        self.spent += time;
        if burst {
            self.spent_on_bursts += time;
        }
    }

    /// A function was met.
    pub(super) fn hit(&mut self, id: u32, space: &Space, site: Site, log: &mut Log) -> Taken {
        let (latency, stop) = self.cost_of_meeting();
        let Some(open) = self.open.as_mut().filter(|open| open.space == id) else { return Taken::Not };
        open.meetings += 1;
        let now = space.processor_time;
        let Some(position) = open.waiting.iter().position(|waiting| waiting.site == site) else {
            return Taken::Not;
        };
        let Waiting { since, armed, .. } = open.waiting.swap_remove(position);
        if let Some(left) = &mut open.burst {
            *left = left.saturating_sub(1);
            if let Some(last) = open.last.replace(now) {
                log.took(now.saturating_sub(last));
            }
            return Taken::AsStep;
        }
        // Either is too long in its own way: the one by what the kernel had not counted yet, the other by waiting.
        let by_processor = now.saturating_sub(since).saturating_sub(open.meetings.saturating_mul(latency));
        let by_clock = armed.elapsed().saturating_sub(open.stopped).saturating_sub(stop);
        let time = by_processor.min(by_clock.as_nanos() as u64);
        log.watched(site, time, 0, true);
        Taken::ForRate
    }

    /// What a forked child has of the open window is none of it.
    pub(super) fn leave(&self, id: u32, copy: &mut Space, modules: &Modules<'_>) {
        for Waiting { site, .. } in
            self.open.iter().filter(|open| open.space == id).flat_map(|open| &open.waiting)
        {
            copy.disarm(modules, *site);
        }
    }

    /// Opens and closes windows when it is time.
    pub(super) fn turn(&mut self, spaces: &mut BTreeMap<u32, Space>, modules: &Modules<'_>, log: &mut Log) {
        let (now, before) = (Instant::now(), own_time());
        if let Some(open) = &self.open {
            if now >= open.until || open.burst == Some(0) {
                let burst = open.burst.is_some();
                self.close(spaces, modules, log);
                self.spend_in(burst, own_time().saturating_sub(before) / ARMING);
            }
            return;
        }
        if self.spent >= self.allowed {
            if now.duration_since(self.looked) < TURN {
                return;
            }
            self.looked = now;
            let running = spaces.values_mut().map(|space| {
                space.look_at_clock();
                space.worked()
            });
            let time = Duration::from_nanos(running.sum::<u64>() + log.retired());
            // First uses count too; but a program that does new things all the time is to get some windows as well.
            let all = time.mul_f64(self.rates.overhead);
            self.allowed = all.saturating_sub(self.fixed).max(all / 2);
        }
        if self.spent < self.allowed {
            let burst = self.spent_on_bursts < self.spent / BURSTS;
            self.open(burst, spaces, modules, log);
            self.spend_in(burst, own_time().saturating_sub(before) / ARMING);
        }
    }

    fn open(&mut self, burst: bool, spaces: &mut BTreeMap<u32, Space>, modules: &Modules<'_>, log: &mut Log) {
        let Some(id) = self.busiest(spaces) else { return };
        let Some(space) = spaces.get_mut(&id) else { return };
        let waiting =
            if burst { all_that_ran(space, modules) } else { self.some_that_ran(id, space, modules, log) };
        if waiting.is_empty() {
            return;
        }
        if burst {
            log.gap();
        }
        let burst = burst.then_some(MET_IN_A_BURST);
        self.open = Some(Open {
            space: id,
            waiting,
            until: Instant::now() + WINDOW,
            burst,
            meetings: 0,
            last: None,
            stopped: Duration::ZERO,
        });
    }

    /// Draws functions and arms them.
    fn some_that_ran(
        &mut self,
        id: u32,
        space: &mut Space,
        modules: &Modules<'_>,
        log: &Log,
    ) -> Vec<Waiting> {
        let seen: usize = space.images.iter().map(|image| image.seen.len()).sum();
        let stale = self.draw.as_ref().is_none_or(|draw| {
            let drawn = draw.from.len();
            draw.space != id || draw.used >= REVIEW || drawn + drawn / 8 < seen || drawn > seen
        });
        if stale {
            self.draw = Some(Draw::of(id, space, log));
        }
        let Some(draw) = &mut self.draw else { return Vec::new() };
        draw.used += 1;
        let mut waiting: Vec<Waiting> = Vec::with_capacity(FUNCTIONS);
        for turn in 0..FUNCTIONS.min(draw.from.len()) {
            let (image, entry) = draw.next(turn % 2 == 0, &mut self.random);
            let Some(module) = space.images.get(image).map(|image| image.module) else { continue };
            let site = Site { module, entry };
            if waiting.iter().any(|waiting| waiting.site == site) {
                continue;
            }
            if space.arm_again(modules, image, entry) {
                space.look_at_clock();
                waiting.push(Waiting { site, since: space.processor_time, armed: Instant::now() });
            }
        }
        waiting
    }

    /// The space whose process worked most since the last window; None if none did.
    fn busiest(&mut self, spaces: &mut BTreeMap<u32, Space>) -> Option<u32> {
        let mut best: Option<(u64, u32)> = None;
        let mut times = BTreeMap::new();
        for (id, space) in spaces.iter_mut() {
            space.look_at_clock();
            let worked = space.processor_time.saturating_sub(self.times.get(id).copied().unwrap_or(0));
            if worked > best.map_or(0, |(most, _)| most) {
                best = Some((worked, *id));
            }
            times.insert(*id, space.processor_time);
        }
        self.times = times;
        best.map(|(_, id)| id)
    }

    /// Ends the open window: what was not met was armed to its end.
    pub(super) fn close(&mut self, spaces: &mut BTreeMap<u32, Space>, modules: &Modules<'_>, log: &mut Log) {
        let Some(open) = self.open.take() else { return };
        let Some(space) = spaces.get_mut(&open.space) else { return };
        space.look_at_clock();
        for Waiting { site, since, .. } in open.waiting {
            if open.burst.is_none() {
                log.watched(site, space.processor_time.saturating_sub(since), open.meetings, false);
            }
            space.disarm(modules, site);
        }
    }
}

/// Arms all functions that have run.
fn all_that_ran(space: &mut Space, modules: &Modules<'_>) -> Vec<Waiting> {
    let mut seen: Vec<(usize, Site)> = Vec::new();
    for (index, image) in space.images.iter().enumerate() {
        seen.extend(
            image.seen.iter().map(|(entry, _)| (index, Site { module: image.module, entry: *entry })),
        );
    }
    seen.truncate(IN_A_BURST);
    seen.retain(|(image, site)| space.arm_again(modules, *image, site.entry));
    seen.into_iter().map(|(_, site)| Waiting { site, since: 0, armed: Instant::now() }).collect()
}

impl Draw {
    fn of(id: u32, space: &Space, log: &Log) -> Self {
        let (mut from, mut sums, mut sum) = (Vec::new(), Vec::new(), 0.0);
        for (index, image) in space.images.iter().enumerate() {
            for (entry, _) in &image.seen {
                let facts = log.facts(Site { module: image.module, entry: *entry });
                // In calls per window; a function that was hardly watched may be one of those called often.
                let window = WINDOW.as_nanos() as f64;
                sum += ((facts.hits as f64 + 0.5) / (facts.watched() as f64 + window) * window).sqrt();
                from.push((index, *entry));
                sums.push(sum);
            }
        }
        Self { space: id, from, sums, used: 0 }
    }

    fn next(&self, evenly: bool, random: &mut Generator) -> Candidate {
        let count = self.from.len();
        let position = if evenly {
            (random.unit() * count as f64) as usize
        } else {
            let drawn = random.unit() * self.sums.last().copied().unwrap_or_default();
            self.sums.partition_point(|sum| *sum <= drawn)
        };
        self.from[position.min(count - 1)]
    }
}

/// Processor time of this thread: what waiting for a processor took is no cost of its work.
pub(super) fn own_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
