// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signal dispositions that this process inherited and passes on to the programs it starts.
//!
//! Rust's runtime ignores SIGPIPE before `main` begins, and its `Command` sets that signal back to its default in what it starts. Who
//! was started to ignore it, as services of systemd are, would start programs that end at a closed pipe.

#![allow(unsafe_code)]

use nix::libc;
use std::sync::atomic::{AtomicBool, Ordering};

static IGNORES_SIGPIPE: AtomicBool = AtomicBool::new(false);

/// Runs before the runtime begins.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    // SAFETY: all zeros are a sigaction, and the kernel writes one, which is there.
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
