// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `sediment-fleet`.

#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]

mod commands;

/// Programs that parse with many threads are faster with it, and it returns freed memory to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use clap::Parser as _;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    match commands::run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
            // The reader of standard error may be gone.
            let _ = write!(std::io::stderr(), "sediment-fleet: error: {error}\n{hint}");
            ExitCode::from(if error.code() == sediment_core::ErrorCode::Usage { 2 } else { 1 })
        }
    }
}
