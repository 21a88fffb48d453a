// SPDX-License-Identifier: MIT OR Apache-2.0
//! Monotonic clock that also detects jumps of the wall clock.

use std::time::{Instant, SystemTime};

/// The wall clock has jumped if it is off by more than this, in seconds.
pub const JUMP: f64 = 2.0;

/// Seconds since it was started.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    by_the_wall: SystemTime,
    before: f64,
}

impl Clock {
    /// Starts at `before` seconds, such as those of an earlier session.
    #[must_use]
    pub fn start(before: f64) -> Self {
        Self { started: Instant::now(), by_the_wall: SystemTime::now(), before }
    }

    /// Seconds, by a clock that only goes forward at a constant rate.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    /// Returns by how many seconds the wall clock has gone ahead of this one since the start, because it was set or the
    /// machine slept.
    #[must_use]
    pub fn wall_ahead(&self) -> f64 {
        let wall = match SystemTime::now().duration_since(self.by_the_wall) {
            Ok(passed) => passed.as_secs_f64(),
            Err(error) => -error.duration().as_secs_f64(),
        };
        wall - self.started.elapsed().as_secs_f64()
    }

    /// The time of the start by the wall clock, in seconds since 1970.
    #[must_use]
    pub fn date(&self) -> u64 {
        self.by_the_wall.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}
