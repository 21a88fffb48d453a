// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short windows in which some of the functions that have run are armed again, of two kinds; [`super::walks`] has a third.
//!
//! **Sequences.** Some functions that have run are armed, each as likely, and each that is hit is armed again as soon as another is
//! hit: a short sequence of executions, with every caller. Such sequences are a sample of the calls, whatever their
//! rates. A quarter of the functions tells more than all of them: as many steps see a longer time of the program, whose calls
//! within a short one are alike. A function that is called again and again with no other between is a single step, a run of calls, whose
//! length is counted for some ([`super::sequences`]). They take most of the cost.
//!
//! **Rates.** Some functions are armed until they are met, or the window ends. Meetings over armed time, as long as the function was
//! armed and not met, is the likeliest rate of calls that come at random (that of censored exponential times). Functions that run
//! seldom are met so far more often than in sequences; and what both kinds have seen tells how many calls a step stands for
//! ([`super::log`]). Half of the functions are drawn evenly, half with a weight that grows with the square root of their rate.
//!
//! Time is processor time of the process, so that neither waiting nor being stopped counts. The kernel gives it
//! exactly while the process is stopped, else as of the last tick. So the first function that a window for rates hits
//! only begins its time. A function that is not hit was armed to the window's end. The processor time at that end is that of the last
//! hit and the time by the clock since then, as far as the process uses a processor in the long run, and at most a tick beyond what the
//! kernel says: without that, rarely executed functions were overestimated two to three times.
//!
//! Hitting a breakpoint takes processor time of the program itself, until it is stopped and after it goes on. That
//! time is measured by leaving some breakpoints in place when they are first hit, to be hit again at once.

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
    /// The share of the program's processor time that may be spent on it, such as 0.05.
    pub overhead: f64,
    /// Seed for choosing which functions to sample.
    pub seed: u64,
}

/// Time that a window is open.
const WINDOW: Duration = Duration::from_millis(4);
/// Functions that are armed in one.
const FUNCTIONS: usize = 40;
/// Interval between looks whether a window is to be opened or closed, unless something else happens: a look costs
/// processor time as well.
const TURN: Duration = WINDOW;
/// The longest such interval, after a window that cost much.
const LONGEST_TURN: Duration = Duration::from_millis(40);
/// Tolerance for closing a window early.
const EARLY: Duration = Duration::from_micros(500);
/// Shortest interval between looks at the program's processor time.
const LOOK: Duration = Duration::from_millis(1);
/// Windows after which the weights of the draw are looked at again.
const REVIEW: u32 = 64;
/// Number of breakpoints that are hit twice, to measure the cost of a hit.
const REPEATED: usize = 16;
/// Assumed cost of a hit before it is measured.
const STOP: Duration = Duration::from_micros(10);
/// More is not taken for it: then others had the processor meanwhile.
const LONGEST_STOP: Duration = Duration::from_micros(60);

/// Divisor: the part of the functions that have run which is armed for a sequence, but all if they are few, and never too many.
const IN_A_SEQUENCE: usize = 4;
const FEWEST_IN_A_SEQUENCE: usize = 256;
const MOST_IN_A_SEQUENCE: usize = 16_384;
/// Number of steps of a sequence: this, or more where many functions were armed for it, but not too many.
const STEPS: usize = 400;
const FUNCTIONS_TO_A_STEP: usize = 4;
const MOST_STEPS: usize = 2000;
/// Time limit of a sequence.
const SEQUENCE_TIMEOUT: Duration = Duration::from_millis(60);
/// Divisor: the part of the cost that windows for rates may have.
const FOR_RATES: u32 = 4;
/// Divisor: the part of the cost that walks through blocks may have, where there are any.
const FOR_WALKS: u32 = 2;
/// Most sequences before the first walk, and functions that have run for each. In a short recording, walks of a tenth of a second each left
/// none for many functions, whose rates matter more: that a block was executed is known without them.
const MOST_SEQUENCES_FIRST: usize = 8;
const FUNCTIONS_TO_A_FIRST_SEQUENCE: usize = FEWEST_IN_A_SEQUENCE;
/// Divisor: the part of the draws for a walk that is even.
const EVENLY: u32 = 8;
/// Arming takes our time while the program runs on another processor. Divisor: the part of it that counts as the
/// program's.
const ARMING: u32 = 4;

pub(super) struct Windows {
    rates: Rates,
    random: Generator,
    /// When it was last looked how much may be spent, and how much that was.
    looked: Instant,
    allowed: Duration,
    /// Our own processor time when it was last accounted for, and stops of the program since.
    accounted: Duration,
    stops: u32,
    /// Cost of first uses, which is unavoidable.
    fixed: Duration,
    /// Cost of windows, and of those for rates among them.
    spent: Duration,
    spent_on_rates: Duration,
    spent_on_walks: Duration,
    /// Number of sequences so far.
    sequences: usize,
    open: Option<OpenWindow>,
    /// Processor time by space when a window was first opened there, and when that was.
    followed: BTreeMap<u32, (u64, Instant)>,
    /// Processor time by space when a window was last opened.
    times: BTreeMap<u32, u64>,
    draw: Option<Draw>,
    /// The breakpoint that is to be hit again at once.
    repeat: Option<Repeat>,
    /// Cost of each repeat: processor time of the program in nanoseconds, and time by the clock.
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
    /// The functions that were not hit yet; in a sequence, all armed functions.
    waiting: BTreeSet<Site>,
    /// Processor time of its beginning: when it was opened, or exactly, at the first hit.
    since: u64,
    /// Processor time and time of the last hit.
    last: Option<(u64, Instant)>,
    /// Number of breakpoints that the process has hit in its time.
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

/// Purpose of a window, without what it holds while it is open.
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

