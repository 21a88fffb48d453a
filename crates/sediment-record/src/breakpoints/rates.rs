// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short windows in which some executed functions are armed again. There are two kinds here; [`super::walks`] has a
//! third.
//!
//! **Sequences.** Some executed functions are armed, each with the same probability. A function that is hit is armed
//! again as soon as another one is hit. The result is a short sequence of executions with all callers. Such sequences
//! sample calls independently of their rates. A quarter of the functions gives a better sample than all of them,
//! because the same number of steps covers a longer time, and calls within a short time are alike. Repeated calls of
//! one function with no other in between are a single step, called a run; the length of some runs is counted
//! ([`super::sequences`]). Sequences take most of the cost.
//!
//! **Rates.** Some functions are armed until they are hit or the window ends. If calls come at random, the likeliest
//! rate is the number of hits divided by the time during which the function was armed (the estimate for censored
//! exponential times). Rarely executed functions are hit far more often here than in sequences. Comparing both kinds
//! shows how many calls a step represents ([`super::log`]). Half of the functions are drawn evenly, half with a weight
//! that grows with the square root of their rate.
//!
//! Time is the processor time of the process, so that waits and stops do not count. The kernel reports it exactly while
//! the process is stopped; otherwise it reports the time at the last tick. Therefore the first hit in a window for
//! rates only begins its time. A function without a hit was armed until the window's end. The processor time at that
//! end is estimated: the time at the last hit, plus the clock time since then multiplied by the share of a processor
//! that the process uses in the long run, and at most one tick more than the kernel reports. Without this estimate, the
//! rates of rarely executed functions were two to three times too high.
//!
//! A breakpoint also takes processor time of the program itself, before the program is stopped and after it continues.
//! To measure that time, some breakpoints stay in place at their first hit and are hit again at once.

use super::log::Log;
use super::modules::Modules;
use super::modules::Site;
use super::sequences::{Sequence, WindowHit};
use super::space::AddressSpace;
use super::walks::BlockWalk;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use sediment_core::random::Generator;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Parameters of the estimate of call rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Share of the program's processor time that may be spent on the estimate, such as 0.05.
    pub overhead: f64,
    /// Seed for choosing which functions to sample.
    pub seed: u64,
}

/// Time for which a window is open.
const WINDOW: Duration = Duration::from_millis(4);
/// Number of functions that are armed in a window for rates.
const FUNCTIONS: usize = 40;
/// Interval between checks whether to open or close a window, unless something else happens: a check costs processor
/// time too.
const TURN: Duration = WINDOW;
/// Longest such interval, used after an expensive window.
const LONGEST_TURN: Duration = Duration::from_millis(40);
/// Tolerance for closing a window early.
const EARLY: Duration = Duration::from_micros(500);
/// Shortest interval between reads of the program's processor time.
const LOOK: Duration = Duration::from_millis(1);
/// Number of windows after which the weights of the draw are computed again.
const REVIEW: u32 = 64;
/// Number of breakpoints that are hit twice, to measure the cost of a hit.
const REPEATED: usize = 16;
/// Assumed cost of a hit before it is measured.
const STOP: Duration = Duration::from_micros(10);
/// Longest cost that is accepted for a hit: beyond it, other processes had the processor meanwhile.
const LONGEST_STOP: Duration = Duration::from_micros(60);

/// Divisor: share of the executed functions armed for a sequence. If there are few, all are armed; their number is
/// limited.
const IN_A_SEQUENCE: usize = 4;
const FEWEST_IN_A_SEQUENCE: usize = 256;
const MOST_IN_A_SEQUENCE: usize = 16_384;
/// Number of steps of a sequence; more if many functions are armed for it, up to a limit.
const STEPS: usize = 400;
const FUNCTIONS_TO_A_STEP: usize = 4;
const MOST_STEPS: usize = 2000;
/// Time limit of a sequence.
const SEQUENCE_TIMEOUT: Duration = Duration::from_millis(60);
/// Divisor: the share of the cost for windows for rates.
const FOR_RATES: u32 = 4;
/// Divisor: the share of the cost for walks through blocks, if there are any.
const FOR_WALKS: u32 = 2;
/// Most sequences before the first walk, and the number of executed functions for each of these sequences. Otherwise,
/// in a short recording, walks of a tenth of a second each left no sequences for many functions. The rates of functions
/// matter more: walks are not needed to know that a block was executed.
const MOST_SEQUENCES_FIRST: usize = 8;
const FUNCTIONS_TO_A_FIRST_SEQUENCE: usize = FEWEST_IN_A_SEQUENCE;
/// Divisor: the share of even draws for a walk.
const EVENLY: u32 = 8;
/// Arming takes the recorder's time while the program runs on another processor. Divisor: the share of this time that
/// counts as the program's.
const ARMING: u32 = 4;

