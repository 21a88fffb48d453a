// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to the kernel that no safe interface offers, and nothing else. Waiting for traced threads and resuming
//! them it shares with the meter of memory.

#![allow(unsafe_code)]

pub(crate) use sediment_process::ptrace::{Resume, Status, look, look_for, resume, wait, wait_for};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, Signal, sigaction};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::{ForkResult, Pid, fork, gettid, pipe2};
use sediment_process::Stop;
use sediment_process::inherited::ignores_sigpipe;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Options to trace a running process with: all that it makes is traced too.
pub(crate) const FOLLOW: Options = Options::PTRACE_O_TRACECLONE
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACEEXEC)
    .union(Options::PTRACE_O_TRACEEXIT)
    .union(Options::PTRACE_O_TRACESYSGOOD);

/// The same for a program that was started: it ends should we be killed.
pub(crate) const FOLLOW_AND_END: Options = FOLLOW.union(Options::PTRACE_O_EXITKILL);

/// Signals that a stopped thread blocks.
pub(crate) fn signal_mask(thread: Pid) -> Result<u64, Errno> {
    let mut mask = 0u64;
    // SAFETY: the kernel writes as many bytes as it is told, which are there.
    let done = unsafe {
        libc::ptrace(libc::PTRACE_GETSIGMASK as _, thread.as_raw(), size_of::<u64>(), &raw mut mask)
    };
    Errno::result(done).map(|_| mask)
}

pub(crate) fn set_signal_mask(thread: Pid, mask: u64) -> Result<(), Errno> {
    // SAFETY: the kernel reads as many bytes as it is told, which are there.
    let done = unsafe {
        libc::ptrace(libc::PTRACE_SETSIGMASK as _, thread.as_raw(), size_of::<u64>(), &raw const mask)
    };
    Errno::result(done).map(drop)
}

/// Address of the area of a stopped thread for restartable sequences; 0 if it has none.
pub(crate) fn rseq_area(thread: Pid) -> Result<u64, Errno> {
    /// PTRACE_GET_RSEQ_CONFIGURATION, and its struct: the area's address, then size, signature, flags and padding.
    const REQUEST: libc::c_long = 0x420f;
    let mut about = [0u64; 3];
    // SAFETY: the kernel writes as many bytes as it is told, which are there.
    let done =
        unsafe { libc::ptrace(REQUEST as _, thread.as_raw(), size_of_val(&about), about.as_mut_ptr()) };
    Errno::result(done).map(|_| about[0])
}

/// Sends a signal to a thread.
pub(crate) fn send(process: Pid, thread: Pid, signal: i32) {
    // SAFETY: it takes numbers alone. One that has ended needs no signal.
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, process.as_raw(), thread.as_raw(), signal) };
}

/// Memory of a file that others have mapped, too.
#[derive(Debug)]
pub(crate) struct MappedWords {
    start: *const AtomicU64,
    count: usize,
}

impl MappedWords {
    /// Maps a part of whole pages of a file that stays as long as it is.
    pub(crate) fn new(file: &File, offset: u64, length: u64) -> io::Result<Self> {
        let (rights, length) = (libc::PROT_READ | libc::PROT_WRITE, length as usize);
        let file = file.as_raw_fd();
        // SAFETY: new memory, at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, rights, libc::MAP_SHARED, file, offset as libc::off_t)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), count: length / size_of::<AtomicU64>() })
    }

    /// Stores a word at an offset, a multiple of 8, at once.
    pub(crate) fn store(&self, at: u64, word: u64) {
        let index = at as usize / size_of::<AtomicU64>();
        assert!(at % 8 == 0 && index < self.count, "the word is none of the part");
        // SAFETY: it lies in the part, which is mapped, and is aligned.
        let place = unsafe { &*self.start.add(index) };
        place.store(word, Ordering::Release);
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        // SAFETY: nobody else refers to this memory.
        let _ = unsafe { libc::munmap(self.start.cast_mut().cast(), self.count * size_of::<AtomicU64>()) };
    }
}

/// A program that was forked and waits to be let go.
#[derive(Debug)]
pub(crate) struct WaitingProgram {
    /// Its process.
    pub(crate) process: Pid,
    gate: File,
    report: File,
}

