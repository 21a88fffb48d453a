// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start of the process without the runtime of Rust's standard library, which ignores SIGPIPE and opens closed standard
//! streams. The linker that the wrapper becomes would inherit both. It also costs system calls in each link. Commands get
//! what they need of it here.

#![allow(unsafe_code)] // a C program's main is handed pointers

use crate::files;
use nix::libc::SIGPIPE;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code after a panic, as in any other Rust program.
const PANICKED: c_int = 101;

/// The start of the program, called by the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))] // tests have a start of their own
extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    let arguments = (0..usize::try_from(count).unwrap_or(0)).map(|at| {
        // SAFETY: the C library hands over that many pointers to strings that live as long as the process.
        let word = unsafe { CStr::from_ptr(*words.add(at)) };
        OsStr::from_bytes(word.to_bytes()).to_owned()
    });
    let arguments = arguments.collect();
    std::panic::catch_unwind(|| crate::run(arguments).into()).unwrap_or(PANICKED)
}

/// True if standard input, output and error are open.
pub(crate) fn streams_are_open() -> bool {
    File::open("/dev/null").is_ok_and(|file| file.as_raw_fd() > 2)
}

/// Opens /dev/null for each standard stream that is closed: else the next file that is opened would be taken for it.
pub(crate) fn open_streams() {
    while let Ok(file) = File::options().read(true).write(true).open("/dev/null") {
        if file.as_raw_fd() > 2 {
            break;
        }
        let _ = file.into_raw_fd();
    }
}

/// A stop that the interrupt key and the signals of a system that shuts down ask.
pub(crate) fn stop_on_signals() -> Result<Stop> {
    let stop = Stop::new();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.flag())
            .map_err(|error| Error::new(ErrorCode::Io, format!("cannot catch signals: {error}")))?;
    }
    Ok(stop)
}

/// Makes writing to a pipe whose reader is gone an error, and not the end of the process. A program that is started has the signal
/// as this one had it.
pub(crate) fn outlive_readers() {
    let ignored = files::ignored_signals() >> (SIGPIPE - 1) & 1 == 1;
    if !ignored {
        // A handler, as an ignored signal would be inherited.
        let _ = signal_hook::flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)));
    }
}
