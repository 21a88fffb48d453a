// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spares processes that breakpoints, or mere tracing, would harm.
//!
//! A process that uses SIGTRAP itself gets no breakpoints, because they would break that use. It is still followed,
//! because it may exec or start other programs. A process that searches for memory leaks is detached, because it traces
//! itself.

use super::Tracer;
use super::halts::HaltPurpose;
use crate::tracing::machine::Registers;
use nix::libc;
use nix::unistd::Pid;
use sediment_core::skipped::Reason;

impl Tracer<'_> {
    /// Handles a thread at a function that sets signal handlers. If the signal is SIGTRAP, its breakpoints are removed
    /// first.
    pub(super) fn sets_handler(&mut self, id: u32, registers: &Registers) {
        let Some(action) = registers.system_call().action_of(libc::SIGTRAP) else { return };
        let Some(space) = self.spaces.get(&id) else { return };
        // The handler is the first field.
        if space.memory.number(action) != Some(libc::SIG_DFL as u64) {
            self.stay_out(id, "handles or ignores SIGTRAP");
        }
    }

    /// True if a thread hit a breakpoint while it blocked a SIGTRAP that was sent to it. The kernel then keeps only one
    /// of the two, and reports it as sent.
    pub(super) fn is_merged_trap(&self, thread: Pid) -> bool {
        let space = self.tasks.get(thread).and_then(|task| self.spaces.get(&task.space));
        let (Some(space), Ok(registers)) = (space, self.kernel.registers(thread)) else { return false };
        self.kernel.blocks_all_but_traps(thread) && space.is_ours(&self.modules, registers.trap_address())
    }

    /// Returns the way in which the threads of an address space use SIGTRAP.
    pub(super) fn use_of_traps(&self, id: u32) -> Option<&'static str> {
        self.tasks.of_space(id).into_iter().find_map(|thread| self.kernel.use_of_traps(thread))
    }

    /// Removes the breakpoints from processes that use SIGTRAP by system calls of their own. Checks a few address
    /// spaces per call, and the next ones in the next call.
    pub(super) fn look_at_traps(&mut self) {
        const AT_ONCE: usize = 4;
        let next = self.spaces.range(self.looked_at_traps..).chain(self.spaces.range(..self.looked_at_traps));
        let looked: Vec<u32> = next.map(|(id, _)| *id).take(AT_ONCE).collect();
        self.looked_at_traps = looked.last().map_or(0, |id| id + 1);
        for id in looked {
            let space = self.spaces.get(&id).filter(|space| !space.arms_nothing());
            if let Some(why) = space.and_then(|space| self.kernel.use_of_traps(space.process)) {
                self.stay_out(id, why);
            }
        }
    }

    /// Removes the breakpoints of an address space; its threads are followed further.
    fn stay_out(&mut self, id: u32, why: &str) {
        let Some(space) = self.spaces.get(&id).filter(|space| !space.arms_nothing()) else { return };
        let process = space.process;
        self.tell_of_traps(process, why);
        self.halt(id, if self.letting_go { HaltPurpose::LetGo } else { HaltPurpose::StayOut });
    }

    /// Returns the way in which a process that has just called exec uses SIGTRAP; `code` has its files.
    pub(super) fn use_of_traps_by(&self, process: Pid, code: &[u32]) -> Option<&'static str> {
        let is_go = || code.iter().any(|module| self.modules.get(*module).calls_kernel());
        let by_file = || is_go().then_some("handles SIGTRAP by the runtime of Go");
        self.kernel.use_of_traps(process).or_else(by_file)
    }

    pub(super) fn tell_of_traps(&mut self, process: Pid, why: &str) {
        self.tell_of_spared(
            process,
            Reason::UsesTraps,
            &format!("{why}, which does not work with breakpoints: they were removed"),
        );
    }

    /// Spares a process that searches for memory leaks, as the code of these files shows, and reports it. True if the
    /// process is to be detached.
    pub(super) fn spares_search_for_leaks(&mut self, process: Pid, code: &[u32]) -> bool {
        let looks = code.iter().any(|module| self.modules.get(*module).looks_for_leaks());
        let looks = looks && !self.kernel.finds_no_leaks(process);
        if looks {
            let why = "has a leak checker, which does not work while the program is traced: not recorded (record it with ASAN_OPTIONS=detect_leaks=0)";
            self.tell_of_spared(process, Reason::LooksForLeaks, why);
        }
        looks
    }

    fn tell_of_spared(&mut self, process: Pid, reason: Reason, why: &str) {
        let path = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
        let said = format!("{} {why}", path.display());
        self.modules.skipped.add(reason, 0, &said);
        if self.told_of_spared.insert(why.to_owned()) {
            self.tell(self.begun.elapsed(), Some(said));
        }
    }
}
