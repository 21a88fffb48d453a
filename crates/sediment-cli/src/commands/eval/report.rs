// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval report`: reports on an experiment.

use super::output::ReportOutput;
use crate::files;
use crate::ui::Ui;
use clap::Args;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::run::journal;
use sediment_eval::{Experiment, Phase};
use std::path::{Path, PathBuf};

/// Report on an experiment, complete or not
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Experiment file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File to write the report to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    report: ReportOutput,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let experiment = read(&arguments.file, ui)?;
    arguments.report.print(&experiment, arguments.output.as_ref(), ui)
}

/// Reads an experiment file; prints a note if its last line is incomplete.
pub(super) fn read(path: &Path, ui: &Ui) -> Result<Experiment> {
    let name = files::display(path);
    let bytes = files::read_regular(path)?;
    let recorded = journal::read(&bytes).map_err(|error| error.with_input(name.clone()))?;
    if recorded.whole < bytes.len() {
        ui.warn(&format!("{name}: skipped the last line, which is incomplete"));
    }
    let experiment = recorded.experiment;
    let measured = experiment.observations.iter().any(|run| run.phase == Phase::Measured);
    if !measured && experiment.summaries.is_empty() {
        return Err(Error::new(ErrorCode::EmptyRecording, "no runs yet")
            .with_input(name)
            .with_hint(format!("to continue: sediment eval resume {}", path.display())));
    }
    Ok(experiment)
}
