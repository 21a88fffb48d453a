// SPDX-License-Identifier: MIT OR Apache-2.0
//! Main loop, which follows every thread from stop to stop. [`super::tasks`] has the states of threads.
//!
//! ```text
//! fork, vfork, clone ─► the child stops by itself: it has its parent's breakpoints, in a copy of the memory or in shared memory
//! exec ─► new memory: armed anew; until the program's first instruction every new mapping of code is armed
//! breakpoint ─► ours: note it, restore the code, set the thread back; the program's own: deliver it
//! any other signal ─► delivered
//! ```
//!
//! An error in one process ends the recording of that process only: its breakpoints are removed, and it is detached. In
//! the end, all processes are detached, even after an error or a panic. The threads of a process are [halted](halts)
//! meanwhile.

mod births;
mod halts;
mod hits;
mod joining;
#[cfg(test)]
#[path = "../../../tests/tracer_model/mod.rs"]
mod model;
mod notes;
mod pairs;
mod spared;

use super::budget::PageBudget;
use super::coverage::Coverage;
use super::kernel::{Kernel, Stepped};
use super::log::Log;
use super::modules::{Modules, Site};
use super::pairing::Pairing;
use super::rates::Windows;
use super::space::{AddressSpace, BreakpointHit};
use super::tasks::{AtStop, HeldStop, TaskState, Tasks};
use crate::tracing::rights::has_other_rights;
use crate::tracing::system::{Resume, Status};
use crate::{MAX_MEMORY, RecordSettings, RecordingProgress, Until};
use halts::{Halt, HaltPurpose};
use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::skipped::Reason;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Interval between checks if the recording should end.
const LOOK_AROUND: Duration = Duration::from_millis(50);
/// Interval between reads of the notes that programs write themselves.
const HEARING: Duration = Duration::from_millis(5);
/// Time for which a child waits for its parent's report.
const ORPHANED: Duration = Duration::from_millis(500);
/// Longest wait for all threads of running processes to stop once.
const JOINING: Duration = Duration::from_secs(10);
/// Number of intervals without reports after which nothing more is expected, although the kernel still has threads for
/// us, such as the ended first thread of a process whose other threads run on.
const SILENT: u32 = 4;
/// Longest wait for the first stop of a child that has not run yet.
const NEWBORN: Duration = Duration::from_secs(10);
/// Longest wait for a thread that does not stop, before the kernel detaches it when the recorder ends.
const UNSTOPPABLE: Duration = Duration::from_secs(2);

/// Outcome of the program that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It still runs, or was not started here.
    Running,
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
}

pub(super) struct Tracer<'a> {
    settings: &'a RecordSettings,
    kernel: Rc<dyn Kernel>,
    pub(super) modules: Modules<'a>,
    budget: Rc<PageBudget>,
    spaces: BTreeMap<u32, AddressSpace>,
    next_space: u32,
    /// Spaces that are armed once no thread is joining.
    unarmed: BTreeSet<u32>,
    /// Spaces that are armed next, one after another.
    to_arm: VecDeque<u32>,
    /// Spaces that are detached next, one after another.
    to_let_go: BTreeSet<u32>,
    /// Spaces that are halted, or about to be.
    halts: BTreeMap<u32, Halt>,
    tasks: Tasks,
    /// New processes that may not be read, until they stop, with the breakpoints that they inherited.
    unreadable: BTreeMap<Pid, AddressSpace>,
    /// True if traced programs can lose rights, or become unreadable to us.
    is_limited: bool,
    root: Option<Pid>,
    pub(super) ending: Ending,
    over: bool,
    pub(super) log: Log,
    pub(super) windows: Option<Windows>,
    coverage: Coverage,
    pairing: Pairing,
    begun: Instant,
    looked_around: Instant,
    watch: &'a mut dyn FnMut(RecordingProgress),
    /// Time for which programs were stopped while their files were read and armed.
    pub(super) arming: Duration,
    letting_go: bool,
    /// Number of calls of functions that make memory writable or handle signals.
    watched_calls: BTreeMap<(u32, Site), u32>,
    /// Reported reasons for sparing a process; further processes are only counted.
    told_of_spared: BTreeSet<String>,
    /// The address space at which the next check for uses of SIGTRAP begins.
    looked_at_traps: u32,
    /// A thread at such a function, its space, and the function, which is armed again after its first instruction.
    steps_off: Option<(Pid, u32, Site)>,
    /// Threads that have not executed their single instruction yet.
    late_steps: BTreeSet<Pid>,
    /// Functions whose first instruction waited for other threads, which the recorder may have stopped.
    waiting_functions: BTreeSet<Site>,
    /// Time for which a child waits for its parent's report before it is detached.
    orphan_timeout: Duration,
    /// Longest time for which threads stay stopped until others have stopped.
    halt_timeout: Duration,
}

