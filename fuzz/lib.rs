// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared code of the targets. It runs the checks of the tests, with their counting allocator, under libFuzzer.

#[path = "../crates/sediment-order/tests/bounds/fuzz_check.rs"]
mod fuzz_check;
#[path = "../tests/support/src/mutate/mod.rs"]
mod mutate;

pub use libfuzzer_sys;

use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: fuzz_check::Counting = fuzz_check::Counting;

/// Defines the program of a target; both have the same name.
#[macro_export]
macro_rules! target {
    () => {
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| -> $crate::libfuzzer_sys::Corpus {
            $crate::check(env!("CARGO_BIN_NAME"), bytes)
        });
        $crate::libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
            $crate::mutate(env!("CARGO_BIN_NAME"), data, size, most, seed)
        });
    };
}

/// Checks one input, and prints a line if it needed more memory than all earlier inputs.
pub fn check(target: &str, bytes: &[u8]) -> libfuzzer_sys::Corpus {
    static SAID: AtomicUsize = AtomicUsize::new(0);
    fuzz_check::check_once(target, bytes);
    let peak = fuzz_check::largest_peak();
    let said = SAID.load(Ordering::Relaxed);
    if peak > said + said / 8 {
        SAID.store(peak, Ordering::Relaxed);
        eprintln!("sediment-fuzz: peak memory {peak} bytes, input {} bytes", bytes.len());
    }
    libfuzzer_sys::Corpus::Keep
}

/// Mutates an input. If the target's format is known, three of four mutations keep the input well-formed; the others change random
/// bytes.
pub fn mutate(target: &str, data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let mutant = if seed % 4 == 0 { None } else { mutate::mutate(target, &data[..size], most, u64::from(seed)) };
    match mutant {
        Some(mutant) => {
            data[..mutant.len()].copy_from_slice(&mutant);
            mutant.len()
        }
        None => libfuzzer_sys::fuzzer_mutate(data, size, most),
    }
}
