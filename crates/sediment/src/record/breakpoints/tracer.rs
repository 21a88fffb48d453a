// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop that follows every thread from stop to stop.
//!
//! ```text
//! fork, vfork, clone ─► the child stops by itself: it has its parent's traps, in a copy of its memory or in the same
//! exec ─► new memory: armed anew; until the program's first instruction every mapping of code is looked at as it is made
//! trap ─► whose is it? ours: note it, put back what was there, set the thread back; the program's own: let it have it
//! any other signal ─► passed on
//! ```
//!
//! All are let go in the end, also after an error, with every trap taken out before.

use super::log::Log;
use super::machine::Registers;
use super::mappings::{is_pending, process_of};
use super::modules::Modules;
use super::rates::{Taken, Windows};
use super::space::{Met, Space};
use super::system::{self, Alarm, Resume, Status};
use super::waiting::Waiting;
use crate::error::{Error, Result};
use crate::record::{Progress, Settings, Until};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often it is looked whether the recording is to end.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// A traced thread.
#[derive(Debug, Clone, Copy)]
struct Task {
    process: Pid,
    space: u32,
    /// So many ends of its system calls are yet to be looked at, as it may become another program soon.
    looked_at: u8,
}

/// How the program that was started ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It runs on, or was not started here.
    Running,
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

pub(super) struct Tracer<'a> {
    settings: &'a Settings,
    pub(super) modules: Modules<'a>,
    spaces: BTreeMap<u32, Space>,
    next_space: u32,
    tasks: BTreeMap<Pid, Task>,
    /// New threads that have stopped before it was told whose they are.
    early: BTreeSet<Pid>,
    root: Option<Pid>,
    /// Whether the process that was started has become the program.
    became: bool,
    pub(super) ending: Ending,
    over: bool,
    pub(super) log: Log,
    pub(super) windows: Option<Windows>,
    alarm: Alarm,
    waiting: Waiting,
    begun: Instant,
    watch: &'a mut dyn FnMut(Progress),
    /// How long programs stood still while their files were read and armed.
    pub(super) arming: Duration,
    /// Threads are being let go.
    letting_go: bool,
}

