// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the program as its user would, in a folder, and returns its output.

#![allow(dead_code)] // each program that includes it uses its part

pub mod words;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Prepares the program to be started in a folder, with empty standard input.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sediment"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

pub fn sediment(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the standard output of a run, which must succeed.
pub fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", err(output));
    out(output)
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the exit code as in a shell.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap())
}