pub(super) struct Windows {
    rates: Rates,
    random: Generator,
    /// Time of the last check how much may be spent, and the amount then.
    looked: Instant,
    allowed: Duration,
    /// The recorder's processor time at the last accounting, and stops of the program since then.
    accounted: Duration,
    stops: u32,
    /// Cost of first uses, which is unavoidable.
    fixed: Duration,
    /// Cost of all windows, and the share of windows for rates and of walks in it.
    spent: Duration,
    spent_on_rates: Duration,
    spent_on_walks: Duration,
    /// Number of sequences so far.
    sequences: usize,
    open: Option<OpenWindow>,
    /// By space: processor time when a window was first opened there, and when that was.
    followed: BTreeMap<u32, (u64, Instant)>,
    /// By space: processor time when a window was last opened.
    times: BTreeMap<u32, u64>,
    draw: Option<Draw>,
    /// Breakpoint that is to be hit again at once.
    repeat: Option<Repeat>,
    /// Cost of each repeat: the program's processor time in nanoseconds, and clock time.
    repeats: Vec<(u64, Duration)>,
}

struct Repeat {
    space: u32,
    site: Site,
    thread: Pid,
    time: u64,
    since: Instant,
}

struct OpenWindow {
    space: u32,
    /// Functions that were not hit yet; in a sequence, all armed functions.
    waiting: BTreeSet<Site>,
    /// Processor time at its beginning: when it was opened or, exactly, at the first hit.
    since: u64,
    /// Processor time and clock time of the last hit.
    last: Option<(u64, Instant)>,
    /// Number of breakpoints that the process has hit during it.
    meetings: u64,
    until: Instant,
    kind: WindowKind,
}

/// Kind of an open window.
enum WindowKind {
    Rates,
    Sequence(Sequence),
    Walk(BlockWalk),
}

/// Kind of a window, without its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Rates,
    Sequence,
    Walk,
}

impl WindowKind {
    fn purpose(&self) -> For {
        match self {
            Self::Rates => For::Rates,
            Self::Sequence(_) => For::Sequence,
            Self::Walk(_) => For::Walk,
        }
    }

    /// True once it has seen enough.
    fn is_over(&self) -> bool {
        match self {
            Self::Rates => false,
            Self::Sequence(sequence) => sequence.is_over(),
            Self::Walk(walk) => walk.is_over(),
        }
    }
}

