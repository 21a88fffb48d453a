// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signal dispositions that this process inherited and passes on to the programs it starts.
//!
//! Rust's runtime ignores SIGPIPE before `main` begins, and its `Command` resets that signal to its default in the
//! programs it starts. A process that was started with SIGPIPE ignored, such as a service of systemd, would therefore
//! start programs that end at a closed pipe.

#![allow(unsafe_code)]

use nix::libc;
use std::sync::atomic::{AtomicBool, Ordering};

static IGNORES_SIGPIPE: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's runtime starts.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    // SAFETY: all zeros are a valid sigaction, and the kernel writes into a valid one.
    let handler = unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut now);
        now.sa_sigaction
    };
    IGNORES_SIGPIPE.store(handler == libc::SIG_IGN, Ordering::Relaxed);
}

/// True if this process was started with SIGPIPE ignored.
#[must_use]
pub fn ignores_sigpipe() -> bool {
    IGNORES_SIGPIPE.load(Ordering::Relaxed)
}
