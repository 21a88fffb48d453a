// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracer on a model of an operating system, in every order of events.
//!
//! Threads run little programs. At each step the model chooses what happens next: a thread goes one step on, a report reaches the
//! tracer, an alarm rings, a process is killed, the recording is ended. All choices are tried, one run for each, as far as the bound on
//! runs allows; beyond it, seeded runs choose at random. Whatever is chosen: no thread runs into a breakpoint that nobody handles, none
//! stays stopped, and no breakpoint stays in memory.

use super::super::machine::{Registers, TRAP};
use super::super::mappings::Mapping;
use super::super::memory::Memory;
use super::super::modules::Module;
use super::*;
use crate::binary::NoFiles;
use crate::random::Generator;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::result::Result;

/// Code of the program and of its library: plain instructions, and a function for debuggers that only returns.
const CODE: [u8; 0x40] = {
    let mut code = [0x90; 0x40];
    let landing = [0xf3, 0x0f, 0x1e, 0xfa, 0xc3];
    let mut index = 0;
    while index < landing.len() {
        code[DEBUG_STATE as usize + index] = landing[index];
        index += 1;
    }
    code
};
const FUNCTIONS: [u64; 2] = [0x10, 0x20];
const DEBUG_STATE: u64 = 0x30;
const PROGRAM: u64 = 0x1000;
const LIBRARY: u64 = 0x2000;
const FORK: u64 = 57;
const VFORK: u64 = 58;

