// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the targets share: the check of the tests, with its counting allocator, under libFuzzer.

#[path = "../crates/sediment/tests/support/fuzz_check.rs"]
mod fuzz_check;

pub use libfuzzer_sys;

use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: fuzz_check::Counting = fuzz_check::Counting;

/// The program of a target, which has the name of the target.
#[macro_export]
macro_rules! target {
    () => {
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| -> $crate::libfuzzer_sys::Corpus {
            $crate::check(env!("CARGO_BIN_NAME"), bytes)
        });
    };
}

/// Checks one input, and says when more memory was taken than ever before.
pub fn check(target: &str, bytes: &[u8]) -> libfuzzer_sys::Corpus {
    static SAID: AtomicUsize = AtomicUsize::new(0);
    fuzz_check::check(target, bytes);
    let peak = fuzz_check::largest_peak();
    let said = SAID.load(Ordering::Relaxed);
    if peak > said + said / 8 {
        SAID.store(peak, Ordering::Relaxed);
        eprintln!("sediment-fuzz: peak memory {peak} bytes, input {} bytes", bytes.len());
    }
    libfuzzer_sys::Corpus::Keep
}