/// Functions from which the windows of one space are drawn.
struct Draw {
    space: u32,
    from: Vec<Site>,
    /// Running sums of the weights.
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
            accounted: own_time(),
            stops: 0,
            fixed: Duration::ZERO,
            spent: Duration::ZERO,
            spent_on_rates: Duration::ZERO,
            spent_on_walks: Duration::ZERO,
            sequences: 0,
            open: None,
            followed: BTreeMap::new(),
            times: BTreeMap::new(),
            draw: None,
            repeat: None,
            repeats: Vec::new(),
        }
    }

    /// Leaves a breakpoint in place at its first hit, if it is to be hit twice.
    pub(super) fn leave_for_repeat(
        &mut self,
        id: u32,
        space: &mut AddressSpace,
        modules: &Modules<'_>,
        site: Site,
        thread: Pid,
    ) {
        if self.repeat.is_some() || self.repeats.len() >= REPEATED {
            return;
        }
        if space.arm_again(modules, &BTreeSet::from([site])).contains(&site) {
            space.look_at_clock();
            let time = space.processor_time;
            self.repeat = Some(Repeat { space: id, site, thread, time, since: Instant::now() });
        }
    }

    /// True if this was the second hit of a breakpoint left in place.
    fn is_repeat(&mut self, id: u32, space: &mut AddressSpace, site: Site, thread: Pid) -> bool {
        let Some(repeat) = self.repeat.take_if(|repeat| repeat.space == id && repeat.site == site) else {
            return false;
        };
        if repeat.thread == thread {
            space.look_at_clock();
            self.repeats.push((space.processor_time.saturating_sub(repeat.time), repeat.since.elapsed()));
        }
        true
    }

    /// Cost of a hit: the program's processor time in nanoseconds, and clock time apart from its handling.
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

    /// Interval to the next turn: the expected time until more may be spent.
    pub(super) fn period(&self) -> Duration {
        if self.open.is_some() {
            return TURN;
        }
        let missing = self.spent.saturating_sub(self.allowed).as_secs_f64();
        let until_allowed = missing / self.rates.overhead.max(f64::MIN_POSITIVE);
        Duration::from_secs_f64(until_allowed.min(LONGEST_TURN.as_secs_f64())).max(TURN)
    }

    /// True while a window is open.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Begins accounting when the program begins to run: earlier work is not a cost of the program.
    pub(super) fn begin(&mut self) {
        self.accounted = own_time();
    }

    /// Excludes the time that we spent looking for the next stop: the program ran meanwhile.
    pub(super) fn looked(&mut self, time: Duration) {
        self.accounted += time;
    }

    /// Counts a stop of the program.
    pub(super) fn stopped(&mut self) {
        self.stops += 1;
    }

    /// Time that the program lost since the last call: the larger of its stops and our work.
    fn account(&mut self) -> Duration {
        let now = own_time();
        let (_, stop) = self.cost_of_meeting();
        let cost = now.saturating_sub(self.accounted).max(stop * std::mem::take(&mut self.stops));
        self.accounted = now;
        cost
    }

    fn spend(&mut self, purpose: For, time: Duration) {
        self.spent += time;
        match purpose {
            For::Rates => self.spent_on_rates += time,
            For::Walk => self.spent_on_walks += time,
            For::Sequence => {}
        }
    }

    /// Handles a hit of a function in the open window.
    pub(super) fn hit(
        &mut self,
        id: u32,
        space: &mut AddressSpace,
        modules: &Modules<'_>,
        site: Site,
        thread: Pid,
        log: &mut Log,
    ) -> WindowHit {
        if self.is_repeat(id, space, site, thread) {
            return WindowHit::Repeat;
        }
        let (latency, _) = self.cost_of_meeting();
        let Some(open) = self.open.as_mut().filter(|open| open.space == id) else {
            return WindowHit::NotArmed;
        };
        open.meetings += 1;
        match &mut open.kind {
            WindowKind::Walk(walk) => {
                return if walk.hit(space, modules, &mut open.waiting, site) {
                    WindowHit::Block
                } else {
                    WindowHit::NotArmed
                };
            }
            WindowKind::Sequence(sequence) => {
                if !open.waiting.contains(&site) {
                    return WindowHit::NotArmed;
                }
                return sequence.hit((space, modules, log), &mut self.random, site, thread);
            }
            WindowKind::Rates => {}
        }
        if !open.waiting.remove(&site) {
            return WindowHit::NotArmed;
        }
        space.look_at_clock();
        let now = space.processor_time;
        if open.last.replace((now, Instant::now())).is_some() {
            let time = open.time_to(now, latency);
            log.watched(site, time, true);
        } else {
            (open.since, open.meetings) = (now, 0);
        }
        WindowHit::Rate
    }

    /// True if a function is armed in the open window.
    pub(super) fn waits_for(&self, space: u32, site: Site) -> bool {
        self.open.as_ref().is_some_and(|open| open.space == space && open.waiting.contains(&site))
    }

    /// Returns the function and its space if this thread is at its beginning and its next call must be seen.
    pub(super) fn follows(&self, thread: Pid) -> Option<(u32, Site)> {
        let open = self.open.as_ref()?;
        match &open.kind {
            WindowKind::Sequence(sequence) => sequence.follows(thread).map(|site| (open.space, site)),
            _ => None,
        }
    }

    /// Continues after the thread has executed one instruction. `armed`: true if the function is armed again.
    pub(super) fn has_stepped(&mut self, armed: bool) {
        self.stops += 1;
        if let Some(OpenWindow { kind: WindowKind::Sequence(sequence), .. }) = &mut self.open {
            sequence.has_stepped(armed);
        }
    }

    /// Removes the open window's breakpoints from a forked child.
    pub(super) fn leave(&self, id: u32, copy: &mut AddressSpace, modules: &Modules<'_>) {
        if let Some(open) = self.open.as_ref().filter(|open| open.space == id) {
            copy.disarm(modules, &open.waiting);
        }
    }

    /// Opens and closes windows when it is time.
    pub(super) fn turn(
        &mut self,
        spaces: &mut BTreeMap<u32, AddressSpace>,
        modules: &Modules<'_>,
        log: &mut Log,
    ) {
        let now = Instant::now();
        if let Some(open) = &self.open {
            if now + EARLY < open.until && !open.kind.is_over() {
                return;
            }
            let purpose = open.kind.purpose();
            let cost = self.account();
            self.spend(purpose, cost);
            self.close(spaces, modules, log);
            let cost = self.account() / ARMING;
            self.spend(purpose, cost);
        }
        if self.spent >= self.allowed {
            if now.duration_since(self.looked) < LOOK {
                return;
            }
            self.looked = now;
            let cost = self.account();
            self.fixed += cost;
            let running = spaces.values_mut().map(|space| {
                space.look_at_clock();
                space.worked()
            });
            let time = Duration::from_nanos(running.sum::<u64>() + log.retired());
            // First uses count too; but a program that keeps executing new functions must get some windows as well.
            let all = time.mul_f64(self.rates.overhead);
            self.allowed = all.saturating_sub(self.fixed).max(all / 2);
        }
        if self.spent < self.allowed {
            let cost = self.account();
            self.fixed += cost;
            let walks_lack = self.spent_on_walks < self.spent / FOR_WALKS;
            let purpose = if self.spent_on_rates < self.spent / FOR_RATES {
                For::Rates
            } else if walks_lack && log.has_blocks() && self.may_walk(spaces) {
                For::Walk
            } else {
                For::Sequence
            };
            self.open(purpose, spaces, modules, log);
            let cost = self.account() / if purpose == For::Rates { ARMING } else { 1 };
            self.spend(purpose, cost);
        }
    }

    /// True once functions have had enough sequences.
    fn may_walk(&self, spaces: &BTreeMap<u32, AddressSpace>) -> bool {
        let executed = || spaces.values().map(|space| space.seen().count()).sum();
        self.sequences >= MOST_SEQUENCES_FIRST || self.sequences >= sequences_first(executed())
    }

    fn open(
        &mut self,
        purpose: For,
        spaces: &mut BTreeMap<u32, AddressSpace>,
        modules: &Modules<'_>,
        log: &mut Log,
    ) {
        let Some(id) = self.busiest(spaces) else { return };
        let Some(space) = spaces.get_mut(&id) else { return };
        let (kind, waiting) = match purpose {
            For::Rates => (WindowKind::Rates, self.some_executed(id, space, modules, log)),
            For::Sequence => {
                let share = share_in_a_sequence(space.seen().count());
                let drawn = space.seen().filter(|_| self.random.unit() < share).collect();
                let waiting = space.arm_again(modules, &drawn);
                let left = (waiting.len() / FUNCTIONS_TO_A_STEP).clamp(STEPS, MOST_STEPS);
                (WindowKind::Sequence(Sequence::of(left)), waiting)
            }
            For::Walk => {
                let (walk, waiting) = self.some_blocks(id, space, modules, log);
                (WindowKind::Walk(walk), waiting)
            }
        };
        if waiting.is_empty() {
            return;
        }
        if purpose == For::Sequence {
            log.gap();
            self.sequences += 1;
        }
        space.look_at_clock();
        self.followed.entry(id).or_insert_with(|| (space.processor_time, Instant::now()));
        self.open = Some(OpenWindow {
            space: id,
            waiting,
            since: space.processor_time,
            last: None,
            meetings: 0,
            until: Instant::now() + if purpose == For::Rates { WINDOW } else { SEQUENCE_TIMEOUT },
            kind,
        });
    }

    /// Draws functions and arms them.
    fn some_executed(
        &mut self,
        id: u32,
        space: &mut AddressSpace,
        modules: &Modules<'_>,
        log: &Log,
    ) -> BTreeSet<Site> {
        self.review(id, space, log);
        let Some(draw) = &mut self.draw else { return BTreeSet::new() };
        let turns = 0..FUNCTIONS.min(draw.from.len());
        let drawn = turns.map(|turn| draw.next(turn % 2 == 0, &mut self.random)).collect();
        space.arm_again(modules, &drawn)
    }

    /// Draws functions and arms their executed blocks.
    fn some_blocks(
        &mut self,
        id: u32,
        space: &mut AddressSpace,
        modules: &Modules<'_>,
        log: &Log,
    ) -> (BlockWalk, BTreeSet<Site>) {
        self.review(id, space, log);
        let Some(draw) = self.draw.as_ref().filter(|draw| !draw.from.is_empty()) else {
            return (BlockWalk::default(), BTreeSet::new());
        };
        let mut turn = 0u32;
        BlockWalk::begin(space, modules, log, &mut self.random, |random| {
            turn += 1;
            let caller = if turn % 2 == 0 { log.draw_caller(modules, random) } else { None };
            caller.unwrap_or_else(|| draw.next(turn % EVENLY == 1, random))
        })
    }

    /// Recomputes the functions to draw from and their weights if they are old.
    fn review(&mut self, id: u32, space: &AddressSpace, log: &Log) {
        let seen = space.seen().count();
        let stale = self.draw.as_ref().is_none_or(|draw| {
            let drawn = draw.from.len();
            draw.space != id || draw.used >= REVIEW || drawn + drawn / 8 < seen || drawn > seen
        });
        if stale {
            self.draw = Some(Draw::of(id, space, log));
        }
        if let Some(draw) = &mut self.draw {
            draw.used += 1;
        }
    }

    /// Returns the space whose process worked most since the last window; `None` if none worked.
    fn busiest(&mut self, spaces: &mut BTreeMap<u32, AddressSpace>) -> Option<u32> {
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

    /// Ends the open window: functions without a hit were armed to its end.
    pub(super) fn close(
        &mut self,
        spaces: &mut BTreeMap<u32, AddressSpace>,
        modules: &Modules<'_>,
        log: &mut Log,
    ) {
        let (latency, _) = self.cost_of_meeting();
        let Some(open) = self.open.take() else { return };
        let Some(space) = spaces.get_mut(&open.space) else { return };
        space.look_at_clock();
        let kernels = space.processor_time;
        let now = match open.last {
            Some((at, when)) => {
                time_now((at, when.elapsed()), kernels, share_of(&self.followed, &open, kernels))
            }
            None => kernels,
        };
        space.disarm(modules, &open.waiting);
        if open.kind.purpose() == For::Rates {
            let time = open.time_to(now, latency);
            for site in open.waiting {
                log.watched(site, time, false);
            }
        }
    }
}