impl<'a> Tracer<'a> {
    pub(super) fn new(
        settings: &'a RecordSettings,
        kernel: Rc<dyn Kernel>,
        modules: Modules<'a>,
        watch: &'a mut dyn FnMut(RecordingProgress),
    ) -> Self {
        let is_limited = !kernel.may_trace_everything();
        Self {
            settings,
            kernel,
            modules,
            budget: Rc::new(PageBudget::new(
                settings.max_memory.unwrap_or(MAX_MEMORY),
                settings.rates.is_some(),
            )),
            spaces: BTreeMap::new(),
            next_space: 0,
            unarmed: BTreeSet::new(),
            to_arm: VecDeque::new(),
            to_let_go: BTreeSet::new(),
            halts: BTreeMap::new(),
            tasks: Tasks::default(),
            unreadable: BTreeMap::new(),
            is_limited,
            root: None,
            ending: Ending::Running,
            over: false,
            log: Log::default(),
            windows: settings.rates.map(Windows::new),
            coverage: Coverage::new(settings.blocks),
            pairing: Pairing::new(),
            begun: Instant::now(),
            looked_around: Instant::now(),
            watch,
            arming: Duration::ZERO,
            letting_go: false,
            watched_calls: BTreeMap::new(),
            told_of_spared: BTreeSet::new(),
            looked_at_traps: 0,
            steps_off: None,
            late_steps: BTreeSet::new(),
            waiting_functions: BTreeSet::new(),
            orphan_timeout: ORPHANED,
            halt_timeout: halts::TIMEOUT,
        }
    }

    /// Adds a seized process that will exec the program: it has no breakpoints.
    pub(super) fn expect(&mut self, process: Pid) -> io::Result<()> {
        let space = self.new_space(process, process)?;
        let space = self.add_space(space);
        self.tasks.add(process, process, space, TaskState::Following);
        self.root = Some(process);
        Ok(())
    }

    fn new_space(&self, process: Pid, thread: Pid) -> io::Result<AddressSpace> {
        AddressSpace::of(&self.kernel, process, thread, &self.budget)
    }

    fn add_space(&mut self, mut space: AddressSpace) -> u32 {
        space.start_clock();
        let id = self.next_space;
        self.next_space += 1;
        self.spaces.insert(id, space);
        id
    }

