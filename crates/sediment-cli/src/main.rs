// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `sediment` program: reads the command line, runs one command, prints what went wrong, and turns it into an exit code. Under
//! the name of a linker it is the wrapper of that linker.

#![cfg_attr(not(test), no_main)]
// Names in profiles come from strangers: they reach the screen through ui.rs alone, which makes them safe.
#![warn(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

mod commands;
mod demo;
mod distribution;
mod exit;
mod files;
mod inputs;
mod kept_order;
mod packages;
mod recording;
mod start;
mod ui;
mod unit_graphs;
mod values;
mod wrapper;

use exit::ExitCode;
use std::ffi::OsString;

/// Does what the program's name and arguments say.
fn run(arguments: Vec<OsString>) -> ExitCode {
    let outcome = match wrapper::called_as(&arguments) {
        Some(name) => wrapper::run(&name, &arguments),
        None => {
            start::open_streams();
            start::outlive_readers();
            commands::run(arguments, &ui::Ui::new())
        }
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            ui::Ui::new().error(&error);
            exit::code(error.kind())
        }
    }
}
