// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins and ends a pair: the recorder and the thread that shares its processor.

use super::{TaskState, Tracer};
use crate::breakpoints::modules::Site;
use crate::breakpoints::tasks::Task;
use nix::unistd::Pid;

impl Tracer<'_> {
    /// Handles a hit of the breakpoint at a function or block: parts the pair if the function reports the thread's
    /// processors, and forms a pair if there are many hits.
    pub(super) fn pair_or_part(&mut self, task: Task, thread: Pid, site: Site) {
        if !self.settings.share_processor {
            return;
        }
        let Some(space) = self.spaces.get_mut(&task.space) else { return };
        if self.modules.get(site.module).tells_processors(site.entry) {
            space.knows_processors = true;
            self.kernel.part();
        }
        if self.kernel.paired().is_some_and(|paired| paired != thread) {
            self.kernel.part();
        }
        let window = self.windows.as_ref().is_some_and(|windows| windows.is_open());
        if window || !self.pairing.hit(thread) || self.kernel.paired().is_some() {
            return;
        }
        // A started program ends with the recorder; an attached one would be left with only the recorder's processor.
        let alone = thread == task.process && self.tasks.of_process(thread).len() == 1;
        let may = self.root.is_some() && !self.letting_go && alone && task.state == TaskState::Following;
        if !may || !space.hides_processors(&self.modules) || self.kernel.pair(thread).is_err() {
            self.pairing.begin();
        }
    }

    /// Ends the pair if hits have become rare, or if a window is open, because the window measures time.
    pub(super) fn part_if_calm(&mut self) {
        if self.pairing.is_calm() {
            self.pairing.begin();
            self.kernel.part();
        }
    }
}
