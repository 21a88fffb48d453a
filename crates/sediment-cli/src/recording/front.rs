// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process at the terminal while another process records: forwards signals, and ends when the other ends.

use crate::exit::{self, ExitCode};
use crate::files;
use crate::ui::Ui;
use nix::libc;
use nix::unistd::{getpid, getsid};
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Stop;
use sediment_process::command::Outcome;
use sediment_record::tracing::apart::Front;
use signal_hook::consts::signal;
use signal_hook::iterator::Signals;

/// The signals that would end this process, except signals that cannot be caught or that the processor raises.
const ENDING: &[i32] = &[
    signal::SIGHUP,
    signal::SIGINT,
    signal::SIGQUIT,
    signal::SIGABRT,
    signal::SIGUSR1,
    signal::SIGUSR2,
    signal::SIGALRM,
    signal::SIGTERM,
    STKFLT,
    signal::SIGXCPU,
    signal::SIGXFSZ,
    signal::SIGVTALRM,
    signal::SIGPROF,
    signal::SIGIO,
    PWR,
];
const STKFLT: i32 = 16;
const PWR: i32 = 30;
/// Real-time signals for programs; the C library reserves lower ones, which cannot be caught.
fn real_time() -> std::ops::RangeInclusive<i32> {
    libc::SIGRTMIN()..=libc::SIGRTMAX()
}

/// Signals that end a recording. If a signal is ignored at the start, the program ignores it too.
fn ending() -> impl Iterator<Item = i32> {
    let ignored = files::ignored_signals();
    ENDING.iter().copied().chain(real_time()).filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// Returns a stop that these signals set.
pub(super) fn stop_on_signals() -> Result<Stop> {
    let stop = Stop::new();
    for signal in ending() {
        signal_hook::flag::register(signal, stop.flag()).map_err(uncaught)?;
    }
    Ok(stop)
}

/// Lets the program begin, and waits until it and the recorder have ended. The first signal ends the recording, later
/// ones end the recorder.
pub(super) fn attend(mut front: Front, stop: &Stop, ui: &Ui) -> Result<ExitCode> {
    let mut signals = Signals::new(ending().chain([signal::SIGCHLD, signal::SIGCONT])).map_err(uncaught)?;
    let had_terminal = has_terminal();
    front.begin();
    let mut asked = u32::from(stop.asked());
    if stop.asked() {
        front.stop();
    }
    let outcome = loop {
        if let Some(outcome) = front.look() {
            break outcome;
        }
        for signal in signals.wait() {
            // If this process leads the session, the kernel reports a closed terminal only to it.
            if signal == signal::SIGHUP && had_terminal && leads_session() && !has_terminal() {
                front.pass_on(signal);
            }
            if signal == signal::SIGCONT {
                front.go_on();
            } else if signal != signal::SIGCHLD {
                asked += 1;
                if asked == 1 { front.stop() } else { front.end() }
            }
        }
    };
    match outcome {
        Outcome::Exited(code) => Ok(ExitCode::from(code as u8)),
        Outcome::Signalled(_) if front.began_in_vain() => Ok(exit::as_the_program(outcome)),
        Outcome::Signalled(number) => {
            // A program that continued without its recorder has its own exit code.
            if let Some(outcome @ Outcome::Exited(_)) = front.program_outcome() {
                ui.warn(&format!("signal {number} ended the recording process; nothing was written"));
                return Ok(exit::as_the_program(outcome));
            }
            let why = format!("signal {number} ended the recording process; nothing was written");
            Err(Error::new(ErrorCode::ProgramFailed, why).with_hint("the recorded program also ended"))
        }
        Outcome::OutOfTime | Outcome::Stopped => {
            ui.note("the recording process ended with an unknown status");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn has_terminal() -> bool {
    files::can_be_opened("/dev/tty")
}

fn leads_session() -> bool {
    getsid(None) == Ok(getpid())
}

fn uncaught(error: std::io::Error) -> Error {
    Error::new(ErrorCode::Io, format!("cannot catch signals: {error}"))
}
