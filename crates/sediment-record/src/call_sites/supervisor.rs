// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows a program and everything that it starts.
//!
//! The kernel stops a thread for the recorder when its process becomes another program, when it makes a process or
//! thread, and when it ends. Otherwise it runs undisturbed. Three things are done at such stops:
//!
//! - a program that begins maps the recorder's memory, and from then on its code leads to stubs: `entrance`, `image`
//! - each new thread or process gets its own block of counters; its gs base points to it
//! - at the end of a process the callees of its linkage stubs are read
//!
//! The dynamic linker calls a function for debuggers when libraries have been loaded or unloaded. Its stub waits for a
//! moment, in the program. At each tick the recorder looks for such a wait, stops the thread, changes the new
//! libraries, and lets the thread continue. Except at its beginning, no thread makes a system call that it would not
//! make without the recorder.
//!
//! If the recorder is killed at any step, the kernel lets all threads continue. Stubs and counters stay in place.

use super::bursts::Bursts;
use super::counters::{NOTICES, UNANSWERED};
use super::entrance::{LAST_SIGNAL, Moment};
use super::filtered;
use super::image::{CommonParts, NewProgram, ProgramImage};
use super::injected;
use super::machine;
use super::modules::PlannedModules;
use super::opened::OpenedProcess;
use super::plan_cache::{self, PlanCache};
use super::rooms::StubRooms;
use super::shared::SharedMemory;
use super::sites::Trait;
use super::tally::CallTally;
use super::trace::CallTrace;
use crate::tracing::filters;
use crate::tracing::machine::Registers;
use crate::tracing::mappings::{
    ProcessMapping, all_mappings, auxiliary_value, has_little_memory, is_limited, process_of, status_field,
};
use crate::tracing::system::{self, Alarm, Resume, Status};
use crate::{RecordSettings, RecordingProgress, Until};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::unistd::{Pid, geteuid};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Events at which a thread stops for the recorder.
const FOLLOW: Options = Options::PTRACE_O_TRACECLONE
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACEEXEC)
    .union(Options::PTRACE_O_TRACEEXIT)
    .union(Options::PTRACE_O_TRACESYSGOOD);

/// Time between ticks, and for how long ticks continue after programs began or libraries were loaded.
pub(super) const TICK: Duration = Duration::from_millis(1);
const SHORT_TICK: Duration = Duration::from_micros(100);
const WHILE: Duration = Duration::from_millis(30);
/// Interval between progress messages.
const PROGRESS: Duration = Duration::from_millis(50);

/// A followed thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct FollowedThread {
    pub(super) process: Pid,
    /// Its program and block; None if the program is not recorded.
    pub(super) place: Option<(usize, u32)>,
    /// True until its block is set.
    is_new: bool,
    /// True if it was interrupted because it waits for the recorder.
    asked: bool,
    /// True after it has run the last instruction of its program.
    pub(super) is_ending: bool,
    /// Number of system calls that are still looked at: a program that begins, and a new process, may soon execute a
    /// program with other rights.
    pub(super) watched_calls: u16,
}

/// Number of system calls that are looked at, if we are not root: those of a shell up to its first command.
const WATCHED_CALLS: u16 = 400;

impl FollowedThread {
    /// The first thread of a program that is not recorded.
    pub(super) fn unrecorded(process: Pid) -> Self {
        Self::of(process, None)
    }

    /// The first thread of a new process or program. Root keeps the rights of all programs.
    fn young(process: Pid, place: Option<(usize, u32)>) -> Self {
        let watched_calls = if geteuid().is_root() { 0 } else { WATCHED_CALLS };
        Self { watched_calls, ..Self::of(process, place) }
    }

    pub(super) fn of(process: Pid, place: Option<(usize, u32)>) -> Self {
        Self { process, place, is_new: false, asked: false, is_ending: false, watched_calls: 0 }
    }
}

