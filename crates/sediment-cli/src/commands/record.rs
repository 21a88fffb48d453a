// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment record`: runs a program, or watches what runs, and writes its profile.

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

/// Record a program as it runs, and write its profile
#[derive(Debug, Args)]
#[command(long_about = "Record a program as it runs, and write its profile.\n\n\
The program runs as it would without: with the same input, output and exit code, which is also that of this command. What it \
starts is recorded too. The interrupt key ends the recording and keeps what was recorded.")]
pub(crate) struct Arguments {
    /// The program to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, required_unless_present_any = ["pid", "system"])]
    command: Vec<OsString>,
    /// Watch this running process instead, and what it starts; may be given again
    #[arg(long, value_name = "ID", conflicts_with = "command")]
    pid: Vec<i32>,
    /// Watch all that this machine runs, by perf
    #[arg(long, conflicts_with_all = ["command", "pid"])]
    system: bool,
    /// The profile to write
    #[arg(short, long, value_name = "FILE", default_value = "sediment.gv")]
    output: PathBuf,
    /// Record the order of first use alone, exactly, from the program's first instruction on
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
    ui.note(&format!("the profile is in {}", files::display(&arguments.output)));
    Ok(made.outcome.map_or(ExitCode::SUCCESS, exit::as_the_program))
}

/// What a command line asks to record.
pub(super) fn target(command: &[OsString], pid: &[i32], system: bool) -> Target {
    if system {
        Target::System
    } else if pid.is_empty() {
        Target::Program(command.to_vec())
    } else {
        Target::Processes(pid.to_vec())
    }
}