    /// Largest amount of memory that breakpoints cost at one time, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.budget.peak()
    }

    /// Follows all threads until the recording ends. Afterwards every breakpoint is removed and every thread detached.
    pub(super) fn run(&mut self) -> Result<()> {
        let followed = self.follow();
        let let_go = self.let_go();
        self.tell(self.begun.elapsed(), None);
        followed.and(let_go)
    }

    fn tell(&mut self, elapsed: Duration, warning: Option<String>) {
        let (functions, waiting) = (Some(self.log.functions()), self.over && warning.is_none());
        (self.watch)(RecordingProgress { elapsed, functions, waiting, warning });
    }

    fn follow(&mut self) -> Result<()> {
        self.begun = Instant::now();
        if let Some(windows) = &mut self.windows {
            windows.begin();
        }
        while !self.over && !self.tasks.is_empty() {
            let quiet = if self.has_trampolines() { HEARING } else { LOOK_AROUND };
            let period = self.windows.as_ref().map_or(quiet, |windows| windows.period());
            let next = self.kernel.next(period);
            if let Some(windows) = &mut self.windows {
                windows.looked(self.kernel.take_looked());
            }
            match next {
                Ok(Some((thread, status))) => {
                    self.handle(thread, status);
                    if let Some(windows) = &mut self.windows {
                        windows.stopped();
                    }
                }
                Ok(None) => {
                    self.part_if_calm();
                    self.look_around();
                }
                Err(Errno::ECHILD) => break,
                Err(error) => return Err(broken(error)),
            }
            if !self.unarmed.is_empty() && !self.tasks.anyone_joins() {
                self.arm_those_that_joined();
            }
            self.turn_halts();
            if let Some(windows) = &mut self.windows {
                windows.turn(&mut self.spaces, &self.modules, &mut self.log);
                if windows.is_open() {
                    self.kernel.part();
                }
            }
            self.cover_those_put_off();
        }
        Ok(())
    }

    fn look_around(&mut self) {
        self.hear_all();
        let elapsed = self.begun.elapsed();
        let late = matches!(self.settings.until, Until::After(limit) if elapsed >= limit);
        // Time counts from when breakpoints are set, unless a thread does not stop for a long time.
        let is_armed = self.unarmed.is_empty() && !self.anyone_is_to_be_armed();
        let late = late && (is_armed || elapsed >= JOINING);
        self.over |= late || self.settings.stop.asked();
        self.tell(elapsed, None);
        if self.looked_around.elapsed() >= LOOK_AROUND {
            self.looked_around = Instant::now();
            self.adopt_orphans();
            self.let_unreadable_go();
            self.look_at_traps();
        }
    }

    fn handle(&mut self, thread: Pid, status: Status) {
        let steps = self.late_steps.remove(&thread);
        let done = match status {
            Status::Exited(code) => return self.ended(thread, Ending::Exited(code)),
            Status::Killed(signal) => return self.ended(thread, Ending::Killed(signal)),
            Status::Trapped | Status::GroupStop => return self.has_stopped(thread, status),
            Status::Signal(libc::SIGTRAP) if steps && self.kernel.has_stepped(thread) => {
                self.kernel.block_traps_again(thread);
                Ok(0)
            }
            Status::Signal(libc::SIGTRAP) => {
                let sent = !self.kernel.is_breakpoint(thread);
                if sent && !self.is_merged_trap(thread) {
                    Ok(libc::SIGTRAP)
                } else {
                    let done = self.trap(thread);
                    let stepped = self.step_off(thread);
                    if sent || matches!(done, Ok(0)) {
                        self.kernel.block_traps_again(thread);
                    }
                    match stepped {
                        Stepped::Done => {}
                        Stepped::Instead(status) | Stepped::Late(Some(status)) => {
                            return self.handle(thread, status);
                        }
                        Stepped::Late(None) => return,
                    }
                    // If the signal is blocked again, a sent signal is pending as before.
                    if sent { done.map(|_| libc::SIGTRAP) } else { done }
                }
            }
            Status::Signal(signal @ (libc::SIGSEGV | libc::SIGBUS)) => self.fault(thread).map(|()| signal),
            // These signals end system calls even without tracing, unless they are ignored.
            Status::Signal(signal @ (libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)) => {
                if self.kernel.ignores(thread, signal) {
                    self.kernel.call_again(thread);
                } else {
                    self.kernel.leave_call(thread);
                }
                Ok(signal)
            }
            Status::Signal(signal) => {
                self.kernel.call_again(thread);
                Ok(signal)
            }
            Status::SystemCall => self.system_call(thread).map(|()| 0),
            Status::Event(libc::PTRACE_EVENT_EXEC) => self.became_a_program(thread).map(|()| 0),
            Status::Event(libc::PTRACE_EVENT_EXIT) => return self.ends(thread),
            Status::Event(_) => self.has_a_child(thread).map(|()| 0),
        };
        let signal = done.unwrap_or_else(|error| {
            if let Some(space) = self.tasks.get(thread).map(|task| task.space) {
                self.give_up(space, &error);
            }
            0
        });
        self.tasks.joined(thread);
        self.go_on(thread, signal);
    }

    /// Handles a thread that stopped at its beginning, at our request, or with its whole process.
    fn has_stopped(&mut self, thread: Pid, status: Status) {
        match status {
            Status::GroupStop => self.kernel.leave_call(thread),
            _ => self.kernel.call_again(thread),
        }
        let space = self.tasks.get(thread).map(|task| task.space);
        let leaves = space.is_some_and(|id| self.halts_to_leave(id));
        match self.tasks.stopped(thread) {
            AtStop::Hold => self.free_unreadable(thread),
            // It may have executed a breakpoint just before it was stopped: that is reported next.
            at_stop if (leaves || at_stop == AtStop::LetGo) && self.stands_behind_a_breakpoint(thread) => {
                let _ = self.kernel.resume(thread, Resume::Run, 0);
            }
            AtStop::GoOn | AtStop::LetGo => {
                let by_group = status == Status::GroupStop;
                self.hold_or_go_on(thread, HeldStop { signal: 0, by_group });
            }
        }
    }

    /// Resumes or detaches a stopped thread, unless its address space is being halted.
    fn go_on(&mut self, thread: Pid, signal: i32) {
        self.hold_or_go_on(thread, HeldStop { signal, by_group: false });
    }

    /// Resumes or detaches a stopped thread. A thread that was killed while it was stopped is reported as gone.
    fn resume(&mut self, thread: Pid, HeldStop { signal, by_group }: HeldStop) {
        let task = self.tasks.get(thread).copied();
        let space = task.and_then(|task| self.spaces.get(&task.space));
        let loading = space.is_some_and(|space| space.loading && !space.hears_of_mappings);
        let how = match task {
            Some(task) if task.state == TaskState::Leaving => Resume::Detach,
            None => Resume::Detach,
            Some(_) if by_group => Resume::Listen,
            Some(task) if loading || task.looked_at > 0 || self.settings.until == Until::Output => {
                Resume::ToSystemCall
            }
            Some(_) => Resume::Run,
        };
        if how == Resume::Detach {
            self.settle(thread);
        }
        if self.kernel.resume(thread, how, signal) != Err(Errno::ESRCH) && how == Resume::Detach {
            self.forget(thread);
        }
    }

    fn ended(&mut self, thread: Pid, ending: Ending) {
        self.forget(thread);
        if self.root == Some(thread) {
            self.ending = ending;
            self.over = true;
        }
    }

    fn forget(&mut self, thread: Pid) {
        self.late_steps.remove(&thread);
        if self.kernel.paired() == Some(thread) {
            self.kernel.part();
        }
        if let Some(id) = self.tasks.forget(thread) {
            self.hear(id, true);
            if let Some(space) = self.spaces.remove(&id) {
                self.log.retire(&space);
            }
            self.halts.remove(&id);
        }
    }

    /// Ends the recording of one address space: removes its breakpoints and detaches its threads.
    fn give_up(&mut self, id: u32, error: &Error) {
        if self.spaces.get(&id).is_some_and(|space| !space.arms_nothing()) {
            self.modules.skipped.add(Reason::LeftProcess, 0, error.to_string());
            self.halt(id, HaltPurpose::LetGo);
        }
    }

    /// Handles a breakpoint instruction that a thread hit. Returns the signal to deliver, 0 if the breakpoint was ours.
    fn trap(&mut self, thread: Pid) -> Result<i32> {
        let Some(task) = self.tasks.get(thread).copied() else { return Ok(libc::SIGTRAP) };
        // The notes were written before this hit.
        self.hear(task.space, false);
        let Some(space) = self.spaces.get_mut(&task.space) else { return Ok(libc::SIGTRAP) };
        let Some(mut registers) = ignore_gone(self.kernel.registers(thread))? else { return Ok(0) };
        let address = registers.trap_address();
        if space.has_mapped_at(address) {
            let at = u64::try_from(registers.result()).ok();
            return self.look_at_mapped(thread, task.space, at).map(|()| 0);
        }
        if space.passes_gate(address) {
            ignore_gone(self.kernel.go_to(thread, &registers, address))?;
            return Ok(0);
        }
        match space.meet(&self.modules, address) {
            None => return Ok(libc::SIGTRAP),
            Some(BreakpointHit::Removed) => {}
            Some(BreakpointHit::Mapped) => {
                // It is at a function that only returns.
                let behind = space.place(address).and_then(|(module, inside)| {
                    let module = self.modules.get(module);
                    Some(module.behind_landing(inside)?.wrapping_add(address.wrapping_sub(inside)))
                });
                if let Some(behind) = behind {
                    ignore_gone(self.kernel.go_to(thread, &registers, behind))?;
                } else if registers.return_from_function(&*space.memory).is_some() {
                    ignore_gone(self.kernel.set_registers(thread, &registers))?;
                } else {
                    return Ok(libc::SIGSEGV);
                }
                let stopped = Instant::now();
                space.look_at_mappings(thread, &mut self.modules).map_err(unreadable)?;
                self.arming += stopped.elapsed();
                for image in std::mem::take(&mut space.gone) {
                    self.log.retire_image(&image, space.processor_time);
                }
                return Ok(0);
            }
            // This is after the end of the recording.
            Some(BreakpointHit::Entry(site)) if self.letting_go => {
                self.heed(task, thread, site, &registers);
            }
            Some(BreakpointHit::Entry(site)) => self.hit(task, thread, site, &registers),
        }
        ignore_gone(self.kernel.go_to(thread, &registers, address))?;
        Ok(0)
    }

    /// Watches the next system calls of a thread that may change its rights or call exec soon.
    fn look_at_system_calls(&mut self, thread: Pid) {
        const SYSTEM_CALLS: u8 = 64;
        if let Some(task) = self.tasks.get_mut(thread).filter(|_| self.is_limited) {
            task.looked_at = SYSTEM_CALLS;
        }
    }

    fn system_call(&mut self, thread: Pid) -> Result<()> {
        let Some(registers) = ignore_gone(self.kernel.registers(thread))? else { return Ok(()) };
        let call = registers.system_call();
        if let Some(task) = self.tasks.get_mut(thread).filter(|task| task.looked_at > 0) {
            task.looked_at -= 1;
            if let Some(path) = call.becomes().filter(|_| !call.ended) {
                self.warn_of_other_rights(thread, path);
            }
            if call.ended && call.changes_rights() {
                // Future children of this thread may be unreadable too, and could not be freed from breakpoints.
                self.kernel.memory(thread).map(drop).map_err(unreadable)?;
            }
        }
        let output = matches!(call.writes_to(), Some(1 | 2));
        self.over |= self.settings.until == Until::Output && output && !call.ended;
        let id = self.tasks.get(thread).map(|task| task.space);
        let alone = id.is_some_and(|id| self.tasks.of_space(id).len() == 1);
        let space = id.and_then(|id| self.spaces.get_mut(&id));
        if let Some(space) = space.filter(|space| space.loading && call.ended && call.maps_code()) {
            space.at_rest = alone;
            self.look_at_mapped(thread, id.unwrap_or_default(), None)?;
        }
        Ok(())
    }

    /// Handles a process that is about to exec the program whose path is at this address in its memory.
    fn warn_of_other_rights(&mut self, process: Pid, path: u64) {
        let Some(space) = self.tasks.get(process).and_then(|task| self.spaces.get(&task.space)) else {
            return;
        };
        let Some(path) = space.memory.text(path).map(PathBuf::from) else { return };
        let folder = if path.is_absolute() { "root" } else { "cwd" };
        let inside = path.strip_prefix("/").unwrap_or(&path);
        let file = Path::new("/proc").join(process.to_string()).join(folder).join(inside);
        if has_other_rights(file) {
            let warning = format!(
                "{} runs without its setuid rights while it is recorded; if it fails without them, record as root",
                path.display()
            );
            let elapsed = self.begun.elapsed();
            self.tell(elapsed, Some(warning));
        }
    }

    /// Handles an exec: the other threads of the process are gone, and the remaining thread has the id of the process.
    fn became_a_program(&mut self, process: Pid) -> Result<()> {
        let stopped = Instant::now();
        let mut threads: BTreeSet<Pid> = self.tasks.of_process(process).into_iter().collect();
        let tasks = threads.iter().filter_map(|thread| self.tasks.get(*thread).copied());
        let leaves = self.letting_go || tasks.into_iter().any(|task| self.is_to_leave(task));
        threads.extend(ignore_gone(self.kernel.event_about(process))?);
        for thread in threads {
            self.forget(thread);
        }
        if leaves {
            return Ok(());
        }
        let mut space = match self.new_space(process, process) {
            Ok(space) => space,
            Err(error) => {
                // An unknown thread is detached: the new program has no breakpoints.
                let path = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
                let example = format!("{} ({error})", path.display());
                self.modules.skipped.add(Reason::UnreadableProgram, 0, example);
                return Ok(());
            }
        };
        if let Some(left) = self.budget.fit(self.kernel.memory_left(process)) {
            told_of_less_memory(&mut self.modules, left, self.budget.bytes());
        }
        let code = space.code(&mut self.modules);
        if self.spares_search_for_leaks(process, &code) {
            // An unknown thread is detached.
            return Ok(());
        }
        let begun = match self.use_of_traps_by(process, &code) {
            None => space.begin(&mut self.modules),
            Some(why) => {
                space.arms_no_more();
                self.tell_of_traps(process, why);
                Ok(())
            }
        };
        let space = self.add_space(space);
        self.tasks.add(process, process, space, TaskState::Following);
        self.arming += stopped.elapsed();
        begun.map_err(unreadable)?;
        let executable = PathBuf::from(format!("/proc/{process}/exe"));
        if !nix::unistd::geteuid().is_root() && has_other_rights(executable.clone()) {
            let path = std::fs::read_link(&executable).unwrap_or_default();
            self.modules.skipped.add(Reason::OtherRights, 0, path.display().to_string());
        }
        Ok(())
    }

    /// Removes every breakpoint and detaches every thread.
    fn let_go(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.letting_go, true) {
            return Ok(());
        }
        self.kernel.part();
        if let Some(windows) = &mut self.windows {
            windows.close(&mut self.spaces, &self.modules, &mut self.log);
        }
        self.unarmed.clear();
        let missing = std::mem::take(&mut self.to_arm).len() as u64;
        let why = "the recording ended before breakpoints were set in them".to_owned();
        self.modules.skipped.add_many(Reason::LeftProcess, missing, 0, why);
        for id in self.halts.keys().copied().filter(|id| !self.halts_to_leave(*id)).collect::<Vec<_>>() {
            self.end_halt(id);
        }
        self.to_let_go = self.tasks.spaces_that_stay().filter(|id| !self.halts.contains_key(id)).collect();
        let (mut moved, mut silent) = (Instant::now(), 0);
        // Unknown children may be about to stop. On a busy machine they may not have run yet.
        while silent < SILENT
            || !self.tasks.is_empty()
            || moved.elapsed() < NEWBORN && self.kernel.traces_anyone()
        {
            self.turn_halts();
            match self.kernel.next(LOOK_AROUND) {
                Ok(Some((thread, status))) => {
                    (moved, silent) = (Instant::now(), 0);
                    self.handle(thread, status);
                }
                Ok(None) => {
                    silent += 1;
                    self.adopt_orphans();
                    for thread in self.tasks.threads() {
                        if self.kernel.has_ended(thread) {
                            self.forget(thread);
                        }
                    }
                    // When the recorder ends, the kernel detaches the threads that cannot be stopped now. But it would
                    // end a program that the recorder started.
                    let all_out = self.halts.is_empty() && self.to_let_go.is_empty();
                    // A thread that still has to execute one instruction would also die of SIGTRAP afterwards.
                    let may_leave = self.root.is_none() && self.late_steps.is_empty();
                    if may_leave && all_out && moved.elapsed() > UNSTOPPABLE {
                        break;
                    }
                }
                Err(Errno::ECHILD) => break,
                Err(error) => return Err(broken(error)),
            }
        }
        for space in std::mem::take(&mut self.spaces).values() {
            self.log.retire(space);
        }
        Ok(())
    }

    /// True if a thread has executed a breakpoint of the recorder that is not reported yet.
    fn stands_behind_a_breakpoint(&self, thread: Pid) -> bool {
        if !self.kernel.is_pending(thread, libc::SIGTRAP) {
            return false;
        }
        let space = self.tasks.get(thread).and_then(|task| self.spaces.get(&task.space));
        let (Some(space), Ok(registers)) = (space, self.kernel.registers(thread)) else { return false };
        space.is_ours(&self.modules, registers.trap_address())
    }
}

impl Drop for Tracer<'_> {
    fn drop(&mut self) {
        // After a panic of our own, or an error during detaching, every breakpoint must be removed, whatever the
        // reason.
        if std::thread::panicking() || self.letting_go {
            self.spaces.values_mut().for_each(|space| space.let_go(&self.modules, false));
        }
        let _ = self.let_go();
    }
}

fn told_of_less_memory(modules: &mut Modules<'_>, left: u64, budget: u64) {
    const MIB: u64 = 1 << 20;
    let example = format!("{} MiB left, {} MiB for breakpoints", left / MIB, budget / MIB);
    modules.skipped.add(Reason::LittleMemory, 0, example);
}

/// Ignores the error of a thread that was killed while it was stopped: its end is reported next.
fn ignore_gone<T>(done: nix::Result<T>) -> Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(Errno::ESRCH) => Ok(None),
        Err(error) => Err(broken(error)),
    }
}

fn broken(error: Errno) -> Error {
    Error::new(ErrorCode::TracingFailed, format!("cannot trace the program: {error}"))
}

fn unreadable(error: io::Error) -> Error {
    Error::new(ErrorCode::TracingFailed, format!("cannot read the program's memory: {error}"))
}
