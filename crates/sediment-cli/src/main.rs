// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `sediment` program: reads the command line, runs one command, prints its error, and returns an exit code. Under
//! the name of a linker it is the wrapper of that linker.

#![cfg_attr(not(test), no_main)]
// Names in profiles are untrusted: they are printed only through ui.rs, which escapes them.
#![warn(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(unreachable_pub)]

mod change;
mod commands;
mod compiler;
mod counter_fit;
mod distribution;
mod exit;
mod files;
mod inputs;
mod kept_order;
mod llvm_profdata;
mod next_steps;
mod output;
mod packages;
mod padding_object;
mod recording;
mod start;
mod ui;
mod unit_counters;
mod unit_graphs;
mod values;
mod wrapper;

use exit::ExitCode;
use std::ffi::OsString;

/// Runs the command given by the program's name and arguments.
fn run(arguments: Vec<OsString>) -> ExitCode {
    if let Some(name) = wrapper::called_as(&arguments) {
        return wrapper::run(&name, &arguments).unwrap_or_else(|error| failed(&error, &ui::Ui::new()));
    }
    start::open_streams();
    start::outlive_readers();
    let ui = ui::Ui::new();
    let outcome = commands::run(arguments, &ui);
    ui.close();
    outcome.unwrap_or_else(|error| failed(&error, &ui))
}

fn failed(error: &sediment_core::Error, ui: &ui::Ui) -> ExitCode {
    ui.error(error);
    exit::code(error.kind())
}
