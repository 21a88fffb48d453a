// SPDX-License-Identifier: MIT OR Apache-2.0
//! One recording, from the choice of the means to the profile, for the commands that make one.

use crate::commands::import;
use crate::files::{self, SystemFiles, Workshop};
use crate::ui::Ui;
use clap::Args;
use sediment::measure::Stop;
use sediment::measure::command::Outcome;
use sediment::read::{self, Recording};
use sediment::record::breakpoints::Rates;
use sediment::record::{self, Job, Kept, Progress, RECORDERS, Recorder, Settings, Target, Until};
use sediment::resolve::Resolved;
use sediment::trace::Sequence;
use sediment::{Error, ErrorKind, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::time::Duration;

/// How a program is recorded.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// End the recording after so many seconds; recorded by breakpoints, the program runs on
    #[arg(long, value_name = "SECONDS", conflicts_with = "until", value_parser = seconds)]
    seconds: Option<Duration>,
    /// When the recording ends: with the program, at its first output, or after so many seconds
    #[arg(long, value_name = "EXIT|OUTPUT|SECONDS", value_parser = until)]
    until: Option<Until>,
    /// What to record with; the default is the best that works here, as `sediment doctor` tells
    #[arg(long, value_name = "METHOD", value_parser = methods())]
    method: Option<String>,
    /// The share of the program's time that estimates of call rates may cost, for breakpoints
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    overhead: f64,
    /// Leave this program or library alone, for code that looks at its own bytes; may be given again
    #[arg(long, value_name = "DSO")]
    exclude: Vec<String>,
    /// What functions are drawn by when their rates are estimated
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

/// What came of a recording.
pub(crate) struct Made {
    pub(crate) recording: Recording,
    pub(crate) resolved: Resolved,
    pub(crate) outcome: Option<Outcome>,
}

impl Options {
    /// Records, says by what means and why, and resolves what was recorded. `startup`: first uses alone, by breakpoints.
    pub(crate) fn record(&self, target: &Target, startup: bool, ui: &Ui) -> Result<Made> {
        let settings = self.settings(startup)?;
        let recorder = self.recorder(target, &settings, startup, ui)?;
        let workshop = Workshop::new(None)?;
        let files = SystemFiles::new(None, &[])?;
        let bar = ui.spinner("recording");
        let mut watch = |progress: Progress| {
            if let Some(warning) = progress.warning {
                bar.suspend(|| ui.note(&warning));
            }
            if let Some(functions) = progress.functions {
                bar.set_message(format!("recording: {functions} functions have run"));
            }
        };
        let mut job =
            Job { target, settings: &settings, folder: workshop.path(), files: &files, watch: &mut watch };
        let recorded = (recorder.record)(&mut job);
        bar.finish_and_clear();
        let recorded = recorded?;
        let (recording, resolved) = match recorded.kept {
            Kept::Here(recording, steps) => {
                let mut resolved = import::resolve(&recording, &files, false, ui)?;
                if !steps.is_empty() {
                    let mut sequence = Sequence::new(&resolved.functions);
                    sequence.steps(&steps);
                    sequence.put_into(&mut resolved.profile, false);
                }
                (*recording, resolved)
            }
            Kept::Files(paths) => {
                let settings = read::Settings::default();
                import::Inputs::open(&paths, ui)?.resolve(&settings, &files, false, None, ui)?
            }
        };
        for line in crate::commands::what_it_cannot_tell(&resolved.profile) {
            ui.note(&line);
        }
        Ok(Made { recording, resolved, outcome: recorded.outcome })
    }

    fn settings(&self, startup: bool) -> Result<Settings> {
        let rates = (!startup).then_some(Rates { overhead: self.overhead, seed: self.seed });
        let until = self.seconds.map(Until::After).or(self.until).unwrap_or_default();
        Ok(Settings {
            exclude: self.exclude.iter().cloned().collect(),
            rates,
            until,
            stop: stop_on_signals()?,
        })
    }

    fn recorder(
        &self,
        target: &Target,
        settings: &Settings,
        startup: bool,
        ui: &Ui,
    ) -> Result<&'static Recorder> {
        let named = self.method.as_deref().or(startup.then_some("breakpoints"));
        if let Some(recorder) = named.and_then(record::recorder) {
            (recorder.suits)(target, settings)?;
            (recorder.available)()?;
            return Ok(recorder);
        }
        let (recorder, passed) = record::best(target, settings)?;
        let reasons: Vec<String> =
            passed.iter().map(|(better, why)| format!("not by {}: {why}", better.name)).collect();
        let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
        ui.note(&format!("recording by {}{why}", recorder.name));
        Ok(recorder)
    }
}

fn methods() -> Vec<&'static str> {
    RECORDERS.iter().map(|recorder| recorder.name).collect()
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
