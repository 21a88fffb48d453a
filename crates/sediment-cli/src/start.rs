// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the process without the runtime of Rust's standard library. That runtime ignores SIGPIPE and opens closed
//! standard streams, which the linker executed by the wrapper would inherit. It also costs system calls in each link.
//! Commands get the necessary parts of it from this module.

#![allow(unsafe_code)] // main of a C program receives pointers

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

/// Exit code after a panic, as in other Rust programs.
const PANICKED: c_int = 101;

/// Start of the program, called by the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))] // tests have their own main
extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    let arguments = (0..usize::try_from(count).unwrap_or(0)).map(|at| {
        // SAFETY: the C library passes this number of pointers to strings that live as long as the process.
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

/// Opens /dev/null for each closed standard stream: otherwise the next opened file would become that stream.
pub(crate) fn open_streams() {
    while let Ok(file) = File::options().read(true).write(true).open("/dev/null") {
        if file.as_raw_fd() > 2 {
            break;
        }
        let _ = file.into_raw_fd();
    }
}

/// Returns a stop that is set by the interrupt key and by the signals of a system shutdown.
pub(crate) fn stop_on_signals() -> Result<Stop> {
    let stop = Stop::new();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.flag())
            .map_err(|error| Error::new(ErrorCode::Io, format!("cannot catch signals: {error}")))?;
    }
    Ok(stop)
}

/// Makes writing to a pipe without a reader return an error instead of ending the process. Started programs get the
/// signal as this process inherited it.
pub(crate) fn outlive_readers() {
    let ignored = files::ignored_signals() >> (SIGPIPE - 1) & 1 == 1;
    if !ignored {
        // A handler, because started programs would inherit an ignored signal.
        let _ = signal_hook::flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)));
    }
}
