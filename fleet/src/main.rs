// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `sediment-fleet`.

#![warn(clippy::unwrap_used, clippy::panic, clippy::unreachable)]

mod commands;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    match commands::run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("sediment-fleet: error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(if error.code() == sediment_core::ErrorCode::Usage { 2 } else { 1 })
        }
    }
}
