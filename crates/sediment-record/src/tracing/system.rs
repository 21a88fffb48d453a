// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to the kernel that no safe interface offers. The code that waits for traced threads and resumes them is
//! shared with the measurement of memory.

#![allow(unsafe_code)]

pub(crate) use sediment_process::ptrace::{Resume, Status, look_for, resume, wait, wait_for};

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
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Options for tracing a running process: everything that it creates is traced too.
pub(crate) const FOLLOW: Options = Options::PTRACE_O_TRACECLONE
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACEEXEC)
    .union(Options::PTRACE_O_TRACEEXIT)
    .union(Options::PTRACE_O_TRACESYSGOOD);

/// Signals that a stopped thread blocks.
pub(crate) fn signal_mask(thread: Pid) -> Result<u64, Errno> {
    let mut mask = 0u64;
    // SAFETY: the kernel writes exactly this many bytes, into a valid buffer.
    let done = unsafe {
        libc::ptrace(libc::PTRACE_GETSIGMASK as _, thread.as_raw(), size_of::<u64>(), &raw mut mask)
    };
    Errno::result(done).map(|_| mask)
}

/// Address of the rseq area of a stopped thread (restartable sequences); 0 if it has none.
pub(crate) fn rseq_area(thread: Pid) -> Result<u64, Errno> {
    /// PTRACE_GET_RSEQ_CONFIGURATION and its struct: address of the area, then size, signature, flags and padding.
    const REQUEST: libc::c_long = 0x420f;
    let mut about = [0u64; 3];
    // SAFETY: the kernel writes exactly this many bytes, into a valid buffer.
    let done =
        unsafe { libc::ptrace(REQUEST as _, thread.as_raw(), size_of_val(&about), about.as_mut_ptr()) };
    Errno::result(done).map(|_| about[0])
}

/// A system call, as a filter sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilteredCall {
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
}

/// Instruction of a filter (struct sock_filter of the kernel's linux/filter.h).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FilterInstruction {
    pub(crate) code: u16,
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) constant: u32,
}

/// Returns a seccomp filter of a stopped thread, counted from the newest one; `None` if it has no filter of this number.
pub(crate) fn seccomp_filter(thread: Pid, index: u64) -> Result<Option<Vec<FilterInstruction>>, Errno> {
    /// PTRACE_SECCOMP_GET_FILTER.
    const REQUEST: libc::c_long = 0x420c;
    let ask = |to: *mut FilterInstruction| {
        // SAFETY: the kernel writes nothing to a null pointer, and otherwise as many instructions as it has just said.
        Errno::result(unsafe { libc::ptrace(REQUEST as _, thread.as_raw(), index, to) })
    };
    match ask(std::ptr::null_mut()) {
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
        Ok(length) => {
            let mut filter = vec![FilterInstruction::default(); length as usize];
            // A stopped thread gets no filter, and no filter changes.
            ask(filter.as_mut_ptr()).map(|_| Some(filter))
        }
    }
}

/// Makes these system calls in a child. True if none of them ends it, or is refused.
pub(crate) fn child_makes(calls: &[FilteredCall]) -> bool {
    // SAFETY: the child only makes system calls, whose arguments are numbers.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let refused = |call: &FilteredCall| {
                let [one, two, three, four, five, six] = call.arguments;
                // SAFETY: as above.
                let done = unsafe { libc::syscall(call.number, one, two, three, four, five, six) };
                matches!(Errno::result(done), Err(Errno::EPERM | Errno::EACCES | Errno::ENOSYS))
            };
            let code = i32::from(calls.iter().any(refused));
            // SAFETY: this ends the child.
            unsafe { libc::_exit(code) }
        }
        Ok(ForkResult::Parent { child }) => {
            matches!(wait_for(child), Ok(Status::Exited(0)))
        }
        Err(_) => false,
    }
}

/// True if two processes have the same memory, like the processes of clone(2) with CLONE_VM. If the kernel does not say so
/// (kcmp(2)), their mappings are compared.
pub(crate) fn have_same_memory(one: Pid, other: Pid) -> bool {
    const KCMP_VM: libc::c_long = 1;
    // SAFETY: all arguments are numbers.
    let compared = unsafe { libc::syscall(libc::SYS_kcmp, one.as_raw(), other.as_raw(), KCMP_VM, 0, 0) };
    match Errno::result(compared) {
        Ok(order) => order == 0,
        Err(Errno::ESRCH) => false,
        Err(_) => {
            let maps = |process| std::fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
            let of_one = maps(one);
            !of_one.is_empty() && of_one == maps(other)
        }
    }
}

/// Ignores a signal from now on.
pub(crate) fn ignore(signal: Signal) -> Result<(), Errno> {
    let action = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler is set.
    unsafe { sigaction(signal, &action) }.map(drop)
}

