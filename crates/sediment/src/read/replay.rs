// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run is told in, and to whom: [`Step`]s, each to a [`Listener`].

use super::PlaceId;

/// One step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A thread runs here, having run elsewhere before.
    Run {
        /// Which thread; ids are those of the source.
        thread: u64,
        /// Where.
        place: PlaceId,
    },
    /// What comes next in this thread does not follow what came before.
    Gap {
        /// Which thread.
        thread: u64,
    },
}

/// Who is told the steps of a run. Every `FnMut(Step)` is one, and wants them in their order.
pub trait Listener {
    /// Takes the next step.
    fn step(&mut self, step: Step);

    /// Takes the next steps.
    fn steps(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.step(*step));
    }

    /// Listeners for so many workers, to be told in threads of their own; or none, where all steps are wanted in their order.
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