impl OpenWindow {
    /// Time for which its functions were armed, up to this processor time, without the cost of hits.
    fn time_to(&self, now: u64, latency: u64) -> u64 {
        now.saturating_sub(self.since).saturating_sub(self.meetings.saturating_mul(latency))
    }
}

/// Share of a processor that a process has used since its first window, up to this processor time.
fn share_of(followed: &BTreeMap<u32, (u64, Instant)>, open: &OpenWindow, now: u64) -> f64 {
    followed.get(&open.space).map_or(1.0, |(began, when)| {
        let time = when.elapsed().as_nanos() as f64;
        if time > 0.0 { now.saturating_sub(*began) as f64 / time } else { 1.0 }
    })
}

/// Estimates the processor time of a running process from its exact time a while ago, the kernel's value, and the share
/// of a processor that it uses.
fn time_now((exact, since): (u64, Duration), kernels: u64, share: f64) -> u64 {
    /// Length of a kernel tick in nanoseconds, at most.
    const TICK: f64 = 4e6;
    let kernels = kernels.max(exact);
    let beyond = (kernels - exact) as f64 + TICK * share.max(1.0);
    kernels.max(exact + (since.as_nanos() as f64 * share).min(beyond) as u64)
}

/// Number of sequences before the first walk, if this many functions have run.
fn sequences_first(executed: usize) -> usize {
    (executed / FUNCTIONS_TO_A_FIRST_SEQUENCE).clamp(1, MOST_SEQUENCES_FIRST)
}

