// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval resume`: continues an interrupted experiment.

use super::output::ReportOutput;
use super::{Limits, session};
use crate::files;
use crate::ui::Ui;
use clap::Args;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::run::journal;
use std::path::PathBuf;

/// Continue an interrupted experiment, or extend its budget
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Experiment file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    report: ReportOutput,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let name = files::display(&arguments.file);
    let bytes = files::read_regular(&arguments.file)?;
    let recorded = journal::read(&bytes).map_err(|error| error.with_input(name.clone()))?;
    if arguments.limits.seed.is_some_and(|seed| seed != recorded.experiment.seed) {
        return Err(
            Error::new(ErrorCode::Usage, "cannot change the seed of an existing experiment").with_input(name)
        );
    }
    if recorded.whole < bytes.len() {
        ui.warn(&format!("{name}: skipped the last line, which is incomplete"));
    }
    let mut plan = recorded.plan.clone();
    arguments.limits.apply(&mut plan);
    let experiment = session::go_on(&plan, recorded, &arguments.file, ui)?;
    arguments.report.print(&experiment, None, ui)
}
