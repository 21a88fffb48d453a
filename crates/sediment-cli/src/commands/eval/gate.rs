// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval gate`: an exit code for CI.

use super::output::ReportOutput;
use crate::exit::ExitCode;
use crate::exit::{INCONCLUSIVE, REGRESSION};
use crate::ui::Ui;
use clap::Args;
use sediment_core::Result;
use sediment_eval::analyse;
use sediment_eval::gate::{Gate, gate};
use std::path::PathBuf;

/// Exit with 3 if an experiment shows a regression
#[derive(Debug, Args)]
#[command(
    long_about = "Exit with 3 if an experiment shows a regression.\n\nA regression is a build whose interval lies on the wrong side of both the margin and the measured noise floor. An inconclusive experiment passes, unless --conclusive is given."
)]
pub(crate) struct Arguments {
    /// Experiment file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Exit with 4 if a build is neither faster, slower nor equivalent
    #[arg(long)]
    conclusive: bool,
    #[command(flatten)]
    report: ReportOutput,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let experiment = super::report::read(&arguments.file, ui)?;
    let analysis = analyse(&experiment)?;
    arguments.report.print(&experiment, None, ui)?;
    Ok(match gate(&analysis) {
        Gate::Pass => ExitCode::SUCCESS,
        Gate::Regression => {
            ui.note("gate: regression");
            ExitCode::from(REGRESSION)
        }
        Gate::Inconclusive if arguments.conclusive => {
            ui.note("gate: inconclusive (--conclusive is set)");
            ExitCode::from(INCONCLUSIVE)
        }
        Gate::Inconclusive => {
            ui.note("gate: no regression, but some builds could not be judged");
            ExitCode::SUCCESS
        }
    })
}