    /// True once it has seen what it is to see.
    fn is_over(&self) -> bool {
        match self {
            Self::Rates => false,
            Self::Sequence(sequence) => sequence.is_over(),
            Self::Walk(walk) => walk.is_over(),
        }
    }
}

/// Functions that windows of one space draw from.
struct Draw {
    space: u32,
    from: Vec<Site>,
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

    /// Leaves a breakpoint that was hit for the first time in place, if it is to be hit twice.
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

    /// True if this was the second hit of a breakpoint that was left in place.
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

    /// Cost of a hit: processor time of the program in nanoseconds, and time by the clock beside its handling.
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

    /// Interval to the next turn: until more may be spent, as far as that is known.
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

    /// The program begins to run; what was done before is no cost of it.
    pub(super) fn begin(&mut self) {
        self.accounted = own_time();
    }

    /// We looked so long for the program to stop, beside it: no work.
    pub(super) fn looked(&mut self, time: Duration) {
        self.accounted += time;
    }

    /// The program was stopped, and goes on.
    pub(super) fn stopped(&mut self) {
        self.stops += 1;
    }

    /// Time that the program lost since the last call: the time that it was stopped for our work, or our work beside
    /// it.
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

    /// A function was met.
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

    /// The function, and its space, of which the next call is to be seen, if this thread stands at its begin.
    pub(super) fn follows(&self, thread: Pid) -> Option<(u32, Site)> {
        let open = self.open.as_ref()?;
        match &open.kind {
            WindowKind::Sequence(sequence) => sequence.follows(thread).map(|site| (open.space, site)),
            _ => None,
        }
    }

    /// That thread has executed one instruction, and the function is armed again, or not.
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
            // First uses count too; but a program that does new things all the time is to get some windows as well.
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

    /// True once functions have had sequences enough.
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

    /// Takes the functions to draw from, and their weights, anew where they are old.
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

    /// The space whose process worked most since the last window; None if none did.
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

    /// Ends the open window: what was not met was armed to its end.
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
    /// Time that its functions were armed up to this processor time, less the cost of hits.
    fn time_to(&self, now: u64, latency: u64) -> u64 {
        now.saturating_sub(self.since).saturating_sub(self.meetings.saturating_mul(latency))
    }
}

/// The share of a processor that a process has used since windows are opened there, by this processor time.
fn share_of(followed: &BTreeMap<u32, (u64, Instant)>, open: &OpenWindow, now: u64) -> f64 {
    followed.get(&open.space).map_or(1.0, |(began, when)| {
        let time = when.elapsed().as_nanos() as f64;
        if time > 0.0 { now.saturating_sub(*began) as f64 / time } else { 1.0 }
    })
}

/// Processor time of a running process, from its exact time a while ago, what the kernel says, and the share of a processor that it
/// uses.
fn time_now((exact, since): (u64, Duration), kernels: u64, share: f64) -> u64 {
    /// Time that a kernel's tick may take.
    const TICK: f64 = 4e6;
    let kernels = kernels.max(exact);
    let beyond = (kernels - exact) as f64 + TICK * share.max(1.0);
    kernels.max(exact + (since.as_nanos() as f64 * share).min(beyond) as u64)
}

/// Number of sequences before the first walk, where this many functions have run.
fn sequences_first(executed: usize) -> usize {
    (executed / FUNCTIONS_TO_A_FIRST_SEQUENCE).clamp(1, MOST_SEQUENCES_FIRST)
}

/// The share of this many executed functions that is armed for a sequence.
fn share_in_a_sequence(executed: usize) -> f64 {
    let armed = (executed / IN_A_SEQUENCE).clamp(FEWEST_IN_A_SEQUENCE, MOST_IN_A_SEQUENCE);
    armed as f64 / executed.max(1) as f64
}

impl Draw {
    fn of(id: u32, space: &AddressSpace, log: &Log) -> Self {
        let (mut from, mut sums, mut sum) = (Vec::new(), Vec::new(), 0.0);
        for site in space.seen() {
            // In calls per window; a function that was hardly watched may be one of those called often.
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

/// Processor time of this thread: what waiting for a processor took is no cost of its work.
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

    /// A function called every 20 ms, in windows of 4 ms on a process that always runs, with ticks of 4 ms.
    #[test]
    fn rare_functions_have_their_rate() {
        let mut random = Generator::new(7);
        let (mut before, mut now, mut hits) = (0.0, 0.0, 0.0);
        for _ in 0..100_000 {
            let tick = (random.unit() * 4e6) as u64;
            // Another function begins the window's time, and ends it if the rare one does not.
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
