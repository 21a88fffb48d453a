// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the tracer on a model of an operating system, with every order of events.
//!
//! Threads run small programs. At each step the model chooses the next event: a thread makes a step, a report reaches
//! the tracer, an alarm rings, a process is killed, or the recording ends. All choices are tried, one run each, up to a
//! limit on the number of runs; further runs choose at random with a seed. In every run, no thread executes a
//! breakpoint that nobody handles, no thread stays stopped, and no breakpoint stays in memory.

mod world;

use super::super::calls::Requests;
use super::super::modules::{KnownBlocks, Module, ModuleLimits};
use super::*;
use crate::BlockCoverage;
use crate::tracing::join::Joining;
use crate::tracing::machine::{Registers, TRAP};
use crate::tracing::mappings::ProcessMapping;
use crate::tracing::memory::TraceeMemory;
use sediment_core::binary::NoFiles;
use sediment_core::binary::gcc_block_map::Stretch;
use sediment_core::random::Generator;
use std::cell::RefCell;
use std::result::Result;
use world::ThreadStep::{self, Exec, Exit, Fork, Load, Spawn, Unload, Vfork};
use world::{
    CODE, Chooser, DEBUG_STATE, F, FUNCTIONS, G, Happening, L, LIBRARY, PROGRAM, RunState, VFORK, World,
    WorldMemory as Bytewise, WorldThread,
};

struct Model(RefCell<World>);

impl Model {
    fn live<T>(&self, thread: Pid, give: impl FnOnce(&mut WorldThread) -> T) -> Result<T, Errno> {
        let mut world = self.0.borrow_mut();
        let thread =
            world.threads.get_mut(&thread.as_raw()).filter(|one| one.traced && one.run != RunState::Dead);
        thread.map(give).ok_or(Errno::ESRCH)
    }
}

