// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface between the tracer and the operating system, implemented for the Linux kernel. Tests implement a
//! model.

use super::calls::{Requests, SystemCaller};
use super::pairing::PairedThread;
use super::signals;
use super::waiting::StopWait;
use crate::tracing::machine::Registers;
use crate::tracing::mappings::{self, ProcessMapping};
use crate::tracing::memory::{ProcessMemory, TracedMemory, TraceeMemory};
use crate::tracing::system::{self, Alarm, Resume, Status};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Longest wait for one instruction of a thread. If the instruction reads memory that another thread must serve, and
/// that thread is stopped, it never ends.
const LONGEST_STEP: Duration = Duration::from_millis(200);

/// Outcome of executing one instruction in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stepped {
    /// The thread executed it.
    Done,
    /// The thread reported this status first.
    Instead(Status),
    /// The thread did not execute it in time and was interrupted. Has the status that it then reported, if it has so
    /// far.
    Late(Option<Status>),
}

/// Reports of an operating system about traced threads, and requests for them. The error for an unknown or ended thread
/// is [`Errno::ESRCH`].
pub(super) trait Kernel {
    /// Waits for the next report of any traced thread, at most this long. Fails with [`Errno::ECHILD`] if none is
    /// traced.
    fn next(&self, at_most: Duration) -> Result<Option<(Pid, Status)>, Errno>;

    /// Current time.
    fn now(&self) -> Instant;

    /// Returns the time spent polling for reports since the last call.
    fn take_looked(&self) -> Duration;

    /// Resumes a stopped thread, and delivers a signal (0 for none).
    fn resume(&self, thread: Pid, how: Resume, signal: i32) -> Result<(), Errno>;

    /// Stops a running thread.
    fn interrupt(&self, thread: Pid) -> Result<(), Errno>;

    /// Attaches to a running thread of another process, which runs on.
    fn seize(&self, thread: Pid) -> Result<(), Errno>;

    /// Returns the thread that is the subject of the event that stopped this one.
    fn event_about(&self, thread: Pid) -> Result<Pid, Errno>;

    /// Returns how a thread ends that is stopped at its exit event: by an exit code or by a signal.
    fn end_of(&self, thread: Pid) -> Result<Status, Errno>;

    /// Registers of a stopped thread.
    fn registers(&self, thread: Pid) -> Result<Registers, Errno>;

    /// Sets the registers of a stopped thread.
    fn set_registers(&self, thread: Pid, registers: &Registers) -> Result<(), Errno>;

    /// Sets the program counter of a stopped thread, and no other register. `registers` are its current ones.
    fn go_to(&self, thread: Pid, registers: &Registers, address: u64) -> Result<(), Errno>;

    /// Restarts the system call of a thread that stopped at a signal or was interrupted, if tracing alone ended the
    /// call.
    fn call_again(&self, thread: Pid);

    /// Does not restart the system call of a thread whose process a signal stops.
    fn leave_call(&self, thread: Pid);

    /// Makes a stopped thread execute one instruction, and waits briefly for it.
    fn step(&self, thread: Pid) -> Result<Stepped, Errno>;

    /// True if a stopped thread has just executed one instruction.
    fn has_stepped(&self, thread: Pid) -> bool;

    /// True if a breakpoint instruction raised the SIGTRAP that stopped this thread; false if it was sent.
    fn is_breakpoint(&self, thread: Pid) -> bool;

    /// True if the process of a thread ignores this signal.
    fn ignores(&self, thread: Pid, signal: i32) -> bool;

    /// Returns the way in which a thread or its process uses SIGTRAP, if breakpoints would break that.
    fn use_of_traps(&self, thread: Pid) -> Option<&'static str>;

    /// True if a stopped thread blocks all signals but SIGTRAP.
    fn blocks_all_but_traps(&self, thread: Pid) -> bool;

