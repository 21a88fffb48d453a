// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attaches to running processes, and restores them at the end. Stubs are made before a process stops, and are removed
//! when no thread is in them any longer.

use super::code::CodeState;
use super::entrance::Moment;
use super::filtered;
use super::image::ProgramImage;
use super::injected;
use super::machine;
use super::sites::Trait;
use super::standstill::Standstill;
use super::supervisor::{FollowedThread, Left, Supervisor, TICK, program_of};
use super::switch::{Switched, SwitchedSites};
use crate::tracing::filters;
use crate::tracing::join::Joining;
use crate::tracing::machine::Registers;
use crate::tracing::mappings::{ProcessMapping, is_filtered, running_thread};
use crate::tracing::system::{self, Status};
use nix::unistd::Pid;
use sediment_core::skipped::{Reason, Skipped};
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// Time limit for the threads of a process to stop, and for all attempts: a thread that has called vfork stops when its
/// child has continued.
const STOPPING: Duration = Duration::from_millis(50);
const ATTEMPTS: Duration = Duration::from_secs(5);

impl Joining for Supervisor<'_> {
    fn prepare(&mut self, process: Pid) -> io::Result<()> {
        /// A process cannot be read while it becomes another program.
        const TRIES: u32 = 10;
        const AGAIN: Duration = Duration::from_millis(20);
        let refused = |left: Left| {
            let (Left::Followed(reason) | Left::Free(reason)) = left;
            io::Error::other(format!("not recorded: {reason}"))
        };
        let thread = || running_thread(process).unwrap_or(process);
        let mut planned = self.plan_image(thread());
        for _ in 0..TRIES {
            if !matches!(planned, Err(Left::Followed(Reason::UnreadableProgram))) {
                break;
            }
            std::thread::sleep(AGAIN);
            planned = self.plan_image(thread());
        }
        let (mut image, mapped) = planned.map_err(refused)?;
        image.was_running = true;
        let traits = image.add_files(thread(), &mapped, &mut self.common)?;
        if traits.contains(&Trait::UsesGs) {
            return Err(refused(Left::Followed(Reason::OccupiedRegister)));
        }
        self.prepared.insert(process, image);
        Ok(())
    }

    fn join(&mut self, process: Pid, threads: &BTreeSet<Pid>) -> io::Result<()> {
        for thread in threads {
            self.threads.insert(*thread, FollowedThread::unrecorded(process));
        }
        if !self.prepared.contains_key(&process) {
            self.prepare(process)?;
        }
        let image =
            self.prepared.remove(&process).ok_or_else(|| io::Error::other("the process was not prepared"))?;
        let (begun, mut standing) = self.halt_between_signals(process);
        let joined = self.take_on(process, image, &mut standing);
        self.proceed(&standing);
        self.changing += begun.elapsed();
        joined?;
        self.watched.insert(process);
        self.programs += 1;
        Ok(())
    }

    /// Follows these threads without recording them, until they stop at the end of the recording.
    fn leave(&mut self, process: Pid, threads: &BTreeSet<Pid>) {
        for thread in threads {
            self.threads.entry(*thread).or_insert_with(|| FollowedThread::unrecorded(process));
        }
    }

    fn skipped(&mut self) -> &mut Skipped {
        &mut self.common.skipped
    }
}

