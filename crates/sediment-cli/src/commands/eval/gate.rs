// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval gate`: an exit code for CI.

use super::output::Output;
use crate::exit::ExitCode;
use crate::exit::{INCONCLUSIVE, REGRESSION};
use crate::ui::Ui;
use clap::Args;
use sediment::Result;
use sediment_eval::analyse;
use sediment_eval::gate::{Gate, gate};
use std::path::PathBuf;

/// Exit with 3 where an experiment shows a regression
#[derive(Debug, Args)]
#[command(long_about = "Exit with 3 where an experiment shows a regression.\n\n\
A regression is a build whose interval lies beyond both the margin and the measured noise floor, on the wrong side. An experiment \
that is too small to tell passes, unless --conclusive is given.")]
pub(crate) struct Arguments {
    /// The file of the experiment
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Exit with 4 where a build can be judged neither faster, slower nor equivalent
    #[arg(long)]
    conclusive: bool,
    #[command(flatten)]
    report: Output,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let experiment = super::report::read(&arguments.file, ui)?;
    let analysis = analyse(&experiment)?;
    arguments.report.print(&experiment, None, ui)?;
    Ok(match gate(&analysis) {
        Gate::Pass => ExitCode::SUCCESS,
        Gate::Regression => {
            ui.note("gate: a regression");
            ExitCode::from(REGRESSION)
        }
        Gate::Inconclusive if arguments.conclusive => {
            ui.note("gate: inconclusive, and a conclusive answer was asked for");
            ExitCode::from(INCONCLUSIVE)
        }
        Gate::Inconclusive => {
            ui.note("gate: no regression is shown, but not every build could be judged");
            ExitCode::SUCCESS
        }
    })
}
