// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval`: experiments that compare builds.

mod builds;
mod gate;
mod import;
mod noise;
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
use sediment_core::escape::toml;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::plan::Extraction;
use sediment_eval::{Analysis, Experiment};
use std::ffi::OsString;
use std::path::Path;

/// Compare builds: is this one faster, and is it the layout or luck?
#[derive(Debug, Args)]
#[command(
    long_about = "Compare builds: is this one faster, and is it the layout or luck?\n\nRuns two or more builds in blocks, in random order within each block, so that drift of the machine affects all builds alike. The verdict is faster, slower, equivalent within a margin, or inconclusive. `quick` compares commands; `noise` measures how far links of one program differ; `run` follows a plan with builds, links in random layouts, servers and counters per unit of work. Every run is written to a file at once, so an interruption loses nothing.",
    after_help = "Exit codes: 3 regression (gate), 4 inconclusive (gate --conclusive), 5 noise above a threshold (noise --fail-above); the others as in `sediment --help`."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: EvalCommand,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    Quick(quick::Arguments),
    Noise(noise::Arguments),
    Run(run::Arguments),
    Resume(resume::Arguments),
    Report(report::Arguments),
    Gate(gate::Arguments),
    Import(import::Arguments),
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    match &arguments.command {
        EvalCommand::Quick(arguments) => quick::run(arguments, ui),
        EvalCommand::Noise(arguments) => return noise::run(arguments, ui),
        EvalCommand::Run(arguments) => run::run(arguments, ui),
        EvalCommand::Resume(arguments) => resume::run(arguments, ui),
        EvalCommand::Report(arguments) => report::run(arguments, ui),
        EvalCommand::Import(arguments) => import::run(arguments, ui),
        EvalCommand::Gate(arguments) => return gate::run(arguments, ui),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Reads and analyses an experiment file.
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

/// How a plan that is made of options runs its commands.
#[derive(Debug, Clone, Args)]
struct RunOptions {
    /// Regular expression for the amount of work in the output of a run; its first group is the number [default: none]
    #[arg(long, value_name = "REGEX", value_parser = work)]
    work: Option<String>,
    /// Shell command to run before each run, uncounted [default: none]
    #[arg(short, long, value_name = "COMMAND")]
    prepare: Option<String>,
    /// Also count runs that end with an exit code other than 0
    #[arg(short, long)]
    ignore_failure: bool,
    /// Judge builds even if they print different results
    #[arg(long)]
    ignore_output: bool,
    /// Number of uncounted runs of each program at the start
    #[arg(short, long, visible_alias = "warmup", value_name = "COUNT", default_value_t = 1)]
    warm_ups: u32,
    /// Run only on these processors, for example 1 or 2,3 [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    pin: Vec<u32>,
    /// Do not use perf
    #[arg(long)]
    no_counters: bool,
    /// Stop a run after this time, above 0; accepts 90, 90s and 2m
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds, default_value = "600")]
    time_limit: f64,
}

fn work(text: &str) -> std::result::Result<String, String> {
    match Extraction::pattern(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl RunOptions {
    /// Returns the beginning of a plan's table `[run]`.
    fn settings(&self) -> String {
        let mut text = format!(
            "\n[run]\nwarm-ups = {}\npin = {:?}\ntime-limit = {:?}\n",
            self.warm_ups, self.pin, self.time_limit
        );
        if self.ignore_failure {
            text += "ignore-failure = true\n";
        }
        if self.ignore_output {
            text += "ignore-output = true\n";
        }
        if self.no_counters {
            text += "counters = []\n";
        }
        text
    }

    /// Returns the workload of a plan. `command` is in TOML.
    fn workload(&self, name: &str, command: &str) -> String {
        let mut text = format!("\n[[workload]]\nname = {}\ncommand = {command}\n", toml(name));
        if let Some(prepare) = &self.prepare {
            text += &format!("prepare = {}\n", toml(prepare));
        }
        if let Some(work) = &self.work {
            text += &format!("work = {{ regex = {} }}\n", toml(work));
        }
        text
    }
}

/// Returns a list's items in TOML.
fn list(words: &[String]) -> String {
    words.iter().map(|word| toml(word)).collect::<Vec<_>>().join(", ")
}

/// Returns words of the command line as text, because a plan is text.
fn texts(words: &[OsString]) -> Result<Vec<String>> {
    let text = |word: &OsString| {
        word.clone().into_string().map_err(|word| {
            let message = format!("{} is not UTF-8; put it into a script", word.to_string_lossy());
            Error::new(ErrorCode::Usage, message)
        })
    };
    words.iter().map(text).collect()
}