impl Kernel for Model {
    fn next(&self, _: Duration) -> Result<Option<(Pid, Status)>, Errno> {
        let mut world = self.0.borrow_mut();
        world.look_at_writes();
        world.told += 1;
        assert!(world.told < 400, "it does not end: {:?}", world.trail);
        loop {
            let Some(happening) = world.happens() else { return Err(Errno::ECHILD) };
            world.trail.push(happening);
            match happening {
                Happening::Report(id) => {
                    let thread = world.threads.get_mut(&id).unwrap();
                    let report = thread.report.take().unwrap();
                    if thread.run == RunState::Dead {
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
                    let of_process = |one: &WorldThread| one.process == process;
                    let killed: Vec<i32> =
                        world.threads.iter().filter(|(_, one)| of_process(one)).map(|(id, _)| *id).collect();
                    for id in killed {
                        world.end(id, Status::Killed(libc::SIGKILL));
                    }
                }
            }
        }
    }

    /// One millisecond per event.
    fn now(&self) -> Instant {
        let world = self.0.borrow();
        world.begun + Duration::from_millis(u64::from(world.told))
    }

    fn take_looked(&self) -> Duration {
        Duration::ZERO
    }

    fn resume(&self, thread: Pid, how: Resume, signal: i32) -> Result<(), Errno> {
        let id = thread.as_raw();
        self.0.borrow_mut().look_at_writes();
        let child = self.live(thread, |one| {
            if one.run != RunState::Stopped || one.report.is_some() {
                return Err(Errno::ESRCH);
            }
            let waits = one.system_call == VFORK && one.event_about != 0;
            one.run = if waits { RunState::Waits(one.event_about) } else { RunState::Ready };
            (one.system_call, one.event_about) = (0, 0);
            if how == Resume::Detach {
                (one.traced, one.interrupted) = (false, false);
            }
            Ok(one.run)
        })??;
        let mut world = self.0.borrow_mut();
        if let RunState::Waits(child) = child {
            let over = world
                .threads
                .get(&child)
                .is_none_or(|one| one.run == RunState::Dead || one.memory != world.threads[&id].memory);
            if over {
                world.threads.get_mut(&id).unwrap().run = RunState::Ready;
            }
        }
        if signal == libc::SIGTRAP {
            world.wrong.push(format!("{id} was given SIGTRAP"));
        }
        // A reported signal is gone.
        Ok(())
    }

    fn interrupt(&self, thread: Pid) -> Result<(), Errno> {
        self.live(thread, |one| one.interrupted = true)
    }

    fn seize(&self, thread: Pid) -> Result<(), Errno> {
        let mut world = self.0.borrow_mut();
        let allowed = world.refuses != Some(thread.as_raw());
        match world
            .threads
            .get_mut(&thread.as_raw())
            .filter(|one| allowed && one.run != RunState::Dead && !one.traced)
        {
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

    fn end_of(&self, _: Pid) -> Result<Status, Errno> {
        Err(Errno::ESRCH)
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
        self.0.borrow_mut().look_at_writes();
        self.live(thread, |one| {
            // After its first instruction, the call is done.
            if one.trapped.take().is_some_and(|trapped| trapped != address) {
                one.steps.pop_front();
            }
        })
    }

    fn call_again(&self, _: Pid) {}

    fn leave_call(&self, _: Pid) {}

    fn step(&self, _: Pid) -> Result<Stepped, Errno> {
        panic!("no rates are modelled")
    }

    fn has_stepped(&self, _: Pid) -> bool {
        false
    }

    fn is_breakpoint(&self, thread: Pid) -> bool {
        self.live(thread, |one| one.trapped.is_some()).unwrap_or(false)
    }

    fn ignores(&self, _: Pid, _: i32) -> bool {
        false
    }

    fn use_of_traps(&self, _: Pid) -> Option<&'static str> {
        None
    }

    fn blocks_all_but_traps(&self, _: Pid) -> bool {
        false
    }

    fn finds_no_leaks(&self, _: Pid) -> bool {
        true
    }

    fn block_traps_again(&self, _: Pid) {}

    fn is_pending(&self, thread: Pid, _: i32) -> bool {
        self.live(thread, |one| one.trapped.is_some()).unwrap_or(false)
    }

    fn process_of(&self, thread: Pid) -> Option<Pid> {
        self.0.borrow().threads.get(&thread.as_raw()).map(|one| Pid::from_raw(one.process))
    }

    fn is_ours(&self, thread: Pid) -> bool {
        self.0.borrow().threads.get(&thread.as_raw()).is_some_and(|one| one.traced)
    }

    /// Modelled children stop when they are created.
    fn traces_anyone(&self) -> bool {
        false
    }

    fn has_ended(&self, thread: Pid) -> bool {
        self.0.borrow().threads.get(&thread.as_raw()).is_none_or(|one| one.run == RunState::Dead)
    }

    fn threads(&self, process: Pid) -> BTreeSet<Pid> {
        let world = self.0.borrow();
        let of_process = world
            .threads
            .iter()
            .filter(|(_, one)| one.process == process.as_raw() && one.run != RunState::Dead);
        of_process.map(|(id, _)| Pid::from_raw(*id)).collect()
    }

    fn memory(&self, thread: Pid) -> io::Result<Rc<dyn TraceeMemory>> {
        let world = self.0.borrow();
        let one = world
            .threads
            .get(&thread.as_raw())
            .filter(|one| one.run != RunState::Dead)
            .ok_or(Errno::ESRCH)?;
        Ok(Rc::new(BytewiseMemory(Rc::clone(&world.memories[one.memory]))))
    }

    fn force_memory(&self, _: Pid) -> io::Result<Rc<dyn TraceeMemory>> {
        Err(Errno::EPERM.into())
    }

    fn close_memory(&self, _: Pid) -> io::Result<()> {
        Err(Errno::EPERM.into())
    }

    fn mappings(&self, thread: Pid) -> io::Result<Vec<ProcessMapping>> {
        let world = self.0.borrow();
        let one = world
            .threads
            .get(&thread.as_raw())
            .filter(|one| one.run != RunState::Dead)
            .ok_or(Errno::ESRCH)?;
        let space = world.memories[one.memory].borrow();
        let mapping = |base: u64, inode: u64, path: &str| ProcessMapping {
            range: base..base + 0x1000,
            executable: true,
            writable: false,
            offset: 0,
            inode,
            path: path.to_owned(),
        };
        let mapped = [mapping(PROGRAM, 1, "/program"), mapping(LIBRARY, 2, "/library")];
        Ok(mapped.into_iter().filter(|mapping| space.is_mapped(mapping.range.start)).collect())
    }

    fn all_mappings(&self, thread: Pid) -> io::Result<Vec<ProcessMapping>> {
        self.mappings(thread)
    }

    fn mapping_at(&self, thread: Pid, address: u64) -> io::Result<Option<ProcessMapping>> {
        Ok(self.mappings(thread)?.into_iter().find(|mapping| mapping.range.contains(&address)))
    }

    fn content(&self, _: Pid, _: &ProcessMapping) -> Option<Vec<u8>> {
        None
    }

    fn auxiliary(&self, _: Pid, _: u64) -> Option<u64> {
        None
    }

    fn processor_time(&self, _: Pid) -> Option<u64> {
        None
    }

    fn memory_left(&self, _: Pid) -> Option<u64> {
        None
    }

    fn pair(&self, thread: Pid) -> Result<(), Errno> {
        assert_eq!(self.paired(), None, "one thread at a time");
        self.live(thread, |one| one.is_paired = true)?;
        let mut world = self.0.borrow_mut();
        (world.paired, world.pairs) = (Some(thread), world.pairs + 1);
        Ok(())
    }

    fn paired(&self) -> Option<Pid> {
        self.0.borrow().paired
    }

    fn part(&self) {
        let paired = self.0.borrow_mut().paired.take();
        if let Some(thread) = paired {
            self.widen(thread);
        }
    }

    fn widen(&self, thread: Pid) {
        if let Some(thread) = self.0.borrow_mut().threads.get_mut(&thread.as_raw()) {
            thread.is_paired = false;
        }
    }

    fn make_calls(&self, _: Pid, _: u64, _: &mut Requests<'_>) -> io::Result<()> {
        Err(io::Error::other("modelled processes have no trampolines"))
    }

    fn may_trace_everything(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct BytewiseMemory(Rc<RefCell<Bytewise>>);

impl TraceeMemory for BytewiseMemory {
    fn read_some(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let space = self.0.borrow();
        let known = (address..).map_while(|address| space.get(address));
        // Pages are complete, although only their beginning is modelled.
        let page = space.is_mapped(address & !0xfff);
        buffer.fill(0);
        let read = buffer.iter_mut().zip(known).map(|(byte, found)| *byte = found).count();
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
            *space.get_mut(address).ok_or(Errno::EIO)? = *byte;
            space.written.push(address);
        }
        Ok(())
    }
}

/// Way in which the tracer meets a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The tracer starts it.
    Begun,
    /// It already runs.
    Attached,
    /// It already runs, and one of its threads may not be traced.
    AttachedInPart,
}

/// Kind of the entry at `G`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    /// A function.
    Function,
    /// A block of `F`, which gets a breakpoint once `F` has run.
    Block,
}

/// Makes the module of the program or of its library.
fn module(path: &str, debug_state: Option<u64>, second: Second) -> Module {
    if second == Second::Function {
        return Module::of_code(path, &CODE, &FUNCTIONS, debug_state).telling_processors_at(FUNCTIONS[1]);
    }
    let mut module = Module::of_code(path, &CODE, &FUNCTIONS[..1], debug_state);
    let blocks = FUNCTIONS.map(|address| Stretch { address, size: 0x10, block: Some(1) });
    assert_eq!(module.add_blocks(vec![blocks.to_vec()]), 0);
    module
}

thread_local! {
    /// Number of pairs in the last run.
    static PAIRS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Time that the tracer waits for all threads of an address space to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    /// For some events.
    Short,
    /// As long as it takes. Nothing in the model stops such a wait.
    Endless,
}

/// True if these steps, or steps of children, change mappings.
fn maps(steps: &[ThreadStep]) -> bool {
    steps.iter().any(|step| match step {
        Load | Unload => true,
        Fork(steps) | Vfork(steps) | Spawn(steps) | Exec(steps) => maps(steps),
        _ => false,
    })
}

/// True if a thread waits in the kernel for a child.
fn waits(steps: &[ThreadStep]) -> bool {
    steps.iter().any(|step| match step {
        Vfork(_) => true,
        Fork(steps) | Spawn(steps) | Exec(steps) => waits(steps),
        _ => false,
    })
}

/// Runs the tracer once. Returns the errors found.
fn run(
    steps: &'static [ThreadStep],
    (start, second, patience): (Start, Second, Patience),
    chooser: Chooser,
) -> (Chooser, Vec<String>, Vec<Happening>) {
    let mut world = World::new(steps, chooser);
    if start == Start::AttachedInPart {
        world.refuses = Some(world.add(Some(10), 0, steps));
    }
    let blocks = if second == Second::Block { BlockCoverage::Always } else { BlockCoverage::Never };
    let settings = RecordSettings {
        stop: world.stop.clone(),
        blocks,
        share_processor: true,
        ..RecordSettings::default()
    };
    let wanted = ModuleLimits {
        excluded: &settings.exclude,
        recorded: &settings.recorded,
        blocks: KnownBlocks::None,
        trampolines: false,
    };
    let mut modules = Modules::new(&NoFiles, wanted);
    modules.put("/program", 1, module("/program", Some(DEBUG_STATE), second));
    modules.put("/library", 2, module("/library", None, second));
    // Blocks get breakpoints when their function has run, libraries when they are mapped.
    world.is_calm = patience == Patience::Endless && second == Second::Function && !maps(steps);
    let model = Rc::new(Model(RefCell::new(world)));
    let mut watch = |_| {};
    let first = Pid::from_raw(10);
    {
        let mut tracer = Tracer::new(&settings, Rc::<Model>::clone(&model), modules, &mut watch);
        tracer.orphan_timeout = Duration::ZERO;
        tracer.halt_timeout = match patience {
            Patience::None => Duration::ZERO,
            Patience::Short => Duration::from_millis(4),
            Patience::Endless => Duration::MAX,
        };
        tracer.pairing = Pairing::after(1);
        model.seize(first).unwrap();
        if start != Start::Begun {
            tracer.join(first, &BTreeSet::from([first])).unwrap();
        } else {
            // The process is at the stop of exec.
            tracer.expect(first).unwrap();
            model.0.borrow_mut().stop(first.as_raw(), Status::Event(libc::PTRACE_EVENT_EXEC));
            model.0.borrow_mut().threads.get_mut(&10).unwrap().event_about = 10;
        }
        if let Err(error) = tracer.run() {
            model.0.borrow_mut().wrong.push(error.to_string());
        }
    }
    let mut world = Rc::into_inner(model).unwrap().0.into_inner();
    PAIRS.set(world.pairs);
    // The kernel detaches the remaining threads; detached threads run on.
    for thread in world.threads.values_mut() {
        if thread.traced && thread.run == RunState::Stopped {
            world.wrong.push("a thread stays stopped".to_owned());
        }
        thread.traced = false;
        if thread.is_paired && thread.run != RunState::Dead {
            world.wrong.push("a thread stays on the tracer's processor".to_owned());
        }
    }
    for memory in &world.memories {
        if memory.borrow().has_breakpoint() {
            let used = world
                .threads
                .values()
                .any(|one| one.run != RunState::Dead && Rc::ptr_eq(&world.memories[one.memory], memory));
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

/// Tries all runs up to a number, then as many random ones. With SEDIMENT_LONG, six times as many.
fn check(steps: &'static [ThreadStep]) {
    check_from(&[Start::Begun, Start::Attached], steps);
}

fn check_from(starts: &[Start], steps: &'static [ThreadStep]) {
    let runs = if std::env::var_os("SEDIMENT_LONG").is_some() { 6000 } else { 1000 };
    let patiences = [Patience::None, Patience::Short, Patience::Endless];
    let patiences = &patiences[..if waits(steps) { 2 } else { 3 }];
    let of_start = |start: &Start| [(*start, Second::Function), (*start, Second::Block)];
    let ways = starts.iter().flat_map(of_start);
    let ways =
        ways.flat_map(|(start, second)| patiences.iter().map(move |patience| (start, second, *patience)));
    for start in ways {
        let mut chooser = Chooser { taken: Vec::new(), at: 0, random: None };
        for _ in 0..runs {
            let (after, wrong, trail) = run(steps, start, chooser);
            assert!(wrong.is_empty(), "{start:?}: {wrong:?} after {trail:?}");
            chooser = after;
            if !chooser.turn() {
                break;
            }
        }
        for seed in 0..runs as u64 {
            let random = Chooser { taken: Vec::new(), at: 0, random: Some(Generator::new(seed)) };
            let (_, wrong, trail) = run(steps, start, random);
            assert!(wrong.is_empty(), "{start:?}, seed {seed}: {wrong:?} after {trail:?}");
        }
    }
}

#[test]
fn functions_are_called() {
    check(&[F, G, F, Exit]);
}

#[test]
fn a_program_that_was_started_shares_the_processor() {
    let pairs = |start| {
        let chooser = Chooser { taken: Vec::new(), at: 0, random: None };
        let (_, wrong, _) = run(&[F, F, Exit], (start, Second::Function, Patience::Endless), chooser);
        assert!(wrong.is_empty(), "{wrong:?}");
        PAIRS.take()
    };
    assert_eq!((pairs(Start::Begun), pairs(Start::Attached)), (1, 0));
}

#[test]
fn a_thread_that_may_not_be_traced_meets_no_breakpoint() {
    check_from(&[Start::AttachedInPart], &[F, G, Fork(&[F]), F, Exit]);
    check_from(&[Start::AttachedInPart], &[F, Spawn(&[G, F]), G]);
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
