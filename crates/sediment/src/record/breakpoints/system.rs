// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the recorder asks of the kernel that no safe interface offers, and nothing else. Waiting for traced threads and letting them
//! go on it shares with the meter of memory.

#![allow(unsafe_code)]

pub(super) use crate::measure::trace::{Resume, Status, look, resume, wait};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, Signal, sigaction};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::{Pid, gettid};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Waits until something happened to this process, and says whether it was its end, without taking notice of it: others can still
/// wait for it. None when a signal came first.
pub(super) fn peek_whether_ended(process: Pid) -> Result<Option<bool>, Errno> {
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: all zeros are a siginfo_t, and the kernel writes one, which is there.
    let (found, about) = unsafe {
        let mut about: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(libc::P_PID, process.as_raw() as libc::id_t, &mut about, flags), about)
    };
    match Errno::result(found) {
        Err(Errno::EINTR) => Ok(None),
        // Somebody else has waited for it.
        Err(Errno::ECHILD) => Ok(Some(true)),
        Err(error) => Err(error),
        Ok(_) => Ok(Some(matches!(about.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED))),
    }
}

/// A program that was started and waits to be let go.
pub(super) struct Started {
    /// Its process.
    pub(super) process: Pid,
    gate: UnixStream,
    spawning: JoinHandle<io::Result<Child>>,
}

/// Starts a program, which waits before it becomes one until [`Started::go`], so that it can be traced from its first instruction.
pub(super) fn start(mut command: Command) -> io::Result<Started> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let (mut gate, mut inside) = UnixStream::pair()?;
    // Should this process be killed before it lets the other go.
    inside.set_read_timeout(Some(PATIENCE))?;
    // SAFETY: between fork and exec this reads and writes an open socket and asks for an id, which is safe there.
    unsafe {
        command.pre_exec(move || {
            inside.write_all(&std::process::id().to_ne_bytes())?;
            inside.read_exact(&mut [0])
        });
    }
    // The one that starts it waits until it has become the program.
    let spawning = std::thread::spawn(move || command.spawn());
    let mut id = [0; 4];
    if let Err(error) = gate.read_exact(&mut id) {
        return Err(match spawning.join() {
            Ok(Err(why)) => why,
            _ => error,
        });
    }
    Ok(Started { process: Pid::from_raw(u32::from_ne_bytes(id) as i32), gate, spawning })
}

impl Started {
    /// Lets it become the program. What comes of it is known once it has run, or failed, so ask [`Spawning::finish`] then.
    pub(super) fn go(mut self) -> io::Result<Spawning> {
        self.gate.write_all(&[1])?;
        Ok(Spawning(self.spawning))
    }
}

/// A program that is about to run.
pub(super) struct Spawning(JoinHandle<io::Result<Child>>);

impl Spawning {
    /// Whether it became the program. Its ending is waited for by whoever traces it.
    pub(super) fn finish(self) -> io::Result<()> {
        match self.0.join() {
            Ok(done) => done.map(drop),
            Err(_) => Err(io::Error::other("the thread that starts the program broke down")),
        }
    }
}

/// Interrupts [`wait`] of the thread that made it, again and again.
pub(super) struct Alarm {
    timer: Timer,
    period: Option<Duration>,
    before: SigAction,
}

/// What interrupts; by default nobody hears it.
const ALARM: Signal = Signal::SIGURG;

/// How often it was heard.
static RINGS: AtomicU32 = AtomicU32::new(0);

extern "C" fn heard(_: libc::c_int) {
    RINGS.fetch_add(1, Ordering::Relaxed);
}

/// How often an alarm has rung by now, counted round.
pub(super) fn rings() -> u32 {
    RINGS.load(Ordering::Relaxed)
}

impl Alarm {
    /// One that is still.
    pub(super) fn new() -> Result<Self, Errno> {
        let quiet = SigAction::new(SigHandler::Handler(heard), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does nothing but count.
        let before = unsafe { sigaction(ALARM, &quiet) }?;
        let to_this_thread =
            SigevNotify::SigevThreadId { signal: ALARM, thread_id: gettid().as_raw(), si_value: 0 };
        let timer = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(to_this_thread))?;
        Ok(Self { timer, period: None, before })
    }

    /// Rings with this period from now on.
    pub(super) fn ring(&mut self, period: Duration) -> Result<(), Errno> {
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

/// Whether the trap that stopped this thread is one that the processor raised at a breakpoint, not one that somebody sent.
pub(super) fn is_breakpoint(thread: Pid) -> bool {
    const TRAP_BRKPT: i32 = 1;
    ptrace::getsiginfo(thread).is_ok_and(|about| matches!(about.si_code, libc::SI_KERNEL | TRAP_BRKPT))
}
