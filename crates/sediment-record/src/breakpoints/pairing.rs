// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps recorder and program on one processor while a program hits breakpoints one after the other, such as at its
//! start.
//!
//! Each stop needs two wake-ups. On two processors, a wake-up is an interrupt to a sleeping processor and takes several
//! times as long as the stop itself. On one processor, the two take turns. The program must not notice:
//!
//! ```text
//! many hits of one thread ─► paired ─► other threads stop, a pause, a window opens, the end ─► as before
//!                              │
//!                              ├ clone, fork, vfork ─► as before, the child as well
//!                              └ a function of the C library that reports processors ─► as before, for good
//! ```
//!
//! Only programs with one thread that the recorder started are paired. They end when the recorder ends, so its death
//! leaves no program with only one processor.

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Number of consecutive hits of one thread from which it is paired.
const IN_A_ROW: u32 = 8;
/// Longest mean time between hits up to which a pair is kept.
const APART: Duration = Duration::from_millis(6);

/// Functions that report the processors on which a program may run, or change them. The last one makes any system call.
pub(super) const TELL_PROCESSORS: [&str; 7] = [
    "sched_getaffinity",
    "sched_setaffinity",
    "pthread_getaffinity_np",
    "pthread_setaffinity_np",
    "get_nprocs",
    "get_nprocs_conf",
    "syscall",
];

/// Counter of hits that decides when a pair begins and ends.
#[derive(Debug)]
pub(super) struct Pairing {
    last: Option<Pid>,
    in_a_row: u32,
    needed: u32,
    /// Number of hits since the last check, and the time of that check.
    hits: u32,
    looked: Instant,
}

impl Pairing {
    pub(super) fn new() -> Self {
        Self::after(IN_A_ROW)
    }

    /// Makes a counter that pairs a thread after `needed` hits.
    pub(super) fn after(needed: u32) -> Self {
        Self { last: None, in_a_row: 0, needed, hits: 0, looked: Instant::now() }
    }

    /// Counts a hit of a thread; true if the thread is to be paired.
    pub(super) fn hit(&mut self, thread: Pid) -> bool {
        self.hits += 1;
        self.in_a_row = if self.last.replace(thread) == Some(thread) { self.in_a_row + 1 } else { 1 };
        self.in_a_row >= self.needed
    }

    /// Restarts the count.
    pub(super) fn begin(&mut self) {
        (self.last, self.in_a_row) = (None, 0);
    }

    /// True if hits have become rare since the last call.
    pub(super) fn is_calm(&mut self) -> bool {
        let elapsed = self.looked.elapsed();
        let calm = APART * std::mem::take(&mut self.hits) < elapsed;
        self.looked = Instant::now();
        calm
    }
}

/// Lets this recorder thread run on all processors of the recorder: the tracing thread that created it may be paired.
pub(super) fn leave_pair() {
    if let Ok(processors) = sched_getaffinity(Pid::this()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &processors);
    }
}

/// A thread on our processor.
#[derive(Debug)]
pub(super) struct PairedThread {
    pub(super) thread: Pid,
    processor: CpuSet,
    /// Processors of the thread before pairing, and the recorder's.
    before: CpuSet,
    ours: CpuSet,
}

impl PairedThread {
    /// Moves a stopped thread to the processor of the calling thread; both stay there.
    pub(super) fn of(thread: Pid) -> Result<Self, Errno> {
        let this = Pid::from_raw(0);
        let (before, ours) = (sched_getaffinity(thread)?, sched_getaffinity(this)?);
        let number = sched_getcpu()?;
        if count(&before) < 2
            || !before.is_set(number)?
            || !crate::tracing::system::is_scheduled_as_usual(thread)
        {
            return Err(Errno::EINVAL);
        }
        let mut processor = CpuSet::new();
        processor.set(number)?;
        sched_setaffinity(this, &processor)?;
        if let Err(error) = sched_setaffinity(thread, &processor) {
            let _ = sched_setaffinity(this, &ours);
            return Err(error);
        }
        Ok(Self { thread, processor, before: unlimited(before), ours: unlimited(ours) })
    }

    /// Restores the processors of both.
    pub(super) fn part(&self) {
        self.widen(self.thread);
        let _ = sched_setaffinity(Pid::from_raw(0), &self.ours);
    }

    /// Restores the paired thread's former processors in a thread that is limited to ours: new threads inherit the
    /// limit.
    pub(super) fn widen(&self, thread: Pid) {
        if sched_getaffinity(thread).is_ok_and(|now| now == self.processor) {
            let _ = sched_setaffinity(thread, &self.before);
        }
    }
}

fn count(processors: &CpuSet) -> usize {
    (0..CpuSet::count()).filter(|number| processors.is_set(*number).unwrap_or(false)).count()
}

/// Returns all processors that there may ever be, if `processors` are all present ones.
fn unlimited(processors: CpuSet) -> CpuSet {
    let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    if online.is_none_or(|online| (count(&processors) as i64) < online) {
        return processors;
    }
    let mut all = CpuSet::new();
    for number in 0..CpuSet::count() {
        let _ = all.set(number);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_that_hits_many_breakpoints_is_paired() {
        let mut pairing = Pairing::after(3);
        let [one, other] = [1, 2].map(Pid::from_raw);
        assert_eq!(
            [one, one, other, one, one, one].map(|thread| pairing.hit(thread)),
            [false, false, false, false, false, true]
        );
        assert!(pairing.hit(one));
        pairing.begin();
        assert!(!pairing.hit(one));
        assert!(!pairing.is_calm());
        std::thread::sleep(APART);
        assert!(pairing.is_calm(), "no hit since");
    }

    #[test]
    fn processors_are_given_back() {
        let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
        if count(&before) < 2 {
            return;
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let thread = Pid::from_raw(child.id() as i32);
        // In a thread of its own, because it moves the calling thread.
        std::thread::spawn(move || {
            let pair = PairedThread::of(thread).unwrap();
            assert_eq!(count(&sched_getaffinity(thread).unwrap()), 1);
            assert_eq!(sched_getaffinity(Pid::from_raw(0)), sched_getaffinity(thread));
            pair.part();
            assert_eq!(sched_getaffinity(thread).unwrap(), before);
            assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), before);
            // A choice that the program makes meanwhile is kept.
            let pair = PairedThread::of(thread).unwrap();
            sched_setaffinity(thread, &before).unwrap();
            pair.part();
            assert_eq!(sched_getaffinity(thread).unwrap(), before);
        })
        .join()
        .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
