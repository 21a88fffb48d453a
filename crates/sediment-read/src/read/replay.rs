// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Step`]s of a run, and their receiver, [`Listener`].

use super::AddressId;

/// One step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A thread executes this address, after another one.
    Run {
        /// The thread, by its id in the source.
        thread: u64,
        /// The address.
        place: AddressId,
    },
    /// Gap in this thread: the next step does not follow the one before.
    Gap {
        /// The thread.
        thread: u64,
    },
}

/// Receiver of the steps of a run. Every `FnMut(Step)` is one, and receives all steps in order.
pub trait Listener {
    /// Receives the next step.
    fn step(&mut self, step: Step);

    /// Receives the next steps.
    fn steps(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.step(*step));
    }

    /// True if every step is needed. Otherwise a reader of samples, which are separated by gaps anyway, may pass on
    /// only a part of them.
    fn wants_all(&self) -> bool {
        true
    }

    /// Returns listeners for this number of workers, each used in a thread of its own; none if all steps are needed in
    /// order.
    ///
    /// This is for formats with parts of a run, not [the whole](super::Replay::whole). The steps of each part begin
    /// with a gap. The assignment of parts to workers, and their order, is random.
    fn for_workers(&mut self, _workers: usize) -> Vec<&mut (dyn Listener + Send)> {
        Vec::new()
    }
}

impl<F: FnMut(Step)> Listener for F {
    fn step(&mut self, step: Step) {
        self(step);
    }
}

/// Chooses the samples that are replayed to a listener that does not need all of them.
///
/// There can be far more affinity edges than branches, so a part of a long recording is enough: one sample in `every`,
/// chosen by a hash of its position among all samples, independently of the worker and the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplaySampling {
    every: u64,
}

impl ReplaySampling {
    /// For a file of this length, chooses as many samples as `told` bytes contain.
    pub(super) fn of(length: u64, told: u64, listener: &dyn Listener) -> Self {
        Self { every: if listener.wants_all() { 1 } else { length.div_ceil(told).max(1) } }
    }

    /// True if the sample at this position is replayed.
    pub(super) fn has(self, place: u64) -> bool {
        self.every == 1 || (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % self.every == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Some;

    impl Listener for Some {
        fn step(&mut self, _: Step) {}

        fn wants_all(&self) -> bool {
            false
        }
    }

    #[test]
    fn small_recordings_are_told_whole_and_large_ones_in_part_unless_all_is_wanted() {
        let every = |length| ReplaySampling::of(length, 16 << 20, &Some).every;
        assert_eq!([0, 1, 16 << 20].map(every), [1, 1, 1]);
        assert_eq!([(16 << 20) + 1, 1 << 30].map(every), [2, 64]);
        assert_eq!(ReplaySampling::of(1 << 30, 16 << 20, &|_: Step| ()).every, 1);
        assert!((0..1000).all(|sample| ReplaySampling { every: 1 }.has(sample * 800)));
        let told = (0..64_000).filter(|sample| ReplaySampling { every: 64 }.has(sample * 800)).count();
        assert!((800..1200).contains(&told), "{told} of a thousand");
    }
}