/// Follows processes.
pub(super) struct Supervisor<'a> {
    pub(super) settings: &'a RecordSettings,
    watch: &'a mut dyn FnMut(RecordingProgress),
    pub(super) common: CommonParts,
    pub(super) images: Vec<Option<ProgramImage>>,
    pub(super) threads: HashMap<Pid, FollowedThread>,
    /// The started process, or the attached ones. Processes that outlive them continue without the recorder.
    pub(super) watched: BTreeSet<Pid>,
    /// Threads whose first stop arrived before the event of their creator.
    pub(super) early: BTreeSet<Pid>,
    /// Children of vfork, each with the thread that waits until it ends or becomes another program.
    pub(super) vforks: HashMap<Pid, Pid>,
    /// Processes that share their memory with others.
    pub(super) sharing: BTreeSet<Pid>,
    pub(super) bursts: Bursts,
    /// By process: its memory, which was opened when it was entered or forked.
    opened: HashMap<Pid, Rc<OpenedProcess>>,
    /// Images whose stubs may still be executed by released threads.
    outliving: Vec<ProgramImage>,
    /// Images of processes that were prepared before the attach.
    pub(super) prepared: HashMap<Pid, ProgramImage>,
    pub(super) tally: CallTally,
    trace: Option<CallTrace>,
    begun: Instant,
    told: Instant,
    short_until: Instant,
    notices: u32,
    /// True if a thread writes to standard output or standard error, if the recording ends then.
    pub(super) has_written: bool,
    /// True if filters that programs inherit from us forbid to map memory; None if that is not known yet.
    filters_end_us: Option<bool>,
    pub(super) alarm: Alarm,
    /// Number of recorded programs.
    pub(super) programs: u64,
    /// Time for which threads were stopped by the recorder.
    pub(super) changing: Duration,
}

fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::TracingFailed, format!("cannot {what}: {error}"))
}

impl<'a> Supervisor<'a> {
    /// `of_others`: true if processes of other users are recorded, too.
    pub(super) fn new(
        settings: &'a RecordSettings,
        watch: &'a mut dyn FnMut(RecordingProgress),
        of_others: bool,
    ) -> Result<Self> {
        let shared = if of_others { SharedMemory::for_others() } else { SharedMemory::new() };
        let shared = shared.map_err(|error| failed("create shared memory", error))?;
        let now = Instant::now();
        Ok(Self {
            settings,
            watch,
            common: CommonParts {
                modules: PlannedModules::new(
                    settings.exclude.clone(),
                    PlanCache::of_user(settings.max_memory.unwrap_or(plan_cache::MOST)),
                ),
                shared,
                rooms: StubRooms::new(settings.affinity),
                memory_left: settings.max_memory,
                skipped: Skipped::default(),
            },
            images: Vec::new(),
            threads: HashMap::new(),
            watched: BTreeSet::new(),
            early: BTreeSet::new(),
            vforks: HashMap::new(),
            sharing: BTreeSet::new(),
            bursts: Bursts::new(settings),
            opened: HashMap::new(),
            outliving: Vec::new(),
            prepared: HashMap::new(),
            tally: CallTally::default(),
            trace: settings.affinity.then(CallTrace::new),
            begun: now,
            told: now,
            short_until: now + WHILE,
            notices: 0,
            has_written: false,
            filters_end_us: None,
            alarm: Alarm::new().map_err(|error| failed("set a timer", error))?,
            programs: 0,
            changing: Duration::ZERO,
        })
    }

    /// Accepts a process that waits to become a program.
    pub(super) fn expect(&mut self, process: Pid) -> nix::Result<()> {
        ptrace::seize(process, FOLLOW)?;
        let thread = FollowedThread::unrecorded(process);
        self.threads.insert(process, thread);
        self.watched.insert(process);
        self.start();
        Ok(())
    }

    /// Begins the time of the recording.
    pub(super) fn start(&mut self) {
        self.begun = Instant::now();
        self.bursts.start();
    }