impl Supervisor<'_> {
    /// Stops all threads of a process, at least one of them not at a signal, and returns the time of the stop. After
    /// many attempts, some threads may still run.
    fn halt_between_signals(&mut self, process: Pid) -> (Instant, Standstill) {
        const PAUSE: Duration = Duration::from_millis(5);
        let begun = Instant::now();
        loop {
            let halted = Instant::now();
            let standing = self.halt(Some(process), STOPPING);
            let is_at_rest = standing.stopped.values().any(|status| *status == Status::Trapped);
            if is_at_rest && self.all_stand(process, &standing) || begun.elapsed() > ATTEMPTS {
                return (halted, standing);
            }
            self.proceed(&standing);
            self.serve(PAUSE);
        }
    }

    /// Handles stops of threads during this time: a thread that gets a signal stays stopped until it is examined.
    fn serve(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && self.alarm.ring(TICK).is_ok() {
            match system::wait() {
                Ok(Some((thread, status))) => self.handle(thread, status),
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }

    fn all_stand(&self, process: Pid, standing: &Standstill) -> bool {
        let mut own = self.threads.iter().filter(|(_, found)| found.process == process && !found.is_ending);
        own.all(|(id, _)| standing.stopped.contains_key(id))
    }

    /// Makes a stopped process map the recorder's memory, gives each of its threads a block, and changes its code.
    fn take_on(
        &mut self,
        process: Pid,
        mut image: ProgramImage,
        standing: &mut Standstill,
    ) -> io::Result<()> {
        let is_recorded = |found: &FollowedThread| found.process == process && found.place.is_some();
        if self.threads.values().any(is_recorded) {
            // It has become another program meanwhile, which was entered at its beginning.
            return Ok(());
        }
        if !self.all_stand(process, standing) || self.sharing.contains(&process) {
            return Err(io::Error::other("the threads of the process do not stop"));
        }
        let running: Vec<Pid> = standing.stopped.keys().copied().collect();
        let any = *running.first().ok_or_else(|| io::Error::other("the process has ended"))?;
        if shares_memory(process) {
            return Err(io::Error::other("it shares its memory with another process"));
        }
        self.open(process);
        let opened = self.opened_of(any, process)?;
        let mapped = opened.mappings()?;
        for thread in &running {
            if machine::threads::is_occupied(*thread)? {
                return Err(io::Error::other(format!("not recorded: {}", Reason::OccupiedRegister)));
            }
        }
        if !running
            .iter()
            .all(|thread| filters::allow(*thread, &filtered::calls_of_running(&image.regions())))
        {
            return Err(io::Error::other(
                "a seccomp filter of the process forbids to map the recorder's memory",
            ));
        }
        self.common.shared.show_to(process)?;
        let path = self.common.shared.path();
        let regions = image.regions();
        let code =
            |place, go_on| machine::entrance::mapping((&path, &regions), Moment::Running, place, go_on);
        if !self.run_in(process, standing, &mapped, &code)? {
            return Err(io::Error::other("the process cannot map the recorder's memory"));
        }
        let number = self.images.len();
        for thread in running {
            let block = image.take_block(&self.common.shared)?;
            image.set_counters((thread, &opened.memory), block, false)?;
            image.threads += 1;
            self.threads.insert(thread, FollowedThread::of(process, Some((number, block))));
        }
        // Adds the files that were mapped since it was prepared.
        image.attend((any, &opened.memory), &mapped, &mut self.common)?;
        self.images.push(Some(image));
        self.switch(process, standing, (CodeState::ToStubs, SwitchedSites::All));
        Ok(())
    }

    /// Makes a thread of a stopped process run code, and then continue at its old place. Returns true if its system
    /// calls have succeeded.
    fn run_in(
        &mut self,
        process: Pid,
        standing: &mut Standstill,
        mapped: &[ProcessMapping],
        code: &dyn Fn(u64, u64) -> Vec<u8>,
    ) -> io::Result<bool> {
        let trapped = standing.stopped.iter().filter(|(_, status)| **status == Status::Trapped);
        let own = trapped
            .map(|(id, _)| *id)
            .filter(|id| self.threads.get(id).is_some_and(|found| found.process == process));
        // A thread outside of system calls comes first, because nothing has to be called again.
        let any = standing
            .stopped
            .keys()
            .find(|id| self.threads.get(id).is_some_and(|found| found.process == process));
        let any = any.ok_or_else(|| io::Error::other("the process has ended"))?;
        let opened = self.opened_of(*any, process)?;
        let mut own: Vec<(Pid, Registers)> = own
            .filter(|id| !injected::is_in_sequence(*id, &opened.memory))
            .filter_map(|id| Some((id, Registers::of(id).ok()?)))
            .collect();
        own.sort_by_key(|(id, registers)| (registers.loses_by_leaving(&opened.memory), *id));
        let mut chosen = Err("no thread of the process can run the call");
        for (id, registers) in own {
            let after = registers.calling_by_itself(is_filtered(id));
            chosen = machine::threads::way_back(id, after, mapped).map(|way_back| (id, after, way_back));
            if chosen.is_ok() {
                break;
            }
        }
        let (thread, after, way_back) =
            chosen.map_err(|why| io::Error::new(io::ErrorKind::WouldBlock, why))?;
        let code = |place| code(place, after.program_counter());
        let injected =
            injected::run((thread, &opened.memory), mapped, (&code, Moment::Running), (after, way_back))?;
        let mut signals = injected.signals.into_iter();
        if let Some(first) = signals.next() {
            standing.stopped.insert(thread, Status::Signal(first));
        }
        signals.for_each(|signal| system::send(process, thread, signal));
        Ok(injected.succeeded)
    }

    /// Unmaps the recorder's memory from the attached processes, whose code was restored. Parts that a thread still
    /// executes stay.
    pub(super) fn unmap(&mut self, standing: &mut Standstill) {
        const TRIES: u32 = 45;
        const MOMENT: Duration = Duration::from_millis(2);
        let attached = |found: &&FollowedThread| {
            let image = found.place.and_then(|(image, _)| self.images[image].as_ref());
            image.is_some_and(|image| image.was_running)
        };
        let processes: BTreeSet<Pid> =
            self.threads.values().filter(attached).map(|found| found.process).collect();
        for process in processes {
            let mut done = self.unmap_from(process, standing);
            for attempt in 1..=TRIES {
                if !may_succeed_later(&done) {
                    break;
                }
                // A thread leaves a stub after a few instructions, if it gets a processor.
                let own =
                    standing.part(|id| self.threads.get(&id).is_some_and(|found| found.process == process));
                self.proceed(&own);
                self.serve(MOMENT * attempt);
                standing.stopped.extend(self.halt_between_signals(process).1.stopped);
                done = self.unmap_from(process, standing);
            }
            let why = match done {
                Ok(true) => continue,
                Ok(false) => "a thread is still in it".to_owned(),
                Err(error) => error.to_string(),
            };
            self.common.skipped.add(Reason::LeftStubs, 0, format!("{}: {why}", program_of(process)));
        }
    }

    /// Unmaps the recorder's memory from a stopped process; false if a thread is still in it.
    fn unmap_from(&mut self, process: Pid, standing: &mut Standstill) -> io::Result<bool> {
        let own = self.threads.iter().filter(|(_, found)| found.process == process && !found.is_ending);
        let own: Vec<(Pid, Option<(usize, u32)>)> = own.map(|(id, found)| (*id, found.place)).collect();
        let Some((image, _)) = own.iter().find_map(|(_, place)| *place) else { return Ok(true) };
        let Some(image) = &self.images[image] else { return Ok(true) };
        match self.switch(process, standing, (CodeState::ToOriginal, SwitchedSites::All)) {
            Switched::Whole => {}
            Switched::InPart => return Ok(false),
            Switched::Running => return Err(io::Error::other("the threads of the process do not stop")),
            Switched::ButForChanges => return Err(io::Error::other("the code of the process was changed")),
            Switched::Failed => return Err(io::Error::other("cannot write to the memory of the process")),
        }
        let regions = image.regions();
        let calls = filtered::calls_of_running(&regions);
        let may = |id: &Pid| standing.stopped.contains_key(id) && filters::allow(*id, &calls);
        if self.sharing.contains(&process) || !own.iter().all(|(id, _)| may(id)) {
            return Err(io::Error::other(
                "the process shares its memory, or a seccomp filter forbids to unmap it",
            ));
        }
        let Some((any, _)) = own.first() else { return Ok(true) };
        let opened = self.opened_of(*any, process)?;
        let mapped = opened.mappings()?;
        let mut is_inside = false;
        for (thread, _) in &own {
            if image.is_in_stubs(*thread, (&opened.memory, &mapped))? {
                is_inside = true;
            } else {
                // Its code is restored, so it comes to no stub.
                machine::threads::take_counters(*thread)?;
            }
        }
        if is_inside {
            return Ok(false);
        }
        self.run_in(process, standing, &mapped, &|place, go_on| {
            machine::entrance::unmapping(&regions, place, go_on)
        })
    }
}

/// True if memory could not be unmapped because of what threads did at this moment.
fn may_succeed_later(unmapped: &io::Result<bool>) -> bool {
    match unmapped {
        Ok(done) => !done,
        // No thread could run the code.
        Err(error) => cfg!(target_arch = "aarch64") && error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// True if another process runs in the memory of this one. Its threads would not find their counters.
fn shares_memory(process: Pid) -> bool {
    // A thread that has ended has no memory.
    let Some(thread) = running_thread(process) else { return false };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
    ids.filter(|id| *id != process).any(|other| system::have_same_memory(thread, other))
}