    /// True if the environment at the start of a process disables its search for memory leaks.
    fn finds_no_leaks(&self, process: Pid) -> bool;

    /// Makes a stopped thread block SIGTRAP again, as before it hit a breakpoint, if it blocks all other signals.
    fn block_traps_again(&self, thread: Pid);

    /// True if this signal is pending for this thread only.
    fn is_pending(&self, thread: Pid, signal: i32) -> bool;

    /// The process of a thread.
    fn process_of(&self, thread: Pid) -> Option<Pid>;

    /// True if this thread is traced by us.
    fn is_ours(&self, thread: Pid) -> bool;

    /// True if we trace any thread that has not ended, including threads that have not stopped since they were created.
    fn traces_anyone(&self) -> bool;

    /// True if a thread has ended, or is about to and cannot be stopped any more.
    fn has_ended(&self, thread: Pid) -> bool;

    /// The threads of a process.
    fn threads(&self, process: Pid) -> BTreeSet<Pid>;

    /// Opens the memory of a thread.
    fn memory(&self, thread: Pid) -> io::Result<Rc<dyn TraceeMemory>>;

    /// Opens the memory of a stopped new thread whose process may not be read, and makes that process readable until
    /// [`Self::close_memory`].
    fn force_memory(&self, thread: Pid) -> io::Result<Rc<dyn TraceeMemory>>;

    /// Makes the process unreadable again.
    fn close_memory(&self, thread: Pid) -> io::Result<()>;

    /// Files that a thread has mapped, by address.
    fn mappings(&self, thread: Pid) -> io::Result<Vec<ProcessMapping>>;

    /// All mappings of a thread, by address.
    fn all_mappings(&self, thread: Pid) -> io::Result<Vec<ProcessMapping>>;

    /// The file that a thread has mapped at this address.
    fn mapping_at(&self, thread: Pid, address: u64) -> io::Result<Option<ProcessMapping>>;

    /// Content of a mapped file; empty if a traced program may serve the file.
    fn content(&self, thread: Pid, mapping: &ProcessMapping) -> Option<Vec<u8>>;

    /// A value of the auxiliary vector.
    fn auxiliary(&self, process: Pid, key: u64) -> Option<u64>;

    /// Processor time of a process in nanoseconds.
    fn processor_time(&self, process: Pid) -> Option<u64>;

    /// Bytes of memory that the control groups of a process have left; `None` without a limit.
    fn memory_left(&self, process: Pid) -> Option<u64>;

    /// Moves a stopped thread to the recorder's processor until [`Self::part`]. Fails if that is not allowed.
    fn pair(&self, thread: Pid) -> Result<(), Errno>;

    /// Returns the thread that shares our processor.
    fn paired(&self) -> Option<Pid>;

    /// Restores the processors of the thread that shares ours, if there is one.
    fn part(&self);

    /// Gives a new thread its parent's former processors if the parent shares ours, or shared it.
    fn widen(&self, thread: Pid);

    /// Makes a thread that has just called exec perform system calls, with the instruction at an address, until `next`
    /// returns none.
    fn make_calls(&self, thread: Pid, at: u64, next: &mut Requests<'_>) -> io::Result<()>;

    /// True if every process may be traced, whoever owns it.
    fn may_trace_everything(&self) -> bool;
}

/// Linux, the kernel that runs the recorder.
pub(super) struct Linux {
    alarm: RefCell<Alarm>,
    waiting: RefCell<StopWait>,
    pair: RefCell<Option<PairedThread>>,
    /// The thread that was paired last.
    parted: RefCell<Option<PairedThread>>,
    /// A report that arrived during the wait for another report.
    early: Cell<Option<(Pid, Status)>>,
}

impl Linux {
    /// Makes it for the calling thread: only this thread may trace.
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self {
            alarm: RefCell::new(Alarm::new()?),
            waiting: RefCell::new(StopWait::new()),
            pair: RefCell::default(),
            parted: RefCell::default(),
            early: Cell::default(),
        })
    }
}