/// Share of this many executed functions that is armed for a sequence.
fn share_in_a_sequence(executed: usize) -> f64 {
    let armed = (executed / IN_A_SEQUENCE).clamp(FEWEST_IN_A_SEQUENCE, MOST_IN_A_SEQUENCE);
    armed as f64 / executed.max(1) as f64
}

impl Draw {
    fn of(id: u32, space: &AddressSpace, log: &Log) -> Self {
        let (mut from, mut sums, mut sum) = (Vec::new(), Vec::new(), 0.0);
        for site in space.seen() {
            // In calls per window. A function that was hardly watched may be a frequent one.
            let window = WINDOW.as_nanos() as f64;
            let (hits, watched) = log.facts(site).seen();
            sum += ((hits as f64 + 0.5) / (watched as f64 + window) * window).sqrt();
            from.push(site);
            sums.push(sum);
        }
        Self { space: id, from, sums, used: 0 }
    }

    fn next(&self, evenly: bool, random: &mut Generator) -> Site {
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

/// Processor time of this thread: time spent waiting for a processor is not a cost.
fn own_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn time_goes_on_after_the_last_tick() {
        let since = Duration::from_millis(3);
        assert_eq!(time_now((100 * MS, since), 100 * MS, 1.0), 103 * MS);
        assert_eq!(time_now((100 * MS, since), 102 * MS, 0.5), 102 * MS, "the kernel knows of more");
        assert_eq!(time_now((100 * MS, since), 90 * MS, 0.5), 101 * MS + MS / 2);
        assert_eq!(
            time_now((100 * MS, Duration::from_millis(60)), 101 * MS, 1.0),
            105 * MS,
            "it did not run"
        );
    }

    #[test]
    fn walks_begin_early_where_few_functions_run() {
        assert_eq!([0, 226, 800, 1948, 100_000].map(sequences_first), [1, 1, 3, 7, 8]);
    }

    #[test]
    fn a_quarter_of_many_functions_is_in_a_sequence() {
        assert!(share_in_a_sequence(0) >= 1.0 && share_in_a_sequence(256) >= 1.0, "all of few");
        assert_eq!(share_in_a_sequence(2400), 0.25);
        assert_eq!(share_in_a_sequence(512), 0.5);
        assert_eq!(share_in_a_sequence(16_384 * 8), 0.125, "no more than can be armed in time");
    }

    /// A function called every 20 ms, in windows of 4 ms. The process always runs; ticks take 4 ms.
    #[test]
    fn rare_functions_have_their_rate() {
        let mut random = Generator::new(7);
        let (mut before, mut now, mut hits) = (0.0, 0.0, 0.0);
        for _ in 0..100_000 {
            let tick = (random.unit() * 4e6) as u64;
            // Another function begins the window's time, and ends it unless the rare one does.
            let begins = (random.unit() * 1e6) as u64;
            let end = 4 * MS;
            let rare = begins + (-(1.0 - random.unit()).ln() * 20e6) as u64;
            if rare < end {
                hits += 1.0;
                (before, now) = (before + (rare - begins) as f64, now + (rare - begins) as f64);
                continue;
            }
            let kernels = if tick > begins && tick < end { tick } else { begins };
            before += (kernels - begins) as f64;
            now += (time_now((begins, Duration::from_nanos(end - begins)), kernels, 1.0) - begins) as f64;
        }
        let rate = |time: f64| hits / time * 20e6;
        assert!((0.97..1.03).contains(&rate(now)), "{}", rate(now));
        assert!(rate(before) > 1.5, "{}: as it was without", rate(before));
    }
}
