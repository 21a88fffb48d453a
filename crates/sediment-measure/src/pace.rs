// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watches the speed of the processor during a measurement, by timing a fixed loop again and again. The loop slows down
//! if the frequency falls, or if the other thread of the core is busy.
//!
//! Runs in random order are compared fairly even if the speed changes; only the interval grows. Beyond
//! [`TOO_UNSTEADY`], and with more than [`TOO_MANY`] other tasks per processor, the figures describe the machine and
//! not the program.

use std::hint::black_box;
use std::time::Instant;

/// A larger change of the speed than this share is reported.
pub const UNSTEADY: f64 = 0.1;
/// If the speed changes by more than this share, nothing is judged. A machine with a load of eight per processor stayed
/// below it.
pub const TOO_UNSTEADY: f64 = 0.75;

/// Steps of a loop: some 30 microseconds.
const STEPS: u64 = 30_000;
/// Number of loops timed for one reading. The shortest time is used, because the others may have been interrupted.
const LOOPS: usize = 5;

/// If more tasks per processor are ready to run, nothing is judged.
const TOO_MANY: f64 = 4.0;

/// Number of tasks per processor that run or wait for one, without the caller (`/proc/loadavg`); `None` if the system
/// does not report it.
#[must_use]
pub fn ready_tasks() -> Option<f64> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    let ready: f64 = load.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()?;
    let processors = std::fs::read_to_string("/proc/stat").ok()?;
    let is_processor = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let processors = processors.lines().filter(is_processor).count();
    Some((ready - 1.0).max(0.0) / processors.max(1) as f64)
}

/// Returns a message if the mean of these readings of [`ready_tasks`] is too high, else `None`.
#[must_use]
pub fn overload(looks: &[f64]) -> Option<String> {
    let mean = looks.iter().sum::<f64>() / looks.len() as f64;
    (mean > TOO_MANY)
        .then(|| format!("the machine was overloaded: other work had {mean:.0} tasks for each processor"))
}

/// Returns a message if the load of the last minute (`/proc/loadavg`) is so high that a measurement now would be refused.
#[must_use]
pub fn overload_now() -> Option<String> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = load.split_whitespace().next()?.parse().ok()?;
    let processors = std::thread::available_parallelism().ok()?.get();
    (load > TOO_MANY * processors as f64)
        .then(|| format!("the load of this machine is {load:.0} on {processors} processors"))
}

/// Times the loop, in seconds.
#[must_use]
pub fn look() -> f64 {
    let once = |_| {
        let began = Instant::now();
        // Each step waits for the one before.
        black_box(
            (0..black_box(STEPS))
                .fold(1_u64, |value, step| value.wrapping_mul(0x9E37_79B9).wrapping_add(step)),
        );
        began.elapsed()
    };
    (0..LOOPS).map(once).min().unwrap_or_default().as_secs_f64()
}

/// Compares the loop's time at the slow and the fast tenth of the readings, and returns the increase as a share. 0 for
/// fewer than ten readings.
#[must_use]
pub fn change(looks: &[f64]) -> f64 {
    let mut times = looks.to_vec();
    times.sort_by(f64::total_cmp);
    let tenth = times.len() / 10;
    match (times.get(tenth), times.get((times.len() - tenth).saturating_sub(1))) {
        (Some(fast), Some(slow)) if tenth > 0 && *fast > 0.0 => slow / fast - 1.0,
        _ => 0.0,
    }
}

/// Text for this change of the speed.
#[must_use]
pub fn in_words(change: f64) -> String {
    format!("the speed of the processor changed by {:.0} %", 100.0 * change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_on_either_side_does_not_count() {
        let times = |slow: usize| (0..20).map(|at| if at < slow { 1.5 } else { 1.0 }).collect::<Vec<f64>>();
        assert!(change(&times(2)).abs() < 1e-9);
        assert!((change(&times(3)) - 0.5).abs() < 1e-9);
        assert!(change(&[1.0, 9.0]).abs() < 1e-9);
        assert!(look() > 0.0);
    }

    #[test]
    fn only_many_tasks_are_an_overload() {
        assert_eq!(overload(&[]), None);
        assert_eq!(overload(&[2.0, 6.0]), None);
        assert!(overload(&[2.0, 6.2]).is_some());
        assert!(ready_tasks().is_none_or(|tasks| tasks >= 0.0));
    }
}
