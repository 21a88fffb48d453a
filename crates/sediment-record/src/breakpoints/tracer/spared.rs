// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that breakpoints, or tracing alone, would harm.
//!
//! No breakpoint stands in those that use SIGTRAP themselves, as one would end that. They are followed, for the programs that they become or
//! start. Those that look for leaks of memory are let go: for that they trace themselves.

use super::Tracer;
use super::halts::HaltPurpose;
use crate::tracing::machine::Registers;
use nix::libc;
use nix::unistd::Pid;
use sediment_core::skipped::Reason;

impl Tracer<'_> {
    /// A thread is at a function that sets how signals are handled. If it is SIGTRAP, its breakpoints are taken out before.
    pub(super) fn sets_handler(&mut self, id: u32, registers: &Registers) {
        let Some(action) = registers.system_call().action_of(libc::SIGTRAP) else { return };
        let Some(space) = self.spaces.get(&id) else { return };
        // The handler stands first.
        if space.memory.number(action) != Some(libc::SIG_DFL as u64) {
            self.stay_out(id, "handles or ignores SIGTRAP");
        }
    }

    /// True if a thread met a breakpoint while it blocked a SIGTRAP that was sent to it: the kernel keeps one of them, and tells it as sent.
    pub(super) fn is_merged_trap(&self, thread: Pid) -> bool {
        let space = self.tasks.get(thread).and_then(|task| self.spaces.get(&task.space));
        let (Some(space), Ok(registers)) = (space, self.kernel.registers(thread)) else { return false };
        self.kernel.blocks_all_but_traps(thread) && space.is_ours(&self.modules, registers.trap_address())
    }

    /// Use of SIGTRAP in an address space, as its threads tell.
    pub(super) fn use_of_traps(&self, id: u32) -> Option<&'static str> {
        self.tasks.of_space(id).into_iter().find_map(|thread| self.kernel.use_of_traps(thread))
    }

    /// Takes the breakpoints out of what uses SIGTRAP unheard, by system calls of its own. Looks at a few address spaces, and at the next ones
    /// when it is called again.
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

    /// Takes the breakpoints of an address space out; its threads are followed further.
    fn stay_out(&mut self, id: u32, why: &str) {
        let Some(space) = self.spaces.get(&id).filter(|space| !space.arms_nothing()) else { return };
        let process = space.process;
        self.tell_of_traps(process, why);
        self.halt(id, if self.letting_go { HaltPurpose::LetGo } else { HaltPurpose::StayOut });
    }

    /// Use of SIGTRAP by a process that has just become a program with the code of these files.
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

    /// Spares a process that looks for leaks of memory, by the code of these files, and tells so; true if it is to be let go.
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
