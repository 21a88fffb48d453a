// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peak resident memory of a program, read at its end.
//!
//! The figure that `wait4` and `getrusage` give cannot be used for small programs: the kernel starts it at the peak of
//! the process that started the program, so a program of 2 MB started by one of 200 MB "had" 200 MB. The high-water
//! mark of the program's own address space (`VmHWM` in /proc/ID/status) begins anew with it, but is gone once the
//! process has ended. So the program is traced: it stops as it exits, while its address space still exists, and the
//! value is read.
//!
//! ```text
//! this thread            the child
//! start  ─────────────►  sh: stops itself
//! seize, continue ────►  exec of the program … runs untouched … ─► stops at its exit
//! read VmHWM  ◄──────────────────────────────────────────────────┘
//! continue  ──────────►  ends
//! ```
//!
//! Forked descendants are followed; the result is the peak of the largest process, not their sum, because they may
//! share memory. Tracing stops each process twice, and changes none of its memory.

use super::{Meter, Quantity, Reading, Unit};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::command::{
    Collector, Command, EndedProcess, Keep, Outcome, Watchdog, feed, high_water_mark, start,
};
use sediment_process::ptrace::{self as trace, Resume, Status};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Row of this meter in the table of meters.
pub(crate) const METER: Meter = Meter {
    name: "peak-memory",
    summary: "peak resident memory of the largest process, from the kernel",
    needs: "permission to trace (ptrace) one's own children",
    quantities: &[Quantity {
        name: "peak RSS",
        unit: Unit::Bytes,
        summary: "the most memory that was resident at once, file pages included",
        repeatable: false,
    }],
    available,
    run,
};

const HINT: &str =
    "allow tracing: in a container by --cap-add=SYS_PTRACE, elsewhere by kernel.yama.ptrace_scope below 3";

fn available() -> Result<()> {
    run(&Command::new("true", "/", Duration::from_secs(20)), Path::new("/")).map(drop)
}

fn run(command: &Command, _: &Path) -> Result<Vec<Reading>> {
    // A tracer is a thread. A thread of its own has no other children that it could mistake for the program.
    let command = command.clone();
    let value = thread::spawn(move || peak(&command))
        .join()
        .map_err(|_| Error::new(ErrorCode::Internal, "the thread that measures memory panicked"))??;
    Ok(vec![Reading { quantity: &METER.quantities[0], value }])
}

/// Runs the command to its end, and returns the highest peak of its processes, in bytes.
fn peak(command: &Command) -> Result<u64> {
    // A process that stops before the program begins can be traced, however short the program is. The shell's own
    // memory does not count, because an exec begins a new address space.
    let stopped = command.under("sh", ["-c", "kill -STOP $$; exec \"$@\"", "sh"]);
    let mut child = start(&stopped, Stdio::null())?;
    let id = child.id();
    feed(&mut child, &command.input);
    let errors = child.stderr.take().map(|pipe| Collector::start(pipe, Keep::Last(4096)));
    let watchdog = Watchdog::start(id, &stopped);
    let process = Pid::from_raw(id as i32);
    let traced = seize(process).and_then(|()| follow(process));
    let strike = watchdog.stop();
    let (outcome, peak) = match traced {
        Ok(ended) => ended,
        Err(error) => {
            let _ = kill(process, Signal::SIGKILL);
            let _ = child.wait();
            return Err(error);
        }
    };
    let (errors, _) = errors.map(Collector::finish).unwrap_or_default();
    EndedProcess::of(id, strike.unwrap_or(outcome), errors).successful(command)?;
    peak.ok_or_else(|| {
        Error::new(
            ErrorCode::ProgramFailed,
            format!("{} ended before its memory could be read", command.name()),
        )
    })
}

fn seize(process: Pid) -> Result<()> {
    let unsupported = |error: Errno| {
        Error::new(ErrorCode::Unsupported, format!("cannot trace a program on this machine: {error}"))
            .with_hint(HINT)
    };
    loop {
        match waitpid(process, Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Stopped(..)) => break,
            Ok(_) => {
                return Err(Error::new(
                    ErrorCode::ProgramFailed,
                    "the shell that starts the program ended at once",
                ));
            }
            Err(Errno::EINTR) => {}
            Err(error) => return Err(unsupported(error)),
        }
    }
    let follow_and_stop_at_exit = Options::PTRACE_O_TRACEEXIT
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(process, follow_and_stop_at_exit).map_err(unsupported)
}

/// Lets the traced processes run until the first of them has ended; returns its outcome, and the highest peak at an
/// exit.
fn follow(process: Pid) -> Result<(Outcome, Option<u64>)> {
    let broken =
        |error: Errno| Error::new(ErrorCode::TracingFailed, format!("tracing the program failed: {error}"));
    let (mut highest, mut begun) = (None, false);
    loop {
        // Only processes that this thread traces: other threads may wait for programs of their own.
        let (stopped, deliver) = match trace::wait() {
            Ok(Some((ended, Status::Exited(code)))) if ended == process => {
                return Ok((Outcome::Exited(code), highest));
            }
            Ok(Some((ended, Status::Killed(signal)))) if ended == process => {
                return Ok((Outcome::Signalled(signal), highest));
            }
            Ok(Some((stopped, Status::Event(event)))) => {
                begun |= event == ptrace::Event::PTRACE_EVENT_EXEC as i32;
                if begun && event == ptrace::Event::PTRACE_EVENT_EXIT as i32 {
                    let status =
                        std::fs::read_to_string(format!("/proc/{stopped}/status")).unwrap_or_default();
                    highest = highest.max(high_water_mark(&status));
                }
                (stopped, 0)
            }
            Ok(Some((stopped, Status::Trapped | Status::GroupStop | Status::SystemCall))) => (stopped, 0),
            Ok(Some((stopped, Status::Signal(signal)))) => (stopped, signal),
            Ok(Some((_, Status::Exited(_) | Status::Killed(_))) | None) => continue,
            Err(error) => return Err(broken(error)),
        };
        match trace::resume(stopped, Resume::Run, deliver) {
            // It was ended by a signal meanwhile, which the next wait reports.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(broken(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_read_in_bytes() {
        assert_eq!(high_water_mark("Name:\tx\nVmHWM:\t    1344 kB\nVmRSS:\t 12 kB\n"), Some(1344 * 1024));
        assert_eq!(high_water_mark("Name:\tkthreadd\n"), None);
    }
}