/// Address of the own data of a stopped thread of AArch64 (tpidr_el0).
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "of AArch64"))]
pub(crate) fn thread_data(thread: Pid) -> Result<u64, Errno> {
    /// NT_ARM_TLS of elf.h.
    const REGISTERS: libc::c_long = 0x401;
    let mut data = [0; 8];
    read_registers(thread, REGISTERS, &mut data)?;
    Ok(u64::from_le_bytes(data))
}

/// Reads the beginning of a set of registers of a stopped thread (NT_… of elf.h); returns the number of bytes.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "of AArch64"))]
pub(crate) fn read_registers(thread: Pid, kind: libc::c_long, to: &mut [u8]) -> Result<usize, Errno> {
    let mut place = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: the kernel writes at most this many bytes, into a valid buffer.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETREGSET as _, thread.as_raw(), kind, &raw mut place) };
    Errno::result(done).map(|_| place.iov_len)
}

/// Writes a set of registers of a stopped thread.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "of AArch64"))]
pub(crate) fn write_registers(thread: Pid, kind: libc::c_long, from: &mut [u8]) -> Result<(), Errno> {
    let mut place = libc::iovec { iov_base: from.as_mut_ptr().cast(), iov_len: from.len() };
    // SAFETY: the kernel reads this many bytes, from a valid buffer.
    let done = unsafe { libc::ptrace(libc::PTRACE_SETREGSET as _, thread.as_raw(), kind, &raw mut place) };
    Errno::result(done).map(drop)
}

/// Sets the number of the system call that a stopped thread of AArch64 is in; -1 for none.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "of AArch64"))]
pub(crate) fn set_call(thread: Pid, number: i32) -> Result<(), Errno> {
    /// NT_ARM_SYSTEM_CALL of elf.h.
    const REGISTERS: libc::c_long = 0x404;
    write_registers(thread, REGISTERS, &mut number.to_le_bytes())
}

/// Sends a signal to a thread.
pub(crate) fn send(process: Pid, thread: Pid, signal: i32) {
    // SAFETY: all arguments are numbers. An ended thread needs no signal.
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, process.as_raw(), thread.as_raw(), signal) };
}

/// False if the kernel says that it has no branch records of calls in user code.
pub(crate) fn may_record_branches() -> bool {
    /// Words of struct perf_event_attr (PERF_ATTR_SIZE_VER5).
    const WORDS: usize = 14;
    /// PERF_FLAG_FD_CLOEXEC.
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let mut wanted = [0u64; WORDS];
    wanted[0] = (size_of::<[u64; WORDS]>() as u64) << 32; // type: hardware, size
    wanted[1] = 4; // config: branch instructions
    wanted[2] = 1 << 20; // sample period
    wanted[3] = 1 << 11; // sample type: branch records
    wanted[5] = 1 | 1 << 5 | 1 << 6; // disabled, without kernel and hypervisor
    wanted[9] = 1 | 1 << 4; // branches in user code, calls
    // SAFETY: the kernel reads exactly as many bytes as the structure says it has.
    let file = unsafe { libc::syscall(libc::SYS_perf_event_open, wanted.as_ptr(), 0, -1, -1, CLOSE_ON_EXEC) };
    match Errno::result(file) {
        Ok(file) => {
            // SAFETY: the new file belongs to nobody else.
            drop(unsafe { OwnedFd::from_raw_fd(file as i32) });
            true
        }
        Err(error) => !matches!(error, Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP | Errno::ENOSYS),
    }
}

/// A forked program that waits for permission to begin.
#[derive(Debug)]
pub(crate) struct WaitingProgram {
    /// Its process.
    pub(crate) process: Pid,
    gate: File,
    report: File,
}

