// SPDX-License-Identifier: MIT OR Apache-2.0
//! Speed of the processor while something is measured: a fixed loop is timed again and again. It slows down when the frequency falls, and when
//! the other thread of a core works.
//!
//! Runs in random order are compared fairly at changing speeds, and the interval grows. Beyond [`TOO_UNSTEADY`], the figures are about the
//! machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Change of the speed that is worth a word, as a share.
pub const UNSTEADY: f64 = 0.1;
/// Change of the speed at which nothing is judged.
pub const TOO_UNSTEADY: f64 = 0.5;

/// Steps of a loop: some 30 microseconds.
const STEPS: u64 = 30_000;
/// Loops of a look. The shortest counts: others were interrupted.
const LOOPS: usize = 5;

/// Times of the loop so far.
#[derive(Debug, Clone, Default)]
pub struct Pace(Vec<Duration>);

impl Pace {
    /// Times the loop.
    pub fn look(&mut self) {
        let once = |_| {
            let began = Instant::now();
            // Each step waits for the one before.
            black_box(
                (0..black_box(STEPS))
                    .fold(1_u64, |value, step| value.wrapping_mul(0x9E37_79B9).wrapping_add(step)),
            );
            began.elapsed()
        };
        self.0.extend((0..LOOPS).map(once).min());
    }

    /// How much longer the loop took in a slow tenth of the looks than in a fast one, as a share. 0 of fewer than ten looks.
    #[must_use]
    pub fn change(&self) -> f64 {
        let mut times: Vec<f64> = self.0.iter().map(Duration::as_secs_f64).collect();
        times.sort_by(f64::total_cmp);
        let tenth = times.len() / 10;
        match (times.get(tenth), times.get((times.len() - tenth).saturating_sub(1))) {
            (Some(fast), Some(slow)) if tenth > 0 && *fast > 0.0 => slow / fast - 1.0,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_on_either_side_does_not_count() {
        let times = |slow: usize| {
            let time = |at| if at < slow { 1500 } else { 1000 };
            Pace((0..20).map(|at| Duration::from_micros(time(at))).collect())
        };
        assert!(times(2).change().abs() < 1e-9);
        assert!((times(3).change() - 0.5).abs() < 1e-9);
        assert!(Pace(vec![Duration::from_micros(1), Duration::from_micros(9)]).change().abs() < 1e-9);
        let mut pace = Pace::default();
        pace.look();
        assert!(pace.0[0] > Duration::ZERO);
    }
}