impl Kernel for Linux {
    fn next(&self, at_most: Duration) -> Result<Option<(Pid, Status)>, Errno> {
        if let Some(report) = self.early.take() {
            return Ok(Some(report));
        }
        self.alarm.borrow_mut().ring(at_most)?;
        self.waiting.borrow_mut().next()
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn take_looked(&self) -> Duration {
        self.waiting.borrow_mut().take_looked()
    }

    fn resume(&self, thread: Pid, how: Resume, signal: i32) -> Result<(), Errno> {
        system::resume(thread, how, signal)
    }

    fn interrupt(&self, thread: Pid) -> Result<(), Errno> {
        ptrace::interrupt(thread)
    }

    fn seize(&self, thread: Pid) -> Result<(), Errno> {
        ptrace::seize(thread, system::FOLLOW)
    }

    fn event_about(&self, thread: Pid) -> Result<Pid, Errno> {
        ptrace::getevent(thread).map(|about| Pid::from_raw(about as i32))
    }

    fn end_of(&self, thread: Pid) -> Result<Status, Errno> {
        ptrace::getevent(thread).map(|raw| sediment_process::ptrace::decode(raw as i32))
    }

    fn registers(&self, thread: Pid) -> Result<Registers, Errno> {
        Registers::of(thread)
    }

    fn set_registers(&self, thread: Pid, registers: &Registers) -> Result<(), Errno> {
        registers.put(thread)
    }

    fn go_to(&self, thread: Pid, registers: &Registers, address: u64) -> Result<(), Errno> {
        registers.go_to(thread, address)
    }

    fn call_again(&self, thread: Pid) {
        let Ok(registers) = Registers::of(thread) else { return };
        if let Some(changed) = registers.calling_again(|| mappings::is_filtered(thread)) {
            let _ = changed.put(thread);
        }
    }

    fn leave_call(&self, thread: Pid) {
        if let Some(changed) = Registers::of(thread).ok().and_then(Registers::called) {
            let _ = changed.put(thread);
        }
    }

    fn step(&self, thread: Pid) -> Result<Stepped, Errno> {
        system::resume(thread, Resume::Step, 0)?;
        let mut waiting = self.waiting.borrow_mut();
        let Some(status) = waiting.status_of(thread, LONGEST_STEP)? else {
            ptrace::interrupt(thread)?;
            return waiting.status_of(thread, LONGEST_STEP).map(Stepped::Late);
        };
        let stepped = status == Status::Signal(libc::SIGTRAP) && system::is_step(thread);
        Ok(if stepped { Stepped::Done } else { Stepped::Instead(status) })
    }

    fn has_stepped(&self, thread: Pid) -> bool {
        system::is_step(thread)
    }

    fn is_breakpoint(&self, thread: Pid) -> bool {
        system::is_breakpoint(thread)
    }

    fn ignores(&self, thread: Pid, signal: i32) -> bool {
        signals::ignores(thread, signal)
    }

    fn use_of_traps(&self, thread: Pid) -> Option<&'static str> {
        signals::use_of_traps(thread)
    }

    fn finds_no_leaks(&self, process: Pid) -> bool {
        mappings::finds_no_leaks(process)
    }

    fn blocks_all_but_traps(&self, thread: Pid) -> bool {
        system::signal_mask(thread).ok().and_then(signals::blocked_again).is_some()
    }

    fn block_traps_again(&self, thread: Pid) {
        if let Some(mask) = system::signal_mask(thread).ok().and_then(signals::blocked_again) {
            let _ = system::set_signal_mask(thread, mask);
        }
    }

    fn is_pending(&self, thread: Pid, signal: i32) -> bool {
        mappings::is_pending(thread, signal)
    }

    fn process_of(&self, thread: Pid) -> Option<Pid> {
        mappings::process_of(thread)
    }

