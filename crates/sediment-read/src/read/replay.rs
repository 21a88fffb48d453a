// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps of a run and their receiver: [`Step`]s, each to a [`Listener`].

use super::AddressId;

/// One step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A thread runs here, having run elsewhere before.
    Run {
        /// Which thread; ids are those of the source.
        thread: u64,
        /// Where.
        place: AddressId,
    },
    /// Gap in this thread: the next step does not follow the one before.
    Gap {
        /// Which thread.
        thread: u64,
    },
}

/// Receiver of the steps of a run. Every `FnMut(Step)` is one, and wants them in their order.
pub trait Listener {
    /// Takes the next step.
    fn step(&mut self, step: Step);

    /// Takes the next steps.
    fn steps(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.step(*step));
    }

    /// True if every step is wanted. Otherwise a reader of samples, between which there are gaps anyway, may tell a
    /// part of them.
    fn wants_all(&self) -> bool {
        true
    }

    /// Listeners for this number of workers, each in a thread of its own; or none, where all steps are wanted in
    /// their order.
    ///
    /// This is for formats that tell of parts of a run, not of [the whole](super::Replay::whole): what a worker tells at a time
    /// begins with a gap, and which worker tells what, and after what, is left to chance.
    fn for_workers(&mut self, _workers: usize) -> Vec<&mut (dyn Listener + Send)> {
        Vec::new()
    }
}

impl<F: FnMut(Step)> Listener for F {
    fn step(&mut self, step: Step) {
        self(step);
    }
}

/// Choice of the samples that are replayed to a listener that does not want them all.
///
/// Affinity edges can be far more than the branches they come from, so that of long recordings a part is enough: one
/// sample in `every`, by a hash of its position among all, whoever reads them and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplaySampling {
    every: u64,
}

impl ReplaySampling {
    /// Of a file of this length, as many samples as `told` bytes hold.
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