    /// Follows until nothing is left to follow, or the recording must end.
    pub(super) fn run(&mut self) -> Result<()> {
        while !self.threads.is_empty() {
            let is_open = self.trace.as_ref().is_some_and(CallTrace::is_open);
            let period = if is_open || Instant::now() < self.short_until { SHORT_TICK } else { TICK };
            self.alarm.ring(period).map_err(|error| failed("set a timer", error))?;
            match system::wait() {
                Ok(Some((thread, status))) => self.handle(thread, status),
                Ok(None) => self.tick(),
                Err(Errno::ECHILD) => break,
                Err(error) => return Err(failed("follow the program", error)),
            }
            self.take_turn();
            if let Some(trace) = &mut self.trace {
                trace.take_turn(&self.images, &self.common, self.bursts.counting);
            }
            if self.is_over() {
                if let Some(trace) = &mut self.trace {
                    trace.end(&self.images, &self.common);
                }
                self.let_go();
                if !self.watched.is_empty() {
                    (self.watch)(RecordingProgress { elapsed: self.begun.elapsed(), waiting: true });
                }
                break;
            }
        }
        for image in 0..self.images.len() {
            self.retire(image);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let late = matches!(self.settings.until, Until::After(limit) if self.begun.elapsed() >= limit);
        late || self.has_written || self.settings.stop.asked() || self.watched.is_empty()
    }

    /// Looks for threads that wait for the recorder.
    fn tick(&mut self) {
        let now = Instant::now();
        if now - self.told > PROGRESS {
            self.told = now;
            (self.watch)(RecordingProgress { elapsed: now - self.begun, waiting: false });
        }
        let notices = self.common.shared.number(NOTICES);
        if notices == self.notices {
            return;
        }
        self.notices = notices;
        // Without this, threads never wait again.
        let _ = self.common.shared.write(UNANSWERED, &[0; 4]);
        for (id, thread) in &mut self.threads {
            let Some((image, block)) = thread.place else { continue };
            let waits =
                self.images[image].as_ref().is_some_and(|image| image.waits(block, &self.common.shared));
            if waits {
                // More libraries may be loaded soon.
                self.short_until = now + WHILE;
            }
            if waits && !thread.asked {
                // If it has stopped already or is gone, it is handled when it continues.
                thread.asked = ptrace::interrupt(*id).is_ok();
            }
        }
    }

    pub(super) fn handle(&mut self, thread: Pid, status: Status) {
        match status {
            Status::Exited(_) | Status::Killed(_) => {
                self.watched.remove(&thread);
                self.sharing.remove(&thread);
                self.forget(thread);
            }
            Status::Event(libc::PTRACE_EVENT_EXEC) => self.begin(thread),
            Status::Event(libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE) => {
                if let Some(child) = self.adopt(thread, status) {
                    self.welcome(child);
                    self.go_on(child, 0);
                }
                self.answer(thread);
                self.go_on(thread, 0);
            }
            Status::Event(libc::PTRACE_EVENT_EXIT) => self.ends(thread),
            Status::Signal(LAST_SIGNAL) if self.has_stopped_itself(thread) => {
                self.answer(thread);
                self.go_on(thread, 0);
            }
            Status::Signal(libc::SIGSEGV) if self.repairs_copy(thread) => self.go_on(thread, 0),
            Status::Signal(signal) => {
                self.answer(thread);
                self.call_again_or_not(thread, signal);
                self.go_on(thread, signal);
            }
            Status::GroupStop => {
                self.answer(thread);
                self.leave_call(thread);
                let _ = system::resume(thread, Resume::Listen, 0);
            }
            Status::Trapped if !self.threads.contains_key(&thread) => drop(self.early.insert(thread)),
            Status::Trapped => {
                self.welcome(thread);
                self.answer(thread);
                machine::threads::call_again(thread, 0);
                self.go_on(thread, 0);
            }
            Status::SystemCall => {
                self.answer(thread);
                if !self.looks_at_system_call(thread) {
                    self.go_on(thread, 0);
                }
            }
            Status::Event(_) => {
                self.answer(thread);
                self.go_on(thread, 0);
            }
        }
    }

    pub(super) fn go_on(&self, thread: Pid, signal: i32) {
        let is_watched = self.settings.until == Until::Output
            || self.threads.get(&thread).is_some_and(|found| found.watched_calls > 0);
        let how = if is_watched { Resume::ToSystemCall } else { Resume::Run };
        // If the thread has ended, the next wait reports it.
        let _ = system::resume(thread, how, signal);
    }

    /// Follows a new thread or process. Returns it if it has stopped already.
    pub(super) fn adopt(&mut self, parent: Pid, status: Status) -> Option<Pid> {
        let child = Pid::from_raw(ptrace::getevent(parent).ok()? as i32);
        let of_parent = self.threads.get(&parent).copied()?;
        let is_process = status != Status::Event(libc::PTRACE_EVENT_CLONE);
        let process = if is_process { child } else { process_of(child).unwrap_or(of_parent.process) };
        let place = of_parent.place.and_then(|(number, block)| {
            let image = self.images[number].as_mut()?;
            image.threads += 1;
            if std::mem::take(&mut image.has_just_begun) {
                // From now on it does not count as a program that has just begun.
                image.expect_stop(block, false, &self.common.shared);
            }
            let own = if status == Status::Event(libc::PTRACE_EVENT_VFORK) {
                None
            } else {
                image.take_block(&self.common.shared).ok()
            };
            if own.is_none() {
                image.share_block(block);
            }
            Some((number, own.unwrap_or(block)))
        });
        if status == Status::Event(libc::PTRACE_EVENT_VFORK) {
            self.vforks.insert(child, parent);
        }
        if process != of_parent.process {
            self.note_sharing(process, (parent, of_parent.process), status);
        }
        let thread = if is_process {
            FollowedThread::young(process, place)
        } else {
            FollowedThread::of(process, place)
        };
        self.threads.insert(child, FollowedThread { is_new: true, ..thread });
        self.early.remove(&child).then_some(child)
    }

    /// Notes if a new process shares the memory of its parent. A child of vfork does until it ends or becomes another
    /// program.
    fn note_sharing(&mut self, process: Pid, (thread, parent): (Pid, Pid), status: Status) {
        let shares = || {
            let registers = Registers::of(thread).ok()?;
            let memory = File::open(format!("/proc/{thread}/mem")).ok()?;
            Some(registers.system_call().shares_memory(&memory))
        };
        if status != Status::Event(libc::PTRACE_EVENT_VFORK) && shares().unwrap_or(true) {
            self.sharing.extend([process, parent]);
        }
    }

    /// Gives a new thread its block.
    pub(super) fn welcome(&mut self, thread: Pid) {
        let Some(found) = self.threads.get_mut(&thread).filter(|found| found.is_new) else { return };
        found.is_new = false;
        let Some((image, block)) = found.place else { return };
        let found = *found;
        if self.vforks.contains_key(&thread) {
            // It has the counters of its parent, whose memory it shares.
            return;
        }
        if found.process == thread {
            self.open(thread);
        }
        if let Some(image) = &self.images[image] {
            // Without a block of its own, it counts in the block of its parent.
            let begins = found.process == thread && !self.sharing.contains(&thread);
            let opened = self.opened_of(thread, found.process);
            let _ = opened.and_then(|opened| image.set_counters((thread, &opened.memory), block, begins));
        }
    }

    /// Opens the memory of a process, for as long as it is this program.
    pub(super) fn open(&mut self, process: Pid) {
        /// Each process takes two descriptors.
        const MOST: usize = 200;
        if self.opened.len() < MOST {
            let opened = OpenedProcess::of(process).ok();
            self.opened.extend(opened.map(|opened| (process, Rc::new(opened))));
        }
    }

    /// Returns the memory of a process, opened through a thread of it that has not ended.
    pub(super) fn opened_of(&self, thread: Pid, process: Pid) -> io::Result<Rc<OpenedProcess>> {
        match self.opened.get(&process) {
            Some(opened) => Ok(Rc::clone(opened)),
            None => OpenedProcess::of(thread).map(Rc::new),
        }
    }

    /// True if a thread has sent itself the signal of a stub, which must not be delivered.
    fn has_stopped_itself(&mut self, thread: Pid) -> bool {
        let Some(found) = self.threads.get_mut(&thread) else { return false };
        let Some(image) = found.place.and_then(|(image, _)| self.images[image].as_ref()) else {
            return false;
        };
        let is_its_own = Registers::of(thread).is_ok_and(|registers| {
            let call = registers.system_call().number as i64;
            call == libc::SYS_tgkill && image.has_stub_at(registers.program_counter())
        });
        found.asked |= is_its_own;
        is_its_own
    }

    /// Changes the code of new libraries if a stopped thread waits for this.
    pub(super) fn answer(&mut self, thread: Pid) {
        let Some(found) = self.threads.get_mut(&thread) else { return };
        let Some((number, block)) = found.place.filter(|_| found.asked) else { return };
        found.asked = false;
        let process = found.process;
        let opened = self.opened_of(thread, process);
        let Some(image) = &mut self.images[number] else { return };
        if !image.waits(block, &self.common.shared) {
            return;
        }
        let begun = Instant::now();
        let attended = opened.and_then(|opened| {
            let mapped = opened.mappings()?;
            image.attend((process, &opened.memory), &mapped, &mut self.common)
        });
        image.answer(block, &self.common.shared);
        match attended {
            Ok(traits) if traits.contains(&Trait::UsesGs) => self.leave(thread, Reason::OccupiedRegister),
            Ok(_) => {}
            Err(error) => self.common.skipped.add(Reason::LeftProcess, 0, error.to_string()),
        }
        self.changing += begun.elapsed();
    }

    /// Restores the code of a stopped thread's program, because it is not recorded any longer.
    fn leave(&mut self, thread: Pid, why: Reason) {
        let Some(place) = self.threads.get(&thread).and_then(|found| found.place) else { return };
        let opened = self.threads.get(&thread).map(|found| self.opened_of(thread, found.process));
        if let Some(image) = &self.images[place.0] {
            self.common.skipped.add(why, 0, program_of(thread));
            if let Some(Ok(opened)) = opened {
                let _ = image.restore(&opened.memory);
            }
        }
    }

    /// Reads the callees of linkage stubs if the last thread of a process ends.
    pub(super) fn look_at_slots(&mut self, thread: Pid) {
        let Some(process) = self.threads.get(&thread).map(|found| found.process) else { return };
        let runs = |other: &&FollowedThread| other.process == process && !other.is_ending;
        if self.threads.values().filter(runs).count() == 1 {
            self.read_slots(thread);
        }
    }

    /// Reads the callees of linkage stubs in the process of a stopped thread.
    pub(super) fn read_slots(&mut self, thread: Pid) {
        let Some(found) = self.threads.get(&thread) else { return };
        let (Some((image, _)), Ok(opened)) = (found.place, self.opened_of(thread, found.process)) else {
            return;
        };
        if let Some(image) = &mut self.images[image] {
            image.look_at_slots(&opened.memory, &self.common.modules);
        }
    }

    /// Removes a detached thread. It still counts as a thread of its program, because it runs on in the stubs if the exec
    /// that it has begun fails.
    pub(super) fn forget_running(&mut self, thread: Pid) {
        self.vforks.remove(&thread);
        self.opened.remove(&thread);
        self.threads.remove(&thread);
    }

    /// Removes a thread that has ended or become another program.
    pub(super) fn forget(&mut self, thread: Pid) {
        self.early.remove(&thread);
        self.vforks.remove(&thread);
        // The first thread of a process is the last to disappear.
        self.opened.remove(&thread);
        let Some((number, block)) = self.threads.remove(&thread).and_then(|found| found.place) else {
            return;
        };
        let Some(image) = &mut self.images[number] else { return };
        image.leave_block(block);
        image.threads -= 1;
        if image.threads == 0 {
            self.retire(number);
        }
    }

    /// Adds the counts of a program that no thread runs any longer.
    fn retire(&mut self, number: usize) {
        if let Some(image) = self.images[number].take() {
            if let Some(left) = &mut self.common.memory_left {
                *left += image.memory;
            }
            if image.lacks_copies(&self.common.shared) {
                self.common.skipped.add(Reason::LeftProcess, 0, "it could not map changed code");
            }
            if let Some(trace) = &mut self.trace {
                trace.retire(number, &image, &self.common, &mut self.tally);
            }
            let weight = self.bursts.weight();
            image.retire(weight, &self.common.modules, &self.common.shared, &mut self.tally);
            if image.threads == 0 {
                drop(image);
                self.common.rooms.give_back(&self.common.shared);
            } else {
                // Released threads may still run in its stubs.
                self.outliving.push(image);
            }
        }
    }

    /// Removes the threads of a process after an exec, which ends all but one. Returns the removed threads.
    pub(super) fn replace_threads(&mut self, process: Pid) -> Vec<Pid> {
        let gone = self.threads.iter().filter(|(_, thread)| thread.process == process);
        let gone: Vec<Pid> = gone.map(|(id, _)| *id).collect();
        gone.iter().for_each(|thread| self.forget(*thread));
        self.threads.insert(process, FollowedThread::young(process, None));
        self.sharing.remove(&process);
        gone
    }

    /// Records the program that a process has become.
    fn begin(&mut self, process: Pid) {
        self.replace_threads(process);
        let begun = Instant::now();
        match self.enter(process) {
            Ok(()) => self.go_on(process, 0),
            Err(Left::Followed(reason)) => {
                self.common.skipped.add(reason, 0, program_of(process));
                self.go_on(process, 0);
            }
            Err(Left::Free(reason)) => {
                self.common.skipped.add(reason, 0, program_of(process));
                let _ = system::resume(process, Resume::Detach, 0);
                self.forget(process);
            }
        }
        self.changing += begun.elapsed();
    }

    /// Makes a program that begins map the recorder's memory, and changes its code.
    fn enter(&mut self, process: Pid) -> std::result::Result<(), Left> {
        let (mut image, mapped) = self.plan_image(process)?;
        if !self.may_map(process, &image) {
            return Err(Left::Followed(Reason::LimitedProgram));
        }
        let unentered = Left::Followed(Reason::UnenteredProgram);
        self.open(process);
        let opened = self.opened_of(process, process).map_err(|_| unentered)?;
        let block = image.take_block(&self.common.shared).map_err(|_| unentered)?;
        let thread = (process, &opened.memory);
        let entered = Registers::of(process).map_err(io::Error::from).and_then(|begins| {
            let path = self.common.shared.path();
            let (regions, moment, go_on) = (image.regions(), Moment::Beginning, begins.program_counter());
            let code = |place| machine::entrance::mapping((&path, &regions), moment, place, go_on);
            let injected = injected::run(thread, &mapped, (&code, moment), (begins, None))?;
            Ok(injected.succeeded && image.set_counters(thread, block, false).is_ok())
        });
        if !entered.is_ok_and(|entered| entered) {
            return Err(unentered);
        }
        image.threads = 1;
        let traits = image.attend((process, &opened.memory), &mapped, &mut self.common);
        if traits.is_err() {
            self.common.skipped.add(Reason::UnreadableProgram, 0, program_of(process));
        }
        self.programs += 1;
        image.has_just_begun = true;
        if system::signal_mask(process).is_ok_and(|mask| mask >> (LAST_SIGNAL - 1) & 1 == 0) {
            image.expect_stop(block, true, &self.common.shared);
        }
        self.images.push(Some(image));
        let place = Some((self.images.len() - 1, block));
        self.threads.insert(process, FollowedThread::young(process, place));
        Ok(())
    }

    /// True if the filters of a stopped process allow it to map the recorder's memory.
    pub(super) fn may_map(&mut self, process: Pid, image: &ProgramImage) -> bool {
        filters::are_inherited(process) && !self.filters_end_us()
            || filters::allow(process, &filtered::calls(&image.regions()))
    }

    fn filters_end_us(&mut self) -> bool {
        *self.filters_end_us.get_or_insert_with(filtered::is_forbidden_to_us)
    }

    /// Reserves memory for the program of a process; also returns its mappings.
    pub(super) fn plan_image(
        &mut self,
        process: Pid,
    ) -> std::result::Result<(ProgramImage, Vec<ProcessMapping>), Left> {
        let unreadable = |_| Left::Followed(Reason::UnreadableProgram);
        let auxiliary = std::fs::read(format!("/proc/{process}/auxv")).map_err(unreadable)?;
        let mapped = all_mappings(process).map_err(unreadable)?;
        let value = |key| auxiliary_value(&auxiliary, key);
        // Programs of 32 bits have numbers of other sizes.
        if value(libc::AT_PAGESZ).is_none() {
            return Err(Left::Followed(Reason::OtherArchitecture));
        }
        if value(libc::AT_SECURE).is_some_and(|secure| secure != 0) {
            return Err(Left::Free(Reason::OtherRights));
        }
        if is_limited(process) || has_little_memory(process) {
            return Err(Left::Followed(Reason::LimitedProgram));
        }
        let entry = value(libc::AT_ENTRY).unwrap_or_default();
        let at = |address: u64| mapped.iter().find(|mapping| mapping.range.contains(&address));
        let mapping = at(entry)
            .filter(|mapping| mapping.inode != 0)
            .ok_or(Left::Followed(Reason::UnreadableProgram))?;
        let number =
            self.common.modules.of(process, mapping).ok_or(Left::Followed(Reason::UnreadableProgram))?;
        let module = self.common.modules.get(number).clone();
        let plan = &module.plan;
        match plan.left_alone {
            Some("of another architecture" | "not an ELF file of 64 bits") => {
                return Err(Left::Followed(Reason::OtherArchitecture));
            }
            Some("a Go program") => return Err(Left::Followed(Reason::LeftFile)),
            _ => {}
        }
        if plan.traits.contains(&Trait::Traces) {
            return Err(Left::Free(Reason::TracingProgram));
        }
        if plan.traits.contains(&Trait::UsesGs) {
            return Err(Left::Followed(Reason::OccupiedRegister));
        }
        let program = extent(&mapped, mapping);
        let linker =
            value(libc::AT_BASE).filter(|base| *base != 0).and_then(at).map(|first| extent(&mapped, first));
        let ranges: Vec<Range<u64>> = mapped.iter().map(|mapping| mapping.range.clone()).collect();
        let wanted = NewProgram { mapped: &ranges, program: (number, program), linker };
        let image = ProgramImage::plan(&wanted, &mut self.common)
            .map_err(|_| Left::Followed(Reason::UnenteredProgram))?
            .ok_or(Left::Followed(Reason::NoRoomForStubs))?;
        Ok((image, mapped))
    }
}

/// Reason why a program is not recorded.
#[derive(Debug, Clone, Copy)]
pub(super) enum Left {
    /// The program is followed, because programs that it starts may be recorded.
    Followed(Reason),
    /// It is no longer traced.
    Free(Reason),
}

/// Finds the range of a file in memory from one of its mappings: from its first mapping to its last.
fn extent(mapped: &[ProcessMapping], of: &ProcessMapping) -> Range<u64> {
    let same = mapped.iter().filter(|mapping| mapping.inode == of.inode && mapping.path == of.path);
    let (mut start, mut end) = (of.range.start, of.range.end);
    for mapping in same {
        start = start.min(mapping.range.start);
        end = end.max(mapping.range.end);
    }
    start..end
}

pub(super) fn program_of(process: Pid) -> String {
    std::fs::read_link(format!("/proc/{process}/exe"))
        .map_or_else(|_| status_field(process, "Name").unwrap_or_default(), |path| path.display().to_string())
}
