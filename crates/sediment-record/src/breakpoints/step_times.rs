// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processor time between the steps of sequences, part of which is the time of a hit.
//!
//! The program's own time between steps shows how many calls it makes in all. This time is short compared with a hit: a
//! program may make a thousand calls in the time of one hit. Therefore some breakpoints are hit twice with nothing in
//! between, which is an empty step. The mean difference between steps and empty steps is the program's own time, if it
//! exceeds a certain part of a hit. The difference must also be significant in a rank test (Mann and Whitney), because
//! some times are a hundred times longer than usual when others use the processor of a virtual machine.

use std::collections::BTreeMap;

/// Assumed processor time from call to call, in nanoseconds, for programs that call too often to be timed: SQLite's
/// shell, gawk and perl take 5 to 7 on a fast processor. A program that calls rarely is timed.
const FROM_CALL_TO_CALL: f64 = 10.0;
/// Divisor: a call takes at least this part of the time of a hit. On a fast processor, a hit takes some microseconds.
const CALLS_OF_A_HIT: f64 = 2000.0;
/// Number of classes of times per octave.
const CLASSES: f64 = 16.0;
/// Share of steps that take hardly longer than a hit, because a function begins with a call, for example.
const SHORTEST: f64 = 0.25;
/// Share of the longest steps that is left out: during some of them, others had the processor.
const LONGEST: f64 = 0.2;
/// Smallest number of empty steps with which the time of a hit is known.
const ENOUGH: u64 = 12;
/// Number of empty steps with which it is known exactly.
const MANY: u64 = 50;
/// A sum of ranks is significant beyond this many standard deviations.
const DOUBT: f64 = 3.0;
/// A difference below this part of the time of a hit counts as a disturbance.
const INEXACT: f64 = 0.125;
/// Largest ratio of the program's own mean time to the mean without the longest steps: a larger mean is not the
/// program's.
const TAIL: f64 = 4.0;

/// Processor time of steps, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct StepTimes {
    steps: Times,
    empty: Times,
}

impl StepTimes {
    /// Adds the time from one step to the next.
    pub(super) fn add(&mut self, time: u64) {
        self.steps.add(time);
    }

    /// Adds the time from a step to the immediate second hit of its breakpoint.
    pub(super) fn add_empty(&mut self, time: u64) {
        self.empty.add(time);
    }

    /// True once there are many empty steps.
    pub(super) fn knows_hits(&self) -> bool {
        self.empty.count() >= MANY
    }

    /// The program's own processor time in a step with this many calls. If it cannot be separated from the hits,
    /// returns the shortest time that programs take. If only the longest steps show a difference, returns a value in
    /// between.
    pub(super) fn own(&self, calls: f64) -> f64 {
        let usual = self.steps.usual();
        let is_known = self.empty.count() >= ENOUGH;
        let (hit, mean_hit) = if is_known {
            (self.empty.usual(), self.empty.mean())
        } else {
            (self.steps.short(), self.steps.short())
        };
        let shortest = calls * FROM_CALL_TO_CALL.max(hit / CALLS_OF_A_HIT);
        let (own, mean) = (usual - hit, self.steps.mean() - mean_hit);
        let is_longer = if is_known {
            own > INEXACT * hit && self.steps.rank_among(&self.empty) > DOUBT
        } else {
            own > hit
        };
        if is_longer {
            mean.clamp(own, TAIL * own).max(shortest)
        } else if mean > mean_hit {
            (mean.max(shortest) * shortest).sqrt()
        } else {
            shortest
        }
    }
}

/// Distribution of times.
#[derive(Debug, Clone, Default)]
struct Times {
    sum: u64,
    /// Number of times by class, which is a logarithm.
    classes: BTreeMap<u32, u64>,
}

impl Times {
    fn add(&mut self, time: u64) {
        self.sum += time;
        *self.classes.entry(((time.max(1) as f64).log2() * CLASSES) as u32).or_default() += 1;
    }

    fn count(&self) -> u64 {
        self.classes.values().sum()
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64
    }

    /// Shortest time of a class.
    fn time(class: u32) -> f64 {
        (f64::from(class) / CLASSES).exp2()
    }

