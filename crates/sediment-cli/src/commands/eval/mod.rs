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
use crate::values;
use clap::{Args, Subcommand};
use sediment_core::Result;
use sediment_eval::{Analysis, Experiment};
use std::path::Path;

/// Compare builds: is this one faster, and is it the layout or luck?
#[derive(Debug, Args)]
#[command(
    long_about = "Compare builds: is this one faster, and is it the layout or luck?\n\nRuns two or more builds in random blocks, so drift of the machine affects all alike. The verdict is faster, slower, equivalent within a margin, or inconclusive. `quick` compares commands; `run` follows a plan with builds, links in random layouts, servers and counters per unit of work. Every run is written to a file at once, so an interruption loses nothing.",
    after_help = "Exit codes: 3 regression (gate), 4 inconclusive (gate --conclusive); the others as in `sediment --help`."
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

/// Reads an experiment file and analyses it.
pub(crate) fn analysed(path: &Path, ui: &Ui) -> Result<(Experiment, Analysis)> {
    let experiment = report::read(path, ui)?;
    let analysis = sediment_eval::analyse(&experiment)?;
    Ok((experiment, analysis))
}

/// Settings that a user may give in addition to a plan.
#[derive(Debug, Clone, Default, Args)]
struct Limits {
    /// Largest number of blocks; each build runs once per block [default: from the plan, else 40]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: Option<u32>,
    /// Start no block after this time, above 0; accepts 90, 90s, 10m and 2h [default: none]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    budget: Option<f64>,
    /// Stop when the primary metric's interval is this narrow (half-width in per cent), above 0 and below 100 [default:
    /// from the plan, else 0.5]
    #[arg(long, value_name = "PERCENT", value_parser = values::share)]
    precision: Option<f64>,
    /// Seed of all random choices, from 0 [default: random, recorded in the file]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
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
