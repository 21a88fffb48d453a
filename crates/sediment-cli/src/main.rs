// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `sediment` program: reads the command line, runs one command, prints what went wrong, and turns it into an exit code.

// Names in profiles come from strangers: they reach the screen through ui.rs alone, which makes them safe.
#![warn(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

mod commands;
mod demo;
mod distribution;
mod exit;
mod files;
mod packages;
mod recording;
mod ui;
mod unit_graphs;

use std::process::ExitCode;

fn main() -> ExitCode {
    let ui = ui::Ui::new();
    match commands::run(std::env::args_os().collect(), &ui) {
        Ok(code) => code,
        Err(error) => {
            ui.error(&error);
            exit::code(error.kind())
        }
    }
}
