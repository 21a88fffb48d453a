// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modelled processes: threads that run small programs in a few bytes of memory, and the choice of the next event.

use crate::tracing::machine::TRAP;
use crate::tracing::system::Status;
use nix::libc;
use sediment_core::random::Generator;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

/// Code of the program and of its library: plain instructions, and a function for debuggers that only returns.
pub(super) const CODE: [u8; 0x40] = {
    let mut code = [0x90; 0x40];
    let landing = [0xf3, 0x0f, 0x1e, 0xfa, 0xc3];
    let mut index = 0;
    while index < landing.len() {
        code[DEBUG_STATE as usize + index] = landing[index];
        index += 1;
    }
    code
};
pub(super) const FUNCTIONS: [u64; 2] = [0x10, 0x20];
pub(super) const DEBUG_STATE: u64 = 0x30;
pub(super) const PROGRAM: u64 = 0x1000;
pub(super) const LIBRARY: u64 = 0x2000;
pub(super) const FORK: u64 = 57;
pub(super) const VFORK: u64 = 58;

/// One step of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadStep {
    /// Calls the function at this address.
    Call(u64),
    /// Maps the library and notifies debuggers.
    Load,
    Unload,
    /// Creates a process that runs these steps.
    Fork(&'static [ThreadStep]),
    /// Creates a process in the same memory that runs these steps, and waits until that process calls exec or ends.
    Vfork(&'static [ThreadStep]),
    /// Creates a thread that runs these steps.
    Spawn(&'static [ThreadStep]),
    Exec(&'static [ThreadStep]),
    Exit,
}
use ThreadStep::{Call, Exec, Exit, Fork, Load, Spawn, Unload, Vfork};

pub(super) const F: ThreadStep = Call(PROGRAM + 0x10);
pub(super) const G: ThreadStep = Call(PROGRAM + 0x20);
pub(super) const L: ThreadStep = Call(LIBRARY + 0x10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunState {
    Ready,
    /// Waits for a child in the same memory.
    Waits(i32),
    Stopped,
    Dead,
}

#[derive(Debug)]
pub(super) struct WorldThread {
    pub(super) process: i32,
    pub(super) memory: usize,
    pub(super) steps: VecDeque<ThreadStep>,
    pub(super) run: RunState,
    pub(super) traced: bool,
    /// Report that the tracer has not received.
    pub(super) report: Option<Status>,
    pub(super) event_about: i32,
    /// Its end, until it is reported.
    pub(super) end: Option<Status>,
    pub(super) interrupted: bool,
    /// It executed a breakpoint at this address; not reported yet.
    pub(super) trapped: Option<u64>,
    pub(super) system_call: u64,
    /// True if it is on the tracer's processor.
    pub(super) is_paired: bool,
}

/// Bytes of mapped code, by the address of their page.
#[derive(Debug, Clone, Default)]
pub(super) struct WorldMemory {
    pages: BTreeMap<u64, [u8; CODE.len()]>,
    /// Addresses that the tracer has written to since the last check.
    pub(super) written: Vec<u64>,
}

impl WorldMemory {
    fn of(base: u64) -> Self {
        Self { pages: BTreeMap::from([(base, CODE)]), written: Vec::new() }
    }

    pub(super) fn is_mapped(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    pub(super) fn get(&self, address: u64) -> Option<u8> {
        self.pages.get(&(address & !0xfff))?.get((address & 0xfff) as usize).copied()
    }

    pub(super) fn get_mut(&mut self, address: u64) -> Option<&mut u8> {
        self.pages.get_mut(&(address & !0xfff))?.get_mut((address & 0xfff) as usize)
    }

    pub(super) fn has_breakpoint(&self) -> bool {
        self.pages.values().any(|code| code.contains(&TRAP[0]))
    }
}

pub(super) struct World {
    pub(super) threads: BTreeMap<i32, WorldThread>,
    pub(super) memories: Vec<Rc<RefCell<WorldMemory>>>,
    pub(super) next: i32,
    pub(super) chooser: Chooser,
    pub(super) stop: sediment_process::Stop,
    /// A thread that may not be traced.
    pub(super) refuses: Option<i32>,
    /// Number of alarms, kills and ends of the recording that may still happen.
    pub(super) alarms: u32,
    pub(super) kills: u32,
    pub(super) asks: u32,
    pub(super) told: u32,
    pub(super) begun: Instant,
    /// Thread on the tracer's processor, and the number of paired threads so far.
    pub(super) paired: Option<nix::unistd::Pid>,
    pub(super) pairs: u32,
    /// True if code must change only while all threads with this memory are stopped, unless one of them is at a
    /// breakpoint.
    pub(super) is_calm: bool,
    pub(super) wrong: Vec<String>,
    pub(super) trail: Vec<Happening>,
}

/// Chooses between numbered possibilities: first as prescribed, then always the first one, or at random.
pub(super) struct Chooser {
    pub(super) taken: Vec<(usize, usize)>,
    pub(super) at: usize,
    pub(super) random: Option<Generator>,
}

impl Chooser {
    pub(super) fn choose(&mut self, among: usize) -> usize {
        if let Some(random) = &mut self.random {
            return (random.unit() * among as f64) as usize;
        }
        if self.at == self.taken.len() {
            self.taken.push((0, among));
        }
        let (choice, before) = self.taken[self.at];
        assert_eq!(before, among, "the model repeats itself");
        self.at += 1;
        choice
    }

    /// Prepares the next run; false after the last one.
    pub(super) fn turn(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, among)) = self.taken.pop() {
            if choice + 1 < among {
                self.taken.push((choice + 1, among));
                return true;
            }
        }
        false
    }
}

impl World {
    pub(super) fn new(steps: &'static [ThreadStep], chooser: Chooser) -> Self {
        let memory = Rc::new(RefCell::new(WorldMemory::of(PROGRAM)));
        let mut world = Self {
            threads: BTreeMap::new(),
            memories: vec![memory],
            next: 10,
            chooser,
            stop: sediment_process::Stop::new(),
            refuses: None,
            alarms: 2,
            kills: 1,
            asks: 1,
            told: 0,
            begun: Instant::now(),
            paired: None,
            pairs: 0,
            is_calm: false,
            wrong: Vec::new(),
            trail: Vec::new(),
        };
        world.add(None, 0, steps);
        world
    }

    pub(super) fn add(&mut self, process: Option<i32>, memory: usize, steps: &[ThreadStep]) -> i32 {
        let id = self.next;
        self.next += 1;
        let thread = WorldThread {
            process: process.unwrap_or(id),
            memory,
            steps: steps.iter().copied().collect(),
            run: RunState::Ready,
            traced: false,
            report: None,
            end: None,
            event_about: 0,
            interrupted: false,
            trapped: None,
            system_call: 0,
            is_paired: false,
        };
        self.threads.insert(id, thread);
        id
    }

    pub(super) fn stop(&mut self, id: i32, report: Status) {
        let thread = self.threads.get_mut(&id).unwrap();
        if thread.traced {
            (thread.run, thread.report) = (RunState::Stopped, Some(report));
        }
    }

    pub(super) fn end(&mut self, id: i32, report: Status) {
        let process = self.threads[&id].process;
        if self.threads[&id].run == RunState::Dead {
            return;
        }
        let thread = self.threads.get_mut(&id).unwrap();
        thread.run = RunState::Dead;
        thread.report = None;
        thread.end = thread.traced.then_some(report);
        self.release(id);
        // The end of a process's first thread is reported after the ends of its other threads.
        let others = self
            .threads
            .iter()
            .any(|(other, one)| *other != process && one.process == process && one.run != RunState::Dead);
        for told in [id, process] {
            if told != process || !others {
                let thread = self.threads.get_mut(&told).unwrap();
                thread.report = if thread.run == RunState::Dead {
                    thread.end.take().or(thread.report)
                } else {
                    thread.report
                };
            }
        }
    }

    /// Resumes the thread that waits for this child.
    pub(super) fn release(&mut self, child: i32) {
        for thread in self.threads.values_mut().filter(|thread| thread.run == RunState::Waits(child)) {
            thread.run = RunState::Ready;
        }
    }

    /// Records writes of the tracer to code that a thread might have changed at the same time.
    pub(super) fn look_at_writes(&mut self) {
        for (index, memory) in self.memories.iter().enumerate() {
            let written = std::mem::take(&mut memory.borrow_mut().written);
            let users = || self.threads.values().filter(|one| one.memory == index);
            let runs = users().any(|one| one.run == RunState::Ready);
            for address in written.into_iter().filter(|_| self.is_calm && runs) {
                if users().all(|one| one.run != RunState::Stopped || one.trapped != Some(address)) {
                    self.wrong.push(format!("{address:#x} was written to while threads run"));
                }
            }
        }
    }

    pub(super) fn is_ready(&self, id: i32) -> bool {
        self.threads[&id].run == RunState::Ready
    }

    /// Advances a thread by one step.
    pub(super) fn advance(&mut self, id: i32) {
        let thread = self.threads.get_mut(&id).unwrap();
        // An interrupted thread stops before a signal is reported.
        if thread.interrupted && thread.traced {
            thread.interrupted = false;
            return self.stop(id, Status::Trapped);
        }
        if let Some(address) = thread.trapped {
            if !thread.traced {
                self.wrong.push(format!("{id} ran into a breakpoint at {address:#x} that nobody handles"));
                return self.end(id, Status::Killed(libc::SIGTRAP));
            }
            return self.stop(id, Status::Signal(libc::SIGTRAP));
        }
        let Some(step) = thread.steps.front().copied() else { return self.end(id, Status::Exited(0)) };
        let memory = thread.memory;
        let runs_into =
            |world: &Self, address: u64| world.memories[memory].borrow().get(address) == Some(TRAP[0]);
        match step {
            Call(address) => {
                if runs_into(self, address) {
                    self.threads.get_mut(&id).unwrap().trapped = Some(address);
                    return;
                }
                if self.threads[&id].is_paired && step == G {
                    self.wrong.push(format!("{id} sees the tracer's processor"));
                }
                if self.memories[memory].borrow().get(address).is_none() {
                    self.wrong.push(format!("{id} called what is not mapped: the model is wrong"));
                }
            }
            Load | Unload => {
                let pages = &mut self.memories[memory].borrow_mut().pages;
                if step == Load {
                    pages.entry(LIBRARY).or_insert(CODE);
                } else {
                    pages.remove(&LIBRARY);
                }
                let debug_state = PROGRAM + DEBUG_STATE;
                let thread = self.threads.get_mut(&id).unwrap();
                thread.steps.pop_front();
                thread.steps.push_front(Call(debug_state));
                return;
            }
            Fork(steps) | Vfork(steps) | Spawn(steps) => return self.give_birth(id, step, steps),
            Exec(steps) => return self.become_program(id, steps),
            Exit => return self.end(id, Status::Exited(0)),
        }
        self.threads.get_mut(&id).unwrap().steps.pop_front();
    }

    /// Creates a thread, in the process of a thread or in a new process.
    fn give_birth(&mut self, id: i32, step: ThreadStep, steps: &'static [ThreadStep]) {
        let thread = self.threads.get_mut(&id).unwrap();
        let (process, memory, traced, paired) =
            (thread.process, thread.memory, thread.traced, thread.is_paired);
        thread.system_call = match step {
            Fork(_) => FORK,
            Vfork(_) => VFORK,
            _ => 0,
        };
        let child = match step {
            Fork(_) => {
                let copy = self.memories[memory].borrow().clone();
                self.memories.push(Rc::new(RefCell::new(copy)));
                self.add(None, self.memories.len() - 1, steps)
            }
            Vfork(_) => self.add(None, memory, steps),
            _ => self.add(Some(process), memory, steps),
        };
        let born = self.threads.get_mut(&child).unwrap();
        (born.traced, born.is_paired) = (traced, paired);
        self.stop(child, Status::Trapped);
        let thread = self.threads.get_mut(&id).unwrap();
        thread.steps.pop_front();
        thread.event_about = child;
        if let Vfork(_) = step {
            thread.run = RunState::Waits(child);
        }
        self.stop(id, Status::Event(libc::PTRACE_EVENT_FORK));
    }

    /// Executes another program in the process of a thread.
    fn become_program(&mut self, id: i32, steps: &'static [ThreadStep]) {
        let process = self.threads[&id].process;
        let of_process: Vec<i32> =
            self.threads.iter().filter(|(_, one)| one.process == process).map(|(id, _)| *id).collect();
        let traced = self.threads[&id].traced;
        for other in of_process.into_iter().filter(|other| *other != process) {
            self.end(other, Status::Exited(0));
            // For the thread that called exec, no end is reported under its own id.
            if other == id {
                let thread = self.threads.get_mut(&other).unwrap();
                (thread.report, thread.end, thread.traced) = (None, None, false);
            }
        }
        self.memories.push(Rc::new(RefCell::new(WorldMemory::of(PROGRAM))));
        let memory = self.memories.len() - 1;
        let leader = self.threads.get_mut(&process).unwrap();
        *leader = WorldThread {
            process,
            memory,
            steps: steps.iter().copied().collect(),
            run: RunState::Ready,
            traced,
            report: None,
            end: None,
            event_about: id,
            interrupted: leader.interrupted,
            trapped: None,
            system_call: 0,
            is_paired: leader.is_paired,
        };
        self.release(process);
        self.stop(process, Status::Event(libc::PTRACE_EVENT_EXEC));
    }

    /// Chooses the next event.
    pub(super) fn happens(&mut self) -> Option<Happening> {
        let mut all: Vec<Happening> = Vec::new();
        all.extend(
            self.threads.iter().filter(|(_, one)| one.report.is_some()).map(|(id, _)| Happening::Report(*id)),
        );
        all.extend(self.threads.keys().filter(|id| self.is_ready(**id)).map(|id| Happening::Advance(*id)));
        let traced = self
            .threads
            .values()
            .any(|one| one.traced && (one.run != RunState::Dead || one.report.is_some()));
        if !traced {
            return None;
        }
        if self.alarms > 0 || all.is_empty() {
            all.push(Happening::Alarm);
        }
        if self.asks > 0 {
            all.push(Happening::Ask);
        }
        if self.kills > 0 {
            let alive =
                self.threads.iter().filter(|(id, one)| **id == one.process && one.run != RunState::Dead);
            all.extend(alive.map(|(id, _)| Happening::Kill(*id)));
        }
        let choice = self.chooser.choose(all.len());
        Some(all[choice])
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Happening {
    Report(i32),
    Advance(i32),
    Alarm,
    Ask,
    Kill(i32),
}
