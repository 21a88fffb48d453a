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
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    budget: Option<f64>,
    /// Stop at this half-width of the primary metric's interval, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = values::share)]
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