    fn is_ours(&self, thread: Pid) -> bool {
        mappings::status_field(thread, "TracerPid").is_some_and(|by| by == nix::unistd::gettid().to_string())
    }

    fn traces_anyone(&self) -> bool {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut threads = processes.map(Pid::from_raw).flat_map(|process| self.threads(process));
        threads.any(|thread| self.is_ours(thread) && !self.has_ended(thread))
    }

    fn has_ended(&self, thread: Pid) -> bool {
        mappings::has_ended(thread)
    }

    fn threads(&self, process: Pid) -> BTreeSet<Pid> {
        mappings::threads(process).unwrap_or_default().into_iter().collect()
    }

    fn memory(&self, thread: Pid) -> io::Result<Rc<dyn TraceeMemory>> {
        Ok(Rc::new(ProcessMemory::of(thread)?))
    }

    fn force_memory(&self, thread: Pid) -> io::Result<Rc<dyn TraceeMemory>> {
        if !mappings::is_filtered_as_we_are(thread) {
            return Err(io::Error::other("the process has a seccomp filter of its own"));
        }
        SystemCaller::new(thread, &mut self.waiting.borrow_mut()).set_dumpable(true)?;
        Ok(Rc::new(TracedMemory::of(thread)))
    }

    fn close_memory(&self, thread: Pid) -> io::Result<()> {
        SystemCaller::new(thread, &mut self.waiting.borrow_mut()).set_dumpable(false)
    }

    fn mappings(&self, thread: Pid) -> io::Result<Vec<ProcessMapping>> {
        mappings::mappings(thread)
    }

    fn all_mappings(&self, thread: Pid) -> io::Result<Vec<ProcessMapping>> {
        mappings::all_mappings(thread)
    }

    fn mapping_at(&self, thread: Pid, address: u64) -> io::Result<Option<ProcessMapping>> {
        mappings::mapping_at(thread, address)
    }

    fn content(&self, thread: Pid, mapping: &ProcessMapping) -> Option<Vec<u8>> {
        mappings::content(thread, mapping)
    }

    fn auxiliary(&self, process: Pid, key: u64) -> Option<u64> {
        let vector = std::fs::read(format!("/proc/{process}/auxv")).ok()?;
        mappings::auxiliary_value(&vector, key)
    }

    fn processor_time(&self, process: Pid) -> Option<u64> {
        // Clock of a process, as clock_getcpuclockid(3) computes it, but without a check that the clock exists.
        let clock = ClockId::from_raw(!process.as_raw() << 3 | 2);
        let time = clock_gettime(clock).ok()?;
        Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }

    fn memory_left(&self, process: Pid) -> Option<u64> {
        crate::tracing::groups::memory_left_to(process)
    }

    fn pair(&self, thread: Pid) -> Result<(), Errno> {
        *self.pair.borrow_mut() = Some(PairedThread::of(thread)?);
        self.waiting.borrow_mut().is_paired = true;
        Ok(())
    }

    fn paired(&self) -> Option<Pid> {
        self.pair.borrow().as_ref().map(|pair| pair.thread)
    }

    fn part(&self) {
        let Some(pair) = self.pair.take() else { return };
        pair.part();
        self.waiting.borrow_mut().is_paired = false;
        *self.parted.borrow_mut() = Some(pair);
    }

    fn widen(&self, thread: Pid) {
        if let Some(pair) = &*self.parted.borrow() {
            pair.widen(thread);
        }
    }

    fn make_calls(&self, thread: Pid, at: u64, next: &mut Requests<'_>) -> io::Result<()> {
        let mut waiting = self.waiting.borrow_mut();
        let mut caller = SystemCaller::new(thread, &mut waiting);
        let made = caller.make(at, next);
        if let Some(end) = caller.end {
            self.early.set(Some((thread, end)));
        }
        made
    }

    fn may_trace_everything(&self) -> bool {
        crate::tracing::rights::may_trace_everything()
    }
}
