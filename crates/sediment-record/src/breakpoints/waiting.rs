// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for the next stop.
//!
//! Each stop wakes the recorder, and each resume wakes a thread. Waking a sleeping processor takes ten times as long as
//! handling the stop. Stops come in bursts, so after each stop we poll briefly for the next one before we sleep.
//! Polling uses a processor that has nothing else to do; if others want it, we sleep at once for a while.

use crate::tracing::system::{self, Status};
use nix::errno::Errno;
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Time of polling for the next stop before sleeping.
const MOMENT: Duration = Duration::from_micros(200);
/// If polling took longer than this, the processor was given to others.
const PUT_ASIDE: Duration = Duration::from_micros(400);
/// Sleep between polls for the status of one thread: the first, and the longest.
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
/// Time without polling after others wanted the processor.
const WHILE: Duration = Duration::from_millis(50);

pub(super) struct StopWait {
    /// True if there is a processor for the recorder besides the program's.
    has_its_own: bool,
    wanted_until: Option<Instant>,
    looked: Duration,
    /// True while the program shares our processor: it cannot run while we poll.
    pub(super) is_paired: bool,
}

impl StopWait {
    pub(super) fn new() -> Self {
        Self {
            has_its_own: std::thread::available_parallelism().is_ok_and(|count| count.get() > 1),
            wanted_until: None,
            looked: Duration::ZERO,
            is_paired: false,
        }
    }

    /// Returns the time spent polling for stops since the last call, because this time is not work.
    pub(super) fn take_looked(&mut self) -> Duration {
        std::mem::take(&mut self.looked)
    }

    /// Waits for the next status of a thread that will soon have one; `None` if it has none in time.
    pub(super) fn status_of(&mut self, thread: Pid, limit: Duration) -> Result<Option<Status>, Errno> {
        let begun = Instant::now();
        let mut found = None;
        while self.has_its_own && !self.is_paired && found.is_none() && begun.elapsed() < MOMENT {
            found = system::look_for(thread)?;
        }
        self.looked += begun.elapsed().min(PUT_ASIDE);
        let mut sleep = SHORTEST_SLEEP;
        while found.is_none() && begun.elapsed() < limit {
            std::thread::sleep(sleep);
            sleep = (2 * sleep).min(LONGEST_SLEEP);
            found = system::look_for(thread)?;
        }
        Ok(found)
    }

    /// Waits for the next status; `None` if an alarm rang first.
    pub(super) fn next(&mut self) -> Result<Option<(Pid, Status)>, Errno> {
        let begun = Instant::now();
        if !self.has_its_own || self.is_paired || self.wanted_until.is_some_and(|until| begun < until) {
            return system::wait();
        }
        let rings = system::rings();
        let (found, rang, elapsed) = loop {
            let (found, rang, elapsed) = (system::look()?, system::rings() != rings, begun.elapsed());
            if found.is_some() || rang || elapsed > MOMENT {
                break (found, rang, elapsed);
            }
            std::hint::spin_loop();
        };
        self.looked += elapsed.min(PUT_ASIDE);
        self.wanted_until = (elapsed > PUT_ASIDE).then(|| begun + elapsed + WHILE);
        if found.is_some() || rang { Ok(found) } else { system::wait() }
    }
}