/// Forks a process that becomes this program after [`WaitingProgram::go`], so that it can be traced from its first instruction.
pub(crate) fn fork_program(words: &[OsString]) -> io::Result<WaitingProgram> {
    let words: Vec<CString> =
        words.iter().map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
    let mut arguments: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    arguments.push(std::ptr::null());
    let (inside, gate) = pipe2(OFlag::O_CLOEXEC)?;
    let (report, report_to) = pipe2(OFlag::O_CLOEXEC)?;
    let parent = Pid::this();
    let broken_pipe = if ignores_sigpipe() { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: the child calls nothing but system calls and functions that are safe between fork and exec, on memory made before.
    let forked = unsafe { fork() }?;
    match forked {
        ForkResult::Parent { child } => {
            drop((inside, report_to));
            let mut report = File::from(report);
            report.read_exact(&mut [0])?;
            Ok(WaitingProgram { process: child, gate: File::from(gate), report })
        }
        ForkResult::Child => {
            // SAFETY: as above; the descriptors are open, the arguments end in null, and this does not return.
            unsafe {
                libc::close(gate.as_raw_fd());
                libc::prctl(libc::PR_SET_PTRACER, parent.as_raw() as libc::c_ulong, 0, 0, 0);
                forget_handlers();
                libc::signal(libc::SIGPIPE, broken_pipe);
                let mut byte = 0u8;
                libc::write(report_to.as_raw_fd(), (&raw const byte).cast(), 1);
                let mut read = -1;
                while read < 0 {
                    read = libc::read(inside.as_raw_fd(), (&raw mut byte).cast(), 1);
                    if read < 0 && Errno::last() != Errno::EINTR {
                        break;
                    }
                }
                if read == 1 {
                    libc::execvp(arguments[0], arguments.as_ptr());
                    let why = (Errno::last() as i32).to_ne_bytes();
                    libc::write(report_to.as_raw_fd(), why.as_ptr().cast(), why.len());
                }
                libc::_exit(NOT_STARTED)
            }
        }
    }
}

/// Sets every signal that we handle back to its default, as exec does: what waits for it is to end by them already.
///
/// # Safety
/// As of `sigaction`, which is safe between fork and exec.
unsafe fn forget_handlers() {
    const LAST_SIGNAL: libc::c_int = 64;
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: all zeros are a sigaction, and the kernel writes one, which is there.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &mut now) == 0;
            if known && now.sa_sigaction != libc::SIG_IGN && now.sa_sigaction != libc::SIG_DFL {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Exit code of a process that could not become the program.
const NOT_STARTED: i32 = 127;

impl WaitingProgram {
    /// Lets it become the program; why it could not. Returns once it has.
    pub(crate) fn go(self) -> io::Result<()> {
        let Self { mut gate, mut report, .. } = self;
        gate.write_all(&[1])?;
        drop(gate);
        let mut why = [0; 4];
        match report.read_exact(&mut why) {
            Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(why))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Forks this process, of which there must be one thread alone.
pub(crate) fn fork_ourselves() -> io::Result<ForkResult> {
    const ENDING: Duration = Duration::from_secs(10);
    let begun = Instant::now();
    // A thread that has been joined is listed until the kernel has removed it.
    while super::mappings::threads(Pid::this())?.len() > 1 {
        if begun.elapsed() > ENDING {
            return Err(io::Error::other("this process has several threads"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: with one thread alone, all that the child has is in order.
    Ok(unsafe { fork() }?)
}

/// Closes what was inherited beside the standard descriptors, but for what the command line names: it is the program's, and who is at the
/// other end is to notice when the program closes it. Ours alone are closed by exec.
pub(crate) fn close_inherited() {
    let named: Vec<OsString> = std::env::args_os().collect();
    let is_named = |number: i32| {
        let names = ["/dev/fd/", "/proc/self/fd/"].map(|folder| format!("{folder}{number}"));
        named.iter().any(|word| names.iter().any(|name| word.as_bytes().ends_with(name.as_bytes())))
    };
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2 && !is_named(*number)) {
        // SAFETY: these take numbers alone. Nothing here owns a descriptor that exec keeps.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == 0 {
                libc::close(number);
            }
        }
    }
}

/// Has a limit of processor time end the recording, not this process, and with it the program: where the limit cannot be raised, its
/// warning comes a second before.
pub(crate) fn keep_below_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit, which is there, and reads those that are handed over.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_CPU, &mut limit) != 0 || limit.rlim_max == libc::RLIM_INFINITY {
            return;
        }
        let none = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        if libc::setrlimit(libc::RLIMIT_CPU, &none) != 0 {
            limit.rlim_cur = limit.rlim_cur.min(limit.rlim_max.saturating_sub(1).max(1));
            libc::setrlimit(libc::RLIMIT_CPU, &limit);
        }
    }
}

/// True if the kernel schedules a thread as it does nearly all, neither in real time nor by deadlines.
pub(crate) fn is_scheduled_as_usual(thread: Pid) -> bool {
    // The kernel itself, as musl's function of this name always fails.
    // SAFETY: it reads nothing of ours.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread.as_raw()) };
    policy & !i64::from(libc::SCHED_RESET_ON_FORK) == i64::from(libc::SCHED_OTHER)
}

/// True if a program's file has capabilities.
pub(crate) fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end in zero, and with a size of zero nothing is written.
    let size =
        unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    size > 0
}

/// Ignores the signals by which a terminal stops a job, which the program may handle or ignore: this process stops with the program.
pub(crate) fn leave_stops_to_program() {
    for stop in [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU] {
        let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
        // SAFETY: it runs no code of ours.
        let _ = unsafe { sigaction(stop, &ignore) };
    }
}

static FAULT_SENT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Ends a recording also by signals that the processor raises, where somebody sent them. Raised by the processor, they end us.
pub(crate) fn catch_sent_faults(stop: &Stop) {
    let _ = FAULT_SENT.set(stop.flag());
    let action = SigAction::new(
        SigHandler::SigAction(fault),
        SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK,
        SigSet::empty(),
    );
    for signal in
        [Signal::SIGILL, Signal::SIGFPE, Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGTRAP, Signal::SIGSYS]
    {
        // SAFETY: the handler sets a flag, or sets the signal back to its default.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

extern "C" fn fault(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands over a siginfo_t.
    let sent = unsafe { (*about).si_code } <= 0;
    match FAULT_SENT.get() {
        Some(stop) if sent => stop.store(true, Ordering::SeqCst),
        // The instruction runs again, and the signal ends us.
        // SAFETY: this is the default.
        _ => {
            let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

/// Interrupts [`wait`] of the thread that made it, again and again.
pub(crate) struct Alarm {
    timer: Timer,
    period: Option<Duration>,
    before: SigAction,
}

/// Signal of the alarm, ignored by default.
const ALARM: Signal = Signal::SIGURG;

/// Number of alarms received.
static RINGS: AtomicU32 = AtomicU32::new(0);

extern "C" fn heard(_: libc::c_int) {
    RINGS.fetch_add(1, Ordering::Relaxed);
}

/// Number of alarms so far, wrapping around.
pub(crate) fn rings() -> u32 {
    RINGS.load(Ordering::Relaxed)
}

impl Alarm {
    /// One that is still.
    pub(crate) fn new() -> Result<Self, Errno> {
        let quiet = SigAction::new(SigHandler::Handler(heard), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does nothing but count.
        let before = unsafe { sigaction(ALARM, &quiet) }?;
        // To this thread alone; nix has no name for that where the C library is musl.
        let mut event = SigEvent::new(SigevNotify::SigevSignal { signal: ALARM, si_value: 0 }).sigevent();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_notify_thread_id = gettid().as_raw();
        let timer = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::from(&event))?;
        Ok(Self { timer, period: None, before })
    }

    /// Rings with this period from now on.
    pub(crate) fn ring(&mut self, period: Duration) -> Result<(), Errno> {
        if self.period == Some(period) {
            return Ok(());
        }
        self.period = Some(period);
        let period = TimeSpec::from_duration(period);
        self.timer.set(Expiration::IntervalDelayed(period, period), TimerSetTimeFlags::empty())
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let _ = self
            .timer
            .set(Expiration::OneShot(TimeSpec::from_duration(Duration::ZERO)), TimerSetTimeFlags::empty());
        // A last signal may be on its way: the handler stays where the default, to be ignored, would do.
        if !matches!(self.before.handler(), SigHandler::SigDfl) {
            // SAFETY: this is what was there before.
            let _ = unsafe { sigaction(ALARM, &self.before) };
        }
    }
}

/// True if the SIGTRAP that stopped this thread says that it has executed one instruction.
pub(crate) fn is_step(thread: Pid) -> bool {
    const TRAP_TRACE: i32 = 2;
    ptrace::getsiginfo(thread).is_ok_and(|about| about.si_code == TRAP_TRACE)
}

/// True if the processor raised the SIGTRAP that stopped this thread at a breakpoint; false if somebody sent it.
pub(crate) fn is_breakpoint(thread: Pid) -> bool {
    const TRAP_BRKPT: i32 = 1;
    ptrace::getsiginfo(thread).is_ok_and(|about| matches!(about.si_code, libc::SI_KERNEL | TRAP_BRKPT))
}
