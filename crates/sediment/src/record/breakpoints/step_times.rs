// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processor time from step to step of sequences, of which a hit takes a part.
//!
//! What the program takes for itself tells how many calls it makes in all. Beside what hits take, that is little: a program may call a
//! thousand times in the time of one. So now and then a breakpoint is hit twice, with nothing between: an empty step. The difference in
//! the mean is the program's own time, where it is more than chance and a part of the hits explain.

use std::collections::BTreeMap;

/// Processor time from call to call, in nanoseconds, of programs that call too often to tell it: SQLite's shell, gawk and perl take 5 to 7 on a
/// fast processor. A program that calls rarely is timed.
const FROM_CALL_TO_CALL: f64 = 10.0;
/// Divisor: the part of what a hit takes that is no less than a call takes. On a fast processor, a hit takes some microseconds.
const CALLS_OF_A_HIT: f64 = 2000.0;
/// The share of steps that take what a hit takes, and hardly more: where a function begins by a call, say.
const SHORTEST: f64 = 0.25;
/// The share of the longest: of some of them, others had the processor.
const LONGEST: f64 = 0.1;
/// Number of empty steps that tell what a hit takes.
const ENOUGH: u64 = 12;
/// Number that tells it exactly.
const MANY: u64 = 50;
/// Standard errors that are no chance.
const DOUBT: f64 = 2.0;
/// The part of a hit that may be of the circumstances.
const INEXACT: f64 = 0.125;

/// Processor time of steps, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct StepTimes {
    steps: Times,
    empty: Times,
}

impl StepTimes {
    /// From a step to the next.
    pub(super) fn add(&mut self, time: u64) {
        self.steps.add(time);
    }

    /// From a step to the hit of the same breakpoint at once.
    pub(super) fn add_empty(&mut self, time: u64) {
        self.empty.add(time);
    }

    /// True once there are many empty steps.
    pub(super) fn knows_hits(&self) -> bool {
        self.empty.count() >= MANY
    }

    /// Processor time of the program itself for a step, in which it makes `calls`. Where it cannot be told beside the hits, the shortest that
    /// programs take; where only the longest tenth of the steps says so, the truth lies somewhere between.
    pub(super) fn own(&self, calls: f64) -> f64 {
        let usual = self.steps.usual();
        let (hit, mean_hit, least) = if self.empty.count() < ENOUGH {
            let hit = self.steps.short();
            (hit, hit, hit)
        } else {
            let empty = self.empty.usual();
            let chance = DOUBT * usual.error.hypot(empty.error);
            (empty.mean, self.empty.mean(), chance + INEXACT * empty.mean)
        };
        let shortest = calls * FROM_CALL_TO_CALL.max(hit / CALLS_OF_A_HIT);
        let measured = (self.steps.mean() - mean_hit).max(shortest);
        if usual.mean - hit > least {
            measured
        } else if self.steps.mean() > 2.0 * mean_hit {
            (measured * shortest).sqrt()
        } else {
            shortest
        }
    }
}

/// Some times.
#[derive(Debug, Clone, Default)]
struct Times {
    sum: u64,
    /// Number of times in classes of a quarter of an octave.
    classes: BTreeMap<u32, u64>,
}

/// Mean of the times but the longest, and its standard error.
#[derive(Debug, Clone, Copy)]
struct Usual {
    mean: f64,
    error: f64,
}

impl Times {
    fn add(&mut self, time: u64) {
        self.sum += time;
        *self.classes.entry(((time.max(1) as f64).log2() * 4.0) as u32).or_default() += 1;
    }

    fn count(&self) -> u64 {
        self.classes.values().sum()
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64
    }

    /// The shortest time of a class.
    fn time(class: u32) -> f64 {
        (f64::from(class) / 4.0).exp2()
    }

    /// A time that only the shortest of them stay below.
    fn short(&self) -> f64 {
        let (mut before, least) = (0, self.count() as f64 * SHORTEST);
        let class = self.classes.iter().find(|(_, count)| {
            before += **count;
            before as f64 >= least
        });
        class.map_or(0.0, |(class, _)| Self::time(class + 1))
    }

    fn usual(&self) -> Usual {
        let most = self.count() as f64 * (1.0 - LONGEST);
        let (mut count, mut sum, mut squares) = (0, 0.0, 0.0);
        for (class, more) in &self.classes {
            if count as f64 >= most {
                break;
            }
            // In the middle of the class.
            let time = Self::time(*class) * 1.09;
            count += more;
            sum += time * *more as f64;
            squares += time * time * *more as f64;
        }
        let count = count.max(1) as f64;
        let mean = sum / count;
        Usual { mean, error: ((squares / count - mean * mean).max(0.0) / count).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Generator;

    /// Hits of a time that varies by half of it, and these times of the program between.
    fn times(hit: f64, empty: u64, own: impl Fn(u64) -> f64) -> StepTimes {
        let mut random = Generator::new(3);
        let mut times = StepTimes::default();
        let mut time = |own: f64| (hit * (0.75 + random.unit() / 2.0) + own) as u64;
        (0..400).for_each(|step| times.add(time(own(step))));
        (0..empty).for_each(|_| times.add_empty(time(0.0)));
        times
    }

    fn is_near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 0.2
    }

    #[test]
    fn short_times_beside_hits_are_assumed() {
        // A call in 25 ns, and hits of 10 µs.
        for empty in [0, 30] {
            assert_eq!(times(10_000.0, empty, |_| 25.0).own(1.0), 10.0);
            assert_eq!(times(10_000.0, empty, |_| 25.0).own(3.0), 30.0, "three calls of a step");
        }
    }

    #[test]
    fn long_times_are_measured() {
        // A call every 55 µs, and from there at once.
        let long = |step| if step % 2 == 0 { 55_000.0 } else { 0.0 };
        for empty in [0, 30] {
            let found = times(12_000.0, empty, long).own(1.0);
            assert!(is_near(found, 27_500.0), "{found}");
        }
    }

    /// A virtual machine without hardware of its own: a hit takes 400 µs, and a call 190.
    #[test]
    fn times_shorter_than_hits_are_measured_by_empty_steps() {
        let found = times(400_000.0, 60, |_| 190_000.0).own(1.0);
        assert!(is_near(found, 190_000.0), "{found}");
        // Without, it is not known; a processor on which hits take so long calls less often than others.
        assert!((200.0..400.0).contains(&times(400_000.0, 0, |_| 190_000.0).own(1.0)));
    }

    #[test]
    fn few_empty_steps_tell_less_than_many() {
        let own = |empty| times(10_000.0, empty, |_| 3_400.0).own(1.0);
        assert!(own(13) < 100.0 || is_near(own(13), 3_400.0), "{}", own(13));
        assert!(is_near(own(500), 3_400.0), "{}", own(500));
    }

    #[test]
    fn few_long_steps_tell_half_of_the_truth() {
        // One step in twenty takes a millisecond.
        let own = times(10_000.0, 50, |step| if step % 20 == 0 { 1_000_000.0 } else { 0.0 }).own(1.0);
        assert!(is_near(own, (50_000.0f64 * 10.0).sqrt()), "{own}");
    }
}
