// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval`: experiments that compare builds.

mod builds;
mod gate;
mod import;
mod output;
mod quick;
mod report;
mod resume;
mod run;
mod session;

use crate::exit::ExitCode;
use crate::ui::Ui;
use clap::{Args, Subcommand};
use sediment::Result;

/// Compare builds: is this one faster, and is it the layout or luck?
#[derive(Debug, Args)]
#[command(
    long_about = "Compare builds: is this one faster, and is it the layout or luck?\n\n\
Runs two or more builds of anything in random blocks, so that what drifts on a machine meets all alike, and says what follows: \
faster, slower, equivalent within a margin, or inconclusive. `quick` compares commands as they are; `run` does what a plan says: \
builds, links that differ in luck only, servers, counters per unit of work. Every run is kept in a file as it is made; nothing \
measured is lost.",
    after_help = "Exit codes: 3 a regression (gate), 4 inconclusive (gate --conclusive); the others as of sediment itself."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Quick(quick::Arguments),
    Run(run::Arguments),
    Resume(resume::Arguments),
    Report(report::Arguments),
    Gate(gate::Arguments),
    Import(import::Arguments),
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    match &arguments.command {
        Command::Quick(arguments) => quick::run(arguments, ui),
        Command::Run(arguments) => run::run(arguments, ui),
        Command::Resume(arguments) => resume::run(arguments, ui),
        Command::Report(arguments) => report::run(arguments, ui),
        Command::Import(arguments) => import::run(arguments, ui),
        Command::Gate(arguments) => return gate::run(arguments, ui),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// What a user may say of a run beside its plan.
#[derive(Debug, Clone, Default, Args)]
struct Limits {
    /// Most blocks; in each every build runs once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: Option<u32>,
    /// No block begins after this time, such as 90s, 10m or 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<f64>,
    /// Stop at this half-width of the primary metric's interval, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    precision: Option<f64>,
    /// Seed of everything that is drawn; without it one is drawn, and recorded
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
}

impl Limits {
    fn apply(&self, plan: &mut sediment_eval::plan::Plan) {
        let run = &mut plan.run;
        run.blocks = self.blocks.unwrap_or(run.blocks);
        run.pilot = run.pilot.min(run.blocks);
        run.time = self.budget.or(run.time);
        run.precision = self.precision.unwrap_or(run.precision);
    }
}

/// A time in seconds, or with s, m or h behind it.
fn duration(text: &str) -> std::result::Result<f64, String> {
    let (number, scale) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1.0),
        Some(b'm') => (&text[..text.len() - 1], 60.0),
        Some(b'h') => (&text[..text.len() - 1], 3600.0),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if number >= 0.0 && number * scale < 1e7 => Ok(number * scale),
        _ => Err(format!("{text} is no time; write 90s, 10m or 2h")),
    }
}

/// A share written in per cent, above 0 and below 100.
fn percent(text: &str) -> std::result::Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(number) if number / 100.0 > 0.0 && number < 100.0 => Ok(number / 100.0),
        _ => Err(format!("{text} is no percentage above 0 and below 100")),
    }
}

#[cfg(test)]
mod tests {
    use super::{duration, percent};

    #[test]
    fn times_and_shares_are_as_people_write_them() {
        assert_eq!((duration("90"), duration("1.5m"), duration("2h")), (Ok(90.0), Ok(90.0), Ok(7200.0)));
        assert!(duration("").is_err() && duration("-1s").is_err() && duration("nan").is_err());
        assert_eq!((percent("0.5"), percent("2%")), (Ok(0.005), Ok(0.02)));
        assert!(percent("101").is_err() && percent("x").is_err());
        assert!(percent("0").is_err() && percent("100").is_err() && percent("nan").is_err());
    }
}
