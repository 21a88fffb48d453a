// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment record`: runs a program, or watches one that runs, and writes its profile.

use super::import;
use crate::exit;
use crate::files::{self, SystemFiles};
use crate::ui::Ui;
use clap::Args;
use sediment::measure::Stop;
use sediment::read::{Recording, Step};
use sediment::record::breakpoints::{self, Progress, Rates, Recorded, Settings, Target, Until};
use sediment::resolve::Resolved;
use sediment::trace::Sequence;
use sediment::{Error, ErrorKind, Result, profile};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Record a program as it runs, and write its profile
#[derive(Debug, Args)]
#[command(long_about = "Record a program as it runs, and write its profile.\n\n\
The program runs as it would without: with the same input, output and exit code, which is also that of this command. What it \
starts is recorded too. The interrupt key ends the recording and keeps what was recorded.")]
pub(crate) struct Arguments {
    /// The program to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, required_unless_present = "pid")]
    command: Vec<OsString>,
    /// Watch this running process instead, and what it starts; may be given again
    #[arg(long, value_name = "ID", conflicts_with = "command")]
    pid: Vec<i32>,
    /// End the recording after so many seconds; the program runs on
    #[arg(long, value_name = "SECONDS", conflicts_with = "until", value_parser = seconds)]
    seconds: Option<Duration>,
    /// The profile to write
    #[arg(short, long, value_name = "FILE", default_value = "sediment.gv")]
    output: PathBuf,
    /// Record the order of first use alone, exactly, from the program's first instruction on
    #[arg(long)]
    startup: bool,
    /// When the recording ends: with the program, at its first output, or after so many seconds
    #[arg(long, value_name = "EXIT|OUTPUT|SECONDS", value_parser = until)]
    until: Option<Until>,
    /// The share of the program's time that call rates may cost, in percent
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent, conflicts_with = "startup")]
    overhead: f64,
    /// Leave this program or library alone, for code that looks at its own bytes; may be given again
    #[arg(long, value_name = "DSO")]
    exclude: Vec<String>,
    /// What functions are drawn by for their rates
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let settings = arguments.settings()?;
    let files = SystemFiles::new(None, &[])?;
    let target = if arguments.pid.is_empty() {
        Target::Program(arguments.command.clone())
    } else {
        Target::Processes(arguments.pid.clone())
    };
    let bar = ui.spinner("recording");
    let mut watch = |progress: Progress| {
        bar.set_message(format!("recording: {} functions have run", progress.functions));
    };
    let recorded = breakpoints::record(&target, &settings, &files, &mut watch);
    bar.finish_and_clear();
    let Recorded { recording, steps, outcome } = recorded?;
    let resolved = resolve(&recording, &steps, &files, ui)?;
    files::write(&arguments.output, profile::text::print(&resolved.profile).as_bytes(), ui)?;
    ui.note(&format!("the profile is in {}", files::display(&arguments.output)));
    Ok(outcome.map_or(ExitCode::SUCCESS, exit::as_the_program))
}

impl Arguments {
    fn settings(&self) -> Result<Settings> {
        let rates = (!self.startup).then_some(Rates { overhead: self.overhead, seed: self.seed });
        let until = match (self.seconds, self.until) {
            (Some(limit), _) => Until::After(limit),
            (None, Some(until)) => until,
            (None, None) => Until::Exit,
        };
        Ok(Settings {
            exclude: self.exclude.iter().cloned().collect(),
            rates,
            until,
            stop: stop_on_signals()?,
        })
    }
}

/// A stop that the interrupt key and the signals of a system that shuts down ask; not those that we were started to ignore, which
/// the program is to ignore as well.
fn stop_on_signals() -> Result<Stop> {
    let stop = Stop::new();
    let ignored = files::ignored_signals();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored >> (signal - 1) & 1 == 0 {
            signal_hook::flag::register(signal, stop.flag())
                .map_err(|error| Error::failed(format!("signals cannot be caught: {error}")))?;
        }
    }
    Ok(stop)
}

/// Functions for places, with what ran near in time.
fn resolve(recording: &Recording, steps: &[Step], files: &SystemFiles, ui: &Ui) -> Result<Resolved> {
    let mut resolved = import::resolve(recording, files, false, ui)?;
    if !steps.is_empty() {
        let mut sequence = Sequence::new(&resolved.functions);
        sequence.steps(steps);
        sequence.put_into(&mut resolved.profile, false);
    }
    Ok(resolved)
}

fn seconds(text: &str) -> Result<Duration> {
    let wrong = || Error::new(ErrorKind::Usage, "this is no number of seconds");
    let number: f64 = text.strip_suffix('s').unwrap_or(text).parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

fn until(text: &str) -> Result<Until> {
    match text {
        "exit" | "EXIT" => Ok(Until::Exit),
        "output" | "OUTPUT" => Ok(Until::Output),
        _ => seconds(text).map(Until::After),
    }
}

/// A share of what is written in percent.
fn percent(text: &str) -> Result<f64> {
    let number: f64 = text.strip_suffix('%').unwrap_or(text).parse().unwrap_or(f64::NAN);
    if number > 0.0 && number <= 90.0 {
        return Ok(number / 100.0);
    }
    Err(Error::new(ErrorKind::Usage, "a percentage above 0 and up to 90 is wanted"))
}