/// One step of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Calls the function at this address.
    Call(u64),
    /// Maps the library, and tells debuggers.
    Load,
    Unload,
    /// Makes a process that runs these steps.
    Fork(&'static [Step]),
    /// Makes a process in the same memory that runs these steps, and waits until it is another program or has ended.
    Vfork(&'static [Step]),
    /// Makes a thread that runs these steps.
    Spawn(&'static [Step]),
    Exec(&'static [Step]),
    Exit,
}
use Step::{Call, Exec, Exit, Fork, Load, Spawn, Unload, Vfork};

const F: Step = Call(PROGRAM + 0x10);
const G: Step = Call(PROGRAM + 0x20);
const L: Step = Call(LIBRARY + 0x10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Ready,
    /// Waits for a child in the same memory.
    Waits(i32),
    Stopped,
    Dead,
}

#[derive(Debug)]
struct Thread {
    process: i32,
    memory: usize,
    steps: VecDeque<Step>,
    run: Run,
    traced: bool,
    /// What the tracer has not been told.
    report: Option<Status>,
    event_about: i32,
    /// How it ended, where that is not told yet.
    end: Option<Status>,
    interrupted: bool,
    /// It ran a breakpoint at this address, which is to be told.
    trapped: Option<u64>,
    system_call: u64,
}

/// Bytes of mapped code by address.
type Space = BTreeMap<u64, u8>;

struct World {
    threads: BTreeMap<i32, Thread>,
    memories: Vec<Rc<RefCell<Space>>>,
    next: i32,
    chooser: Chooser,
    stop: crate::measure::Stop,
    /// How many alarms, kills and ends of the recording may come.
    alarms: u32,
    kills: u32,
    asks: u32,
    told: u32,
    wrong: Vec<String>,
    trail: Vec<String>,
}

/// Decides between numbered possibilities: as was decided before, then the first of them, or at random.
struct Chooser {
    taken: Vec<(usize, usize)>,
    at: usize,
    random: Option<Generator>,
}

impl Chooser {
    fn choose(&mut self, among: usize) -> usize {
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

    /// Turns to the next run; false after the last one.
    fn turn(&mut self) -> bool {
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

fn code_at(base: u64) -> impl Iterator<Item = (u64, u8)> {
    (base..).zip(CODE)
}

impl World {
    fn new(steps: &'static [Step], chooser: Chooser) -> Self {
        let memory = Rc::new(RefCell::new(code_at(PROGRAM).collect()));
        let mut world = Self {
            threads: BTreeMap::new(),
            memories: vec![memory],
            next: 10,
            chooser,
            stop: crate::measure::Stop::new(),
            alarms: 2,
            kills: 1,
            asks: 1,
            told: 0,
            wrong: Vec::new(),
            trail: Vec::new(),
        };
        world.add(None, 0, steps);
        world
    }

    fn add(&mut self, process: Option<i32>, memory: usize, steps: &[Step]) -> i32 {
        let id = self.next;
        self.next += 1;
        let thread = Thread {
            process: process.unwrap_or(id),
            memory,
            steps: steps.iter().copied().collect(),
            run: Run::Ready,
            traced: false,
            report: None,
            end: None,
            event_about: 0,
            interrupted: false,
            trapped: None,
            system_call: 0,
        };
        self.threads.insert(id, thread);
        id
    }

    fn stop(&mut self, id: i32, report: Status) {
        let thread = self.threads.get_mut(&id).unwrap();
        if thread.traced {
            (thread.run, thread.report) = (Run::Stopped, Some(report));
        }
    }

    fn end(&mut self, id: i32, report: Status) {
        let process = self.threads[&id].process;
        if self.threads[&id].run == Run::Dead {
            return;
        }
        let thread = self.threads.get_mut(&id).unwrap();
        thread.run = Run::Dead;
        thread.report = None;
        thread.end = thread.traced.then_some(report);
        self.release(id);
        // The end of a process's first thread is told after those of the others.
        let others = self
            .threads
            .iter()
            .any(|(other, one)| *other != process && one.process == process && one.run != Run::Dead);
        for told in [id, process] {
            if told != process || !others {
                let thread = self.threads.get_mut(&told).unwrap();
                thread.report =
                    if thread.run == Run::Dead { thread.end.take().or(thread.report) } else { thread.report };
            }
        }
    }

    /// Who waits for this child goes on.
    fn release(&mut self, child: i32) {
        for thread in self.threads.values_mut().filter(|thread| thread.run == Run::Waits(child)) {
            thread.run = Run::Ready;
        }
    }

    fn is_ready(&self, id: i32) -> bool {
        self.threads[&id].run == Run::Ready
    }

    /// A thread goes one step on.
    fn advance(&mut self, id: i32) {
        let thread = self.threads.get_mut(&id).unwrap();
        // Who is interrupted stops before a signal is told.
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
            |world: &Self, address: u64| world.memories[memory].borrow().get(&address) == Some(&TRAP[0]);
        match step {
            Call(address) => {
                if runs_into(self, address) {
                    self.threads.get_mut(&id).unwrap().trapped = Some(address);
                    return;
                }
                if !self.memories[memory].borrow().contains_key(&address) {
                    self.wrong.push(format!("{id} called what is not mapped: the model is wrong"));
                }
            }
            Load | Unload => {
                let space = Rc::clone(&self.memories[memory]);
                let mapped = space.borrow().contains_key(&LIBRARY);
                if step == Load && !mapped {
                    space.borrow_mut().extend(code_at(LIBRARY));
                } else if step == Unload && mapped {
                    space.borrow_mut().retain(|address, _| *address < LIBRARY);
                }
                let debug_state = PROGRAM + DEBUG_STATE;
                let thread = self.threads.get_mut(&id).unwrap();
                thread.steps.pop_front();
                thread.steps.push_front(Call(debug_state));
                return;
            }
            Fork(steps) | Vfork(steps) | Spawn(steps) => {
                let (process, traced) = (thread.process, thread.traced);
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
                born.traced = traced;
                self.stop(child, Status::Trapped);
                let thread = self.threads.get_mut(&id).unwrap();
                thread.steps.pop_front();
                thread.event_about = child;
                if let Vfork(_) = step {
                    thread.run = Run::Waits(child);
                }
                return self.stop(id, Status::Event(libc::PTRACE_EVENT_FORK));
            }
            Exec(steps) => {
                let process = thread.process;
                let of_process: Vec<i32> = self
                    .threads
                    .iter()
                    .filter(|(_, one)| one.process == process)
                    .map(|(id, _)| *id)
                    .collect();
                let traced = self.threads[&id].traced;
                for other in of_process.into_iter().filter(|other| *other != process) {
                    self.end(other, Status::Exited(0));
                    // The one that became the program is not told to have ended under its own id.
                    if other == id {
                        let thread = self.threads.get_mut(&other).unwrap();
                        (thread.report, thread.end, thread.traced) = (None, None, false);
                    }
                }
                self.memories.push(Rc::new(RefCell::new(code_at(PROGRAM).collect())));
                let memory = self.memories.len() - 1;
                let leader = self.threads.get_mut(&process).unwrap();
                *leader = Thread {
                    process,
                    memory,
                    steps: steps.iter().copied().collect(),
                    run: Run::Ready,
                    traced,
                    report: None,
                    end: None,
                    event_about: id,
                    interrupted: leader.interrupted,
                    trapped: None,
                    system_call: 0,
                };
                self.release(process);
                return self.stop(process, Status::Event(libc::PTRACE_EVENT_EXEC));
            }
            Exit => return self.end(id, Status::Exited(0)),
        }
        self.threads.get_mut(&id).unwrap().steps.pop_front();
    }

    /// What may happen next.
    fn happens(&mut self) -> Option<Happening> {
        let mut all: Vec<Happening> = Vec::new();
        all.extend(
            self.threads.iter().filter(|(_, one)| one.report.is_some()).map(|(id, _)| Happening::Report(*id)),
        );
        all.extend(self.threads.keys().filter(|id| self.is_ready(**id)).map(|id| Happening::Advance(*id)));
        let traced =
            self.threads.values().any(|one| one.traced && (one.run != Run::Dead || one.report.is_some()));
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
            let alive = self.threads.iter().filter(|(id, one)| **id == one.process && one.run != Run::Dead);
            all.extend(alive.map(|(id, _)| Happening::Kill(*id)));
        }
        let choice = self.chooser.choose(all.len());
        Some(all[choice])
    }
}

#[derive(Debug, Clone, Copy)]
enum Happening {
    Report(i32),
    Advance(i32),
    Alarm,
    Ask,
    Kill(i32),
}

struct Model(RefCell<World>);

impl Model {
    fn live<T>(&self, thread: Pid, give: impl FnOnce(&mut Thread) -> T) -> Result<T, Errno> {
        let mut world = self.0.borrow_mut();
        let thread = world.threads.get_mut(&thread.as_raw()).filter(|one| one.traced && one.run != Run::Dead);
        thread.map(give).ok_or(Errno::ESRCH)
    }
}

impl Kernel for Model {
    fn next(&self, _: Duration) -> Result<Option<(Pid, Status)>, Errno> {
        let mut world = self.0.borrow_mut();
        world.told += 1;
        assert!(world.told < 400, "it does not end: {:?}", world.trail);
        loop {
            let Some(happening) = world.happens() else { return Err(Errno::ECHILD) };
            world.trail.push(format!("{happening:?}"));
            match happening {
                Happening::Report(id) => {
                    let thread = world.threads.get_mut(&id).unwrap();
                    let report = thread.report.take().unwrap();
                    if thread.run == Run::Dead {
                        thread.traced = false;
                    }
                    return Ok(Some((Pid::from_raw(id), report)));
                }
                Happening::Advance(id) => world.advance(id),
                Happening::Alarm => {
                    world.alarms = world.alarms.saturating_sub(1);
                    return Ok(None);
                }
                Happening::Ask => {
                    world.asks -= 1;
                    world.stop.ask();
                    return Ok(None);
                }
                Happening::Kill(process) => {
                    world.kills -= 1;
                    let of_process = |one: &Thread| one.process == process;
                    let killed: Vec<i32> =
                        world.threads.iter().filter(|(_, one)| of_process(one)).map(|(id, _)| *id).collect();
                    for id in killed {
                        world.end(id, Status::Killed(libc::SIGKILL));
                    }
                }
            }
        }
    }

    fn take_looked(&self) -> Duration {
        Duration::ZERO
    }

    fn resume(&self, thread: Pid, how: Resume, signal: i32) -> Result<(), Errno> {
        let id = thread.as_raw();
        let child = self.live(thread, |one| {
            if one.run != Run::Stopped || one.report.is_some() {
                return Err(Errno::ESRCH);
            }
            let waits = one.system_call == VFORK && one.event_about != 0;
            one.run = if waits { Run::Waits(one.event_about) } else { Run::Ready };
            (one.system_call, one.event_about) = (0, 0);
            if how == Resume::Detach {
                (one.traced, one.interrupted) = (false, false);
            }
            Ok(one.run)
        })??;
        let mut world = self.0.borrow_mut();
        if let Run::Waits(child) = child {
            let over = world
                .threads
                .get(&child)
                .is_none_or(|one| one.run == Run::Dead || one.memory != world.threads[&id].memory);
            if over {
                world.threads.get_mut(&id).unwrap().run = Run::Ready;
            }
        }
        if signal == libc::SIGTRAP {
            world.wrong.push(format!("{id} was given SIGTRAP"));
        }
        // A signal that was told is gone.
        Ok(())
    }

    fn interrupt(&self, thread: Pid) -> Result<(), Errno> {
        self.live(thread, |one| one.interrupted = true)
    }

    fn seize(&self, thread: Pid) -> Result<(), Errno> {
        let mut world = self.0.borrow_mut();
        match world.threads.get_mut(&thread.as_raw()).filter(|one| one.run != Run::Dead && !one.traced) {
            Some(one) => {
                one.traced = true;
                Ok(())
            }
            None => Err(Errno::EPERM),
        }
    }

    fn event_about(&self, thread: Pid) -> Result<Pid, Errno> {
        self.live(thread, |one| Pid::from_raw(one.event_about))
    }

    fn registers(&self, thread: Pid) -> Result<Registers, Errno> {
        self.live(thread, |one| {
            Registers::standing_at(
                one.trapped.map_or(0, |address| address + TRAP.len() as u64),
                one.system_call,
            )
        })
    }

    fn set_registers(&self, thread: Pid, _: &Registers) -> Result<(), Errno> {
        self.live(thread, |_| ())
    }

    fn go_to(&self, thread: Pid, _: &Registers, address: u64) -> Result<(), Errno> {
        self.live(thread, |one| {
            // Behind the first instruction, the call is done.
            if one.trapped.take().is_some_and(|trapped| trapped != address) {
                one.steps.pop_front();
            }
        })
    }

    fn is_breakpoint(&self, thread: Pid) -> bool {
        self.live(thread, |one| one.trapped.is_some()).unwrap_or(false)
    }

    fn is_pending(&self, thread: Pid, _: i32) -> bool {
        self.live(thread, |one| one.trapped.is_some()).unwrap_or(false)
    }

    fn process_of(&self, thread: Pid) -> Option<Pid> {
        self.0.borrow().threads.get(&thread.as_raw()).map(|one| Pid::from_raw(one.process))
    }

    fn has_ended(&self, thread: Pid) -> bool {
        self.0.borrow().threads.get(&thread.as_raw()).is_none_or(|one| one.run == Run::Dead)
    }

    fn threads(&self, process: Pid) -> BTreeSet<Pid> {
        let world = self.0.borrow();
        let of_process =
            world.threads.iter().filter(|(_, one)| one.process == process.as_raw() && one.run != Run::Dead);
        of_process.map(|(id, _)| Pid::from_raw(*id)).collect()
    }

    fn memory(&self, thread: Pid) -> io::Result<Rc<dyn Memory>> {
        let world = self.0.borrow();
        let one =
            world.threads.get(&thread.as_raw()).filter(|one| one.run != Run::Dead).ok_or(Errno::ESRCH)?;
        Ok(Rc::new(Bytes(Rc::clone(&world.memories[one.memory]))))
    }

    fn force_memory(&self, _: Pid) -> io::Result<Rc<dyn Memory>> {
        Err(Errno::EPERM.into())
    }

    fn close_memory(&self, _: Pid) -> io::Result<()> {
        Err(Errno::EPERM.into())
    }

    fn mappings(&self, thread: Pid) -> io::Result<Vec<Mapping>> {
        let world = self.0.borrow();
        let one =
            world.threads.get(&thread.as_raw()).filter(|one| one.run != Run::Dead).ok_or(Errno::ESRCH)?;
        let space = world.memories[one.memory].borrow();
        let mapping = |base: u64, inode: u64, path: &str| Mapping {
            range: base..base + 0x1000,
            executable: true,
            writable: false,
            offset: 0,
            inode,
            path: path.to_owned(),
        };
        let mapped = [mapping(PROGRAM, 1, "/program"), mapping(LIBRARY, 2, "/library")];
        Ok(mapped.into_iter().filter(|mapping| space.contains_key(&mapping.range.start)).collect())
    }

    fn content(&self, _: Pid, _: &Mapping) -> Option<Vec<u8>> {
        None
    }

    fn auxiliary(&self, _: Pid, _: u64) -> Option<u64> {
        None
    }

    fn processor_time(&self, _: Pid) -> Option<u64> {
        None
    }
}

#[derive(Debug)]
struct Bytes(Rc<RefCell<Space>>);

impl Memory for Bytes {
    fn read_some(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let space = self.0.borrow();
        let known = (address..).map_while(|address| space.get(&address));
        // Pages are whole, though only their beginning is modelled.
        let page = space.contains_key(&(address & !0xfff));
        buffer.fill(0);
        let read = buffer.iter_mut().zip(known).map(|(byte, found)| *byte = *found).count();
        if page {
            Ok(buffer.len())
        } else if read > 0 {
            Ok(read)
        } else {
            Err(Errno::EIO.into())
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let mut space = self.0.borrow_mut();
        for (address, byte) in (address..).zip(bytes) {
            *space.get_mut(&address).ok_or(Errno::EIO)? = *byte;
        }
        Ok(())
    }
}

/// Runs the tracer once; what is wrong then.
fn run(steps: &'static [Step], attach: bool, chooser: Chooser) -> (Chooser, Vec<String>, Vec<String>) {
    let world = World::new(steps, chooser);
    let settings = Settings { stop: world.stop.clone(), ..Settings::default() };
    let excluded = BTreeSet::new();
    let mut modules = Modules::new(&NoFiles, &excluded);
    modules.put("/program", 1, Module::of_code("/program", &CODE, &FUNCTIONS, Some(DEBUG_STATE)));
    modules.put("/library", 2, Module::of_code("/library", &CODE, &FUNCTIONS, None));
    let model = Rc::new(Model(RefCell::new(world)));
    let mut watch = |_| {};
    let first = Pid::from_raw(10);
    {
        let mut tracer = Tracer::new(&settings, Rc::<Model>::clone(&model), modules, &mut watch);
        (tracer.patience, tracer.is_limited) = (Duration::ZERO, false);
        model.seize(first).unwrap();
        if attach {
            tracer.join(first, &BTreeSet::from([first])).unwrap();
        } else {
            // As it is at the stop of exec: it stands still.
            tracer.expect(first).unwrap();
            model.0.borrow_mut().stop(first.as_raw(), Status::Event(libc::PTRACE_EVENT_EXEC));
            model.0.borrow_mut().threads.get_mut(&10).unwrap().event_about = 10;
        }
        if let Err(error) = tracer.run() {
            model.0.borrow_mut().wrong.push(error.to_string());
        }
    }
    let mut world = Rc::into_inner(model).unwrap().0.into_inner();
    // The kernel lets go of what is left; what was let go runs on.
    for thread in world.threads.values_mut() {
        if thread.traced && thread.run == Run::Stopped {
            world.wrong.push("a thread stays stopped".to_owned());
        }
        thread.traced = false;
    }
    for memory in &world.memories {
        if memory.borrow().values().any(|byte| *byte == TRAP[0]) {
            let used = world
                .threads
                .values()
                .any(|one| one.run != Run::Dead && Rc::ptr_eq(&world.memories[one.memory], memory));
            if used {
                world.wrong.push("a breakpoint stays in memory".to_owned());
            }
        }
    }
    for _ in 0..100 {
        for id in world.threads.keys().copied().collect::<Vec<_>>() {
            if world.is_ready(id) {
                world.advance(id);
            }
        }
    }
    (world.chooser, world.wrong, world.trail)
}

/// Tries all runs, up to a number, and as many at random.
fn check(steps: &'static [Step]) {
    const RUNS: usize = 6000;
    for attach in [false, true] {
        let mut chooser = Chooser { taken: Vec::new(), at: 0, random: None };
        for _ in 0..RUNS {
            let (after, wrong, trail) = run(steps, attach, chooser);
            assert!(wrong.is_empty(), "attach {attach}: {wrong:?} after {trail:?}");
            chooser = after;
            if !chooser.turn() {
                break;
            }
        }
        for seed in 0..RUNS as u64 {
            let random = Chooser { taken: Vec::new(), at: 0, random: Some(Generator::new(seed)) };
            let (_, wrong, trail) = run(steps, attach, random);
            assert!(wrong.is_empty(), "attach {attach}, seed {seed}: {wrong:?} after {trail:?}");
        }
    }
}

#[test]
fn functions_are_called() {
    check(&[F, G, F, Exit]);
}

#[test]
fn processes_fork() {
    check(&[F, Fork(&[F, G, Exit]), G, Exit]);
}

#[test]
fn forked_processes_fork() {
    check(&[Fork(&[Fork(&[F, Exit]), G]), F]);
}

#[test]
fn threads_are_made() {
    check(&[Spawn(&[F, G]), F, G]);
}

#[test]
fn threads_fork() {
    check(&[Spawn(&[Fork(&[F]), G]), F]);
}

#[test]
fn programs_are_spawned() {
    check(&[Vfork(&[F, Exec(&[F, G])]), G, F]);
}

#[test]
fn a_thread_becomes_a_program() {
    check(&[Spawn(&[Exec(&[F, G])]), F, G]);
}

#[test]
fn libraries_come_and_go() {
    check(&[F, Load, L, Unload, G, Load, L]);
}

#[test]
fn a_library_is_loaded_while_others_fork() {
    check(&[Spawn(&[Load, L]), Fork(&[F, G]), F]);
}