/// Forks a process that executes this program after [`WaitingProgram::go`], so that it can be traced from its first
/// instruction.
pub(crate) fn fork_program(words: &[OsString]) -> io::Result<WaitingProgram> {
    let words: Vec<CString> =
        words.iter().map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
    let mut arguments: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    arguments.push(std::ptr::null());
    let (inside, gate) = pipe2(OFlag::O_CLOEXEC)?;
    let (report, report_to) = pipe2(OFlag::O_CLOEXEC)?;
    let parent = Pid::this();
    let broken_pipe = if ignores_sigpipe() { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: the child calls only system calls and functions that are safe between fork and exec, on memory allocated
    // before.
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

/// Resets every signal that we handle to its default, as exec does: the waiting process must already end at such
/// signals.
///
/// # Safety
/// As for `sigaction`, which is safe between fork and exec.
unsafe fn forget_handlers() {
    const LAST_SIGNAL: libc::c_int = 64;
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: all zeros are a valid sigaction, and the kernel writes into a valid one.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &mut now) == 0;
            if known && now.sa_sigaction != libc::SIG_IGN && now.sa_sigaction != libc::SIG_DFL {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Exit code of a process that could not execute the program.
const NOT_STARTED: i32 = 127;

impl WaitingProgram {
    /// Lets it execute the program. Returns once it has; an error is the reason why it could not.
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

/// Forks this process, which must have only one thread.
pub(crate) fn fork_ourselves() -> io::Result<ForkResult> {
    const ENDING: Duration = Duration::from_secs(10);
    let begun = Instant::now();
    // A joined thread is listed until the kernel has removed it.
    while super::mappings::threads(Pid::this())?.len() > 1 {
        if begun.elapsed() > ENDING {
            return Err(io::Error::other("this process has several threads"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: with only one thread, the child's memory and locks are in a consistent state.
    Ok(unsafe { fork() }?)
}

/// Closes inherited descriptors other than the standard ones, except those that the command line names. They belong to
/// the program: the process at their other end must notice when the program closes them. exec closes our own
/// descriptors.
pub(crate) fn close_inherited() {
    let named: Vec<OsString> = std::env::args_os().collect();
    let is_named = |number: i32| {
        let names = ["/dev/fd/", "/proc/self/fd/"].map(|folder| format!("{folder}{number}"));
        named.iter().any(|word| names.iter().any(|name| word.as_bytes().ends_with(name.as_bytes())))
    };
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2 && !is_named(*number)) {
        // SAFETY: all arguments are numbers. No object here owns a descriptor that exec keeps open.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == 0 {
                libc::close(number);
            }
        }
    }
}

/// Makes a limit of processor time end the recording instead of this process, which would end the program too. If the
/// limit cannot be raised, its warning comes a second earlier.
pub(crate) fn keep_below_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one valid rlimit, and reads the ones passed to it.
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

/// True if a program's file has capabilities.
pub(crate) fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end in zero, and nothing is written because the size is zero.
    let size =
        unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    size > 0
}

/// Ignores the signals with which a terminal stops a job, because the program may handle or ignore them: this process
/// stops together with the program.
pub(crate) fn leave_stops_to_program() {
    for stop in [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU] {
        let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
        // SAFETY: no code of ours runs in a handler.
        let _ = unsafe { sigaction(stop, &ignore) };
    }
}

static FAULT_SENT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes signals that the processor usually raises end the recording if somebody sent them. If the processor raised
/// them, they end this process.
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
        // SAFETY: the handler only sets a flag, or resets the signal to its default.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

extern "C" fn fault(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t.
    let sent = unsafe { (*about).si_code } <= 0;
    match FAULT_SENT.get() {
        Some(stop) if sent => stop.store(true, Ordering::SeqCst),
        // The instruction runs again, and the signal ends this process. SAFETY: this sets the default.
        _ => {
            let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

/// Interrupts [`wait`] in the thread that created it, repeatedly.
pub(crate) struct Alarm {
    timer: Timer,
    period: Option<Duration>,
    before: SigAction,
}

/// Signal of the alarm, ignored by default.
const ALARM: Signal = Signal::SIGURG;

extern "C" fn heard(_: libc::c_int) {}

impl Alarm {
    /// Creates an alarm that does not ring yet.
    pub(crate) fn new() -> Result<Self, Errno> {
        let quiet = SigAction::new(SigHandler::Handler(heard), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does nothing.
        let before = unsafe { sigaction(ALARM, &quiet) }?;
        // For this thread only; nix has no name for that with musl.
        let mut event = SigEvent::new(SigevNotify::SigevSignal { signal: ALARM, si_value: 0 }).sigevent();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_notify_thread_id = gettid().as_raw();
        let timer = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::from(&event))?;
        Ok(Self { timer, period: None, before })
    }

    /// Starts ringing with this period.
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
        // A last signal may still arrive: the handler stays if the former action was the default, which ignores the
        // signal.
        if !matches!(self.before.handler(), SigHandler::SigDfl) {
            // SAFETY: this is the former action.
            let _ = unsafe { sigaction(ALARM, &self.before) };
        }
    }
}

/// True if the SIGTRAP that stopped this thread reports the end of a single step.
pub(crate) fn is_step(thread: Pid) -> bool {
    const TRAP_TRACE: i32 = 2;
    ptrace::getsiginfo(thread).is_ok_and(|about| about.si_code == TRAP_TRACE)
}

/// Address of the fault for which the kernel has stopped a thread with SIGSEGV; `None` if another process has sent the
/// signal.
pub(crate) fn fault_address(thread: Pid) -> Option<u64> {
    let about = nix::sys::ptrace::getsiginfo(thread).ok()?;
    // SAFETY: the kernel, whose codes are positive, sets the address for this signal.
    (about.si_code > 0).then(|| unsafe { about.si_addr() } as u64)
}
