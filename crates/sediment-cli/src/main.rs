// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `sediment` program: reads the command line, runs one command, prints what went wrong, and turns it into an exit code. Under
//! the name of a linker it is the wrapper of that linker.

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
mod wrapper;

use std::process::ExitCode;

fn main() -> ExitCode {
    let ui = ui::Ui::new();
    let arguments: Vec<_> = std::env::args_os().collect();
    let outcome = match wrapper::called_as(&arguments) {
        Some(name) => wrapper::run(&name, &arguments, &ui),
        None => commands::run(arguments, &ui),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            ui.error(&error);
            exit::code(error.kind())
        }
    }
}
