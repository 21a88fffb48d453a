// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment record`: records a program or running processes, and writes the profile.

use crate::exit;
use crate::exit::ExitCode;
use crate::files;
use crate::recording::{Options, Side};
use crate::ui::Ui;
use clap::Args;
use sediment::record::Target;
use sediment::{Result, profile};
use std::ffi::OsString;
use std::path::PathBuf;

/// Record a program and write its profile
#[derive(Debug, Args)]
#[command(
    long_about = "Record a program and write its profile.\n\nThe program keeps its input, output and exit code; the exit code is also that of this command. Child processes are recorded too. Ctrl-C ends the recording and keeps what was recorded."
)]
pub(crate) struct Arguments {
    /// Program to run, with its arguments
    #[arg(value_name = "COMMAND", last = true, required_unless_present_any = ["pid", "system"])]
    command: Vec<OsString>,
    /// Record this running process and its children instead; repeatable [default: run COMMAND]
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Vec<i32>,
    /// Record the whole machine, by perf
    #[arg(long, conflicts_with_all = ["command", "pid"])]
    system: bool,
    /// Profile to write
    #[arg(short, long, value_name = "FILE", default_value = "sediment.gv")]
    output: PathBuf,
    /// Record only the order of first use, exactly, from the first instruction on
    #[arg(long)]
    startup: bool,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    files::expect_to_write(&arguments.output)?;
    let target = target(&arguments.command, &arguments.pid, arguments.system);
    let made = match arguments.options.record(&target, arguments.startup, ui)? {
        Side::Recorder(made) => made,
        Side::Front(code) => return Ok(code),
    };
    files::write(&arguments.output, profile::text::print(&made.resolved.profile).as_bytes(), ui)?;
    ui.note(&format!("wrote the profile to {}", files::display(&arguments.output)));
    Ok(made.outcome.map_or(ExitCode::SUCCESS, exit::as_the_program))
}

/// Target of a recording on the command line.
pub(super) fn target(command: &[OsString], pid: &[i32], system: bool) -> Target {
    if system {
        Target::System
    } else if pid.is_empty() {
        Target::Program(command.to_vec())
    } else {
        Target::Processes(pid.to_vec())
    }
}