impl<'a> Tracer<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        modules: Modules<'a>,
        watch: &'a mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let alarm = Alarm::new().map_err(broken)?;
        Ok(Self {
            settings,
            modules,
            spaces: BTreeMap::new(),
            next_space: 0,
            tasks: BTreeMap::new(),
            early: BTreeSet::new(),
            root: None,
            became: false,
            ending: Ending::Running,
            over: false,
            log: Log::default(),
            windows: settings.rates.map(Windows::new),
            alarm,
            waiting: Waiting::new(),
            begun: Instant::now(),
            watch,
            arming: Duration::ZERO,
            letting_go: false,
        })
    }

    /// Takes on a process that was seized and is yet to become the program: it has no traps.
    pub(super) fn expect(&mut self, process: Pid) -> std::io::Result<()> {
        let space = self.add_space(Space::of(process)?);
        self.tasks.insert(process, Task { process, space, looked_at: 0 });
        self.root = Some(process);
        Ok(())
    }

    /// Takes on a running process, all of whose threads were seized.
    pub(super) fn join(&mut self, process: Pid, threads: &[Pid]) -> std::io::Result<()> {
        let mut space = Space::of(process)?;
        space.look_at_mappings(&mut self.modules)?;
        let space = self.add_space(space);
        for thread in threads {
            self.tasks.insert(*thread, Task { process, space, looked_at: 0 });
        }
        Ok(())
    }

    fn add_space(&mut self, mut space: Space) -> u32 {
        space.start_clock();
        let id = self.next_space;
        self.next_space += 1;
        self.spaces.insert(id, space);
        id
    }

    /// Follows until the recording is over; then every trap is out and every thread let go.
    pub(super) fn run(&mut self) -> Result<()> {
        let followed = self.follow();
        let let_go = self.let_go();
        followed.and(let_go)
    }

    fn follow(&mut self) -> Result<()> {
        self.begun = Instant::now();
        if let Some(windows) = &mut self.windows {
            windows.begin();
        }
        while !self.over && !self.tasks.is_empty() {
            let period = self.windows.as_ref().map_or(LOOK_AROUND, |windows| windows.period());
            self.alarm.ring(period).map_err(broken)?;
            if !self.became && self.root_cannot_become_the_program()? {
                break;
            }
            let next = self.waiting.next();
            if let Some(windows) = &mut self.windows {
                windows.looked(self.waiting.take_looked());
            }
            match next {
                Ok(Some((thread, status))) => {
                    self.handle(thread, status)?;
                    if let Some(windows) = &mut self.windows {
                        windows.stopped();
                    }
                }
                Ok(None) => self.look_around(),
                Err(Errno::ECHILD) => break,
                Err(error) => return Err(broken(error)),
            }
            if let Some(windows) = &mut self.windows {
                windows.turn(&mut self.spaces, &self.modules, &mut self.log);
            }
        }
        Ok(())
    }

    /// Whether the process that was to become the program has ended before: then whoever started it waits for its end.
    fn root_cannot_become_the_program(&mut self) -> Result<bool> {
        let Some(root) = self.root else { return Ok(false) };
        let ended = loop {
            if let Some(ended) = system::peek_whether_ended(root).map_err(broken)? {
                break ended;
            }
        };
        if ended {
            self.forget(root);
        }
        Ok(ended)
    }

    fn look_around(&mut self) {
        let elapsed = self.begun.elapsed();
        let late = matches!(self.settings.until, Until::After(limit) if elapsed >= limit);
        self.over |= late || self.settings.stop.asked();
        (self.watch)(Progress { elapsed, functions: Some(self.log.functions()), warning: None });
    }

    fn handle(&mut self, thread: Pid, status: Status) -> Result<()> {
        match status {
            Status::Exited(code) => self.ended(thread, Ending::Exited(code)),
            Status::Killed(signal) => self.ended(thread, Ending::Killed(signal)),
            Status::Trapped | Status::GroupStop if !self.tasks.contains_key(&thread) => {
                self.early.insert(thread);
            }
            Status::Trapped => self.go_on(thread, 0)?,
            Status::GroupStop => ignore_gone(system::resume(thread, Resume::Listen, 0))?,
            Status::Signal(libc::SIGTRAP) if system::is_breakpoint(thread) => {
                let signal = self.trap(thread)?;
                self.go_on(thread, signal)?;
            }
            Status::Signal(signal) => self.go_on(thread, signal)?,
            Status::SystemCall => {
                self.system_call(thread)?;
                self.go_on(thread, 0)?;
            }
            Status::Event(libc::PTRACE_EVENT_EXEC) => {
                self.became |= self.root == Some(thread);
                self.became_a_program(thread)?;
                self.go_on(thread, 0)?;
            }
            Status::Event(_) => {
                self.has_a_child(thread)?;
                self.go_on(thread, 0)?;
            }
        }
        Ok(())
    }

    fn go_on(&mut self, thread: Pid, signal: i32) -> Result<()> {
        let task = self.tasks.get(&thread);
        let loading = task.and_then(|task| self.spaces.get(&task.space)).is_some_and(|space| space.loading);
        let looked_at = task.is_some_and(|task| task.looked_at > 0);
        let how = if self.letting_go {
            Resume::Detach
        } else if loading || looked_at || self.settings.until == Until::Output {
            Resume::ToSystemCall
        } else {
            Resume::Run
        };
        if how == Resume::Detach {
            self.forget(thread);
        }
        ignore_gone(system::resume(thread, how, signal))
    }

    fn ended(&mut self, thread: Pid, ending: Ending) {
        self.early.remove(&thread);
        self.forget(thread);
        if self.root == Some(thread) {
            self.ending = ending;
            self.over = true;
        }
    }

    fn forget(&mut self, thread: Pid) {
        let Some(task) = self.tasks.remove(&thread) else { return };
        if self.tasks.values().any(|other| other.space == task.space) {
            return;
        }
        if let Some(space) = self.spaces.remove(&task.space) {
            self.log.retire(&space);
        }
    }

    /// A thread ran into a trap; the signal that it is to have, 0 where the trap was ours.
    fn trap(&mut self, thread: Pid) -> Result<i32> {
        let Some(task) = self.tasks.get(&thread).copied() else { return Ok(libc::SIGTRAP) };
        let Some(space) = self.spaces.get_mut(&task.space) else { return Ok(libc::SIGTRAP) };
        let Some(mut registers) = ignore_gone_or(Registers::of(thread))? else { return Ok(0) };
        let address = registers.trap_address();
        match space.meet(&self.modules, address) {
            None => return Ok(libc::SIGTRAP),
            Some(Met::TakenOut) => {}
            Some(Met::Mapped) => {
                // What it stands at is a function that only returns.
                if registers.return_from_function(&space.memory).is_none() {
                    return Ok(libc::SIGSEGV);
                }
                let stopped = Instant::now();
                space.look_at_mappings(&mut self.modules).map_err(unreadable)?;
                self.arming += stopped.elapsed();
                for image in std::mem::take(&mut space.gone) {
                    self.log.retire_image(&image, space.processor_time);
                }
                ignore_gone(registers.put(thread))?;
                return Ok(0);
            }
            Some(Met::Function(site)) => {
                if self.windows.is_some() {
                    space.look_at_clock_now_and_then();
                }
                let caller = registers.return_address(thread).and_then(|address| space.place(address));
                let taken = match &mut self.windows {
                    Some(windows) => {
                        windows.hit(task.space, space, &self.modules, site, thread, &mut self.log)
                    }
                    None => Taken::Not,
                };
                match taken {
                    Taken::AsRepeat => {}
                    Taken::AsStep => self.log.ran(&self.modules, thread.as_raw() as u64, site, caller),
                    Taken::ForRate => self.log.met(&self.modules, site, caller),
                    Taken::Not => {
                        self.log.first(&self.modules, site, caller);
                        space.saw(site);
                        if let Some(windows) = &mut self.windows {
                            windows.leave_for_repeat(task.space, space, &self.modules, site, thread);
                        }
                    }
                }
                if self.modules.get(site.module).becomes_another(site.entry) {
                    self.look_at_system_calls(thread);
                }
            }
        }
        ignore_gone(registers.go_to(thread, address))?;
        Ok(0)
    }

    /// Looks at the next system calls of what may become another program soon; root's programs lose no rights by that.
    fn look_at_system_calls(&mut self, thread: Pid) {
        const SYSTEM_CALLS: u8 = 64;
        if !nix::unistd::geteuid().is_root() {
            self.tasks.entry(thread).and_modify(|task| task.looked_at = SYSTEM_CALLS);
        }
    }

    fn system_call(&mut self, thread: Pid) -> Result<()> {
        let Some(registers) = ignore_gone_or(Registers::of(thread))? else { return Ok(()) };
        let call = registers.system_call();
        if let Some(task) = self.tasks.get_mut(&thread).filter(|task| task.looked_at > 0) {
            task.looked_at -= 1;
            if let Some(path) = call.becomes().filter(|_| !call.ended) {
                self.warn_of_other_rights(thread, path);
            }
        }
        let output = matches!(call.writes_to(), Some(1 | 2));
        self.over |= self.settings.until == Until::Output && output && !call.ended;
        let space = self.tasks.get(&thread).and_then(|task| self.spaces.get_mut(&task.space));
        if let Some(space) = space.filter(|space| space.loading && call.ended && call.maps_code()) {
            let stopped = Instant::now();
            space.look_at_mappings(&mut self.modules).map_err(unreadable)?;
            self.arming += stopped.elapsed();
        }
        Ok(())
    }

    /// A process is about to become the program whose path stands at this address of its memory.
    fn warn_of_other_rights(&mut self, process: Pid, path: u64) {
        let Some(space) = self.tasks.get(&process).and_then(|task| self.spaces.get(&task.space)) else {
            return;
        };
        let Some(path) = space.memory.text(path).map(PathBuf::from) else { return };
        let folder = if path.is_absolute() { "root" } else { "cwd" };
        let inside = path.strip_prefix("/").unwrap_or(&path);
        let file = Path::new("/proc").join(process.to_string()).join(folder).join(inside);
        if std::fs::metadata(&file).is_ok_and(|found| has_other_rights(&found)) {
            let warning = format!(
                "{} is about to be started: while it is recorded, the kernel takes from it the rights of another user (setuid) that it runs with; \
                 if it fails for that, record as root",
                path.display()
            );
            let elapsed = self.begun.elapsed();
            (self.watch)(Progress { elapsed, functions: Some(self.log.functions()), warning: Some(warning) });
        }
    }

    fn has_a_child(&mut self, parent: Pid) -> Result<()> {
        let Some(child) = ignore_gone_or(ptrace::getevent(parent))? else { return Ok(()) };
        let child = Pid::from_raw(child as i32);
        let Some(task) = self.tasks.get(&parent).copied() else { return Ok(()) };
        let Some(space) = self.spaces.get(&task.space) else { return Ok(()) };
        let shares = ignore_gone_or(Registers::of(parent))?
            .is_some_and(|registers| registers.system_call().shares_memory(&space.memory));
        let process = process_of(child).unwrap_or(child);
        let id = if shares || process == task.process {
            task.space
        } else {
            match space.forked(child) {
                Ok(mut copy) => {
                    if let Some(windows) = &self.windows {
                        windows.leave(task.space, &mut copy, &self.modules);
                    }
                    self.add_space(copy)
                }
                // It was killed before it ran.
                Err(_) => return Ok(()),
            }
        };
        self.tasks.insert(child, Task { process, space: id, looked_at: 0 });
        // A new process becomes another program after a few system calls, or hardly ever.
        if process != task.process {
            self.look_at_system_calls(child);
        }
        if self.letting_go {
            if let Some(space) = self.spaces.get_mut(&id) {
                space.disarm_all(&self.modules);
            }
        }
        if self.early.remove(&child) {
            self.go_on(child, 0)?;
        }
        Ok(())
    }

    /// A process has become another program: its other threads are gone, and the one that is left has its id.
    fn became_a_program(&mut self, process: Pid) -> Result<()> {
        let stopped = Instant::now();
        let space = Space::of(process).and_then(|mut space| {
            if !self.letting_go {
                space.begin(&mut self.modules)?;
            }
            Ok(space)
        });
        self.arming += stopped.elapsed();
        let mut threads: Vec<Pid> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.process == process)
            .map(|(thread, _)| *thread)
            .collect();
        threads.extend(ignore_gone_or(ptrace::getevent(process))?.map(|former| Pid::from_raw(former as i32)));
        for thread in threads {
            self.forget(thread);
        }
        let space = match space {
            Ok(space) => self.add_space(space),
            Err(_) if nix::sys::signal::kill(process, None).is_err() => return Ok(()),
            Err(error) => return Err(unreadable(error)),
        };
        self.tasks.insert(process, Task { process, space, looked_at: 0 });
        let executable = format!("/proc/{process}/exe");
        let privileged = std::fs::metadata(&executable).is_ok_and(|found| has_other_rights(&found));
        if privileged && !nix::unistd::geteuid().is_root() {
            let path = std::fs::read_link(&executable).unwrap_or_default();
            self.modules.losses.add(
                "the rights of another user (setuid) that programs have when they are not traced",
                0,
                &path.display().to_string(),
            );
        }
        Ok(())
    }

    /// Takes every trap out and lets every thread go where it is.
    fn let_go(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.letting_go, true) {
            return Ok(());
        }
        if let Some(windows) = &mut self.windows {
            windows.close(&mut self.spaces, &self.modules, &mut self.log);
        }
        for space in self.spaces.values_mut() {
            space.look_at_clock();
            space.disarm_all(&self.modules);
        }
        for thread in self.tasks.keys() {
            ignore_gone(ptrace::interrupt(*thread))?;
        }
        self.alarm.ring(LOOK_AROUND).map_err(broken)?;
        while !self.tasks.is_empty() || !self.early.is_empty() {
            match system::wait() {
                Ok(Some((thread, status))) => self.let_go_of(thread, status)?,
                Ok(None) => {}
                Err(Errno::ECHILD) => break,
                Err(error) => return Err(broken(error)),
            }
        }
        for space in std::mem::take(&mut self.spaces).values() {
            self.log.retire(space);
        }
        Ok(())
    }

    fn let_go_of(&mut self, thread: Pid, status: Status) -> Result<()> {
        let stopped = matches!(status, Status::Trapped | Status::GroupStop);
        if stopped && self.tasks.contains_key(&thread) {
            // It may have run a trap just before it was stopped: then it must be set back first.
            if is_pending(thread, libc::SIGTRAP) && self.stands_behind_a_trap(thread)? {
                return ignore_gone(system::resume(thread, Resume::Run, 0));
            }
            return self.go_on(thread, 0);
        }
        self.handle(thread, status)
    }

    fn stands_behind_a_trap(&self, thread: Pid) -> Result<bool> {
        let space = self.tasks.get(&thread).and_then(|task| self.spaces.get(&task.space));
        let Some(registers) = ignore_gone_or(Registers::of(thread))? else { return Ok(false) };
        Ok(space.is_some_and(|space| space.is_ours(&self.modules, registers.trap_address())))
    }
}

impl Drop for Tracer<'_> {
    fn drop(&mut self) {
        // After a panic of our own, too.
        let _ = self.let_go();
    }
}

/// Whether a program runs with the rights of its owner or group, not of who starts it.
pub(super) fn has_other_rights(file: &Metadata) -> bool {
    file.is_file() && file.permissions().mode() & 0o6000 != 0 && file.permissions().mode() & 0o111 != 0
}

/// A thread that is gone, killed while it was stopped, is none to ask: its end is told next.
fn ignore_gone(done: nix::Result<()>) -> Result<()> {
    ignore_gone_or(done).map(drop)
}

fn ignore_gone_or<T>(done: nix::Result<T>) -> Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(Errno::ESRCH) => Ok(None),
        Err(error) => Err(broken(error)),
    }
}

fn broken(error: Errno) -> Error {
    Error::failed(format!("tracing the program failed: {error}"))
}

fn unreadable(error: std::io::Error) -> Error {
    Error::failed(format!("the program's memory cannot be read: {error}"))
}