    /// Time below which the shortest times are: the share [`SHORTEST`] of all.
    fn short(&self) -> f64 {
        let (mut before, least) = (0, self.count() as f64 * SHORTEST);
        let class = self.classes.iter().find(|(_, count)| {
            before += **count;
            before as f64 >= least
        });
        class.map_or(0.0, |(class, _)| Self::time(class + 1))
    }

    /// Mean of the times without the longest ones.
    fn usual(&self) -> f64 {
        let most = self.count() as f64 * (1.0 - LONGEST);
        let (mut left, mut sum) = (most, 0.0);
        for (class, count) in &self.classes {
            let counted = left.min(*count as f64);
            left -= counted;
            // In the middle of the class.
            sum += Self::time(*class) * (0.5 / CLASSES).exp2() * counted;
        }
        sum / most.max(1.0)
    }

    /// Mean rank of these times among others, in standard deviations above the rank of equally distributed times.
    fn rank_among(&self, others: &Self) -> f64 {
        let (ours, all) = (self.count() as f64, others.count() as f64);
        let (mut before, mut above) = (0.0, 0.0);
        let mut rest = others.classes.iter().peekable();
        for (class, count) in &self.classes {
            while let Some((_, shorter)) = rest.next_if(|(other, _)| *other < class) {
                before += *shorter as f64;
            }
            let same = others.classes.get(class).map_or(0.0, |same| *same as f64);
            above += *count as f64 * (before + same / 2.0);
        }
        (above / (ours * all) - 0.5) / ((ours + all + 1.0) / (12.0 * ours * all)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sediment_core::random::Generator;

    /// Makes hits whose time varies by half, with these times of the program in between.
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
        // A call every 25 ns, and hits of 10 µs.
        for empty in [0, 30] {
            assert_eq!(times(10_000.0, empty, |_| 25.0).own(1.0), 10.0);
            assert_eq!(times(10_000.0, empty, |_| 25.0).own(3.0), 30.0, "three calls of a step");
        }
    }

    #[test]
    fn long_times_are_measured() {
        // A call every 55 µs, and the next call at once.
        let long = |step| if step % 2 == 0 { 55_000.0 } else { 0.0 };
        for empty in [0, 30] {
            let found = times(12_000.0, empty, long).own(1.0);
            assert!(is_near(found, 27_500.0), "{found}");
        }
    }

    /// A virtual machine without hardware support: a hit takes 400 µs, and a call 190 µs.
    #[test]
    fn times_shorter_than_hits_are_measured_by_empty_steps() {
        let found = times(400_000.0, 60, |_| 190_000.0).own(1.0);
        assert!(is_near(found, 190_000.0), "{found}");
        // Without empty steps, the time is unknown; a processor with such slow hits makes fewer calls than others.
        assert!((200.0..400.0).contains(&times(400_000.0, 0, |_| 190_000.0).own(1.0)));
    }

    #[test]
    fn a_part_of_a_hit_tells_nothing() {
        assert_eq!(times(10_000.0, 500, |_| 700.0).own(1.0), 10.0);
        let found = times(10_000.0, 500, |_| 3_400.0).own(1.0);
        assert!(is_near(found, 3_400.0), "{found}");
    }

    /// During one step in eight, others have the processor.
    #[test]
    fn times_of_others_are_not_the_programs() {
        let mut times = times(400_000.0, 40, |step| if step % 2 == 0 { 360_000.0 } else { 0.0 });
        (0..7).for_each(|_| times.add_empty(27_000_000));
        (0..50).for_each(|_| times.add(20_000_000));
        let found = times.own(1.0);
        assert!((120_000.0..800_000.0).contains(&found), "{found}");
    }

    #[test]
    fn few_long_steps_tell_half_of_the_truth() {
        // One step in twenty takes a millisecond.
        let own = times(10_000.0, 50, |step| if step % 20 == 0 { 1_000_000.0 } else { 0.0 }).own(1.0);
        assert!(is_near(own, (50_000.0f64 * 10.0).sqrt()), "{own}");
    }
}
